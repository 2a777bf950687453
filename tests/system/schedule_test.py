"""Learning-rate schedules equal PyTorch's own over 200 steps, and under every strategy each step has the rate of its moment."""
import math
import shutil
import unittest

import torch
from torch.optim import lr_scheduler

import harness
from harness import BUILD, MPIRUN, PLUGINS, SystemTest

PROGRAM = str(BUILD / "tests/schedule_program")
RATES, EPOCHS, STEPS_PER_EPOCH = (0.003, 0.024), 40, 5
STEPS = EPOCHS * STEPS_PER_EPOCH
RANKS = {"ddp": ["--strategy=ddp", "--devices=2"], "ddp_spawn": ["--strategy=ddp_spawn", "--devices=2"],
         "dp": ["--strategy=dp", "--devices=2"]}


def optimizer():
    return torch.optim.SGD([{"params": [torch.nn.Parameter(torch.zeros(1))], "lr": rate} for rate in RATES], lr=0.1)


def warm_up(sgd, steps, start=0.0):
    return lr_scheduler.LambdaLR(sgd, lambda step: start + (1 - start) * step / steps)


def after(sgd, first, second, steps):
    return lr_scheduler.SequentialLR(sgd, [first, second], milestones=[steps])


class Warmed:
    """Rates of a scheduler that counts epochs, under a ramp over optimizer steps; both begin together."""

    def __init__(self, sgd, scheduler, steps):
        self.sgd, self.scheduler, self.steps = sgd, scheduler, steps

    def rates(self, step):
        return [group["lr"] * min(step / self.steps, 1) for group in self.sgd.param_groups]


BY_STEP = {
    "constant": lambda o: after(o, warm_up(o, 20, 0.25), lr_scheduler.LambdaLR(o, lambda step: 1.0), 20),
    "cosine": lambda o: lr_scheduler.CosineAnnealingLR(o, STEPS),
    "cosine-warm": lambda o: after(o, warm_up(o, 30), lr_scheduler.CosineAnnealingLR(o, STEPS - 30), 30),
    "linear": lambda o: lr_scheduler.LinearLR(o, 1.0, 0.0, STEPS),
    "linear-short": lambda o: after(o, warm_up(o, 10), lr_scheduler.LinearLR(o, 1.0, 0.25, 110), 10),
    "step": lambda o: lr_scheduler.StepLR(o, 30, 0.5),
    "multi-step": lambda o: lr_scheduler.MultiStepLR(o, [30, 80, 81], 0.3),
    "exponential": lambda o: lr_scheduler.ExponentialLR(o, 0.98),
    "one-cycle": lambda o: lr_scheduler.OneCycleLR(o, list(RATES), STEPS, cycle_momentum=False),
    "one-cycle-long": lambda o: lr_scheduler.OneCycleLR(o, list(RATES), 250, pct_start=0.1, div_factor=10,
                                                        final_div_factor=100, cycle_momentum=False),
    "function": lambda o: lr_scheduler.LambdaLR(o, lambda step: 1 / math.sqrt(1 + step)),
    "libtorch": lambda o: lr_scheduler.MultiStepLR(o, [31, 61, 91, 121, 151, 181], 0.5),  # LibTorch lowers a step later
}
BY_EPOCH = {
    "cosine-epoch": lambda o: lr_scheduler.CosineAnnealingLR(o, EPOCHS),
    "step-epoch": lambda o: Warmed(o, lr_scheduler.StepLR(o, 7, 0.5), 12),
}
BY_METRIC = {
    "plateau": lambda o: lr_scheduler.ReduceLROnPlateau(o, patience=2),
    "plateau-max": lambda o: lr_scheduler.ReduceLROnPlateau(o, "max", 0.5, 1, cooldown=3),
    "plateau-absolute": lambda o: lr_scheduler.ReduceLROnPlateau(o, "min", 0.7, 0, threshold=0.05, threshold_mode="abs",
                                                                 min_lr=0.001),
}


