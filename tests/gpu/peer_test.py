"""What tests/bench/training does on a GPU, on tensors that have a device and a shape and no values: no GPU is needed."""
import argparse
import contextlib
import pathlib
import sys
import tempfile
import unittest
from unittest import mock

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

BENCH = pathlib.Path(__file__).resolve().parents[1] / "bench"
sys.path[:0] = [str(BENCH / "training"), str(BENCH / "driver")]
import peer  # noqa: E402
import training_data  # noqa: E402
from models import MODELS, loss_of, optimizer_for  # noqa: E402

SHAPES = {"mlp_small": (784,), "mlp_25m": (784,), "resnet18_cifar": (3, 32, 32), "gpt_mini": (64,), "gpt_8": (64,)}


def batch_of(model):
    x = torch.empty((2, *SHAPES[model]), device="cuda")
    if model in ("gpt_mini", "gpt_8"):
        return x.long(), x.long()
    return x, torch.zeros(2, dtype=torch.long, device="cuda")


def attention(q, k, v, is_causal):
    return (q @ k.transpose(-2, -1)).softmax(-1) @ v


@contextlib.contextmanager
def without_cudnn():
    """Convolution and attention ask cuDNN which kernel to take, and a machine without a GPU need not have it."""
    with torch.backends.cudnn.flags(enabled=False), mock.patch("torch.nn.functional.scaled_dot_product_attention", attention):
        yield


class Models(unittest.TestCase):
    def test_every_tensor_is_on_the_device_of_the_model(self):
        for name, make in MODELS.items():
            with self.subTest(model=name), FakeTensorMode(), without_cudnn():
                with torch.device("cuda"):
                    model = make()
                x, y = batch_of(name)
                self.assertEqual(loss_of(model(x), y).device.type, "cuda")


class Timing(unittest.TestCase):
    def test_the_mean_begins_and_ends_without_work_on_the_device(self):
        moments = []
        with tempfile.TemporaryDirectory() as folder:
            data = training_data.write(pathlib.Path(folder) / "data.safetensors", "mlp_small", 6, 1)
            model = MODELS["mlp_small"]().to("meta")
            optimizer = optimizer_for("mlp_small", model.parameters())
            optimizer.register_step_post_hook(lambda *_: moments.append("step"))
            arguments = argparse.Namespace(data_from=data, device="meta", steps=6, started=0)
            with mock.patch("torch.cuda.synchronize", lambda: moments.append("wait")), \
                    mock.patch("torch.Tensor.pin_memory", lambda tensor: tensor):
                result = peer.train(arguments, 0, model, optimizer)
        self.assertEqual(moments, ["step"] * 3 + ["wait"] + ["step"] * 3 + ["wait"])
        self.assertGreater(result["mean_ms"], 0)


if __name__ == "__main__":
    unittest.main()
