"""sharded on real ranks: the weights of ddp with a part of the optimizer's memory, and checkpoints that both go on from."""
import shutil

import numpy
from safetensors.numpy import load_file, save_file

import harness
from checkpoint_test import CheckpointTest
from harness import NUMERICS, SystemTest, launcher_of

STEPS = 50
SIZES = {"linear32": 32, "odd": 32, "adversarial": 32, "adversarial_by_hand": 32, "mlp_small": 784}


def state_in(file):
    """State of the optimizers in a file of a checkpoint, by name."""
    return {name: tensor for name, tensor in load_file(file).items() if name.startswith("optimizer.")}


def bytes_of(tensors):
    return sum(tensor.nbytes for tensor in tensors.values())


class ShardedTest(SystemTest):
    def make_data(self, model, world, steps=STEPS):
        data = self.folder / f"{model}-{world}.safetensors"
        generator = numpy.random.default_rng(5)
        if model == "gpt_mini":
            x = generator.integers(0, 65, (steps, world, 2, 64))
            y = numpy.roll(x, -1, -1)
        else:
            x = generator.standard_normal((steps, world, 3, SIZES[model]), numpy.float32)
            y = generator.integers(0, 10, (steps, world, 3))
        save_file({"x": x, "y": y}, data)
        return data

    def train(self, strategy, model, world, data, *more, nodes=1):
        out = self.folder / f"{strategy}.safetensors"
        self.succeed([*launcher_of(world, nodes), NUMERICS, f"--model={model}", f"--strategy={strategy}", f"--data-from={data}",
                      f"--save-final={out}", "--summary-json=summary.json", "--threads=1", *more])
        summary = self.summary()
        self.assertEqual((summary["strategy"], summary["world_size"]), (strategy, world))
        self.assertEqual(len(set(summary["weights_sha256"])), 1, "ranks ended with different weights")
        return load_file(out)

    def compare_with_ddp(self, model, world, *more, steps=STEPS, nodes=1):
        """In float64, to 1e-12."""
        with self.subTest(model=model, world=world, flags=more):
            data = self.make_data(model, world, steps)
            optimizer = [] if any(flag.startswith("--optimizer") for flag in more) else ["--optimizer=adamw"]
            flags = ["--dtype=float64", *optimizer, "--lr=0.01", *more]
            wanted, got = (self.train(strategy, model, world, data, *flags, nodes=nodes) for strategy in ("ddp", "sharded"))
            for name, tensor in wanted.items():
                difference = numpy.linalg.norm(got[name] - tensor) / max(numpy.linalg.norm(tensor), 1e-12)
                self.assertLessEqual(difference, 1e-12, name)

    def check_memory(self, world):
        data = self.make_data("gpt_mini", world, 2)
        kept = {}
        for strategy in ("ddp", "sharded"):
            self.train(strategy, "gpt_mini", world, data, "--optimizer=adamw", f"--checkpoint-dir={strategy}-{world}")
            folder = self.folder / f"{strategy}-{world}/step-00000002"
            kept[strategy] = [state_in(file) for file in sorted(folder.glob("optimizer-*")) or [folder / "shared.safetensors"]]
        whole = bytes_of(kept["ddp"][0])
        self.assertGreater(whole, 2 * 818_176 * 4)
        self.assertEqual(len(kept["sharded"]), world)
        self.assertEqual(sum(map(bytes_of, kept["sharded"])), whole)
        for state in kept["sharded"]:
            self.assertLessEqual(bytes_of(state), 1.1 / world * whole)


class Sharded(ShardedTest):
    def test_float64_equals_ddp_to_1e_12_over_50_steps(self):
        self.compare_with_ddp("odd", 3)  # frozen and unused parameters
        self.compare_with_ddp("odd", 2, "--gradient-clip-val=0.05", "--accumulate-grad-batches=3")
        self.compare_with_ddp("adversarial", 2)  # two optimizers

    def test_each_rank_keeps_its_part_of_the_optimizers_state(self):
        self.check_memory(2)

    def test_what_it_cannot_do_is_refused(self):
        self.fail_with(2, [NUMERICS, "--strategy=sharded,level=3", "--devices=2"], "'level'", "sharded")


