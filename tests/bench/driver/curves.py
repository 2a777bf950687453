"""Whether the examples learn in each precision as in float32: validation losses along a training, under every strategy.

What a precision changes is compared with what the seed changes: the distance of a run's curve is the mean of its differences to the
float32 curve of the same seed, as a part of the mean of what three float32 seeds spread over.
"""
import json
import statistics
from dataclasses import dataclass

from figures import number, table
from goals import Goal, Section, notes
from processes import Failed, Process, run_together
from trainers import RANKS

SEEDS = (1, 2, 3)
FLOAT32, PRECISIONS = "32", ("64", "bf16-mixed", "bf16-true", "16-mixed", "16-true")
QADAM, ASYNC = "bagua:qadam,warmup_steps=20", "bagua:async"
STRATEGIES = ("single", "dp", "ddp", "ddp_spawn", "ddp2", "horovod", "horovod,op=adasum", "sharded", "bagua:gradient_allreduce",
              "bagua:bytegrad", "bagua:decentralized", "bagua:low_precision_decentralized", QADAM, ASYNC)
REFUSED = {(QADAM, "16-mixed"), (QADAM, "16-true"), (ASYNC, "16-true"), (ASYNC, "bf16-true")}
UNCLIPPED = {QADAM}


@dataclass(frozen=True)
class Example:
    name: str
    flags: tuple  # one epoch, with a validation after every quarter


EXAMPLES = (Example("chargpt", ("--max-epochs=1", "--length=0", "--val-check-interval=0.25", "--limit-val-batches=20")),
            Example("mnist", ("--epochs=1", "--limit-train-batches=80", "--val-check-interval=20", "--limit-val-batches=20",
                              "--limit-test-batches=1")))
QUICK = Example("mnist", ("--epochs=1", "--limit-train-batches=4", "--val-check-interval=2", "--limit-val-batches=1",
                          "--limit-test-batches=1"))


def curve(setting, example, strategy, precision, seed):
    """Validation losses of one run."""
    folder = setting.folder / f"curve-{example.name}-{strategy}-{precision}-{seed}".replace(":", "-")
    launcher = [setting.program("bin/cohort"), "run", "-np", RANKS] if strategy.startswith("horovod") else []
    run_together([Process([*launcher, setting.program(f"bin/{example.name}"), f"--strategy={strategy}", "--accelerator=cpu",
                           *([] if launcher else [f"--devices={1 if strategy == 'single' else RANKS}"]), "--threads=1",
                           f"--precision={precision}", f"--seed={seed}", "--logger=json", f"--log-dir={folder}", *example.flags,
                           *(["--gradient-clip-val=0"] if strategy in UNCLIPPED else [])])])
    lines = map(json.loads, (folder / "version_0/metrics.jsonl").read_text().splitlines())
    return list({line["step"]: line["val_loss"] for line in lines if "val_loss" in line}.values())


def distance(losses, seeds):
    """How far a curve is from the first seed's, as a part of what the seeds spread over."""
    spread = statistics.mean(max(at) - min(at) for at in zip(*seeds, strict=True))
    return statistics.mean(abs(loss - first) for loss, first in zip(losses, seeds[0], strict=True)) / spread


def row(strategy, seeds, runs):
    """The last losses, each with its distance in parentheses."""
    last = [losses[-1] for losses in seeds]
    cells = (f"{losses[-1]:.3f} ({number(distance(losses, seeds))})" if losses else "-" for losses in runs.values())
    return [strategy, f"{min(last):.3f} to {max(last):.3f}", *cells]


def run_example(setting, example, strategies, precisions):
    rows, data, left_out, distances = [], {}, {}, {}
    for strategy in strategies:
        setting.say(f"curves: {example.name}, {strategy}")
        try:
            seeds = [curve(setting, example, strategy, FLOAT32, seed) for seed in SEEDS]
            runs = {precision: None if (strategy, precision) in REFUSED else curve(setting, example, strategy, precision, SEEDS[0])
                    for precision in precisions}
        except Failed as failure:
            left_out[strategy] = str(failure)
            continue
        rows.append(row(strategy, seeds, runs))
        data[strategy] = {"seeds": seeds, **runs}
        distances |= {f"{strategy}, {precision}": distance(losses, seeds) for precision, losses in runs.items() if losses}
    text = [f"{example.name}, {RANKS} ranks, one thread each:", table(["", FLOAT32, *precisions], rows), notes(left_out)]
    farthest = max(distances, key=distances.get, default=None)
    goal = Goal(f"{example.name}: distance of a precision's curve, as a part of what the seed changes", 1, distances.get(farthest),
                detail=farthest or "")
    return "\n\n".join(filter(None, text)), goal, data


def run(setting):
    examples = (QUICK,) if setting.quick else EXAMPLES
    names, precisions = (("ddp",), ("bf16-mixed",)) if setting.quick else (STRATEGIES, PRECISIONS)
    texts, goals, data = [], [], {}
    for example in examples:
        text, goal, data[example.name] = run_example(setting, example, names, precisions)
        texts.append(text)
        goals.append(goal)
    return Section("Loss curves in each precision", "\n\n".join(texts), goals, data)
