"""A Session and a Trainer on real ranks equal plain computations over all ranks' data (session_program.cpp)."""
import unittest

from harness import BUILD, SystemTest

PROGRAM = str(BUILD / "tests/session_program")


class Session(SystemTest):
    def test_one_to_four_ranks_compute_what_one_process_would(self):
        for devices in (1, 2, 3, 4):
            with self.subTest(devices=devices):
                result = self.succeed([PROGRAM, f"--devices={devices}"])
                self.assertIn("all checks passed", result.stdout)

    def test_deterministic_ranks_do_too(self):
        self.assertIn("all checks passed", self.succeed([PROGRAM, "--devices=3", "--deterministic"]).stdout)


if __name__ == "__main__":
    unittest.main()
