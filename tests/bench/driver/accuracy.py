"""What bagua's algorithms learn: the MNIST example on two ranks beside ddp, mean of three seeds, and the time it takes."""
import json
import re
import statistics
from dataclasses import dataclass

from algorithms import BYTEGRAD, DDP, STRATEGIES
from figures import number, table
from goals import Goal, Section, notes
from processes import Failed, Process, run_together
from trainers import RANKS

SEEDS = (1, 2, 3)
ACCURACY = 0.97
POINTS = 0.5  # that an algorithm may stay behind ddp
# The example's optimizer is Adam, whose warm-up for qadam is the default.
NAMES = [name.partition(",")[0] for name in STRATEGIES]


@dataclass(frozen=True)
class Run:
    test_accuracy: float
    seconds: float  # of epochs, evaluation included, until the validation accuracy was reached; None: never


def seconds_to(accuracy, lines):
    seconds = 0.0
    for line in lines:
        if not re.search(r"epoch \d+:", line):
            continue
        seconds += float(re.search(r"\(([0-9.]+) s\)", line).group(1))
        if float(re.search(r"val_acc ([0-9.]+)", line).group(1)) >= accuracy:
            return seconds
    return None


def train(setting, strategy, seed):
    folder = setting.folder / f"mnist-{strategy.replace(':', '-')}-{seed}"
    epochs = ["--epochs=1", "--limit-train-batches=20"] if setting.quick else []
    run_together([Process([setting.program("bin/mnist"), f"--strategy={strategy}", f"--devices={RANKS}", "--collective=shm",
                           "--threads=1", "--accelerator=cpu", f"--seed={seed}", f"--log-dir={folder}",
                           f"--summary-json={folder}.json", *epochs])])
    told = json.loads(folder.with_suffix(".json").read_text())
    return Run(told["metrics"]["test_acc"], seconds_to(ACCURACY, (folder / "rank-0.log").read_text().splitlines()))


def row(name, runs, base):
    mean = statistics.mean(run.test_accuracy for run in runs)
    reached = [run.seconds for run in runs if run.seconds is not None]
    behind = f"{100 * (base - mean):.2f}" if base else "-"
    return [name, f"{100 * mean:.2f}", behind, number(statistics.median(reached)) if len(reached) == len(runs) else "-"]


def run(setting):
    names, seeds = ((DDP, BYTEGRAD), SEEDS[:1]) if setting.quick else (NAMES, SEEDS)
    results, left_out = {}, {}
    for name in names:
        setting.say(f"accuracy: {name}")
        try:
            results[name] = [train(setting, name, seed) for seed in seeds]
        except Failed as failure:
            left_out[name] = str(failure)
    means = {name: statistics.mean(run.test_accuracy for run in runs) for name, runs in results.items()}
    base = means.get(DDP)
    rows = [row(name, runs, base) for name, runs in results.items()]
    worst = max((100 * (base - mean) for name, mean in means.items() if name != DDP), default=None) if base else None
    text = "\n\n".join(filter(None, [
        f"The MNIST example, {RANKS} ranks, one thread each, mean of {len(seeds)} seeds:",
        table(["", "test accuracy, %", "points behind ddp", f"to {ACCURACY:.0%}, s"], rows), notes(left_out)]))
    goals = [Goal("points of accuracy that an algorithm stays behind ddp, at most", POINTS, worst)]
    return Section("Accuracy", text, goals, {name: [vars(run) for run in runs] for name, runs in results.items()})
