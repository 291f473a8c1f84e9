#!/usr/bin/env bash
# Two virtual devices of one thread against one device of two threads, article B, batch 256: milliseconds a step, and the ratio of the rates.
# Pairs run one after the other, so that what else the machine does hits both; the median of the ratios counts.
#   tests/benchmarks/data_parallel_rate.sh [BUILD FOLDER] [PAIRS]
set -euo pipefail
bin=${1:-build/release}/bin
pairs=${2:-5}
export OMP_WAIT_POLICY=passive
options=(--model article_b --no-dropout --batch-size 256 --max-steps 12 --test-batch-size 1000 --threads 2 --quiet --profile)

step() { "$@" "${options[@]}" | sed -n 's/^Profile of .* steps of \([0-9.]*\) ms$/\1/p'; }

for ((i = 0; i < pairs; ++i)); do
  one=$(step "$bin/01_single_device")
  two=$(step "$bin/03_data_parallel" --devices 2)
  awk -v one="$one" -v two="$two" 'BEGIN { printf "1 device x 2 threads %8.2f ms   2 devices x 1 thread %8.2f ms   ratio %.3f\n", one, two, one / two }'
done | tee /dev/stderr | awk '{ print $NF }' | sort -n | awk '{ all[NR] = $1 } END { printf "median ratio %.3f\n", all[int((NR + 1) / 2)] }'
