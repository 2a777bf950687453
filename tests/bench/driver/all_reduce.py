"""All-reduce of float32 sums in place: cohort's collectives, the memory limit, and the peers."""
import json
import math
import socket
from dataclasses import dataclass

from figures import Plan, figure, interleave, number, rounds_of, size_name, table
from goals import Goal, Section, notes
from processes import Process, run_together
from setting import BENCH, KEEP_FREED_MEMORY, mpirun

SIZES = [1 << 10, 64 << 10, 1 << 20, 4 << 20, 25 << 20, 64 << 20]
PLAN = Plan(rounds=5, seconds=150)  # for each number of ranks
OURS, OURS_ORDINARY, FLOOR = "cohort shm", "cohort shm, ordinary memory", "floor (threads)"
GLOO_PLUGIN, PROCESS_GROUP = "cohort gloo", "ProcessGroupGloo, C++"
MPI_PLUGIN, MPI_ORDINARY = "cohort mpi", "cohort mpi, ordinary memory"
RAW_GLOO, OPEN_MPI = "Gloo", "OpenMPI"
NO_CMA = ["--mca", "btl_vader_single_copy_mechanism", "none"]
LARGE_FRAGMENTS = ["--mca", "btl_vader_max_send_size", str(1 << 18)]
SEGMENTED = ["--mca", "coll_tuned_use_dynamic_rules", "1", "--mca", "coll_tuned_allreduce_algorithm", "5", "--mca",
             "coll_tuned_allreduce_algorithm_segmentsize", str(1 << 20)]


@dataclass(frozen=True)
class Contestant:
    name: str
    processes: list  # of which the first prints the results


def free_port():
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return listening.getsockname()[1]


def plugin_contestants(setting, ranks):
    program = setting.program("bench/all_reduce_plugin")
    for name, plugin, memory in ((OURS, "shm", "alloc"), (OURS_ORDINARY, "shm", "ordinary"),
                                 (GLOO_PLUGIN, "gloo", "ordinary")):
        if file := setting.plugin(plugin):
            yield Contestant(name, [Process([program, f"--plugin={file}", f"--memory={memory}", f"--ranks={ranks}"])])


def native_contestants(setting, ranks):
    for name, program, own in ((FLOOR, "floor", []),
                               (f"{RAW_GLOO} ring", "gloo", ["--algorithm=ring"]),
                               (f"{RAW_GLOO} halving-doubling", "gloo", ["--algorithm=halving_doubling"]),
                               (PROCESS_GROUP, "process_group_gloo", [])):
        if path := setting.program(f"bench/all_reduce_{program}"):
            yield Contestant(name, [Process([path, f"--ranks={ranks}", *own])])


def mpi_contestants(setting, ranks):
    path = setting.program("bench/all_reduce_open_mpi")
    if not path:
        return
    settings = {OPEN_MPI: [],
                f"{OPEN_MPI} without CMA, freed memory kept": NO_CMA,
                f"{OPEN_MPI}, the same, 256 KiB fragments": NO_CMA + LARGE_FRAGMENTS,
                f"{OPEN_MPI}, the same, segmented ring": NO_CMA + SEGMENTED}
    for name, options in settings.items():
        yield Contestant(name, [Process([*mpirun(ranks, *options), path], KEEP_FREED_MEMORY if options else {})])
    program, file = setting.program("bench/all_reduce_plugin"), setting.plugin("mpi")
    if not (program and file):
        return
    for name, memory in ((MPI_PLUGIN, "alloc"), (MPI_ORDINARY, "ordinary")):
        yield Contestant(name, [Process([*mpirun(ranks), program, "--launcher=mpirun", f"--plugin={file}", f"--memory={memory}"])])


def torch_contestants(setting, ranks):
    if not setting.peer_python:
        return
    command = [setting.peer_python, BENCH / "all_reduce/torch_gloo.py"]
    place = {"WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()),
             "GLOO_SOCKET_IFNAME": "lo"}
    yield Contestant("torch.distributed gloo, Python", [Process(command, {"RANK": str(r), **place}) for r in range(ranks)])


def contestants_for(setting, ranks):
    return [*native_contestants(setting, ranks), *plugin_contestants(setting, ranks), *mpi_contestants(setting, ranks),
            *torch_contestants(setting, ranks)]


def measure(contestant, sizes, seconds):
    """{bytes: (minimum, median)} in microseconds."""
    flags = [f"--sizes={','.join(map(str, sizes))}", f"--seconds={seconds}"]
    processes = [Process([*p.command, *flags], p.environment) for p in contestant.processes]
    lines = run_together(processes)[0].splitlines()
    results = [json.loads(line) for line in lines if line.startswith("{")]
    return {result["bytes"]: (result["min_us"], result["median_us"]) for result in results}


def is_peer(name):
    return name not in (OURS, OURS_ORDINARY, FLOOR, GLOO_PLUGIN, MPI_PLUGIN, MPI_ORDINARY)


def fastest(figures, nbytes, names):
    """(least time, name), or None where there is none of them."""
    return min(((figures[name][nbytes].least, name) for name in names if name in figures), default=None)


