"""Measures cohort beside its peers and prints Markdown tables with a verdict for each goal.

    python3 tests/bench/driver --build=build/release [--peers=VENV] [--json=FILE] [--quick] [SECTION...]
Sections: overhead, codec, all-reduce, training, launch, replicas, parts, algorithms, accuracy, precision, curves,
scale; all of them if none is named.
"""
import argparse
import json
import os
import pathlib
import signal
import sys
import tempfile

import accuracy
import algorithms
import all_reduce
import codec
import curves
import launch
import overhead
import parts
import precision
import replicas
import scale
import training
from setting import Setting, machine_line

SECTIONS = {"overhead": overhead.run, "codec": codec.run, "all-reduce": all_reduce.run, "training": training.run,
            "launch": launch.run, "replicas": replicas.run, "parts": parts.run, "algorithms": algorithms.run, "accuracy": accuracy.run,
            "precision": precision.run, "curves": curves.run, "scale": scale.run}


def parse():
    parser = argparse.ArgumentParser(prog="driver", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("sections", nargs="*", metavar="SECTION", help=", ".join(SECTIONS))
    parser.add_argument("--build", type=pathlib.Path, required=True, help="folder of the build to measure")
    parser.add_argument("--peers", type=pathlib.Path, help="venv that tests/bench/peers.sh made")
    parser.add_argument("--json", type=pathlib.Path, help="file for all figures")
    parser.add_argument("--quick", action="store_true", help="only whether everything runs: the figures mean nothing")
    arguments = parser.parse_args()
    if unknown := [name for name in arguments.sections if name not in SECTIONS]:
        parser.error(f"unknown section {', '.join(unknown)}; choose from {', '.join(SECTIONS)}")
    return arguments


def main():
    arguments = parse()
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))  # so that nothing is left running
    results = {"machine": machine_line()}
    print(f"Measured on {machine_line()}, load {os.getloadavg()[0]:.2f} at the start.", flush=True)
    with tempfile.TemporaryDirectory(prefix="cohort-bench-") as folder:
        setting = Setting(arguments.build.resolve(), arguments.peers and arguments.peers.absolute(), pathlib.Path(folder),
                          arguments.quick)
        for name in arguments.sections or SECTIONS:
            section = SECTIONS[name](setting)
            results[name] = {"figures": section.data, "goals": [goal.as_json() for goal in section.goals]}
            print(f"\n{section.markdown()}", flush=True)
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
