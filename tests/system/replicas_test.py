"""dp and ddp2 equal one process with the whole batch; so do several optimizers, steps by hand and clipping under every strategy."""
import torch
from safetensors.torch import load_file, save_file

import harness
from harness import COHORT, NUMERICS, SystemTest, launcher_of
from numerics_test import Linear32, MlpSmall, Odd

STEPS, LBFGS_STEPS = 50, 2
USER = 2
ONE_THREAD = {"OMP_NUM_THREADS": "1"}
LR = 0.05
NODES = [COHORT, "run", "--nnodes=2", "--nproc-per-node=1"]
# Flags, ranks.
SINGLE, DP, DDP = (["--strategy=single"], 1), (["--strategy=dp", "--devices=2"], 1), (["--strategy=ddp"], 2)
NORM, VALUE = ("norm", 0.05), ("value", 0.002)


class BatchSoftmax(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc, self.head = torch.nn.Linear(32, 32), torch.nn.Linear(32, 4)

    def losses(self, x, y, step):
        hidden = self.fc(x).tanh()
        scores = self.head(hidden) + self.head(hidden.square())
        return [(torch.softmax(scores, 0) * scores).sum() + hidden.mean()]


class Adversarial(torch.nn.Module):
    rounds = (0, 1)

    def __init__(self):
        super().__init__()
        self.maker, self.judge = torch.nn.Linear(32, 32), torch.nn.Linear(32, 1)

    def parts(self):
        return [self.maker, self.judge]

    def loss(self, part, x):
        if part == 0:
            return (self.judge(self.maker(x)) - 1).square().mean()
        return self.judge(self.maker(x)).square().mean() + (self.judge(x) - 1).square().mean()


class AdversarialByHand(Adversarial):
    rounds = (0, 1, 1)


MODELS = {"linear32": (Linear32, 32), "odd": (Odd, 32), "mlp_small": (MlpSmall, 784), "batch_softmax": (BatchSoftmax, 32),
          "batch_softmax_gathered": (BatchSoftmax, 32), "adversarial": (Adversarial, 32), "adversarial_by_hand": (AdversarialByHand, 32)}


def clip(parameters, limit, algorithm):
    if limit is None:
        return
    if algorithm == "norm":
        torch.nn.utils.clip_grad_norm_(parameters, limit)
    else:
        torch.nn.utils.clip_grad_value_(parameters, limit)


def loss_of(net, part, x, y, step):
    if isinstance(net, Adversarial):
        return net.loss(part, x)
    if isinstance(net, BatchSoftmax):
        return net.losses(x, y, step)[0]
    out = net(x, step)
    return torch.nn.functional.cross_entropy(out, y) if isinstance(net, MlpSmall) else (out * out).mean()


def reference(net, x, y, lr, accumulate=1, clip_at=None, algorithm="norm"):
    """A plain loop in float64 over whole batches: rows of x are micro-batches."""
    net = net.double()
    parts = net.parts() if isinstance(net, Adversarial) else [net]
    groups = [[p for p in part.parameters() if p.requires_grad] for part in parts]
    optimizers = [torch.optim.SGD(group, lr=lr) for group in groups]
    for row in range(0, x.shape[0], accumulate):
        window = range(row, min(row + accumulate, x.shape[0]))
        sums = [[torch.zeros_like(p) for p in group] for group in groups]
        for i in window:
            for part in getattr(net, "rounds", (0,)):
                gradients = torch.autograd.grad(loss_of(net, part, x[i], y[i], i) / len(window), groups[part], allow_unused=True)
                for total, gradient in zip(sums[part], gradients):
                    total += 0 if gradient is None else gradient
                if i != window[-1]:
                    continue
                for parameter, total in zip(groups[part], sums[part]):
                    parameter.grad = total.clone()
                    total.zero_()
                clip(groups[part], clip_at, algorithm)
                optimizers[part].step()
    return {name: tensor.detach().clone() for name, tensor in net.named_parameters()}


class ReplicasTest(SystemTest):
    def prepare(self, model, batch, seed=1):
        torch.manual_seed(seed)
        kind, features = MODELS[model]
        self.net = kind()
        save_file({name: t.detach().clone() for name, t in self.net.named_parameters()}, self.folder / "init.safetensors")
        self.x = torch.randn(STEPS, batch, features, dtype=torch.float64)
        self.y = torch.randint(0, 10, (STEPS, batch))

    def data(self, world):
        """The same whole batches, cut for `world` processes."""
        path = self.folder / f"data{world}.safetensors"
        cut = lambda t: t.reshape(STEPS, world, t.shape[1] // world, *t.shape[2:]).contiguous()
        save_file({"x": cut(self.x), "y": cut(self.y)}, path)
        return path

    def train(self, model, start, world, processes, *more, optimizer="sgd"):
        out = self.folder / "final.safetensors"
        self.succeed([*start, NUMERICS, f"--model={model}", f"--data-from={self.data(world)}", "--dtype=float64", f"--optimizer={optimizer}",
                      f"--init-from={self.folder / 'init.safetensors'}", f"--lr={LR}", f"--save-final={out}",
                      "--summary-json=summary.json", *more], ONE_THREAD)
        digests = self.summary()["weights_sha256"]
        self.assertEqual(len(digests), processes)
        self.assertEqual(len(set(digests)), 1, "processes ended with different weights")
        return load_file(out)

    def compare(self, got, wanted):
        for name, tensor in wanted.items():
            difference = (got[name] - tensor).norm() / max(tensor.norm(), 1e-12)
            self.assertLessEqual(difference.item(), 1e-9, name)

    def check_dp(self, model, replicas, batch):
        with self.subTest(model=model, replicas=replicas, batch=batch):
            self.prepare(model, batch)
            got = self.train(model, [], 1, 1, "--strategy=dp", f"--devices={replicas}")
            self.assertEqual(self.summary()["replicas"], replicas)
            self.compare(got, reference(self.net, self.x, self.y, LR))

    def check_loss_of_the_whole_batch(self, start, *flags):
        with self.subTest(flags=flags):
            self.prepare("batch_softmax", 7)
            got = self.train("batch_softmax", start, 1, 1, *flags)
            self.compare(got, reference(self.net, self.x, self.y, LR))

    def check_gathered_loss(self, start, world, *flags):
        with self.subTest(flags=flags):
            self.prepare("batch_softmax_gathered", 8)
            got = self.train("batch_softmax_gathered", start, world, world, *flags)
            self.compare(got, reference(self.net, self.x, self.y, LR))

    def check_ddp2(self, model):
        self.prepare(model, 8)
        got = self.train(model, NODES, 2, 2, "--strategy=ddp2", "--devices=2")
        self.assertEqual((self.summary()["replicas"], self.summary()["num_nodes"]), (2, 2))
        self.compare(got, reference(self.net, self.x, self.y, LR))

    def check_under(self, place, model, more=(), **of_reference):
        """The model trains under a strategy as in the plain loop."""
        flags, ranks = place
        with self.subTest(flags=flags, model=model, more=more):
            self.prepare(model, 8)
            got = self.train(model, launcher_of(ranks), ranks, ranks, *flags, *more)
            self.compare(got, reference(self.net, self.x, self.y, LR, **of_reference))

    def check_several_optimizers(self, place, accumulate):
        self.check_under(place, "adversarial", [f"--accumulate-grad-batches={accumulate}"], accumulate=accumulate)

    def check_clipping(self, place, algorithm, limit):
        self.check_under(place, "odd", [f"--gradient-clip-val={limit}", f"--gradient-clip-algorithm={algorithm}"],
                         clip_at=limit, algorithm=algorithm)

    def check_lbfgs(self, place):
        """Every evaluation of the loss, in the step too, is over the batches of all ranks. More steps magnify any rounding."""
        flags, ranks = place
        with self.subTest(flags=flags):
            self.prepare("mlp_small", 8)
            got = self.train("mlp_small", launcher_of(ranks), ranks, ranks, *flags, f"--max-steps={LBFGS_STEPS}", optimizer="lbfgs")
            net = self.net.double()
            optimizer = torch.optim.LBFGS(net.parameters(), lr=LR)
            for step in range(LBFGS_STEPS):
                def evaluate():
                    optimizer.zero_grad()
                    loss = loss_of(net, 0, self.x[step], self.y[step], step)
                    loss.backward()
                    return loss
                optimizer.step(evaluate)
            self.compare(got, dict(net.named_parameters()))

    def run_on_one(self, *more, model="linear32"):
        self.prepare(model, 8)
        return [NUMERICS, f"--data-from={self.data(1)}", f"--model={model}", *more]


class Replicas(ReplicasTest):
    def test_dp_equals_one_process_with_the_whole_batch(self):
        self.check_dp("odd", 2, 8)
        self.check_dp("mlp_small", 3, 7)

    def test_a_loss_over_the_whole_batch_reaches_all_replicas(self):
        self.check_loss_of_the_whole_batch([], "--strategy=dp", "--devices=3")

    def test_ddp2_is_dp_in_the_node_and_the_mean_over_nodes(self):
        self.check_ddp2("odd")

    def test_ddp2_starts_its_nodes_by_itself(self):
        self.prepare("linear32", 8)
        got = self.train("linear32", [], 2, 2, "--strategy=ddp2", "--devices=2", "--num-nodes=2")
        self.compare(got, reference(self.net, self.x, self.y, LR))

    def test_ddp2_gives_every_node_one_loss_over_its_whole_batch(self):
        self.prepare("batch_softmax", 8)
        got = self.train("batch_softmax", NODES, 2, 2, "--strategy=ddp2", "--devices=2")
        # Two nodes of four samples each; their gradients are averaged.
        net = self.net.double()
        for step in range(STEPS):
            net.zero_grad()
            for node in range(2):
                rows = slice(4 * node, 4 * node + 4)
                (net.losses(self.x[step, rows], self.y[step, rows], step)[0] / 2).backward()
            with torch.no_grad():
                for parameter in net.parameters():
                    parameter -= LR * parameter.grad
        self.compare(got, dict(net.named_parameters()))

    def test_gathered_over_the_ranks_a_loss_sees_the_batches_of_all(self):
        self.check_gathered_loss(launcher_of(2), 2, "--strategy=ddp")

    def test_several_optimizers_each_train_their_own_part(self):
        self.check_several_optimizers(DP, 1)
        self.check_several_optimizers(DDP, 3)

    def test_optimizers_that_step_by_hand(self):
        self.check_under(DDP, "adversarial_by_hand")

    def test_gradients_are_clipped_when_they_are_those_of_the_whole_batch(self):
        self.check_clipping(DP, *VALUE)
        self.check_clipping(DDP, *NORM)

    def test_an_optimizer_that_evaluates_its_loss_several_times(self):
        self.check_lbfgs(DDP)

    def test_what_cannot_be_is_refused_in_a_sentence(self):
        self.fail_with(USER, self.run_on_one("--strategy=dp", "--devices=2", "--num-nodes=2"), "'dp' cannot train on 2 nodes", "ddp2")
        self.fail_with(USER, self.run_on_one("--optimizer=lbfgs", "--strategy=bagua"), "cannot train with LBFGS: it communicates once",
                       "choose another optimizer, or --strategy=ddp")


class InFull(ReplicasTest):
    """More models and strategies."""

    def test_dp_equals_one_process_with_the_whole_batch(self):
        self.check_dp("linear32", 2, 8)
        self.check_dp("mlp_small", 4, 16)

    def test_a_loss_over_the_whole_batch_reaches_all_replicas_and_is_the_same_under_every_strategy_without_them(self):
        self.check_loss_of_the_whole_batch([], "--strategy=single")
        self.check_loss_of_the_whole_batch([], "--strategy=dp", "--devices=2")
        self.check_loss_of_the_whole_batch([COHORT, "run", "-n", "1"], "--strategy=ddp")

    def test_ddp2_is_dp_in_the_node_and_the_mean_over_nodes(self):
        self.check_ddp2("mlp_small")

    def test_gathered_over_the_ranks_a_loss_sees_the_batches_of_all(self):
        self.check_gathered_loss(launcher_of(4), 4, "--strategy=ddp")
        self.check_gathered_loss(NODES, 2, "--strategy=ddp2", "--devices=2")

    def test_several_optimizers_each_train_their_own_part(self):
        for place, accumulate in ((SINGLE, 1), (SINGLE, 3), (DP, 3), (DDP, 1)):
            self.check_several_optimizers(place, accumulate)

    def test_optimizers_that_step_by_hand(self):
        self.check_under(SINGLE, "adversarial_by_hand")

    def test_gradients_are_clipped_when_they_are_those_of_the_whole_batch(self):
        for place, way in ((SINGLE, NORM), (SINGLE, VALUE), (DP, NORM), (DDP, VALUE)):
            self.check_clipping(place, *way)

    def test_an_optimizer_that_evaluates_its_loss_several_times(self):
        self.check_lbfgs(SINGLE)
        self.check_lbfgs(DP)

    def test_more_that_cannot_be_is_refused_in_a_sentence(self):
        self.fail_with(USER, self.run_on_one("--optimizer=lbfgs", "--accumulate-grad-batches=2"), "leave --accumulate-grad-batches out")
        self.fail_with(USER, self.run_on_one("--optimizer=lbfgs", model="adversarial_by_hand"), "let automatic_optimization() be true")
        self.fail_with(USER, [COHORT, "run", "-n", "2", *self.run_on_one("--strategy=dp")], "dp", "--strategy=ddp")
        self.fail_with(USER, self.run_on_one("--strategy=dp", "--devices=2", model="adversarial_by_hand"),
                       "'dp' cannot let training_step run the optimizers by hand", "--strategy=ddp")
        for value in ("-1", "nan", "x"):
            self.fail_with(USER, self.run_on_one(f"--gradient-clip-val={value}"), "gradient-clip-val", "from 0")


if __name__ == "__main__":
    harness.main()
