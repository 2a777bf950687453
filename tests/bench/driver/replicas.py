"""Replicas in threads (dp) beside one process with the whole batch, at equal threads: the step and the memory."""
import json

import training_data
from figures import Plan, figure, interleave, number, rounds_of, table
from goals import Goal, Section, notes
from processes import Process, run_together
from trainers import Task, numerics, outcome

THREADS = 2
PLAN = Plan(rounds=4, seconds=120)
MODEL, MODEL_MIB = "mlp_25m", 5942794 * 4 / 2**20


class Mnist:
    """The example's network on batches of 256."""

    def __init__(self, setting, name, *flags):
        self.setting, self.name, self.flags = setting, name, flags

    def measure(self):
        summary = self.setting.folder / "mnist.json"
        run_together([Process([self.setting.program("bin/mnist"), *self.flags, f"--threads={THREADS}", "--batch-size=256",
                               f"--epochs={1 if self.setting.quick else 3}", "--limit-val-batches=0", "--limit-test-batches=1",
                               "--accelerator=cpu", "--log-level=error", f"--summary-json={summary}"])])
        figures = json.loads(summary.read_text())
        return figures["step_ms_min"], figures["step_ms_median"]


def peak_mib(setting, replicas, model=MODEL):
    """Of one process that trains the model with momentum."""
    task = Task(model, 3, "", training_data.write(setting.folder / "one.safetensors", model, 3, 1))
    flags = ["--strategy=single"] if replicas == 1 else ["--strategy=dp", f"--devices={replicas}"]
    run = numerics(setting, task, f"replicas{replicas}", task.single_data, *flags)
    run_together([run[0]])
    return outcome([run]).peak_rss_mib[0]


def run(setting):
    single = Mnist(setting, "one process, 2 threads", "--strategy=single")
    dp = Mnist(setting, "dp, 2 replicas of 1 thread", "--strategy=dp", "--devices=2")
    results, left_out = interleave([single, dp], Plan(1, 0) if setting.quick else PLAN, lambda one: one.measure(),
                                   lambda text: setting.say(f"replicas, {text}"))
    steps = {name: figure(rounds) for name, rounds in results.items()}
    rows = [[name, number(one.least), number(one.median), number(one.best)] for name, one in steps.items()]
    memory = {replicas: peak_mib(setting, replicas) for replicas in ((1, 2) if setting.quick else (1, 2, 4))}
    ratio = steps[dp.name].best / steps[single.name].best if len(steps) == 2 else None
    most = max(memory)
    weights_once = peak_mib(setting, 1, "mlp_small") + 2 * MODEL_MIB  # the process itself, weights, momentum
    allowed = weights_once + most * (memory[1] - weights_once)
    goals = [Goal("a step of dp on 2 CPU replicas, of one process with the whole batch at equal threads", 1.05, ratio, "",
                  detail="best median"),
             Goal(f"memory of {most} replicas of {MODEL}, of weights and momentum once and {most} times what one process needs for "
                  "gradients and activations", 1.0, memory[most] / allowed)]
    text = "\n\n".join(filter(None, [
        f"The MNIST example, batch 256, {rounds_of(results)}:",
        table(["", "ms of a step, min", "median of medians", "best median"], rows),
        f"Peak memory with {MODEL} (weights and gradients of {MODEL_MIB:.1f} MiB each), MiB:",
        table(["replicas", "peak"], [["1 (single)" if n == 1 else str(n), number(mib)] for n, mib in memory.items()]), notes(left_out)]))
    return Section("Replicas in one process", text, goals, {"steps": results, "peak_mib": memory})
