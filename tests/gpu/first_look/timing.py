"""How long steps take, and how much memory of the device they need."""
import json
import socket
import sys
import time

from machine import Failed, Skipped

MODELS = {"cuda": ("mlp_small", "gpt_mini", "mlp_25m", "resnet18_cifar"), "fake": ("mlp_small",), "cpu": ("mlp_small",)}
# The device has done a step of these before the host has launched the next one: the time is that of the launches.
MEASURE_LAUNCHES = ("mlp_small", "gpt_mini")
# Models whose weights are most of their memory: MiB of the weights, and the largest share of them that one of two ranks owns.
OPTIMIZER_STATE = {"cuda": ("mlp_400m", 396.5, 0.52), "fake": ("mlp_25m", 22.7, 0.60)}


def each(contestants):
    """Returns what each contestant measures. Throws Failed with the figures of all others if one fails."""
    found, has_failed = {}, False
    for name, measure in contestants.items():
        try:
            found[name] = measure()
        except Skipped as reason:
            found[name] = f"skipped: {reason}"
        except Failed as error:
            found[name] = f"FAILED: {error}"
            has_failed = True
    if has_failed:
        raise Failed(found)
    return found


def steps(machine):
    for model in MODELS[machine.accelerator]:
        what = "launches of a step" if machine.is_cuda and model in MEASURE_LAUNCHES else "a step"
        yield f"ms of {what}: {model}", lambda model=model: each({
            "cohort single": lambda: step_of_ours(machine, model, "--strategy=single"),
            "cohort ddp": lambda: step_of_ours(machine, model, "--strategy=ddp"),
            "LibTorch loop": lambda: step_of_ours(machine, model, "--bare=true"),
            "torch loop": lambda: step_of_peer(machine, model, "none"),
            "torch DDP": lambda: step_of_peer(machine, model, "ddp")})
    if machine.accelerator != "cpu":
        yield "ms of a step: mlp_small, --graph", lambda: step_of_ours(machine, "mlp_small", "--strategy=single", "--graph")


def step_of_ours(machine, model, *flags, data=None):
    times = machine.folder / "times.json"
    times.unlink(missing_ok=True)
    machine.run(machine.numerics(model, data or machine.data(model, machine.steps), *machine.on_device(
        "--barebones", f"--step-times={times}", *flags)))
    return mean(times)


def step_of_peer(machine, model, kind):
    if machine.accelerator == "fake":
        raise Skipped("torch of Python knows no such device")
    result = machine.folder / "peer"
    result.with_name("peer.0").unlink(missing_ok=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    machine.run([sys.executable, machine.root / "tests/bench/training/peer.py", f"--with={kind}", f"--model={model}",
                 f"--steps={machine.steps}", f"--device={machine.accelerator}", f"--data-from={machine.data(model, machine.steps)}",
                 f"--started={time.time()}", f"--result={result}"],
                {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)})
    return mean(f"{result}.0")


def mean(file):
    with open(file, encoding="utf-8") as text:
        return round(json.load(text)["mean_ms"], 4)


def workers(machine):
    model, batch = ("mlp_25m", 2048) if machine.is_cuda else ("mlp_small", 256)
    data = machine.data(model, machine.steps, 1, batch)
    yield f"ms of a step with batches of {batch} samples: {model}", lambda: each({
        "copied in the step": lambda: step_of_ours(machine, model, "--strategy=single", data=data),
        "copied beside the step, 4 workers": lambda: step_of_ours(machine, model, "--strategy=single", "--workers=4", data=data),
        "LibTorch loop, copied in the step": lambda: step_of_ours(machine, model, "--bare=true", data=data)})


def memory(machine):
    yield "MiB of sharded beside ddp, Adam, 2 ranks", lambda: sharded_needs_less(machine)


def sharded_needs_less(machine):
    if machine.accelerator == "cpu":
        raise Skipped("a CPU's memory is the machine's")
    model, weights, share = OPTIMIZER_STATE[machine.accelerator]
    peaks = {strategy: peak_of(machine, model, strategy) for strategy in ("ddp", "sharded")}
    most = 2 * weights * (1 - share)  # of the other rank's parameters, which have two states each
    found = f"{model}: {peaks}; {most:.0f} of its {2 * weights:.0f} MiB of state are the other rank's"
    if peaks["ddp"] - peaks["sharded"] < 0.9 * most:
        raise Failed(found)
    return found


def peak_of(machine, model, strategy):
    summary = machine.folder / "summary.json"
    summary.unlink(missing_ok=True)
    command = machine.numerics(model, machine.data(model, 3, 2), f"--accelerator={machine.accelerator}", "--optimizer=adam",
                               f"--strategy={strategy}", "--collective=shm", f"--summary-json={summary}")
    machine.run_together(machine.ranks(command, 2))
    peaks = json.loads(summary.read_text(encoding="utf-8")).get("peak_device_mib")
    if not peaks:
        raise Skipped("this device does not count its memory")
    return round(max(peaks), 1)


def precisions(machine):
    models = ("gpt_mini", "resnet18_cifar") if machine.is_cuda else MODELS[machine.accelerator]
    for model in models:
        yield f"ms of a step in each precision: {model}", lambda model=model: each({
            precision: lambda precision=precision: step_of_ours(machine, model, "--strategy=single", f"--precision={precision}")
            for precision in ("32", "bf16-mixed", "16-mixed", "bf16-true")})