class InFull(ShardedTest):
    def test_float64_equals_ddp_to_1e_12_over_50_steps(self):
        self.compare_with_ddp("mlp_small", 1)
        # On two ranks or four in turn: the strategy suite compares every number of them.
        self.compare_with_ddp("mlp_small", 4, "--optimizer=sgd_momentum")
        self.compare_with_ddp("mlp_small", 2, "--gradient-clip-val=0.5")
        self.compare_with_ddp("linear32", 2, "--optimizer=adam", "--gradient-clip-val=0.01", "--gradient-clip-algorithm=value")
        self.compare_with_ddp("adversarial", 4, "--optimizer=sgd_momentum", "--gradient-clip-val=0.1")
        self.compare_with_ddp("adversarial_by_hand", 2)
        self.compare_with_ddp("odd", 4, "--bucket-size=128")
        self.compare_with_ddp("mlp_small", 2, "--collective=gloo")
        self.compare_with_ddp("mlp_small", 4, "--collective=sim,over=shm,bandwidth=10Gbit,latency=1us", nodes=2)
        self.compare_with_ddp("gpt_mini", 2, steps=8)

    def test_each_of_four_ranks_keeps_its_part_of_the_optimizers_state(self):
        self.check_memory(4)


class ShardedCheckpoints(CheckpointTest):
    def go_on(self, start, strategy, ranks, steps):
        """Goes on from a copy of a folder of checkpoints, and returns the copy and the weights at the end."""
        folder = self.folder / f"{start.name}-{strategy}-{ranks}"
        shutil.copytree(start, folder)
        self.strategy, self.checkpoints = strategy, folder
        self.succeed(self.writing("--resume=auto", ranks=ranks, steps=steps))
        self.assertEqual(self.summary()["steps"], steps)
        self.assertEqual(len(set(self.digests())), 1)
        return folder, self.digests()[0]

    def test_ddp_and_sharded_go_on_from_each_other_on_other_numbers_of_ranks(self):
        starts = {}
        for strategy in ("ddp", "sharded"):
            self.strategy, self.checkpoints = strategy, self.folder / strategy
            self.succeed(self.writing("--max-epochs=1"))
            starts[strategy] = self.checkpoints
        self.check_parts(starts["sharded"] / "step-00000012", starts["ddp"] / "step-00000012")
        ends = {(start, strategy): self.go_on(folder, strategy, 3, 24)
                for start, folder in starts.items() for strategy in ("ddp", "sharded")}
        self.assertEqual(len({weights for _, weights in ends.values()}), 1, "on three ranks they end with different weights")
        back = [self.go_on(ends[start, "sharded"][0], strategy, 2, 30)[1] for start, strategy in (("ddp", "ddp"), ("sharded", "sharded"))]
        back.append(self.go_on(ends["sharded", "ddp"][0], "sharded", 2, 30)[1])
        self.assertEqual(len(set(back)), 1, "back on two ranks they end with different weights")

    def check_parts(self, sharded, ddp):
        """Each piece of state is in one file, with the bits that all ranks of ddp have."""
        parts = [state_in(sharded / f"optimizer-{rank}.safetensors") for rank in range(2)]
        whole = state_in(ddp / "shared.safetensors")
        self.assertTrue(whole)
        self.assertEqual(state_in(sharded / "shared.safetensors"), {})
        self.assertEqual(sorted([*parts[0], *parts[1]]), sorted(whole))
        for name, tensor in {**parts[0], **parts[1]}.items():
            self.assertTrue(numpy.array_equal(tensor, whole[name]), name)

    def test_a_run_in_pieces_equals_one_in_one_piece(self):
        self.strategy = "sharded"
        self.go_on_in_pieces(2, [(7, []), (12, ["--bucket-size=64KiB"])])

    def test_a_damaged_part_of_the_state_is_named(self):
        self.strategy = "sharded"
        self.succeed(self.writing("--checkpoint-every-n-steps=4", steps=8))
        part = self.checkpoints / "step-00000008/optimizer-1.safetensors"
        part.write_bytes(part.read_bytes()[:-1] + b"\x77")
        self.fail_with(2, self.mnist(f"--resume={self.checkpoints}/step-00000008"), "optimizer-1.safetensors is not as it was written")
        self.assertIn("step-00000004: step 4", self.succeed(self.writing("--resume=auto", steps=9)).stderr)


if __name__ == "__main__":
    harness.main()
