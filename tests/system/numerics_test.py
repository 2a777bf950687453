"""ddp on n ranks equals one process with the global batch, and both equal a plain PyTorch loop."""
import pathlib
import sys

import torch
from safetensors.torch import load_file, save_file

import harness
from harness import NUMERICS, SystemTest, launcher_of

STEPS = 50
BATCH = 12  # of all ranks together: 2, 3 and 4 ranks can share it


def make_data(path, steps, world, batch=4, features=32, classes=10, seed=1):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(steps, world, batch, features, generator=generator)
    y = torch.randint(0, classes, (steps, world, batch), generator=generator)
    save_file({"x": x, "y": y}, path)
    return x, y


class Linear32(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(32, 32)

    def forward(self, x, step):
        return self.fc(x)


class Odd(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(1))
        self.fc = torch.nn.Linear(32, 32)
        self.frozen = torch.nn.Linear(32, 32).requires_grad_(False)
        self.rare = torch.nn.Linear(32, 32)

    def forward(self, x, step):
        out = self.scale * self.frozen(self.fc(x))
        return out + self.rare(x) if step % 2 == 0 else out


class MlpSmall(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.fc2 = torch.nn.Linear(784, 32), torch.nn.Linear(32, 10)

    def forward(self, x, step):
        return self.fc2(torch.relu(self.fc1(x)))


MODELS = {"linear32": (Linear32, 32), "odd": (Odd, 32), "mlp_small": (MlpSmall, 784)}


def reference(model, x, y, dtype, lr, momentum, accumulate=1):
    """A plain loop over the global batch: rows of x are micro-batches."""
    model = model.to(dtype)
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=lr, momentum=momentum)
    for row in range(0, x.shape[0], accumulate):
        window = range(row, min(row + accumulate, x.shape[0]))
        optimizer.zero_grad()
        for i in window:
            out = model(x[i].to(dtype), i)
            loss = torch.nn.functional.cross_entropy(out, y[i]) if isinstance(model, MlpSmall) else (out * out).mean()
            (loss / len(window)).backward()
        optimizer.step()
    return {name: tensor.detach().clone() for name, tensor in model.named_parameters()}


class NumericsTest(SystemTest):
    def prepare(self, model, steps):
        """Makes the model's first weights, in a file too, and batches."""
        torch.manual_seed(0)
        kind, features = MODELS[model]
        self.net = kind()
        self.x, self.y = (t.squeeze(1) for t in make_data(self.folder / "data.safetensors", steps, 1, BATCH, features))
        save_file({name: t.detach().clone() for name, t in self.net.named_parameters()}, self.folder / "init.safetensors")

    def train(self, model, world, dtype, optimizer, lr, *more):
        """The weights to which so many ranks train, each on its part of every batch."""
        data, out = self.folder / f"data-{world}.safetensors", self.folder / "final.safetensors"
        def cut(t): return t.reshape(t.shape[0], world, BATCH // world, *t.shape[2:])
        save_file({"x": cut(self.x), "y": cut(self.y)}, data)
        self.succeed([*launcher_of(world), NUMERICS, f"--model={model}", "--strategy=" + ("ddp" if world > 1 else "single"),
                      f"--data-from={data}", f"--init-from={self.folder / 'init.safetensors'}", f"--dtype={dtype}",
                      f"--optimizer={optimizer}", f"--lr={lr}", f"--save-final={out}", "--summary-json=summary.json",
                      "--threads=1", *more])
        digests = self.summary()["weights_sha256"]
        self.assertEqual(len(digests), world)
        self.assertEqual(len(set(digests)), 1, "ranks ended with different weights")
        return load_file(out)

    def compare(self, got, wanted, tolerance):
        for name, tensor in wanted.items():
            difference = (got[name].double() - tensor.double()).norm() / max(tensor.double().norm(), 1e-12)
            self.assertLessEqual(difference.item(), tolerance, name)

    def assert_same_bits(self, got, wanted, what):
        for name, tensor in got.items():
            self.assertTrue(torch.equal(tensor, wanted[name]), f"{name} {what}")

    def check(self, model, worlds, dtype="float64", steps=STEPS, tolerance=1e-9, accumulate=1):
        """Holds each of these numbers of ranks against a plain loop and against one process."""
        self.prepare(model, steps)
        optimizer, lr, momentum = ("sgd_momentum", 0.01, 0.9) if model == "mlp_small" else ("sgd", 0.05, 0.0)
        torch_dtype = torch.float64 if dtype == "float64" else torch.float32
        wanted = reference(self.net, self.x, self.y, torch_dtype, lr, momentum, accumulate)
        alone = None
        for world in (1, *worlds):
            with self.subTest(model=model, world=world):
                got = self.train(model, world, dtype, optimizer, lr, f"--accumulate-grad-batches={accumulate}")
                self.compare(got, wanted, tolerance)
                alone = alone or got
                self.compare(got, alone, tolerance)

    def check_deterministic_sums(self, *wires):
        self.prepare("mlp_small", 10)
        # Three ranks: the sum of two does not depend on their order.
        first, *others = [self.train("mlp_small", 3, "float32", "sgd_momentum", 0.01, "--deterministic", f"--collective={wire}")
                          for wire in wires]
        for wire, got in zip(wires[1:], others):
            self.assert_same_bits(got, first, f"on {wire}")


class TorchDdp(NumericsTest):
    """Beside PyTorch's own DistributedDataParallel, on the same batches and from the same weights."""
    TOLERANCE = 1e-6  # of a norm; sums over more than two ranks may be taken in another order

    def train_under_torch(self, world):
        out = self.folder / "torch.safetensors"
        program = pathlib.Path(__file__).with_name("torch_ddp.py")
        self.succeed([sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={world}", program,
                      self.folder / "init.safetensors", self.folder / f"data-{world}.safetensors", out, 0.01, 0.9])
        return load_file(out)

    def test_both_end_with_the_same_weights(self):
        for world in (2, 4):
            with self.subTest(world=world):
                self.prepare("mlp_small", STEPS)
                ours = self.train("mlp_small", world, "float32", "sgd_momentum", 0.01)
                theirs = self.train_under_torch(world)
                if world == 2:
                    self.assert_same_bits(ours, theirs, "is not that of PyTorch's DDP")
                self.compare(ours, theirs, self.TOLERANCE)
                self.assertFalse(torch.equal(ours["fc1.weight"], self.net.fc1.weight), "nothing was trained")


class Numerics(NumericsTest):
    def test_float64_equals_the_global_batch_to_1e_9_over_50_steps(self):
        for model, world in (("linear32", 4), ("mlp_small", 2)):
            self.check(model, [world])

    def test_float32_equals_the_global_batch_to_1e_5_over_20_steps(self):
        self.check("mlp_small", [3], "float32", 20, 1e-5)

    def test_accumulation_equals_the_joined_batch_also_in_the_shorter_last_window(self):
        self.check("odd", [3], accumulate=3)

    def test_deterministic_sums_give_the_same_bits_on_every_wire(self):
        self.check_deterministic_sums("shm", "gloo")

    def test_how_gradients_are_communicated_does_not_change_a_bit(self):
        # Small buckets are laid out again after the first step, and averaging during and after backward is tried; one is not.
        self.prepare("odd", STEPS)
        small, one = [self.train("odd", 3, "float32", "sgd_momentum", 0.01, f"--bucket-size={size}") for size in ("128", "64MiB")]
        self.assert_same_bits(small, one, "with small buckets")

    def test_the_larger_models_train_and_keep_ranks_equal(self):
        generator = torch.Generator().manual_seed(3)
        images = {"x": torch.randn(2, 2, 2, 3, 32, 32, generator=generator),
                  "y": torch.randint(0, 10, (2, 2, 2), generator=generator)}
        tokens = torch.randint(0, 65, (2, 2, 2, 64), generator=generator)
        for model, tensors in (("resnet18_cifar", images), ("gpt_mini", {"x": tokens, "y": tokens.roll(-1, -1).contiguous()})):
            with self.subTest(model=model):
                data = self.folder / f"{model}.safetensors"
                save_file(tensors, data)
                self.succeed([NUMERICS, f"--model={model}", "--strategy=ddp", "--devices=2", f"--data-from={data}",
                              f"--save-final={self.folder / 'final.safetensors'}", "--summary-json=summary.json"])
                self.assertEqual(len(set(self.summary()["weights_sha256"])), 1)
                counts = [tensor for name, tensor in load_file(self.folder / "final.safetensors").items()
                          if name.endswith("num_batches_tracked")]
                self.assertEqual([(count.dtype, count.item()) for count in counts],
                                 [(torch.int64, 2)] * (20 if model == "resnet18_cifar" else 0))


class InFull(NumericsTest):
    """More models on more ranks."""

    def test_float64_equals_the_global_batch_to_1e_9_over_50_steps(self):
        for model, worlds in (("linear32", (2, 3)), ("odd", (2, 3, 4)), ("mlp_small", (3, 4))):  # the others are quick
            self.check(model, worlds)

    def test_float32_equals_the_global_batch_to_1e_5_over_20_steps(self):
        self.check("mlp_small", (2, 4), "float32", 20, 1e-5)

    def test_accumulation_equals_the_joined_batch_also_in_the_shorter_last_window(self):
        self.check("mlp_small", [2], accumulate=3)

    def test_deterministic_sums_give_the_same_bits_on_a_simulated_wire(self):
        self.check_deterministic_sums("shm", "sim,over=shm,bandwidth=10Gbit,latency=1us")


if __name__ == "__main__":
    harness.main()
