"""ddp_spawn: ranks that are forks of the running program (spawn_program.cpp), held against ddp and plain computations."""
import os
import pathlib
import re
import signal
import unittest

import harness
from harness import BUILD, COHORT, MNIST, SystemTest, children_of

PROGRAM = str(BUILD / "tests/spawn_program")
MPI_PROGRAM = BUILD / "tests/mpi_program"
ROUNDS = int(os.environ.get("COHORT_SOAK_ROUNDS", "5"))
SPAWN = ["--strategy=ddp_spawn", "--devices=2"]


class SpawnTest(SystemTest):
    def has_ranks(self, process):
        return self.wait_until(lambda: len(children_of(process.pid)) >= 2, "two ranks are forked", process)

    def train_as_ddp_does(self, accuracy, *more):
        digests, keys = {}, {}
        for strategy in ("ddp_spawn", "ddp"):
            self.succeed([MNIST, f"--strategy={strategy}", "--devices=2", "--threads=1", "--summary-json=summary.json",
                          f"--checkpoint-dir={strategy}", f"--log-dir=logs-{strategy}", *more], timeout=400)
            summary = self.summary()
            digests[strategy], keys[strategy] = summary["weights_sha256"], list(summary)
            self.assertEqual((summary["strategy"], summary["world_size"]), (strategy, 2))
            self.assertEqual(summary["collective"], "shm")
            self.assertEqual(summary["bytes_sent_per_step"], 215370 * 4)
            self.assertEqual(len(summary["peak_rss_mib"]), 2)
            self.assertGreater(summary["seconds_to_first_step"], 0)
            self.assertLess(summary["seconds_to_first_step"], summary["wall_seconds"])
            self.assertGreaterEqual(summary["metrics"]["test_acc"], accuracy)
            for rank in (0, 1):
                log = (self.folder / f"logs-{strategy}/rank-{rank}.log").read_text()
                self.assertIn(f"GLOBAL_RANK: {rank}, MEMBER: {rank + 1}/2", log)
        self.assertEqual(digests["ddp_spawn"], digests["ddp"])
        self.assertEqual(digests["ddp"][0], digests["ddp"][1])
        self.assertEqual(keys["ddp_spawn"], keys["ddp"])
        shared = [sorted((self.folder / name).glob("step-*/shared.safetensors"))[-1].read_bytes() for name in digests]
        self.assertEqual(shared[0], shared[1])
        return summary

    def train_plainly(self, devices):
        result = self.succeed([PROGRAM, "--strategy=ddp_spawn", f"--devices={devices}"])
        lines = result.stdout
        self.assertEqual([lines.count(text) for text in ("before;also before;", "after\n")], [1, 1], str(result))
        self.assertEqual(lines.count("Test metric"), 2, str(result))

    def throw(self, failing_rank):
        result = self.fail_with(1, [PROGRAM, *SPAWN, "--how=throw", f"--failing-rank={failing_rank}"])
        error = f"error: training_step, epoch 0, batch 3, rank {failing_rank}: the disk is on fire"
        said = [line for line in result.stderr.splitlines() if line.removeprefix("[rank 1] ") == error]
        self.assertEqual(len(said), 1, str(result))
        self.assertNotIn("a rank failed", result.stderr)

    def be_killed(self, failing_rank):
        self.fail_with(137, [PROGRAM, *SPAWN, "--how=kill", f"--failing-rank={failing_rank}"],
                       f"rank {failing_rank} (pid ", "was ended by signal 9")

    def catch(self, failing_rank):
        result = self.succeed([PROGRAM, *SPAWN, "--how=catch", f"--failing-rank={failing_rank}"])
        self.assertIn("went on", result.stdout)

    def lose_the_weights(self, strategy):
        with self.subTest(strategy=strategy[0]):
            folder = "ckpt-" + strategy[0].replace(":", "-")
            self.fail_with(1, [PROGRAM, f"--strategy={strategy[0]}", *strategy[1:], "--how=nan", f"--checkpoint-dir={folder}",
                               "--checkpoint-every-n-steps=1", "--keep-checkpoints=9"], "not finite at step 4")
            self.assertEqual(sorted(path.name for path in (self.folder / folder).iterdir()),
                             [f"step-0000000{step}" for step in (1, 2, 3)])

    def be_interrupted_late(self, strategy):
        with self.subTest(strategy=strategy[0]):
            result = self.fail_with(130, [PROGRAM, f"--strategy={strategy[0]}", *strategy[1:], "--how=late-signal",
                                          "--summary-json=summary.json"])
            self.assertNotIn("trained", result.stdout)
            self.assertEqual(self.summary()["exit_reason"], "signal")

    def interrupt(self, kill):
        process = self.start([PROGRAM, *SPAWN, "--how=slow", "--max-epochs=1000", "--summary-json=summary.json",
                              "--checkpoint-dir=ckpt", "--log-dir=logs"], start_new_session=True)
        self.wait_until_step(process, 1)
        kill(process.pid, signal.SIGINT)
        result = self.finish(process)
        self.assertEqual(result.code, 130, str(result))
        self.assertEqual(self.summary()["exit_reason"], "signal")
        self.assertIn("received signal 2", result.stderr)
        self.assertTrue(list((self.folder / "ckpt").glob("step-*/manifest.json")))

    def begin_again(self, how, done, reason):
        result = self.succeed([PROGRAM, "--devices=2", f"--how={how}"])
        self.assertIn(done, result.stdout)
        self.assertIn("Using strategy ddp_spawn: 2 devices on one node", result.stderr)
        self.assertRegex(result.stderr, "Using strategy ddp: .*ddp_spawn is not possible: .*" + re.escape(reason))


