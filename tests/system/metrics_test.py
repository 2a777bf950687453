"""Metric objects equal torchmetrics' on the same data: under every strategy, of training and validation, and of an epoch that is
resumed in its middle."""
import itertools
import shutil
import warnings

import torch
from safetensors.torch import save_file
from torchmetrics import classification, regression, text

import harness
from harness import BUILD, SystemTest

PROGRAM = str(BUILD / "tests/metrics_program")
CLASSES, SAMPLES, VALIDATED, IGNORED, THRESHOLD = 5, 96, 77, -1, 0.3  # samples: as many for each of 1, 2 and 3 ranks
TOLERANCE = 1e-6
NUMBERS = (regression.MeanSquaredError, regression.MeanAbsoluteError, regression.R2Score, text.Perplexity)
WAYS = {f"{strategy}-{ranks}": [f"--strategy={strategy}", f"--devices={ranks}"]
        for strategy in ("ddp", "ddp_spawn", "dp") for ranks in (2, 3)}


def data():
    """Class 3 is never a target. Logits are beyond 1 everywhere, because each batch is looked at by itself."""
    generator = torch.Generator().manual_seed(7)

    def normal(*shape):
        return torch.randn(*shape, generator=generator)

    def below(limit, *shape):
        return torch.randint(0, limit, shape, generator=generator)

    def beyond_one(logits):
        return logits.sign() + 2 * logits

    targets = normal(SAMPLES, 2)
    tokens = below(7, SAMPLES, 3)
    tokens[::4, 2] = IGNORED
    return {"logits": beyond_one(normal(SAMPLES, CLASSES)), "labels": below(3, SAMPLES),
            "probabilities": (torch.rand(SAMPLES, generator=generator) * 10).round() / 10,
            "binary_logits": beyond_one(normal(SAMPLES)), "binary_labels": below(2, SAMPLES),
            "predictions": targets + normal(SAMPLES, 2) / 3, "targets": targets, "token_logits": normal(SAMPLES, 3, 7),
            "tokens": tokens}


def of_classes():
    def each(metric, name, **options):
        return {f"{name}_{average}": metric(CLASSES, average=average, **options) for average in ("macro", "weighted", "none")}

    metrics = {"confusion": classification.MulticlassConfusionMatrix(CLASSES)}
    for name, metric in (("accuracy", classification.MulticlassAccuracy), ("precision", classification.MulticlassPrecision),
                         ("recall", classification.MulticlassRecall), ("f1", classification.MulticlassF1Score)):
        metrics |= {name: metric(CLASSES, average="micro"), **each(metric, name)}
    top_2 = {average: classification.MulticlassAccuracy(CLASSES, top_k=2, average=average) for average in ("micro", "macro")}
    auroc = classification.MulticlassAUROC
    return metrics | {"top_2": top_2["micro"], "top_2_macro": top_2["macro"], **each(auroc, "auroc"), "auroc": auroc(CLASSES)}


def of_two_classes():
    kinds = {"accuracy": classification.BinaryAccuracy, "precision": classification.BinaryPrecision,
             "recall": classification.BinaryRecall, "f1": classification.BinaryF1Score,
             "confusion": classification.BinaryConfusionMatrix}
    return {"auroc": classification.BinaryAUROC(), **{name: kind(THRESHOLD) for name, kind in kinds.items()}}


def computed(metric, predictions, targets):
    """The value by its indices, "_2_0", of which a number has none."""
    if isinstance(metric, NUMBERS):  # which it adds up in single precision otherwise
        metric, predictions = metric.set_dtype(torch.float64), predictions.double()
        targets = targets.double() if targets.is_floating_point() else targets
    metric.update(predictions, targets)
    value = metric.compute().double()
    return {"".join(f"_{i}" for i in index): value[index].item() for index in itertools.product(*map(range, value.shape))}


