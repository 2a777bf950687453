"""A rank that dies or stops ends the others with its name, in time, and leaves nothing behind."""
import os
import pathlib
import random
import signal
import time
import unittest

from harness import COHORT, MNIST, SystemTest

ROUNDS = int(os.environ.get("COHORT_SOAK_ROUNDS", "10"))
ENDLESS = ["--epochs=1000", "--limit-val-batches=1"]


def ranks_of(marker):
    """pid by rank, of processes that carry the marker and a RANK."""
    found = {}
    for entry in pathlib.Path("/proc").iterdir():
        try:
            variables = dict(pair.split("=", 1) for pair in (entry / "environ").read_text().split("\0") if "=" in pair)
        except (OSError, UnicodeDecodeError):
            continue
        key, value = marker.split("=")
        if variables.get(key) == value and "RANK" in variables and "COHORT_RUN_ID" in variables:
            found[int(variables["RANK"])] = int(entry.name)
    return found


class RankDeath(SystemTest):
    def wait_for_ranks(self, count, timeout=20):
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            ranks = ranks_of(self.marker)
            if len(ranks) == count:
                return ranks
            time.sleep(0.01)
        self.fail(f"{count} ranks did not start")

    def kill_one(self, world, signal_number, delay, timeout_flag="300s"):
        process = self.start([MNIST, f"--devices={world}", f"--timeout={timeout_flag}", *ENDLESS])
        ranks = self.wait_for_ranks(world)
        time.sleep(delay)
        victim = random.choice(sorted(ranks))
        os.kill(ranks[victim], signal_number)
        begin = time.monotonic()
        try:
            _, stderr = process.communicate(timeout=40)
        finally:
            if process.poll() is None:
                process.kill()
                process.communicate()
        return victim, process.returncode, time.monotonic() - begin, stderr

    def test_a_killed_rank_ends_all_within_five_seconds_with_its_name(self):
        random.seed(11)
        for round_number in range(ROUNDS):
            delay = random.choice([random.uniform(0, 0.6), random.uniform(0.6, 3.0)])
            with self.subTest(round=round_number, delay=delay):
                victim, code, seconds, stderr = self.kill_one(2 + round_number % 2, signal.SIGKILL, delay)
                self.assertEqual(code, 128 + signal.SIGKILL, stderr)
                self.assertLess(seconds, 5, stderr)
                self.assertRegex(stderr, rf"rank {victim} \(pid \d+\).*signal 9", stderr)

    def test_ctrl_c_ends_all_ranks_together(self):
        process = self.start([MNIST, "--devices=2", *ENDLESS])
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
