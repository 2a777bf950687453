"""What a training shows: status lines on a terminal, log lines anywhere else."""
import fcntl
import os
import pty
import re
import select
import struct
import termios
import time
import unittest

import harness
from harness import BUILD, MNIST, SystemTest

PROGRAM = str(BUILD / "tests/dropout_program")
SIZES = ["--limit-val-batches=3", "--limit-test-batches=3", "--threads=1"]

COLUMNS = 80


class Terminal:
    """The lines of a terminal after what a program writes: text, carriage return, new line, and what the log uses of the rest."""

    def __init__(self):
        self.lines, self.row = [""], 0

    def write(self, text):
        for part in re.findall(r"\x1b\[\d*[A-Za-z]|\r|\n|[^\x1b\r\n]+", text):
            if part == "\n":
                self.row += 1
                if self.row == len(self.lines):
                    self.lines.append("")
            elif part == "\x1b[1A":
                self.row -= 1
            elif part == "\x1b[K":
                self.lines[self.row] = ""
            elif part != "\r" and not part.startswith("\x1b"):
                self.lines[self.row] += part


class Screen(SystemTest):
    def on_terminal(self, command):
        """Runs it with a terminal as standard error; returns the terminal at its end, and all that was written."""
        master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, COLUMNS, 0, 0))
        process = self.start(command, stderr=slave)
        os.close(slave)
        terminal, written, deadline = Terminal(), "", time.monotonic() + harness.HANG
        while time.monotonic() < deadline:
            if not select.select([master], [], [], 1)[0]:
                continue
            try:
                piece = os.read(master, 65536).decode()
            except OSError:  # the other side is closed
                break
            written += piece
            terminal.write(piece.replace("\r\n", "\n"))
        os.close(master)
        self.assertEqual(process.wait(harness.HANG), 0)
        return terminal, written

    def test_a_terminal_has_status_lines_while_it_trains_and_none_afterwards(self):
        terminal, written = self.on_terminal([MNIST, *SIZES, "--epochs=2", "--limit-train-batches=60", "--log-every-n-steps=10"])
        self.assertRegex(written, r"run       \[#+ +\] \d+/120 steps, 0:\d\d passed, 0:\d\d left")
        self.assertRegex(written, r"epoch 1/2 \[#+ +\] \d+/60 [\d.e+]+ it/s, 0:\d\d left  train_loss [\d.]+")
        left = [line for line in terminal.lines if "it/s" in line or line.startswith("run ")]
        self.assertEqual(left, [], "status lines are left behind")
        self.assertEqual(len([line for line in terminal.lines if line.startswith("epoch ")]), 2)

    def test_values_that_are_logged_for_it_are_all_that_a_status_line_shows(self):
        command = [PROGRAM, "--log-every-n-steps=3", "--threads=1", "--step-ms=5", "--log-dir=logs", "--logger=csv"]
        _, written = self.on_terminal(command)
        lines = [line for line in re.split(r"\r|\n|\x1b\[\d*[A-Za-z]", written) if "it/s" in line]
        chosen = [line for line in lines if "left" not in line]  # others come before the first logging interval
        for line in chosen:
            self.assertRegex(line, r"^epoch [01]/2 \d+/64 [\d.e+]+ it/s  half [\d.e-]+  loss [\d.e-]+(  val [\d.e-]+)?$")
            self.assertLess(len(line), COLUMNS)
        self.assertTrue([line for line in chosen if line.startswith("epoch 0/2")])
        self.assertTrue([line for line in chosen if line.startswith("epoch 1/2")])
        for line in lines:
            self.assertEqual("  val " in line, line.startswith("epoch 1/2"), "a validation is shown from then on")
        head = next((self.folder / "logs").rglob("*.csv")).read_text().splitlines()[0]
        self.assertNotIn(",loss", head, "the files have what the module logs")

    def test_off_a_terminal_they_are_values_as_all_others(self):
        log = self.succeed([PROGRAM, "--log-every-n-steps=32", "--threads=1"]).stderr
        lines = re.findall(r"^epoch 0  step (\d+)/128  half [\d.e-]+  hidden [\d.e-]+  [\d.e+]+ it/s", log, re.M)
        self.assertEqual(lines, ["32", "64"])

    def test_a_pipe_has_a_line_for_each_logged_step(self):
        log = self.succeed([MNIST, *SIZES, "--epochs=1", "--limit-train-batches=40", "--log-every-n-steps=10"]).stderr
        lines = re.findall(r"^epoch 0  step (\d+)/40  train_loss [\d.e-]+  [\d.e+]+ it/s  \d:\d\d left$", log, re.M)
        self.assertEqual(lines, ["10", "20", "30", "40"])
        self.assertNotIn("\x1b", log)
        quiet = self.succeed([MNIST, *SIZES, "--max-steps=20", "--log-level=warning", "--log-every-n-steps=10"]).stderr
        self.assertEqual(quiet, "")

    def test_a_validation_within_an_epoch_is_shown(self):
        log = self.succeed([MNIST, *SIZES, "--max-steps=30", "--val-check-interval=10"]).stderr
        self.assertEqual(re.findall(r"^step (\d+): val_acc [\d.]+, val_loss [\d.]+$", log, re.M), ["10", "20"])


if __name__ == "__main__":
    harness.main()