SINGLE, DDP, DDP_SPAWN = ["single"], ["ddp", "--devices=2"], ["ddp_spawn", "--devices=2"]


class Training(SpawnTest):
    def test_a_few_steps_of_mnist_have_the_bits_of_ddp(self):
        self.train_as_ddp_does(0, "--epochs=1", "--max-steps=20", "--limit-val-batches=2")

    def test_it_has_what_plain_training_gives(self):
        self.train_plainly(devices=2)
        self.train_plainly(devices=3)

    def test_an_optimizer_that_cannot_be_saved_stays_as_it_is_with_a_warning(self):
        result = self.succeed([PROGRAM, *SPAWN, "--how=optimizer"])
        self.assertIn("the state of optimizer 0 stays behind in the ranks", result.stderr)
        self.assertIn("trained", result.stdout)


class Ends(SpawnTest):
    def test_a_rank_that_throws_is_reported_once_and_gives_its_exit_code(self):
        self.throw(1)

    def test_a_rank_that_is_killed_is_named(self):
        self.be_killed(1)

    def test_a_rank_that_ends_its_process_is_no_success(self):
        result = self.fail_with(1, [PROGRAM, *SPAWN, "--how=exit"], "the program called exit before its work was done")
        self.assertRegex(result.stderr, r"rank 1 \(pid \d+ on \S+\) is gone")

    def test_the_program_can_catch_the_failure_and_go_on_with_the_model_as_it_was(self):
        self.catch(1)

    def test_a_loss_that_is_not_finite_ends_it_with_one_line(self):
        result = self.fail_with(1, [PROGRAM, *SPAWN, "--how=nan", "--summary-json=summary.json"])
        self.assertEqual(result.stderr.count("the training loss is not finite at step 4 on rank 0"), 1, str(result))
        self.assertEqual(self.summary()["exit_reason"], "loss_not_finite")

    def test_no_checkpoint_is_written_of_weights_that_are_lost(self):
        self.lose_the_weights(DDP)

    def test_a_signal_that_comes_with_the_last_checkpoint_ends_the_program(self):
        self.be_interrupted_late(DDP_SPAWN)

    def test_a_fit_in_a_hook_of_a_rank_is_refused(self):
        self.fail_with(2, [PROGRAM, *SPAWN, "--how=nested"], "fit was called in a hook of a running fit")

    def test_an_interrupt_ends_training_after_a_step_and_the_program_with_130(self):
        self.interrupt(os.kill)

    def test_when_the_program_is_killed_its_ranks_end_too(self):
        process = self.start([PROGRAM, *SPAWN, "--how=slow", "--max-epochs=1000"])
        self.has_ranks(process)
        process.kill()
        self.finish(process)  # what is left behind is looked for after every test


