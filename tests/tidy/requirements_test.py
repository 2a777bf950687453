#!/usr/bin/env python3
"""docs/requirements.md has every row, and every document and test that a row names is there; a test is one that the suite runs."""
import ast
import pathlib
import re
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TESTS = ROOT / "tests"
ROWS = 103
REFERENCE = re.compile(r"`([\w./-]+/[\w.-]+\.(?:md|sh|cpp|py))`(?: (\w+))?")


def table():
    for line in (ROOT / "docs/requirements.md").read_text().splitlines():
        match = re.match(r"\| (\d+) \|.*\| ([^|]+) \|$", line)
        if match:
            yield int(match.group(1)), match.group(2)


def file_of(reference):
    return ROOT / reference if reference.startswith(("docs/", "tests/")) else TESTS / reference


def is_compiled(file):
    """Whether the nearest CMakeLists.txt, in its folder or above, names it, with or without its ending."""
    lists = next(path for folder in file.parents if (path := folder / "CMakeLists.txt").is_file())
    code = re.sub(r"#.*", "", lists.read_text())
    return re.search(rf"(?<![\w-]){re.escape(file.stem)}(?![\w-])", code) is not None


def tests_of(file):
    """The names of the tests in a file of tests."""
    text = file.read_text()
    if file.suffix == ".cpp":
        return [name for name in re.findall(r"^(?:TYPED_)?TEST(?:_[FP])?\(\w+, (\w+)\)", text, re.M)
                if not name.startswith("DISABLED_")] if is_compiled(file) else []
    classes = [node for node in ast.parse(text).body if isinstance(node, ast.ClassDef)] if file.name.endswith("_test.py") else []
    return [node.name for entry in classes for node in entry.body
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")]


class Requirements(unittest.TestCase):
    def test_every_row_is_there_once(self):
        self.assertEqual([row for row, _ in table()], list(range(1, ROWS + 1)))

    def test_a_row_names_what_shows_it_or_says_that_nothing_does(self):
        for row, shown in table():
            with self.subTest(row=row):
                self.assertTrue(shown == "not yet built" or REFERENCE.match(shown), shown)

    def test_every_document_and_test_that_is_named_exists(self):
        for row, shown in table():
            for path, test in REFERENCE.findall(shown):
                with self.subTest(row=row, reference=path):
                    file = file_of(path)
                    self.assertTrue(file.is_file(), f"{file} does not exist")
                    if file.suffix in (".cpp", ".py"):
                        self.assertTrue(tests_of(file), f"the suite runs no test of {file}")
                    if test:
                        self.assertIn(test, tests_of(file), f"{file} has no test of this name that the suite runs")


if __name__ == "__main__":
    sys.exit(unittest.main())
