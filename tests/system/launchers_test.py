"""The same program under every launcher gives the same bits, and every launcher's variables are understood."""
import pathlib
import shutil
import unittest

import harness
from harness import COHORT, MNIST, MPIRUN, TORCHRUN, SystemTest

JOB = ["--max-steps=20", "--epochs=1", "--limit-val-batches=2", "--limit-test-batches=2", "--seed=7",
       "--summary-json=summary.json"]
SPREAD = ["--nnodes=2", "--nproc-per-node=1"]


class LaunchersTest(SystemTest):
    def weights(self, command, environment=None):
        self.succeed(command, environment)
        summary = self.summary()
        self.assertEqual(summary["world_size"], 2)
        self.assertEqual(summary["steps"], 20)
        self.assertEqual(summary["collective"], "shm")
        digests = summary["weights_sha256"]
        self.assertEqual(len(digests), 2)
        self.assertEqual(digests[0], digests[1], "ranks ended with different weights")
        (self.folder / "summary.json").unlink()
        return digests[0]

    def train_to_the_same_bits(self, *commands):
        one_thread = {"OMP_NUM_THREADS": "1"}
        started = [self.weights([*command, *JOB], one_thread) for command in commands]
        self.assertEqual(len(set(started)), 1, started)

    def meet_at(self, *places):
        for strategy, address in places:
            with self.subTest(strategy=strategy, address=address):
                self.succeed([MNIST, f"--strategy={strategy}", "--devices=2", *JOB], environment={"MASTER_ADDR": address})


class Launchers(LaunchersTest):
    def test_all_launchers_train_to_the_same_bits(self):
        self.train_to_the_same_bits([MNIST, "--strategy=ddp", "--devices=2"], [COHORT, "run", "-n", "2", MNIST],
                                    [*TORCHRUN, "--no-python", "--nproc-per-node=2", "--standalone", MNIST],
                                    [*MPIRUN, "-np", "2", MNIST])

    def test_the_log_tells_who_registered(self):
        result = self.succeed([MNIST, "--devices=2", *JOB])
        for line in ("GPU available: False, used: False", "Initializing distributed: GLOBAL_RANK: 0, MEMBER: 1/2",
                     "Initializing distributed: GLOBAL_RANK: 1, MEMBER: 2/2", "distributed_backend=shm",
                     "All distributed processes registered. Starting with 2 processes", "-" * 100):
            self.assertIn(line, result.stderr.splitlines(), str(result))
        self.assertRegex(result.stderr, r"(?m)^  \| Name +\| Type +\| Params")
        self.assertEqual(self.summary()["strategy"], "ddp_spawn")
        self.assertIn("Using strategy ddp_spawn: 2 devices on one node", result.stderr)

    def test_ranks_meet_at_the_address_that_the_shell_names(self):
        self.meet_at(("ddp", "127.0.0.2"), ("ddp_spawn", "::1"))


class SlurmTest(LaunchersTest):
    """With the variables that srun, sbatch and salloc of SLURM 22.05 set."""

    def job(self, **more):
        return {"SLURM_JOB_ID": "1234", "SLURM_JOB_NAME": "interactive", "SLURM_NTASKS": "2", "SLURM_NNODES": "1",
                "SLURM_TASKS_PER_NODE": "2", "SLURM_SUBMIT_DIR": str(self.folder), "SLURM_JOB_NODELIST": "node1", **more}

    def tasks(self, command, **more):
        """Runs the command as srun -n 2 does, and returns how both ended."""
        step = self.job(SLURM_STEP_ID="0", SLURM_STEPID="0", SLURM_STEP_NUM_TASKS="2", SLURM_STEP_NUM_NODES="1",
                        SLURM_STEP_TASKS_PER_NODE="2", SLURM_STEP_NODELIST="node1", SLURM_NODEID="0", SLURM_GTIDS="0,1", **more)
        started = [self.start(command, {**step, "SLURM_PROCID": rank, "SLURM_LOCALID": rank}) for rank in "01"]
        return [self.finish(task) for task in started]

    def launchers(self, options, **more):
        """Runs cohort run as srun --ntasks-per-node=1 does on two nodes, here both on this machine, and returns how they ended."""
        step = self.job(SLURM_STEP_ID="0", SLURM_STEP_NUM_TASKS="2", SLURM_STEP_NUM_NODES="2", SLURM_LOCALID="0",
                        SLURM_STEP_TASKS_PER_NODE="1(x2)", **more)
        command = [COHORT, "run", "--nnodes=2", "--nproc-per-node=1", *options]
        started = [self.start([*command, f"--node-rank={node}", MNIST, *JOB, "--threads=1"],
                              {**step, "SLURM_PROCID": node, "SLURM_NODEID": node}) for node in "01"]
        return [self.finish(launcher) for launcher in started]

    def train_on_two_nodes(self, options, **more):
        ended = self.launchers(options, **more)
        self.assertEqual([result.code for result in ended], [0, 0], "\n".join(map(str, ended)))
        summary = self.summary()
        self.assertEqual((summary["world_size"], summary["num_nodes"], len(set(summary["weights_sha256"]))), (2, 2, 1))


