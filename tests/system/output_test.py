"""What ranks and launchers write: lines stay whole, and nothing depends on whether somebody reads them."""
import array
import fcntl
import os
import pty
import signal
import sys
import termios
import time

import harness
from harness import BUILD, COHORT, HANG, MNIST, SystemTest

JOB = ["--max-steps=20", "--epochs=1", "--limit-val-batches=2", "--limit-test-batches=2", "--summary-json=summary.json"]
LINES = "import os, sys; sys.stdout.write((os.environ['RANK'] * 99 + '\\n') * 50000)"


def is_full(pipe):
    """Whether a program that writes more has to wait: it writes at most a page at a time where little room is left."""
    waiting = array.array("i", [0])
    fcntl.ioctl(pipe, termios.FIONREAD, waiting)
    return waiting[0] > fcntl.fcntl(pipe, fcntl.F_GETPIPE_SZ) - 4096


class OutputTest(SystemTest):
    def train_unread(self, *commands):
        for command in commands:
            with self.subTest(command=command[1:]):
                process = self.start([*command, *JOB])
                process.stdout.close()
                stderr = process.stderr.read()
                self.assertEqual(process.wait(HANG), 0, stderr)
                process.stderr.close()
                (self.folder / "summary.json").unlink()  # it was written


class Output(OutputTest):
    def test_lines_of_ranks_on_hosts_stay_whole(self):
        result = self.succeed([COHORT, "run", "-H", "localhost:2", sys.executable, "-c", LINES])
        lines = result.stdout.splitlines()
        self.assertEqual(len(lines), 100000)
        self.assertEqual({(len(line), len(set(line))) for line in lines}, {(99, 1)})

    def test_training_ends_well_where_nobody_reads_its_output(self):
        self.train_unread([MNIST, "--strategy=ddp", "--devices=2"], [COHORT, "run", "-H", "localhost:2", MNIST])

    def test_programs_of_any_kind_find_a_broken_pipe_as_they_know_it(self):
        self.fail_with(128 + signal.SIGPIPE, [COHORT, "run", "-n", "1", "sh", "-c", "kill -PIPE $$; sleep 1"])

    def test_a_launcher_whose_output_nobody_reads_hears_that_it_should_stop(self):
        process = self.start([COHORT, "run", "-H", "localhost:2", "yes"])
        self.wait_until(lambda: is_full(process.stdout), "the pipe is full", process)
        process.terminate()
        self.assertEqual(process.wait(HANG), 128 + signal.SIGTERM)
        process.stdout.close()
        process.stderr.close()


    def test_a_launcher_that_heard_it_should_stop_waits_for_no_reader(self):
        # They fill the pipe once the launcher has taken its signal.
        rank = 'trap "head -c 1000000 /dev/zero; exit 0" TERM; touch ready-$RANK; while :; do sleep 0.05; done'
        process = self.start([COHORT, "run", "-H", "localhost:2", "sh", "-c", rank])
        self.wait_until(lambda: all((self.folder / f"ready-{number}").exists() for number in (0, 1)), "the ranks run", process)
        process.terminate()
        self.assertEqual(process.wait(HANG), 128 + signal.SIGTERM)
        process.stdout.close()
        process.stderr.close()


class Terminal(SystemTest):
    def test_ctrl_c_while_ranks_are_started_ends_those_too_that_come_later(self):
        ranks = self.folder / "ranks"
        ranks.mkdir()
        command = [COHORT, "run", "-n", "60", BUILD / "tests/launch_test_rank", f"write={ranks}", "wait"]
        pid, terminal = pty.fork()
        if pid == 0:
            os.execve(command[0], [str(word) for word in command], self.environment())
        self.wait_until((ranks / "rank-0").exists, "a rank runs")
        os.write(terminal, b"\x03")
        deadline = time.monotonic() + HANG
        while (ended := os.waitpid(pid, os.WNOHANG))[0] == 0 and time.monotonic() < deadline:
            time.sleep(0.01)
        os.close(terminal)
        if ended[0] == 0:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        self.assertNotEqual(ended[0], 0, "it waited for ranks that had not heard")
        self.assertEqual(os.waitstatus_to_exitcode(ended[1]), 128 + signal.SIGINT)


class InFull(OutputTest):
    def test_training_started_otherwise_ends_well_where_nobody_reads_its_output(self):
        self.train_unread([MNIST, "--strategy=single"], [MNIST, "--devices=2"], [COHORT, "run", "-n", "2", MNIST])


if __name__ == "__main__":
    harness.main()
