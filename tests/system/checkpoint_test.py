"""Checkpoints of real ranks: a run that goes on equals one that was never stopped, bit by bit, whatever stopped it."""
import json
import os
import random
import signal
import subprocess
import time

import torch
from safetensors.torch import load_file, save_file

import harness
from harness import BUILD, MNIST, NUMERICS, SystemTest

ROUNDS = int(os.environ.get("COHORT_SOAK_ROUNDS", "20"))
STEPS = 30
DRIFTING = BUILD / "tests/runtime/host/rank/cohort_drifting.so"


class Checkpoints(SystemTest):
    def setUp(self):
        super().setUp()
        self.checkpoints = self.folder / "ckpt"

    def mnist(self, *more, ranks=2, steps=STEPS):
        # Three epochs of twelve steps.
        return [MNIST, f"--devices={ranks}", "--strategy=" + ("ddp" if ranks > 1 else "single"), "--epochs=3", f"--max-steps={steps}",
                "--limit-val-batches=2", "--limit-test-batches=1", "--limit-train-batches=12", "--threads=1",
                "--summary-json=summary.json", *more]

    def writing(self, *more, **options):
        return self.mnist(f"--checkpoint-dir={self.checkpoints}", *more, **options)

    def digests(self):
        return self.summary()["weights_sha256"]

    def names(self):
        return sorted(entry.name for entry in self.checkpoints.iterdir()) if self.checkpoints.exists() else []

    def manifest(self, name):
        return json.loads((self.checkpoints / name / "manifest.json").read_text())

    def uninterrupted(self, *more, **options):
        self.succeed(self.mnist(*more, **options))
        return self.summary()

    def test_a_run_in_pieces_equals_one_in_one_piece_on_1_2_and_3_ranks(self):
        for ranks in (1, 2, 3):
            with self.subTest(ranks=ranks):
                self.checkpoints = self.folder / f"ckpt-{ranks}"
                whole = self.uninterrupted(ranks=ranks)
                # In the middle of an epoch, at its end, and in the middle again with other bucket sizes.
                for stop, more in ((7, []), (12, ["--bucket-size=64KiB"] if ranks > 1 else []), (17, []), (STEPS, [])):
                    self.succeed(self.writing("--resume=auto", *more, ranks=ranks, steps=stop))
                pieces = self.summary()
                for key in ("weights_sha256", "steps", "epochs", "exit_reason", "metrics"):
                    self.assertEqual(pieces[key], whole[key], key)
                self.assertEqual(self.names(), ["step-00000024", "step-00000030"])

    def test_accumulation_windows_and_other_optimizers_go_on_too(self):
        data = self.folder / "data.safetensors"
        generator = torch.Generator().manual_seed(3)
        save_file({"x": torch.randn(21, 2, 4, 784, generator=generator),
                   "y": torch.randint(0, 10, (21, 2, 4), generator=generator)}, data)
        for optimizer in ("sgd_momentum", "adamw"):
            with self.subTest(optimizer=optimizer):
                def command(steps, *more):
                    return [NUMERICS, "--model=mlp_small", "--devices=2", f"--data-from={data}", f"--optimizer={optimizer}",
                            "--lr=0.01", "--accumulate-grad-batches=4", f"--max-steps={steps}", "--threads=1",
                            "--summary-json=summary.json", *more]
                self.succeed(command(6))
                whole = self.digests()
                folder = self.folder / optimizer
                for steps in (2, 5, 6):
                    self.succeed(command(steps, f"--checkpoint-dir={folder}", "--resume=auto"))
                self.assertEqual(self.digests(), whole)

    def test_python_reads_the_weights_and_the_optimizer(self):
        self.succeed(self.writing(steps=5))
        shared = load_file(self.checkpoints / "step-00000005/shared.safetensors")
        self.assertEqual(tuple(shared["fc2.weight"].shape), (10, 128))
        self.assertEqual(shared["optimizer.exp_avg.fc2.weight"].shape, shared["fc2.weight"].shape)
        self.assertEqual(shared["optimizer.step.fc2.bias"].item(), 5)
        manifest = self.manifest("step-00000005")
        self.assertEqual((manifest["world_size"], manifest["strategy"], manifest["per_rank"]), (2, "ddp", []))
        self.assertEqual(manifest["optimizers"][0]["groups"][0]["options"]["lr"], 1e-3)
        # All that training needs of the weights is there: their digest is the summary's.
        import hashlib
        digest = hashlib.sha256()
        for name in ("conv1.weight", "conv1.bias", "conv2.weight", "conv2.bias", "fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias"):
            digest.update(shared[name].numpy().tobytes())
        self.assertEqual(self.digests(), [digest.hexdigest()] * 2)

    def test_ranks_that_differ_keep_their_own_weights_and_their_mean_is_shared(self):
        drifting = [f"--plugin={DRIFTING}", "--layer=drifting"]
        whole = self.uninterrupted(*drifting)
        self.assertNotEqual(*whole["weights_sha256"])
        self.succeed(self.writing(*drifting, steps=7))
        self.assertEqual(self.manifest("step-00000007")["per_rank"], ["weights", "optimizer state", "strategy state"])
        shared, *own = (load_file(self.checkpoints / "step-00000007" / name)
                        for name in ("shared.safetensors", "rank-0.safetensors", "rank-1.safetensors"))
        for name in ("fc2.weight", "optimizer.exp_avg.fc1.weight"):
            self.assertFalse(torch.equal(own[0][name], own[1][name]))
            self.assertTrue(torch.equal(shared[name], (own[0][name] + own[1][name]) / 2), name)
        self.assertIn("cohort.state/drifting/memory/fc1.weight", own[1])
        self.fail_with(2, self.writing("--resume=auto", *drifting, ranks=3), "of each of 2 ranks", "resume with 2 ranks")
        self.succeed(self.writing("--resume=auto", *drifting))
        self.assertEqual(self.digests(), whole["weights_sha256"])

    def test_another_number_of_ranks_goes_on_from_the_end_of_an_epoch(self):
        self.succeed(self.writing("--max-epochs=1"))
        self.succeed(self.writing("--resume=auto", ranks=3, steps=20))
        self.assertEqual(self.summary()["steps"], 20)
        self.assertEqual(len(set(self.digests())), 1)
        self.fail_with(2, self.writing("--resume=auto", ranks=2), "in the middle of epoch 1 of 3 ranks", "resume with 3 ranks")

    def test_ctrl_c_and_sigterm_leave_a_checkpoint_to_go_on_from(self):
        whole = self.uninterrupted("--max-steps=36", "--max-epochs=3")
        for number in (signal.SIGINT, signal.SIGTERM):
            with self.subTest(signal=number):
                self.checkpoints = self.folder / f"ckpt-{number}"
                process = self.start(self.writing("--max-steps=36", "--checkpoint-every-n-steps=5"))
                while not any(name.startswith("step-") for name in self.names()) and process.poll() is None:
                    time.sleep(0.01)
                os.kill(process.pid, number)
                _, stderr = process.communicate(timeout=60)
                self.assertEqual(process.returncode, 128 + number, stderr)
                self.assertRegex(stderr, r"Last checkpoint: .*step-\d+")
                self.succeed(self.writing("--resume=auto", "--max-steps=36"))
                self.assertEqual(self.digests(), whole["weights_sha256"])
                self.assertEqual(self.summary()["metrics"], whole["metrics"])

    def test_a_kill_at_any_moment_leaves_the_last_good_one(self):
        random.seed(17)
        steps = 36
        whole = self.uninterrupted(steps=steps)
        last_step, kills = 0, 0
        for number in range(ROUNDS):
            process = self.start(self.writing("--resume=auto", "--checkpoint-every-n-steps=1", steps=steps))
            # Late enough that most rounds are in the middle of training, so of writing.
            deadline = time.monotonic() + random.uniform(0.6, 2.4)
            while time.monotonic() < deadline and process.poll() is None:
                time.sleep(0.01)
            if process.poll() is None:
                kills += 1
                process.kill()
            _, stderr = process.communicate(timeout=60)
            self.assertIn(process.returncode, (0, -signal.SIGKILL), stderr)
            self.nothing_is_left_behind()
            self.assertNotIn("damaged", stderr, f"round {number}")
            found = [name for name in self.names() if name.startswith("step-")]
            step = max((self.manifest(name)["step"] for name in found), default=0)
            self.assertGreaterEqual(step, last_step, f"round {number}: progress was lost: {self.names()}")
            last_step = step
            if step == steps:  # begin again, or nothing would be written any more
                self.assertEqual(self.run_to_the_end(steps), whole["weights_sha256"])
                subprocess.run(["rm", "-rf", self.checkpoints], check=True)
                last_step = 0
        self.assertEqual(self.run_to_the_end(steps), whole["weights_sha256"])
        self.assertGreater(kills, ROUNDS / 3)
        self.assertEqual([name for name in self.names() if not name.startswith("step-")], [])

    def run_to_the_end(self, steps):
        self.succeed(self.writing("--resume=auto", steps=steps))
        return self.digests()

    def test_bad_folders_end_all_ranks_with_a_sentence(self):
        (self.folder / "file").write_text("x")
        self.fail_with(2, self.mnist("--checkpoint-dir=file"), "cannot make the folder file", "Not a directory")
        self.fail_with(2, self.mnist("--checkpoint-dir=/proc/none"), "/proc/none")
        self.fail_with(2, self.mnist("--resume=nowhere"), "there is no checkpoint in 'nowhere'")
        self.fail_with(2, self.mnist("--resume=auto"), "--checkpoint-dir, which is not given")
        self.succeed(self.writing(steps=3))
        self.fail_with(2, self.writing(), "holds checkpoints of another training", "--resume=auto")

    def test_a_damaged_checkpoint_is_named_and_an_older_one_is_taken(self):
        self.succeed(self.writing("--checkpoint-every-n-steps=4", steps=8))
        self.assertEqual(self.names(), ["step-00000004", "step-00000008"])
        own = self.checkpoints / "step-00000008/rank-1.safetensors"
        own.write_bytes(own.read_bytes()[:-1] + b"\x77")
        self.fail_with(2, self.mnist(f"--resume={self.checkpoints}/step-00000008"), "rank 1: ", "rank-1.safetensors is not as it was written")
        result = self.succeed(self.writing("--resume=auto", steps=9))
        self.assertIn("a damaged checkpoint is passed over", result.stderr)
        self.assertIn("step-00000004: step 4", result.stderr)

    def test_a_full_disk_is_told_and_leaves_the_last_one(self):
        # One rank: the limit stands for a full disk, and would also stop shared memory.
        self.succeed(self.writing(steps=3, ranks=1))
        limited = ["bash", "-c", 'ulimit -f 500; exec "$@"', "bash"]
        self.fail_with(2, [*limited, *self.writing("--resume=auto", steps=6, ranks=1)], "cannot write", "File too large")
        self.assertEqual(self.names()[-1], "step-00000003")
        self.succeed(self.writing("--resume=auto", steps=6, ranks=1))
        self.assertEqual(self.names(), ["step-00000003", "step-00000006"])

    def test_ranks_that_see_different_folders_are_told(self):
        # Ranks of two nodes without a shared file system: each has its own folder of that name.
        script = self.folder / "own_folder.sh"
        script.write_text('mkdir -p "node-$RANK" && cd "node-$RANK" && exec "$@"\n')
        command = [str(BUILD / "bin/cohort"), "run", "-n", "2", "bash", str(script),
                   MNIST, "--max-steps=3", "--epochs=1", "--threads=1", "--checkpoint-dir=ckpt"]
        self.fail_with(2, command, "is not the one that rank 0 writes into", "all nodes share")

    def test_metrics_go_on_in_the_same_table(self):
        log = ["--log-dir=logs", "--log-every-n-steps=5"]
        self.succeed(self.mnist(*log))
        whole = (self.folder / "logs/metrics.csv").read_text()
        self.succeed(self.writing("--resume=auto", "--log-dir=pieces", "--log-every-n-steps=5", steps=12))
        self.succeed(self.writing("--resume=auto", "--log-dir=pieces", "--log-every-n-steps=5"))
        self.assertEqual((self.folder / "pieces/metrics.csv").read_text(), whole)


if __name__ == "__main__":
    harness.main(at_once=2)
