#!/bin/bash
# Article B, batch 64 a process, one thread each, in samples/s: one process of ours, two that do not communicate (what the machine allows), two
# of PyTorch's DistributedDataParallel with Gloo (as it comes, and without the page faults of its allocator), and two of ours in each way to
# average gradients. Medians over ROUNDS rounds, each of which runs all of them once; ratios are taken within a round. A rate is of 60 steps:
# the time of a run of 75 less that of a run of 15.
#   tests/benchmarks/ddp_rate.sh [BUILD_FOLDER [ROUNDS]]
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
build=${1:-$root/build/release}
rounds=${2:-3}
results=$(mktemp)
trap 'rm -f "$results"' EXIT
export OMP_NUM_THREADS=1
article=(--data "$root/datasets/mnist" --model article_b --batch-size 64)
ours=("$build/bin/05_distributed_data_parallel" "${article[@]}" --device cpu --threads 1 --quiet)
launch=("$build/bin/launch" --timeout 300 --no-prefix)

one() { "${launch[@]}" --nproc 1 -- "${ours[@]}" "$@"; }
both() { "${launch[@]}" --nproc 2 -- "${ours[@]}" "$@"; }
side_by_side() {
  one "$@" & local other=$!
  one "$@"
  wait "$other"
}
pytorch() { python3 "$root/tests/parity/reference_ddp.py" --nproc 2 "${article[@]}" "$@"; }
# glibc gives large blocks back at once; PyTorch then pays for their pages again at every step.
tuned_pytorch() { MALLOC_MMAP_MAX_=0 MALLOC_TRIM_THRESHOLD_=100000000000 MALLOC_TOP_PAD_=268435456 pytorch "$@"; }

seconds() {  # of a command that must succeed
  local from to
  from=$(date +%s.%N)
  "$@" >/dev/null 2>&1 || { echo "error: failed: $*" >&2; exit 1; }
  to=$(date +%s.%N)
  awk "BEGIN { print $to - $from }"
}
measure() {  # NAME PROCESSES command...
  local name=$1 processes=$2 short long
  shift 2
  short=$(seconds "$@" --max-steps 15)
  long=$(seconds "$@" --max-steps 75)
  awk "BEGIN { printf \"%s\t%.0f\n\", \"$name\", 60 * 64 * $processes / ($long - $short) }" | tee -a "$results" >&2
}
rates() { awk -F '\t' -v name="$1" '$1 == name { print $2 }' "$results"; }  # of a name, round by round
median() { sort -g | awk '{ value[NR] = $1 } END { if (NR) print value[int((NR + 1) / 2)] }'; }
ratio() { paste <(rates "$1") <(rates "$2") | awk '$2 { print $1 / $2 }' | median; }  # within the rounds

variants=("gloo" "gloo --no-overlap" "gloo --reducer per-gradient" "gloo --reducer after-backward" "ring" "ring --no-overlap")
for ((round = 1; round <= rounds; ++round)); do
  echo "round $round of $rounds" >&2
  measure "one process" 1 one
  measure "two that do not communicate" 2 side_by_side
  if python3 -c 'import torch' 2>/dev/null; then
    measure "PyTorch DDP" 2 pytorch
    measure "PyTorch DDP, tuned" 2 tuned_pytorch
  fi
  for options in "${variants[@]}"; do
    # shellcheck disable=SC2086
    measure "two, $options" 2 both --backend $options
  done
done

printf '\n%-36s %9s %12s %12s %12s\n' "medians of $rounds" samples/s "x one" "x PyTorch" "x tuned"
cut -f 1 "$results" | awk '!seen[$0]++' | while read -r name; do
  printf '%-36s %9s %12.5s %12.5s %12.5s\n' "$name" "$(rates "$name" | median)" "$(ratio "$name" "one process")" \
    "$(ratio "$name" "PyTorch DDP")" "$(ratio "$name" "PyTorch DDP, tuned")"
done
