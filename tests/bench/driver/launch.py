"""From the start of the first process to the end of the first step: mlp_small on two ranks."""
import statistics

import training_data
from figures import Plan, interleave, number, rounds_of, table
from goals import Goal, Section, notes
from trainers import RANKS, CohortDdp, Peer, Task, by_mpirun, by_torchrun

PLAN = Plan(rounds=5, seconds=120)
TORCHRUN = "torchrun, torch DDP on gloo"


def run(setting):
    task = Task("mlp_small", 3, training_data.write(setting.folder / "pair.safetensors", "mlp_small", 3, RANKS), "")
    launches = [CohortDdp(setting)]
    if setting.peer_python:
        launches += [Peer(setting, TORCHRUN, "ddp", by_torchrun), Peer(setting, "mpirun, Horovod", "horovod", by_mpirun)]
    results, left_out = interleave(launches, Plan(1, 0) if setting.quick else PLAN,
                                   lambda launch: launch.train(task).seconds_to_first_step,
                                   lambda text: setting.say(f"launch, {text}"))
    rows = [[name, number(min(times)), number(statistics.median(times))] for name, times in results.items()]
    ours = results.get(CohortDdp.name)
    goal = Goal("launch to the end of the first step, median", 1.0, ours and statistics.median(ours), "s")
    text = "\n\n".join(filter(None, [table(["", "s, min", "median"], rows), notes(left_out)]))
    return Section(f"Launch to the end of the first step, mlp_small on two ranks, {rounds_of(results)}", text, [goal], results)
