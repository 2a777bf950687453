"""--strategy=balanced on devices with memory of their own: a part's weights lie on its device, and tensors go from one to another.

The devices are the fake ones, which are lazy: a wait or an order that is missing fails the run.
"""
import re

import numpy
from safetensors.numpy import save_file

import harness
from balanced_test import MOST_PARTS, WITH_CHANCE, WITHOUT_CHANCE, BalancedTest, first_units, parts
from harness import BUILD, FAKE_DEVICE, NUMERICS

MEBIBYTE = 2**20
SHAPES = {"mlp_25m": (784,), "resnet18_cifar": (3, 32, 32), "gpt_mini": (64,)}
# A measured cut is now and then another one.
CUTS = {"mlp_25m": {1: "", 2: ",cut=fc3", 4: ",cut=fc2+fc3+fc4"}, "gpt_mini": {1: "", 2: ",cut=blocks.2", 4: ",cut=blocks.1+blocks.2+blocks.3"},
        "resnet18_cifar": {1: "", 2: ",cut=layer3", 4: ",cut=layer2+layer3+layer4"}}
SAMPLES = 16


class DevicesTest(BalancedTest):
    def on_devices(self, count, model, *flags, options="", environment=None, **expected):
        self.log = self.succeed(self.command(model, *parts(count, *flags, *FAKE_DEVICE, options=options)), environment).stderr
        summary = self.summary()
        self.assertEqual(len(first_units(self.log)), count, self.log)
        self.assertEqual(len(set(summary["weights_sha256"])), 1)
        return summary["weights_sha256"][0]

    def same_as_on_the_cpu(self, model, *flags, counts=(2,), options="", eager=False):
        wanted, _ = self.one_part(model, *flags)
        for count in counts:
            with self.subTest(model=model, flags=flags, parts=count, options=options):
                self.assertEqual(self.on_devices(count, model, *flags, options=options), wanted)
                if eager:
                    self.assertEqual(self.on_devices(count, model, *flags, options=options, environment={"FAKE_DEVICE_EAGER": "1"}), wanted)


class Bits(DevicesTest):
    def test_models(self):
        self.same_as_on_the_cpu("gpt", counts=(2, 4))
        self.same_as_on_the_cpu("unet", counts=(3,))
        self.same_as_on_the_cpu("corners", counts=(3,))

    def test_average_over_processes(self):
        flags = ["--samples=32", "--limit-train-batches=6", "--max-epochs=3"]
        wanted, _ = self.train("gpt", *parts(2, *flags, options=",parts=1"), ranks=2)
        self.assertEqual(self.train("gpt", *parts(4, *flags, *FAKE_DEVICE, options=",parts=2"), ranks=2)[0], wanted)

    def test_resume_from_the_cpu(self):
        wanted, _ = self.one_part("gpt")
        self.train("gpt", *parts(2, "--max-steps=3", "--checkpoint-dir=steps", "--checkpoint-every-n-steps=3"), steps=3)
        self.assertEqual(self.on_devices(3, "gpt", "--resume=steps"), wanted)


class BitsInFull(DevicesTest):
    def test_models(self):
        for model in (*WITH_CHANCE, *(one for one in WITHOUT_CHANCE if one != "lstm")):
            self.same_as_on_the_cpu(model, counts=range(1, MOST_PARTS.get(model, 4) + 1), eager=True)
            self.same_as_on_the_cpu(model, options=",schedule=gpipe")

    def test_copies_of_tensors_do_not_show(self):
        self.same_as_on_the_cpu("corners", counts=(1, 2, 3, 4), eager=True)
        wanted = self.on_devices(1, "corners", "--ema=0.9")
        self.on_devices(1, "corners", "--ema=0.9", "--max-steps=3", "--checkpoint-dir=steps", "--checkpoint-every-n-steps=3")
        for count in (2, 4):
            self.assertEqual(self.on_devices(count, "corners", "--ema=0.9", "--resume=steps"), wanted)

    def test_backward_within_a_step(self):
        self.same_as_on_the_cpu("penalty", counts=(1,))
        self.fail_with(2, self.command("penalty", *parts(2, *FAKE_DEVICE)), "can be cut into 1 part at most")

    def test_lstm(self):
        """LibTorch adds the biases of a device's cell in another order than those of the CPU's."""
        wanted = self.on_devices(1, "lstm")
        for count in (2, 3, 4):
            self.assertEqual(self.on_devices(count, "lstm"), wanted)

    def test_cuts_in_every_place(self):
        for cut in ("blocks.0", "blocks.3", "norm", "blocks.1+blocks.2", "letters+blocks.2+norm"):
            self.same_as_on_the_cpu("tied_gpt", counts=(len(cut.split("+")) + 1,), options=f",cut={cut}")

    def test_flags(self):
        for flag in ("--gradient-clip-val=0.05", "--ema=0.9", "--track-grad-norm=2", "--deterministic", "--unused=zero", "--profile",
                     "--optimizer=sgd", "--precision=bf16-true"):
            for model in ("unet", "gpt"):
                self.same_as_on_the_cpu(model, flag, counts=(3,))

    def test_mixed_precision(self):
        for precision in ("bf16-mixed", "16-mixed"):
            for model in ("unet", "gpt"):
                flag = f"--precision={precision}"
                self.assertEqual(self.on_devices(3, model, flag), self.on_devices(1, model, flag))

    def test_evaluation(self):
        for model in ("unet", "gpt", "gan", "lstm", "branch"):
            for loops in ("validate+test+predict", "fit+validate+test+predict"):
                with self.subTest(model=model, loops=loops):
                    shown = [self.succeed(self.command(model, f"--loops={loops}", *parts(count, *FAKE_DEVICE))).stdout for count in (1, 3)]
                    self.assertIn("test_loss", shown[0])
                    self.assertEqual(shown[0], shown[1])

    def test_nccl_averages_on_each_device(self):
        flags = ["--samples=32", "--limit-train-batches=6", "--max-epochs=3"]
        for model in ("gpt", "unet"):
            wanted, _ = self.train(model, *parts(2, *flags, options=",parts=1"), ranks=2)
            command = self.command(model, *parts(4, *flags, *FAKE_DEVICE, "--collective=nccl", options=",parts=2"))
            self.succeed(command, {"LD_PRELOAD": str(BUILD / "tests/support/nccl_stand_in/lib/libnccl.so.2")})
            self.assertEqual(self.summary()["weights_sha256"], [wanted] * 2)

    def test_average_over_processes(self):
        for model, collective in (("unet", "shm"), ("gan", "gloo")):
            flags = ["--samples=96", f"--collective={collective}"]
            wanted, _ = self.train(model, *parts(2, *flags, options=",parts=1"), ranks=2)
            self.assertEqual(self.train(model, *parts(4, *flags, *FAKE_DEVICE, options=",parts=2"), ranks=2)[0], wanted)

    def test_resume_with_other_devices(self):
        wanted, _ = self.one_part("gpt")
        self.on_devices(2, "gpt", "--max-steps=3", "--checkpoint-dir=steps", "--checkpoint-every-n-steps=3")
        for count in (1, 2, 4):
            self.assertEqual(self.on_devices(count, "gpt", "--resume=steps"), wanted)
        self.assertEqual(self.train("gpt", *parts(2), "--resume=steps")[0], wanted)


