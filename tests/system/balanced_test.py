"""--strategy=balanced: a model in parts on several devices of one process ends with the bits of one part."""
import json
import re
import signal

import torch
from safetensors.torch import load_file

import harness
from harness import BUILD, SystemTest

PROGRAM = BUILD / "tests/balanced_program"
SAMPLES, BATCH, STEPS, PIECES = 48, 8, 6, 4
SECONDS = 60  # in which a failure of a piece ends the program, on a busy machine, too
WITH_CHANCE = ("gpt", "tied_gpt", "gan")
WITHOUT_CHANCE = ("resnet", "unet", "lstm", "branch", "signs", "siamese", "products")
MOST_PARTS = {"signs": 3, "siamese": 3, "products": 3}
SINGLE = ["--strategy=single", f"--pieces={PIECES}"]


def parts(count, *flags, options="", pieces=PIECES):
    return [f"--strategy=balanced{options}", f"--devices={count}", f"--pieces={pieces}", *flags]


def first_units(log):
    """Returns the first unit of each part in the table of the log; no rows if there is no table."""
    tables = re.findall(r"^.*first unit.*\n(?:[-+|\s]*\n)?((?: *\d+ .*\n)*)", log, re.M | re.I)
    return [re.match(r" *\d+[ |]+(\S+)", row).group(1) for table in tables for row in table.splitlines()]


class BalancedTest(SystemTest):
    known = {}  # what the runs that others are compared with gave, by flags: a test does not repeat those of another one

    def command(self, model, *flags):
        defaults = [flag for flag in ("--threads=1", "--seed=5") if not any(given.startswith(flag[:-1]) for given in map(str, flags))]
        return [PROGRAM, f"--model={model}", "--summary-json=summary.json", *defaults, *flags]

    def train(self, model, *flags, steps=STEPS, ranks=1):
        """Returns the digest of the weights and buffers, and the metrics."""
        self.log = self.succeed(self.command(model, *flags)).stderr
        summary = self.summary()
        self.assertEqual((summary["steps"], len(summary["weights_sha256"])), (steps, ranks))
        self.assertEqual(len(set(summary["weights_sha256"])), 1, "processes ended with different weights")
        return summary["weights_sha256"][0], summary["metrics"]

    def reference(self, model, *flags, **expected):
        if (model, flags) not in self.known:
            self.known[model, flags] = self.train(model, *flags, **expected)
        return self.known[model, flags]

    def one_part(self, model, *flags, pieces=PIECES, **expected):
        return self.reference(model, *parts(1, *flags, pieces=pieces), **expected)

    def in_parts(self, count, model, *flags, options="", pieces=PIECES, **expected):
        """The same; fails if the model is not in so many parts, of which the log has one table."""
        result = self.train(model, *parts(count, *flags, options=options, pieces=pieces), **expected)
        self.assertEqual(len(first_units(self.log)), count, self.log)
        return result

    def same_as_one_part(self, model, *flags, counts=((2, "1f1b"),), **options):
        wanted = self.one_part(model, *flags, **options)
        for count, schedule in counts:
            with self.subTest(model=model, flags=flags, parts=count, schedule=schedule):
                self.assertEqual(self.in_parts(count, model, *flags, options=f",schedule={schedule}", **options), wanted)
        return wanted

    def same_as_single(self, got, model, *flags, **expected):
        """Compares the bits of the weights, and the metrics up to roundings."""
        with self.subTest(model=model, flags=flags):
            digest, metrics = self.reference(model, "--strategy=single", *flags, **expected)
            self.assertEqual(got[0], digest)
            self.assertEqual(got[1].keys(), metrics.keys())
            for name, value in metrics.items():
                self.assertAlmostEqual(got[1][name], value, 5, name)

    def same_as_accumulated(self, got, model):
        """Compares the bits of the weights with those of accumulation over batches that are the pieces."""
        with self.subTest(model=model):
            flags = ["--strategy=single", f"--batch={BATCH // PIECES}", f"--accumulate-grad-batches={PIECES}"]
            self.assertEqual(got[0], self.train(model, *flags)[0])


