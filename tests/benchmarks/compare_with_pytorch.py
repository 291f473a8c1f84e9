#!/usr/bin/env python3
"""Training steps per second, ours and PyTorch's, in turn: same network, batch, data and thread count.

    /usr/bin/python3 tests/benchmarks/compare_with_pytorch.py [--program build/release/bin/step_rate] [--json FILE]

Each round starts every program once, one after the other, so that a slow spell of the machine falls on all of them. The ratio is the median
of the rounds' ratios. "tuned" is PyTorch with glibc told to keep its memory: as it comes, PyTorch pays for fresh pages in every step.
Data loading is not timed: both sides step through eight batches that are in memory.
"""
import argparse
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import time
import warnings
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "parity"))
from record import TUNED  # noqa: E402

BATCHES = 8
# model, batch size, threads
SETTINGS = [(model, batch, threads) for model, batch in (("article_b", 64), ("article_b", 256), ("article_a", 64)) for threads in (1, 2)]
# Samples per second that ours should reach, as multiples of PyTorch's.
TARGETS = {"article_b": {"tuned": 1.6, "as it comes": 3.0}, "article_a": {"tuned": 2.0, "as it comes": 2.0}}


def pytorch_steps(options):
    """What step_rate does, in PyTorch."""
    import torch
    from reference import MODELS

    warnings.filterwarnings("ignore", message="dropout2d")
    torch.set_num_threads(options.threads)
    torch.manual_seed(1)
    model = MODELS[options.model](not options.no_dropout)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.5)
    generator = torch.Generator()
    generator.manual_seed(1234)
    images = torch.rand(BATCHES * options.batch_size, 1, 28, 28, generator=generator).split(options.batch_size)
    labels = torch.randint(10, (BATCHES * options.batch_size,), generator=generator).split(options.batch_size)
    model.eval()
    with torch.no_grad():
        first_loss = model.loss(model(images[0]), labels[0]).item()
    model.train()

    def run_for(seconds, least):
        steps, start = 0, time.perf_counter()
        while steps < least or time.perf_counter() - start < seconds:
            optimizer.zero_grad()
            loss = model.loss(model(images[steps % BATCHES]), labels[steps % BATCHES])
            loss.backward()
            optimizer.step()
            loss.item()
            steps += 1
        return steps * options.batch_size / (time.perf_counter() - start)

    run_for(0.3, 5)
    print(json.dumps({"samples_per_second": run_for(options.seconds, 5), "first_loss": first_loss}))


def run_once(command, environment):
    result = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, timeout=600, env={**os.environ, **environment})
    return json.loads(result.stdout)


def measure(options, setting):
    """Rates of each program, one number a round."""
    model, batch, threads = setting
    step_options = ["--model", model, "--batch-size", str(batch), "--threads", str(threads), "--seconds", str(options.seconds)]
    step_options += ["--no-dropout"] if options.no_dropout else []
    pytorch = [sys.executable, __file__, "--pytorch-steps", *step_options]
    programs = {
        "ours": ([options.program, *step_options], {}),
        "tuned": (pytorch, TUNED),
        "as it comes": (pytorch, {}),
    }
    rates = {name: [] for name in programs}
    for _ in range(options.rounds):
        first_losses = {}
        for name, (command, environment) in programs.items():
            result = run_once(command, environment)
            rates[name].append(result["samples_per_second"])
            first_losses[name] = result["first_loss"]
        if not abs(first_losses["ours"] - first_losses["tuned"]) <= 1e-5:
            raise SystemExit(f"error: the programs do not compute the same: first losses {first_losses}")
    return rates


def summary(rates):
    return {"median": statistics.median(rates), "lowest": min(rates), "highest": max(rates), "rounds": rates}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", default=str(ROOT / "build" / "release" / "bin" / "step_rate"))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0, help="timed in each round by each program")
    parser.add_argument("--no-dropout", action="store_true")
    parser.add_argument("--only", choices=["article_a", "article_b"], help="one network alone")
    parser.add_argument("--json", metavar="FILE", help="all the numbers")
    parser.add_argument("--pytorch-steps", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--model", default="article_b", help=argparse.SUPPRESS)
    parser.add_argument("--batch-size", type=int, default=64, help=argparse.SUPPRESS)
    parser.add_argument("--threads", type=int, default=1, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.pytorch_steps:
        pytorch_steps(options)
        return

    if importlib.util.find_spec("torch") is None:
        raise SystemExit(f"error: {sys.executable} has no PyTorch; use the Python that has it (/usr/bin/python3 with Debian's python3-torch)")
    if not os.access(options.program, os.X_OK):
        raise SystemExit(f"error: {options.program} is not there; build it (./tutorial test does), or name it with --program")

    print("samples/s, median (lowest–highest)\n")
    print("| network | batch | threads | ours | PyTorch, tuned | ratio | PyTorch as it comes | ratio | targets |\n|" + "---|" * 9, flush=True)
    report = []
    for setting in SETTINGS:
        model, batch, threads = setting
        if options.only not in (None, model):
            continue
        rates = measure(options, setting)
        cells = {name: "{median:,.0f} ({lowest:,.0f}–{highest:,.0f})".format(**summary(values)) for name, values in rates.items()}
        ratios = {
            name: statistics.median(ours / theirs for ours, theirs in zip(rates["ours"], rates[name])) for name in ("tuned", "as it comes")
        }
        reached = all(ratios[name] >= TARGETS[model][name] for name in ratios)
        verdict = f"{TARGETS[model]['tuned']} / {TARGETS[model]['as it comes']}: {'reached' if reached else 'missed'}"
        print(
            f"| {model} | {batch} | {threads} | {cells['ours']} | {cells['tuned']} | {ratios['tuned']:.2f} "
            f"| {cells['as it comes']} | {ratios['as it comes']:.2f} | {verdict} |",
            flush=True,
        )
        report.append(
            {
                "model": model,
                "batch_size": batch,
                "threads": threads,
                "dropout": not options.no_dropout,
                "rates": {name: summary(values) for name, values in rates.items()},
                "ratios": ratios,
                "targets": TARGETS[model],
            }
        )
    if options.json:
        new = Path(options.json + ".new")
        new.write_text(json.dumps(report, indent=2) + "\n")
        os.replace(new, options.json)


if __name__ == "__main__":
    main()
