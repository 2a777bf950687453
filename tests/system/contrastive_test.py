"""The contrastive example: a loss over the batch of a node or of all ranks, and a linear probe on what it learned."""
import harness
from harness import BUILD, COHORT, SystemTest

CONTRASTIVE = str(BUILD / "bin/contrastive")
SPREAD = [COHORT, "run", "--nnodes=2", "--nproc-per-node=1"]
GATHERED = ([], ["--strategy=ddp", "--devices=2", "--batch-size=64", "--gather=1"], 127, 2)
OTHER_WAYS = (  # start, flags, negatives of a view, processes
    ([], ["--strategy=dp", "--devices=2"], 127, 1),
    (SPREAD, ["--strategy=ddp2", "--devices=2", "--batch-size=64"], 63, 2),
    ([], ["--strategy=ddp", "--devices=2", "--batch-size=64"], 63, 2),
)


class ContrastiveTest(SystemTest):
    def learn_for_half_an_epoch(self, way):
        start, flags, negatives, processes = way
        with self.subTest(flags=flags):
            self.succeed([*start, CONTRASTIVE, *flags, "--epochs=1", "--probe-epochs=1", "--limit-train-batches=0.5",
                          "--summary-json=summary.json"])
            summary = self.summary()
            self.assertEqual(summary["metrics"]["negatives"], negatives)
            self.assertEqual(len(summary["weights_sha256"]), processes)
            self.assertEqual(len(set(summary["weights_sha256"])), 1)
            # A probe on an encoder that has learned nothing gives 0.74.
            self.assertGreaterEqual(summary["metrics"]["probe_acc"], 0.83)


class Contrastive(ContrastiveTest):
    def test_a_linear_probe_reads_the_digits_from_what_was_learned_without_labels(self):
        self.learn_for_half_an_epoch(GATHERED)


class InFull(ContrastiveTest):
    def test_a_linear_probe_reads_the_digits_from_what_was_learned_without_labels(self):
        for way in OTHER_WAYS:
            self.learn_for_half_an_epoch(way)


if __name__ == "__main__":
    harness.main()
