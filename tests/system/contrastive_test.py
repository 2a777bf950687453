"""The contrastive example: a loss over the batch of a node or of all ranks, and a linear probe on what it learned."""
import harness
from harness import BUILD, COHORT, SystemTest

CONTRASTIVE = str(BUILD / "bin/contrastive")
SPREAD = [COHORT, "run", "--nnodes=2", "--nproc-per-node=1"]
GATHERED = ([], ["--strategy=ddp", "--devices=2", "--batch-size=64", "--gather=1"], 127, 2)
WAYS = (  # start, flags, negatives of a view, processes
    ([], ["--strategy=dp", "--devices=2"], 127, 1),
    (SPREAD, ["--strategy=ddp2", "--devices=2", "--batch-size=64"], 63, 2),
    ([], ["--strategy=ddp", "--devices=2", "--batch-size=64"], 63, 2),
    GATHERED,
)


class ContrastiveTest(SystemTest):
    def learn(self, way, accuracy, *more):
        start, flags, negatives, processes = way
        with self.subTest(flags=flags):
            self.succeed([*start, CONTRASTIVE, *flags, *more, "--summary-json=summary.json"], timeout=300)
            summary = self.summary()
            self.assertEqual(summary["metrics"]["negatives"], negatives)
            self.assertEqual(len(summary["weights_sha256"]), processes)
            self.assertEqual(len(set(summary["weights_sha256"])), 1)
            self.assertGreaterEqual(summary["metrics"]["probe_acc"], accuracy)


class Contrastive(ContrastiveTest):
    def test_a_linear_probe_reads_the_digits_after_half_an_epoch_without_labels(self):
        # A probe on an encoder that has learned nothing gives 0.74.
        self.learn(GATHERED, 0.83, "--epochs=1", "--probe-epochs=1", "--limit-train-batches=0.5")


class InFull(ContrastiveTest):
    def test_a_linear_probe_reads_the_digits_from_what_was_learned_without_labels(self):
        for way in WAYS:
            # A probe on an encoder that has learned nothing gives 0.79.
            self.learn(way, 0.92, "--epochs=2", "--probe-epochs=2")


if __name__ == "__main__":
    harness.main()
