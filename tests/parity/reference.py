#!/usr/bin/env python3
"""Chapter 01 in real PyTorch: the program that ours must equal, loss for loss.

Same options, same log lines, same --loss-csv as the chapters' programs. Needs PyTorch 1.13 or newer and NumPy, no torchvision.
The networks are described in tests/parity/README.md.
"""
import argparse
import gzip
import json
import os
import struct
import sys
import tempfile
import warnings
import zlib
from pathlib import Path

import numpy
import torch
from torch import nn
from torch.nn import functional

DEFAULT_DATA = Path(__file__).resolve().parents[2] / "datasets" / "mnist"
MEAN, STD = 0.1307, 0.3081


class ArticleA(nn.Module):
    """Two layers, no relu. The pool is what the article forgot: without it 1440 does not fit."""

    def __init__(self, use_dropout):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 10, 5)
        self.fc = nn.Linear(1440, 10)

    def forward(self, x):  # (N, 1, 28, 28)
        x = functional.max_pool2d(self.conv1(x), 2)  # (N, 10, 12, 12)
        return self.fc(x.view(-1, 1440))  # (N, 10)

    @staticmethod
    def loss(output, target, reduction="mean"):
        return functional.cross_entropy(output, target, reduction=reduction)


class ArticleB(nn.Module):
    """PyTorch's MNIST example."""

    def __init__(self, use_dropout):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 32, 3)
        self.conv2 = nn.Conv2d(32, 64, 3)
        self.dropout1 = nn.Dropout2d(0.25 if use_dropout else 0.0)
        self.dropout2 = nn.Dropout2d(0.5 if use_dropout else 0.0)
        self.fc1 = nn.Linear(9216, 128)
        self.fc2 = nn.Linear(128, 10)

    def forward(self, x):  # (N, 1, 28, 28)
        x = functional.relu(self.conv1(x))  # (N, 32, 26, 26)
        x = functional.relu(self.conv2(x))  # (N, 64, 24, 24)
        x = self.dropout1(functional.max_pool2d(x, 2))  # (N, 64, 12, 12)
        x = functional.relu(self.fc1(torch.flatten(x, 1)))  # (N, 128)
        x = self.fc2(self.dropout2(x))  # dropout2: 2-D, so element by element
        return functional.log_softmax(x, dim=1)  # (N, 10)

    @staticmethod
    def loss(output, target, reduction="mean"):
        return functional.nll_loss(output, target, reduction=reduction)


MODELS = {"article_a": ArticleA, "article_b": ArticleB}


def read_idx(folder, name):
    """An IDX file of unsigned bytes, gzip or raw, as a numpy array."""
    for path in (Path(folder) / (name + ".gz"), Path(folder) / name):
        if path.exists():
            break
    else:
        raise SystemExit(f"error: expected {name}.gz or {name} in {folder}, found neither")
    raw = path.read_bytes()
    raw = gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw
    zero, kind, dims = struct.unpack(">HBB", raw[:4])
    if zero != 0 or kind != 8:
        raise SystemExit(f"error: {path} is not an IDX file of unsigned bytes")
    shape = struct.unpack(f">{dims}I", raw[4 : 4 + 4 * dims])
    return numpy.frombuffer(raw, dtype=numpy.uint8, offset=4 + 4 * dims).reshape(shape).copy()


def load_split(folder, split, dtype):
    """Images (N, 1, 28, 28), normalised by the same operations as torchvision's ToTensor and Normalize; labels (N) int64."""
    images = torch.from_numpy(read_idx(folder, f"{split}-images-idx3-ubyte")).unsqueeze(1)
    images = images.to(torch.float32).div(255)
    images.sub_(torch.tensor(MEAN, dtype=torch.float32)).div_(torch.tensor(STD, dtype=torch.float32))
    labels = torch.from_numpy(read_idx(folder, f"{split}-labels-idx1-ubyte").astype(numpy.int64))
    return images.to(dtype), labels


