"""The codec of low-precision strategies on one core, beside loops with the same reads and writes."""
import json
import pathlib

from figures import table
from goals import Goal, Section
from processes import Process, run_together

FUNCTIONS = ("encode", "decode", "decode_add")


def last_level_cache_mib():
    sizes = [path.read_text(encoding="ascii").strip() for path in
             pathlib.Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size")]
    return max((int(size[:-1]) >> 10 for size in sizes if size.endswith("K")), default=32)


def measure(setting, isa, mib):
    program, plugin = setting.program("bench/codec"), setting.plugin("cpu")
    rounds = 2 if setting.quick else 15
    return json.loads(run_together([Process([program, plugin, isa, mib, rounds])])[0])


def run(setting):
    mib = 1 if setting.quick else 4 * max(32, last_level_cache_mib())
    setting.say(f"codec, chunks of {mib} MiB")
    data = {isa: measure(setting, isa, mib) for isa in ("auto", "baseline")}
    rows, goals = [], []
    for name in FUNCTIONS:
        figures, plain = data["auto"][name], data["baseline"][name]
        share = 100 * figures["loop_ms"] / figures["codec_ms"]
        rows.append([name, f"{figures['codec_ms']:.2f}", f"{figures['loop_ms']:.2f}", f"{share:.0f} %",
                     f"{plain['codec_ms']:.2f}"])
        goals.append(Goal(f"{name} of min-max-uint8, of a loop with the same reads and writes", 60, share, "%", at_least=True))
    text = (f"A chunk of {mib} MiB of float32, one core, the least of the rounds, which take turns; the loop moves integers.\n\n"
            + table(["function", "ms", "loop, ms", "share of the loop's speed", "ms without AVX"], rows))
    return Section("Codec", text, goals, data)
