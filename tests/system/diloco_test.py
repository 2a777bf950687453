"""DiLoCo, an example plugin in C that is built by its README's line: real ranks against torch.optim, and going on with another
number of ranks."""
import re
import subprocess

import torch
from safetensors.torch import load_file, save_file

import harness
from harness import BUILD, COHORT, MNIST, NUMERICS, SOURCE, SystemTest

EXAMPLE = SOURCE / "examples/plugins/diloco"
PRECISION_PROGRAM = str(BUILD / "tests/precision_program")
EVERY, BATCH, FEATURES, LR = 3, 4, 784, 0.01


class Net(torch.nn.Module):
    """mlp_small."""

    def __init__(self):
        super().__init__()
        self.fc1, self.fc2 = torch.nn.Linear(FEATURES, 32), torch.nn.Linear(32, 10)

    def forward(self, x):
        return self.fc2(torch.relu(self.fc1(x)))


class Reference:
    """Algorithm 1 of the paper: AdamW on each rank, and torch's SGD with Nesterov's momentum on what they have in common."""

    def __init__(self, net, ranks):
        self.common = Net()
        self.common.load_state_dict(net.state_dict())
        self.outer = torch.optim.SGD(self.common.parameters(), lr=0.7, momentum=0.9, nesterov=True)
        self.ranks, self.steps = [], 0
        for _ in range(ranks):
            self.add_rank(net.state_dict())

    def add_rank(self, weights, state=None):
        net = Net()
        net.load_state_dict(weights)
        optimizer = torch.optim.AdamW(net.parameters(), lr=LR)
        if state:
            optimizer.load_state_dict(state)
        self.ranks.append((net, optimizer))

    def mean(self):
        with torch.no_grad():
            return {name: torch.stack([net.state_dict()[name] for net, _ in self.ranks]).mean(0) for name in self.common.state_dict()}

    def go_on_with(self, ranks):
        states = [optimizer.state_dict() for _, optimizer in self.ranks]
        state, weights = states[0], self.mean()
        for number, values in state["state"].items():
            for key in ("exp_avg", "exp_avg_sq"):
                values[key] = torch.stack([other["state"][number][key] for other in states]).mean(0)
        self.ranks = []
        for _ in range(ranks):
            self.add_rank(weights, {"state": {k: {n: v.clone() for n, v in values.items()} for k, values in state["state"].items()},
                                    "param_groups": state["param_groups"]})

    def train(self, x, y):
        for step in range(len(x)):
            for rank, (net, optimizer) in enumerate(self.ranks):
                optimizer.zero_grad()
                torch.nn.functional.cross_entropy(net(x[step][rank]), y[step][rank]).backward()
                optimizer.step()
            self.steps += 1
            if self.steps % EVERY == 0:
                self.outer_step()

    def outer_step(self):
        mean = self.mean()
        for name, parameter in self.common.named_parameters():
            parameter.grad = parameter.detach() - mean[name]
        self.outer.step()
        for net, _ in self.ranks:
            net.load_state_dict(self.common.state_dict())


class Diloco(SystemTest):
    def setUp(self):
        super().setUp()
        torch.set_num_threads(1)
        line = re.search(r"^ *(cc .*)$", (EXAMPLE / "README.md").read_text(), re.MULTILINE).group(1)
        self.plugin = self.folder / "cohort_diloco.so"
        subprocess.run(line.replace("-o cohort_diloco.so", f"-o '{self.plugin}'"), shell=True, cwd=EXAMPLE, check=True)

    def data(self, name, steps, ranks):
        x, y = torch.randn(steps, ranks, BATCH, FEATURES), torch.randint(0, 10, (steps, ranks, BATCH))
        save_file({"x": x, "y": y}, self.folder / name)
        return x, y

    def train(self, name, ranks, *more):
        self.succeed([NUMERICS, "--model=mlp_small", f"--plugin={self.plugin}", f"--strategy=diloco,every={EVERY}", f"--devices={ranks}",
                      "--threads=1", f"--data-from={self.folder / name}", "--optimizer=adamw", f"--lr={LR}",
                      f"--save-final={self.folder / 'final.safetensors'}", "--summary-json=summary.json", *more])
        self.assertEqual(len(set(self.summary()["weights_sha256"])), 1, "ranks ended with different weights")
        return load_file(self.folder / "final.safetensors")

    def expect(self, got, wanted, init):
        for name in wanted:
            error = (got[name] - wanted[name]).norm() / (wanted[name] - init[name]).norm()
            self.assertLess(error.item(), 1e-4, name)

    def test_it_trains_as_torch_does_and_goes_on_with_other_numbers_of_ranks(self):
        torch.manual_seed(0)
        net = Net()
        init = {name: p.detach().clone() for name, p in net.named_parameters()}
        save_file(init, self.folder / "init.safetensors")
        first, checkpoints = self.data("two", 5, 2), ["--checkpoint-dir=ckpt", "--resume=auto"]
        reference = Reference(net, 2)
        reference.train(*first)  # to the middle of a round
        self.expect(self.train("two", 2, f"--init-from={self.folder / 'init.safetensors'}", *checkpoints), reference.mean(), init)
        for epochs, ranks in ((2, 3), (3, 1)):
            with self.subTest(ranks=ranks):
                more = self.data(f"of {ranks}", 5, ranks)
                reference.go_on_with(ranks)
                reference.train(*more)
                self.expect(self.train(f"of {ranks}", ranks, f"--max-epochs={epochs}", *checkpoints), reference.mean(), init)

    def test_ranks_differ_and_share_the_anchor_in_a_checkpoint(self):
        self.data("two", 5, 2)
        self.train("two", 2, "--checkpoint-dir=ckpt")
        shared, *own = (load_file(self.folder / "ckpt/step-00000005" / f"{name}.safetensors") for name in ("shared", "rank-0", "rank-1"))
        self.assertFalse(torch.equal(own[0]["fc1.weight"], own[1]["fc1.weight"]))
        for name in ("anchor", "momentum"):
            tensor = f"cohort.state/diloco/{name}/fc1.weight"
            self.assertEqual((shared[tensor].dtype, shared[tensor].numel()), (torch.float32, 32 * FEATURES))
            self.assertNotIn(tensor, own[0])

    def test_skipped_steps_count_on_all_ranks_also_at_the_end_of_a_round(self):
        self.succeed([PRECISION_PROGRAM, f"--plugin={self.plugin}", f"--strategy=diloco,every={EVERY}", "--devices=2", "--threads=1",
                      "--precision=16-mixed", "--summary-json=summary.json"])
        self.assertEqual((self.summary()["skipped_steps"], self.summary()["steps"]), (2, 20))  # the third and the sixth one

    def test_it_says_what_it_cannot_do(self):
        table = self.succeed([COHORT, "plugins", "info", "diloco", f"--plugin={self.plugin}"]).stdout
        for option in ("every", "outer_lr", "outer_momentum"):
            self.assertIn(option, table)
        self.fail_with(2, [MNIST, "--devices=2", f"--plugin={self.plugin}", "--strategy=diloco,compression=fp16"], "compression")


if __name__ == "__main__":
    harness.main()
