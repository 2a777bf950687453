"""Random numbers of the model: other ones on each rank, the same ones with --rank-noise=alike, and alike between trainings."""
import re

import harness
from harness import BUILD, SystemTest

PROGRAM = str(BUILD / "tests/noise_program")
RANKS = ["--strategy=ddp", "--devices=2"]


class RankNoise(SystemTest):
    def draws(self, *flags):
        """Returns the numbers by place, and there by rank."""
        places = {}
        for place, rank, value in re.findall(r"^(?:\[rank \d+\] )?(.+) rank=(\d) (\S+)$", self.succeed([PROGRAM, *flags]).stdout, re.M):
            places.setdefault(place, {})[int(rank)] = value
        return places

    def ranks_differ(self, draws, place):
        self.assertEqual(set(draws[place]), {0, 1}, place)
        return draws[place][0] != draws[place][1]

    def test_ranks_draw_other_numbers_in_steps_alone(self):
        draws = self.draws(*RANKS)
        for fit in (1, 2):
            for step in range(3):
                self.assertTrue(self.ranks_differ(draws, f"fit{fit} step{step}"))
            self.assertFalse(self.ranks_differ(draws, f"end{fit}"))
        self.assertFalse(self.ranks_differ(draws, "start"))
        self.assertEqual(len({value for values in draws.values() for value in values.values()}), 15, draws)

    def test_forked_ranks_draw_what_launched_ones_do(self):
        forked = self.draws("--strategy=ddp_spawn", "--devices=2")
        launched = self.draws(*RANKS)
        for place, values in launched.items():
            self.assertEqual(forked[place][0], values[0], place)  # the caller speaks as rank 0 at the end
        self.assertEqual(forked["fit2 step1"], launched["fit2 step1"])

    def test_alike_all_ranks_draw_the_numbers_of_one(self):
        alone, alike = self.draws(), self.draws(*RANKS, "--rank-noise=alike")
        for place, values in alike.items():
            self.assertEqual(values, {0: alone[place][0], 1: alone[place][0]}, place)
        self.assertEqual(self.draws("--seed=1")["fit1 step0"] == alone["fit1 step0"], False)

    def test_a_loop_of_the_programs_own_has_them_too(self):
        for flags, differ in (([], True), (["--rank-noise=alike"], False)):
            draws = self.draws(*RANKS, "--session=yes", *flags)
            for step in range(2):
                self.assertEqual(self.ranks_differ(draws, f"session step{step}"), differ)

    def test_a_rank_that_is_added_draws_its_own(self):
        self.succeed([PROGRAM, *RANKS, "--max-steps=1", "--checkpoint-dir=ckpt"])
        self.succeed([PROGRAM, *RANKS, "--max-steps=1", "--checkpoint-dir=alike", "--rank-noise=alike"])
        draws = self.draws("--strategy=ddp", "--devices=3", "--max-steps=2", "--resume=ckpt")
        self.assertEqual(len(set(draws["fit1 step1"].values())), 3, draws)
        alike = self.draws("--strategy=ddp", "--devices=3", "--max-steps=2", "--resume=alike", "--rank-noise=alike")
        self.assertEqual(len(set(alike["fit1 step1"].values())), 1, alike)


if __name__ == "__main__":
    harness.main()
