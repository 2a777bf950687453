"""The set-up script explains itself, changes nothing when asked not to, and says what it needs without root."""
import os
import unittest

from harness import SOURCE, SystemTest

SCRIPT = SOURCE / "cmake/bootstrap.sh"


class Bootstrap(SystemTest):
    def test_a_second_run_finds_everything_and_prints_the_libtorch_folder(self):
        result = self.succeed([SCRIPT])
        self.assertTrue(os.path.exists(result.stdout.strip() + "/torch/lib/libtorch_cpu.so"), str(result))
        self.assertIn("all", result.stderr)

    def test_a_dry_run_says_what_it_would_do_and_does_nothing(self):
        result = self.succeed([SCRIPT, "--dry-run", "--tests"], environment={"COHORT_DEPS_DIR": str(self.folder / "deps")})
        self.assertIn("to download", result.stderr)
        self.assertFalse((self.folder / "deps").exists())

    def test_without_root_it_says_which_packages_to_ask_for(self):
        tools = self.folder / "bin"
        tools.mkdir()
        for name, text in (("id", "echo 1000"), ("dpkg-query", "exit 1")):
            (tools / name).write_text(f"#!/bin/sh\n{text}\n")
            (tools / name).chmod(0o755)
        self.fail_with(2, [SCRIPT], "sudo apt-get install", "cmake", environment={"PATH": f"{tools}:{os.environ['PATH']}"})

    def test_an_unknown_argument_is_refused_with_the_known_ones(self):
        self.fail_with(2, [SCRIPT, "--test"], "unknown argument '--test'", "--tests")


if __name__ == "__main__":
    unittest.main()
