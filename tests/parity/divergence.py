#!/usr/bin/env python3
"""How float32 runs of the same program part: PyTorch against itself, and ours, each against PyTorch in float64.

    /usr/bin/python3 tests/parity/divergence.py [--program build/release/bin/01_single_device] [--update docs/parity.md]

Prints a table. With --update it also writes it between the divergence marks of that file. Takes about two minutes.
"""
import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from record import TUNED

REFERENCE = Path(__file__).resolve().with_name("reference.py")
BEGIN, END = "<!-- divergence: begin -->", "<!-- divergence: end -->"
WINDOWS = [(0, 1), (0, 20), (0, 30), (30, 40), (40, 50), (50, 60), (60, 100)]  # steps [from, to)
BOUNDS = [1e-6, 1e-5, 1e-3]


def losses_of(command, folder):
    """Runs a program with --loss-csv and returns its losses."""
    path = Path(folder) / "losses.csv"
    subprocess.run([*command, "--quiet", "--loss-csv", str(path)], check=True, env={**os.environ, **TUNED})
    return [float(line.split(",")[1]) for line in path.read_text().splitlines()[1:]]


def table_row(name, losses, exact):
    differences = [abs(loss - expected) for loss, expected in zip(losses, exact)]
    cells = [f"{max(differences[start:stop]):.0e}" for start, stop in WINDOWS]
    for bound in BOUNDS:
        cells.append(str(next((step for step, value in enumerate(differences) if not value <= bound), "never")))
    return f"| {name} | {' | '.join(cells)} |"


def measure(arguments):
    steps = str(WINDOWS[-1][1])
    options = ["--model", arguments.model, "--no-dropout", "--seed", str(arguments.seed), "--max-steps", steps]
    torch = [sys.executable, str(REFERENCE), *options]
    runs = {
        "PyTorch, 1 thread": [*torch, "--threads", "1"],
        "PyTorch, 2 threads": [*torch, "--threads", "2"],
        "PyTorch without oneDNN, 1 thread": [*torch, "--threads", "1", "--no-mkldnn"],
        "PyTorch without oneDNN, 2 threads": [*torch, "--threads", "2", "--no-mkldnn"],
    }
    if arguments.program:
        for threads in ("1", "2"):
            runs[f"ours, {threads} thread{'s' if threads == '2' else ''}"] = [
                arguments.program, *options, "--device", "cpu", "--threads", threads
            ]
    with tempfile.TemporaryDirectory() as folder:
        exact = losses_of([*torch, "--threads", "2", "--dtype", "float64"], folder)
        losses = {name: losses_of(command, folder) for name, command in runs.items()}
    for name, values in losses.items():
        if len(values) != int(steps) or len(exact) != int(steps):
            raise SystemExit(f"error: expected {steps} losses, found {len(values)} from {name} and {len(exact)} in float64")
    windows = [f"step {start}" if stop == start + 1 else f"{start}–{stop - 1}" for start, stop in WINDOWS]
    header = ["largest difference in steps", *windows, *[f"first beyond {bound:.0e}" for bound in BOUNDS]]
    lines = [f"| {' | '.join(header)} |", "|---" * len(header) + "|"]
    lines += [table_row(name, values, exact) for name, values in losses.items()]
    return "\n".join(lines)


def update(path, table):
    text = Path(path).read_text()
    if text.count(BEGIN) != 1 or text.count(END) != 1:
        raise SystemExit(f"error: expected one '{BEGIN}' and one '{END}' in {path}")
    before, rest = text.split(BEGIN)
    new = Path(path).with_suffix(".new")
    new.write_text(f"{before}{BEGIN}\n{table}\n{END}{rest.split(END)[1]}")
    os.replace(new, path)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", choices=["article_a", "article_b"], default="article_b")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--program", help="ours; left out if not given")
    parser.add_argument("--update", metavar="FILE", help="write the table between the marks of FILE")
    arguments = parser.parse_args()
    table = measure(arguments)
    print(table)
    if arguments.update:
        update(arguments.update, table)


if __name__ == "__main__":
    main()
