"""--precision: 16-bit training equals a plain PyTorch loop with autocast and GradScaler, with the same steps skipped."""
import shutil

import torch
from safetensors.torch import load_file, save_file

import harness
from harness import BUILD, FAKE_DEVICE, NUMERICS, launcher_of
from numerics_test import NumericsTest

PROGRAM = str(BUILD / "tests/precision_program")
STEPS = 50
LR, MOMENTUM = 0.01, 0.9
TYPES = {"16-mixed": torch.float16, "bf16-mixed": torch.bfloat16, "16-true": torch.float16, "bf16-true": torch.bfloat16}


def mean_gradients(net, x, y, step, scale, autocast):
    """The mean over ranks of the gradients of scaled losses, in float32; x has [steps, ranks, batch, ...]."""
    ranks = x.shape[1]
    sums = [torch.zeros(p.shape) for p in net.parameters()]
    for rank in range(ranks):
        net.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=autocast or torch.bfloat16, enabled=autocast is not None):
            loss = torch.nn.functional.cross_entropy(net(x[step, rank], step), y[step, rank])
        scale(loss).backward()
        for total, parameter in zip(sums, net.parameters()):
            total += parameter.grad.float()
    return [total / ranks for total in sums]


def reference(net, x, y, precision, clip=None):
    """A plain loop; returns float32 weights, the loss scale and how many steps were skipped."""
    dtype, is_true = TYPES[precision], precision.endswith("true")
    scaler = torch.amp.GradScaler("cpu", enabled=precision.startswith("16"))
    weights = [p.detach().clone().float().requires_grad_() for p in net.parameters()]
    if is_true:
        net, x = net.to(dtype), x.to(dtype)
    optimizer = torch.optim.SGD(weights, lr=LR, momentum=MOMENTUM)
    skipped = 0
    for step in range(x.shape[0]):
        gradients = mean_gradients(net, x, y, step, scaler.scale, None if is_true else dtype)
        for weight, gradient in zip(weights, gradients):
            weight.grad = gradient
        scaler.unscale_(optimizer)
        if clip:
            torch.nn.utils.clip_grad_norm_(weights, clip)
        skipped += not all(torch.isfinite(weight.grad).all() for weight in weights)
        scaler.step(optimizer)
        scaler.update()
        with torch.no_grad():
            for parameter, weight in zip(net.parameters(), weights):
                parameter.copy_(weight)
    return dict(zip(dict(net.named_parameters()), weights)), scaler.get_scale(), skipped


class PrecisionTest(NumericsTest):
    def prepare_ranks(self, world, overflows=()):
        """Batches of 4 for each rank; those of the last rank at these steps are too large for float16."""
        self.prepare("mlp_small", STEPS)
        generator = torch.Generator().manual_seed(3)
        x = torch.randn(STEPS, world, 4, 784, generator=generator)
        y = torch.randint(0, 10, (STEPS, world, 4), generator=generator)
        for step in overflows:
            x[step, -1] *= 1e30
        save_file({"x": x, "y": y}, self.folder / "ranks.safetensors")
        return x, y

    def train_ranks(self, world, precision, *more):
        self.succeed([*launcher_of(world), NUMERICS, "--model=mlp_small", "--strategy=" + ("ddp" if world > 1 else "single"),
                      f"--data-from={self.folder / 'ranks.safetensors'}", "--threads=1",
                      f"--init-from={self.folder / 'init.safetensors'}", "--optimizer=sgd_momentum", f"--lr={LR}",
                      f"--precision={precision}", f"--save-final={self.folder / 'final.safetensors'}",
                      "--summary-json=summary.json", *more])
        summary = self.summary()
        self.assertEqual(len(set(summary["weights_sha256"])), 1, "ranks ended with different weights")
        return load_file(self.folder / "final.safetensors"), summary

    def compare_with_pytorch(self, world, precision, *more, overflows=(), clip=None):
        x, y = self.prepare_ranks(world, overflows)
        wanted, scale, skipped = reference(self.net, x, y, precision, clip)
        got, summary = self.train_ranks(world, precision, *more)
        for name, tensor in wanted.items():
            rounded = tensor.to(got[name].dtype).double()
            difference = (got[name].double() - rounded).norm() / rounded.norm()
            self.assertLessEqual(difference.item(), 1e-6, name)
        if precision.startswith("16"):
            self.assertEqual((summary["loss_scale"], summary["skipped_steps"]), (scale, skipped))
            self.assertGreaterEqual(skipped, len(overflows))


