"""torch.distributed's all_reduce on gloo: one rank, told its place by RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT.

    torch_gloo.py --sizes=1024,65536 --seconds=0.2
Measures as contest.cpp does: samples of back-to-back calls, of which the slowest rank's time counts.
"""
import argparse
import json
import math
import os
import time

import torch
import torch.distributed as dist

BATCH_SECONDS = 30e-6
MIN_SAMPLES, MAX_SAMPLES = 5, 2000


def seconds_of_calls(values, calls):
    begin = time.perf_counter()
    for _ in range(calls):
        dist.all_reduce(values)
    return time.perf_counter() - begin


def first_rank_says(value):
    agreed = torch.tensor([value if dist.get_rank() == 0 else 0.0], dtype=torch.float64)
    dist.all_reduce(agreed)
    return agreed.item()


def check_sum(values):
    size = dist.get_world_size()
    pattern = torch.arange(values.numel()) % 7
    values.copy_(pattern + dist.get_rank() + 1)
    dist.all_reduce(values)
    if not torch.equal(values, (pattern * size + size * (size + 1) // 2).to(values.dtype)):
        raise RuntimeError("wrong sum")
    values.zero_()


def measure(nbytes, seconds):
    values = torch.zeros(nbytes // 4)
    check_sum(values)
    first = first_rank_says(seconds_of_calls(values, 4) / 4)
    calls = int(min(max(seconds / 20 / first, 1), 20_000))
    call = first_rank_says(seconds_of_calls(values, calls) / calls)
    batch = max(1, math.ceil(BATCH_SECONDS / call))
    samples = int(min(max(seconds / (batch * call), MIN_SAMPLES), MAX_SAMPLES))
    taken = torch.tensor([seconds_of_calls(values, batch) * 1e6 / batch for _ in range(samples)], dtype=torch.float64)
    dist.all_reduce(taken, op=dist.ReduceOp.MAX)
    taken = taken.sort().values
    return {"bytes": nbytes, "min_us": taken[0].item(), "median_us": taken[samples // 2].item(), "samples": samples}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--sizes", required=True)
    parser.add_argument("--seconds", type=float, default=0.2)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[dist.get_rank() % len(cores)]})
    for size in arguments.sizes.split(","):
        result = measure(int(size), arguments.seconds)
        if dist.get_rank() == 0:
            print(json.dumps(result), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