class Slurm(SlurmTest):
    def test_tasks_of_srun_are_ranks_of_one_training(self):
        port = str(self.reserve_port())
        ended = self.tasks([MNIST, *JOB, "--threads=1", "--checkpoint-dir=checkpoints"], MASTER_PORT=port)
        self.assertEqual([result.code for result in ended], [0, 0], "\n".join(map(str, ended)))
        self.assertEqual((self.summary()["world_size"], self.summary()["collective"]), (2, "shm"))
        self.assertEqual(len(set(self.summary()["weights_sha256"])), 1)


    def test_srun_may_start_a_launcher_on_each_node(self):
        self.train_on_two_nodes(["--master-addr=127.0.0.1", f"--master-port={self.reserve_port()}"])


class SlurmInFull(SlurmTest):
    def test_launchers_in_tasks_of_srun_meet_where_the_variables_say(self):
        self.train_on_two_nodes([], MASTER_ADDR="127.0.0.1", MASTER_PORT=str(self.reserve_port()))

    def test_options_that_contradict_srun_are_refused(self):
        for result in self.tasks([MNIST, "--devices=3"]):
            self.assertEqual(result.code, 2, str(result))
            self.assertIn("SLURM_STEP_NUM_TASKS=2 (srun)", result.stderr)

    def test_a_batch_script_and_the_shell_of_salloc_start_what_they_like(self):
        place = {"SLURM_PROCID": "0", "SLURM_LOCALID": "0", "SLURM_NODEID": "0"}
        for variables in (self.job(**place), self.job()):
            with self.subTest(variables=variables):
                self.succeed([MNIST, *JOB, "--max-time=1h", "--threads=1"], variables)
                self.assertEqual(self.summary()["world_size"], 1)
        self.succeed([MNIST, *JOB, "--devices=2"], self.job(**place))
        self.assertEqual(self.summary()["world_size"], 2)