def values_of_torchmetrics(tensors):
    pairs = [(of_classes(), "", "logits", "labels"),
             (of_two_classes(), "probabilities_", "probabilities", "binary_labels"),
             (of_two_classes(), "binary_logits_", "binary_logits", "binary_labels"),
             ({"mse": regression.MeanSquaredError(), "mae": regression.MeanAbsoluteError(), "r2": regression.R2Score()}, "",
              "predictions", "targets"),
             ({"perplexity": text.Perplexity(ignore_index=IGNORED)}, "", "token_logits", "tokens")]
    values = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the class without targets
        for metrics, prefix, predictions, targets in pairs:
            for name, metric in metrics.items():
                for indices, value in computed(metric, tensors[predictions], tensors[targets]).items():
                    values[prefix + name + indices] = value
    return values


class MetricsTest(SystemTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.data = data()
        cls.train = values_of_torchmetrics(cls.data)
        cls.val = cls.of_first(VALIDATED)

    @classmethod
    def of_first(cls, rows):
        return values_of_torchmetrics({name: tensor[:rows] for name, tensor in cls.data.items()})

    def measure(self, *flags):
        """Returns what the program prints, by the call."""
        save_file(self.data, self.folder / "data.safetensors")
        values = {}
        for line in self.succeed([PROGRAM, f"--data={self.folder / 'data.safetensors'}", *flags]).stdout.splitlines():
            if line.startswith(("fit ", "validate ", "session ")):
                call, name, value = line.split()
                values.setdefault(call, {})[name] = float(value)
        return values

    def are_equal(self, got, *expected):
        for prefix, values in expected:
            for name, value in values.items():
                if prefix + name in got:
                    self.assertAlmostEqual(got[prefix + name], value, delta=TOLERANCE * max(1, abs(value)), msg=prefix + name)

    def is_that_of_torchmetrics(self, got):
        train, val = ("train_", self.train), ("val_", self.val)
        self.assertGreater(len(got["validate"]), 70)
        self.assertEqual({name.removeprefix("val_") for name in got["validate"]} - set(self.val), set())
        self.assertEqual(len(got["fit"]), 2 * len(got["validate"]))
        self.are_equal(got["fit"], train, val)
        self.are_equal(got["validate"], val)

    def goes_on_in_the_middle_of_an_epoch(self, *flags):
        checkpoints = f"--checkpoint-dir={self.folder / 'checkpoints'}"
        self.measure(checkpoints, "--max-steps=2", *flags)
        got = self.measure(checkpoints, "--resume=auto", *flags)
        self.are_equal(got["fit"], ("train_", self.train), ("val_", self.val))
        self.assertIn("train_auroc", got["fit"])


class Metrics(MetricsTest):
    def test_two_ranks_have_those_of_torchmetrics(self):
        self.is_that_of_torchmetrics(self.measure("--strategy=ddp", "--devices=2"))

    def test_an_epoch_that_goes_on_in_its_middle_has_them_too(self):
        self.goes_on_in_the_middle_of_an_epoch("--strategy=dp", "--devices=2")


class MetricsInFull(MetricsTest):
    def test_one_process_has_those_of_torchmetrics(self):
        self.is_that_of_torchmetrics(self.measure())

    def test_every_strategy_has_them(self):
        for way, flags in WAYS.items():
            with self.subTest(way=way):
                self.is_that_of_torchmetrics(self.measure(*flags))

    def test_every_strategy_has_them_when_it_goes_on(self):
        for way, flags in WAYS.items():
            with self.subTest(way=way):
                self.goes_on_in_the_middle_of_an_epoch(*flags)
                shutil.rmtree(self.folder / "checkpoints")

    def test_two_rows_on_three_ranks_have_them(self):
        for strategy in ("ddp", "ddp_spawn"):
            with self.subTest(strategy=strategy):
                got = self.measure(f"--strategy={strategy}", "--devices=3", "--validated=2")
                self.assertIn("val_auroc", got["validate"])
                self.are_equal(got["validate"], ("val_", self.of_first(2)))

    def test_a_loop_of_its_own_has_them_over_ranks(self):
        got = self.measure("--how=session", "--strategy=ddp", "--devices=3")
        self.assertIn("val_auroc", got["session"])
        self.are_equal(got["session"], ("val_", self.val))


if __name__ == "__main__":
    harness.main()
