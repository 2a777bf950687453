"""predict gives the rows of all samples in the order of the data, once, under every strategy."""
import unittest

import torch

import harness
from harness import BUILD, COHORT, SystemTest

PROGRAM = str(BUILD / "tests/predict_program")
WAYS = {"single": [], "ddp": ["--strategy=ddp", "--devices=2"], "ddp_spawn": ["--strategy=ddp_spawn", "--devices=3"],
        "dp": ["--strategy=dp", "--devices=2"], "bagua": ["--strategy=bagua:bytegrad", "--devices=2"]}


class Predictions(SystemTest):
    def rows(self, command):
        return [[int(number) for number in line.split()] for line in self.succeed(command).stdout.splitlines()]

    def written(self, folder):
        """What the files of a folder hold, by number of the sample."""
        samples = {}
        for file in sorted((self.folder / folder).glob("rank-*/batch-*.pt")):
            batch = torch.load(file, weights_only=True)
            self.assertEqual(batch["samples"].dtype, torch.int64)
            twice, both = batch["outputs"]["twice"], batch["outputs"]["both"]
            self.assertTrue(len(batch["samples"]) == len(twice) == len(both[0]) == len(both[1]) > 0)
            for sample, *row in zip(batch["samples"].tolist(), twice.tolist(), both[0].tolist(), both[1].tolist()):
                self.assertNotIn(sample, samples, "a sample is written twice")
                samples[sample] = row
        return samples

    def write(self, folder, flags, ranks, samples=23):
        result = self.succeed([PROGRAM, *flags, f"--write={folder}", f"--samples={samples}"])
        self.assertEqual(result.stdout, "")
        self.assertEqual(self.written(folder), {i: [2 * i, i, 2 * i] for i in range(samples)})
        names = sorted(path.name for path in (self.folder / folder).iterdir())
        self.assertEqual(names, [f"rank-{rank}" for rank in range(ranks)])


class Predict(Predictions):
    def test_every_strategy_gives_all_rows_once_and_in_order(self):
        for way, flags in WAYS.items():
            with self.subTest(way=way):
                self.assertEqual(self.rows([PROGRAM, *flags]), [[2 * i for i in range(23)]])

    def test_ranks_write_each_sample_once_and_no_folder_is_written_twice(self):
        self.write("out", ["--strategy=ddp_spawn", "--devices=2"], ranks=2)
        self.assertEqual([path.name for path in sorted((self.folder / "out/rank-1").iterdir())],
                         ["batch-000000.pt", "batch-000001.pt", "batch-000002.pt"])
        self.fail_with(2, [PROGRAM, "--write=out"], "'out' holds predictions of an earlier run (rank-")
        (self.folder / "file").write_text("")
        self.fail_with(2, [PROGRAM, "--write=file/out"], "cannot make the folder 'file/out' for predictions")

    def test_ranks_of_a_launcher_give_them_on_rank_0(self):
        self.assertEqual(self.rows([COHORT, "run", "-n", "2", "--", PROGRAM]), [[2 * i for i in range(23)]])

    def test_a_rank_may_have_no_samples(self):
        self.assertEqual(self.rows([PROGRAM, "--samples=2", "--strategy=ddp_spawn", "--devices=3"]), [[0, 2]])


class WritersInFull(Predictions):
    def test_every_strategy_writes_what_predict_returns(self):
        for way, flags in WAYS.items():
            with self.subTest(way=way):
                self.write(way, flags, ranks={"single": 1, "dp": 1, "ddp_spawn": 3}.get(way, 2))
        self.write("few", ["--strategy=ddp_spawn", "--devices=3"], ranks=2, samples=2)

    def test_a_refused_folder_ends_all_ranks(self):
        (self.folder / "out/rank-0").mkdir(parents=True)
        for flags in (["--strategy=ddp", "--devices=2"], ["--strategy=ddp_spawn", "--devices=2"]):
            with self.subTest(flags=flags):
                self.fail_with(2, [PROGRAM, *flags, "--write=out"], "'out' holds predictions of an earlier run (rank-0)")
        self.assertEqual(list((self.folder / "out/rank-0").iterdir()), [])


if __name__ == "__main__":
    harness.main()