def parse_options(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", choices=sorted(MODELS), default="article_b")
    parser.add_argument("--epochs", type=int, help="default: 2 for article_a, 10 for article_b, as in the articles")
    parser.add_argument("--max-steps", type=int, default=0, help="stop after that many steps in all; 0: no limit")
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--test-batch-size", type=int, default=1000)
    parser.add_argument("--lr", type=float, default=0.01)
    parser.add_argument("--momentum", type=float, default=0.5)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--log-interval", type=int, help="default: 10 for article_a, 100 for article_b")
    parser.add_argument("--threads", type=int, default=0, help="0: PyTorch's own choice")
    parser.add_argument("--data", default=DEFAULT_DATA, help="folder with the four IDX files, gzip or raw")
    parser.add_argument("--no-dropout", action="store_true")
    parser.add_argument("--no-shuffle", action="store_true")
    parser.add_argument("--sampler", choices=["random", "distributed"], default="random")
    parser.add_argument("--no-set-epoch", action="store_true", help="article A's mistake: every epoch in epoch 0's order")
    parser.add_argument("--loss-csv", help="step,loss: one row a step, 9 significant digits")
    parser.add_argument("--quiet", action="store_true")
    parser.add_argument("--json", help="derived values: test results, checksums of the weights, the versions used")
    parser.add_argument("--dtype", choices=["float32", "float64"], default="float32")
    parser.add_argument("--no-mkldnn", action="store_true", help="PyTorch's own convolution instead of oneDNN's")
    options = parser.parse_args(arguments)
    if options.epochs is None:
        options.epochs = 2 if options.model == "article_a" else 10
    if options.log_interval is None:
        options.log_interval = 10 if options.model == "article_a" else 100
    return options


def make_loaders(options, train_size, test_size):
    """DataLoaders over the *indices*: PyTorch's own order and draws, and a batch is then one indexing."""
    sampler = None
    if options.sampler == "distributed":
        sampler = torch.utils.data.distributed.DistributedSampler(
            range(train_size), num_replicas=1, rank=0, shuffle=not options.no_shuffle
        )
    shuffle = sampler is None and not options.no_shuffle
    train = torch.utils.data.DataLoader(range(train_size), options.batch_size, shuffle=shuffle, sampler=sampler)
    test = torch.utils.data.DataLoader(range(test_size), options.test_batch_size)
    return train, sampler, test


def evaluate(model, images, labels, loader):
    """Mean loss and correct answers over every sample."""
    model.eval()
    loss, correct = 0.0, 0
    with torch.no_grad():
        for indices in loader:
            output, target = model(images[indices]), labels[indices]
            loss += model.loss(output, target, reduction="sum").item()
            correct += (output.argmax(dim=1) == target).sum().item()
    return loss / len(labels), correct


def checksums(model):
    """Bits and sum of each tensor of the state_dict."""
    return {
        name: {
            "crc32": f"{zlib.crc32(tensor.detach().numpy().tobytes()):08x}",
            "sum": tensor.detach().double().sum().item(),
        }
        for name, tensor in model.state_dict().items()
    }


def train(options):
    if options.threads > 0:
        torch.set_num_threads(options.threads)
    if options.no_mkldnn:
        torch.backends.mkldnn.enabled = False
    dtype = getattr(torch, options.dtype)
    say = (lambda line: None) if options.quiet else (lambda line: print(line, flush=True))

    # The order of these lines is part of the result: construction, then each iter(loader), draw from the same generator.
    torch.manual_seed(options.seed)
    model = MODELS[options.model](not options.no_dropout)
    initial = checksums(model)
    model.to(dtype)
    optimizer = torch.optim.SGD(model.parameters(), lr=options.lr, momentum=options.momentum)
    images, labels = load_split(options.data, "train", dtype)
    test_images, test_labels = load_split(options.data, "t10k", dtype)
    loader, sampler, test_loader = make_loaders(options, len(labels), len(test_labels))

    losses, epochs = [], []
    for epoch in range(1, options.epochs + 1):
        if sampler is not None and not options.no_set_epoch:
            sampler.set_epoch(epoch - 1)
        model.train()
        finished = False
        for batch, indices in enumerate(loader):
            target = labels[indices]
            optimizer.zero_grad()
            loss = model.loss(model(images[indices]), target)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            if batch % options.log_interval == 0:
                done, total, percent = batch * len(target), len(labels), 100.0 * batch / len(loader)
                say(f"Train Epoch: {epoch} [{done}/{total} ({percent:.0f}%)]\tLoss: {losses[-1]:.6f}")
            finished = 0 < options.max_steps <= len(losses)
            if finished:
                break
        test_loss, correct = evaluate(model, test_images, test_labels, test_loader)
        total = len(test_labels)
        say(f"\nTest set: Average loss: {test_loss:.4f}, Accuracy: {correct}/{total} ({100.0 * correct / total:.0f}%)\n")
        epochs.append({"epoch": epoch, "test_loss": test_loss, "correct": correct, "total": total})
        if finished:
            break

    derived = {
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "options": {key: str(value) if key == "data" else value for key, value in vars(options).items()},
        "initial_weights": initial,
        "final_weights": checksums(model),
        "steps": len(losses),
        "epochs": epochs,
    }
    return losses, derived


def write_whole(path, text):
    """The whole file or none."""
    folder = os.path.dirname(os.path.abspath(path))
    with tempfile.NamedTemporaryFile("w", dir=folder, delete=False) as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.chmod(file.name, 0o644)
    os.replace(file.name, path)


def main(arguments):
    warnings.filterwarnings("ignore", message="dropout2d")  # newer ones warn of the 2-D input, which is the article's
    options = parse_options(arguments)
    losses, derived = train(options)
    if options.loss_csv:
        rows = "".join(f"{step},{loss:.9g}\n" for step, loss in enumerate(losses, 1))
        write_whole(options.loss_csv, "step,loss\n" + rows)
    if options.json:
        for key in ("data", "json", "loss_csv", "quiet"):
            del derived["options"][key]
        write_whole(options.json, json.dumps(derived, indent=2) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