class Memory(DevicesTest):
    def numerics(self, model, count, optimizer="adamw", options=""):
        file = self.folder / f"{model}.safetensors"
        if not file.exists():
            generator = numpy.random.default_rng(5)
            shape = (3, 1, SAMPLES, *SHAPES[model])
            x, y = generator.standard_normal(shape, numpy.float32), generator.integers(0, 10, shape[:3])
            if model == "gpt_mini":
                x = generator.integers(0, 65, shape)
                y = numpy.roll(x, -1, -1)
            save_file({"x": x, "y": y}, file)
        return [NUMERICS, f"--data-from={file}", f"--model={model}", *parts(count, pieces=8, options=options), "--threads=1",
                "--attention=math", f"--optimizer={optimizer}", *FAKE_DEVICE]

    def check_prediction(self, model, count, optimizer="adamw"):
        with self.subTest(model=model, parts=count, optimizer=optimizer):
            log = self.succeed(self.numerics(model, count, optimizer, CUTS[model][count])).stderr
            expected = [float(row.split("|")[3]) for row in re.findall(r"^ *\d+ \| .*%$", log, re.M)]
            table = log[log.index("parts of the model, as they ran:"):]
            found = [float(one) for one in re.findall(r"^ *\d+ \| +([\d.]+)$", table, re.M)]
            self.assertEqual(len(expected), count, log)
            for one, other in zip(expected, found, strict=True):
                self.assertLess(abs(one - other), 0.1 * other + 0.05, log)

    def test_is_as_predicted(self):
        self.check_prediction("gpt_mini", 2)

    def test_of_several_devices_holds_a_larger_model(self):
        """The weights with gradients and the state of AdamW take 91 MiB."""
        limit = {"FAKE_DEVICE_MIB": "80"}
        result = self.fail_with(2, self.numerics("mlp_25m", 1), environment=limit)
        self.assertRegex(result.stderr, "error: strategy 'balanced', cut: no cut of the model's 4 units .* of 72MiB")
        self.succeed(self.numerics("mlp_25m", 2), limit)


class MemoryInFull(Memory):
    def test_is_as_predicted(self):
        for model in SHAPES:
            for count in (1, 2, 4):
                self.check_prediction(model, count)
                self.check_prediction(model, count, "sgd")

    def test_of_several_devices_holds_a_larger_model(self):
        for mebibytes, code in ((60, 2), (75, 0)):
            result = self.run_program(self.numerics("mlp_25m", 2), {"FAKE_DEVICE_MIB": str(mebibytes)})
            self.assertEqual(result.code, code, str(result))


class Mistakes(DevicesTest):
    def test_optimizer_of_one_device(self):
        result = self.fail_with(2, self.command("gpt", "--optimizer=lbfgs", *parts(2, *FAKE_DEVICE)))
        self.assertIn("error: --strategy=balanced: LBFGS puts all weights into one tensor, and they lie on several devices; choose another "
                      "optimizer, or --devices=1", result.stderr)

    def test_piece_that_fails(self):
        result = self.fail_with(1, self.command("gpt", "--fail-at=19", *parts(3, *FAKE_DEVICE)))
        self.assertRegex(result.stderr, "error: training_step, epoch 0, batch 2, rank 0: the step is broken")


if __name__ == "__main__":
    harness.main()
