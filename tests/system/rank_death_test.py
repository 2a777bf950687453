"""A rank that dies or stops ends the others with its name, in time, and leaves nothing behind."""
import os
import pathlib
import signal
import time

import harness
from harness import COHORT, MNIST, SystemTest, is_listening

ROUNDS = int(os.environ.get("COHORT_SOAK_ROUNDS", "6"))
WIRES = ("shm", "gloo")
# Short epochs: the table of metrics, in which tests see how far a job has come, is written at the end of each.
ENDLESS = ["--epochs=100000", "--limit-train-batches=20", "--limit-val-batches=1"]
TIMEOUT = 5  # seconds that ranks wait for one that is stopped
STARTING = 0  # the step that has been taken when a rank is hit while the ranks start


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


class RankDeathTest(SystemTest):
    def wait_for_ranks(self, process, count):
        return self.wait_until(lambda: len(found := ranks_of(self.marker)) == count and found, f"{count} ranks run", process)

    def hit_one(self, chance, wire, world, signal_number, step):
        """Sends the signal to one of the ranks once they have taken the step; returns the victim and how all of it ended."""
        # A kill is noticed at once; only a stop waits for the deadline.
        timeout = TIMEOUT if signal_number == signal.SIGSTOP else 300
        logs = f"logs-{time.monotonic_ns()}"
        process = self.start([MNIST, "--strategy=ddp", f"--devices={world}", f"--collective={wire}", f"--timeout={timeout}s",
                              f"--log-dir={logs}", *ENDLESS])
        ranks = self.wait_for_ranks(process, world)
        port = int(variables_of(ranks[0])["MASTER_PORT"])
        if step != STARTING:
            self.wait_until_step(process, step, f"{logs}/version_0/metrics.csv")
        time.sleep(chance.uniform(0, 0.3))  # any moment of a step, or of the start
        victim = chance.choice(sorted(ranks))
        os.kill(ranks[victim], signal_number)
        result = self.finish(process)
        self.assertFalse(is_listening(port), f"port {port} is still open")
        return victim, result

    def hit_and_check(self, chance, wire, world, signal_number, step):
        with self.subTest(wire=wire, world=world, signal=signal_number, step=step):
            victim, result = self.hit_one(chance, wire, world, signal_number, step)
            stops = signal_number == signal.SIGSTOP
            self.assertEqual(result.code, 4 if stops else 128 + signal.SIGKILL, str(result))
            what = "is stopped by signal 19" if stops else "was ended by signal 9"
            self.assertRegex(result.stderr, rf"rank {victim} \(pid \d+\) on \S+ {what}")
            for line in result.stderr.splitlines():
                if "error:" in line:
                    self.assertIn(f"rank {victim}", line.split("error:", 1)[1], f"all complain about the victim: {result}")
        self.nothing_is_left_behind()


class RankDeath(RankDeathTest):
    def test_a_rank_that_is_killed_or_stopped_ends_all_with_its_name(self):
        chance = self.chance()
        for wire in WIRES:
            self.hit_and_check(chance, wire, 2, signal.SIGKILL, chance.randint(1, 40))
        self.hit_and_check(chance, chance.choice(WIRES), 3, signal.SIGKILL, STARTING)
        self.hit_and_check(chance, chance.choice(WIRES), 2, signal.SIGSTOP, chance.randint(1, 40))

    def test_a_program_in_a_script_ends_with_its_launcher_and_with_the_other_ranks(self):
        script = self.folder / "train.sh"
        script.write_text(f'#!/bin/sh\n"{MNIST}" "$@"\nexit $?\n')
        script.chmod(0o755)
        for place in ("-n2", "-Hlocalhost:2"):
            with self.subTest(place=place):
                process = self.start([COHORT, "run", place, script, *ENDLESS, f"--checkpoint-dir=checkpoints{place}",
                                      f"--log-dir=logs{place}"])
                self.wait_until_step(process, 1, f"logs{place}/version_0/metrics.csv")
                process.terminate()
                result = self.finish(process)
                self.assertEqual(result.code, 128 + signal.SIGTERM, str(result))
                self.nothing_is_left_behind()
                self.assertTrue(list((self.folder / f"checkpoints{place}").glob("step-*")), f"it did not finish its step: {result}")

    def test_ctrl_c_ends_all_ranks_together(self):
        process = self.start([MNIST, "--strategy=ddp", "--devices=2", "--log-dir=logs", *ENDLESS])
        self.wait_until_step(process, 1)
        os.kill(process.pid, signal.SIGINT)
        result = self.finish(process)
        self.assertEqual(result.code, 128 + signal.SIGINT, str(result))

    def test_a_launcher_that_is_killed_takes_its_ranks_with_it(self):
        process = self.start([COHORT, "run", "-n", "2", MNIST, *ENDLESS])
        self.wait_for_ranks(process, 2)
        os.kill(process.pid, signal.SIGKILL)
        self.finish(process)


class Soak(RankDeathTest):
    def test_whichever_rank_is_hit_at_any_moment_on_any_wire(self):
        chance = self.chance()
        for number in range(ROUNDS):
            signal_number = signal.SIGSTOP if number % 6 >= 4 else signal.SIGKILL
            step = chance.choice((STARTING, chance.randint(1, 300)))
            self.hit_and_check(chance, WIRES[number % len(WIRES)], 2 + number % 3, signal_number, step)


if __name__ == "__main__":
    harness.main()
