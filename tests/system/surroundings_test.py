"""What a program needs of its surroundings: what it can do without it does without, and what is missing is one sentence."""
import itertools
import os
import pty
import shutil
import signal
import subprocess
import time
import unittest

import harness
from harness import BUILD, COHORT, HANG, MNIST, SystemTest

PROGRAM = str(BUILD / "tests/failing_program")
SLOW_PROGRAM = str(BUILD / "tests/spawn_program")
SHORT = ["--max-steps=3", "--summary-json=summary.json"]
WAYS = {"single": [PROGRAM, "--strategy=single"], "ddp": [PROGRAM, "--strategy=ddp", "--devices=2"],
        "ddp_spawn": [PROGRAM, "--strategy=ddp_spawn", "--devices=2"], "cohort run": [COHORT, "run", "-n", "2", PROGRAM]}


def in_shell(prelude, command):
    return ["sh", "-c", f'{prelude} exec "$@"', "sh", *command]


def may_unshare(*what):
    return shutil.which("unshare") is not None and subprocess.run(["unshare", *what, "true"], capture_output=True).returncode == 0


class SurroundingsTest(SystemTest):
    def refuse(self, prelude, command, *texts):
        """Expects one sentence, and nothing else, at once."""
        result = self.fail_with(2, in_shell(prelude, command), *texts)
        self.assertEqual(result.stderr.count("error: "), 1, str(result))
        return result

    def train_without(self, streams, ways):
        for closed, way in itertools.product(streams, ways):
            with self.subTest(closed=closed, way=way):
                redirections = " ".join(f"{stream}{'<' if stream == '0' else '>'}&-" for stream in closed)
                self.succeed(in_shell(f"exec {redirections};", [*WAYS[way], *SHORT, "--log-dir=logs"]))
                self.assertEqual(self.summary()["exit_reason"], "max_steps")
                (self.folder / "summary.json").unlink()
                self.assertIn("Total params", (self.folder / "logs/rank-0.log").read_text())
                shutil.rmtree(self.folder / "logs")

    def hang_up(self, command):
        """Takes the terminal of a training away; returns its exit code."""
        pid, terminal = pty.fork()
        if pid == 0:
            os.chdir(self.folder)
            os.execve(command[0], [str(word) for word in command], self.environment())
        def steps():
            return (self.folder / "logs/version_0/metrics.csv").is_file() and len((self.folder / "logs/version_0/metrics.csv").read_text().splitlines()) > 1
        self.wait_until(steps, "an epoch is over")
        os.close(terminal)
        deadline = time.monotonic() + HANG
        while (ended := os.waitpid(pid, os.WNOHANG))[0] == 0 and time.monotonic() < deadline:
            time.sleep(0.01)
        if ended[0] == 0:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            self.fail("it did not hear that its terminal is gone")
        return os.waitstatus_to_exitcode(ended[1])

    def check_hang_up(self, *launcher_and_options):
        code = self.hang_up([*launcher_and_options, "--how=slow", "--max-epochs=1000", "--checkpoint-dir=ckpt", "--log-dir=logs",
                             "--summary-json=summary.json"])
        self.assertEqual(code, 128 + signal.SIGHUP)
        self.assertIn(f"received signal {signal.SIGHUP:d}", (self.folder / "logs/rank-0.log").read_text())
        self.assertTrue(list((self.folder / "ckpt").glob("step-*/manifest.json")))
        self.assertEqual(self.summary()["exit_reason"], "signal")


class Streams(SurroundingsTest):
    def test_programs_run_without_standard_streams(self):
        self.train_without(["012"], ["ddp", "ddp_spawn"])


class Limits(SurroundingsTest):
    def test_too_few_files_are_one_sentence(self):
        for files in (8, 16):
            self.refuse(f"ulimit -n {files};", WAYS["ddp"], f"only {files} files open", "ulimit -n")

    def test_a_soft_limit_of_files_is_raised(self):
        self.succeed(in_shell("ulimit -S -n 16;", [*WAYS["ddp_spawn"], *SHORT]))

    def test_a_small_stack_is_one_sentence(self):
        self.refuse("ulimit -s 64;", WAYS["single"], "the stack may have only 64 KiB", "ulimit -s")
        self.refuse("ulimit -s 64;", [COHORT, "plugins", "list"], "the stack may have only 64 KiB")

    def test_files_that_cannot_grow_are_an_error_of_write_and_no_signal(self):
        result = self.fail_with(2, in_shell("ulimit -f 0;", [MNIST, "--max-steps=3", "--log-dir=logs"]),
                                "metrics.csv: File too large")
        self.assertEqual(result.stderr.count("lines of this rank's log are lost"), 1, str(result))

    def test_programs_of_any_kind_find_a_limit_of_size_as_they_know_it(self):
        self.fail_with(128 + signal.SIGXFSZ, [COHORT, "run", "-n", "1", "sh", "-c", "kill -XFSZ $$; sleep 1"])