class Bits(BalancedTest):
    def test_chance_is_that_of_the_piece(self):
        self.same_as_one_part("gpt", counts=((2, "1f1b"), (3, "gpipe")))

    def test_skips_overwritten_inputs_and_statistics(self):
        got = self.in_parts(3, "unet")
        self.same_as_single(got, "unet", f"--pieces={PIECES}")
        self.same_as_accumulated(got, "unet")
        self.assertEqual(self.in_parts(4, "unet", options=",schedule=gpipe"), got)

    def test_branches_on_values(self):
        self.same_as_single(self.in_parts(2, "branch"), "branch", f"--pieces={PIECES}")

    def test_buffers_and_functions(self):
        for model, count in (("siamese", 2), ("products", 2)):
            self.same_as_single(self.in_parts(count, model), model, f"--pieces={PIECES}")

    def test_named_cut(self):
        wanted = self.one_part("gpt")
        self.assertEqual(self.in_parts(2, "gpt", options=",cut=blocks.2"), wanted)
        self.assertTrue(first_units(self.log)[1].startswith("blocks.2."), self.log)

    def test_profile_shows_the_parts(self):
        self.in_parts(2, "gpt", "--profile=trace.json,warmup=0")
        table = self.log[self.log.index("parts of the model, as they ran:"):]
        rows = re.findall(r"^ *(\d) \| +([\d.]+) \| +(\d+) %$", table, re.M)
        self.assertEqual([part for part, _, _ in rows], ["0", "1"], self.log)
        for _, seconds, idle in rows:
            self.assertGreater(float(seconds), 0)
            self.assertLess(int(idle), 100)
        events = [one for one in json.loads((self.folder / "trace.json").read_text())["traceEvents"] if one["name"].startswith("part ")]
        self.assertEqual(len(events), STEPS * PIECES * 2 * 2)
        for part in "01":  # works on one piece at a time
            times = sorted((one["ts"], one["ts"] + one["dur"]) for one in events if one["name"].startswith(f"part {part}"))
            for (_, end), (begin, _) in zip(times, times[1:]):
                self.assertLessEqual(end, begin + 0.01)

    def test_evaluation_sees_whole_batches(self):
        loops = "--loops=validate+test+predict"
        shown = [self.succeed(self.command("gpt", loops, *flags)).stdout for flags in (["--strategy=single"], parts(2))]
        self.assertIn("test_loss", shown[0])
        self.assertEqual(shown[0], shown[1])


class Processes(BalancedTest):
    def of_two(self, model, *flags):
        wanted = self.train(model, *parts(2, *flags, options=",parts=1"), ranks=2)
        self.assertEqual(self.train(model, *parts(4, *flags, options=",parts=2"), ranks=2), wanted)

    def test_averages_over_processes_of_parts(self):
        self.of_two("gpt", "--collective=shm", "--samples=32", "--limit-train-batches=6", "--max-epochs=3")


class Resume(BalancedTest):
    def checkpoint_of(self, model, *flags):
        self.train(model, *flags, "--max-steps=3", "--checkpoint-dir=steps", "--checkpoint-every-n-steps=3", steps=3)

    def go_on(self, model, wanted, *flags):
        with self.subTest(model=model, flags=flags):
            digest, _ = self.train(model, *flags, "--resume=steps")
            self.assertEqual(digest, wanted)

    def test_another_number_of_parts_goes_on(self):
        wanted, _ = self.one_part("gpt")
        self.checkpoint_of("gpt", *parts(2))
        self.go_on("gpt", wanted, *parts(3))


