"""bagua's algorithms in real ranks: against simulators written from their definitions, on MNIST, from checkpoints, and what
they refuse."""
import math
import os
import signal

import numpy
import torch
from safetensors.torch import load_file, save_file

import harness
from harness import COHORT, MNIST, NUMERICS, SystemTest, launcher_of
from rank_death_test import ENDLESS, ranks_of

ALGORITHMS = ("gradient_allreduce", "bytegrad", "decentralized", "low_precision_decentralized", "qadam", "async")
STEPS, BATCH, FEATURES = 12, 4, 784
F32 = numpy.float32


def codec(x):
    """What arrives of a chunk."""
    low, high = x.min(), x.max()
    largest = max(abs(float(low)), abs(float(high)))
    if largest < 1e-30:
        return numpy.zeros_like(x)
    scale = F32(255.0 / (float(high) - float(low) + 1e-7 * largest))
    lower = numpy.rint(high * scale) - F32(255)
    codes = numpy.clip(numpy.rint(x * scale) - lower, F32(0), F32(255)).astype(numpy.uint8)
    return (codes.astype(F32) + lower) / scale


def total(arrays):
    result = arrays[0].copy()
    for array in arrays[1:]:
        result = result + array
    return result


def mean(arrays):
    return total(arrays) / F32(len(arrays))


def compressed_sum(arrays, divisor):
    n, numel = len(arrays), len(arrays[0])
    chunks = [numpy.split(numpy.pad(array, (0, -numel % n)), n) for array in arrays]
    owners = [codec(total([codec(own[r]) for own in chunks]) / F32(divisor)) for r in range(n)]
    return numpy.concatenate(owners)[:numel]


class Net(torch.nn.Module):
    """mlp_small; weights and gradients in one array, in the order of buckets: parameters from the last to the first."""

    def __init__(self):
        super().__init__()
        self.fc1, self.fc2 = torch.nn.Linear(FEATURES, 32), torch.nn.Linear(32, 10)

    def named(self):
        return list(self.named_parameters())[::-1]

    def flat(self):
        return numpy.concatenate([p.detach().numpy().reshape(-1) for _, p in self.named()])

    def load(self, flat):
        offset = 0
        for _, parameter in self.named():
            part = flat[offset:offset + parameter.numel()].reshape(parameter.shape)
            parameter.data = torch.from_numpy(part.copy())
            offset += parameter.numel()

    def gradient(self, flat, x, y):
        self.load(flat)
        self.zero_grad()
        torch.nn.functional.cross_entropy(self.fc2(torch.relu(self.fc1(x))), y).backward()
        return numpy.concatenate([p.grad.numpy().reshape(-1) for _, p in self.named()])


