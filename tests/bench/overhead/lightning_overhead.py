"""Prints what PyTorch Lightning's Trainer (barebones) adds to a step: step_overhead.cpp's model and loop in Python, rounds of
both alternating."""
import logging
import statistics
import time
import warnings

import pytorch_lightning as lightning
import torch

STEPS = 2000
ROUNDS = 9


def tiny(base):
    class Tiny(base):
        def __init__(self):
            super().__init__()
            self.fc = torch.nn.Linear(32, 2)

        def loss(self, batch):
            return self.fc(batch).sum()

        def training_step(self, batch, _):
            return self.loss(batch)

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=1e-4)

        def on_train_epoch_start(self):
            self.begun = time.perf_counter()

        def on_train_epoch_end(self):
            self.taken = time.perf_counter() - self.begun

    return Tiny()


def bare(batch):
    model = tiny(torch.nn.Module)
    optimizer = model.configure_optimizers()
    begun = time.perf_counter()
    for _ in range(STEPS):
        optimizer.zero_grad()
        model.loss(batch).backward()
        optimizer.step()
    return time.perf_counter() - begun


def trained(batch):
    model = tiny(lightning.LightningModule)
    trainer = lightning.Trainer(max_epochs=1, accelerator="cpu", barebones=True)
    trainer.fit(model, torch.utils.data.DataLoader([batch[0]] * STEPS))
    return model.taken


def main():
    warnings.filterwarnings("ignore")
    logging.getLogger("pytorch_lightning").setLevel(logging.ERROR)
    torch.set_num_threads(1)
    batch = torch.randn(1, 32)
    times = {"bare": [], "lightning": []}
    for _ in range(ROUNDS):
        times["bare"].append(bare(batch) / STEPS * 1e6)
        times["lightning"].append(trained(batch) / STEPS * 1e6)
    figures = {name: (min(values), statistics.median(values)) for name, values in times.items()}
    figures["overhead"] = tuple(a - b for a, b in zip(figures["lightning"], figures["bare"]))
    for name, (best, median) in figures.items():
        print(f"{name:<10} best {best:6.2f} us/step, median {median:6.2f} us/step")


if __name__ == "__main__":
    main()
