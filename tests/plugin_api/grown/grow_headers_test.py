"""grow_headers.py: additions are hidden from older targets, lie behind what was there, and are missing nowhere."""
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

from grow_headers import CannotGrow, grow

TESTS = pathlib.Path(__file__).resolve().parents[1]
HEADERS = TESTS.parents[1] / "plugin_api/include"


class GrowHeaders(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="cohort-test-"))
        self.addCleanup(shutil.rmtree, self.folder)

    def compiles(self, source, *flags):
        """Returns whether C code compiles with the grown headers, and what the compiler says."""
        file = self.folder / "source.c"
        file.write_text(source)
        result = subprocess.run([os.environ.get("CC", "cc"), "-std=c11", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", *flags,
                                 f"-I{self.folder}/grown", f"-I{TESTS}", file], capture_output=True, text=True)
        return result.returncode == 0, result.stderr

    def test_older_targets_see_the_layout_that_was_there(self):
        grow(HEADERS, self.folder / "grown")
        layout = (TESTS / "layout_test.c").read_text()
        self.assertEqual(self.compiles(layout), (True, ""))
        self.assertIn("cohort_op_args has another size", self.compiles(layout, "-DCOHORT_TARGET_ABI=COHORT_ABI_VERSION")[1])

    def test_additions_lie_behind_every_struct_with_a_size(self):
        names = grow(HEADERS, self.folder / "grown")
        sizes = dict(re.findall(r"^SIZE\((\w+), (\d+)\)", (TESTS / "layout_64bit.inc").read_text(), re.MULTILINE))
        asserts = "".join(f'_Static_assert(offsetof({name}, grown) >= {sizes[name]}, "{name}");\n' for name in names)
        includes = "#include <cohort/api/cohort.h>\n#include <cohort/api/ext/draft/parts.h>\n#include <cohort/api/step_graph.h>\n"
        self.assertEqual(self.compiles(includes + asserts, "-DCOHORT_TARGET_ABI=COHORT_ABI_VERSION"), (True, ""))

    def test_a_struct_that_is_not_found_is_an_error(self):
        changed = self.folder / "changed"
        shutil.copytree(HEADERS, changed)
        store = changed / "cohort/api/store.h"
        store.write_text(store.read_text().replace("typedef struct cohort_store_vt {", "struct cohort_store_vt {"))
        with self.assertRaisesRegex(CannotGrow, "structs were grown; .* have a struct_size"):
            grow(changed, self.folder / "grown")


if __name__ == "__main__":
    unittest.main()
