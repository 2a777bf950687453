"""The plugins that the pages of docs/plugins begin with: a reader saves, compiles and trains as the page says."""
import csv
import json
import subprocess

import harness
from harness import MNIST, SystemTest
from pages import lay_out_checkout, whole_plugin

FEW = {"COHORT_LIMIT_VAL_BATCHES": "2", "COHORT_LIMIT_TEST_BATCHES": "2"}
STEPS = ["--epochs=1", "--max-steps=20"]


class PluginPages(SystemTest):
    def setUp(self):
        super().setUp()
        lay_out_checkout(self.folder)

    def train_as_written(self, page, flags="", environment=None):
        """Compiles and trains by the commands of a page, with further flags. Returns the summary."""
        file, source, compile_it, train = whole_plugin(page)
        (self.folder / file).write_text(source)
        subprocess.run(["bash", "-c", compile_it], cwd=self.folder, env=self.environment(), check=True)
        self.succeed(["bash", "-c", f"{train} --summary-json=summary.json {flags}"], {**FEW, **(environment or {})})
        return self.summary()

    def train(self, *flags):
        """Trains as long without a plugin. Returns the summary."""
        self.succeed([MNIST, "--devices=2", *STEPS, "--summary-json=without.json", *flags], FEW)
        return self.summary("without.json")

    def test_the_strategy_averages_weights_and_sends_less_than_ddp(self):
        local = self.train_as_written("docs/plugins/strategy.md")
        self.assertEqual((local["strategy"], local["steps"]), ("local_sgd", 20))
        self.assertEqual(len(local["weights_sha256"]), 2)
        self.assertEqual(len(set(local["weights_sha256"])), 1)
        self.assertGreater(local["bytes_sent_per_step"], 0)
        self.assertLess(local["bytes_sent_per_step"], self.train("--strategy=ddp")["bytes_sent_per_step"])

    def test_the_collective_moves_the_bytes_of_another_one(self):
        brake = self.train_as_written("docs/plugins/collective.md", "--deterministic")
        default = self.train("--deterministic")
        self.assertEqual(brake["collective"], "brake(shm)")
        self.assertEqual(default["collective"], "shm")
        self.assertEqual(brake["weights_sha256"], default["weights_sha256"])

    def test_the_accelerator_trains_as_the_cpu_does(self):
        npu = self.train_as_written("docs/plugins/accelerator.md", "--deterministic")
        self.assertEqual(npu["accelerator"], "npu")
        self.assertEqual(npu["weights_sha256"], self.train("--accelerator=cpu", "--deterministic")["weights_sha256"])

    def test_the_logger_writes_the_values_of_the_table(self):
        self.train_as_written("docs/plugins/logger.md", "--log-every-n-steps=5")
        folder = self.folder / "jsonl_logs/version_0"
        with (folder / "metrics.csv").open() as table:
            wanted = {(int(row["step"]), name): float(value) for row in csv.DictReader(table)
                      for name, value in row.items() if value and name not in ("step", "epoch")}
        lines = [json.loads(line) for line in (folder / "values.jsonl").read_text().splitlines()]
        got = {(line["step"], name): value for line in lines for name, value in line.items() if name != "step"}
        self.assertGreater(len(wanted), 4)
        self.assertEqual(got.keys(), wanted.keys())
        for key, value in wanted.items():
            self.assertAlmostEqual(got[key], value, delta=1e-5 * max(1, abs(value)), msg=key)


if __name__ == "__main__":
    harness.main()
