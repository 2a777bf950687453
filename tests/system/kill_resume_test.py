"""Killed by SIGKILL in the middle and resumed, a training ends as an uninterrupted one: weights, metrics, tables, best checkpoints."""
import os
import time

import harness
from harness import BUILD, MNIST, SystemTest, kill, processes_marked

LIMITS = ["--epochs=4", "--limit-train-batches=60", "--limit-val-batches=3", "--limit-test-batches=3", "--threads=1"]
CALLBACKS = ["--ema=0.9", "--early-stopping=val_loss,patience=2", "--monitor=val_acc,mode=max", "--keep-best=2"]
LOGGERS = ["--log-every-n-steps=10", "--logger=csv", "--logger=json", "--logger=tensorboard"]
KILLED_AFTER = 70  # steps: in the second epoch
TABLES = ("metrics.csv", "metrics.jsonl")
KILLS = int(os.environ.get("COHORT_SOAK_ROUNDS", "5"))


class Killed(SystemTest):
    program = [MNIST, *LIMITS]

    def training(self, folder, *way):
        return [*self.program, *way, *CALLBACKS, *LOGGERS, f"--log-dir={folder}/logs", f"--checkpoint-dir={folder}/ckpt",
                "--checkpoint-every-n-steps=7", "--summary-json=summary.json"]

    def has_checkpoint(self, folder):
        names = [entry.name for entry in (self.folder / folder / "ckpt").glob("step-*")]
        return any(name >= f"step-{KILLED_AFTER:08}" for name in names)

    def kill_and_compare(self, way):
        name = "-".join(way).replace("=", "-").replace(":", "-")
        whole, killed = f"whole{name}", f"killed{name}"
        self.succeed(self.training(whole, *way))
        expected = self.summary()
        process = self.start(self.training(killed, *way))
        self.wait_until(lambda: self.has_checkpoint(killed), "there is a checkpoint of the second epoch", process)
        kill([process.pid, *processes_marked(self.marker)])
        self.finish(process)
        self.succeed([*self.training(killed, *way), "--resume=auto"])
        self.compare(self.summary(), expected, killed, whole)

    def compare(self, resumed, expected, killed, whole):
        for key in ("weights_sha256", "metrics", "steps", "epochs", "exit_reason"):
            self.assertEqual(resumed[key], expected[key], key)
        tables = [{str(file.relative_to(self.folder / folder)): file.read_text() for table in TABLES
                   for file in (self.folder / folder).glob(f"logs/version_0/**/{table}")} for folder in (whole, killed)]
        self.assertEqual(tables[1], tables[0])
        best = [sorted(entry.name for entry in (self.folder / folder / "ckpt/best").iterdir()) for folder in (whole, killed)]
        self.assertEqual(best[1], best[0])


class KillAndResume(Killed):
    def test_ddp_ends_as_if_it_had_not_been_killed(self):
        self.kill_and_compare(["--strategy=ddp", "--devices=2"])


class InFull(Killed):
    def test_other_strategies_end_as_if_they_had_not_been_killed(self):
        for way in (["--devices=1"], ["--devices=2", "--strategy=ddp_spawn"], ["--devices=2", "--strategy=bagua:bytegrad"],
                    ["--devices=2", "--deterministic", "--strategy=dp"]):
            with self.subTest(way=way):
                self.kill_and_compare(way)


class Everything(Killed):
    """Schedules, several optimizers, workers or a stream, metric objects and random numbers beside the callbacks."""
    program = [str(BUILD / "tests/resume_program"), "--threads=1"]


class EverythingOnRanks(Everything):
    def test_ddp_goes_on_with_workers_and_with_a_stream(self):
        for source in ("rows", "stream"):
            with self.subTest(source=source):
                self.kill_and_compare(["--strategy=ddp", "--devices=2", f"--source={source}"])


class EverythingInFull(Everything):
    def test_other_strategies_go_on_with_workers_and_with_a_stream(self):
        for source in ("rows", "stream"):
            for way in (["--devices=1"], ["--devices=2", "--strategy=ddp_spawn"], ["--devices=2", "--strategy=bagua:bytegrad"],
                        ["--devices=2", "--deterministic", "--strategy=dp"]):
                with self.subTest(way=way, source=source):
                    self.kill_and_compare([*way, f"--source={source}"])


class KilledManyTimesInFull(Everything):
    """One training after the other, each killed at random moments until it ends by itself."""
    LONGEST = 4  # seconds to a kill

    def kill_until_it_ends(self, way, name, kills):
        """Returns how many kills were needed."""
        whole, killed = f"whole-{name}", f"killed-{name}"
        self.succeed(self.training(whole, *way))
        expected = self.summary()
        for number in range(kills):
            process = self.start([*self.training(killed, *way), "--resume=auto"])
            until = time.monotonic() + self.random.uniform(0.2, self.LONGEST)
            while process.poll() is None and time.monotonic() < until:
                time.sleep(0.02)
            if process.poll() is not None:
                self.assertEqual(self.finish(process).code, 0)
                self.compare(self.summary(), expected, killed, whole)
                return number
            kill([process.pid, *processes_marked(self.marker)])
            self.finish(process)
        self.succeed([*self.training(killed, *way), "--resume=auto"])
        self.compare(self.summary(), expected, killed, whole)
        return kills

    def test_every_kill_leaves_the_training_as_it_was(self):
        self.random = self.chance()
        ways = (["--strategy=ddp"], ["--strategy=sharded", "--precision=16-mixed"], ["--strategy=bagua:decentralized"],
                ["--strategy=ddp_spawn", "--accumulate-grad-batches=2"], ["--strategy=bagua:low_precision_decentralized"])
        done, number = 0, 0
        while done < KILLS:
            way = [*ways[number % len(ways)], "--devices=2", f"--source={('rows', 'stream')[number // len(ways) % 2]}",
                   f"--fits={1 + number % 2}"]
            with self.subTest(way=way):
                done += max(1, self.kill_until_it_ends(way, number, min(KILLS - done, 10)))
            number += 1


if __name__ == "__main__":
    harness.main()
