#!/usr/bin/env python3
"""The plugin's kernels have no fused multiply-add, so they round as the CPU's do: the intermediate code of each, compiled as the
plugin is.

    ptx_test.py NVCC compile_commands.json TABLE...
"""
import functools
import json
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import unittest

NVCC, COMMANDS, *TABLES = sys.argv[1:]
FUSED = re.compile(r"\b(?:fma|mad)\.(?:rn|rz|rm|rp|ftz|sat)[.\w]*")


def command_of(table):
    """The compiler's arguments for plugins/accelerators/cuda/kernels/TABLE.cu, without those for an object file."""
    for entry in json.loads(pathlib.Path(COMMANDS).read_text()):
        if entry["file"].endswith(f"plugins/accelerators/cuda/kernels/{table}.cu"):
            words = shlex.split(entry["command"])
            words = words[words.index(NVCC) + 1:]
            words = [word for word in words if not word.startswith("--generate-code")]
            for option in ("-o", "-MT", "-MF"):
                if option in words:
                    del words[words.index(option):words.index(option) + 2]
            return entry["directory"], [word for word in words if word not in ("-c", "-MD")]
    raise AssertionError(f"{COMMANDS} has no {table}.cu")


@functools.cache
def ptx_of(table, *further):
    folder, words = command_of(table)
    with tempfile.TemporaryDirectory() as scratch:
        result = pathlib.Path(scratch) / "kernels.ptx"
        subprocess.run([NVCC, *words, "-ptx", "-arch=compute_75", *further, "-o", result], cwd=folder, check=True)
        return result.read_text()


class Ptx(unittest.TestCase):
    def test_no_kernel_fuses_multiplication_and_addition(self):
        for table in TABLES:
            with self.subTest(table=table):
                ptx = ptx_of(table)
                self.assertTrue(".entry" in ptx)
                self.assertEqual(FUSED.findall(ptx), [])
                self.assertNotRegex(ptx, r"\b(?:div|sqrt|rcp)\.(?:approx|full)|\.ftz")

    def test_fusing_would_be_noticed(self):
        self.assertTrue(any(FUSED.findall(ptx_of(table, "-fmad=true")) for table in TABLES))

    def test_packs_are_read_and_written_by_one_instruction(self):
        for table in TABLES:
            with self.subTest(table=table):
                ptx = ptx_of(table)
                self.assertTrue(re.search(r"ld\.global\.v4\.[fu]32", ptx), "no vectorised loads")
                self.assertTrue(re.search(r"st\.global(?:\.wb)?\.v4\.[fu]32", ptx), "no vectorised stores")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