class Mixed(PrecisionTest):
    def test_float16_equals_a_pytorch_loop_with_the_same_steps_skipped(self):
        for world in (1, 2):
            with self.subTest(world=world):
                self.compare_with_pytorch(world, "16-mixed", overflows=(3, 4, 17))

    def test_bfloat16_equals_a_pytorch_loop(self):
        self.compare_with_pytorch(2, "bf16-mixed")

    def test_gradients_are_clipped_when_they_are_unscaled(self):
        self.compare_with_pytorch(2, "16-mixed", "--gradient-clip-val=0.5", overflows=(5,), clip=0.5)


class MixedInFull(PrecisionTest):
    def test_float16_equals_a_pytorch_loop_with_the_same_steps_skipped(self):
        self.compare_with_pytorch(3, "16-mixed", overflows=(3, 4, 17))

    def test_bfloat16_equals_a_pytorch_loop(self):
        for world in (1, 3):
            with self.subTest(world=world):
                self.compare_with_pytorch(world, "bf16-mixed")


class MasterWeights(PrecisionTest):
    def test_rounded_copies_follow_the_weights_of_a_pytorch_loop(self):
        for precision in ("16-true", "bf16-true"):
            with self.subTest(precision=precision):
                for world in (1, 2):
                    self.compare_with_pytorch(world, precision, overflows=(6,) if precision == "16-true" else ())


class FirstWeightsTest(PrecisionTest):
    def keeps_the_first_weights(self, *ways):
        """A rate of 1e-30 changes no bit: the weights that the optimizer steps on are those of before the rounding."""
        for precision, strategy in ways:
            with self.subTest(precision=precision, strategy=strategy):
                self.prepare_ranks(1 if strategy in ("single", "dp") else 2)
                init, kept = load_file(self.folder / "init.safetensors"), self.folder / "kept"
                self.succeed([NUMERICS, "--model=mlp_small", f"--strategy={strategy}", "--threads=1", "--max-steps=2",
                              "--devices=" + ("1" if strategy == "single" else "2"), f"--precision={precision}",
                              f"--data-from={self.folder / 'ranks.safetensors'}", f"--init-from={self.folder / 'init.safetensors'}",
                              "--optimizer=sgd_momentum", "--lr=1e-30", f"--checkpoint-dir={kept}"])
                weights = load_file(kept / "step-00000002/shared.safetensors")
                for name, tensor in init.items():
                    self.assertTrue(torch.equal(weights[name], tensor), name)
                    self.assertFalse(torch.equal(tensor, tensor.to(TYPES[precision]).float()), "some are rounded")
                shutil.rmtree(kept)


class FirstWeights(FirstWeightsTest):
    def test_are_those_of_before_the_rounding(self):
        self.keeps_the_first_weights(("bf16-true", "dp"), ("16-true", "sharded"))


class FirstWeightsInFull(FirstWeightsTest):
    def test_are_those_of_before_the_rounding(self):
        self.keeps_the_first_weights(*((precision, strategy) for precision in ("bf16-true", "16-true") for strategy in
                                       ("single", "ddp", "ddp_spawn", "sharded", "dp", "bagua")))


