"""The examples do what their READMEs say: briefly in the quick tier, to the end in full."""
import re

import harness
from harness import BUILD, SystemTest, launcher_of

CHARGPT, GAN, TRANSFER, OWN_LOOP = (str(BUILD / "bin" / name) for name in ("chargpt", "gan", "transfer", "own_loop"))
SUMMARY = "--summary-json=summary.json"


class ExamplesTest(SystemTest):
    def metrics(self, command, timeout=300):
        """Returns the metrics of a run and what it has printed."""
        printed = self.succeed([*command, SUMMARY], timeout=timeout).stdout
        self.assertEqual(len(set(self.summary()["weights_sha256"])), 1)
        return self.summary()["metrics"], printed

    def image_of(self, command):
        metrics, _ = self.metrics([*command, f"--image={self.folder / 'digits.pgm'}"])
        data = (self.folder / "digits.pgm").read_bytes()
        self.assertTrue(data.startswith(b"P5 224 224 255\n"))
        self.assertEqual(len(data), 15 + 224 * 224)
        return metrics, data[15:]


class Examples(ExamplesTest):
    def test_chargpt_learns_and_writes(self):
        metrics, text = self.metrics([CHARGPT, "--max-steps=30", "--limit-val-batches=2", "--devices=2", "--length=40"])
        self.assertLess(metrics["val_loss"], 3.4)  # 4.1 for what has learned nothing
        self.assertRegex(text, r"(?s)^ROMEO:.{40}\n$")

    def test_gan_trains_two_optimizers_and_draws(self):
        metrics, image = self.image_of([GAN, "--max-steps=20", "--devices=2", "--strategy=ddp"])
        self.assertIn("generator_loss", metrics)
        self.assertIn("discriminator_loss", metrics)
        self.assertGreater(len(set(image)), 50)

    def test_transfer_reads_weights_by_name(self):
        metrics, _ = self.metrics([TRANSFER, "--limit-train-batches=5", "--limit-val-batches=1", "--devices=2"])
        self.assertIn("val_acc", metrics)
        self.assertTrue((self.folder / "backbone.safetensors").exists())

    def test_own_loop_says_what_it_reaches(self):
        printed = self.succeed([OWN_LOOP, "--epochs=1", "--devices=2"]).stdout
        self.assertGreater(float(re.fullmatch(r"epoch 0: (\S+) % are right\n", printed)[1]), 80)


class InFull(ExamplesTest):
    def test_chargpt_learns_the_shape_of_words(self):
        # What knows how frequent each pair of characters is has 2.45. Ranks have half as many steps.
        for ranks, flags, loss in ((1, [], 2.25), (2, ["--strategy=bagua:bytegrad"], 2.55)):
            with self.subTest(ranks=ranks):
                metrics, text = self.metrics([*launcher_of(ranks), CHARGPT, "--max-epochs=2", *flags])
                self.assertLess(metrics["val_loss"], loss)
                self.assertGreater(text.count(" "), 15)

    def test_gan_reaches_neither_side_of_the_game(self):
        metrics, image = self.image_of([GAN])
        self.assertLess(metrics["discriminator_loss"], 0.69)  # of guessing
        self.assertLess(metrics["generator_loss"], 5)
        self.assertGreater(sum(pixel < 30 for pixel in image), len(image) / 3)  # digits on a dark ground

    def test_what_was_learned_helps_with_other_digits(self):
        helped, _ = self.metrics([TRANSFER])
        alone, _ = self.metrics([TRANSFER, "--from-scratch=yes"])
        self.assertGreater(helped["val_acc"], alone["val_acc"])

    def test_own_loop_reaches_nine_of_ten(self):
        for strategy in ("single", "ddp"):
            with self.subTest(strategy=strategy):
                printed = self.succeed([OWN_LOOP, f"--strategy={strategy}", f"--devices={1 if strategy == 'single' else 2}"]).stdout
                self.assertGreater(float(re.findall(r"epoch 2: (\S+) %", printed)[0]), 90)


if __name__ == "__main__":
    harness.main()
