#!/usr/bin/env python3
"""The plugin's kernels as they are compiled: no fused multiply-add in their intermediate code, so they round as the CPU's do, and
all that a thread has in registers in their machine code.

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
MACHINE = "sm_90"
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


@functools.cache
def memory_of(table, *planted):
    """The bytes of stack and of registers kept in memory that the assembler tells of, for each kernel of a table. `planted` are
    lines behind the table's."""
    folder, words = command_of(table)
    with tempfile.TemporaryDirectory() as scratch:
        kernels = words.index(next(word for word in words if word.endswith(f"/{table}.cu")))
        source = pathlib.Path(scratch) / "kernels.cu"
        source.write_text("\n".join([f'#include "{words[kernels]}"', *planted, ""]))
        words[kernels] = source
        told = subprocess.run([NVCC, *words, "-cubin", f"-arch={MACHINE}", "-Xptxas=-v", "-o", pathlib.Path(scratch) / "kernels.cubin"],
                              cwd=folder, check=True, capture_output=True, text=True).stderr
    kernels = re.findall(r"Compiling entry function '(\w+)'.*?(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill",
                         told, re.S)
    return {name: sum(map(int, sizes)) for name, *sizes in kernels}


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

    def test_no_kernel_keeps_registers_in_memory(self):
        for table in TABLES:
            with self.subTest(table=table):
                memory = memory_of(table)
                self.assertTrue(memory, "the assembler tells of no kernel")
                self.assertEqual({name: size for name, size in memory.items() if size > 0}, {})

    def test_an_array_in_memory_would_be_noticed(self):
        planted = ("__global__ void planted(float* to, int i) {", "  float local[64];", "  for (float& x : local) x = sinf(to[i++]);",
                   "  to[0] = local[i % 64];", "}")
        self.assertTrue(any("planted" in name and size > 0 for name, size in memory_of(TABLES[0], *planted).items()))

    def test_elements_are_decoded_without_divisions(self):
        decoders = re.findall(r"\.entry (\w*decode\w*)\((.*?)^}", "".join(map(ptx_of, TABLES)), re.S | re.M)
        self.assertEqual(bool(decoders), "minmax_uint8" in TABLES)
        for name, body in decoders:
            with self.subTest(kernel=name):
                made, barrier, used = body.rpartition("bar.sync")
                self.assertTrue(barrier and "div.rn.f32" in made, "no tables")
                self.assertNotIn("div.rn", used)

    def test_packs_are_read_and_written_by_one_instruction(self):
        for table in TABLES:
            with self.subTest(table=table):
                ptx = ptx_of(table)
                self.assertTrue(re.search(r"ld\.global\.v4\.[fu]32", ptx), "no vectorised loads")
                self.assertTrue(re.search(r"st\.global(?:\.wb)?\.v4\.[fu]32", ptx), "no vectorised stores")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
