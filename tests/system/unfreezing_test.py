"""Parts of a model that are trained from a later epoch on: every strategy lays its buckets out anew, as PyTorch's plain loop needs not."""
import torch
from safetensors.torch import load_file, save_file

import harness
from harness import NUMERICS, SystemTest
from numerics_test import MlpSmall

EPOCHS, STEPS, BATCH = 4, 6, 8
FIRST_EPOCHS = {"fc1.weight": 3, "fc1": 1}  # the head fc2 trains at once
MAKERS = {"sgd": lambda parameters: torch.optim.SGD(parameters, lr=0.1),
          "adam": lambda parameters: torch.optim.Adam(parameters, lr=0.01)}
RATES = {"sgd": 0.1, "adam": 0.01}


def first_epoch(name):
    return FIRST_EPOCHS.get(name, FIRST_EPOCHS.get(name.split(".")[0], 0))


class UnfreezingTest(SystemTest):
    def prepare(self):
        torch.manual_seed(3)
        self.net = MlpSmall()
        self.initial = {name: tensor.detach().clone() for name, tensor in self.net.named_parameters()}
        save_file(self.initial, self.folder / "init.safetensors")
        self.x = torch.randn(STEPS, BATCH, 784, dtype=torch.float64)
        self.y = torch.randint(0, 10, (STEPS, BATCH))

    def reference(self, optimizer):
        net = self.net.double()
        stepper = MAKERS[optimizer](list(net.parameters()))
        for epoch in range(EPOCHS):
            for name, parameter in net.named_parameters():
                parameter.requires_grad_(epoch >= first_epoch(name))
            for row in range(STEPS):
                stepper.zero_grad()
                torch.nn.functional.cross_entropy(net(self.x[row], row), self.y[row]).backward()
                stepper.step()
        return {name: tensor.detach() for name, tensor in net.named_parameters()}

    def train(self, strategy, world=2, optimizer="sgd", devices=2, epochs=EPOCHS, more=()):
        data = self.folder / f"data{world}.safetensors"
        cut = lambda t: t.reshape(STEPS, world, BATCH // world, *t.shape[2:]).contiguous()
        save_file({"x": cut(self.x), "y": cut(self.y)}, data)
        self.succeed([NUMERICS, "--model=mlp_small", f"--data-from={data}", "--dtype=float64", f"--optimizer={optimizer}",
                      f"--lr={RATES[optimizer]}", f"--init-from={self.folder / 'init.safetensors'}", f"--strategy={strategy}",
                      f"--devices={devices}", f"--max-epochs={epochs}", f"--save-final={self.folder / 'final.safetensors'}",
                      "--unfreeze=" + ",".join(f"{name}={epoch}" for name, epoch in FIRST_EPOCHS.items()),
                      "--summary-json=summary.json", *more], {"OMP_NUM_THREADS": "1"})
        self.assertEqual(len(set(self.summary()["weights_sha256"])), 1, "ranks ended with different weights")
        return load_file(self.folder / "final.safetensors")

    def check(self, strategy, optimizer="sgd", **more):
        with self.subTest(strategy=strategy, optimizer=optimizer):
            self.prepare()
            got, wanted = self.train(strategy, optimizer=optimizer, **more), self.reference(optimizer)
            for name, tensor in wanted.items():
                self.assertLessEqual(((got[name] - tensor).norm() / tensor.norm()).item(), 1e-9, name)


class Unfreezing(UnfreezingTest):
    def test_ranks_train_as_the_plain_loop(self):
        self.check("ddp")
        self.check("sharded", optimizer="adam")

    def test_replicas_train_as_the_plain_loop(self):
        self.check("dp", world=1)

    def test_a_name_that_is_none_is_refused(self):
        self.prepare()
        save_file({"x": self.x.unsqueeze(1), "y": self.y.unsqueeze(1)}, self.folder / "data.safetensors")
        self.fail_with(2, [NUMERICS, "--model=mlp_small", f"--data-from={self.folder / 'data.safetensors'}", "--dtype=float64",
                           "--optimizer=sgd", "--lr=0.1", "--unfreeze=fc9=2"], "has no parameter or submodule 'fc9'")


class InFull(UnfreezingTest):
    def test_other_strategies_train_as_the_plain_loop(self):
        self.check("single", world=1, devices=1)
        self.check("ddp", more=["--collective=gloo", "--bucket-size=1KiB"])
        self.check("ddp", optimizer="adam", world=4, devices=4)
        self.check("ddp_spawn")
        self.check("bagua:gradient_allreduce", optimizer="adam")

    def test_strategies_that_round_leave_frozen_parameters_as_they_are(self):
        for strategy in ("bagua:bytegrad", "bagua:decentralized", "bagua:low_precision_decentralized", "bagua:qadam,warmup_steps=8",
                         "bagua:async,warmup_steps=2"):
            with self.subTest(strategy=strategy):
                self.prepare()
                got = self.train(strategy, optimizer="adam" if "qadam" in strategy else "sgd", epochs=2)
                self.assertTrue(torch.equal(got["fc1.weight"], self.initial["fc1.weight"].double()))
                for name in ("fc1.bias", "fc2.weight"):
                    self.assertFalse(torch.equal(got[name], self.initial[name].double()), name)

    def test_a_resumed_run_ends_with_the_same_bits(self):
        for strategy in ("ddp", "sharded"):
            with self.subTest(strategy=strategy):
                self.prepare()
                whole = self.train(strategy, optimizer="adam")
                folder = f"--checkpoint-dir={self.folder / strategy}"
                self.train(strategy, optimizer="adam", epochs=2, more=[folder])
                resumed = self.train(strategy, optimizer="adam", more=[folder, "--resume=auto"])
                for name, tensor in whole.items():
                    self.assertTrue(torch.equal(resumed[name], tensor), name)


if __name__ == "__main__":
    harness.main()
