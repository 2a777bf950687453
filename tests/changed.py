#!/usr/bin/env python3
"""Which entries that only `tests/run.sh --all` runs can the changes since a commit break?

    tests/changed.py BUILD REV

Prints their names, separated by '|'. An entry depends on the folder that defines it, on what every entry is made of, and on the
parts of the product that its kind of test uses.
"""
import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
EVERY_ENTRY = ["CMakeLists.txt", "CMakePresets.json", "cmake", "plugin_api", "sdk", "runtime/host", "tests/CMakeLists.txt",
               "tests/support", "tests/only_all.txt"]
BY_LABEL = {"system": ["runtime", "plugins", "examples", "docs", "README.md", "tests/numerics"], "bench": ["runtime", "plugins"],
            "fuzz": ["runtime", "plugins", "examples"], "launch": ["runtime"], "runtime": ["runtime"], "cli": ["runtime"],
            "tidy": ["docs"], "abi": ["plugins", "examples/plugins"], "examples": ["runtime", "examples"]}
# Strategies run over shm, and with one process per node over sim.
PLUGINS = {"collectives": ["shm", "sim"], "strategies": ["ddp"], "accelerators": ["cpu"]}


def output_of(*command):
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout


def entries(build):
    """(name, labels, command, defining folder) of each entry."""
    shown = json.loads(output_of("ctest", "--test-dir", build, "--show-only=json-v1"))
    graph = shown["backtraceGraph"]
    for test in shown["tests"]:
        labels = next((p["value"] for p in test["properties"] if p["name"] == "LABELS"), [])
        node = graph["nodes"][test["backtrace"]]
        while "parent" in node and graph["files"][node["file"]].endswith(".cmake"):
            node = graph["nodes"][node["parent"]]
        folder = pathlib.Path(graph["files"][node["file"]]).resolve().parent.relative_to(ROOT)
        yield test["name"], labels, " ".join(test.get("command", [])), str(folder)


def dependencies(labels, command, folder):
    found = [*EVERY_ENTRY, folder]
    for label in labels:
        found += BY_LABEL.get(label, [])
    if "conformance" in labels or "plugins" in labels:
        found.append("tests/conformance")
        for kind, used in PLUGINS.items():
            for plugin in (ROOT / "plugins" / kind).iterdir():
                if plugin.name in used or re.search(rf"\b{plugin.name}\b", command):
                    found.append(f"plugins/{kind}/{plugin.name}")
    return found


def main(build, since):
    changed = output_of("git", "diff", "--name-only", since, "--").split()
    names = [name for name, labels, command, folder in entries(build) if "only_all" in labels
             and any(file == entry or file.startswith(entry + "/")
                     for entry in dependencies(labels, command, folder) for file in changed)]
    print("|".join(names))


if __name__ == "__main__":
    main(*sys.argv[1:])