class ProgramTest(PrecisionTest):
    """Trains the same batches in several ways (precision_program.cpp)."""

    def train_by(self, how, *more, ranks=1):
        """Returns the weights, and how many steps were skipped."""
        self.succeed([*launcher_of(ranks), PROGRAM, f"--how={how}", "--threads=1", f"--save-final={self.folder / 'final.safetensors'}",
                      "--summary-json=summary.json", *more])
        return load_file(self.folder / "final.safetensors"), self.summary().get("skipped_steps")


class Loops(ProgramTest):
    def test_steps_by_hand_and_own_loops_end_with_the_bits_of_the_trainers_steps(self):
        for precision in ("16-mixed", "bf16-mixed", "64"):
            for world in (1, 2):
                wanted, skipped = self.train_by("steps", f"--precision={precision}", ranks=world)
                self.assertEqual(skipped, 2 if precision == "16-mixed" else None)
                for how in ("by-hand", *(["own-loop"] if precision != "64" else [])):
                    with self.subTest(precision=precision, world=world, how=how):
                        self.assert_same_bits(self.train_by(how, f"--precision={precision}", ranks=world)[0], wanted, how)


class StrategiesTest(ProgramTest):
    def skips_on_all_ranks(self, *strategies, precision):
        for strategy in strategies:
            with self.subTest(strategy=strategy, precision=precision):
                is_launched = strategy not in ("dp", "ddp_spawn")
                _, skipped = self.train_by("steps", f"--precision={precision}", f"--strategy={strategy}",
                                           *([] if is_launched else ["--devices=2"]), ranks=2 if is_launched else 1)
                self.assertEqual(skipped, 2 + (precision == "16-true"))  # the first scale is too large for float16 itself


class Strategies(StrategiesTest):
    def test_an_overflow_of_one_rank_skips_the_step_of_all(self):
        self.skips_on_all_ranks("ddp", "bagua:bytegrad", "sharded", "bagua:decentralized", precision="16-mixed")

    def test_replicas_skip_together(self):
        self.skips_on_all_ranks("dp", precision="16-mixed")


class StrategiesInFull(StrategiesTest):
    def test_an_overflow_of_one_rank_skips_the_step_of_all(self):
        strategies = ("ddp", "ddp_spawn", "sharded", "horovod", "horovod,op=adasum", "bagua:gradient_allreduce", "bagua:bytegrad",
                      "bagua:decentralized", "bagua:low_precision_decentralized")
        self.skips_on_all_ranks(*strategies, precision="16-true")
        self.skips_on_all_ranks(*strategies, "bagua:async", precision="16-mixed")


class ResumeTest(PrecisionTest):
    def check_pieces(self, *ways):
        for way in ways:
            with self.subTest(way=way):
                self.prepare_ranks(2, (3, 4, 17) if way[0].startswith("16") else ())
                wanted, whole = self.train_ranks(2, *way)
                self.train_ranks(2, *way, "--max-steps=9", f"--checkpoint-dir={self.folder / 'kept'}")
                got, resumed = self.train_ranks(2, *way, f"--resume={self.folder / 'kept'}")
                self.assert_same_bits(got, wanted, "after a resume")
                for key in ("loss_scale", "skipped_steps"):
                    self.assertEqual(resumed.get(key), whole.get(key), key)
                self.refuse_other_precision()
                shutil.rmtree(self.folder / "kept")

    def refuse_other_precision(self):
        self.fail_with(2, [NUMERICS, "--model=mlp_small", "--strategy=ddp", "--devices=2", "--precision=32", "--threads=1",
                           f"--data-from={self.folder / 'ranks.safetensors'}", f"--resume={self.folder / 'kept'}"],
                       "and this is --precision=32; give that one, or begin a training with the checkpoint's weights")


class Resumed(ResumeTest):
    def test_the_scale_and_master_weights_go_on_as_they_were(self):
        self.check_pieces(("16-true", "--ema=0.9"))


class ResumedInFull(ResumeTest):
    def test_the_scale_and_master_weights_go_on_as_they_were(self):
        self.check_pieces(("16-mixed",), ("bf16-true",), ("bf16-mixed",), ("64",))


