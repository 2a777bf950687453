"""The models of tests/numerics in Python: same layers, optimizers and losses."""
import torch
from torch import nn
from torch.nn import functional


def mlp(widths):
    layers = []
    for inputs, outputs in zip(widths, widths[1:]):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    return nn.Sequential(nn.Flatten(), *layers[:-1])


def convolution(inputs, outputs, kernel, stride):
    conv = nn.Conv2d(inputs, outputs, kernel, stride, padding=kernel // 2, bias=False)
    nn.init.kaiming_normal_(conv.weight, mode="fan_out", nonlinearity="relu")
    return conv


class BasicBlock(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1, self.bn1 = convolution(inputs, outputs, 3, stride), nn.BatchNorm2d(outputs)
        self.conv2, self.bn2 = convolution(outputs, outputs, 3, 1), nn.BatchNorm2d(outputs)
        self.downsample = None
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(convolution(inputs, outputs, 1, stride), nn.BatchNorm2d(outputs))

    def forward(self, images):
        x = self.bn2(self.conv2(functional.relu(self.bn1(self.conv1(images)))))
        return functional.relu(x + (images if self.downsample is None else self.downsample(images)))


class Resnet18Cifar(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.bn1 = convolution(3, 64, 3, 1), nn.BatchNorm2d(64)
        widths = ((64, 64, 1), (64, 128, 2), (128, 256, 2), (256, 512, 2))
        self.layers = nn.Sequential(*(nn.Sequential(BasicBlock(i, o, s), BasicBlock(o, o, 1)) for i, o, s in widths))
        self.fc = nn.Linear(512, 10)

    def forward(self, images):
        return self.fc(self.layers(functional.relu(self.bn1(self.conv1(images)))).mean((2, 3)))


class Block(nn.Module):
    def __init__(self, width, hidden, heads):
        super().__init__()
        self.heads = heads
        self.ln1, self.qkv, self.proj = nn.LayerNorm(width), nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.ln2, self.fc1, self.fc2 = nn.LayerNorm(width), nn.Linear(width, hidden), nn.Linear(hidden, width)

    def attention(self, x):
        batch, length, width = x.shape
        q, k, v = (part.view(batch, length, self.heads, -1).transpose(1, 2) for part in self.qkv(x).split(width, -1))
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return mixed.transpose(1, 2).reshape(batch, length, width)

    def forward(self, x):
        x = x + self.proj(self.attention(self.ln1(x)))
        return x + self.fc2(functional.gelu(self.fc1(self.ln2(x))))


class GptMini(nn.Module):
    def __init__(self, tokens=65, context=64, width=128, hidden=512, heads=4, blocks=4):
        super().__init__()
        self.tok_emb, self.pos_emb = nn.Embedding(tokens, width), nn.Embedding(context, width)
        self.blocks = nn.Sequential(*(Block(width, hidden, heads) for _ in range(blocks)))
        self.ln_f, self.head = nn.LayerNorm(width), nn.Linear(width, tokens, bias=False)

    def forward(self, tokens):
        x = self.tok_emb(tokens) + self.pos_emb(torch.arange(tokens.shape[1], device=tokens.device))
        return self.head(self.ln_f(self.blocks(x)))


MODELS = {"mlp_small": lambda: mlp([784, 32, 10]),
          "mlp_25m": lambda: mlp([784, 1536, 1536, 1536, 10]),
          "resnet18_cifar": Resnet18Cifar,
          "gpt_mini": GptMini,
          "gpt_8": lambda: GptMini(blocks=8)}


def optimizer_for(name, parameters):
    if name in ("gpt_mini", "gpt_8"):
        return torch.optim.AdamW(parameters, lr=1e-3, weight_decay=0.01)
    return torch.optim.SGD(parameters, lr=0.01, momentum=0.9)


def loss_of(logits, targets):
    return functional.cross_entropy(logits.flatten(0, -2), targets.flatten())
