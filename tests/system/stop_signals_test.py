"""A job that a signal stops at any moment, and that the same command goes on with, ends as one that nobody stopped.

The moments are by chance: while ranks start, between steps, in a checkpoint, a validation, the test, and behind the end.
"""
import os
import signal
import time

import harness
from harness import COHORT, MNIST, SystemTest

MOMENTS = int(os.environ.get("COHORT_SOAK_ROUNDS", "8"))  # for each signal


class Signals(SystemTest):
    program = [MNIST, "--accelerator=cpu", "--threads=1", "--epochs=2", "--limit-train-batches=60", "--batch-size=8",
               "--limit-val-batches=3", "--limit-test-batches=3"]

    def command(self, name):
        return [COHORT, "run", "-n", "2", *self.program, f"--checkpoint-dir={name}", "--checkpoint-every-n-steps=7",
                "--resume=auto", f"--summary-json={name}.json"]

    def results(self, name):
        summary = self.summary(f"{name}.json")
        return {key: summary[key] for key in ("weights_sha256", "steps", "epochs", "metrics")}

    def stop_at_random_moments(self, number):
        random = self.chance()
        start = time.monotonic()
        self.succeed(self.command("whole"))
        whole = time.monotonic() - start
        for attempt in range(MOMENTS):
            name = f"stopped-{attempt}"
            process = self.start(self.command(name))
            time.sleep(random.uniform(0, whole))  # the moment of the signal
            process.send_signal(number)
            result = self.finish(process)
            # A launcher that is still starting dies of it.
            self.assertIn(result.code, (0, 128 + number, -number), f"{attempt}: {result}")
            self.succeed(self.command(name))
            self.assertEqual(self.results(name), self.results("whole"), str(attempt))

    def test_sigusr1_at_any_moment_loses_nothing(self):
        self.stop_at_random_moments(signal.SIGUSR1)

    def test_sigterm_at_any_moment_loses_nothing(self):
        self.stop_at_random_moments(signal.SIGTERM)


if __name__ == "__main__":
    harness.main(at_once=2)