class Memory(PrecisionTest):
    def peak(self, precision, batch):
        """Peak memory of two steps, in MiB."""
        tokens = torch.randint(0, 65, (2, 1, batch, 64), generator=torch.Generator().manual_seed(1))
        data = self.folder / "tokens.safetensors"
        save_file({"x": tokens, "y": tokens.roll(-1, -1).contiguous()}, data)
        self.succeed([NUMERICS, "--model=gpt_mini", f"--data-from={data}", f"--precision={precision}", "--threads=1", "--devices=1",
                      "--summary-json=summary.json"])
        return self.summary()["peak_rss_mib"][0]

    def test_activations_in_16_bits_need_less_memory(self):
        # Without the program itself, whose pages differ from machine to machine.
        whole, mixed, copies = (self.peak(precision, 256) - self.peak(precision, 1) for precision in ("32", "bf16-mixed", "bf16-true"))
        self.assertLess(mixed, 0.9 * whole)
        self.assertLess(copies, 0.9 * mixed)


class Mistakes(PrecisionTest):
    def test_each_is_one_sentence(self):
        for code, flags, text in (
                (2, ["--precision=8"], "--precision: '8' is not possible; give 32, 16-mixed, bf16-mixed, 16-true, bf16-true or 64"),
                (2, ["--precision=16-mixed", "--how=lbfgs"], "losses in float16 are scaled, and LBFGS"),
                (2, ["--precision=16-mixed", "--strategy=bagua:qadam", "--devices=2"],
                 "strategy 'bagua:qadam' cannot train in float16, whose losses are scaled: its momenta keep what arrives"),
                (2, ["--precision=16-true", "--strategy=bagua:async", "--devices=2"],
                 "strategy 'bagua:async' cannot train a model of 16-bit copies of its weights (16-true): weights change"),
                (2, ["--precision=16-mixed", "--graph", *FAKE_DEVICE, "--devices=1"], "is decided on the host in each step"),
                (1, ["--precision=16-mixed", "--how=nan"], "the loss scale has fallen below 1: gradients are not finite")):
            with self.subTest(flags=flags):
                self.fail_with(code, [PROGRAM, *flags], text)


class OnADevice(ProgramTest):
    def waits(self, precision, steps, log_every):
        report = self.folder / "report"
        report.unlink(missing_ok=True)
        self.succeed([PROGRAM, *FAKE_DEVICE, "--devices=1", f"--precision={precision}", f"--max-steps={steps}",
                      f"--log-every-n-steps={log_every}"], {"FAKE_DEVICE_REPORT": str(report)})
        return sum(int(line.split()[0].removeprefix("waits=")) for line in report.read_text().splitlines())

    def test_a_step_waits_once_with_a_loss_scale_and_never_without(self):
        for precision, of_each_step in (("bf16-mixed", 0), ("16-mixed", 1)):
            with self.subTest(precision=precision):
                self.assertEqual(self.waits(precision, 18, 9) - self.waits(precision, 8, 4), 10 * of_each_step)

    def test_the_summary_has_the_peak_of_each_rank(self):
        flags = [PROGRAM, "--how=steps", "--devices=2", "--summary-json=summary.json"]
        self.succeed([*flags, *FAKE_DEVICE])
        peaks = self.summary()["peak_device_mib"]
        self.assertEqual((len(peaks), min(peaks) > 0), (2, True))
        self.succeed(flags)
        self.assertNotIn("peak_device_mib", self.summary())

    def test_ways_to_train_end_with_the_same_bits(self):
        for precision, world in (("16-mixed", 2), ("bf16-mixed", 1), ("16-true", 2)):
            with self.subTest(precision=precision, world=world):
                flags = [f"--precision={precision}", *FAKE_DEVICE]
                by_hand, steps = (self.train_by(how, *flags, ranks=world)[0] for how in ("by-hand", "steps"))
                self.assert_same_bits(by_hand, steps, "by hand")


if __name__ == "__main__":
    harness.main()
