"""The same program under every launcher gives the same bits, and every launcher's variables are understood."""
import pathlib
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
