"""The example as a user runs it: epochs with validation, one test run, equal ranks, a summary to read."""
import gzip

import harness
from harness import COHORT, MNIST, SOURCE, SystemTest

SUMMARY_KEYS = {"strategy", "variant", "layers", "collective", "accelerator", "world_size", "num_nodes", "replicas", "threads",
                "steps", "epochs", "wall_seconds", "seconds_to_first_step", "step_ms_median", "step_ms_min",
                "samples_per_second", "bytes_sent_per_step", "peak_rss_mib", "metrics", "weights_sha256", "exit_reason"}
FEW = ["--epochs=1", "--max-steps=10", "--limit-val-batches=1", "--limit-test-batches=1", "--summary-json=summary.json"]


class MnistTest(SystemTest):
    def train_and_test(self, epochs, accuracy, *more):
        result = self.succeed([MNIST, "--devices=2", "--summary-json=summary.json", "--log-dir=logs", *more], timeout=600)
        summary = self.summary()
        self.assertEqual(set(summary), SUMMARY_KEYS)
        self.assertGreaterEqual(summary["metrics"]["test_acc"], accuracy)
        self.assertEqual(summary["weights_sha256"][0], summary["weights_sha256"][1])
        self.assertEqual(len(summary["weights_sha256"]), 2)
        self.assertEqual(summary["epochs"], epochs)
        self.assertEqual(summary["exit_reason"], "completed")
        # fp32 gradients of 215,370 parameters, a mean over two ranks.
        self.assertEqual(summary["bytes_sent_per_step"], 215370 * 4)
        self.assertGreater(summary["seconds_to_first_step"], 0)
        self.assertLess(summary["seconds_to_first_step"], summary["wall_seconds"])
        self.assertTrue((self.folder / "logs/version_0/metrics.csv").read_text().count("\n") >= epochs)
        self.assertTrue((self.folder / "logs/rank-1.log").exists())
        self.assertIn("test_acc", result.stdout)


class Mnist(MnistTest):
    def test_two_epochs_then_one_test_run(self):
        self.train_and_test(2, 0.95, "--epochs=2")

    def test_the_same_seed_gives_the_same_bits_and_another_seed_others(self):
        digests = []
        for seed in (3, 3, 4):
            self.succeed([MNIST, "--devices=2", f"--seed={seed}", *FEW])
            digests.append(self.summary()["weights_sha256"][0])
        self.assertEqual(digests[0], digests[1])
        self.assertNotEqual(digests[0], digests[2])

    def test_compression_sends_half(self):
        self.succeed([MNIST, "--devices=2", "--strategy=ddp,compression=bf16", *FEW])
        self.assertEqual(self.summary()["bytes_sent_per_step"], 215370 * 2)
        self.assertEqual(len(set(self.summary()["weights_sha256"])), 1)

    def test_config_file_environment_and_flag_take_precedence_in_that_order(self):
        config = self.folder / "job.toml"
        config.write_text('max-steps = 3\nseed = 1\ndevices = "1"\n[strategy.single]\n')
        self.succeed([MNIST, f"--config={config}", "--max-steps=5", "--epochs=1", "--summary-json=summary.json"],
                     environment={"COHORT_MAX_STEPS": "4", "COHORT_SEED": "9"})
        self.assertEqual(self.summary()["steps"], 5)
        printed = self.succeed([MNIST, f"--config={config}", "--print-config"], environment={"COHORT_MAX_STEPS": "4"}).stdout
        self.assertIn("max-steps = 4", printed)


class InFull(MnistTest):
    def test_images_are_read_under_each_name_that_is_usual(self):
        digests = set()
        for place in ("", "MNIST/raw"):
            for separator in ("-", "."):
                for ending in ("", ".gz"):
                    folder = self.folder / f"data{len(list(self.folder.iterdir()))}"
                    (folder / place).mkdir(parents=True)
                    for source in (SOURCE / "examples/mnist/data").glob("t10k-*.gz"):
                        content = source.read_bytes() if ending else gzip.decompress(source.read_bytes())
                        name = source.name.removesuffix(".gz").replace("-idx", f"{separator}idx") + ending
                        for part in ("t10k", "train"):
                            (folder / place / name.replace("t10k", part)).write_bytes(content)
                    self.succeed([MNIST, f"--data-dir={folder}", *FEW])
                    digests.update(self.summary()["weights_sha256"])
        self.assertEqual(len(digests), 1)

    def test_ten_epochs_then_one_test_run(self):
        self.train_and_test(10, 0.97)

    def test_replicas_and_forked_ranks_reach_the_same_accuracy(self):
        spread = [COHORT, "run", "--nnodes=2", "--nproc-per-node=1"]
        for start, strategy, processes in (([], "dp", 1), (spread, "ddp2", 2), ([], "ddp_spawn", 2)):
            with self.subTest(strategy=strategy):
                self.succeed([*start, MNIST, f"--strategy={strategy}", "--devices=2", "--epochs=1", "--summary-json=summary.json"])
                summary = self.summary()
                self.assertEqual((summary["strategy"], len(summary["weights_sha256"])), (strategy, processes))
                self.assertEqual(len(set(summary["weights_sha256"])), 1)
                self.assertGreaterEqual(summary["metrics"]["test_acc"], 0.94)

    def test_bucket_sizes_change_no_bit(self):
        digests = set()
        for size in ("1", "64KiB", "100MiB"):
            self.succeed([MNIST, "--devices=3", f"--bucket-size={size}", *FEW])
            digests.add(self.summary()["weights_sha256"][0])
        self.assertEqual(len(digests), 1)


if __name__ == "__main__":
    harness.main()