class Refusals(SpawnTest):
    def test_a_thread_that_runs_is_named(self):
        self.fail_with(2, [PROGRAM, *SPAWN, "--how=thread"], "other threads run in this process (spawn_program)", "--strategy=ddp")

    def test_a_session_is_refused_where_ddp_spawn_was_chosen(self):
        self.fail_with(2, [PROGRAM, *SPAWN, "--how=session"], "need ranks that run all of it, not forks", "--strategy=ddp")

    def test_where_nobody_chose_it_the_program_begins_again_with_ddp_and_the_reason(self):
        self.begin_again("session", "a session", "need ranks that run all of it, not forks")

    def test_a_program_that_cannot_be_executed_again_forks(self):
        program = os.memfd_create("program")
        self.addCleanup(os.close, program)
        os.write(program, pathlib.Path(PROGRAM).read_bytes())
        run = ["bash", "-c", f'exec -a {PROGRAM} /proc/self/fd/{program} --strategy=ddp --devices=2']
        process = self.start(run, pass_fds=[program])
        stdout, stderr = process.communicate(timeout=harness.HANG)
        self.assertEqual(process.returncode, 0, stderr)
        self.assertIn("Using strategy ddp_spawn: ddp is not possible: this program cannot be executed again", stderr)
        self.assertIn("after", stdout)


class InFull(SpawnTest):
    """Longer, the other rank, other strategies."""

    def test_mnist_learns_and_gets_the_bits_of_ddp(self):
        summary = self.train_as_ddp_does(0.95, "--epochs=2")
        self.assertEqual((summary["epochs"], summary["exit_reason"]), (2, "completed"))

    def test_a_run_is_gone_on_with(self):
        for strategy, steps in (("ddp_spawn", 20), ("ddp", 40)):
            self.succeed([MNIST, f"--strategy={strategy}", "--devices=2", "--epochs=1", f"--max-steps={steps}",
                          "--checkpoint-dir=ckpt", "--resume=auto", "--summary-json=summary.json"])
        pieces = self.summary()["weights_sha256"]
        self.succeed([MNIST, *SPAWN, "--epochs=1", "--max-steps=40", "--summary-json=summary.json"])
        self.assertEqual(self.summary()["weights_sha256"], pieces)

    def test_rank_0_fails(self):
        self.throw(0)
        self.be_killed(0)
        self.catch(0)

    def test_no_checkpoint_is_written_of_weights_that_are_lost(self):
        self.lose_the_weights(SINGLE)
        self.lose_the_weights(["bagua:decentralized", "--devices=2"])

    def test_a_signal_that_comes_with_the_last_checkpoint_ends_the_program(self):
        self.be_interrupted_late(SINGLE)
        self.be_interrupted_late(DDP)

    def test_an_interrupt_of_all_ends_training_after_a_step(self):
        self.interrupt(os.killpg)

    @unittest.skipUnless(MPI_PROGRAM.exists(), "MPI was not found when this was built")
    def test_a_program_that_has_initialised_mpi_is_not_forked(self):
        self.fail_with(2, [MPI_PROGRAM, *SPAWN], "MPI is initialised in this process", "--strategy=ddp",
                       environment={"OMPI_ALLOW_RUN_AS_ROOT": "1"})

    def test_where_ranks_cannot_be_forked_it_is_ddp_with_the_reason(self):
        result = self.succeed([COHORT, "run", "--nproc-per-node=2", PROGRAM, "--strategy=ddp_spawn", "--how=optimizer"])
        self.assertIn("Using strategy ddp: strategy 'ddp_spawn' cannot be one of 2 ranks", result.stderr)

    def test_where_nobody_chose_it_threads_are_a_reason_for_ddp_too(self):
        self.begin_again("thread", "trained", "other threads run in this process (spawn_program)")

    def test_one_device_needs_no_fork(self):
        result = self.succeed([PROGRAM, "--strategy=ddp_spawn", "--devices=1", "--how=session"])
        self.assertIn("a session", result.stdout)


class Soak(SpawnTest):
    def test_it_has_what_plain_training_gives_in_every_round(self):
        chance = self.chance()
        for number in range(ROUNDS):
            devices = chance.randint(2, 4)
            with self.subTest(round=number, devices=devices):
                self.train_plainly(devices)


if __name__ == "__main__":
    harness.main()
