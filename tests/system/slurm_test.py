"""Training under SLURM's own daemons: tasks of srun in every place find each other and end with the weights of one machine.
The daemons themselves do what tests ask of them, and leave nothing behind."""
import shlex
import unittest

from harness import COHORT, MNIST, MPIRUN, TORCHRUN, SystemTest, is_listening, main, processes_marked
from slurm import NODES, Slurm, SlurmTest, why_no_slurm
from ssh_hosts import SSHD, SshHosts
from submit_test import QSUB

USER = 2
JOB = ["--max-steps=20", "--epochs=1", "--limit-val-batches=2", "--limit-test-batches=2", "--seed=7", "--strategy=ddp",
       "--threads=1", "--summary-json=summary.json"]
WARNING = "several machines meet without a secret"


class TrainingTest(SlurmTest):
    def digest(self, launcher, *arguments, environment=None):
        self.succeed([*launcher, MNIST, *JOB, *arguments], environment)
        return self.digest_of_summary()

    def digest_of_summary(self):
        self.ended = self.summary()
        (self.folder / "summary.json").unlink()
        digests = set(self.ended["weights_sha256"])
        self.assertEqual(len(digests), 1, "ranks ended with different weights")
        return digests.pop()

    def on_one_machine(self, ranks):
        return self.digest([COHORT, "run", "-n", str(ranks)], "--collective=shm")

    def secret(self):
        file = self.folder / "secret"
        file.write_text("a secret of this test alone\n")
        file.chmod(0o600)
        return {"COHORT_JOB_SECRET_FILE": str(file)}

    def needs_names(self):
        if not self.slurm.has_names:
            self.skipTest("needs root: mounts another /etc/hosts, in which the nodes have addresses")


class Training(TrainingTest):
    def test_tasks_of_srun_end_with_the_bits_of_cohort_run(self):
        self.assertEqual(self.digest(["srun", "-n", "2"]), self.on_one_machine(2))


@unittest.skipUnless(SSHD, "no ssh server: cmake/bootstrap.sh --tests installs one")
class EightLaunchersInFull(TrainingTest):
    """One program, two ranks: sums are taken in rank order, whatever connects the ranks."""
    ranks = ["--deterministic", "--accelerator=cpu"]

    def under_pbs(self):
        (self.folder / "bin").mkdir()
        qsub = self.folder / "bin/qsub"
        qsub.write_text(QSUB)
        qsub.chmod(0o755)
        return self.digest([COHORT, "submit", "pbs", "--nodes=2", "--no-requeue", "--"], *self.ranks,
                           environment={"PATH": f"{qsub.parent}:{self.environment()['PATH']}"})

    def under_sbatch(self):
        self.succeed(["sbatch", "--wait", "-n", "2", "--output=output", "--wrap", shlex.join(["srun", MNIST, *JOB, *self.ranks])])
        return self.digest_of_summary()

    def on_ssh_hosts(self):
        hosts = SshHosts(self.folder / "hosts")
        self.addCleanup(hosts.stop)
        return self.digest([COHORT, "run", *hosts.options(slots=1)], *self.ranks, environment=hosts.environment())

    def test_all_of_them_end_with_the_same_bits(self):
        digests = {
            "alone": self.digest([], "--devices=2", *self.ranks),
            "cohort run": self.digest([COHORT, "run", "-n", "2"], *self.ranks),
            "torchrun": self.digest([*TORCHRUN, "--no-python", "--nproc-per-node=2", "--standalone"], *self.ranks),
            "mpirun": self.digest([*MPIRUN, "-np", "2"], *self.ranks),
            "srun": self.digest(["srun", "-N", "2", "-n", "2"], *self.ranks,
                                environment={**self.secret(), "MASTER_ADDR": "127.0.0.1"}),
            "sbatch": self.under_sbatch(),
            "ssh hosts": self.on_ssh_hosts(),
            "PBS file": self.under_pbs(),
        }
        self.assertEqual(len(set(digests.values())), 1, digests)


