"""A GPT of eight blocks in two parts on two cores: ours, the same pieces on one core, and torch's pipelining."""
import json
import statistics
import time

import training_data
from figures import Plan, interleave, number, rounds_of, table
from goals import Goal, Section, notes
from processes import Process, run_together
from setting import BENCH
from trainers import Task, directly, numerics, outcome

PLAN = Plan(rounds=9, seconds=600)
MODEL, BATCH, PIECES, PARTS = "gpt_8", 32, 8, 2
STEPS, WARM_UP = 12, 3
THEORY = (PARTS - 1) / (PIECES + PARTS - 1)  # of a batch's time, in which a part waits
OURS, ONE, WHOLE, TORCH = "balanced, 2 parts", "single, 8 pieces", "single, whole batches", "torch.distributed.pipelining, 1F1B, gloo"


class Cohort:
    def __init__(self, setting, name, *flags):
        self.setting, self.name, self.flags = setting, name, flags

    def measure(self, task):
        run = numerics(self.setting, task, "parts", task.single_data, *self.flags)
        run_together([run[0]])
        return statistics.median(outcome([run]).step_ms[WARM_UP:])


class Pipelining:
    name = TORCH

    def __init__(self, setting):
        self.setting = setting

    def measure(self, task):
        result = self.setting.folder / "pipeline"
        script = [BENCH / "training/pipeline.py", f"--pieces={PIECES}", f"--data-from={task.single_data}", f"--steps={task.steps}",
                  f"--result={result}", f"--started={time.time()}"]
        ranks = directly(self.setting.peer_python, script)
        run_together([Process(one.command, {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo", **one.environment}) for one in ranks])
        return statistics.median(json.loads(result.with_name("pipeline.0").read_text())["step_ms"][WARM_UP:])


def idle_shares(setting, task):
    """Of each part, from the trace: the time of the batches in which it computes on no piece."""
    trace = setting.folder / "trace.json"
    run = numerics(setting, task, "idle", task.single_data, "--strategy=balanced", f"--devices={PARTS}", f"--pieces={PIECES}",
                   "--threads=2", f"--profile={trace},warmup={WARM_UP}")
    command = [one for one in run[0].command if one != "--barebones"]  # which writes no trace
    run_together([Process(command)])
    events = json.loads(trace.read_text())["traceEvents"]
    parts = [[one for one in events if one["name"].startswith(f"part {part}:")] for part in range(PARTS)]
    shares = []
    for step in (one for one in events if one["name"].startswith("step ")):
        within = [[one for one in part if step["ts"] <= one["ts"] < step["ts"] + step["dur"]] for part in parts]
        begin = min(one["ts"] for part in within for one in part)
        end = max(one["ts"] + one["dur"] for part in within for one in part)
        shares.append([1 - sum(one["dur"] for one in part) / (end - begin) for part in within])
    return [statistics.median(part) for part in zip(*shares)]


def ratio(results, other):
    """The median of the ratios of the rounds, each measured within a minute."""
    pairs = list(zip(results.get(OURS, []), results.get(other, [])))
    return statistics.median(ours / theirs for ours, theirs in pairs) if pairs else None


def run(setting):
    steps = WARM_UP + (2 if setting.quick else STEPS) + 1
    task = Task(MODEL, steps, "", training_data.write(setting.folder / "gpt_8.safetensors", MODEL, steps, 1, BATCH))
    pieces = f"--pieces={PIECES}"
    contestants = [Cohort(setting, OURS, "--strategy=balanced", f"--devices={PARTS}", pieces, "--threads=2"),
                   Cohort(setting, ONE, "--strategy=single", pieces, "--threads=1"),
                   Cohort(setting, WHOLE, "--strategy=single", "--threads=1"), *([Pipelining(setting)] if setting.peer_python else [])]
    results, left_out = interleave(contestants, Plan(1, 0) if setting.quick else PLAN, lambda one: one.measure(task),
                                   lambda line: setting.say(f"parts, {line}"))
    idle = max(idle_shares(setting, task))
    rows = [[name, number(statistics.median(times)), number(ratio(results, name))] for name, times in results.items()]
    text = "\n\n".join(filter(None, [f"{MODEL}, batches of {BATCH} in {PIECES} pieces, {rounds_of(results)}:",
                                     table(["", "ms of a step, median", "our step, of it"], rows), notes(left_out)]))
    goals = [Goal("step, of one core with the same pieces", 0.65, ratio(results, ONE)),
             Goal(f"step, of {TORCH}", 0.95, ratio(results, TORCH)),
             Goal("idle share of the idler part", 100 * THEORY + 8, 100 * idle, "%", detail=f"in theory {number(100 * THEORY)} %")]
    return Section("A model in two parts on two cores", text, goals, {"step_ms": results, "idle": idle})
