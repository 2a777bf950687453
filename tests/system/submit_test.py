"""Jobs that `cohort submit` hands in: to SLURM's own daemons, and to a stand-in for PBS.

SLURM looks at time limits every half minute, and one test waits for that twice; others send SIGUSR1 to the tasks as SLURM would.
"""
import json
import re

import harness
from harness import COHORT, MNIST, SystemTest
from slurm import ENDED, SlurmTest

CPU = ["--accelerator=cpu", "--threads=1", "--limit-val-batches=3", "--limit-test-batches=3"]
STEPS = ["--limit-train-batches=100", "--batch-size=4"]  # many short ones
LONG = [*CPU, *STEPS, "--epochs=3"]
KEPT = ["--checkpoint-dir=ckpt", "--checkpoint-every-n-steps=20"]
RESULTS = ("weights_sha256", "steps", "epochs", "metrics")
QSUB = r"""#!/bin/bash
# A stand-in for qsub, which is not here: runs the job file at once, on two names of this machine.
test "$(grep -c '^#PBS -l select=2:ncpus=1:mpiprocs=1$' "$1")" = 1 || exit 1
printf 'localhost\n127.0.0.1\n' >nodes
PBS_O_WORKDIR=$PWD PBS_NODEFILE=$PWD/nodes bash "$1" >output 2>&1 || exit 1
echo 7.stand-in
"""


def results(summary):
    return {name: summary[name] for name in RESULTS}


