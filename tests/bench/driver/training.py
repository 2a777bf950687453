"""Training steps on two ranks: ours, ours without communication, and the peers."""
import statistics
from dataclasses import dataclass

import training_data
from figures import Plan, figure, interleave, number, rounds_of, table
from goals import Goal, Section, notes
from trainers import (DDP, DDP_TUNED, HOROVOD, HOROVOD_TUNED, RANKS, CohortDdp, SideBySide, Task, python_trainers)

PLAN = Plan(rounds=3, seconds=160)  # for each model
OURS, ALONE = CohortDdp.name, SideBySide.name
# Measured steps of a round, and steps before them that do not count. A model of several buckets tries in its first 31
# steps how to communicate; where a step takes long they are measured all the same.
STEPS = {"mlp_small": (200, 20), "mlp_25m": (40, 35), "resnet18_cifar": (10, 3), "gpt_mini": (25, 3)}
QUICK_STEPS = {"mlp_small": (20, 2)}
# (model, against, limit): the median step of the best round, of the other's.
STEP_GOALS = [("mlp_25m", ALONE, 1.15), ("mlp_25m", DDP, 0.7), ("mlp_25m", HOROVOD, 0.9),
              ("resnet18_cifar", ALONE, 1.05), ("gpt_mini", ALONE, 1.05), ("mlp_small", DDP, 0.5)]
SPARED_MB = 400


@dataclass(frozen=True)
class Row:
    step_ms: object  # Figure
    rss_mib: float   # of the rank that needs most
    first_step_s: float

    def as_json(self):
        return {"step_ms": vars(self.step_ms), "peak_rss_mib": self.rss_mib, "seconds_to_first_step": self.first_step_s}


def measure_model(setting, model, steps, warm_up, plan):
    total = steps + warm_up + 1  # a step's time ends where the next begins
    task = Task(model, total, training_data.write(setting.folder / "pair.safetensors", model, total, RANKS),
                training_data.write(setting.folder / "single.safetensors", model, total, 1))
    trainers = [SideBySide(setting), CohortDdp(setting), *python_trainers(setting)]
    results, left_out = interleave(trainers, plan, lambda trainer: trainer.train(task),
                                   lambda text: setting.say(f"training {model}, {text}"))
    rows = {name: row_of(outcomes, warm_up, total) for name, outcomes in results.items()}
    title = f"### {model}: {steps} steps in each of {rounds_of(results)}, after {warm_up} that do not count"
    return rows, "\n\n".join(filter(None, [title, rows_table(rows), notes(left_out)]))


def measured_steps(outcome, warm_up, total):
    """Those of each process that are not warm-up: processes side by side have their lists one after the other."""
    return [ms for i, ms in enumerate(outcome.step_ms) if i % (total - 1) >= warm_up]


def row_of(outcomes, warm_up, total):
    rounds = [measured_steps(outcome, warm_up, total) for outcome in outcomes]
    return Row(figure([(min(steps), statistics.median(steps)) for steps in rounds]),
               max(max(outcome.peak_rss_mib) for outcome in outcomes),
               min(outcome.seconds_to_first_step for outcome in outcomes))


def rows_table(rows):
    best = rows[OURS].step_ms.best if OURS in rows else None
    body = [[name, number(row.step_ms.least), number(row.step_ms.median), number(row.step_ms.best),
             number(best and row.step_ms.best / best), number(row.rss_mib), number(row.first_step_s)]
            for name, row in rows.items()]
    head = ["", "step ms, min", "median", "median of the best round", "times cohort ddp", "peak MiB / rank", "first step after s"]
    return table(head, body)


def step_goal(rows_of, model, other, limit):
    rows = rows_of.get(model, {})
    value = rows[OURS].step_ms.best / rows[other].step_ms.best if OURS in rows and other in rows else None
    tuned = {DDP: DDP_TUNED, HOROVOD: HOROVOD_TUNED}.get(other)
    detail = f"of {tuned}: {number(rows[OURS].step_ms.best / rows[tuned].step_ms.best)}" if value and tuned in rows else ""
    return Goal(f"{model}, step of {OURS}, of {other}", limit, value, detail=detail)


def memory_goal(rows_of):
    rows = rows_of.get("mlp_small", {})
    value = (rows[DDP].rss_mib - rows[OURS].rss_mib) * 1.048576 if OURS in rows and DDP in rows else None
    return Goal(f"mlp_small, peak memory per rank below {DDP}", SPARED_MB, value, "MB", at_least=True)


def run(setting):
    rows_of, texts = {}, []
    for model, (steps, warm_up) in (QUICK_STEPS if setting.quick else STEPS).items():
        rows_of[model], text = measure_model(setting, model, steps, warm_up, Plan(1, 0) if setting.quick else PLAN)
        texts.append(text)
    goals = [step_goal(rows_of, *goal) for goal in STEP_GOALS] + [memory_goal(rows_of)]
    data = {model: {name: row.as_json() for name, row in rows.items()} for model, rows in rows_of.items()}
    return Section(f"Training on {RANKS} ranks, one thread each", "\n\n".join(texts), goals, data)
