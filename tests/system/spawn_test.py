"""ddp_spawn: ranks that are forks of the running program (spawn_program.cpp), held against ddp and plain computations."""
import os
import pathlib
import re
import signal
import time
import unittest

from harness import BUILD, COHORT, MNIST, SystemTest

PROGRAM = str(BUILD / "tests/spawn_program")
MPI_PROGRAM = BUILD / "tests/mpi_program"
ROUNDS = int(os.environ.get("COHORT_SOAK_ROUNDS", "10"))
SPAWN = ["--strategy=ddp_spawn", "--devices=2"]


def children_of(pid):
    try:
        return [int(child) for child in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


class Training(SystemTest):
    def test_mnist_learns_and_gets_the_bits_of_ddp(self):
        digests, keys = {}, {}
        for strategy in ("ddp_spawn", "ddp"):
            self.succeed([MNIST, f"--strategy={strategy}", "--devices=2", "--epochs=3", "--threads=1", "--summary-json=summary.json",
                          "--checkpoint-dir=" + strategy], timeout=400)
            summary = self.summary()
            digests[strategy], keys[strategy] = summary["weights_sha256"], list(summary)
            self.assertEqual((summary["strategy"], summary["world_size"], summary["epochs"]), (strategy, 2, 3))
            self.assertEqual((summary["collective"], summary["exit_reason"]), ("shm", "completed"))
            self.assertEqual(summary["bytes_sent_per_step"], 215370 * 4)
            self.assertEqual(len(summary["peak_rss_mib"]), 2)
            self.assertGreaterEqual(summary["metrics"]["test_acc"], 0.97)
        self.assertEqual(digests["ddp_spawn"], digests["ddp"])
        self.assertEqual(digests["ddp"][0], digests["ddp"][1])
        self.assertEqual(keys["ddp_spawn"], keys["ddp"])
        shared = [sorted((self.folder / name).glob("step-*/shared.safetensors"))[-1].read_bytes() for name in digests]
        self.assertEqual(shared[0], shared[1])

    def test_the_first_step_comes_soon(self):
        self.succeed([MNIST, *SPAWN, "--epochs=1", "--max-steps=5", "--summary-json=summary.json"])
        seconds = self.summary()["seconds_to_first_step"]
        print(f"seconds_to_first_step = {seconds:.3f}")
        self.assertGreater(seconds, 0)

    def test_a_run_is_gone_on_with(self):
        for strategy, steps in (("ddp_spawn", 20), ("ddp", 40)):
            self.succeed([MNIST, f"--strategy={strategy}", "--devices=2", "--epochs=1", f"--max-steps={steps}",
                          "--checkpoint-dir=ckpt", "--resume=auto", "--summary-json=summary.json"])
        pieces = self.summary()["weights_sha256"]
        self.succeed([MNIST, *SPAWN, "--epochs=1", "--max-steps=40", "--summary-json=summary.json"])
        self.assertEqual(self.summary()["weights_sha256"], pieces)

    def test_each_rank_has_a_log_file_of_its_own(self):
        self.succeed([MNIST, *SPAWN, "--epochs=1", "--max-steps=5", "--log-dir=logs"])
        for rank in (0, 1):
            self.assertIn(f"GLOBAL_RANK: {rank}, MEMBER: {rank + 1}/2", (self.folder / f"logs/rank-{rank}.log").read_text())


class Caller(SystemTest):
    def test_it_has_what_plain_training_gives_in_every_round(self):
        for _ in range(ROUNDS):
            for devices in (2, 3):
                result = self.succeed([PROGRAM, "--strategy=ddp_spawn", f"--devices={devices}"], timeout=60)
                lines = result.stdout
                self.assertEqual([lines.count(text) for text in ("before;also before;", "after\n")], [1, 1], str(result))
                self.assertEqual(lines.count("Test metric"), 2, str(result))

    def test_an_optimizer_that_cannot_be_saved_stays_as_it_is_with_a_warning(self):
        result = self.succeed([PROGRAM, *SPAWN, "--how=optimizer"])
        self.assertIn("the state of optimizer 0 stays behind in the ranks", result.stderr)
        self.assertIn("trained", result.stdout)

    def test_a_rank_that_throws_is_reported_once_and_gives_its_exit_code(self):
        for failing_rank in (0, 1):
            result = self.fail_with(1, [PROGRAM, *SPAWN, "--how=throw", f"--failing-rank={failing_rank}"])
            said = [line for line in result.stderr.splitlines() if line.removeprefix("[rank 1] ") == "error: the disk is on fire"]
            self.assertEqual(len(said), 1, str(result))
            self.assertNotIn("a rank failed", result.stderr)

    def test_a_rank_that_is_killed_is_named(self):
        for failing_rank in (0, 1):
            self.fail_with(137, [PROGRAM, *SPAWN, "--how=kill", f"--failing-rank={failing_rank}"],
                           f"rank {failing_rank} (pid ", "was ended by signal 9")

    def test_a_rank_that_ends_its_process_is_no_success(self):
        self.assertNotEqual(self.run_program([PROGRAM, *SPAWN, "--how=exit", "--timeout=5s"]).code, 0)

    def test_the_program_can_catch_the_failure_and_go_on_with_the_model_as_it_was(self):
        for failing_rank in (0, 1):
            result = self.succeed([PROGRAM, *SPAWN, "--how=catch", f"--failing-rank={failing_rank}"])
            self.assertIn("went on", result.stdout)

    def test_a_loss_that_is_not_finite_ends_it_with_one_line(self):
        result = self.fail_with(1, [PROGRAM, *SPAWN, "--how=nan", "--summary-json=summary.json"])
        self.assertEqual(result.stderr.count("the training loss is not finite at step 4 on rank 0"), 1, str(result))
        self.assertEqual(self.summary()["exit_reason"], "loss_not_finite")

    def test_no_checkpoint_is_written_of_weights_that_are_lost(self):
        for strategy in (["single"], ["ddp", "--devices=2"], ["bagua:decentralized", "--devices=2"]):
            with self.subTest(strategy=strategy[0]):
                folder = "ckpt-" + strategy[0].replace(":", "-")
                self.fail_with(1, [PROGRAM, f"--strategy={strategy[0]}", *strategy[1:], "--how=nan", f"--checkpoint-dir={folder}",
                                   "--checkpoint-every-n-steps=1", "--keep-checkpoints=9"], "not finite at step 4")
                self.assertEqual(sorted(path.name for path in (self.folder / folder).iterdir()),
                                 [f"step-0000000{step}" for step in (1, 2, 3)])

    def test_a_signal_that_comes_with_the_last_checkpoint_ends_the_program(self):
        for strategy in (["single"], ["ddp", "--devices=2"], ["ddp_spawn", "--devices=2"]):
            with self.subTest(strategy=strategy[0]):
                result = self.fail_with(130, [PROGRAM, f"--strategy={strategy[0]}", *strategy[1:], "--how=late-signal",
                                              "--summary-json=summary.json"])
                self.assertNotIn("trained", result.stdout)
                self.assertEqual(self.summary()["exit_reason"], "signal")

    def test_a_fit_in_a_hook_of_a_rank_is_refused(self):
        self.fail_with(2, [PROGRAM, *SPAWN, "--how=nested"], "fit was called in a hook of a running fit")

    def test_an_interrupt_ends_training_after_a_step_and_the_program_with_130(self):
        for to_group in (False, True):
            process = self.start([PROGRAM, *SPAWN, "--how=slow", "--max-epochs=1000", "--summary-json=summary.json",
                                  "--checkpoint-dir=ckpt-" + str(to_group)], start_new_session=True)
            deadline = time.monotonic() + 30
            while len(children_of(process.pid)) < 2 and time.monotonic() < deadline:
                time.sleep(0.01)
            time.sleep(2)
            (os.killpg if to_group else os.kill)(process.pid, signal.SIGINT)
            stderr = process.communicate(timeout=30)[1]
            self.assertEqual(process.returncode, 130, stderr)
            self.assertEqual(self.summary()["exit_reason"], "signal")
            self.assertIn("received signal 2", stderr)
            self.assertTrue(list((self.folder / ("ckpt-" + str(to_group))).glob("step-*/manifest.json")))

    def test_when_the_program_is_killed_its_ranks_end_too(self):
        process = self.start([PROGRAM, *SPAWN, "--how=slow", "--max-epochs=1000"])
        deadline = time.monotonic() + 30
        while len(children_of(process.pid)) < 2 and time.monotonic() < deadline:
            time.sleep(0.01)
        process.kill()
        process.communicate(timeout=30)  # what is left behind is looked for after every test


class Refusals(SystemTest):
    def test_a_thread_that_runs_is_named(self):
        self.fail_with(2, [PROGRAM, *SPAWN, "--how=thread"], "other threads run in this process (spawn_program)", "--strategy=ddp")

    @unittest.skipUnless(MPI_PROGRAM.exists(), "MPI was not found when this was built")
    def test_a_program_that_has_initialised_mpi_is_not_forked(self):
        self.fail_with(2, [MPI_PROGRAM, *SPAWN], "MPI is initialised in this process", "--strategy=ddp",
                       environment={"OMPI_ALLOW_RUN_AS_ROOT": "1"})

    def test_a_session_is_refused_where_ddp_spawn_was_chosen(self):
        self.fail_with(2, [PROGRAM, *SPAWN, "--how=session"], "need ranks that run all of it, not forks", "--strategy=ddp")

    def test_where_nobody_chose_it_the_program_begins_again_with_ddp_and_the_reason(self):
        for how, done, reason in (("session", "a session", "need ranks that run all of it, not forks"),
                                  ("thread", "trained", "other threads run in this process (spawn_program)")):
            result = self.succeed([PROGRAM, "--devices=2", f"--how={how}"])
            self.assertIn(done, result.stdout)
            self.assertIn("Using strategy ddp_spawn: 2 devices on one node", result.stderr)
            self.assertRegex(result.stderr, "Using strategy ddp: .*ddp_spawn is not possible: .*" + re.escape(reason))

    def test_where_ranks_cannot_be_forked_it_is_ddp_with_the_reason(self):
        result = self.succeed([COHORT, "run", "--nproc-per-node=2", PROGRAM, "--strategy=ddp_spawn", "--how=optimizer"])
        self.assertIn("Using strategy ddp: ddp_spawn cannot be one of 2 ranks", result.stderr)

    def test_a_program_that_cannot_be_executed_again_forks(self):
        program = os.memfd_create("program")
        self.addCleanup(os.close, program)
        os.write(program, pathlib.Path(PROGRAM).read_bytes())
        process = self.start([f"/proc/self/fd/{program}", "--strategy=ddp", "--devices=2"], pass_fds=[program])
        stdout, stderr = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 0, stderr)
        self.assertIn("Using strategy ddp_spawn: ddp is not possible: this program cannot be executed again", stderr)
        self.assertIn("after", stdout)

    def test_one_device_needs_no_fork(self):
        result = self.succeed([PROGRAM, "--strategy=ddp_spawn", "--devices=1", "--how=session"])
        self.assertIn("a session", result.stdout)


if __name__ == "__main__":
    unittest.main()
