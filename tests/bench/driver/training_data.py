"""Made-up training data as safetensors files: x and y of shape [steps, world, batch, ...]."""
import array
import json
import math
import random
import struct

POOL = 1 << 16  # numbers that are drawn; they are repeated, which costs a training step nothing


def _floats(count):
    draw = random.Random(1)
    pool = array.array("f", (draw.gauss(0, 1) for _ in range(min(POOL, count))))
    return (pool * (count // len(pool) + 1))[:count]


def _integers(count, below):
    draw = random.Random(2)
    pool = array.array("q", (draw.randrange(below) for _ in range(min(POOL, count))))
    return (pool * (count // len(pool) + 1))[:count]


def _tensors(model, steps, world, batch):
    """(dtype, shape, values) of x and of y."""
    if model.startswith("table_"):
        shape = [steps, world, batch or 64]
        below = {"table_4mib": 1 << 10, "table_4gib": 1 << 20}[model] + 1
        rows = ("I64", shape, _integers(math.prod(shape) - 1, below) + array.array("q", [below - 1]))
        return rows, rows
    if model in ("gpt_mini", "gpt_8"):
        shape = [steps, world, batch or 16, 64]
        tokens = ("I64", shape, _integers(math.prod(shape), 65))
        return tokens, tokens
    usual, sample = {"mlp_small": (32, [784]), "mlp_25m": (64, [784]), "mlp_400m": (8, [784]), "resnet18_cifar": (16, [3, 32, 32])}[model]
    rows = [steps, world, batch or usual]
    return (("F32", rows + sample, _floats(math.prod(rows + sample))), ("I64", rows, _integers(math.prod(rows), 10)))


def write(path, model, steps, world, batch=None):
    header, offset = {}, 0
    tensors = dict(zip(("x", "y"), _tensors(model, steps, world, batch)))
    for name, (dtype, shape, values) in tensors.items():
        end = offset + len(values) * values.itemsize
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for _, _, values in tensors.values():
            values.tofile(file)
    return path
