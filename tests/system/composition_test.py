"""Free layers over every strategy: one that only looks changes neither the weights nor what is sent."""
import re
import subprocess

import torch
from safetensors.torch import load_file, save_file

import harness
from harness import COHORT, NUMERICS, SOURCE, SystemTest, launcher_of
from numerics_test import MlpSmall

STEPS, BATCH, FEATURES, VALUES = 8, 4, 784, 784 * 32 + 32 + 32 * 10 + 10
LAYERS = SOURCE / "tests/support/plugins"
ON_NODES = [COHORT, "run", "--nnodes=2", "--nproc-per-node=1"]


class CompositionTest(SystemTest):
    def setUp(self):
        super().setUp()
        torch.manual_seed(0)
        weights = {name: p.detach().clone() for name, p in MlpSmall().named_parameters()}
        save_file(weights, self.folder / "init.safetensors")

    def compile(self, name, source, *defines):
        """Returns the flag that makes a plugin known."""
        path = self.folder / f"cohort_{name}.so"
        subprocess.run(["cc", "-shared", "-fPIC", f"-I{SOURCE}/plugin_api/include", *defines, source, "-o", path],
                       check=True)
        return f"--plugin={path}"

    def data(self, world):
        path = self.folder / f"data-{world}.safetensors"
        generator = torch.Generator().manual_seed(world)
        save_file({"x": torch.randn(STEPS, world, BATCH, FEATURES, generator=generator),
                   "y": torch.randint(0, 10, (STEPS, world, BATCH), generator=generator)}, path)
        return path

    def train(self, start, world, *flags, steps=STEPS):
        """Returns the weights, the summary and the log of each rank."""
        out, logs = self.folder / "final.safetensors", self.folder / f"logs-{len(list(self.folder.glob('logs-*')))}"
        self.succeed([*start, NUMERICS, "--model=mlp_small", "--threads=1", f"--data-from={self.data(world)}",
                      f"--init-from={self.folder / 'init.safetensors'}", f"--save-final={out}", f"--log-dir={logs}",
                      "--summary-json=summary.json", *flags])
        self.assertEqual(self.summary()["steps"], steps)
        return load_file(out), self.summary(), [(logs / f"rank-{rank}.log").read_text() for rank in range(world)]

    def same_bits(self, got, wanted):
        return all(torch.equal(tensor, wanted[name]) for name, tensor in got.items())

    def look_at(self, strategy, *flags, ranks=2, replicas=1, start=None, optimizer="sgd_momentum"):
        with self.subTest(strategy=strategy):
            watcher = [self.compile("watcher", LAYERS / "watcher.c"), "--layer=watcher"]
            start = launcher_of(ranks) if start is None else start
            flags = [f"--optimizer={optimizer}", "--lr=0.01", f"--strategy={strategy}", *flags]
            wanted, alone, _ = self.train(start, ranks, *flags)
            got, watched, logs = self.train(start, ranks, *flags, *watcher)
            self.assertEqual(watched["layers"], [*alone["layers"], "watcher"])
            self.assertEqual((alone["world_size"], alone["replicas"]), (ranks, replicas))
            for log in logs:
                seen = re.findall(r"watcher: (\d+) buckets, (\d+) values, (\d+) of them not zero", log)
                self.assertEqual(len(seen), 1, log)
                buckets, values, nonzero = map(int, seen[0])
                self.assertGreaterEqual(buckets, STEPS)
                self.assertGreaterEqual(values, STEPS * VALUES)
                self.assertGreater(nonzero, STEPS * VALUES // 10)
            self.assertTrue(self.same_bits(got, wanted), "the weights are others")
            self.assertFalse(self.same_bits(got, load_file(self.folder / "init.safetensors")), "nothing was trained")
            self.assertEqual(watched["bytes_sent_per_step"], alone["bytes_sent_per_step"])
            self.assertEqual(alone["bytes_sent_per_step"] > 0, ranks > 1)


class Watched(CompositionTest):
    def test_averages_of_gradients(self):
        self.look_at("ddp")
        self.look_at("sharded")

    def test_ranks_that_average_weights(self):
        """Their gradients are communicated for nobody, also if a layer looks at them."""
        self.look_at("bagua:decentralized")
        diloco = self.compile("diloco", SOURCE / "examples/plugins/diloco/diloco.c")
        self.look_at("diloco,every=3", diloco)

    def test_replicas(self):
        self.look_at("dp", "--devices=2", ranks=1, replicas=2)


class Losses(CompositionTest):
    def losses(self, ranks, *flags, optimizer="sgd", steps=STEPS):
        """Returns the loss of the first step and that of the last one, of each rank, as a layer reads them."""
        watcher = [self.compile("watcher", LAYERS / "watcher.c"), "--layer=watcher"]
        logs = self.train(launcher_of(ranks), ranks, f"--optimizer={optimizer}", "--lr=0.01", *flags, *watcher, steps=steps)[2]
        return [tuple(map(float, re.search(r"losses (\S+) to (\S+)", log).groups())) for log in logs]

    def expected(self, world, rank, batches=1):
        """Returns the mean loss of the first batches at the initial weights."""
        model = MlpSmall()
        model.load_state_dict(load_file(self.folder / "init.safetensors"))
        data = load_file(self.data(world))
        losses = [torch.nn.functional.cross_entropy(model(data["x"][i, rank], 0), data["y"][i, rank]) for i in range(batches)]
        return torch.stack(losses).mean().item()

    def check(self, *flags, ranks=2, batches=1, digits=5):
        with self.subTest(flags=flags):
            for rank, (first, last) in enumerate(self.losses(ranks, *flags, steps=STEPS // batches)):
                self.assertAlmostEqual(first, self.expected(ranks, rank, batches), digits)
                self.assertNotEqual(first, last)

    def test_ranks(self):
        self.check("--strategy=ddp")
        self.check("--strategy=bagua:decentralized")

    def test_replicas(self):
        self.check("--strategy=dp", "--devices=2", ranks=1)

    def test_accumulation(self):
        self.check("--strategy=ddp", "--accumulate-grad-batches=4", batches=4)

    def test_a_loss_scale_is_left_out(self):
        self.check("--strategy=ddp", "--precision=16-mixed", digits=2)

    def test_a_closure(self):
        """The last evaluation of a step is shown, whose loss is below the first one's."""
        for rank, (first, last) in enumerate(self.losses(2, "--strategy=ddp", optimizer="lbfgs")):
            self.assertTrue(0 < first < self.expected(2, rank), first)
            self.assertNotEqual(first, last)


class Factors(CompositionTest):
    def layer(self, name, factor):
        return [self.compile(name, LAYERS / "lr_factor.c", f'-DNAME="{name}"'), f"--layer={name},factor={factor}"]

    def weights(self, lr, *flags):
        return self.train(launcher_of(2), 2, "--strategy=ddp", "--optimizer=sgd", f"--lr={lr}", *flags)[0]

    def test_factors_of_two_layers_are_multiplied(self):
        twice, half = self.layer("twice", 2.0), self.layer("half", 0.5)
        plain, doubled = self.weights(0.01), self.weights(0.01, *twice)
        self.assertTrue(self.same_bits(self.weights(0.01, *twice, *half), plain), "2 x 0.5 is not 1")
        self.assertTrue(self.same_bits(doubled, self.weights(0.02)), "2 x 0.01 is not 0.02")
        self.assertFalse(self.same_bits(doubled, plain), "a factor changes nothing")


class InFull(CompositionTest):
    def test_one_process(self):
        self.look_at("single", ranks=1)

    def test_nodes_of_replicas(self):
        self.look_at("ddp2", "--devices=2", replicas=2, start=ON_NODES)

    def test_forks(self):
        self.look_at("ddp_spawn", "--devices=2", start=[])

    def test_horovod(self):
        self.look_at("horovod")
        self.look_at("horovod,op=adasum")

    def test_bagua(self):
        for algorithm in ("gradient_allreduce", "bytegrad", "low_precision_decentralized"):
            self.look_at(f"bagua:{algorithm}")
        self.look_at("bagua:qadam,warmup_steps=3", optimizer="adam")
        # After its warm-up ranks average when the clock says so: no two runs are alike.
        self.look_at(f"bagua:async,warmup_steps={2 * STEPS}")

    def test_small_buckets(self):
        for strategy in ("ddp", "sharded", "bagua:bytegrad"):
            self.look_at(strategy, "--bucket-size=4096")


if __name__ == "__main__":
    harness.main()
