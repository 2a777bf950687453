#!/usr/bin/env python3
"""What a run of ctest showed: its slowest entries, every skipped test with its reason, and the counts.

    tests/report.py JUNIT

Exit code 1 if an entry failed, did not run, or skipped a test for a reason that tests/expected_skips.txt does not list.
"""
import fnmatch
import os
import pathlib
import re
import sys
import xml.etree.ElementTree

SLOWEST = 10
EXPECTED = pathlib.Path(__file__).with_name("expected_skips.txt")
GTEST_SKIP = re.compile(r": Skipped\n(.*?)\n?\n*\[  SKIPPED \] ([^\s,]+)", re.S)
SYSTEM_SKIP = re.compile(r"^SKIPPED (\S+): (.*)$", re.M)


def skips_of(entry):
    """(entry, test, reason) of the tests that the program of an entry left out."""
    name = entry.get("name")
    output = entry.findtext("system-out") or ""
    for reason, test in GTEST_SKIP.findall(output):
        yield name, test, " ".join(reason.split())
    for test, reason in SYSTEM_SKIP.findall(output):
        yield name, test, " ".join(reason.split())
    if entry.get("status") not in ("run", "fail"):
        yield name, "(the whole entry)", entry.get("status")


def expected():
    """(glob of the entry, glob of the reason) of each line that holds for this user."""
    is_root = os.geteuid() == 0
    for line in EXPECTED.read_text().splitlines():
        if not line or line.startswith("#"):
            continue
        entry, reason = re.split(r"  +", line, maxsplit=1)
        if reason.startswith("needs root") and is_root:
            continue
        yield entry, reason


def print_skips(skips, known):
    counted = {}
    for entry, _, reason in skips:
        counted[entry, reason] = counted.get((entry, reason), 0) + 1
    unexpected = 0
    if counted:
        print(f"\n{len(skips)} skipped tests:")
    for (entry, reason), count in sorted(counted.items()):
        is_known = any(fnmatch.fnmatchcase(entry, a) and fnmatch.fnmatchcase(reason, b) for a, b in known)
        unexpected += 0 if is_known else count
        print(f"  {'' if is_known else 'UNEXPECTED '}{entry}: {count} x {reason}")
    if unexpected:
        print(f"{unexpected} skips are not in tests/expected_skips.txt: mend the cause, or add a line there that explains them")
    return unexpected


def main(junit):
    entries = list(xml.etree.ElementTree.parse(junit).getroot().iter("testcase"))
    print(f"\nThe {SLOWEST} slowest of {len(entries)} entries:")
    for entry in sorted(entries, key=lambda entry: -float(entry.get("time")))[:SLOWEST]:
        print(f"  {float(entry.get('time')):7.1f} s  {entry.get('name')}")
    skips = [skip for entry in entries for skip in skips_of(entry)]
    unexpected = print_skips(skips, list(expected()))
    failed = [entry.get("name") for entry in entries if entry.get("status") == "fail"]
    if failed:
        print(f"\nFailed: {' '.join(failed)}")
    print(f"\n{len(entries) - len(failed)} passed, {len(failed)} failed, {len(skips)} skipped")
    return 1 if failed or unexpected else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
