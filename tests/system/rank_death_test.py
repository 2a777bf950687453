"""A rank that dies or stops ends the others with its name, in time, and leaves nothing behind."""
import math
import os
import pathlib
import random
import signal
import time
import unittest

from harness import COHORT, MNIST, PLUGINS, SystemTest

ROUNDS = int(os.environ.get("COHORT_SOAK_ROUNDS", "8"))
WIRES = [wire for wire in ("shm", "gloo") if (PLUGINS / f"cohort_{wire}.so").exists()]
ENDLESS = ["--epochs=1000", "--limit-val-batches=1"]
TIMEOUT = 3  # seconds that ranks wait for one that is stopped
PATIENCE = 5  # seconds for everything else
USUAL_START = 1  # seconds, at most, until the launcher has started its ranks where cores are free


def variables_of(pid):
    text = pathlib.Path(f"/proc/{pid}/environ").read_text()
    return dict(pair.split("=", 1) for pair in text.split("\0") if "=" in pair)


def ranks_of(marker):
    """pid by rank, of processes that carry the marker and a RANK."""
    found = {}
    key, value = marker.split("=")
    for entry in pathlib.Path("/proc").iterdir():
        try:
            variables = variables_of(entry.name) if entry.name.isdigit() else {}
        except (OSError, UnicodeDecodeError):
            continue
        if variables.get(key) == value and "RANK" in variables and "COHORT_RUN_ID" in variables:
            found[int(variables["RANK"])] = int(entry.name)
    return found


def is_listening(port):
    lines = pathlib.Path("/proc/net/tcp").read_text().splitlines() + pathlib.Path("/proc/net/tcp6").read_text().splitlines()
    fields = [line.split() for line in lines]
    return any(field[1].endswith(f":{port:04X}") and field[3] == "0A" for field in fields)


class RankDeath(SystemTest):
    slowness = 1  # of the last start, compared with USUAL_START

    def wait_for_ranks(self, count, timeout=60):
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            ranks = ranks_of(self.marker)
            if len(ranks) == count:
                return ranks
            time.sleep(0.01)
        self.fail(f"{count} ranks did not start")

    def test_a_program_in_a_script_ends_with_its_launcher_and_with_the_other_ranks(self):
        script = self.folder / "train.sh"
        script.write_text(f'#!/bin/sh\n"{MNIST}" "$@"\nexit $?\n')
        script.chmod(0o755)
        for place in ("-n2", "-Hlocalhost:2"):
            with self.subTest(place=place):
                process = self.start([COHORT, "run", place, script, *ENDLESS, f"--checkpoint-dir=checkpoints{place}"])
                self.wait_for_ranks(2)
                time.sleep(3)
                process.terminate()
                self.assertEqual(process.wait(timeout=40), 128 + signal.SIGTERM)
                self.nothing_is_left_behind()
                _, stderr = process.communicate()
                self.assertTrue(list((self.folder / f"checkpoints{place}").glob("step-*")), "it did not finish its step: " + stderr)

    def hit_one(self, wire, world, signal_number, delay):
        """Returns the victim, the exit code, the seconds until all had left, the seconds that may take, and stderr."""
        timeout = math.ceil(TIMEOUT * self.slowness) if signal_number == signal.SIGSTOP else 60
        started = time.monotonic()
        process = self.start([MNIST, "--strategy=ddp", f"--devices={world}", f"--collective={wire}", f"--timeout={timeout}s",
                              f"--log-dir={self.folder / 'logs'}", *ENDLESS])
        ranks = self.wait_for_ranks(world)
        # Others may use the cores: who takes longer to start takes longer to train, and to leave.
        start_before, self.slowness = self.slowness, max(1, (time.monotonic() - started) / USUAL_START)
        slowness = max(start_before, self.slowness)
        limit = PATIENCE * slowness + (timeout if signal_number == signal.SIGSTOP else 0)
        port = int(variables_of(ranks[0])["MASTER_PORT"])
        time.sleep(delay * slowness)
        victim = random.choice(sorted(ranks))
        os.kill(ranks[victim], signal_number)
        begin = time.monotonic()
        try:
            _, stderr = process.communicate(timeout=8 * limit)
        finally:
            seconds = time.monotonic() - begin
            if process.poll() is None:
                process.kill()
                process.communicate()
        self.assertFalse(is_listening(port), f"port {port} is still open")
        return victim, process.returncode, seconds, limit, stderr

    def check_names(self, victim, stderr):
        """Whoever complains complains about the victim."""
        for line in stderr.splitlines():
            if "error:" in line:
                self.assertIn(f"rank {victim}", line.split("error:", 1)[1], stderr)

    def test_a_rank_that_is_killed_or_stopped_ends_all_in_time_with_its_name(self):
        random.seed(int(os.environ.get("COHORT_SOAK_SEED", "11")))
        for number in range(ROUNDS):
            wire, stops = WIRES[number % len(WIRES)], (number // len(WIRES)) % 3 == 2
            delay = random.choice([random.uniform(0, 0.6), random.uniform(0.6, 3.0)])
            with self.subTest(round=number, wire=wire, stops=stops, delay=delay):
                if stops:
                    victim, code, seconds, limit, stderr = self.hit_one(wire, 2 + number % 3, signal.SIGSTOP, delay)
                    self.assertEqual(code, 4, stderr)
                    self.assertLess(seconds, limit, stderr)
                    self.assertRegex(stderr, rf"rank {victim} \(pid \d+\) on \S+ is stopped by signal 19")
                else:
                    victim, code, seconds, limit, stderr = self.hit_one(wire, 2 + number % 3, signal.SIGKILL, delay)
                    self.assertEqual(code, 128 + signal.SIGKILL, stderr)
                    self.assertLess(seconds, limit, stderr)
                    self.assertRegex(stderr, rf"rank {victim} \(pid \d+\) on \S+ was ended by signal 9")
                self.check_names(victim, stderr)
            self.nothing_is_left_behind()

    def test_ctrl_c_ends_all_ranks_together(self):
        process = self.start([MNIST, "--strategy=ddp", "--devices=2", *ENDLESS])
        self.wait_for_ranks(2)
        time.sleep(2)
        os.kill(process.pid, signal.SIGINT)
        _, stderr = process.communicate(timeout=20)
        self.assertEqual(process.returncode, 128 + signal.SIGINT, stderr)

    def test_a_launcher_that_is_killed_takes_its_ranks_with_it(self):
        process = self.start([COHORT, "run", "-n", "2", MNIST, *ENDLESS])
        self.wait_for_ranks(2)
        os.kill(process.pid, signal.SIGKILL)
        process.communicate(timeout=20)


if __name__ == "__main__":
    unittest.main()
