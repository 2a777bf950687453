"""Steps over a network of the kernel beside `sim`, whose bandwidth and latency are fitted to it.

The network is a wire between two network namespaces that Linux' token buckets hold below 1 Gbit/s in each direction; gloo sends
over it through TCP, one rank at each end. The bandwidth is that of a model with many bytes, the latency that of one with few;
with both, `sim` predicts the steps of models that were not fitted.
"""
import json
import shutil
import statistics
import subprocess
import sys

import training_data
from all_reduce import free_port
from figures import number, table
from processes import Process, run_together
from setting import BENCH
from trainers import RANKS, Task, numerics

sys.path.append(str(BENCH.parent / "system"))
from ssh_hosts import TwoNetworks, why_no_networks  # noqa: E402

MANY_BYTES, FEW_BYTES = "mlp_25m", "mlp_small"
STEPS = {MANY_BYTES: 16, FEW_BYTES: 60, "gpt_mini": 20, "resnet18_cifar": 10}
GRADIENT_BYTES = 5942794 * 4  # of MANY_BYTES
WARM_UP = 3
TRIED_LATENCY_US = 100


class Wire:
    """Runs a rank at each end of the network."""

    def __init__(self):
        self.networks = TwoNetworks()
        # Larger bursts would let short messages pass at any speed; these cost some of the bandwidth.
        for side in range(RANKS):
            subprocess.run([*self.networks.inside(side), "tc", "qdisc", "add", "dev", "wire", "root", "tbf", "rate", "1gbit", "burst",
                            "32kb", "latency", "100ms"], check=True)

    def processes(self, command):
        place = {"WORLD_SIZE": str(RANKS), "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1", "MASTER_ADDR": self.networks.addresses[0],
                 "MASTER_PORT": str(free_port())}
        return [Process([*self.networks.inside(rank), *command, "--collective=gloo", "--insecure"], {"RANK": str(rank), **place})
                for rank in range(RANKS)]


class Steps:
    """Measures the median step of a model, in ms."""

    def __init__(self, setting, rounds):
        self.setting, self.rounds = setting, rounds

    def of(self, model, spread):
        """`spread` gives the processes of a command."""
        steps = STEPS[model]
        data = training_data.write(self.setting.folder / f"{model}.safetensors", model, steps, RANKS)
        run, times, _ = numerics(self.setting, Task(model, steps, data, ""), "network", data, "--strategy=ddp")
        medians = []
        for _ in range(self.rounds):
            run_together(spread(run.command))
            medians.append(statistics.median(json.loads(times.read_text())["step_ms"][WARM_UP:]))
        return statistics.median(medians)

    def on(self, model, collective):
        return self.of(model, lambda command: [Process([*command, f"--devices={RANKS}", f"--collective={collective}"])])


def sim(bandwidth, latency_us):
    return f"sim,bandwidth={bandwidth / 125e3:.0f}Mbit,latency={latency_us:.0f}us"


def fitted(steps, shm, wire):
    """Returns bytes per second and microseconds with which `sim` takes as long as the wire."""
    bandwidth = 2 * (RANKS - 1) / RANKS * GRADIENT_BYTES / (1e-3 * (wire[MANY_BYTES] - shm[MANY_BYTES]))
    without, with_latency = (steps.on(FEW_BYTES, sim(bandwidth, latency)) for latency in (0, TRIED_LATENCY_US))
    latency = TRIED_LATENCY_US * (wire[FEW_BYTES] - without) / (with_latency - without)
    return bandwidth, max(latency, 0)


def measure(setting):
    """Returns what was measured, and a table; or why there is none."""
    missing = why_no_networks() or (None if shutil.which("tc") else "there is no tc")
    if missing:
        return {}, f"Not measured: {missing}."
    models = [MANY_BYTES, FEW_BYTES] if setting.quick else list(STEPS)
    steps = Steps(setting, 1 if setting.quick else 3)
    setting.say("scale, steps over a network of the kernel")
    shm = {model: steps.on(model, "shm") for model in models}
    ends = Wire()
    try:
        wire = {model: steps.of(model, ends.processes) for model in models}
    finally:
        ends.networks.stop()
    bandwidth, latency = fitted(steps, shm, wire)
    spec = sim(bandwidth, latency)
    simulated = {model: steps.on(model, spec) for model in models}
    rows = [[model, number(shm[model]), number(wire[model]), number(simulated[model]),
             f"{100 * (simulated[model] / wire[model] - 1):+.0f} %"] for model in models]
    text = table(["ms of a step", "shm", "gloo over the wire", "sim, fitted", "sim beside gloo"], rows)
    return {"sim": spec, "shm_ms": shm, "wire_ms": wire, "sim_ms": simulated}, f"`{spec}`, fitted to the first two:\n\n{text}"
