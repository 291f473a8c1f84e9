#!/bin/bash
# Article B, batch 64 a process, one thread each, in samples/s: one process of ours, 2 of ours in each way to average gradients, and 2 of
# PyTorch's DistributedDataParallel with Gloo. Each rate is of 60 steps: the time of a run of 75 less that of a run of 15.
#   tests/benchmarks/ddp_rate.sh [BUILD_FOLDER]
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
build=${1:-$root/build/release}
export OMP_NUM_THREADS=1
ours=("$build/bin/05_distributed_data_parallel" --data "$root/datasets/mnist" --device cpu --threads 1 --model article_b --batch-size 64 --quiet)

seconds() {  # of a command that must succeed
  local from to
  from=$(date +%s.%N)
  "$@" >/dev/null 2>&1 || { echo "error: failed: $*" >&2; exit 1; }
  to=$(date +%s.%N)
  awk "BEGIN { print $to - $from }"
}
rate() {  # PROCESSES command...
  local count=$1 short long
  shift
  short=$(seconds "$@" --max-steps 15)
  long=$(seconds "$@" --max-steps 75)
  awk "BEGIN { printf \"%.0f\", 60 * 64 * $count / ($long - $short) }"
}
start_two() { "$build/bin/launch" --nproc 2 --timeout 300 --no-prefix -- "${ours[@]}" "$@"; }
ratio() { awk "BEGIN { printf \"%.2f\", $1 / $2 }"; }

one=$(rate 1 "${ours[@]}")
echo "one process: $one samples/s"
torch=
if python3 -c 'import torch' 2>/dev/null; then
  torch=$(rate 2 python3 "$root/tests/parity/reference_ddp.py" --nproc 2 --data "$root/datasets/mnist" --model article_b --batch-size 64)
  echo "PyTorch DDP, Gloo, 2 processes: $torch samples/s"
fi
while read -r options; do
  # shellcheck disable=SC2086
  two=$(rate 2 start_two $options)
  echo "2 processes, $options: $two samples/s, $(ratio "$two" "$one") times one process${torch:+, $(ratio "$two" "$torch") times PyTorch DDP}"
done <<END
--backend gloo
--backend gloo --no-overlap
--backend gloo --reducer per-gradient
--backend gloo --reducer after-backward
--backend ring
--backend ring --no-overlap
END
