#!/usr/bin/env python3
"""Runs what ended by its deadline once more, alone, after a run of ctest: a loaded machine is slow, and nothing is wrong with that.

    tests/run_again.py BUILD JUNIT

An entry ended by its deadline if ctest stopped it, or if each of its failures is a DeadlinePassed of tests/system/harness.py. A wrong
value, a crash, or what a sanitizer reports stays a failure. An entry that passes alone counts as passed in JUNIT, and its first output
is kept in BUILD/passed_alone. A name in tests/retried.txt has had its second chance: it is not run again.
"""
import json
import pathlib
import re
import subprocess
import sys
import xml.etree.ElementTree

RETRIED = pathlib.Path(__file__).with_name("retried.txt")
FAILURES = re.compile(r"^(?:FAIL|ERROR): ", re.M)
DEADLINES = re.compile(r"^(?:\w+\.)?DeadlinePassed: ", re.M)
WRONG = re.compile(r"Sanitizer|runtime error:|\[  FAILED  \]|Segmentation fault|core dumped")


def ended_by_deadline(entry, timeouts):
    output = entry.findtext("system-out") or ""
    if WRONG.search(output):
        return False
    failures = len(FAILURES.findall(output))
    if failures:
        return failures == len(DEADLINES.findall(output))
    # ctest measures the time from another moment than its limit.
    return float(entry.get("time")) >= 0.95 * timeouts.get(entry.get("name"), float("inf"))


def timeouts_of(build):
    """The limit of each entry of ctest, in seconds."""
    listed = subprocess.run(["ctest", "--test-dir", build, "--show-only=json-v1"], capture_output=True, text=True, check=True)
    return {test["name"]: value["value"] for test in json.loads(listed.stdout)["tests"]
            for value in test.get("properties", []) if value["name"] == "TIMEOUT"}


def names_in(text):
    """The names of tests/retried.txt, whose lines are "NAME  DATE  CAUSE"."""
    return {line.split()[0] for line in text.splitlines() if line.strip() and not line.startswith("#")}


def passes_alone(build, entry):
    kept = pathlib.Path(build, "passed_alone", f"{entry.get('name')}.txt")
    kept.parent.mkdir(exist_ok=True)
    kept.write_text(entry.findtext("system-out") or "")
    name = re.escape(entry.get("name"))
    passed = subprocess.run(["ctest", "--test-dir", build, "-R", f"^{name}$", "--no-tests=error", "--output-on-failure"]).returncode == 0
    print(f"{'passed' if passed else 'failed'} alone: {entry.get('name')} (its first output: {kept})", flush=True)
    return passed


def main(build, junit):
    report = xml.etree.ElementTree.parse(junit)
    failed = [entry for entry in report.getroot().iter("testcase") if entry.get("status") == "fail"]
    timeouts, retried = timeouts_of(build), names_in(RETRIED.read_text())
    again = [entry for entry in failed if ended_by_deadline(entry, timeouts) and entry.get("name") not in retried]
    passed = [entry for entry in again if passes_alone(build, entry)]
    for entry in passed:
        entry.set("status", "run")
        entry.remove(entry.find("failure"))
    report.write(junit)
    if passed:
        print(f"Add a line for each to {RETRIED.name}, with the date and the cause; the next time it is mended or removed.")
    return 0 if failed and len(passed) == len(failed) else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