class Failures(BalancedTest):
    def fail_at(self, sample, *flags, model="gpt"):
        """The failure of one piece ends all others and is told once."""
        with self.subTest(sample=sample, flags=flags, model=model):
            result = self.fail_with(1, self.command(model, f"--fail-at={sample}", *flags), timeout=SECONDS)
            errors = [line for line in result.stderr.splitlines() if line.startswith("error: ")]
            self.assertEqual(len(errors), 1, str(result))
            self.assertRegex(errors[0], rf"training_step, epoch 0, batch {sample // BATCH}, rank 0.*: the step is broken")

    def test_piece_in_the_middle(self):
        self.fail_at(2 * BATCH + 3, *parts(2))


class Mistakes(BalancedTest):
    def refuse(self, pattern, model, *flags):
        with self.subTest(model=model, flags=flags):
            result = self.fail_with(2, self.command(model, *flags), timeout=SECONDS)
            errors = [line for line in result.stderr.splitlines() if line.startswith("error: ")]
            self.assertEqual(len(errors), 1, str(result))
            self.assertRegex(errors[0], pattern)
            return errors[0]

    def test_modules(self):
        self.refuse("strategy 'balanced' cannot let training_step run the optimizers by hand: .*; choose ", "by_hand",
                    "--strategy=balanced", "--devices=2")
        self.refuse("clone.*cohort::ModuleFor", "no_clone", *parts(2))
        self.refuse("can be cut into 1 part at most", "penalty", *parts(2))
        self.refuse("parts", "signs", *parts(7, pieces=8))  # it has six parameters

    def test_options(self):
        self.refuse("'?nonsense'?", "gpt", *parts(2, options=",cut=nonsense"))
        self.refuse("parts=2 lays a model on as many devices, but each node has 3;.*--devices", "gpt", *parts(3, options=",parts=2"))
        self.refuse(f"the first batch has {BATCH} samples for --pieces=9", "gpt", *parts(2, pieces=9))

    def test_memory(self):
        """The limit that the sentence names is enough, and half of it is not."""
        error = self.refuse("needs memory=", "gpt", *parts(2, options=",memory=1KiB"))
        number, unit = re.search(r"needs memory=(\d+)([KMG]iB)", error).groups()
        smallest = float(number) * 1024 ** ("KMG".index(unit[0]) + 1)
        self.assertGreater(smallest, 1024, error)
        self.in_parts(2, "gpt", options=f",memory={number}{unit}")
        self.refuse("memory=", "gpt", *parts(2, options=f",memory={int(smallest / 2)}"))


