#!/usr/bin/env python3
"""What libcohort_graphs_cuda.so leaves to the process is in the libraries that LibTorch with CUDA opens; it opens none itself.

    graphs_test.py libcohort_graphs_cuda.so FOLDER-OF-LIBTORCH'S-LIBRARIES FOLDER-OF-CUDA'S-LIBRARIES
"""
import pathlib
import subprocess
import sys
import unittest

LIBRARY, *FOLDERS = sys.argv[1:]
PROVIDERS = ("libtorch_cuda.so", "libc10_cuda.so", "libtorch_cpu.so", "libc10.so", "libcudart.so.13")


def symbols(file, *kind):
    lines = subprocess.run(["nm", "--dynamic", "--without-symbol-versions", *kind, file], check=True, capture_output=True,
                           text=True).stdout.splitlines()
    return {words[-1] for line in lines if (words := line.split()) and (len(words) < 2 or words[-2] not in "wv")}


class Graphs(unittest.TestCase):
    def test_all_that_it_needs_is_in_libtorch(self):
        files = [found for name in PROVIDERS for folder in FOLDERS if (found := pathlib.Path(folder) / name).exists()]
        self.assertEqual(len(files), len(PROVIDERS), f"of LibTorch with CUDA there is {files}")
        known = set().union(*(symbols(file, "--defined-only") for file in files))
        missing = {symbol for symbol in symbols(LIBRARY, "--undefined-only")
                   if "c10" in symbol or "at" in symbol and symbol.startswith("_ZN2at") or symbol.startswith("cuda")}
        self.assertTrue(any("CUDAGraph" in symbol for symbol in missing), missing)
        self.assertEqual(missing - known, set())

    def test_it_needs_no_library_of_cuda(self):
        needed = subprocess.run(["readelf", "--dynamic", LIBRARY], check=True, capture_output=True, text=True).stdout
        self.assertNotIn("cuda", needed.replace("libcohort_graphs_cuda", ""))

    def test_it_exports_its_table_alone(self):
        self.assertEqual(symbols(LIBRARY, "--defined-only"), {"cohort_step_graphs_1"})


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
