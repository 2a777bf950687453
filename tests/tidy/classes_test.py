#!/usr/bin/env python3
"""Classes of the product have few fields and constructor arguments, so that a reader can hold one in the head."""
import re
import unittest

from tidy_test import SOURCES, code_of, name, within

MAX_FIELDS = 20
MAX_ARGUMENTS = 6  # of a constructor


def classes_in(text):
    """Yields the name of each class and its own text, without what braces in it hold."""
    for match in re.finditer(r"\b(?:class|struct)\s+(\w+)(?:\s+final)?\s*(?::[^{;]*)?\{", text):
        depth, own = 1, []
        for character in text[match.end():]:
            depth += {"{": 1, "}": -1}.get(character, 0)
            if depth == 0:
                break
            if depth == 1 and character != "}":
                own.append(character)
        yield match.group(1), "".join(own)


def fields_of(own):
    """Counts members with the '_' of a class; those of a struct of options are public and have none."""
    return len(re.findall(r"\b[a-z]\w*_\s*(?:=[^;]*)?[;,]", own))


def arguments_of(own, title):
    """Returns the most arguments of a constructor."""
    most = 0
    for match in re.finditer(rf"(?<![\w~:]){title}\(", own):
        depth, angles, text, commas = 1, 0, "", 0
        for character in own[match.end():]:
            depth += {"(": 1, ")": -1}.get(character, 0)
            if depth == 0:
                break
            angles += {"<": 1, ">": -1}.get(character, 0)
            commas += character == "," and depth == 1 and angles == 0
            text += character
        most = max(most, commas + 1 if text.strip() else 0)
    return most


class Classes(unittest.TestCase):
    def test_fields_and_constructor_arguments_are_few(self):
        problems, seen = [], set()
        for path in SOURCES:
            if not within(path, "runtime", "plugins", "sdk") or path.suffix not in (".hpp", ".cpp"):
                continue
            for title, own in classes_in("\n".join(code_of(path))):
                seen.add(title)
                for what, count, limit in (("fields", fields_of(own), MAX_FIELDS),
                                           ("constructor arguments", arguments_of(own, title), MAX_ARGUMENTS)):
                    if count > limit:
                        problems.append(f"{name(path)}: {title} has {count} {what}, more than {limit}")
        self.assertFalse(problems, "divide a class by its state, or bundle arguments in a struct: " + "; ".join(problems))
        self.assertGreater(len(seen), 500)

    def test_both_are_counted(self):
        text = "class A : public B {\n public:\n  explicit A(int a, std::map<int, B> b) : a_(a) { go(a, b, c); }\n  A();\n private:\n" \
               "  int a_ = 1;\n  std::map<int, B> b_{1};\n  struct C { int d_; };\n};"
        own = dict(classes_in(text))
        self.assertEqual((fields_of(own["A"]), arguments_of(own["A"], "A")), (2, 2))
        self.assertEqual(fields_of(own["C"]), 1)


if __name__ == "__main__":
    unittest.main()