class BitsInFull(BalancedTest):
    MATRIX = [(count, schedule) for count in (2, 3, 4) for schedule in ("1f1b", "gpipe")]

    def test_models_with_chance(self):
        for model in WITH_CHANCE:
            self.same_as_one_part(model, counts=self.MATRIX)

    def test_models_without_chance(self):
        for model in WITHOUT_CHANCE:
            counts = [(count, schedule) for count, schedule in self.MATRIX if count <= MOST_PARTS.get(model, 4)]
            wanted = self.same_as_one_part(model, counts=counts)
            self.same_as_single(wanted, model, f"--pieces={PIECES}")
            self.same_as_accumulated(wanted, model)

    def test_numbers_of_pieces(self):
        for pieces in (1, 3, 5, 8):
            got = self.in_parts(3, "unet", pieces=pieces)
            self.same_as_single(got, "unet", f"--pieces={pieces}")

    def test_pieces_of_short_batches(self):
        """The last of 45 samples' batches has five."""
        for pieces in (3, 8):
            got = self.in_parts(2, "unet", "--samples=45", pieces=pieces)
            self.same_as_single(got, "unet", "--samples=45", f"--pieces={pieces}")
            self.same_as_one_part("gpt", "--samples=45", pieces=pieces)

    def test_number_of_pieces_that_is_not_said(self):
        """Four for each part, and one sample in each at least."""
        for count, pieces in ((1, 4), (2, 8), (3, 8)):
            got = self.train("unet", "--strategy=balanced", f"--devices={count}")
            self.same_as_single(got, "unet", f"--pieces={pieces}")

    def test_threads_of_devices(self):
        wanted = self.one_part("gpt")
        self.assertEqual(self.in_parts(2, "gpt", "--threads=2"), wanted)

    def test_runs_are_the_same(self):
        self.assertEqual(len({self.in_parts(4, "tied_gpt", pieces=8)[0] for _ in range(5)}), 1)

    def test_seeds_differ(self):
        self.assertNotEqual(self.in_parts(2, "tied_gpt"), self.in_parts(2, "tied_gpt", "--seed=6"))

    def test_cuts_in_every_place(self):
        wanted = self.one_part("tied_gpt")
        for cut in ("blocks.0", "blocks.3", "norm", "blocks.1+blocks.2", "letters+blocks.2+norm"):
            with self.subTest(cut=cut):
                names = cut.split("+")
                self.assertEqual(self.in_parts(len(names) + 1, "tied_gpt", options=f",cut={cut}"), wanted)
                for unit, name in zip(first_units(self.log)[1:], names):
                    self.assertTrue(f"{unit}.".startswith(f"{name}."), self.log)

    def test_evaluation_of_every_model(self):
        for model in (*WITH_CHANCE, *WITHOUT_CHANCE):
            with self.subTest(model=model):
                command = self.command(model, "--loops=validate+test+predict")
                shown = [self.succeed([*command, *flags]).stdout for flags in (["--strategy=single"], parts(2), parts(3))]
                self.assertIn("test_loss", shown[0])
                self.assertEqual(shown[1:], shown[:1] * 2)

    def test_evaluation_after_training(self):
        command = self.command("unet", "--loops=fit+validate+test+predict")
        shown = [self.succeed([*command, *flags]).stdout for flags in (SINGLE, parts(2))]
        self.assertIn("test_loss", shown[0])
        self.assertEqual(shown[0], shown[1])


