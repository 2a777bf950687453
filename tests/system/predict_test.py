"""predict gives the rows of all samples in the order of the data, once, under every strategy."""
import unittest

import harness
from harness import BUILD, COHORT, SystemTest

PROGRAM = str(BUILD / "tests/predict_program")
WAYS = {"single": [], "ddp": ["--strategy=ddp", "--devices=2"], "ddp_spawn": ["--strategy=ddp_spawn", "--devices=3"],
        "dp": ["--strategy=dp", "--devices=2"], "bagua": ["--strategy=bagua:bytegrad", "--devices=2"]}


class Predict(SystemTest):
    def rows(self, command):
        return [[int(number) for number in line.split()] for line in self.succeed(command).stdout.splitlines()]

    def test_every_strategy_gives_all_rows_once_and_in_order(self):
        for way, flags in WAYS.items():
            with self.subTest(way=way):
                self.assertEqual(self.rows([PROGRAM, *flags]), [[2 * i for i in range(23)]])

    def test_ranks_of_a_launcher_give_them_on_rank_0(self):
        self.assertEqual(self.rows([COHORT, "run", "-n", "2", "--", PROGRAM]), [[2 * i for i in range(23)]])

    def test_a_rank_may_have_no_samples(self):
        self.assertEqual(self.rows([PROGRAM, "--samples=2", "--strategy=ddp_spawn", "--devices=3"]), [[0, 2]])


if __name__ == "__main__":
    harness.main()
