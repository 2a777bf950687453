"""--uneven=join: ranks with different numbers of batches train as a plain loop does that averages over those that have one; also
when they are killed, stopped and resumed where some have run out."""
import json
import shutil
import signal

import torch
from safetensors.torch import load_file

import harness
from harness import BUILD, COHORT, FAKE_DEVICE, SystemTest, kill, processes_marked

PROGRAM = str(BUILD / "tests/uneven_program")
SIGTERM_CODE, USER = 128 + signal.SIGTERM, 2
LR = 0.05


def numbers(shape, shift):
    count = torch.Size(shape).numel()
    return torch.sin(torch.arange(count, dtype=torch.float64) * 0.37 + shift).view(shape)


def batch_of(source, rank, batch, epoch, ranks):
    if source == "sampler":
        first = 100 * rank + 2 * batch
        return numbers([100 * ranks, 6], 0)[first:first + 2]
    return numbers([2 + (rank + batch) % 2, 6], 1.7 * rank + 0.9 * batch + 0.31 * epoch)


class Net(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.fc1, self.fc2, self.extra = torch.nn.Linear(6, width), torch.nn.Linear(width, 1), torch.nn.Linear(6, 1)
        self.double()
        for shift, parameter in enumerate(self.parameters()):
            parameter.data = 0.3 * numbers(parameter.shape, shift)

    def output(self, x, rank, batch, phase):
        out = self.fc2(torch.tanh(self.fc1(x)))
        return out + self.extra(x) if rank == 1 and batch % 2 == 1 and phase == 0 else out


class Reference:
    """The definition: in each step the mean over the ranks that have a batch of the means over their windows."""

    def __init__(self, batches, source="stream", model="plain", optimizer="adam", accumulate=1, clip=None, ema=None, width=5):
        self.batches, self.source, self.accumulate, self.clip, self.ema = batches, source, accumulate, clip, ema
        self.net, self.initial, self.steps, self.losses = Net(width), dict(Net(width).named_parameters()), 0, []
        self.average = []
        if model == "pair":
            body = [*self.net.fc1.parameters(), *self.net.extra.parameters()]
            self.optimizers = [torch.optim.SGD(body, LR, momentum=0.9), torch.optim.Adam(self.net.fc2.parameters(), LR)]
        else:
            self.optimizers = [{"adam": torch.optim.Adam, "sgd": torch.optim.SGD}[optimizer](self.net.parameters(), LR)]

    def gradients(self, windows, phase, parameters, epoch, chosen):
        """The sum of the shares of these micro-batches; None for a parameter that none of them uses."""
        sums = [None] * len(parameters)
        for rank, window in windows.items():
            for batch in chosen(window):
                x = batch_of(self.source, rank, batch, epoch, len(self.batches))
                out, wanted = self.net.output(x, rank, batch, phase), x.sum(1, keepdim=True) + phase
                loss = (out - wanted).square().mean()
                if phase == 0:
                    self.losses.append((loss.item(), len(x)))
                own = torch.autograd.grad(loss, parameters, allow_unused=True)
                scale = 1 / (len(windows) * len(window))
                for i, gradient in enumerate(own):
                    if gradient is not None:
                        sums[i] = gradient * scale if sums[i] is None else sums[i] + gradient * scale
        return sums

    def step(self, windows, epoch):
        phases = [[p for group in optimizer.param_groups for p in group["params"]] for optimizer in self.optimizers]
        earlier = [self.gradients(windows, phase, parameters, epoch, lambda window: window[:-1])
                   for phase, parameters in enumerate(phases)]
        for phase, (optimizer, parameters) in enumerate(zip(self.optimizers, phases)):
            last = self.gradients(windows, phase, parameters, epoch, lambda window: window[-1:])
            for parameter, a, b in zip(parameters, earlier[phase], last):
                parameter.grad = a if b is None else b if a is None else a + b
            if self.clip:
                torch.nn.utils.clip_grad_norm_(parameters, self.clip)
            optimizer.step()
        self.steps += 1
        if self.ema and not self.average:  # begins with the weights after the first step
            self.average = [p.detach().clone() for p in self.net.parameters()]
        elif self.ema:
            for average, parameter in zip(self.average, self.net.parameters()):
                average.lerp_(parameter.detach(), 1 - self.ema)

    def train(self, epochs=2, max_steps=None):
        for epoch in range(epochs):
            self.losses = []
            for first in range(0, max(self.batches), self.accumulate):
                if self.steps == max_steps:
                    return self
                windows = {rank: range(first, min(first + self.accumulate, count))
                           for rank, count in enumerate(self.batches) if count > first}
                self.step(windows, epoch)
        return self

    def mean_loss(self):
        return sum(loss * rows for loss, rows in self.losses) / sum(rows for _, rows in self.losses)

    def weights(self):
        values = self.average if self.ema else [p.detach() for p in self.net.parameters()]
        return {name: value for (name, _), value in zip(self.net.named_parameters(), values)}


class UnevenTest(SystemTest):
    def command(self, batches, *flags, launcher=(), uneven="join"):
        devices = [] if launcher else [f"--devices={len(batches)}"]
        return [*launcher, PROGRAM, f"--batches={','.join(map(str, batches))}", f"--uneven={uneven}", "--threads=1",
                "--summary-json=summary.json", *devices, *flags]

    def notes(self, rank):
        return (self.folder / f"notes-{rank}").read_text().splitlines()

    def compare(self, batches, *flags, launcher=(), tolerance=1e-12, reference=None):
        """Trains, and compares weights, epoch means and steps with the plain loop."""
        with self.subTest(batches=batches, flags=flags):
            self.succeed(self.command(batches, *flags, launcher=launcher))
            reference = reference or Reference(batches).train()
            self.assertEqual(self.summary()["steps"], reference.steps)
            self.assertEqual(len(set(self.summary()["weights_sha256"])), 1, "ranks ended with different weights")
            got = load_file(self.folder / "final.safetensors")
            for name, wanted in reference.weights().items():
                way = (wanted - reference.initial[name]).norm().item()
                self.assertLessEqual((got[name] - wanted).norm().item(), tolerance * max(way, 1e-3), name)
            for name in ("loss", "mse"):
                self.assertAlmostEqual(self.summary()["metrics"][name], reference.mean_loss(), delta=100 * tolerance, msg=name)

    def stop_and_compare(self, stop, batches, *flags):
        """A training that is stopped where some ranks have run out, and resumed, ends as one that was left alone."""
        def training(folder, *more):
            shutil.rmtree(self.folder / folder, ignore_errors=True)
            (self.folder / folder).mkdir()
            return self.command(batches, "--model=dropout", f"--folder={folder}", f"--log-dir={folder}/logs",
                                f"--checkpoint-dir={folder}/ckpt", "--checkpoint-every-n-steps=5", *flags, *more)

        self.succeed(training("whole"))
        expected = self.summary()
        stop(training("stopped"))
        shutil.rmtree(self.folder / "earlier", ignore_errors=True)
        (self.folder / "stopped").rename(self.folder / "earlier")
        self.succeed([*training("stopped"), f"--resume={self.folder / 'earlier/ckpt'}"])
        for key in ("weights_sha256", "metrics", "steps", "epochs", "exit_reason"):
            self.assertEqual(self.summary()[key], expected[key], key)

    def stop_by_signal(self, sent):
        def stop(command):
            process = self.start([*command, "--step-ms=30"])
            checkpoints = self.folder / "stopped/ckpt"
            self.wait_until(lambda: any(path.name >= "step-00000010" for path in checkpoints.glob("step-*")),
                            "there is a checkpoint of the uneven part", process)
            if sent == signal.SIGKILL:
                kill([process.pid, *processes_marked(self.marker)])
            else:
                process.send_signal(sent)
            result = self.finish(process)
            if sent == signal.SIGTERM:
                self.assertEqual(result.code, SIGTERM_CODE, str(result))
        return stop

    def stop_by_limit(self, command):
        self.succeed([*command, "--max-steps=8"])

    def check_refused(self, command, *texts):
        result = self.fail_with(USER, command, *texts)
        self.assertRegex(result.stderr, r"(?m)^error: [^\n]*; [^\n]*$")
        self.assertEqual(list(self.folder.glob("notes-*")), [], "a batch was begun")


class Uneven(UnevenTest):
    def test_weights_are_those_of_the_mean_over_the_ranks_with_a_batch(self):
        self.compare([4, 7])

    def test_a_run_in_two_pieces_equals_one_in_one_piece(self):
        self.stop_and_compare(self.stop_by_limit, [5, 12], "--max-epochs=1")

    def test_what_cannot_be_is_refused_before_the_first_step(self):
        self.check_refused(self.command([2, 3], "--strategy=bagua:decentralized"),
                           "strategy 'bagua:decentralized' cannot go on with ranks that have no batch left: a rank without data")


class InFull(UnevenTest):
    def test_every_strategy_and_wire(self):
        for wire in ("shm", "gloo"):
            for strategy in ("ddp", "sharded", "bagua"):
                for batches in ([7, 3], [2, 6, 4]):
                    self.compare(batches, f"--strategy={strategy}", f"--collective={wire}")
            for ranks, batches in ((2, [3, 6]), (3, [5, 1, 3])):
                self.compare(batches, "--strategy=horovod,scale_lr=false", f"--collective={wire}",
                             launcher=[COHORT, "run", "-np", ranks])
            for batches in ([7, 3], [2, 6, 4]):
                self.compare(batches, "--strategy=bagua:bytegrad", f"--collective={wire}", "--dtype=float32", "--optimizer=sgd",
                             tolerance=0.05, reference=Reference(batches, optimizer="sgd").train())
        self.compare([3, 6], "--strategy=ddp_spawn")
        self.compare([4, 6], "--strategy=ddp2", launcher=[COHORT, "run", "--nnodes=2", "--nproc-per-node=1"])

    def test_gradients_in_the_memory_of_the_collective(self):
        for wire in ("shm", "gloo"):
            self.compare([2, 4, 3], "--width=40000", f"--collective={wire}", reference=Reference([2, 4, 3], width=40000).train())

    def test_one_rank_has_all_batches(self):
        self.compare([0, 4])
        self.compare([4, 0, 0])

    def test_several_optimizers_windows_and_limits(self):
        def check(batches, *flags, epochs=2, max_steps=None, **what):
            self.compare(batches, *flags, reference=Reference(batches, **what).train(epochs, max_steps))

        for batches in ([7, 3], [4, 10, 5]):
            check(batches, "--accumulate-grad-batches=4", accumulate=4)
            check(batches, "--model=pair", model="pair")
            check(batches, "--model=pair", "--accumulate-grad-batches=3", "--gradient-clip-val=0.1",
                  model="pair", accumulate=3, clip=0.1)
            check(batches, "--source=sampler", source="sampler")
        check([7, 3], "--gradient-clip-val=0.05", "--strategy=sharded", clip=0.05)
        check([7, 3], "--ema=0.9", ema=0.9)
        check([5, 9], "--max-steps=12", max_steps=12)

    def test_limited_epochs_are_shorter(self):
        self.compare([3, 9], "--limit-train-batches=5", reference=Reference([3, 5]).train())
        self.compare([3, 9], "--overfit-batches=4", reference=Reference([3, 4]).train())

    def test_bits_are_those_of_stop_while_all_ranks_have_a_batch(self):
        self.succeed(self.command([5, 5]))
        joined = self.summary()["weights_sha256"]
        self.succeed(self.command([5, 5], uneven="stop"))
        self.assertEqual(self.summary()["weights_sha256"], joined)

    def test_a_device_has_the_bits_of_the_cpu(self):
        for batches in ([2, 5], [5, 2]):
            digests = set()
            for device in (FAKE_DEVICE, ["--accelerator=cpu"]):
                self.succeed(self.command(batches, "--accumulate-grad-batches=2", *device))
                digests.update(self.summary()["weights_sha256"])
            self.assertEqual(len(digests), 1, batches)

    def test_hooks_of_a_batch_are_called_where_there_is_one(self):
        self.succeed(self.command([6, 3], "--max-epochs=1", "--val-check-interval=2"))
        for rank, batches in enumerate((6, 3)):
            notes = self.notes(rank)
            self.assertEqual([n for n in notes if n.startswith("batch")], [f"batch {i}" for i in range(batches)])
            self.assertEqual([n for n in notes if n.startswith("val")], [f"validation after {step}" for step in (0, 2, 4, 6)])
            self.assertEqual([n[-3:].strip() for n in notes if n.startswith("gradient")], ["no", "yes", "no", "no", "no", "no"])

    def test_a_fraction_of_the_epoch_is_that_of_the_longest(self):
        self.succeed(self.command([4, 8], "--max-epochs=1", "--val-check-interval=0.5", "--source=sampler"))
        for rank in range(2):
            self.assertEqual([n for n in self.notes(rank) if n.startswith("val")], ["validation after 0", "validation after 4", "validation after 8"])

    def test_early_stopping_ends_all_ranks(self):
        self.succeed(self.command([2, 5], "--max-epochs=9", "--early-stopping=val,patience=1,min_delta=1000"))
        self.assertEqual(self.summary()["exit_reason"], "early_stopping")
        self.assertEqual(self.summary()["steps"], 10)

    def test_lines_of_a_first_rank_without_a_batch(self):
        self.succeed(self.command([2, 5], "--max-epochs=1", "--log-dir=logs", "--logger=csv", "--logger=json"))
        names, *rows = (line.split(",") for line in (self.folder / "logs/version_0/metrics.csv").read_text().splitlines())
        steps = [int(row[names.index("step")]) for row in rows if row[names.index("loss_step")]]
        self.assertEqual(steps, [1, 2])
        for line in (self.folder / "logs/version_0/metrics.jsonl").read_text().splitlines():
            json.loads(line)

    def test_streams_samplers_and_kills_change_nothing(self):
        stops = (self.stop_by_signal(signal.SIGKILL), self.stop_by_signal(signal.SIGTERM), self.stop_by_limit)
        for i, batches in enumerate(([4, 30], [30, 4], [9, 4, 30])):
            for j, source in enumerate(("stream", "kept", "sampler")):
                with self.subTest(batches=batches, source=source):
                    self.stop_and_compare(stops[(i + j) % 3], batches, f"--source={source}", "--max-epochs=1")
        for flags in (["--strategy=sharded"], ["--strategy=ddp_spawn"], ["--strategy=bagua:bytegrad", "--dtype=float32"],
                      ["--accumulate-grad-batches=2"], ["--val-check-interval=2"], ["--ema=0.9"]):
            with self.subTest(flags=flags):
                self.stop_and_compare(self.stop_by_signal(signal.SIGKILL), [4, 40], *flags, "--max-epochs=1")

    def test_each_refusal_is_one_sentence(self):
        for variant, why in {"decentralized": "old weights", "low_precision_decentralized": "old weights", "async": "old weights",
                             "qadam": "averages momenta", "bytegrad,average=false": "only an average"}.items():
            self.check_refused(self.command([2, 3], f"--strategy=bagua:{variant}"), "no batch left", why)
        for op in ("sum", "adasum"):
            self.check_refused(self.command([2, 3], f"--strategy=horovod,op={op}", launcher=[COHORT, "run", "-np", "2"]),
                               "no batch left", "choose op=average")
        self.check_refused(self.command([2, 3], "--optimizer=lbfgs"), "--uneven=join: an optimizer that evaluates its loss")
        self.check_refused(self.command([2, 3], "--sync-batchnorm"), "--uneven=join: --sync-batchnorm takes")
        self.check_refused(self.command([2, 3], "--graph"), "--uneven=join: --graph replays")


if __name__ == "__main__":
    harness.main()
