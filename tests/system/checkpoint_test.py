"""Checkpoints of real ranks: a run that goes on equals one that was never stopped, bit by bit, whatever stopped it."""
import hashlib
import json
import os
import re
import shutil
import signal
import sys
import time

import numpy
from safetensors.numpy import load, load_file, save_file

import harness
from harness import BUILD, MNIST, NUMERICS, SystemTest, launcher_of
from rank_death_test import ranks_of

ROUNDS = int(os.environ.get("COHORT_SOAK_ROUNDS", "10"))
GROUP = 5  # rounds after which the weights are compared, and a new training begins
STEPS, ENDLESS = 30, 10**6
DRIFTING = BUILD / "tests/runtime/host/rank/cohort_drifting.so"


class CheckpointTest(SystemTest):
    strategy = "ddp"

    def setUp(self):
        super().setUp()
        self.checkpoints = self.folder / "ckpt"
        self.kills = 0

    def mnist(self, *more, ranks=2, steps=STEPS):
        # Epochs of twelve steps.
        return [*launcher_of(ranks), MNIST, "--strategy=" + (self.strategy if ranks > 1 else "single"), f"--max-steps={steps}",
                "--epochs=100000", "--limit-val-batches=2", "--limit-test-batches=1", "--limit-train-batches=12", "--threads=1",
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

    def go_on_in_pieces(self, ranks, pieces):
        """Pieces: the step after which each ends, and flags of its own."""
        log = ["--log-dir=logs", "--log-every-n-steps=5"]
        for folder in ("logs", "pieces"):  # of another number of ranks
            shutil.rmtree(self.folder / folder, ignore_errors=True)
        whole = self.uninterrupted(*log, ranks=ranks)
        table = (self.folder / "logs/version_0/metrics.csv").read_text().splitlines()
        for stop, more in (*pieces, (STEPS, [])):
            self.succeed(self.writing("--resume=auto", "--log-dir=pieces", *log[1:], *more, ranks=ranks, steps=stop))
        summary = self.summary()
        for key in ("weights_sha256", "steps", "epochs", "exit_reason", "metrics"):
            self.assertEqual(summary[key], whole[key], key)
        # A piece that ends within an epoch says what it has until then.
        within = {str(stop) for stop, _ in pieces if stop % 12 != 0}
        rows = (self.folder / "pieces/version_0/metrics.csv").read_text().splitlines()
        self.assertEqual([row for row in rows if row.split(",")[1] not in within], table)
        self.assertEqual(self.names(), ["step-00000024", "step-00000030"])

    def reaches(self, step):
        return any(name >= f"step-{step:08}" for name in self.names())

    def stop_with(self, number):
        process = self.start(self.writing("--checkpoint-every-n-steps=5", steps=ENDLESS))
        self.wait_until(lambda: self.reaches(5), "there is a checkpoint", process)
        os.kill(process.pid, number)
        result = self.finish(process)
        self.assertEqual(result.code, 128 + number, str(result))
        self.assertRegex(result.stderr, r"Last checkpoint: .*step-\d+")
        self.check_that_it_goes_on()

    def last_step(self):
        return max((self.manifest(name)["step"] for name in self.names() if name.startswith("step-")), default=0)

    def check_that_it_goes_on(self):
        """To the weights and metrics of a run that was not stopped, where runs can be repeated."""
        last = self.last_step()
        result = self.succeed(self.writing("--resume=auto", steps=last + 6))
        if last > 0:
            self.assertIn(f"step-{last:08}: step {last}, ", result.stderr)
        pieces = self.summary()
        if self.strategy == "ddp":
            whole = self.uninterrupted(steps=last + 6)
            for key in ("weights_sha256", "metrics", "steps"):
                self.assertEqual(pieces[key], whole[key], key)
        self.assertEqual((pieces["steps"], len(set(pieces["weights_sha256"]))), (last + 6, 1))
        self.check_files()
        self.assertEqual([name for name in self.names() if not re.fullmatch(r"step-\d{8}", name)], [])

    def check_files(self):
        """All that has the name of a checkpoint is one, to the last bit, and its numbers are finite."""
        for checkpoint in sorted(self.checkpoints.glob("step-*")):
            text = (checkpoint / "manifest.json").read_text()
            lines = text.splitlines(keepends=True)
            self.assertEqual(json.loads(text)["sha256"], hashlib.sha256("".join(lines[:-2]).encode()).hexdigest(), checkpoint)
            for name, file in json.loads(text)["files"].items():
                content = (checkpoint / name).read_bytes()
                self.assertEqual((len(content), hashlib.sha256(content).hexdigest()), (file["bytes"], file["sha256"]), checkpoint / name)
                for key, tensor in load(content).items():
                    self.assertTrue(numpy.isfinite(tensor).all(), f"{checkpoint / name}: {key}")

    def kill_at_any_moment(self, chance, rounds):
        for number in range(rounds):
            with self.subTest(strategy=self.strategy, round=number):
                if number > 0 and chance.random() < 0.15:
                    self.write_onto_a_full_disk(chance)
                else:
                    self.kill_once(chance)
                    self.kills += 1
                self.check_files()
        self.check_that_it_goes_on()

    def kill_once(self, chance):
        before = self.last_step()
        process = self.start(self.writing("--resume=auto", "--checkpoint-every-n-steps=1", steps=ENDLESS))
        seen = before + chance.choice((0, *range(1, 11)))
        if seen > before:
            self.wait_until(lambda: self.reaches(seen), f"step {seen} is written", process)
        # Any moment of a step, of writing or of the start.
        time.sleep(chance.uniform(0, 0.05 if seen > before else 1))
        ranks = ranks_of(self.marker) if chance.random() < 0.3 else {}
        victim = ranks.get(chance.randrange(2), process.pid)
        os.kill(victim, signal.SIGKILL)
        result = self.finish(process)
        self.assertEqual(result.code, -signal.SIGKILL if victim == process.pid else 128 + signal.SIGKILL, str(result))
        self.nothing_is_left_behind()
        self.assertNotIn("damaged", result.stderr)
        self.assertGreaterEqual(self.last_step(), seen, f"progress was lost: {self.names()}")

    def write_onto_a_full_disk(self, chance):
        # The limit stands for a full disk. It would stop shared memory, too; gloo has none, and the same bits.
        before = self.last_step()
        limited = ["bash", "-c", f'ulimit -f {chance.randrange(1, 2000)}; exec "$@"', "bash"]
        command = self.writing("--resume=auto", "--checkpoint-every-n-steps=1", "--collective=gloo", steps=before + 3)
        self.fail_with(2, [*limited, *command], "cannot write", "File too large")
        self.assertEqual(self.last_step(), before)

    def go_on_with(self, optimizer):
        data = self.folder / "data.safetensors"
        generator = numpy.random.default_rng(3)
        save_file({"x": generator.standard_normal((21, 2, 4, 784), numpy.float32), "y": generator.integers(0, 10, (21, 2, 4))}, data)

        def command(steps, *more):
            return [NUMERICS, "--model=mlp_small", "--devices=2", f"--data-from={data}", f"--optimizer={optimizer}", "--lr=0.01",
                    "--accumulate-grad-batches=4", f"--max-steps={steps}", "--threads=1", "--summary-json=summary.json", *more]
        self.succeed(command(6))
        whole = self.digests()
        for steps in (2, 5, 6):
            self.succeed(command(steps, f"--checkpoint-dir={optimizer}", "--resume=auto"))
        self.assertEqual(self.digests(), whole)


class Checkpoints(CheckpointTest):
    def test_a_run_in_pieces_equals_one_in_one_piece_on_two_ranks(self):
        # In the middle of an epoch, and at its end with other bucket sizes.
        self.go_on_in_pieces(2, [(7, []), (12, ["--bucket-size=64KiB"])])

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
        digest = hashlib.sha256()
        for name in ("conv1.weight", "conv1.bias", "conv2.weight", "conv2.bias", "fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias"):
            digest.update(shared[name].tobytes())
        self.assertEqual(self.digests(), [digest.hexdigest()] * 2)

    def test_ctrl_c_leaves_a_checkpoint_to_go_on_from(self):
        self.stop_with(signal.SIGINT)

    def test_a_kill_at_any_moment_leaves_the_last_good_one(self):
        self.kill_at_any_moment(self.chance(), 3)

    def test_two_jobs_on_one_folder_do_not_mix(self):
        first = self.start(self.writing("--checkpoint-every-n-steps=1", steps=ENDLESS))
        self.wait_until(lambda: self.reaches(3), "there are checkpoints", first)
        self.fail_with(2, self.writing("--resume=auto", steps=5), "another job (process ", f"writes checkpoints into '{self.checkpoints}'")
        first.kill()
        self.finish(first)
        self.nothing_is_left_behind()
        self.succeed(self.writing("--resume=auto", steps=self.last_step() + 1))
        self.check_files()

    def test_bad_folders_end_all_ranks_with_a_sentence(self):
        (self.folder / "file").write_text("x")
        self.fail_with(2, self.mnist("--checkpoint-dir=file"), f"cannot make the folder {self.folder}/file", "Not a directory")
        self.fail_with(2, self.mnist("--resume=nowhere", ranks=1), f"there is no checkpoint in '{self.folder}/nowhere'")
        self.succeed(self.writing(steps=1, ranks=1))
        self.fail_with(2, self.writing(ranks=1), "holds checkpoints of another training", "--resume=auto")

    def test_ranks_that_see_different_folders_are_told(self):
        # Ranks of two nodes without a shared file system: each has its own folder of that name.
        script = self.folder / "own_folder.sh"
        script.write_text('mkdir -p "node-$RANK" && cd "node-$RANK" && exec "$@"\n')
        command = [str(BUILD / "bin/cohort"), "run", "-n", "2", "bash", str(script),
                   MNIST, "--max-steps=3", "--epochs=1", "--limit-test-batches=1", "--threads=1", "--checkpoint-dir=ckpt"]
        self.fail_with(2, command, "is not the one that rank 0 writes into", "all nodes share")

    def test_ranks_may_find_the_same_checkpoints_under_several_names(self):
        self.succeed(self.writing(steps=2))
        script = self.folder / "own_folder.sh"
        script.write_text('cd "node-$RANK" && exec "$@"\n')
        for rank in "01":
            (self.folder / f"node-{rank}").mkdir()
            (self.folder / f"node-{rank}/ckpt").symlink_to(self.checkpoints)
        command = [str(BUILD / "bin/cohort"), "run", "-n", "2", "bash", str(script),
                   MNIST, "--max-steps=3", "--epochs=1", "--threads=1", "--limit-train-batches=12", "--limit-test-batches=1",
                   "--resume=ckpt"]
        self.succeed(command)
        (self.folder / "node-1/ckpt").unlink()
        shutil.copytree(self.checkpoints, self.folder / "node-1/ckpt")
        self.fail_with(2, command, "from which rank 0 goes on", "the same checkpoints")


class InFull(CheckpointTest):
    """More layouts, optimizers and ends."""

    def test_a_run_in_pieces_equals_one_in_one_piece_on_1_and_3_ranks(self):
        for ranks in (1, 3):
            with self.subTest(ranks=ranks):
                self.checkpoints = self.folder / f"ckpt-{ranks}"
                shutil.rmtree(self.folder / "pieces", ignore_errors=True)
                buckets = ["--bucket-size=64KiB"] if ranks > 1 else []
                self.go_on_in_pieces(ranks, [(7, []), (12, buckets), (17, [])])

    def test_accumulation_windows_and_other_optimizers_go_on_too(self):
        for optimizer in ("sgd_momentum", "adamw"):
            with self.subTest(optimizer=optimizer):
                self.go_on_with(optimizer)

    def test_sigterm_leaves_a_checkpoint_to_go_on_from(self):
        self.stop_with(signal.SIGTERM)

    def test_a_step_that_fails_leaves_a_checkpoint_to_go_on_from(self):
        program = [BUILD / "tests/dropout_program", "--deterministic", "--summary-json=summary.json", "--rescue=rescue", "--threads=1"]
        for flags in (["--strategy=single"], ["--strategy=dp", "--devices=2"],
                      ["--strategy=dp", "--devices=2", "--accumulate-grad-batches=3"]):
            with self.subTest(flags=flags):
                shutil.rmtree(self.folder / "rescue", ignore_errors=True)
                self.succeed([*program, *flags])
                whole = self.summary()
                self.fail_with(1, [*program, *flags, "--fail-at=75"], "the step is broken", "Checkpoint of the last complete step: ")
                self.succeed([*program, *flags, "--resume=rescue"])
                for what in ("weights_sha256", "metrics", "steps"):
                    self.assertEqual(self.summary()[what], whole[what])
        self.fail_with(2, [*program, "--strategy=ddp", "--devices=2"], "--checkpoint-every-n-steps")

    def test_folders_that_cannot_be_end_all_ranks_with_a_sentence(self):
        self.fail_with(2, self.mnist("--checkpoint-dir=/proc/none"), "/proc/none")
        self.fail_with(2, self.mnist("--resume=auto"), "--checkpoint-dir, which is not given")

    def test_ranks_that_differ_keep_their_own_weights_and_their_mean_is_shared(self):
        drifting = [f"--plugin={DRIFTING}", "--layer=drifting"]
        whole = self.uninterrupted(*drifting)
        self.assertNotEqual(*whole["weights_sha256"])
        self.succeed(self.writing(*drifting, steps=7))
        self.assertEqual(self.manifest("step-00000007")["per_rank"],
                         ["weights", "optimizer state", "STATE 'memory' of layer 'drifting'", "value 'steps' of layer 'drifting'"])
        shared, *own = (load_file(self.checkpoints / "step-00000007" / name)
                        for name in ("shared.safetensors", "rank-0.safetensors", "rank-1.safetensors"))
        for name in ("fc2.weight", "optimizer.exp_avg.fc1.weight"):
            self.assertFalse(numpy.array_equal(own[0][name], own[1][name]))
            self.assertTrue(numpy.array_equal(shared[name], (own[0][name] + own[1][name]) / 2), name)
        self.assertIn("cohort.state/drifting/memory/fc1.weight", own[1])
        self.fail_with(2, self.writing("--resume=auto", *drifting, ranks=3), "STATE 'memory' of layer 'drifting'", "of each of 2 ranks",
                       "resume with 2 ranks")
        self.succeed(self.writing("--resume=auto", *drifting))
        self.assertEqual(self.digests(), whole["weights_sha256"])

    def test_another_number_of_ranks_goes_on_from_the_end_of_an_epoch(self):
        self.succeed(self.writing("--max-epochs=1"))
        self.succeed(self.writing("--resume=auto", ranks=3, steps=20))
        self.assertEqual(self.summary()["steps"], 20)
        self.assertEqual(len(set(self.digests())), 1)

    def test_a_manifest_that_was_changed_is_passed_over(self):
        self.succeed(self.writing("--checkpoint-every-n-steps=4", steps=8, ranks=1))
        manifest = self.checkpoints / "step-00000008/manifest.json"
        manifest.write_text(manifest.read_text().replace('"lr": 0.001', '"lr": 0.005'))
        result = self.succeed(self.writing("--resume=auto", steps=8, ranks=1))
        self.assertIn("a damaged checkpoint is passed over: ", result.stderr)
        self.assertIn("step-00000008/manifest.json is not as it was written", result.stderr)
        self.assertIn("step-00000004: step 4", result.stderr)
        digests = self.digests()
        self.assertEqual(self.uninterrupted(steps=8, ranks=1)["weights_sha256"], digests)

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


class Soak(CheckpointTest):
    def test_kills_and_full_disks_at_any_moment_leave_the_last_good_one(self):
        chance = self.chance()
        for number, rounds in enumerate([GROUP] * (ROUNDS // GROUP) + [ROUNDS % GROUP] * (ROUNDS % GROUP > 0)):
            self.strategy = ("ddp", "bagua:async,warmup_steps=6,sync_interval_ms=20")[number % 2]
            self.kill_at_any_moment(chance, rounds)
            shutil.rmtree(self.checkpoints)
        print(f"{self.kills} kills, {ROUNDS - self.kills} full disks", file=sys.stderr)

    def test_a_forged_manifest_is_refused_in_a_sentence_or_trained_from(self):
        chance = self.chance()
        self.succeed(self.writing(steps=4, ranks=1))
        forged = self.folder / "forged"
        before = self.files_beside(forged)
        codes = []
        for number in range(ROUNDS):
            shutil.rmtree(forged, ignore_errors=True)
            shutil.copytree(self.checkpoints, forged)
            change = self.forge(forged / "step-00000004/manifest.json", chance)
            with self.subTest(round=number, change=change):
                command = self.mnist("--resume=auto", f"--checkpoint-dir={forged}", steps=6, ranks=chance.choice((1, 2)))
                result = self.run_program([word for word in command if not word.startswith("--summary-json")])
                codes.append(result.code)
                self.assertIn(result.code, (0, 1, 2), str(result))
                # A data file may differ from its forged length or checksum; the manifest's own checksum is right.
                self.assertNotIn("manifest.json is not as it was written", result.stderr)
                if result.code:
                    # Options that differ follow the error as an indented list.
                    sentence = [line for line in result.stderr.splitlines() if not line.startswith("  ")][-1]
                    self.assertRegex(sentence, r"^(rank \d+: )?error: .{20}", str(result))
                self.assertNotRegex(result.stderr, r"terminate called|c10::|\x1b\[31m", str(result))
                self.assertEqual(self.files_beside(forged), before)
        print(f"forged manifests: {codes.count(0)} trained from, {len(codes) - codes.count(0)} refused", file=sys.stderr)

    def files_beside(self, folder):
        return {path: path.read_bytes() for path in self.folder.rglob("*") if path.is_file() and folder not in path.parents}

    @staticmethod
    def forge(manifest, chance):
        """Replaces a value of the manifest, corrects its checksum, and returns the change."""
        content = json.loads(manifest.read_text())
        del content["sha256"]
        place, key = content, chance.choice(list(content))
        while isinstance(place[key], (dict, list)) and place[key] and chance.random() < 0.9:
            place = place[key]
            key = chance.choice(list(place) if isinstance(place, dict) else range(len(place)))
        change = f"{key}: {place[key]!r:.40} is "
        place[key] = chance.choice((0, -1, 2, 0.5, 1e300, 2**31, -2**63, 2**63, True, None, "", "../../x", "a\nb", "\x1b[31m", [], {}, [1]))
        lines = json.dumps(content, indent=1)[:-2] + ",\n"
        manifest.write_text(f'{lines} "sha256": "{hashlib.sha256(lines.encode()).hexdigest()}"\n}}\n')
        return change + repr(place[key])


if __name__ == "__main__":
    harness.main()
