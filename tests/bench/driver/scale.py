"""Wide jobs: what the control plane takes for each rank, the time to the first step of real ranks, and steps on a slow network."""
import contextlib
import json
import statistics
import sys

import network_steps
import training_data
from all_reduce import free_port
from figures import number, table
from goals import Section
from processes import Process, run_together
from setting import BENCH
from trainers import Task, numerics, outcome

sys.path.append(str(BENCH.parent / "system"))
from ssh_hosts import TwoNetworks, why_no_networks  # noqa: E402

MODEL_BYTES = 5942794 * 4
BANDWIDTH = 125e6  # bytes per second: the 1 Gbit of the runs below
SECRET = {"COHORT_JOB_SECRET": "a secret that only the ranks of this bench know"}
QUICK_START = ["--max-steps=1", "--limit-val-batches=0", "--limit-test-batches=1", "--batch-size=4", "--threads=1",
               "--accelerator=cpu", "--log-level=error"]


def control_plane(setting, ranks):
    plugins = [setting.build / "lib/cohort/plugins", setting.build / "tests/support/plugins/built"]
    return json.loads(run_together([Process([setting.program("bench/control_plane"), ranks, *plugins])], timeout_s=600)[0])


def of_each(phase, what, ranks):
    return phase[what] / (ranks - 1)


def control_plane_table(figures):
    head = ["ranks", "start, s", "requests of a rank", "bytes", "agreement, ms", "votes, ms", "failure, s", "requests of a rank",
            "bytes"]
    rows = [[f"{ranks:,}", number(one["start"]["seconds"]), number(of_each(one["start"], "requests", ranks)),
             number(of_each(one["start"], "bytes", ranks)), *(number(1e3 * one[name]["seconds"]) for name in ("agreement", "votes")),
             number(one["failure"]["seconds"]), number(of_each(one["failure"], "requests", ranks)),
             number(of_each(one["failure"], "bytes", ranks))] for ranks, one in figures.items()]
    return table(head, rows)


class Start:
    """How ranks are started; `processes` gives the commands of so many ranks."""

    def __init__(self, setting, name, processes):
        self.setting, self.name, self.processes = setting, name, processes

    def seconds(self, ranks):
        summary = self.setting.folder / "start.json"
        run_together(self.processes(self.setting.program("bin/mnist"), ranks, [*QUICK_START, f"--summary-json={summary}"]))
        return json.loads(summary.read_text())["seconds_to_first_step"]


def starts(setting, networks):
    launcher = setting.program("bin/cohort")

    def alone(mnist, ranks, options):
        return [Process([mnist, "--strategy=ddp", f"--devices={ranks}", *options])]

    def nodes(mnist, ranks, options):
        return [Process([launcher, "run", "--nnodes=2", f"--nproc-per-node={ranks // 2}", mnist, *options], SECRET)]

    def hosts(mnist, ranks, options):
        place = ["--nnodes=2", f"--nproc-per-node={ranks // 2}", f"--master-addr={networks.addresses[0]}", f"--master-port={free_port()}"]
        return [Process([*networks.inside(side), launcher, "run", *place, f"--node-rank={side}", mnist, *options], SECRET)
                for side in range(2)]

    found = [Start(setting, "one machine, shm", alone), Start(setting, "two simulated nodes, hier", nodes)]
    return [*found, Start(setting, "two networks, hier", hosts)] if networks else found


def slope(points):
    """Of the line through the points with the least squares: what one more rank takes, times 1,000. None for a single point."""
    if len(points) < 2:
        return None
    middle = [statistics.mean(axis) for axis in zip(*points)]
    return 1e3 * sum((x - middle[0]) * (y - middle[1]) for x, y in points) / sum((x - middle[0]) ** 2 for x, _ in points)


def start_times(setting):
    sizes, rounds = ((2,), 1) if setting.quick else ((8, 16, 32, 64), 3)
    with contextlib.ExitStack() as stack:
        networks = None if why_no_networks() else TwoNetworks()
        if networks:
            stack.callback(networks.stop)
        results = {}
        for way in starts(setting, networks):
            for ranks in sizes:
                setting.say(f"scale, first step of {ranks} ranks, {way.name}")
                times = [way.seconds(ranks) for _ in range(rounds)]
                results.setdefault(way.name, {})[ranks] = statistics.median(times)
    rows = [[name, *(number(times[ranks]) for ranks in sizes), number(slope(list(times.items())))]
            for name, times in results.items()]
    return results, table(["s to the first step", *(f"{ranks} ranks" for ranks in sizes), "ms for each further rank"], rows)


def simulated_steps(setting):
    """Steps of mlp_25m on a network of 1 Gbit/s, above those without one, beside 2 (n - 1) / n times its bytes at that speed."""
    rows, data = [], {}
    for ranks in (2,) if setting.quick else (2, 4, 8):
        setting.say(f"scale, steps of {ranks} ranks on sim")
        task = Task("mlp_25m", 8, training_data.write(setting.folder / "wide.safetensors", "mlp_25m", 8, ranks), "")
        medians = []
        for collective in ("shm", "sim,bandwidth=1Gbit,latency=100us"):
            run = numerics(setting, task, f"sim{ranks}", task.pair_data, "--strategy=ddp", f"--devices={ranks}",
                           f"--collective={collective}")
            run_together([run[0]])
            medians.append(statistics.median(outcome([run]).step_ms[2:]))
        expected = 1e3 * 2 * (ranks - 1) / ranks * MODEL_BYTES / BANDWIDTH
        data[ranks] = {"shm_ms": medians[0], "sim_ms": medians[1], "expected_ms": expected}
        rows.append([f"{ranks}", *map(number, medians), number(medians[1] - medians[0]), number(expected)])
    return data, table(["ranks", "ms of a step, shm", "sim", "sim above shm", "2 (n - 1) / n * bytes / bandwidth"], rows)


def run(setting):
    figures = {}
    for ranks in (8, 80) if setting.quick else (8, 64, 256, 1024):
        setting.say(f"scale, control plane of {ranks} ranks")
        figures[ranks] = control_plane(setting, ranks)
    times, start_table = start_times(setting)
    steps, step_table = simulated_steps(setting)
    network, network_text = network_steps.measure(setting)
    text = "\n\n".join(["The control plane, ranks that are threads of one process:", control_plane_table(figures),
                        "Real ranks, mnist, medians:", start_table,
                        "Steps of mlp_25m on a network of 1 Gbit/s for each rank, made by `sim`:", step_table,
                        "Steps over a network of the kernel, and over `sim`:", network_text])
    return Section("Wide jobs", text, [], {"control_plane": figures, "first_step": times, "sim": steps,
                                              "network": network})
