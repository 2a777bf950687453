"""Training steps on two ranks: ours, ours without communication, and the peers."""
import statistics
from dataclasses import dataclass

import all_reduce
import training_data
from figures import Plan, figure, interleave, number, rounds_of, table
from goals import Goal, Section, notes
from processes import Process
from setting import mpirun
from trainers import (DDP, DDP_TUNED, HOROVOD, HOROVOD_TUNED, RANKS, CohortDdp, CohortHorovod, SideBySide, Task, python_trainers)

PLAN = Plan(rounds=3, seconds=540)  # for each model
OURS, OUR_HOROVOD, ALONE = CohortDdp.name, CohortHorovod.name, SideBySide.name
SLOWER = "the slower of these two in each step"  # what ranks that wait for each other would take if communication were free
# Measured steps of a round, and steps before them that do not count.
STEPS = {"mlp_small": (200, 20), "mlp_25m": (40, 5), "resnet18_cifar": (10, 3), "gpt_mini": (25, 5)}
QUICK_STEPS = {"mlp_small": (20, 2)}
# (ours, model, against, limit). Beside what is run as often, the best of all runs counts; beside peers, the median of them.
STEP_GOALS = [(OURS, "mlp_25m", ALONE, 1.15), (OURS, "mlp_25m", DDP, 0.7), (OURS, "mlp_25m", HOROVOD, 0.9),
              (OURS, "resnet18_cifar", ALONE, 1.05), (OURS, "gpt_mini", ALONE, 1.05), (OURS, "mlp_small", DDP, 0.5),
              *((OUR_HOROVOD, model, HOROVOD, 1.0) for model in STEPS)]
GRADIENT_BYTES = {"mlp_25m": 4 * 5_942_794}
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
    ours = [CohortDdp(setting), *([CohortHorovod(setting)] if setting.plugin("mpi") and setting.plugin("horovod") else [])]
    near = [SideBySide(setting), *ours]  # a few percent apart, less than one run and the next: eight times in a round
    half = near * (1 if setting.quick else 4)
    trainers = [*half, *python_trainers(setting), *half]
    results, left_out = interleave(trainers, plan, lambda trainer: trainer.train(task),
                                   lambda text: setting.say(f"training {model}, {text}"))
    rows = rows_of_results(results, warm_up, total)
    title = f"### {model}: {steps} steps in each of {rounds_of(results)}, cohort's {2 * len(half) // len(near)} times, after {warm_up} that do not count"
    return rows, "\n\n".join(filter(None, [title, rows_table(rows), notes(left_out)]))


def rows_of_results(results, warm_up, total):
    rows = {}
    for name, outcomes in results.items():
        measured = [measured_steps(outcome, warm_up, total) for outcome in outcomes]
        rows[name] = row_of(outcomes, [sum(processes, []) for processes in measured])
        if name == ALONE:
            rows[SLOWER] = row_of(outcomes, [[max(both) for both in zip(*processes)] for processes in measured])
    return rows


def measured_steps(outcome, warm_up, total):
    """Those of each process that are not warm-up: processes side by side have their lists one after the other."""
    steps, told = outcome.step_ms, total - 1
    return [steps[begin + warm_up:begin + told] for begin in range(0, len(steps), told)]


def row_of(outcomes, rounds):
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


def step_goal(rows_of, ours, model, other, limit):
    rows = rows_of.get(model, {})
    figure_of = (lambda name: rows[name].step_ms.best) if other == ALONE else (lambda name: rows[name].step_ms.median)
    value = figure_of(ours) / figure_of(other) if ours in rows and other in rows else None
    relative = {DDP: DDP_TUNED, HOROVOD: HOROVOD_TUNED, ALONE: SLOWER}[other]
    detail = f"of {relative}: {number(figure_of(ours) / figure_of(relative))}" if value and relative in rows else ""
    return Goal(f"{model}, step of {ours}, of {other}", limit, value, detail=detail)


def raw_all_reduce_ms(setting, nbytes):
    """MPI_Allreduce of that many bytes, as installed: the median of the best of three rounds."""
    program = setting.program("bench/all_reduce_open_mpi")
    if not program:
        return None
    raw = all_reduce.Contestant(all_reduce.OPEN_MPI, [Process([*mpirun(RANKS), program])])
    return min(all_reduce.measure(raw, [nbytes], 0.3)[nbytes][1] for _ in range(3)) / 1000


def wire_goal(setting, rows_of, model):
    """What the step takes more than without communication, in times of one raw all-reduce of all gradients."""
    rows = rows_of.get(model, {})
    raw = raw_all_reduce_ms(setting, GRADIENT_BYTES[model]) if OUR_HOROVOD in rows and ALONE in rows else None
    value = (rows[OUR_HOROVOD].step_ms.best - rows[ALONE].step_ms.best) / raw if raw else None
    return Goal(f"{model}, step of {OUR_HOROVOD} above {ALONE}, in times of a raw MPI_Allreduce", 1.05, value,
                detail=f"raw: {number(raw)} ms" if raw else "")


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
    goals += [wire_goal(setting, rows_of, model) for model in GRADIENT_BYTES]
    data = {model: {name: row.as_json() for name, row in rows.items()} for model, rows in rows_of.items()}
    return Section(f"Training on {RANKS} ranks, one thread each", "\n\n".join(texts), goals, data)
