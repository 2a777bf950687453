"""Trainings on the device beside the same ones on the CPU."""
import math
import re

from machine import Failed, Skipped

ONE_RANK = ("single", "dp", "ddp", "sharded", "bagua:bytegrad")
TWO_RANKS = ("ddp", "sharded", "ddp,compression=bf16", "horovod,scale_lr=false", "bagua:gradient_allreduce", "bagua:bytegrad",
             "bagua:decentralized", "bagua:low_precision_decentralized")
STEPS = 5
MORE_STEPS = 30  # of one row of each kind: an error that each step adds to is seen there
MODEL = "mlp_small"
# Of the largest change of a weight by the training. A device adds in another order than a CPU, and codes of 16 and 8 bits may fall
# on the other side of a limit; an error of 5 % in each update is more.
TOLERANCE = 0.02
LEAST_UPDATE = 1e-3  # of the largest weight: less is no training


class Weights:
    """Trained weights beside those of the same training on the CPU."""

    def __init__(self, machine):
        self.machine = machine

    def load(self, name):
        from safetensors.torch import load_file
        return load_file(self.machine.folder / f"{name}.safetensors")

    def untrained(self):
        """Returns the weights that every training begins with."""
        if not (self.machine.folder / "untrained.safetensors").exists():
            self.machine.run(self.training("untrained", self.machine.data(MODEL, STEPS), "--accelerator=cpu", "--steps=1", lr=1e-30))
        return self.load("untrained")

    def training(self, name, data, *flags, lr=0.01, optimizer="sgd_momentum"):
        file = self.machine.folder / f"{name}.safetensors"
        file.unlink(missing_ok=True)  # that of an earlier row
        return self.machine.numerics(MODEL, data, f"--optimizer={optimizer}", f"--lr={lr}", f"--save-final={file}", *flags)

    def beside_cpu(self, found):
        """Returns how far the weights `found` are from those in `cpu`; throws Failed if that is too far."""
        first, wanted, found = self.untrained(), self.load("cpu"), self.load(found)
        update = largest_distance(wanted, first)
        if update < LEAST_UPDATE * max(tensor.abs().max().item() for tensor in first.values()):
            raise Failed(f"the training on the CPU has changed no weight by more than {update:.0e}")
        distance = largest_distance(found, wanted) / update
        if not distance <= TOLERANCE:
            raise Failed(f"weights are {distance:.1e} of the largest update away from the CPU's; {TOLERANCE} is allowed")
        return f"weights within {distance:.0e} of the largest update"


def largest_distance(one, other):
    return max((one[name] - tensor).abs().max().item() for name, tensor in other.items())


def first(machine):
    weights, data = Weights(machine), machine.data(MODEL, MORE_STEPS)
    yield f"single, {MORE_STEPS} steps", lambda: like_first(machine, weights, "single", data)
    yield "adamw", lambda: like_first(machine, weights, "adamw", data, optimizer="adamw")
    yield "clipped gradients", lambda: like_first(machine, weights, "clipped", data, "--gradient-clip-val=0.5")
    yield "a bare loop of LibTorch", lambda: like_first(machine, weights, "bare", data, "--bare=true")
    yield "steps replayed by --graph", lambda: replayed(machine, weights, data, "sgd_momentum")
    yield "steps replayed by --graph, adam", lambda: replayed(machine, weights, data, "adam")
    yield "begun on the device, resumed on the CPU", lambda: resumed_on_cpu(machine, weights, data)
    yield "mnist learns", lambda: mnist(machine)
    yield "16-mixed", lambda: mixed(machine, data)


def like_first(machine, weights, name, data, *flags, says="", optimizer="sgd_momentum"):
    """Compares a training of one rank with the CPU's; its output has to have the pattern `says`."""
    also = [flag for flag in flags if flag.startswith("--gradient-clip-val")]  # changes what the CPU trains
    text = machine.run_together([(weights.training("cpu", data, "--accelerator=cpu", *also, optimizer=optimizer), {}),
                          (weights.training(name, data, *machine.on_device("--strategy=single", *flags), optimizer=optimizer), {})])
    if not re.search(says, text):
        raise Failed(f"no line says '{says}'")
    return weights.beside_cpu(name)


def replayed(machine, weights, data, optimizer):
    if machine.accelerator == "cpu":
        raise Skipped("a CPU runs its work at once, and there is nothing to replay")
    return like_first(machine, weights, f"graph_{optimizer}", data, "--graph", says=r"Step \d+ was captured", optimizer=optimizer)