def ahead_goal(figures, name, ranks, sizes):
    worst = None
    for nbytes in sizes:
        peer = fastest(figures, nbytes, filter(is_peer, figures))
        if name in figures and peer:
            ratio = figures[name][nbytes].least / peer[0]
            worst = max(worst or (0, ""), (ratio, f"least ahead at {size_name(nbytes)}, of {peer[1]}"))
    return Goal(f"{name}, {ranks} ranks, of the fastest peer's time at every size", 1.0, worst and worst[0],
                detail=worst[1] if worst else "")


def ratio_goal(figures, text, limit, nbytes, prefix):
    """How many times the time of `cohort shm` the fastest contestant with this prefix needs."""
    other = fastest(figures, nbytes, [name for name in figures if name.startswith(prefix)])
    value = other[0] / figures[OURS][nbytes].least if other and OURS in figures and nbytes in figures[OURS] else None
    return Goal(text, limit, value, at_least=True, detail=other[1] if other else "")


def gloo_goal(figures, ranks, sizes):
    value, detail = None, ""
    if GLOO_PLUGIN in figures and PROCESS_GROUP in figures:
        ratios = [figures[GLOO_PLUGIN][n].best / figures[PROCESS_GROUP][n].best for n in sizes]
        value = math.exp(sum(map(math.log, ratios)) / len(ratios))
        detail = "geometric mean over the sizes; " + ", ".join(map(number, ratios))
    return Goal(f"{GLOO_PLUGIN} of ProcessGroupGloo's time, {ranks} ranks", 1.05, value, detail=detail)


def mpi_goals(figures, ranks, sizes):
    """Beside MPI_Allreduce as installed, that is with the same settings."""
    has_both = MPI_PLUGIN in figures and OPEN_MPI in figures
    large = [n for n in sizes if n >= 1 << 20]
    ratios = [figures[MPI_PLUGIN][n].least / figures[OPEN_MPI][n].least for n in large] if has_both else []
    more = figures[MPI_PLUGIN][1 << 10].least - figures[OPEN_MPI][1 << 10].least if has_both else None
    return [Goal(f"{MPI_PLUGIN} of {OPEN_MPI}'s time from 1 MiB, {ranks} ranks", 1.05, max(ratios, default=None),
                 detail=", ".join(map(number, ratios))),
            Goal(f"{MPI_PLUGIN} more than {OPEN_MPI} at 1 KiB, {ranks} ranks", 1.0, more, unit="us")]


def goals_for(figures, ranks, sizes):
    goals = [ahead_goal(figures, OURS, ranks, sizes), ahead_goal(figures, OURS_ORDINARY, ranks, sizes),
             gloo_goal(figures, ranks, sizes), *mpi_goals(figures, ranks, sizes)]
    if ranks == 2 and sizes == SIZES:
        goals += [ratio_goal(figures, "floor at 64 MiB, of cohort shm's time", 0.85, 64 << 20, FLOOR),
                  ratio_goal(figures, "floor at 1 MiB, of cohort shm's time", 0.60, 1 << 20, FLOOR),
                  ratio_goal(figures, "fastest Gloo at 64 MiB, times cohort shm's time", 8, 64 << 20, RAW_GLOO),
                  ratio_goal(figures, "fastest OpenMPI at 64 MiB, times cohort shm's time", 2.4, 64 << 20, OPEN_MPI)]
    return goals


def text_for(figures, title, sizes):
    heads = [size_name(nbytes) for nbytes in sizes]
    times = [[name, *(f"{number(by_size[n].least)} / {number(by_size[n].median)}" for n in sizes)]
             for name, by_size in figures.items()]
    parts = [f"### {title}: microseconds, minimum / median of medians", table(["", *heads], times)]
    if OURS in figures:
        ratios = [[name, *(number(by_size[n].least / figures[OURS][n].least) for n in sizes)]
                  for name, by_size in figures.items() if name != OURS]
        parts += [f"### {title}: times cohort shm's minimum", table(["", *heads], ratios)]
    return "\n\n".join(parts)


def run(setting):
    sizes, seconds, plan = (SIZES[:2], 0.01, Plan(1, 0)) if setting.quick else (SIZES, 0.15, PLAN)
    texts, goals, data = [], [], {}
    for ranks in (2,) if setting.quick else (2, 4):
        results, left_out = interleave(contestants_for(setting, ranks), plan, lambda c: measure(c, sizes, seconds),
                                       lambda text: setting.say(f"all-reduce, {ranks} ranks, {text}"))
        figures = {name: {n: figure([one[n] for one in rounds]) for n in sizes} for name, rounds in results.items()}
        texts += [text_for(figures, f"{ranks} ranks, {rounds_of(results)}", sizes), notes(left_out)]
        goals += goals_for(figures, ranks, sizes)
        data[f"{ranks} ranks"] = {name: {n: vars(value) for n, value in by_size.items()} for name, by_size in figures.items()}
    return Section("All-reduce, float32 sum in place", "\n\n".join(filter(None, texts)), goals, data)
