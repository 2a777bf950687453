"""Trains a model under torch's DDP or Horovod, or in a bare loop: one rank.

    peer.py --with=none|ddp|ddp_tuned|horovod --model=mlp_small --data-from=DATA.safetensors --steps=20 --started=SECONDS --result=FILE
            [--device=cuda]
DDP finds its place in RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, Horovod through mpirun. Rank r writes FILE.r with
{"step_ms": [from each step's begin to the next one's, as the host sees them], "mean_ms": of the later half, from a device without
work to a device without work, "seconds_to_first_step", "peak_rss_mib"}; --started is when the first process was started, in
seconds since 1970.
"""
import argparse
import json
import time

import torch
from safetensors.torch import load_file

from models import MODELS, loss_of, optimizer_for


def under_ddp(model, optimizer, tuned):
    import torch.distributed as dist
    dist.init_process_group("nccl" if next(model.parameters()).is_cuda else "gloo")
    options = {"gradient_as_bucket_view": True, "static_graph": True} if tuned else {}
    return dist.get_rank(), torch.nn.parallel.DistributedDataParallel(model, **options), optimizer


def under_horovod(model, optimizer):
    import horovod.torch as hvd
    hvd.init()
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    return hvd.rank(), model, hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())


def peak_rss_mib():
    with open("/proc/self/status", encoding="utf-8") as status:
        return next(int(line.split()[1]) / 1024 for line in status if line.startswith("VmHWM:"))


def train(arguments, rank, model, optimizer):
    data = load_file(arguments.data_from)
    on_device = arguments.device != "cpu"
    if on_device:
        data = {name: tensor.pin_memory() for name, tensor in data.items()}
    wait = torch.cuda.synchronize if on_device else lambda: None
    begins, seconds_to_first_step, measured_from = [], None, arguments.steps // 2
    for x, y in zip(data["x"][:arguments.steps, rank], data["y"][:arguments.steps, rank]):
        if len(begins) == measured_from:
            wait()
        begins.append(time.perf_counter())
        if on_device:
            x, y = x.to(arguments.device, non_blocking=True), y.to(arguments.device, non_blocking=True)
        optimizer.zero_grad()
        loss_of(model(x), y).backward()
        optimizer.step()
        seconds_to_first_step = seconds_to_first_step or time.time() - arguments.started
    wait()
    mean_ms = (time.perf_counter() - begins[measured_from]) * 1e3 / (len(begins) - measured_from)
    step_ms = [(end - begin) * 1e3 for begin, end in zip(begins, begins[1:])]
    return {"step_ms": step_ms, "mean_ms": mean_ms, "seconds_to_first_step": seconds_to_first_step, "peak_rss_mib": peak_rss_mib()}


def add_arguments(parser):
    parser.add_argument("--data-from", required=True)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--started", type=float, required=True)
    parser.add_argument("--result", required=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--with", dest="peer", choices=("none", "ddp", "ddp_tuned", "horovod"), required=True)
    parser.add_argument("--model", choices=MODELS, required=True)
    parser.add_argument("--device", default="cpu")
    add_arguments(parser)
    arguments = parser.parse_args()

    torch.set_num_threads(1)
    model = MODELS[arguments.model]().to(arguments.device)
    optimizer = optimizer_for(arguments.model, model.parameters())
    if arguments.peer == "horovod":
        rank, model, optimizer = under_horovod(model, optimizer)
    elif arguments.peer == "none":
        rank = 0
    else:
        rank, model, optimizer = under_ddp(model, optimizer, arguments.peer == "ddp_tuned")
    result = train(arguments, rank, model, optimizer)
    with open(f"{arguments.result}.{rank}", "w", encoding="utf-8") as file:
        json.dump(result, file)
    if arguments.peer.startswith("ddp"):
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