def resumed_on_cpu(machine, weights, data):
    half = MORE_STEPS // 2
    folder = machine.folder / "checkpoints"
    machine.run(weights.training("half", data, *machine.on_device("--strategy=single", f"--max-steps={half}", f"--checkpoint-dir={folder}")))
    machine.run(weights.training("cpu", data, "--accelerator=cpu"))
    text = machine.run(weights.training("resumed", data, "--accelerator=cpu", f"--resume={folder}"))
    if not re.search(f"Going on from .*: step {half},", text):
        raise Failed(f"no line says that training resumes from step {half}")
    return weights.beside_cpu("resumed")


def mnist(machine):
    text = machine.run([machine.program("mnist"), *machine.flags, *machine.on_device("--threads=1", "--epochs=1")])
    found = re.search(r"test_acc\s*\|\s*([\d.]+)", text)
    if not found or float(found.group(1)) < 0.9:
        raise Failed(f"test_acc is {found.group(1) if found else 'not printed'}; 0.9 is reached in one epoch")
    return f"test_acc {found.group(1)}"


def mixed(machine, data):
    command = machine.numerics(MODEL, data, *machine.on_device("--precision=16-mixed", "--log-every-n-steps=10"))
    losses = [float(loss) for loss in re.findall(r"train_loss[ =:]+([\w.+-]+)", machine.run(command))]
    if len(losses) < 2 or not all(map(math.isfinite, losses)):
        raise Failed(f"train_loss is not finite: {losses}")
    return f"train_loss {losses[-1]}"


def training(machine):
    weights = Weights(machine)
    for strategy in ONE_RANK[1:]:
        yield f"{strategy}, 1 rank", lambda strategy=strategy: same_as_cpu(machine, weights, strategy, 1, "", STEPS)
    for wire in ("shm", "gloo", "nccl"):
        for strategy in TWO_RANKS if wire != "gloo" else TWO_RANKS[:1]:
            steps = MORE_STEPS if wire == "shm" and strategy in TWO_RANKS[:2] else STEPS
            yield (f"{strategy}, 2 ranks, {wire}", lambda strategy=strategy, wire=wire, steps=steps:
                   same_as_cpu(machine, weights, strategy, 2, wire, steps))
    yield "ddp, --graph, 2 ranks, nccl", lambda: same_as_cpu(machine, weights, "ddp", 2, "nccl", MORE_STEPS, "--graph")


def same_as_cpu(machine, weights, strategy, ranks, wire, steps, *of_device):
    variables = machine.need_nccl_on_one_gpu() if wire == "nccl" else {}
    data, commands = machine.data(MODEL, steps, ranks), []
    for name, accelerator, by, also in (("cpu", "cpu", "shm" if wire == "nccl" else wire, ()), ("found", machine.accelerator, wire, of_device)):
        flags = ["--devices=1"] if ranks == 1 else [f"--collective={by}"]
        command = weights.training(name, data, f"--accelerator={accelerator}", f"--strategy={strategy}", *flags, *also)
        commands += [(command, {})] if ranks == 1 else machine.ranks(command, ranks, variables)
    machine.run_together(commands)
    return weights.beside_cpu("found")


def large(machine):
    size = "4gib" if machine.is_cuda else "4mib"
    yield f"one weight of more than {size[0]} {'GiB' if machine.is_cuda else 'MiB'}, 1 rank", lambda: sum_rows(machine, f"table_{size}", 1)
    yield "the same, 2 ranks", lambda: sum_rows(machine, f"table_{size}", 2)


def sum_rows(machine, model, ranks):
    """Each use of a row takes 1 / (batch x ranks) from each of its elements, which begin as the number of the row modulo 4093."""
    import torch
    from safetensors import safe_open
    data, file = machine.data(model, 3, ranks), machine.folder / "table.safetensors"
    command = machine.numerics(model, data, f"--accelerator={machine.accelerator}", f"--save-final={file}",
                               *(["--strategy=ddp", "--collective=shm"] if ranks > 1 else ["--strategy=single", "--devices=1"]))
    machine.run_together([(command, {})] if ranks == 1 else machine.ranks(command, ranks))
    with safe_open(data, "pt") as read, safe_open(file, "pt") as written:
        used = read.get_tensor("x")
        rows = written.get_slice("rows.weight")
        count = rows.get_shape()[0]
        wanted = torch.arange(count, dtype=torch.float64) % 4093
        wanted -= torch.bincount(used.flatten(), minlength=count).double() / (used.shape[2] * ranks)
        wrong = sum(int((rows[begin:begin + 65536].double() != wanted[begin:begin + 65536, None]).any(1).sum())
                    for begin in range(0, count, 65536))
    file.unlink()
    if wrong:
        raise Failed(f"{wrong} of {count} rows are wrong")
    return f"{count} rows of 4 KiB, {used.numel()} uses"
