#!/usr/bin/env python3
"""Regenerates every file in tests/parity/recorded/ and chapters/tour/recorded/ with real PyTorch (tests/parity/reference.py and
reference_ddp.py).

    /usr/bin/python3 tests/parity/record.py [NAME…]     all of them, or those named; --list names them

The whole takes about 8 minutes on two cores, nearly all of it in article_b_dropout_seed1_epochs.
article_a_seed0.log is the one file that is not written but checked: it is the log that the articles' reader has.
"""
import os
import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
RECORDED = HERE / "recorded"
TOUR = "tour_"  # files with this in front of their names are the tour's
TOUR_RECORDED = HERE.parents[1] / "chapters" / "tour" / "recorded"
# PyTorch gives each large tensor's memory back to the system and pays for fresh pages every step; these keep it. Values do not change.
TUNED = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": "100000000000", "MALLOC_TOP_PAD_": "268435456"}
THREADS = "2"
LOG_TOLERANCE = 1e-4

RUNS = {}
for seed in (0, 1, 42):
    for model in ("article_a", "article_b"):
        RUNS[f"{model}_no_dropout_seed{seed}.csv"] = f"--model {model} --no-dropout --seed {seed} --max-steps 20"
for model in ("article_a", "article_b"):
    RUNS[f"{TOUR}{model}.csv"] = f"--model {model} --no-dropout --sampler distributed --seed 0 --max-steps 20"
RUNS["article_a_seed1_200_steps.csv"] = "--model article_a --seed 1 --max-steps 200"
# With dropout the masks must be equal too: PyTorch without MKL, as distributions build it, draws them from the same stream as the rest.
RUNS["article_b_dropout_seed1.csv"] = "--model article_b --seed 1 --max-steps 20"
RUNS["article_a_seed1_epochs.json"] = "--model article_a --seed 1 --epochs 2"
RUNS["article_b_dropout_seed1_epochs.json"] = "--model article_b --seed 1 --epochs 10"
DDP = "ddp_"  # files with this in front of their names are DistributedDataParallel's
for model, ranks, seed in (("a", 2, 0), ("a", 2, 1), ("a", 3, 0), ("a", 3, 1), ("b", 2, 0), ("b", 3, 0), ("b", 3, 1)):
    RUNS[f"{DDP}article_{model}_{ranks}_ranks_seed{seed}.csv"] = (
        f"--model article_{model} --no-dropout --seed {seed} --nproc {ranks} --max-steps 20")
RUNS[f"{DDP}article_a_2_ranks_seed1_epoch.csv"] = "--model article_a --seed 1 --nproc 2 --epochs 1"
ARTICLE_LOG = "article_a_seed0.log"
ARTICLE_LOG_OPTIONS = "--model article_a --seed 0 --epochs 2 --sampler distributed --no-set-epoch"


def run_reference(options, program="reference.py"):
    command = [sys.executable, str(HERE / program), "--threads", THREADS, *options]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env={**os.environ, **TUNED}).stdout


def path_of(name):
    return TOUR_RECORDED / name.removeprefix(TOUR) if name.startswith(TOUR) else RECORDED / name


def record(name):
    output = "--json" if name.endswith(".json") else "--loss-csv"
    program = "reference_ddp.py" if name.startswith(DDP) else "reference.py"
    run_reference([*RUNS[name].split(), "--quiet", output, str(path_of(name))], program)
    print(f"{name}: written")


def check_article_log():
    """Our reference program must print the article's log: same text, losses within LOG_TOLERANCE."""
    pattern = re.compile(r"^(Train Epoch: .*\tLoss: )(\d+\.\d{6})$")
    printed = [line for line in run_reference(ARTICLE_LOG_OPTIONS.split()).splitlines() if line.startswith("Train")]
    recorded = (RECORDED / ARTICLE_LOG).read_text().splitlines()
    if not recorded or len(printed) != len(recorded):
        raise SystemExit(f"error: {ARTICLE_LOG} has {len(recorded)} lines, the reference program printed {len(printed)}")
    largest = 0.0
    for number, (ours, theirs) in enumerate(zip(printed, recorded), 1):
        (text, loss), (their_text, their_loss) = pattern.match(ours).groups(), pattern.match(theirs).groups()
        difference = abs(float(loss) - float(their_loss))
        if text != their_text or not difference <= LOG_TOLERANCE:
            raise SystemExit(f"error: {ARTICLE_LOG}, line {number}: expected '{theirs}', found '{ours}'")
        largest = max(largest, difference)
    print(f"{ARTICLE_LOG}: {len(recorded)} lines agree, largest difference {largest:.1e}")


def main(arguments):
    names = [*RUNS, ARTICLE_LOG]
    if arguments == ["--list"]:
        print("\n".join(names))
        return
    unknown = [name for name in arguments if name not in names]
    if unknown:
        raise SystemExit(f"error: expected names from --list, found {' '.join(unknown)}")
    RECORDED.mkdir(exist_ok=True)
    for name in arguments or names:
        check_article_log() if name == ARTICLE_LOG else record(name)


if __name__ == "__main__":
    main(sys.argv[1:])
