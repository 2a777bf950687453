"""Looks at cohort on a machine with a GPU, cheapest and most telling parts first, and measures it beside PyTorch.

    tests/gpu/first_look.sh [--seconds=410] [--out=DIR] [--steps=60] [PART...]

Each row is tried by itself, and each part has a limit, so that one failure costs nothing but its row. DIR gets results.json, which
is written anew after each row, and log.txt with all that was printed. With --accelerator=cpu or fake, the device without hardware,
it is a rehearsal: rows that need a GPU are skipped. Exit code 1 if a row failed, or was not reached in time.
"""
import argparse
import json
import os
import pathlib
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.append(str(ROOT / "tests/bench/driver"))  # behind this folder, because both have modules of the same names
from faults import faults  # noqa: E402
from suites import collectives, facts, kernels, memcheck, rates  # noqa: E402
from machine import Failed, Machine, Skipped  # noqa: E402
from timing import memory, precisions, steps, workers  # noqa: E402
from training import first, large, training  # noqa: E402

# Parts in their order, with the seconds that each may take; later ones take what is left.
PARTS = {facts: 70, kernels: 60, rates: 45, first: 80, collectives: 75, faults: 80, steps: 130, training: 90, memory: 30, workers: 30,
         large: 70, precisions: 60, memcheck: 90}
MARKS = {"ok": "ok", "failed": "FAILED", "skipped": "skipped", "not reached": "NOT REACHED"}


class Results:
    """The rows so far, on the screen and in a file."""

    def __init__(self, file, about):
        self.file, self.about, self.rows = file, about, []
        print(f"| {', '.join(f'{key} {value}' for key, value in about.items())} | | | |\n|---|---|---|---|", flush=True)

    def add(self, part, what, result, found, seconds):
        self.rows.append({"part": part, "what": what, "result": result, "found": found, "seconds": round(seconds, 1)})
        on_one_line = " ".join(str(found).split())
        print(f"| {part}: {what} | {MARKS[result]} | {on_one_line} | {seconds:.1f} s |", flush=True)
        written = self.file.with_suffix(".new")
        written.write_text(json.dumps({"machine": self.about, "rows": self.rows}, indent=1) + "\n", encoding="utf-8")
        written.replace(self.file)

    def are_good(self):
        return all(row["result"] in ("ok", "skipped") for row in self.rows)


def try_row(look):
    try:
        return "ok", look()
    except Skipped as reason:
        return "skipped", str(reason)
    except Failed as error:
        return "failed", error.found
    except Exception as error:  # an error of a row's own must not cost the rows behind it
        return "failed", f"{type(error).__name__}: {error}"


def try_part(machine, part, limit, results):
    machine.ends = min(time.monotonic() + limit, machine.total_ends)
    rows = part(machine)
    while True:
        begun = time.monotonic()
        try:
            what, look = next(rows)
        except StopIteration:
            return
        except Exception as error:  # what all rows of the part need is not there
            return results.add(part.__name__, "all", "failed", getattr(error, "found", repr(error)), 0)
        result, found = try_row(look) if machine.left() > 1 else ("not reached", "the time was over")
        results.add(part.__name__, what, result, found, time.monotonic() - begun)


def arguments_of_command_line():
    parser = argparse.ArgumentParser(prog="tests/gpu/first_look.sh", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [part.__name__ for part in PARTS]
    packed = ROOT if (ROOT / "packed.json").exists() else ROOT / "build/release"
    parser.add_argument("--build", type=pathlib.Path, default=packed, help="folder with the programs")
    parser.add_argument("--accelerator", choices=("cuda", "fake", "cpu"), default="cuda")
    parser.add_argument("--out", type=pathlib.Path, default=os.environ.get("OUT", ROOT / "build/first_look"),
                        help="folder for the results; $OUT, or build/first_look")
    parser.add_argument("--seconds", type=float, default=410, help="for all parts together")
    parser.add_argument("--limit", type=float, metavar="SECONDS", help="for each part, in place of its own limit")
    parser.add_argument("--steps", type=int, default=60, help="of each training that is timed")
    parser.add_argument("parts", nargs="*", metavar="PART", help=" ".join(names))
    arguments = parser.parse_args()
    unknown = [part for part in arguments.parts if part not in names]
    if unknown:
        parser.error(f"there is no part {unknown[0]}; there are {', '.join(names)}")
    return arguments


def main():
    arguments = arguments_of_command_line()
    arguments.out = arguments.out.resolve()
    arguments.out.mkdir(parents=True, exist_ok=True)
    (arguments.out / "log.txt").write_text("", encoding="utf-8")
    with tempfile.TemporaryDirectory(prefix="cohort-gpu-") as folder:
        machine = Machine(arguments, ROOT, folder)
        results = Results(arguments.out / "results.json", machine.describe())
        for part, limit in PARTS.items():
            if not arguments.parts or part.__name__ in arguments.parts:
                try_part(machine, part, arguments.limit or limit, results)
    return 0 if results.are_good() else 1


if __name__ == "__main__":
    sys.exit(main())
