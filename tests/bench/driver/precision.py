"""Steps and peak memory of one rank in each precision."""
import training_data
from figures import Plan, figure, interleave, number, rounds_of, table
from goals import Section, notes
from processes import run_together
from trainers import Task, numerics, outcome

PLAN = Plan(rounds=3, seconds=180)
MODELS = ("mlp_25m", "gpt_mini")
STEPS = 12


class InPrecision:
    def __init__(self, setting, precision):
        self.setting, self.name, self.peak_mib = setting, precision, {}

    def measure(self, model, steps):
        task = Task(model, steps, "", training_data.write(self.setting.folder / f"{model}.safetensors", model, steps, 1))
        run = numerics(self.setting, task, f"precision-{self.name}", task.single_data, "--strategy=single",
                       f"--precision={self.name}")
        run_together([run[0]])
        result = outcome([run])
        self.peak_mib[model] = result.peak_rss_mib[0]
        times = sorted(result.step_ms[1:])
        return times[0], times[len(times) // 2]


def run(setting):
    text, data = [], {}
    for model in MODELS[1:] if setting.quick else MODELS:
        contestants = [InPrecision(setting, name) for name in ("32", "bf16-mixed", "bf16-true", "16-mixed")]
        results, left_out = interleave(contestants, Plan(1, 0) if setting.quick else PLAN,
                                       lambda one: one.measure(model, 3 if setting.quick else STEPS),
                                       lambda line: setting.say(f"precision, {model}, {line}"))
        steps = {name: figure(rounds) for name, rounds in results.items()}
        peaks = {one.name: one.peak_mib[model] for one in contestants if one.name in steps}
        rows = [[name, number(one.least), number(one.median), number(peaks[name])] for name, one in steps.items()]
        heads = ["--precision", "ms of a step, min", "median of medians", "peak MiB"]
        text += [f"{model}, {rounds_of(results)}:", table(heads, rows), notes(left_out)]
        data[model] = {"steps": results, "peak_mib": peaks}
    return Section("Precision, one rank", "\n\n".join(filter(None, text)), [], data)
