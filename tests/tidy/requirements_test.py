#!/usr/bin/env python3
"""docs/requirements.md has every row, and every test or document that a row names exists."""
import pathlib
import re
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
ROWS = 103


def table():
    for line in (ROOT / "docs/requirements.md").read_text().splitlines():
        match = re.match(r"\| (\d+) \|.*\| ([^|]+) \|$", line)
        if match:
            yield int(match.group(1)), match.group(2)


class Requirements(unittest.TestCase):
    def test_every_row_is_there_once(self):
        self.assertEqual([row for row, _ in table()], list(range(1, ROWS + 1)))

    def test_everything_named_exists(self):
        for row, shown in table():
            with self.subTest(row=row):
                if shown.startswith("not yet built"):
                    continue
                match = re.match(r"`([^`]+)`(?: (\w+))?", shown)
                self.assertIsNotNone(match, shown)
                file = ROOT / match.group(1) if match.group(1).startswith("docs/") else ROOT / "tests" / match.group(1)
                self.assertTrue(file.is_file(), f"{file} does not exist")
                if match.group(2):
                    self.assertIn(match.group(2), file.read_text(), f"{file} has no such test")


if __name__ == "__main__":
    sys.exit(unittest.main())
