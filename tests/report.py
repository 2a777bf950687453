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
SHOWN_ENTRIES = 3
CAP_SYS_ADMIN = 21
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
        skipped = entry.find("skipped")
        yield name, "(the whole entry)", entry.get("status") if skipped is None else skipped.get("message")


def is_root():
    """Is this user root with all that tests need of it? In a container root may lack the right to mount."""
    capabilities = re.search(r"^CapEff:\s*(\w+)$", pathlib.Path("/proc/self/status").read_text(), re.M)
    return os.geteuid() == 0 and bool(int(capabilities.group(1), 16) >> CAP_SYS_ADMIN & 1)


def expected():
    """(glob of the entry, glob of the reason) of each line that holds for this user."""
    is_privileged = is_root()
    for line in EXPECTED.read_text().splitlines():
        if not line or line.startswith("#"):
            continue
        entry, reason = re.split(r"  +", line, maxsplit=1)
        if reason.startswith("needs root") and is_privileged:
            continue
        yield entry, reason


def print_skips(skips, known):
    """Prints one line for each reason and returns the number of skips that are not expected."""
    by_reason, surprises = {}, []
    for entry, test, reason in skips:
        by_reason.setdefault(reason, []).append(entry)
        if not any(fnmatch.fnmatchcase(entry, a) and fnmatch.fnmatchcase(reason, b) for a, b in known):
            surprises.append((entry, test, reason))
    if skips:
        print(f"\n{len(skips)} skipped tests:")
    for reason, entries in sorted(by_reason.items()):
        names = sorted(set(entries))
        where = ", ".join(names[:SHOWN_ENTRIES]) + (f" and {len(names) - SHOWN_ENTRIES} more" if len(names) > SHOWN_ENTRIES else "")
        print(f"  {len(entries):4} x {reason} ({where})")
    for entry, test, reason in surprises:
        print(f"UNEXPECTED: {entry}: {test}: {reason}")
    if surprises:
        print("Unexpected skips: mend the cause, or explain them by a line in tests/expected_skips.txt")
    return len(surprises)


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