class Places(SurroundingsTest):
    def test_a_deleted_working_folder_is_one_sentence(self):
        for more in ([], ["--hosts=localhost:2"]):
            self.refuse("mkdir gone; cd gone; rmdir ../gone;", [COHORT, "run", *(more or ["-n", "2"]), PROGRAM],
                        "the working folder cannot be found", "change to a folder")

    @unittest.skipUnless(may_unshare("-n"), "needs root, to make a network namespace")
    def test_a_machine_without_loopback_needs_it_for_gloo_alone(self):
        for way in ("ddp", "cohort run"):
            self.succeed(["unshare", "-n", *WAYS[way]])
        # Nobody waits for the deadline.
        self.fail_with(2, ["unshare", "-n", *WAYS["ddp"], "--collective=gloo", "--timeout=1h"],
                       "gloo connects the ranks of one machine at 127.0.0.1, which no network interface has; run ip link set lo up")

    @unittest.skipUnless(may_unshare("-p", "-f"), "needs root, to make a PID namespace")
    def test_a_proc_of_other_processes_is_one_sentence(self):
        result = self.fail_with(2, ["unshare", "-p", "-f", *WAYS["ddp"]], "/proc does not show the processes", "--mount-proc")
        self.assertEqual(result.stderr.count("error: "), 1, str(result))


class Terminal(SurroundingsTest):
    def test_a_terminal_that_is_lost_ends_training_with_a_checkpoint_and_129(self):
        self.check_hang_up(SLOW_PROGRAM, "--strategy=ddp", "--devices=2")


class Signals(SurroundingsTest):
    def test_signals_of_two_kinds_at_once_are_one_wish(self):
        """As of a scheduler that announces the time limit and then ends the job, or of systemd."""
        for launcher in ([SLOW_PROGRAM, "--strategy=single"], [SLOW_PROGRAM, "--strategy=ddp", "--devices=2"]):
            with self.subTest(launcher=launcher):
                process = self.start([*launcher, "--how=slow", "--max-epochs=1000", "--checkpoint-dir=ckpt", "--log-dir=logs"])
                self.wait_until_step(process, 1)
                process.send_signal(signal.SIGUSR1)
                process.send_signal(signal.SIGTERM)
                result = self.finish(process)
                # The kernel may deliver either first; SIGUSR1 kills a program that ends by it.
                self.assertIn(result.code, (-signal.SIGUSR1, 128 + signal.SIGUSR1, 128 + signal.SIGTERM), str(result))
                self.assertTrue(list((self.folder / "ckpt").glob("step-*/manifest.json")), str(result))
                shutil.rmtree(self.folder / "ckpt")
                shutil.rmtree(self.folder / "logs")


class InFull(SurroundingsTest):
    def test_programs_run_without_any_of_the_standard_streams(self):
        closed = ["".join(some) for count in (1, 2, 3) for some in itertools.combinations("012", count)]
        self.train_without(closed, WAYS)

    def test_the_launcher_whose_terminal_is_lost_ends_its_ranks_with_a_checkpoint(self):
        for launcher in ([SLOW_PROGRAM, "--strategy=single"], [SLOW_PROGRAM, "--strategy=ddp_spawn", "--devices=2"],
                         [COHORT, "run", "-n", "2", SLOW_PROGRAM]):
            with self.subTest(launcher=launcher):
                self.check_hang_up(*launcher)
                shutil.rmtree(self.folder / "ckpt")
                shutil.rmtree(self.folder / "logs")

    def test_under_nohup_a_hang_up_changes_nothing(self):
        process = self.start(["nohup", SLOW_PROGRAM, "--strategy=ddp", "--devices=2", "--how=slow", "--max-epochs=40",
                              "--log-dir=logs", "--summary-json=summary.json"], start_new_session=True)
        self.wait_until_step(process, 1)
        os.killpg(process.pid, signal.SIGHUP)
        result = self.finish(process)
        self.assertEqual(result.code, 0, str(result))
        self.assertEqual(self.summary()["exit_reason"], "completed")

    def test_a_name_that_nobody_knows_is_no_rank_that_is_missing(self):
        self.fail_with(2, [PROGRAM, "--timeout=3s", "--insecure"], "MASTER_ADDR 'nobody.invalid' cannot be resolved", environment={
            "RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1", "MASTER_ADDR": "nobody.invalid",
            "MASTER_PORT": "29500"})

    def test_a_single_rank_needs_fewer_files_than_several(self):
        self.succeed(in_shell("ulimit -n 16;", [*WAYS["single"], *SHORT]))


if __name__ == "__main__":
    harness.main()