class TrainingInFull(TrainingTest):
    def test_two_nodes_meet_on_the_first_and_end_with_the_bits_of_one_machine(self):
        self.needs_names()
        for per_node, collective, name in ((1, [], "hier(shm,gloo)"), (1, ["--collective=gloo"], "gloo"),
                                           (2, ["--collective=gloo"], "gloo")):
            with self.subTest(per_node=per_node, collective=name):
                wanted = self.on_one_machine(2 * per_node)
                launcher = ["srun", "-N", "2", f"--ntasks-per-node={per_node}"]
                self.assertEqual(self.digest(launcher, *collective, environment=self.secret()), wanted)
                self.assertEqual((self.ended["num_nodes"], self.ended["collective"]), (2, name))

    def test_tasks_may_be_dealt_out_in_turn(self):
        self.needs_names()
        launcher = ["srun", "-N", "2", "--ntasks-per-node=2", "--distribution=cyclic"]
        self.assertEqual(self.digest(launcher, "--collective=gloo", environment=self.secret()), self.on_one_machine(4))

    def test_a_given_address_wins(self):
        port = str(self.reserve_port())
        address = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        self.assertEqual(self.digest(["srun", "-N", "2", "-n", "2"], environment=address), self.on_one_machine(2))
        shown = self.succeed(["srun", "-N", "2", "-n", "2", COHORT, "env"], address).stdout
        self.assertEqual(shown.count(f"MASTER_PORT={port}\n"), 2, shown)

    def test_without_a_secret_rank_0_warns_once(self):
        self.needs_names()
        result = self.succeed(["srun", "-N", "2", "-n", "2", MNIST, *JOB])
        self.assertEqual(result.stderr.count(WARNING), 1, str(result))
        self.assertNotIn(WARNING, self.succeed(["srun", "-N", "2", "-n", "2", MNIST, *JOB], self.secret()).stderr)

    def test_steps_of_an_allocation_and_of_a_batch_script_train_alike(self):
        wanted = self.on_one_machine(2)
        command = shlex.join(["srun", "-n", "2", MNIST, *JOB])
        self.succeed(["salloc", "-n", "2", "sh", "-c", command])
        self.assertEqual(self.digest_of_summary(), wanted)
        self.succeed(["sbatch", "--wait", "-n", "2", "--output=output", "--wrap", command])
        self.assertEqual(self.digest_of_summary(), wanted)

    def test_the_script_of_a_job_may_start_ranks_of_its_own(self):
        self.succeed(["sbatch", "--wait", "-n", "2", "--output=output", "--wrap", shlex.join([COHORT, "run", "-n", "2", MNIST, *JOB])])
        self.assertEqual(self.digest_of_summary(), self.on_one_machine(2))

    def test_two_steps_of_a_job_at_once_stay_apart(self):
        step = "mkdir step-{0} && srun -n 2 --exact --chdir=step-{0} " + shlex.join([MNIST, *JOB])
        self.succeed(["salloc", "-n", "4", "sh", "-c", f"({step.format(1)}) & ({step.format(2)}) & wait"])
        for name in ("step-1/summary.json", "step-2/summary.json"):
            self.assertEqual((self.summary(name)["world_size"], self.summary(name)["steps"]), (2, 20))