class Job:
    """The weights of all ranks; an algorithm is a function that makes one step."""

    def __init__(self, net, x, y, ranks, nodes, lr):
        self.net, self.x, self.y, self.ranks, self.nodes, self.lr = net, x, y, ranks, nodes, F32(lr)
        self.weights = [net.flat() for _ in range(ranks)]
        self.ring = [[net.flat() for _ in range(3)] for _ in range(self.members)]  # own, left, right
        self.momentum, self.square = numpy.zeros_like(net.flat()), numpy.zeros_like(net.flat())

    @property
    def members(self):
        return self.nodes if self.nodes > 1 else self.ranks

    def of_members(self, arrays):
        """One array for each rank that exchanges: its own, or the sum of its node."""
        size = self.ranks // self.members
        return [total(arrays[i * size:(i + 1) * size]) for i in range(self.members)]

    def gradients(self, step):
        return [self.net.gradient(w, self.x[step, r], self.y[step, r]) for r, w in enumerate(self.weights)]

    def step_all(self, gradient):
        self.weights = [w - self.lr * gradient for w in self.weights]

    def gradient_allreduce(self, step):
        self.step_all(total(self.of_members(self.gradients(step))) / F32(self.ranks))

    def bytegrad(self, step):
        self.step_all(compressed_sum(self.of_members(self.gradients(step)), self.ranks))

    def decentralized(self, step):
        gradients = self.gradients(step)
        average = total(self.of_members(self.weights)) / F32(self.ranks)
        self.weights = [average - self.lr * g for g in gradients]

    def shift_one(self, step):
        gradients, n = self.gradients(step), self.members
        members = self.of_members(self.weights)
        size = F32(self.ranks // n)

        def peer(r):
            return (step + r) % ((n + 1) // 2) + n // 2 if r < n // 2 else (r - n // 2 - step) % (n // 2)
        averages = [(members[r] + members[peer(r)]) / (2 * size) for r in range(n)]
        self.weights = [averages[r // int(size)] - self.lr * g for r, g in enumerate(gradients)]

    def low_precision_decentralized(self, step):
        stepped = [w - self.lr * g for w, g in zip(self.weights, self.gradients(step))]
        n = self.members
        x = [s / F32(self.ranks // n) for s in self.of_members(stepped)]
        z = [x[i] + left / F32(3) + right / F32(3) - F32(5) * own / F32(3) for i, (own, left, right) in enumerate(self.ring)]
        change = [codec(one) for one in z]
        self.ring = [[own + change[i], left + change[(i - 1) % n], right + change[(i + 1) % n]]
                     for i, (own, left, right) in enumerate(self.ring)]
        self.weights = [self.ring[r // (self.ranks // n)][0] for r in range(self.ranks)]

    def qadam(self, step, warmup=5, beta1=0.9, beta2=0.999, eps=1e-8):
        gradients, t = self.gradients(step), step + 1
        if step < warmup:
            g = mean(gradients)
            self.momentum = F32(beta1) * self.momentum + F32(1 - beta1) * g
            self.square = F32(beta2) * self.square + F32(1 - beta2) * g * g
        else:
            if step == warmup:  # the floor of each parameter is added to its second moments
                sizes = [p.numel() for _, p in self.net.named()]
                self.square = numpy.concatenate([v + F32(1e-4 * v.mean(dtype=numpy.float64)) for v in
                                                 numpy.split(self.square, numpy.cumsum(sizes)[:-1])])
            momenta = [F32(beta1) * self.momentum + F32(1 - beta1) * g for g in gradients]
            self.momentum = compressed_sum(self.of_members(momenta), self.ranks)
        denominator = numpy.sqrt(self.square) / F32(math.sqrt(1 - beta2 ** min(t, warmup))) + F32(eps)
        change = numpy.where(self.square == 0, F32(0), F32(self.lr / (1 - beta1 ** t)) * self.momentum / denominator)
        self.weights = [w - change for w in self.weights]


class Numerics(SystemTest):
    shapes = ((2, 1),)  # ranks, nodes

    def simulate_and_train(self, algorithm, spec, optimizer="sgd", lr=0.05, even=False):
        """Returns the bytes that a rank sends in a step, by shape."""
        torch.set_num_threads(1)
        sent = {}
        for ranks, nodes in self.shapes:
            if even and ranks % 2 != 0:
                continue  # the algorithm pairs ranks
            with self.subTest(spec=spec, ranks=ranks, nodes=nodes):
                torch.manual_seed(0)
                net = Net()
                x = torch.randn(STEPS, ranks, BATCH, FEATURES)
                y = torch.randint(0, 10, (STEPS, ranks, BATCH))
                save_file({name: p.detach().clone() for name, p in net.named_parameters()}, self.folder / "init.safetensors")
                save_file({"x": x, "y": y}, self.folder / "data.safetensors")
                job = Job(net, x, y, ranks, nodes, lr)
                for step in range(STEPS):
                    getattr(job, algorithm)(step)
                got = self.train(spec, ranks, nodes, optimizer, lr)
                start = net.load(mean(job.weights)) or dict(net.named_parameters())
                init = load_file(self.folder / "init.safetensors")
                for name, wanted in start.items():
                    # Beside what was learned: roundings, and a code that they turn into its neighbour now and then.
                    error = (got[name] - wanted).norm() / (wanted - init[name]).norm()
                    self.assertLess(error.item(), 2e-3, name)
                sent[ranks, nodes] = self.summary()["bytes_sent_per_step"]
        return sent

    def train(self, spec, ranks, nodes, optimizer, lr):
        self.succeed([*launcher_of(ranks, nodes), NUMERICS, "--model=mlp_small", f"--strategy={spec}", "--threads=1",
                      f"--init-from={self.folder / 'init.safetensors'}", f"--data-from={self.folder / 'data.safetensors'}",
                      f"--optimizer={optimizer}", f"--lr={lr}", f"--save-final={self.folder / 'final.safetensors'}",
                      "--summary-json=summary.json"])
        self.assertEqual(len(set(self.summary()["weights_sha256"])), 1, "ranks ended with different weights")
        return load_file(self.folder / "final.safetensors")

    def test_gradients(self):
        plain = self.simulate_and_train("gradient_allreduce", "bagua")
        compressed = self.simulate_and_train("bytegrad", "bagua:bytegrad")
        for (ranks, nodes), sent in compressed.items():
            if nodes == 1:  # inside a node nothing is compressed
                self.assertLessEqual(sent, 0.27 * plain[ranks, nodes])

    def test_weights(self):
        self.simulate_and_train("decentralized", "bagua:decentralized")
        self.simulate_and_train("shift_one", "bagua:decentralized,peer_selection_mode=shift_one", even=True)
        self.simulate_and_train("low_precision_decentralized", "bagua:low_precision_decentralized")

    def test_momentum(self):
        self.simulate_and_train("qadam", "bagua:qadam,warmup_steps=5", optimizer="adam", lr=0.001)


class NumericsOfMoreRanks(Numerics):
    shapes = ((3, 1), (4, 1), (4, 2))


class MnistTest(SystemTest):
    def command(self, strategy, *more, steps=20, ranks=2):
        return [*launcher_of(ranks), MNIST, f"--strategy={strategy}", "--epochs=3", f"--max-steps={steps}", "--limit-val-batches=2",
                "--limit-test-batches=1", "--limit-train-batches=8", "--threads=1", "--summary-json=summary.json", *more]

    def pieces_equal_one_piece(self, strategy, *pieces):
        with self.subTest(strategy=strategy):
            self.succeed(self.command(strategy))
            whole = self.summary()
            folder = self.folder / strategy
            for stop, more in pieces:
                self.succeed(self.command(strategy, f"--checkpoint-dir={folder}", "--resume=auto", *more, steps=stop))
            for key in ("weights_sha256", "steps", "metrics"):
                self.assertEqual(self.summary()[key], whole[key], key)


class Mnist(MnistTest):
    def test_async_goes_on_from_a_checkpoint_in_either_phase(self):
        strategy = "bagua:async,warmup_steps=6,sync_interval_ms=20"
        for stop in (4, 12, 20):
            self.succeed(self.command(strategy, f"--checkpoint-dir={self.folder / 'ckpt'}", "--resume=auto", steps=stop))
            self.assertEqual(len(set(self.summary()["weights_sha256"])), 1)

    def test_another_strategy_warns_of_state_left_out(self):
        folder = self.folder / "ckpt"
        self.succeed(self.command("bagua:qadam,warmup_steps=2", f"--checkpoint-dir={folder}", steps=4))
        result = self.succeed(self.command("ddp", f"--resume={folder}", steps=6))
        line = "The checkpoint holds state of strategy layer 'bagua', which does not run here: it is left out, also of checkpoints of this run"
        self.assertEqual(result.stderr.count(line), 1, str(result))


class MnistInFull(MnistTest):
    def test_every_algorithm_learns_and_ranks_end_equal(self):
        sent = {}
        for algorithm in ALGORITHMS:
            with self.subTest(algorithm=algorithm):
                options = {"qadam": ",warmup_steps=20", "async": ",sync_interval_ms=50"}.get(algorithm, "")  # of 112 steps
                self.succeed([*launcher_of(2), MNIST, f"--strategy=bagua:{algorithm}{options}", "--epochs=1", "--limit-val-batches=1", "--threads=1",
                              "--summary-json=summary.json"])
                summary = self.summary()
                self.assertGreaterEqual(summary["metrics"]["test_acc"], 0.94)
                self.assertEqual(summary["weights_sha256"][0], summary["weights_sha256"][1])
                self.assertEqual((summary["strategy"], summary["variant"]), ("bagua", algorithm))
                sent[algorithm] = summary["bytes_sent_per_step"]
                self.assertEqual(summary.get("rounds", 0) >= 2, algorithm == "async")
        self.assertEqual(sent["gradient_allreduce"], 215370 * 4)
        for algorithm in ("bytegrad", "low_precision_decentralized"):
            self.assertLessEqual(sent[algorithm], 0.26 * sent["gradient_allreduce"])

    def test_a_run_in_pieces_equals_one_in_one_piece(self):
        for strategy in ("bagua", "bagua:bytegrad"):  # which keep nothing from step to step
            self.pieces_equal_one_piece(strategy, (13, ["--accumulate-grad-batches=1"]), (20, []))
        for strategy in ("bagua:decentralized,communication_interval=2", "bagua:decentralized,peer_selection_mode=shift_one",
                         "bagua:low_precision_decentralized,communication_interval=3", "bagua:qadam,warmup_steps=9"):
            self.pieces_equal_one_piece(strategy, (5, []), (13, []), (20, []))

    def test_copies_of_neighbours_survive_other_buckets(self):
        strategy = "bagua:low_precision_decentralized,check_replicas_every=1"
        for stop, size in ((5, "64KiB"), (9, "1"), (20, "10MiB")):
            self.succeed(self.command(strategy, f"--checkpoint-dir={self.folder / 'ckpt'}", "--resume=auto", f"--bucket-size={size}",
                                      steps=stop))

    def test_another_number_of_ranks_is_refused_where_ranks_differ(self):
        self.succeed(self.command("bagua:low_precision_decentralized", f"--checkpoint-dir={self.folder / 'ckpt'}", steps=8))
        on_three = self.command("bagua:low_precision_decentralized", f"--resume={self.folder / 'ckpt'}", ranks=3)
        self.fail_with(2, on_three, "STATE 'left' of layer 'bagua'", "of each of 2 ranks")

    def test_another_number_of_ranks_begins_with_the_means(self):
        for strategy in ("bagua:decentralized,peer_selection_mode=shift_one", "bagua:async,sync_interval_ms=1"):
            with self.subTest(strategy=strategy):
                folder = self.folder / strategy
                self.succeed(self.command(strategy, f"--checkpoint-dir={folder}", steps=8))
                shared = load_file(folder / "step-00000008/shared.safetensors")
                own = [load_file(folder / f"step-00000008/rank-{rank}.safetensors") for rank in (0, 1)]
                for name in ("fc1.weight", "optimizer.exp_avg.fc1.weight"):
                    self.assertTrue(torch.equal(shared[name], (own[0][name] + own[1][name]) / 2), name)
                result = self.succeed(self.command(strategy, f"--resume={folder}", ranks=4))
                self.assertIn("The checkpoint of 2 ranks is gone on from by 4 ranks, which begin with the means over ranks "
                              "of what differed: weights, optimizer state", result.stderr)
                self.assertEqual((self.summary()["steps"], len(set(self.summary()["weights_sha256"]))), (20, 1))

    def test_async_ends_with_the_name_of_a_rank_that_dies(self):
        process = self.start([COHORT, "run", "-n", "3", MNIST, "--strategy=bagua:async,sync_interval_ms=20", "--threads=1",
                              "--log-dir=logs", *ENDLESS])
        self.wait_until_step(process, 20)
        os.kill(ranks_of(self.marker)[1], signal.SIGKILL)
        result = self.finish(process)
        self.assertEqual(result.code, 128 + signal.SIGKILL, str(result))
        self.assertIn("rank 1", result.stderr)


class BadInputTest(SystemTest):
    def refused(self, strategy, *texts, devices=2, more=()):
        data = self.folder / "data.safetensors"
        save_file({"x": torch.randn(2, devices, 4, 784), "y": torch.zeros(2, devices, 4, dtype=torch.int64)}, data)
        self.fail_with(2, [NUMERICS, "--model=mlp_small", f"--strategy={strategy}", f"--devices={devices}", f"--data-from={data}",
                           *more], *texts)


class BadInput(BadInputTest):
    def test_a_variant_that_cannot_run_says_why(self):
        self.refused("bagua:decentralized,peer_selection_mode=shift_one", "pairs ranks, and 3 is odd", devices=3)
        self.refused("bagua:qadam", "takes over Adam or AdamW", more=["--optimizer=sgd"])

    def test_what_is_not_finite_is_named_and_carried_to_all_ranks_alike(self):
        x = torch.randn(3, 2, 4, 784)
        x[1, 1] = math.inf
        save_file({"x": x, "y": torch.zeros(3, 2, 4, dtype=torch.int64)}, self.folder / "data.safetensors")
        for number, strategy in enumerate(("bagua:bytegrad", "bagua:qadam,warmup_steps=1")):
            with self.subTest(strategy=strategy):
                # Carried on, it makes the loss infinite, which ends the training.
                result = self.fail_with(1, [NUMERICS, "--model=mlp_small", f"--strategy={strategy}", "--devices=2",
                                            "--optimizer=adam", "--lr=0.01", f"--summary-json={number}.json",
                                            f"--data-from={self.folder / 'data.safetensors'}"])
                self.assertRegex(result.stderr, "rank 1: .*'fc1.weight' is NaN or infinite")
                digests = self.summary(f"{number}.json")["weights_sha256"]
                self.assertEqual((len(digests), len(set(digests))), (2, 1))


class BadInputInFull(BadInputTest):
    def test_each_is_one_sentence(self):
        self.refused("bagua:qadam,warmup_steps=0", "warmup_steps=1 or more", more=["--optimizer=adam"])
        self.refused("bagua:qadam", "cannot clip gradients", more=["--optimizer=adam", "--gradient-clip-val=1"])
        self.refused("bagua:bytegrad,warmup_steps=3", "belongs to qadam and async")
        for interval in ("0", "-1"):
            self.refused(f"bagua:decentralized,communication_interval={interval}", "communication_interval", interval)
            self.refused(f"bagua:async,sync_interval_ms={interval}", "sync_interval_ms", interval)
        for algorithm in ("decentralized", "async"):
            self.refused(f"bagua:{algorithm}", "the whole model in one bucket", "--bucket-size=65536 cannot hold it",
                         more=["--bucket-size=64KiB"])


if __name__ == "__main__":
    harness.main()
