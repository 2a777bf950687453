"""bagua's algorithms beside ddp over simulated networks: bytes, step time, memory."""
import json
import math
import statistics
from dataclasses import dataclass

import plot
import training_data
from figures import number, table
from goals import Goal, Section, notes
from processes import Failed, Process, run_together
from trainers import RANKS, SideBySide, Task, numerics

MODEL = "mlp_25m"
DDP, ALLREDUCE, BYTEGRAD = "ddp", "bagua:gradient_allreduce", "bagua:bytegrad"
LOW_PRECISION, ASYNC = "bagua:low_precision_decentralized", "bagua:async"
# qadam is measured after its warm-up, with the optimizer that it takes over; two steps teach it nothing, so its rate is tiny.
STRATEGIES = {DDP: [], ALLREDUCE: [], BYTEGRAD: [], "bagua:decentralized": [], LOW_PRECISION: [],
              "bagua:qadam,warmup_steps=2": ["--optimizer=adam", "--lr=1e-7"], ASYNC: []}
ALONE = "no communication"
ROUNDS = 2  # the best of which counts
PAIRS = 6   # of each round: async and no communication are a few percent apart, less than one run and the next


@dataclass(frozen=True)
class Pace:
    """Steps that do not count, and those that are measured."""
    warm_up: int
    steps: int

    def all_steps(self):
        return self.warm_up + self.steps

    def median_ms(self, times):
        return statistics.median(times[-self.steps:])


@dataclass(frozen=True)
class Network:
    name: str
    wire: str   # --collective
    pace: Pace
    times: int = 1  # that a round measures what is not in pairs: more where codec and network weigh about as much


# Fewer steps if one of ddp takes two seconds; a strategy that does not wait for the network makes as many steps everywhere.
SETTLED, SLOW = Pace(5, 30), Pace(2, 4)
NETWORKS = [Network("shared memory", "shm", SETTLED),
            Network("1 Gbit/s", "sim,over=shm,bandwidth=1Gbit,latency=100us", SETTLED, times=2),
            Network("100 Mbit/s", "sim,over=shm,bandwidth=100Mbit,latency=100us", SLOW),
            Network("10 Gbit/s, 1 ms", "sim,over=shm,bandwidth=10Gbit,latency=1ms", SETTLED),
            Network("10 Gbit/s, 5 ms", "sim,over=shm,bandwidth=10Gbit,latency=5ms", SETTLED)]


@dataclass(frozen=True)
class Cell:
    step_ms: float  # median of the measured steps
    bytes: float    # that a rank sends in a step
    rss_mib: float


def measure(setting, strategy, flags, network, pace):
    steps = pace.all_steps()
    task = Task(MODEL, steps, training_data.write(setting.folder / "pair.safetensors", MODEL, steps, RANKS), "")
    process, times, summary = numerics(setting, task, "algorithm", task.pair_data, f"--strategy={strategy}",
                                       f"--devices={RANKS}", f"--collective={network.wire}", *flags)
    run_together([process])
    told = json.loads(summary.read_text())
    return Cell(pace.median_ms(json.loads(times.read_text())["step_ms"]), told["bytes_sent_per_step"], max(told["peak_rss_mib"]))


def alone_ms(setting, pace):
    steps = pace.all_steps()
    single = training_data.write(setting.folder / "single.safetensors", MODEL, steps, 1)
    times = SideBySide(setting).train(Task(MODEL, steps, "", single)).step_ms  # one process's after the other's
    of_each = len(times) // RANKS
    return statistics.median(times[of_each - pace.steps:of_each] + times[-pace.steps:])


def better(one, other):
    return one if other is None or one.step_ms < other.step_ms else other


class Grid:
    """{network: {strategy: Cell}}, {network: the step without communication beside them}, and what was left out."""

    def __init__(self, setting, networks):
        self.setting, self.left_out = setting, {}
        self.cells, self.alone = {network.name: {} for network in networks}, {}

    def measure(self, network, strategy, flags, pace):
        if strategy in self.left_out:
            return
        self.setting.say(f"algorithms, {network.name}: {strategy}")
        cells = self.cells[network.name]
        try:
            cells[strategy] = better(measure(self.setting, strategy, flags, network, pace), cells.get(strategy))
        except Failed as failure:
            self.left_out[strategy] = str(failure)
            cells.pop(strategy, None)

    def measure_alone(self, network, pace):
        self.setting.say(f"algorithms, {network.name}: {ALONE}")
        self.alone[network.name] = min(alone_ms(self.setting, pace), self.alone.get(network.name, math.inf))


