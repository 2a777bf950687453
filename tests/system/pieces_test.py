"""--pieces=N: a batch is trained in pieces, with the gradients of the whole batch and less memory."""
import os

import torch
from safetensors.torch import load_file, save_file

import harness
from harness import BUILD, FAKE_DEVICE, NUMERICS, SystemTest, launcher_of

MNIST, CHARGPT, PROGRAM = BUILD / "bin/mnist", BUILD / "bin/chargpt", BUILD / "tests/pieces_program"
STEPS, BATCH = 6, 8
SHAPES = {"mlp_small": (784,), "linear32": (32,), "resnet18_cifar": (3, 32, 32)}


class PiecesTest(SystemTest):
    def data(self, model, world, cut):
        """Writes the same samples as STEPS batches, or each of them as `cut` smaller batches; returns the file."""
        generator = torch.Generator().manual_seed(world)
        x = torch.randn(STEPS, world, BATCH, *SHAPES[model], generator=generator)
        y = torch.randint(0, 10, (STEPS, world, BATCH), generator=generator)
        rows = [tensor.unflatten(2, (cut, BATCH // cut)).movedim(2, 1).flatten(0, 1).contiguous() for tensor in (x, y)]
        path = self.folder / f"data-{world}-{cut}.safetensors"
        save_file({"x": rows[0], "y": rows[1]}, path)
        return path

    def train(self, model, world, *flags, cut=1, optimizer="sgd_momentum", steps=STEPS):
        """Returns the weights, from the same initial ones each time."""
        out = self.folder / "final.safetensors"
        self.succeed([*launcher_of(world), NUMERICS, f"--model={model}", "--threads=1", "--seed=5", f"--optimizer={optimizer}",
                      "--lr=0.05", f"--data-from={self.data(model, world, cut)}", f"--save-final={out}", *flags,
                      "--summary-json=summary.json"])
        self.assertEqual(self.summary()["steps"], steps)
        return load_file(out)

    def same_bits(self, got, wanted):
        for name, tensor in wanted.items():
            self.assertTrue(torch.equal(got[name], tensor), name)

    def as_whole(self, *flags, ranks=1, pieces=4, model="mlp_small", is_exact=True, **options):
        """Compares with the whole batch, up to roundings, and with accumulation over the pieces, to the bit."""
        with self.subTest(flags=flags, pieces=pieces):
            got = self.train(model, ranks, *flags, f"--pieces={pieces}", **options)
            whole = self.train(model, ranks, *flags, **options) if is_exact else {}
            for name, tensor in whole.items():
                torch.testing.assert_close(got[name], tensor, rtol=1e-4, atol=1e-6, msg=name)
            accumulated = self.train(model, ranks, *flags, f"--accumulate-grad-batches={pieces}", cut=pieces, **options)
            self.same_bits(got, accumulated)


class Gradients(PiecesTest):
    def test_one_process(self):
        self.as_whole("--strategy=single")

    def test_ranks(self):
        self.as_whole("--strategy=ddp", ranks=2)
        self.as_whole("--strategy=sharded", ranks=2, pieces=8)

    def test_clipping_and_accumulation(self):
        self.as_whole("--strategy=ddp", "--gradient-clip-val=0.05", ranks=2)
        two = ["--strategy=single", "--accumulate-grad-batches=2"]
        with self.subTest(flags=two):
            out = self.folder / "two.safetensors"
            command = [NUMERICS, "--model=mlp_small", "--threads=1", "--optimizer=sgd", "--lr=0.05", f"--save-final={out}"]
            self.succeed([*command, f"--data-from={self.data('mlp_small', 1, 1)}", *two, "--pieces=4"])
            got = load_file(out)
            self.succeed([*command, f"--data-from={self.data('mlp_small', 1, 4)}", "--accumulate-grad-batches=8"])
            self.same_bits(got, load_file(out))

    def test_replicas(self):
        """Each piece is cut once more, for the replicas."""
        got = self.train("mlp_small", 1, "--strategy=dp", "--devices=2", "--pieces=2")
        whole = self.train("mlp_small", 1, "--strategy=single")
        for name, tensor in whole.items():
            torch.testing.assert_close(got[name], tensor, rtol=1e-4, atol=1e-6, msg=name)

    def test_more_pieces_than_samples_of_a_short_batch(self):
        """The last batch of mnist's epoch has 10 of 7,190 samples."""
        metrics = []
        for pieces in (1, 16):
            self.succeed([MNIST, "--batch-size=7190", "--epochs=1", "--threads=1", f"--pieces={pieces}", "--summary-json=summary.json"])
            self.assertEqual(self.summary()["steps"], 2)
            metrics.append(self.summary()["metrics"])
        self.assertIn("train_loss", metrics[0])
        self.assertEqual(metrics[0].keys(), metrics[1].keys())
        for name, value in metrics[0].items():
            self.assertAlmostEqual(metrics[1][name], value, 3, name)


class InFull(PiecesTest):
    def test_strategies(self):
        for strategy in ("bagua:gradient_allreduce", "bagua:bytegrad", "bagua:decentralized", "horovod"):
            self.as_whole(f"--strategy={strategy}", ranks=2)
        self.as_whole("--strategy=ddp", ranks=2, optimizer="adam")
        self.as_whole("--strategy=ddp", "--precision=16-mixed", ranks=2, model="linear32", is_exact=False)

    def test_statistics_of_batches(self):
        """They are those of each piece, as with accumulation."""
        flags = ["--strategy=single", "--max-steps=2"]
        got = self.train("resnet18_cifar", 1, *flags, "--pieces=4", steps=2)
        self.same_bits(got, self.train("resnet18_cifar", 1, *flags, "--accumulate-grad-batches=4", cut=4, steps=2))

    def test_closures(self):
        """One step: roundings grow with each evaluation."""
        got = self.train("mlp_small", 1, "--strategy=single", "--steps=1", "--pieces=4", optimizer="lbfgs", steps=1)
        whole = self.train("mlp_small", 1, "--strategy=single", "--steps=1", optimizer="lbfgs", steps=1)
        for name, tensor in whole.items():
            torch.testing.assert_close(got[name], tensor, rtol=1e-2, atol=1e-3, msg=name)

    def test_metric_objects_with_closures(self):
        """They count the evaluation with which a step begins, as the mean of plain values does."""
        for pieces in ("1", "4", "auto"):
            self.succeed([PROGRAM, "--strategy=single", "--threads=1", "--noise=false", "--lbfgs=true", f"--pieces={pieces}",
                          "--summary-json=summary.json"])
            metrics = self.summary()["metrics"]
            self.assertAlmostEqual(metrics["accuracy"], metrics["plain"], 6)

    def test_resume(self):
        command = [CHARGPT, "--strategy=ddp", "--devices=2", "--threads=1", "--pieces=4", "--checkpoint-dir=steps",
                   "--checkpoint-every-n-steps=3", "--summary-json=summary.json"]
        self.succeed([*command, "--max-steps=6"])
        whole = self.summary()["weights_sha256"]
        self.succeed(["rm", "-r", self.folder / "steps"])
        self.succeed([*command, "--max-steps=3"])
        self.succeed([*command, "--max-steps=6", "--resume=auto"])
        self.assertEqual(self.summary()["weights_sha256"], whole)


class AutoTest(PiecesTest):
    """--pieces=auto: a batch that does not fit into the memory is trained again, in twice as many pieces."""
    def run_auto(self, *flags, pieces="auto", ranks=1):
        """Returns the weights' digest, the metrics, what the program prints without the calls, and the calls."""
        result = self.succeed([*launcher_of(ranks), PROGRAM, "--threads=1", "--seed=5", "--summary-json=summary.json",
                               f"--pieces={pieces}", *flags])
        *statistics, calls = result.stdout.splitlines()
        self.log = result.stderr
        summary = self.summary()
        return summary["weights_sha256"], summary["metrics"], statistics, int(calls.split()[1])

    def growth(self):
        return [line for line in self.log.splitlines() if "no memory to train" in line]

    def leaves_no_trace(self, *flags, ranks=1, grows=2, pieces=4):
        """From the first batch of eight samples on there is room for two."""
        with self.subTest(flags=flags, ranks=ranks):
            *wanted, calls = self.run_auto(*flags, pieces=pieces, ranks=ranks)
            for where in ("forward", "backward"):
                *got, more_calls = self.run_auto(*flags, "--room=2", f"--where={where}", ranks=ranks)
                self.assertEqual(len(self.growth()), grows, self.log)  # those of rank 0
                self.assertEqual(got, wanted)
                self.assertEqual(more_calls - calls, grows)


class Auto(AutoTest):
    def test_leaves_no_trace_of_attempts(self):
        self.leaves_no_trace("--strategy=single")
        self.leaves_no_trace("--strategy=ddp", ranks=2)

    def test_a_step_that_leaves_traces(self):
        for flags in (["--odd=true"], ["--odd=true", "--max-epochs=1", "--max-steps=6", "--from=5"]):
            *wanted, _ = self.run_auto("--strategy=single", *flags, pieces=2)
            *got, _ = self.run_auto("--strategy=single", *flags, "--room=4")
            self.assertEqual(len(self.growth()), 1, self.log)
            if "--from=5" not in flags:
                self.assertEqual(got, wanted)
        *wanted, _ = self.run_auto("--strategy=single", "--odd=true", pieces=1)
        *got, _ = self.run_auto("--strategy=single", "--odd=true")
        self.assertEqual(got, wanted)

    def test_numbers_that_are_no_power_of_two(self):
        self.run_auto("--strategy=single", "--room=1", "--noise=false", "--batch=6", pieces="auto")
        self.assertEqual([line.split("have ")[1].split()[0] for line in self.growth()], ["2", "4", "6"], self.log)

    def test_weights_that_a_step_writes_to(self):
        """They are not kept, because they may be most of the memory."""
        self.fail_with(2, [PROGRAM, "--pieces=auto", "--room=4", "--write-weights=true"], "the test has no memory; give --pieces=2")

    def test_needs_no_more_pieces_than_fit(self):
        *wanted, calls = self.run_auto("--strategy=single", pieces=1)
        self.assertEqual(self.run_auto("--strategy=single"), (*wanted, calls))
        self.assertEqual(self.growth(), [])

    def test_says_what_it_has_found(self):
        self.run_auto("--strategy=single", "--room=4")
        self.assertEqual(len(self.growth()), 1, self.log)
        self.assertIn("no memory to train on batch 0 in 1 piece: batches have 2 from now on, as with --pieces=2", self.log)

    def test_later_batches(self):
        """The run up to there, resumed in two pieces, is the reference."""
        flags = ["--strategy=ddp", "--checkpoint-dir=steps"]
        for where in ("forward", "backward"):
            *got, _ = self.run_auto(*flags[:1], "--max-steps=6", "--room=4", "--from=3", f"--where={where}", ranks=2)
            self.run_auto(*flags, "--max-steps=3", pieces=1, ranks=2)
            *wanted, _ = self.run_auto(*flags, "--max-steps=6", "--resume=auto", pieces=2, ranks=2)
            self.assertEqual((got[0], got[2]), (wanted[0], wanted[2]))
            self.assertEqual(got[1]["area"], wanted[1]["area"])
            self.succeed(["rm", "-r", self.folder / "steps"])

    def test_sums_of_earlier_batches(self):
        """The second batch of a step has no room, on one of the ranks: the gradients of the first one stay."""
        flags = ["--noise=false", "--strategy=ddp", "--accumulate-grad-batches=3", "--where=backward", "--max-steps=2"]
        whole = self.weights_of(*flags, "--pieces=1")
        parts = self.weights_of(*flags, "--pieces=auto", "--room=3", "--from=1", "--rank=1")
        for name, tensor in whole.items():
            torch.testing.assert_close(parts[name], tensor, rtol=1e-5, atol=1e-6, msg=name)

    def weights_of(self, *flags):
        self.succeed([*launcher_of(2), PROGRAM, "--threads=1", "--seed=5", "--checkpoint-dir=last", *flags])
        files = sorted((self.folder / "last").rglob("shared.safetensors"))
        weights = load_file(files[-1])
        self.succeed(["rm", "-r", self.folder / "last"])
        return weights

    def test_a_device_without_memory(self):
        """A device of 28 MiB, on which two pieces would need 29."""
        command = [CHARGPT, "--strategy=ddp", "--devices=2", "--threads=1", "--max-steps=3", "--limit-val-batches=0", "--length=0",
                   "--summary-json=summary.json", *FAKE_DEVICE]
        self.succeed([*command, "--pieces=4"])
        wanted = self.summary()["weights_sha256"]
        self.succeed([*command, "--pieces=auto"], {"FAKE_DEVICE_MIB": "28"})
        self.assertEqual(self.summary()["weights_sha256"], wanted)

    def test_no_room_for_one_sample(self):
        for where in ("forward", "backward"):
            result = self.fail_with(2, [PROGRAM, "--pieces=auto", "--room=0", "--noise=false", f"--where={where}"],
                                    "the test has no memory; choose a smaller batch")
            self.assertEqual(len([line for line in result.stderr.splitlines() if "error: " in line]), 1, str(result))


class AutoInFull(AutoTest):
    def test_leaves_no_trace_of_attempts(self):
        self.leaves_no_trace("--strategy=sharded", ranks=2)
        self.leaves_no_trace("--strategy=bagua:bytegrad", ranks=2)
        self.leaves_no_trace("--strategy=bagua:decentralized", ranks=2)
        self.leaves_no_trace("--strategy=horovod", "--accumulate-grad-batches=2", "--gradient-clip-val=0.1", ranks=3)
        self.leaves_no_trace("--strategy=single", "--precision=bf16-true", "--accumulate-grad-batches=3")
        self.leaves_no_trace("--strategy=ddp", "--precision=16-mixed", ranks=2)
        self.leaves_no_trace("--strategy=dp", "--devices=2", "--noise=false", grows=1, pieces=2)

    def test_parts_of_a_model(self):
        """It is measured in more pieces, too."""
        flags = ["--strategy=balanced", "--devices=1", "--noise=false", "--room=1"]
        for more in ([], ["--from=2"]):
            with self.subTest(more=more):
                *wanted, _ = self.run_auto(*flags, pieces=8)
                *got, _ = self.run_auto(*flags, *more)
                self.assertEqual(len([line for line in self.log.splitlines() if "no memory to " in line]), 1, self.log)
                self.assertEqual(got[0] == wanted[0], not more)

    def test_no_memory_after_gradients_were_sent(self):
        """Batches of shapes that have had room are not held back."""
        command = [*launcher_of(2), PROGRAM, "--strategy=ddp", "--bucket-size=64B", "--pieces=auto", "--room=4", "--from=3",
                   "--where=backward", "--threads=1"]
        self.fail_with(2, command, "the test has no memory; give --pieces=2")


class Memory(PiecesTest):
    def peak(self, pieces):
        """Returns the most memory that mnist has had, in KiB."""
        with open(self.folder / "log", "w+") as log:
            process = self.start([MNIST, "--batch-size=4096", "--max-steps=2", "--threads=1", "--limit-val-batches=0",
                                  "--limit-test-batches=0", f"--pieces={pieces}"], stdout=log, stderr=log)
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            log.seek(0)
            self.assertEqual(process.returncode, 0, log.read())
        return usage.ru_maxrss

    def test_pieces_need_less(self):
        few, whole = self.peak(16), self.peak(1)
        self.assertGreater(whole - few, 200 * 1024, f"{few} KiB in 16 pieces, {whole} KiB in one")


class Mistakes(PiecesTest):
    def refuse(self, text, *command, code=2):
        result = self.fail_with(code, command, text)
        self.assertEqual(len([line for line in result.stderr.splitlines() if "error: " in line]), 1, str(result))

    def numerics(self, model, *flags):
        data = self.data("linear32", 1, 1)
        return [NUMERICS, f"--model={model}", f"--data-from={data}", *flags]

    def test_numbers(self):
        for value in ("0", "-1", "many", "1.5", "Auto"):
            self.refuse("--pieces", MNIST, f"--pieces={value}")
        self.refuse(f"the first batch has {BATCH} samples for --pieces=9; give larger batches, or fewer pieces",
                    *self.numerics("linear32", "--pieces=9"))
        self.refuse(f"the first batch has {BATCH} samples for --pieces=5 of 2 replicas; give larger batches, or fewer pieces",
                    *self.numerics("linear32", "--pieces=5", "--strategy=dp", "--devices=2"))

    def test_what_needs_the_whole_batch(self):
        self.refuse("steps by hand, and only the loop's own steps are cut", *self.numerics("adversarial_by_hand", "--pieces=2"))
        self.refuse("wants the outputs of a whole batch", *self.numerics("batch_softmax_gathered", "--pieces=2"))
        self.refuse("steps by hand, and only the loop's own steps are cut",
                    *self.numerics("adversarial_by_hand", "--pieces=auto"))
        self.refuse("ranks of --sync-batchnorm wait for each other in each piece", MNIST, "--pieces=2", "--sync-batchnorm")

    def test_ranks_that_disagree(self):
        command = f'exec {MNIST} --strategy=ddp --max-steps=1 --pieces=$((RANK + 1))'
        result = self.run_program([*launcher_of(2), "bash", "-c", command])
        self.assertEqual(result.code, 2, str(result))
        self.assertIn("pieces", result.stderr)


if __name__ == "__main__":
    harness.main()
