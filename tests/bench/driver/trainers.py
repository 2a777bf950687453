"""Programs that train a model on two ranks and tell how long their steps took."""
import json
import time
from dataclasses import dataclass

from all_reduce import free_port
from processes import Process, run_together
from setting import BENCH, KEEP_FREED_MEMORY, mpirun

RANKS = 2


@dataclass(frozen=True)
class Task:
    model: str
    steps: int
    pair_data: str    # for two ranks
    single_data: str  # for one


@dataclass(frozen=True)
class Outcome:
    step_ms: list                 # warm-up included
    seconds_to_first_step: float  # since the first process was started
    peak_rss_mib: list            # of each rank


def numerics(setting, task, name, data, *own):
    times, summary = (setting.folder / f"{name}-{what}.json" for what in ("times", "summary"))
    command = [setting.program("bin/cohort_numerics"), f"--model={task.model}", f"--steps={task.steps}",
               f"--data-from={data}", f"--step-times={times}", f"--summary-json={summary}", "--accelerator=cpu",
               "--barebones", "--log-level=warning", *own]
    if not any(one.startswith("--threads=") for one in own):
        command.append("--threads=1")
    return Process(command), times, summary


def outcome(runs):
    """Of one program, or of several that ran side by side."""
    summaries = [json.loads(summary.read_text()) for _, _, summary in runs]
    return Outcome([ms for _, times, _ in runs for ms in json.loads(times.read_text())["step_ms"]],
                   max(summary["seconds_to_first_step"] for summary in summaries),
                   [rss for summary in summaries for rss in summary["peak_rss_mib"]])


class CohortDdp:
    name = "cohort ddp, shm"

    def __init__(self, setting):
        self.setting = setting

    def train(self, task):
        run = numerics(self.setting, task, "ddp", task.pair_data, "--strategy=ddp", f"--devices={RANKS}", "--collective=shm")
        run_together([run[0]])
        return outcome([run])


class CohortHorovod:
    name = "cohort horovod, mpi"

    def __init__(self, setting):
        self.setting = setting

    def train(self, task):
        run = numerics(self.setting, task, "horovod", task.pair_data, "--strategy=horovod,scale_lr=false", "--collective=mpi")
        run_together([Process([*mpirun(RANKS), *run[0].command])])
        return outcome([run])


class SideBySide:
    """Two processes of our own that never talk: what two ranks would cost without communication."""
    name = "cohort single, two side by side"

    def __init__(self, setting):
        self.setting = setting

    def train(self, task):
        runs = [numerics(self.setting, task, f"single{i}", task.single_data, "--strategy=single") for i in range(RANKS)]
        run_together([process for process, _, _ in runs])
        return outcome(runs)


class Peer:
    """A Python peer, its ranks started by the command that `launch` gives for the command of one rank."""

    def __init__(self, setting, name, kind, launch, environment=None):
        self.setting, self.name, self.kind, self.launch = setting, name, kind, launch
        self.environment = {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo", **(environment or {})}

    def train(self, task):
        result = self.setting.folder / "peer"
        script = [BENCH / "training/peer.py", f"--with={self.kind}", f"--model={task.model}", f"--steps={task.steps}",
                  f"--data-from={task.pair_data}", f"--result={result}", f"--started={time.time()}"]
        run_together([Process(p.command, {**self.environment, **p.environment})
                      for p in self.launch(self.setting.peer_python, script)])
        ranks = [json.loads(result.with_name(f"peer.{rank}").read_text()) for rank in range(RANKS)]
        return Outcome(ranks[0]["step_ms"], ranks[0]["seconds_to_first_step"], [rank["peak_rss_mib"] for rank in ranks])


def directly(python, script):
    place = {"WORLD_SIZE": str(RANKS), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    return [Process([python, *script], {"RANK": str(rank), **place}) for rank in range(RANKS)]


def by_torchrun(python, script):
    run = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={RANKS}"]
    return [Process([python, *run, *script])]


def by_mpirun(python, script):
    return [Process([*mpirun(RANKS), python, *script])]


DDP, DDP_TUNED = "torch DDP, gloo", "torch DDP, gloo, tuned"
HOROVOD, HOROVOD_TUNED = "Horovod, MPI", "Horovod, MPI, tuned"


def python_trainers(setting):
    if not setting.peer_python:
        return []
    trainers = [Peer(setting, DDP, "ddp", directly), Peer(setting, DDP_TUNED, "ddp_tuned", directly, KEEP_FREED_MEMORY)]
    return trainers + [
        Peer(setting, HOROVOD, "horovod", by_mpirun),
        Peer(setting, HOROVOD_TUNED, "horovod", by_mpirun, {**KEEP_FREED_MEMORY, "HOROVOD_CYCLE_TIME": "0.1"})]