def grid_of(setting, networks, strategies):
    grid = Grid(setting, networks)
    free = Pace(1, 2) if setting.quick else SETTLED
    for network in networks * (1 if setting.quick else ROUNDS):
        for _ in range(1 if setting.quick else PAIRS):
            grid.measure_alone(network, free)
            if ASYNC in strategies:
                grid.measure(network, ASYNC, strategies[ASYNC], free)
        for strategy, flags in list(strategies.items()) * (1 if setting.quick else network.times):
            if strategy != ASYNC:
                grid.measure(network, strategy, flags, free if setting.quick else network.pace)
    return grid


def ratio(grid, network, strategy, other):
    cells = grid.get(network, {})
    return cells[other].step_ms / cells[strategy].step_ms if strategy in cells and other in cells else None


def goals_for(grid, alone):
    shm = grid.get(NETWORKS[0].name, {})
    sent = shm[BYTEGRAD].bytes / shm[ALLREDUCE].bytes if BYTEGRAD in shm and ALLREDUCE in shm else None
    goals = [Goal("bytes that bytegrad sends, of gradient_allreduce's", 0.26, sent)]
    for network, limit in (("1 Gbit/s", 2.2), ("100 Mbit/s", 3.3)):
        goals.append(Goal(f"{MODEL} at {network}: step of ddp, times bytegrad's", limit,
                          ratio(grid, network, BYTEGRAD, DDP), at_least=True))
    worst = max((cells[ASYNC].step_ms / alone[name] for name, cells in grid.items() if ASYNC in cells), default=None)
    goals.append(Goal(f"{MODEL}: step of async, of the step without communication, on the worst network", 1.05, worst))
    goals.append(Goal(f"{MODEL} at 10 Gbit/s and 5 ms: step of ddp, times low_precision_decentralized's", 1.0,
                      ratio(grid, "10 Gbit/s, 5 ms", LOW_PRECISION, DDP), at_least=True))
    return goals


def step_table(grid, strategies, alone):
    names = list(grid)
    rows = [[strategy, *(number(grid[name][strategy].step_ms) if strategy in grid[name] else "-" for name in names)]
            for strategy in strategies]
    return table(["ms of a step", *names], [*rows, [ALONE, *(number(alone[name]) for name in names)]])


def cost_table(cells):
    rows = [[strategy, number(cell.bytes / 2**20), number(cell.rss_mib)] for strategy, cell in cells.items()]
    return table(["", "MiB sent / step", "peak MiB / rank"], rows)


def run(setting):
    networks = NETWORKS[:2] if setting.quick else NETWORKS
    strategies = {name: STRATEGIES[name] for name in (DDP, BYTEGRAD)} if setting.quick else STRATEGIES
    measured = grid_of(setting, networks, strategies)
    grid, alone, left_out = measured.cells, measured.alone, measured.left_out
    present = [strategy for strategy in strategies if strategy not in left_out]
    series = {strategy: [grid[name][strategy].step_ms for name in grid] for strategy in present}
    picture = setting.folder.parent / "algorithms.svg" if setting.quick else setting.build / "bench/algorithms.svg"
    picture.write_text(plot.lines(list(grid), {**series, ALONE: [alone[name] for name in grid]}, f"{MODEL}: milliseconds of a step"))
    text = "\n\n".join(filter(None, [
        f"{MODEL}, {RANKS} ranks, one thread each; networks are simulated (`--collective=sim`):",
        step_table(grid, present, alone), cost_table(grid[NETWORKS[0].name]), notes(left_out)]))
    data = {name: {strategy: vars(cell) for strategy, cell in cells.items()} for name, cells in grid.items()}
    return Section("Algorithms over networks", text, goals_for(grid, alone),
                   {"steps": data, "alone_ms": alone})
