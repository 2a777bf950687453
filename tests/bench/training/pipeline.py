"""Trains gpt_8 by torch.distributed.pipelining, 1F1B over gloo: one of two ranks, each with half of the blocks.

    pipeline.py --pieces=8 --data-from=DATA.safetensors --steps=20 --started=SECONDS --result=FILE

RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT say which. Rank r writes FILE.r, as peer.py does.
"""
import argparse
import json
import time

import torch
import torch.distributed as dist
from safetensors.torch import load_file
from torch import nn
from torch.distributed.pipelining import PipelineStage, Schedule1F1B

from models import MODELS, loss_of, optimizer_for
from peer import add_arguments, peak_rss_mib


class First(nn.Module):
    def __init__(self, gpt):
        super().__init__()
        self.tok_emb, self.pos_emb, self.blocks = gpt.tok_emb, gpt.pos_emb, gpt.blocks[:len(gpt.blocks) // 2]

    def forward(self, tokens):
        return self.blocks(self.tok_emb(tokens) + self.pos_emb(torch.arange(tokens.shape[1])))


class Last(nn.Module):
    def __init__(self, gpt):
        super().__init__()
        self.blocks, self.ln_f, self.head = gpt.blocks[len(gpt.blocks) // 2:], gpt.ln_f, gpt.head

    def forward(self, x):
        return self.head(self.ln_f(self.blocks(x)))


def train(arguments, rank):
    gpt = MODELS["gpt_8"]()
    part = Last(gpt) if rank else First(gpt)
    optimizer = optimizer_for("gpt_8", part.parameters())
    schedule = Schedule1F1B(PipelineStage(part, rank, 2, torch.device("cpu")), arguments.pieces, loss_fn=loss_of)
    data = load_file(arguments.data_from)
    begins, seconds_to_first_step = [], None
    for x, y in zip(data["x"][:arguments.steps, 0], data["y"][:arguments.steps, 0]):
        begins.append(time.perf_counter())
        optimizer.zero_grad()
        schedule.step(target=y) if rank else schedule.step(x)
        optimizer.step()
        seconds_to_first_step = seconds_to_first_step or time.time() - arguments.started
    step_ms = [(end - begin) * 1e3 for begin, end in zip(begins, begins[1:])]
    return {"step_ms": step_ms, "seconds_to_first_step": seconds_to_first_step, "peak_rss_mib": peak_rss_mib()}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--pieces", type=int, required=True)
    add_arguments(parser)
    arguments = parser.parse_args()

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    result = train(arguments, rank)
    with open(f"{arguments.result}.{rank}", "w", encoding="utf-8") as file:
        json.dump(result, file)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