class RecordedInFull(LaunchersTest):
    """With the variables of launchers that are not here, as records and their documentation have them."""

    def train_with(self, *tasks):
        """Starts two ranks with these variables. Returns the digest of their weights."""
        started = [self.start([MNIST, *JOB, "--threads=1"], task) for task in tasks]
        for task in started:
            result = self.finish(task)
            self.assertEqual(result.code, 0, str(result))
        self.ended = self.summary()
        (self.folder / "summary.json").unlink()
        digests = set(self.ended["weights_sha256"])
        self.assertEqual(len(digests), 1, "ranks ended with different weights")
        return digests.pop()

    def one_machine(self):
        return self.weights([COHORT, "run", "-n", "2", MNIST, *JOB], {"OMP_NUM_THREADS": "1"})

    def test_tasks_of_jsrun_train_to_the_bits_of_cohort_run(self):
        task = {"JSM_NAMESPACE_SIZE": "2", "JSM_NAMESPACE_LOCAL_SIZE": "2", "LSB_JOBID": "731", "LSB_HOSTS": "batch2 h41 h41",
                "OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_LOCAL_SIZE": "2", "MASTER_PORT": str(self.reserve_port())}
        names = ("JSM_NAMESPACE_RANK", "JSM_NAMESPACE_LOCAL_RANK", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK")
        self.assertEqual(self.train_with(*({**task, **dict.fromkeys(names, rank)} for rank in "01")), self.one_machine())

    def test_tasks_of_pbsdsh_train_to_the_bits_of_cohort_run(self):
        nodes = self.folder / "nodes"
        nodes.write_text("node164\nnode164\n")
        task = {"PBS_JOBID": "1672.mgt1", "PBS_ENVIRONMENT": "PBS_BATCH", "PBS_NODENUM": "0", "PBS_NODEFILE": str(nodes),
                "MASTER_PORT": str(self.reserve_port())}
        self.assertEqual(self.train_with(*({**task, "PBS_VNODENUM": rank, "PBS_TASKNUM": f"14{rank}"} for rank in "01")),
                         self.one_machine())

    def test_pods_of_a_pytorchjob_train_to_the_bits_of_cohort_run(self):
        place = {"ADDR": "127.0.0.1", "PORT": str(self.reserve_port())}
        pod = {f"{prefix}MASTER_{name}": value for prefix in ("", "PET_") for name, value in place.items()}
        pod.update({"WORLD_SIZE": "2", "PET_NNODES": "2", "PET_NPROC_PER_NODE": "auto"})
        digest = self.train_with(*({**pod, "RANK": rank, "PET_NODE_RANK": rank} for rank in "01"))
        self.assertEqual(self.ended["num_nodes"], 2)
        self.assertEqual(digest, self.one_machine())


@unittest.skipUnless(shutil.which("mpiexec.hydra"), "there is no mpiexec.hydra: cmake/bootstrap.sh --tests installs it")
class HydraInFull(LaunchersTest):
    """Under the mpiexec of MPICH; Intel MPI's is Hydra too."""
    mpiexec = ["mpiexec.hydra", "-n", "2"]

    def test_mpiexec_trains_to_the_bits_of_cohort_run(self):
        self.train_to_the_same_bits([COHORT, "run", "-n", "2", MNIST], [*self.mpiexec, MNIST])

    def test_two_jobs_at_once_stay_apart(self):
        jobs = []
        for name in ("first", "second"):
            (self.folder / name).mkdir()
            jobs.append(self.start([*self.mpiexec, "-wdir", self.folder / name, "sh", "-c", f"'{MNIST}' --threads=1 {' '.join(JOB)}"]))
        for job, name in zip(jobs, ("first", "second")):
            result = self.finish(job)
            self.assertEqual(result.code, 0, str(result))
            self.assertEqual(len(set(self.summary(f"{name}/summary.json")["weights_sha256"])), 1)

    def test_a_rank_shows_what_decided_its_place(self):
        shown = self.succeed([*self.mpiexec, COHORT, "env"]).stdout
        for place in ("launcher +mpiexec +PMI_RANK=1", "rank +1 +PMI_RANK=1", "world_size +2 +PMI_SIZE=2"):
            self.assertRegex(shown, place)


class InFull(LaunchersTest):
    """More ways to start and to meet."""

    def test_other_ways_to_start_train_to_the_same_bits(self):
        static = ["--nproc-per-node=2", "--nnodes=1", "--master-addr=127.0.0.1", f"--master-port={self.reserve_port()}"]
        self.train_to_the_same_bits([MNIST, "--strategy=ddp", "--devices=2"], [MNIST, "--devices=2"],
                                    [*TORCHRUN, "--no-python", *static, MNIST])

    def test_two_programs_of_one_mpirun_job_find_each_other_anew(self):
        twice = f"'{MNIST}' {' '.join(JOB)} && '{MNIST}' {' '.join(JOB)}"
        self.succeed([*MPIRUN, "-np", "2", "sh", "-c", twice])
        self.assertEqual(self.summary()["world_size"], 2)

    def test_ranks_meet_at_other_addresses_that_the_shell_names(self):
        self.meet_at(("ddp_spawn", "127.0.0.2"), ("ddp", "localhost"), ("ddp_spawn", "localhost"), ("ddp", "::1"))

    @unittest.skipUnless(pathlib.Path("/proc/net/if_inet6").exists(), "this machine has no IPv6")
    def test_ranks_meet_at_an_address_of_ipv6_that_is_written_out(self):
        self.meet_at(("ddp", "0:0:0:0:0:0:0:1"), ("ddp_spawn", "0:0:0:0:0:0:0:1"))

    def test_simulated_nodes_are_told_apart_and_share_the_cores_of_this_machine(self):
        self.succeed([COHORT, "run", *SPREAD, MNIST, *JOB])
        apart = self.summary()
        self.assertEqual((apart["num_nodes"], apart["collective"]), (2, "hier(shm,gloo)"))
        self.succeed([COHORT, "run", "-n", "2", MNIST, *JOB])
        self.assertEqual(apart["threads"], self.summary()["threads"])


if __name__ == "__main__":
    harness.main()
