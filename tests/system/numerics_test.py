"""ddp on n ranks equals one process with the global batch, and both equal a plain PyTorch loop."""
import unittest

import torch
from safetensors.torch import load_file, save_file

from harness import NUMERICS, PLUGINS, SystemTest

STEPS = 50
BATCH = 4


def make_data(path, steps, world, batch=BATCH, features=32, classes=10, seed=1):
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
            out = model(x[i].reshape(-1, x.shape[-1]).to(dtype), i)
            loss = torch.nn.functional.cross_entropy(out, y[i].reshape(-1)) if isinstance(model, MlpSmall) else (out * out).mean()
            (loss / len(window)).backward()
        optimizer.step()
    return {name: tensor.detach().clone() for name, tensor in model.named_parameters()}


class Numerics(SystemTest):
    def train(self, model, strategy, devices, data, steps, dtype, optimizer, lr, *more):
        out = self.folder / "final.safetensors"
        self.succeed([NUMERICS, f"--model={model}", f"--strategy={strategy}", f"--devices={devices}", f"--data-from={data}",
                      f"--init-from={self.folder / 'init.safetensors'}", f"--steps={steps}", f"--dtype={dtype}",
                      f"--optimizer={optimizer}", f"--lr={lr}", f"--save-final={out}", "--summary-json=summary.json",
                      "--threads=1", *more])
        digests = self.summary()["weights_sha256"]
        self.assertEqual(len(digests), devices)
        self.assertEqual(len(set(digests)), 1, "ranks ended with different weights")
        return load_file(out)

    def compare(self, got, wanted, tolerance):
        for name, tensor in wanted.items():
            difference = (got[name].double() - tensor.double()).norm() / max(tensor.double().norm(), 1e-12)
            self.assertLessEqual(difference.item(), tolerance, name)

    def check(self, model, devices, dtype, steps, tolerance, accumulate=1):
        torch.manual_seed(0)
        kind, features = MODELS[model]
        net = kind()
        save_file({name: t.detach().clone() for name, t in net.named_parameters()}, self.folder / "init.safetensors")
        data = self.folder / "data.safetensors"
        x, y = make_data(data, steps, devices, features=features)
        joined = self.folder / "joined.safetensors"
        save_file({"x": x.reshape(steps, 1, devices * BATCH, features), "y": y.reshape(steps, 1, devices * BATCH)}, joined)
        optimizer, lr, momentum = ("sgd_momentum", 0.01, 0.9) if model == "mlp_small" else ("sgd", 0.05, 0.0)
        torch_dtype = torch.float64 if dtype == "float64" else torch.float32
        wanted = reference(net, x, y, torch_dtype, lr, momentum, accumulate)
        more = [f"--accumulate-grad-batches={accumulate}"]
        got = self.train(model, "ddp", devices, data, steps, dtype, optimizer, lr, *more)
        self.compare(got, wanted, tolerance)
        single = self.train(model, "single", 1, joined, steps, dtype, optimizer, lr, *more)
        self.compare(got, single, tolerance)

    def test_float64_equals_the_global_batch_to_1e_9_over_50_steps(self):
        for model in MODELS:
            for devices in (2, 3, 4):
                with self.subTest(model=model, devices=devices):
                    self.check(model, devices, "float64", STEPS, 1e-9)

    def test_float32_equals_the_global_batch_to_1e_5_over_20_steps(self):
        for devices in (2, 3, 4):
            with self.subTest(devices=devices):
                self.check("mlp_small", devices, "float32", 20, 1e-5)

    def test_accumulation_equals_the_joined_batch_also_in_the_shorter_last_window(self):
        for model, devices in (("mlp_small", 2), ("odd", 3)):
            with self.subTest(model=model, devices=devices):
                self.check(model, devices, "float64", STEPS, 1e-9, accumulate=3)

    def test_deterministic_sums_give_the_same_bits_on_every_wire(self):
        # Three ranks: the sum of two does not depend on their order.
        wires = {"shm": "shm", "gloo": "gloo", "sim": "sim,over=shm,bandwidth=10Gbit,latency=1us"}
        specs = [spec for name, spec in wires.items() if (PLUGINS / f"cohort_{name}.so").exists()]
        torch.manual_seed(0)
        save_file({name: t.detach().clone() for name, t in MlpSmall().named_parameters()}, self.folder / "init.safetensors")
        data = self.folder / "data.safetensors"
        make_data(data, 10, 3, features=784)
        weights = [self.train("mlp_small", "ddp", 3, data, 10, "float32", "sgd_momentum", 0.01, "--deterministic",
                              f"--collective={spec}") for spec in specs]
        for spec, got in zip(specs, weights):
            for name, tensor in got.items():
                self.assertTrue(torch.equal(tensor, weights[0][name]), f"{name} on {spec}")

    def test_how_gradients_are_communicated_does_not_change_a_bit(self):
        # Small buckets are laid out again after the first step, and averaging during and after backward is tried; one is not.
        torch.manual_seed(0)
        save_file({name: t.detach().clone() for name, t in Odd().named_parameters()}, self.folder / "init.safetensors")
        data = self.folder / "data.safetensors"
        make_data(data, STEPS, 3)
        ways = [self.train("odd", "ddp", 3, data, STEPS, "float32", "sgd_momentum", 0.01, f"--bucket-size={size}")
                for size in ("128", "64MiB")]
        for name, tensor in ways[0].items():
            self.assertTrue(torch.equal(tensor, ways[1][name]), name)

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
                              "--summary-json=summary.json"])
                self.assertEqual(len(set(self.summary()["weights_sha256"])), 1)


if __name__ == "__main__":
    unittest.main()
