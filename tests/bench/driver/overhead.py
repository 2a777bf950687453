"""What cohort itself adds: to a step, and to the call of a strategy's slot."""
import json

from goals import Goal, Section
from processes import Failed, Process, run_together
from setting import BENCH


def dispatch(setting):
    """Nanoseconds of a call, the median of nine repetitions: {layers: ns}."""
    flags = ["--benchmark_format=json", "--benchmark_repetitions=9", "--benchmark_report_aggregates_only",
             f"--benchmark_min_time={0.01 if setting.quick else 0.2}"]
    output = run_together([Process([setting.program("bench/dispatch"), *flags])])[0]
    return {int(one["run_name"].split(":")[1]): one["cpu_time"] for one in json.loads(output)["benchmarks"]
            if one["aggregate_name"] == "median"}


def trainer_text(setting):
    program = setting.program("bench/step_overhead")
    if setting.quick or not program:
        return ""
    setting.say("overhead of the Trainer")
    output = run_together([Process([program, "--barebones", "--log-level=warning"])])[0]
    return ("### The Trainer against a bare LibTorch loop: Linear(32, 2), batch 1, SGD, alternating rounds of one process"
            f"\n\n```\n{output.strip()}\n```\n\n{lightning_text(setting)}").strip()


def lightning_text(setting):
    if not setting.peers:
        return ""
    try:
        output = run_together([Process([setting.peer_python, BENCH / "overhead/lightning_overhead.py"])])[0]
    except Failed as failure:
        return f"PyTorch Lightning is left out: {failure}."
    return f"The same in Python, PyTorch Lightning against a bare loop:\n\n```\n{output.strip()}\n```"


def run(setting):
    ns = dispatch(setting)
    text = f"A slot of `base` called directly: {ns[0]:.2f} ns; through four layers that leave it alone: {ns[4]:.2f} ns."
    goal = Goal("a dispatch through four layers", 5, ns[4], "ns")
    return Section("Overhead", "\n\n".join(filter(None, [text, trainer_text(setting)])), [goal], {"dispatch_ns": ns})