class JobsInFull(SlurmTest):
    def submit(self, options, program):
        """Hands a job in and returns it."""
        result = self.succeed([COHORT, "submit", "slurm", *options, "--", *program])
        return self.slurm.job(re.fullmatch(r"Submitted job (\d+): \S+\n", result.stdout)[1])

    def two_nodes(self):
        """Returns the options for a job on both; where the nodes' names are no addresses the job gives one."""
        return ["--nodes=2", *([] if self.slurm.has_names else ["--command=export MASTER_ADDR=$(hostname)"])]

    def output(self):
        return "".join(file.read_text() for file in sorted((self.folder / "cohort_jobs").glob("*.log")))

    def expect_success(self, job):
        self.assertEqual(job.wait(seconds=240)["JobState"], "COMPLETED", self.output())
        self.assertEqual(self.secrets(), [])

    def secrets(self):
        return list((self.folder / "cohort_jobs").glob(".secret*"))

    def expected(self, program, devices=1):
        """What the same program gives that nobody stops."""
        self.succeed([COHORT, "run", f"--nnodes={devices}", "--nproc-per-node=1", *program, "--summary-json=expected.json"])
        return results(self.summary("expected.json"))

    def newest(self):
        return max((int(entry.name[5:]) for entry in (self.folder / "ckpt").glob("step-????????")), default=0)

    def wait_for_steps(self, number):
        self.wait_until(lambda: self.newest() >= number, f"there is a checkpoint of step {number}")

    def stop_and_go_on(self, job):
        """Has the ranks stop as before a time limit, blocks until the job is queued again, and lets it start."""
        restarts = job.restarts()
        job.signal("USR1", batch=False)
        job.wait("PENDING")
        self.assertEqual(job.restarts(), restarts + 1)
        job.start_soon()
        job.wait("RUNNING")

    def test_a_job_of_two_nodes_trains_with_a_secret_of_its_own(self):
        port = self.reserve_port()
        program = [MNIST, *CPU, "--epochs=1", "--limit-train-batches=20"]
        job = self.submit([*self.two_nodes(), "--no-requeue", f"--command=export MASTER_PORT={port}"],
                          [*program, "--summary-json=summary.json", "--log-level=debug"])
        self.expect_success(job)
        self.assertIn(f"MASTER_PORT={port}", self.output())
        self.assertNotIn("secret", self.output(), "nobody is warned")
        self.assertEqual(results(self.summary()), self.expected(program, 2))

    def test_a_job_that_is_queued_again_twice_has_the_weights_of_one_that_was_not(self):
        program = [MNIST, *LONG]
        job = self.submit(["--time=10m", *self.two_nodes()],
                          [*program, *KEPT, "--summary-json=summary.json"])
        for _ in range(2):
            self.wait_for_steps(self.newest() + 40)
            self.stop_and_go_on(job)
        self.expect_success(job)
        self.assertEqual(self.output().count("received signal 10"), 2, self.output())
        self.assertEqual(results(self.summary()), self.expected(program, 2))

    def test_a_time_limit_that_ends_in_the_middle_twice_costs_no_step(self):
        # However fast the machine is, the third part of the training ends with its epoch.
        epochs, program = self.folder / "epochs", self.folder / "program"
        epochs.write_text("100000")
        program.write_text(f'#!/bin/sh\nexec {MNIST} "$@" --epochs=$(cat {epochs})\n')
        program.chmod(0o755)
        job = self.submit(["--time=60m", "--stop-before=118s"], [program, *CPU, *STEPS, *KEPT, "--summary-json=summary.json"])
        for part in range(2):
            stopped_at = self.stop_by_time_limit(job)
            if part == 1:
                epochs.write_text(str(stopped_at // 100 + 1))
            job.start_soon()
            job.wait("RUNNING", *ENDED)
            self.wait_until(lambda: f": step {stopped_at}," in self.output(), f"it goes on after step {stopped_at}")
        self.expect_success(job)
        self.assertEqual(job.restarts(), 2)
        self.succeed([program, *CPU, *STEPS, "--summary-json=expected.json"], timeout=400)
        self.assertEqual(results(self.summary()), results(self.summary("expected.json")))

    def stop_by_time_limit(self, job):
        """Has the job's time end soon, blocks until it is queued again with more time, and returns the step of its checkpoint."""
        self.wait_for_steps(self.newest() + 20)
        minutes = int(job.fields()["RunTime"].split(":")[1]) + 3  # SLURM counts whole ones
        self.slurm.scontrol("update", f"jobid={job.number}", f"TimeLimit={minutes}")
        fields = job.wait("PENDING", *ENDED, seconds=240)
        self.assertEqual(fields["JobState"], "PENDING", self.output())
        self.slurm.scontrol("update", f"jobid={job.number}", "TimeLimit=60")
        return self.newest()

    def test_sigterm_writes_a_checkpoint_and_ends_the_job(self):
        job = self.submit(self.two_nodes(), [MNIST, *LONG, *KEPT])
        self.wait_for_steps(20)
        job.signal("TERM", batch=False)
        self.assertEqual((job.wait()["JobState"], job.exit_code(), job.restarts()), ("FAILED", 143, 0), self.output())
        stopped_at = int(re.search(r"ends after step (\d+): rank \d received signal 15", self.output())[1])
        self.assertEqual(self.newest(), stopped_at)
        self.assertEqual(self.secrets(), [])

    def test_a_grid_runs_all_its_trials(self):
        program = [MNIST, *CPU, "--epochs=1", "--limit-train-batches=10"]
        result = self.succeed([COHORT, "submit", "slurm", "--grid=seed=1,2", "--grid=batch-size=8,16", "--", *program,
                               "--checkpoint-dir=ckpt", "--log-dir=logs"])
        number = re.search(r"job (\d+)", result.stdout)[1]
        for task, (seed, batch_size) in enumerate(((1, 8), (1, 16), (2, 8), (2, 16))):
            self.expect_success(self.slurm.job(f"{number}_{task}"))
            loop = json.loads((self.folder / f"ckpt/trial-{task}/step-00000010/manifest.json").read_text())["loop"]
            self.assertEqual((loop["seed"], loop["batch_size"]), (seed, batch_size))
            self.assertTrue((self.folder / f"logs/trial-{task}/version_0/metrics.csv").is_file())


class Pbs(SystemTest):
    def test_pbs_runs_its_files_on_the_hosts_of_the_job(self):
        (self.folder / "bin").mkdir()
        qsub = self.folder / "bin/qsub"
        qsub.write_text(QSUB)
        qsub.chmod(0o755)
        path = {"PATH": f"{qsub.parent}:{self.environment()['PATH']}"}
        program = [MNIST, *CPU, "--epochs=1", "--limit-train-batches=20"]
        result = self.run_program([COHORT, "submit", "pbs", "--nodes=2", "--no-requeue", "--command=export OMP_NUM_THREADS=1",
                                   "--", *program, "--summary-json=summary.json"], path)
        output = self.folder / "output"
        self.assertEqual(result.code, 0, f"{result}{output.read_text() if output.exists() else ''}")
        self.assertEqual(result.stdout, "Submitted job 7.stand-in: cohort_jobs/mnist.pbs\n")
        self.succeed([COHORT, "run", "--nnodes=2", "--nproc-per-node=1", *program, "--summary-json=expected.json"])
        self.assertEqual(results(self.summary()), results(self.summary("expected.json")))


if __name__ == "__main__":
    harness.main()
