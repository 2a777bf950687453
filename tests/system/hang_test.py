"""A crash is told with the hook in which the program was, and so is a hang that a signal asks to end."""
import signal

import harness
from harness import BUILD, SystemTest

PROGRAM = str(BUILD / "tests/failing_program")
ONE, TWO = ["--failing-rank=0"], ["--strategy=ddp", "--devices=2"]
SPAWN = ["--strategy=ddp_spawn", "--devices=2", *ONE]  # the body of the program is that of rank 0
STEP, DATA = "training_step, epoch 0, batch 5, rank {}", "the reading of batch 5 of the training data"


class HangTest(SystemTest):
    def crash(self, how, where, *flags, code, name="SIGSEGV"):
        result = self.fail_with(code, [PROGRAM, f"--how={how}", *flags])
        line = f"error: the program crashed with {name} in {where}; run it in a debugger, or build it with AddressSanitizer"
        self.assertEqual(result.stderr.count(line), 1, str(result))

    def hang(self, how, where, *flags):
        """A program that hangs is asked to stop; returns how it has ended."""
        process = self.start([PROGRAM, f"--how={how}", *flags])
        self.wait_until(lambda: (self.folder / "asleep").exists(), "it hangs", process)
        process.terminate()
        result = self.finish(process)
        self.assertEqual(result.code, 128 + signal.SIGTERM, str(result))
        self.assertEqual(result.stderr.count(f"signal 15 asks to stop, which waits for {where}; send it once more"), 1, str(result))
        (self.folder / "asleep").unlink()
        return result

    def hang_for_long(self, how, where, *flags):
        result = self.hang(how, where, *flags, "--timeout=7s")
        self.assertIn(f"signal 15 has asked to stop, and {where} was not over within 7 s (--timeout)", result.stderr)


class Crash(HangTest):
    def test_of_a_step_names_the_hook(self):
        self.crash("segv", STEP.format(0), *ONE, code=-signal.SIGSEGV)

    def test_of_a_dataset_names_the_batch(self):
        self.crash("data-segv", DATA, *ONE, code=-signal.SIGSEGV)


class Hang(HangTest):
    def test_of_a_step_ends_at_the_timeout(self):
        self.hang_for_long("sleep", STEP.format(0), *ONE)

    def test_of_a_dataset_ends_at_the_timeout(self):
        self.hang_for_long("data-sleep", DATA, *ONE)


class InFull(HangTest):
    def test_a_crash_of_a_worker_names_it(self):
        self.crash("data-segv", DATA + " in worker 0", "--workers=1", *ONE, code=-signal.SIGSEGV)

    def test_a_crash_of_one_rank_names_the_hook(self):
        self.crash("abort", STEP.format(1), *TWO, code=128 + signal.SIGABRT, name="SIGABRT")
        self.crash("abort", STEP.format(0), *SPAWN, code=128 + signal.SIGABRT, name="SIGABRT")

    def test_a_hang_of_a_worker_ends_at_the_timeout(self):
        self.hang_for_long("data-sleep", "worker 0 of the training data, still reading batch 5", "--workers=1", *ONE)

    def test_a_hang_of_one_rank_ends_with_its_launcher(self):
        for how, where in (("sleep", STEP.format(1)), ("data-sleep", DATA)):
            with self.subTest(how=how):
                self.hang(how, where, *TWO)
        self.hang("sleep", STEP.format(0), *SPAWN)

    def test_a_hang_of_all_ranks_ends_at_the_timeout(self):
        result = self.hang("sleep", STEP.format(0), *TWO, "--failing-rank=-1", "--timeout=7s")
        for rank in (0, 1):
            self.assertIn(f"signal 15 has asked to stop, and {STEP.format(rank)} was not over within 7 s", result.stderr)


if __name__ == "__main__":
    harness.main(at_once=2)