class PlacesInFull(TrainingTest):
    def test_a_task_shows_its_place_and_what_decided_it(self):
        shown = self.succeed(["srun", "-N", "2", "-n", "2", COHORT, "env"]).stdout
        for place in ("rank +1 +SLURM_PROCID=1", "node_rank +1 +SLURM_NODEID=1", "world_size +2 +SLURM_STEP_NUM_TASKS=2",
                      r"master_addr +node1 +SLURM_STEP_NODELIST=node\[1-2\]", "master_port +[0-9]+ +SLURM_JOB_ID=[0-9]+ and",
                      "found +srun by SLURM_PROCID=1"):
            self.assertRegex(shown, place)

    def test_nodes_with_unequal_tasks_are_refused(self):
        self.fail_with(USER, ["srun", "-N", "2", "-n", "3", MNIST, *JOB], "SLURM_STEP_TASKS_PER_NODE=2,1", "--ntasks-per-node")

    def test_what_contradicts_srun_is_named_and_ends_with_2(self):
        for variables in (["WORLD_SIZE=4"], ["PMI_SIZE=4", "PMI_RANK=0"]):
            with self.subTest(variables=variables):
                launcher = ["srun", "-n", "2", "env", *variables]
                self.fail_with(USER, [*launcher, MNIST, *JOB], f"{variables[0]} contradicts SLURM_STEP_NUM_TASKS=2")
                shown = self.run_program([*launcher, COHORT, "env"])
                self.assertEqual(shown.code, USER, str(shown))
                self.assertRegex(shown.stdout, f"problem +environment: {variables[0]} contradicts SLURM_STEP_NUM_TASKS=2")
                self.assertRegex(shown.stdout, "rank +1 +SLURM_PROCID=1")
                self.assertRegex(shown.stdout, "master_port +[0-9]+ +SLURM_JOB_ID")


class DaemonsInFull(SlurmTest):
    def test_srun_starts_tasks_with_their_numbers(self):
        result = self.succeed(["srun", "-n", "2", "printenv", "SLURM_PROCID"])
        self.assertEqual(sorted(result.stdout.split()), ["0", "1"])

    def test_tasks_of_two_nodes_know_their_node(self):
        result = self.succeed(["srun", "-N", "2", "-n", "2", "printenv", "SLURMD_NODENAME"])
        self.assertEqual(sorted(result.stdout.split()), list(NODES))

    def test_a_job_is_queued_again_and_appends_to_its_output(self):
        script = 'echo run ${SLURM_RESTART_COUNT:-0}; [ -n "$SLURM_RESTART_COUNT" ] && exit 3; sleep 600'
        output = self.folder / "output"
        job = self.slurm.sbatch("--open-mode=append", f"--output={output}", "--wrap", script)
        self.wait_until(lambda: output.exists() and "run 0" in output.read_text(), "the job runs")
        job.requeue()
        job.wait("PENDING")
        job.start_soon()
        job.wait()
        self.assertEqual((job.state(), job.exit_code(), job.restarts()), ("FAILED", 3, 1))
        self.assertIn("run 1", output.read_text())

    def test_each_task_of_an_array_is_a_job(self):
        array = self.slurm.sbatch("--array=0-2", f"--output={self.folder}/output-%a", "--wrap", "echo $SLURM_ARRAY_TASK_ID")
        for task in range(3):
            self.assertEqual(self.slurm.job(f"{array.number}_{task}").wait()["JobState"], "COMPLETED")
            self.assertEqual((self.folder / f"output-{task}").read_text(), f"{task}\n")

    def test_a_signal_comes_before_the_time_limit(self):
        script = "trap 'echo signal; exit 5' USR1; sleep 600 & wait"
        job = self.slurm.sbatch("--time=1", "--signal=B:USR1@58", f"--output={self.folder}/output", "--wrap", script)
        job.wait()
        self.assertEqual(job.exit_code(), 5)
        self.assertRegex((self.folder / "output").read_text(), "^signal\n")


@unittest.skipIf(why_no_slurm(), why_no_slurm())
class EndInFull(SystemTest):
    def test_daemons_that_stop_leave_nothing(self):
        slurm = Slurm(self.folder / "slurm")
        slurm.sbatch("--output=/dev/null", "--wrap", "sleep 600").wait("RUNNING")
        slurm.stop()
        self.assertFalse(slurm.folder.exists())
        self.assertEqual(processes_marked(slurm.mark), [])
        self.assertFalse([port for port in slurm.ports if is_listening(port)])


if __name__ == "__main__":
    main()