class TrainingInFull(BalancedTest):
    def test_flags(self):
        for flag in ("--gradient-clip-val=0.05", "--precision=bf16-mixed", "--precision=bf16-true", "--ema=0.9", "--track-grad-norm=2",
                     "--deterministic", "--unused=zero", "--profile"):
            got = self.same_as_one_part("unet", flag)
            self.same_as_single(got, "unet", f"--pieces={PIECES}", flag)
            self.same_as_one_part("gpt", flag)

    def test_clipped_elements(self):
        flags = ["--gradient-clip-val=0.002", "--gradient-clip-algorithm=value"]
        self.same_as_single(self.same_as_one_part("lstm", *flags), "lstm", f"--pieces={PIECES}", *flags)

    def test_accumulated_pieces(self):
        flags = ["--accumulate-grad-batches=2"]
        got = self.same_as_one_part("unet", *flags, steps=STEPS // 2)
        self.same_as_single(got, "unet", f"--pieces={PIECES}", *flags, steps=STEPS // 2)
        self.same_as_one_part("gpt", *flags, steps=STEPS // 2)

    def test_optimizers(self):
        self.same_as_one_part("gpt", "--optimizer=sgd")
        flags = ["--optimizer=lbfgs", "--max-steps=2"]
        self.same_as_single(self.same_as_one_part("unet", *flags, steps=2), "unet", f"--pieces={PIECES}", *flags, steps=2)
        self.same_as_one_part("gpt", *flags, steps=2)

    def test_loss_of_the_whole_batch(self):
        """training_step_end sees all pieces, so that the loss is that of a batch which nobody cuts."""
        out = self.folder / "final.safetensors"
        self.train("gathered", "--strategy=single", f"--save-final={out}")
        whole = load_file(out)
        wanted = self.one_part("gathered")
        self.assertEqual(wanted[1]["outputs"], PIECES)
        self.assertEqual(self.in_parts(2, "gathered", f"--save-final={out}"), wanted)
        self.assertEqual(len(re.findall("^.*training_step_end.*$", self.log, re.M)), 1, self.log)
        for name, tensor in load_file(out).items():
            torch.testing.assert_close(tensor, whole[name], rtol=1e-4, atol=1e-6, msg=name)


class ProcessesInFull(Processes):
    def test_averages_over_processes_of_parts(self):
        for model in ("unet", "tied_gpt", "gan"):
            self.of_two(model, "--collective=gloo", "--samples=96")
        self.of_two("gpt", "--collective=shm", "--samples=96", "--gradient-clip-val=0.05")

    def test_processes_of_several_parts_equal_ddp(self):
        digest, _ = self.train("lstm", "--strategy=ddp", "--devices=2", "--samples=96", f"--pieces={PIECES}", ranks=2)
        self.assertEqual(self.train("lstm", *parts(6, "--samples=96", options=",parts=3"), ranks=2)[0], digest)


class ResumeInFull(Resume):
    def test_another_number_of_parts_goes_on(self):
        for model in ("gpt", "unet", "gan"):
            wanted, _ = self.one_part(model)
            self.checkpoint_of(model, *parts(2))
            for count in (1, 2, 3, 4):
                self.go_on(model, wanted, *parts(count))
            self.succeed(["rm", "-r", self.folder / "steps"])

    def test_single_goes_on_and_back(self):
        wanted, _ = self.train("unet", *SINGLE)
        self.checkpoint_of("unet", *parts(3))
        self.go_on("unet", wanted, *SINGLE)
        self.succeed(["rm", "-r", self.folder / "steps"])
        self.checkpoint_of("unet", *SINGLE)
        self.go_on("unet", wanted, *parts(3))


class FailuresInFull(Failures):
    def test_piece_in_the_middle(self):
        for schedule in ("1f1b", "gpipe"):
            for sample in (0, BATCH - 1, 2 * BATCH, SAMPLES - 1):
                self.fail_at(sample, *parts(3, options=f",schedule={schedule}", pieces=8))
        self.fail_at(2 * BATCH, *parts(2), model="gan")

    def test_one_of_two_processes(self):
        command = self.command("gpt", *parts(4, "--fail-at=13", options=",parts=2"))
        result = self.fail_with(1, command, "the step is broken", timeout=SECONDS)
        self.assertEqual(len(re.findall(r"rank \d \(pid \d+ on \S+\) failed: .*the step is broken", result.stderr)), 1, str(result))

    def test_signal(self):
        process = self.start(self.command("gpt", *parts(2, "--max-epochs=1000000", "--logger=csv")))
        self.wait_until_step(process, STEPS, "cohort_logs/version_0/metrics.csv")
        process.send_signal(signal.SIGTERM)
        result = self.finish(process)
        self.assertEqual(result.code, 128 + signal.SIGTERM, str(result))


class MistakesInFull(Mistakes):
    def test_modules(self):
        self.refuse("strategy 'balanced' cannot serve a loop of one's own", "gpt", "--loops=own", *parts(2))
        self.refuse("--graph", "gpt", "--graph", *parts(2))
        self.refuse("--sync-batchnorm", "unet", "--sync-batchnorm", *parts(2))

    def test_options(self):
        for option in ("schedule=zigzag", "parts=-1", "parts=many", "memory=much", "memory=-1", "cut=", "cut=blocks.1+blocks.1"):
            self.refuse(option.split("=")[0], "gpt", *parts(2, options="," + option))
        self.refuse("cut", "gpt", *parts(3, options=",cut=blocks.1"))  # which makes two parts
        self.refuse("'?blocks.9'?", "gpt", *parts(2, options=",cut=blocks.9"))

    def test_memory(self):
        self.in_parts(2, "gpt", options=",memory=1GiB")


if __name__ == "__main__":
    harness.main()