def rates_of_pytorch(name, scores):
    """The rate of each step, by group."""
    sgd, rates = optimizer(), []
    scheduler = {**BY_STEP, **BY_EPOCH, **BY_METRIC}[name](sgd)
    for step in range(STEPS):
        rates.append(scheduler.rates(step) if isinstance(scheduler, Warmed) else [group["lr"] for group in sgd.param_groups])
        sgd.step()
        ends_epoch = step % STEPS_PER_EPOCH == STEPS_PER_EPOCH - 1
        if name in BY_STEP:
            scheduler.step()
        elif ends_epoch and name in BY_METRIC:
            scheduler.step(scores[step // STEPS_PER_EPOCH])
        elif ends_epoch:
            getattr(scheduler, "scheduler", scheduler).step()
    return [list(group) for group in zip(*rates)]


def rates_cosine_short():
    """PyTorch's formula: its scheduler rises again when its length is over."""
    sgd = optimizer()
    scheduler = lr_scheduler.LambdaLR(sgd, lambda step: 0.1 + 0.9 * (1 + math.cos(math.pi * min(step, 150) / 150)) / 2)
    rates = []
    for _ in range(STEPS):
        rates.append([group["lr"] for group in sgd.param_groups])
        sgd.step()
        scheduler.step()
    return [list(group) for group in zip(*rates)]


def factors_of_pytorch(rise, length):
    """Those of OneCycleLR, or one step at the highest rate and a fall where it divides by 0: the rise is one step long."""
    if rise * length == 1:
        fall = [(1 + math.cos(math.pi * step / (length - 1))) / 2 for step in range(length)] if length > 1 else [1.0]
        return [4e-6 + (1 - 4e-6) * factor for factor in fall]
    sgd, factors = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0), []
    scheduler = lr_scheduler.OneCycleLR(sgd, 1.0, length, pct_start=rise, cycle_momentum=False)
    for _ in range(length):
        factors.append(sgd.param_groups[0]["lr"])
        sgd.step()
        scheduler.step() if len(factors) < length else None
    return factors


class Schedules(SystemTest):
    def printed(self, flags, launcher=()):
        """The rates by optimizer and group, and the metric by epoch."""
        rates, scores = {}, None
        for line in self.succeed([*launcher, PROGRAM, *flags]).stdout.splitlines():
            name, group, *numbers = line.split()
            numbers = [float(number) for number in numbers]
            if name == "scores":
                scores = numbers
            else:
                rates.setdefault(name, []).append(numbers)
                self.assertEqual(int(group), len(rates[name]) - 1)
        return rates, scores

    def check_close(self, found, wanted):
        self.assertEqual([len(rates) for rates in found], [STEPS] * len(RATES))
        for group, (ours, theirs) in enumerate(zip(found, wanted)):
            for step, (own, other) in enumerate(zip(ours, theirs)):
                self.assertLessEqual(abs(own - other), 1e-12 * abs(other) + 1e-18, f"group {group}, step {step}: {own} {other}")

    def test_every_kind_equals_that_of_pytorch(self):
        rates, scores = self.printed(["--strategy=single"])
        self.assertEqual(len(scores), EPOCHS)
        self.assertTrue(any(math.isnan(score) for score in scores))
        self.assertEqual(set(rates), {*BY_STEP, *BY_EPOCH, *BY_METRIC, "cosine-short"})
        for name, found in rates.items():
            with self.subTest(schedule=name):
                wanted = rates_cosine_short() if name == "cosine-short" else rates_of_pytorch(name, scores)
                self.check_close(found, wanted)
                self.assertGreater(len(set(found[0])), 1, "the rate changes")

    def test_a_cycle_of_few_steps_equals_that_of_pytorch(self):
        lines = self.succeed([PROGRAM, "--strategy=single", "--how=short-cycles"]).stdout.splitlines()
        self.assertEqual(len(lines), 72)
        for line in lines:
            rise, length, *found = (float(word) for word in line.split())
            wanted = factors_of_pytorch(rise, int(length))
            for step, (own, other) in enumerate(zip(found, wanted + 2 * wanted[-1:], strict=True)):  # the last value stays
                self.assertLessEqual(abs(own - other), 1e-12 * other + 1e-17, f"{rise} of {length} steps, step {step}")

    def test_ranks_and_replicas_have_the_same_rates(self):
        alone = self.printed(["--strategy=single"])
        for strategy, flags in RANKS.items():
            with self.subTest(strategy=strategy):
                self.assertEqual(str(self.printed(flags)), str(alone))  # NaN equals itself as a text

    def test_every_step_has_the_rate_of_its_moment(self):
        for strategy, flags in {**RANKS, "qadam": ["--strategy=bagua:qadam,warmup_steps=4", "--devices=2"],
                                "sharded": ["--strategy=sharded", "--devices=2"]}.items():
            for how in ("moment", "moment-by-hand"):
                if (strategy, how) == ("dp", "moment-by-hand"):
                    continue  # replicas do not step by hand
                with self.subTest(strategy=strategy, how=how):
                    self.assertIn("rate of their moment", self.succeed([PROGRAM, *flags, f"--how={how}"]).stdout)

    @unittest.skipUnless((PLUGINS / "cohort_mpi.so").exists() and shutil.which("mpirun"), "mpi was not built")
    def test_horovod_scales_the_rate_of_the_schedule(self):
        alone = self.printed(["--strategy=single"])
        launcher = [*MPIRUN, "-np", "2"]
        self.assertEqual(str(self.printed(["--strategy=horovod"], launcher)), str(alone), "what the program sees")
        for how in ("moment", "moment-by-hand"):
            self.succeed([*launcher, PROGRAM, "--strategy=horovod", f"--how={how}"])


if __name__ == "__main__":
    harness.main()
