"""Trains an MLP under PyTorch's own DistributedDataParallel over gloo, one rank of torchrun: torch_ddp.py INIT DATA OUT LR MOMENTUM."""
import os
import sys

import torch
from safetensors.torch import load_file, save_file

from numerics_test import MlpSmall


def main(init, data, out, lr, momentum):
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo")
    rank = torch.distributed.get_rank()
    net = MlpSmall()
    net.load_state_dict(load_file(init))
    model = torch.nn.parallel.DistributedDataParallel(net)
    optimizer = torch.optim.SGD(net.parameters(), lr=float(lr), momentum=float(momentum))
    batches = load_file(data)
    for step in range(batches["x"].shape[0]):
        optimizer.zero_grad()
        scores = model(batches["x"][step, rank], step)
        torch.nn.functional.cross_entropy(scores, batches["y"][step, rank]).backward()
        optimizer.step()
    if rank == 0:
        save_file({name: tensor.detach().clone() for name, tensor in net.named_parameters()}, out)
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    assert "RANK" in os.environ, "start it by torchrun"
    main(*sys.argv[1:])
