#!/bin/bash
# The hand-written ring beside Gloo: article B's gradients (4.8 MB) and 40 KB, between ranks of one thread each.
#   tests/benchmarks/all_reduce.sh [BUILD_FOLDER] [RANKS...]       default: build/release, 2 ranks
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
build=${1:-$root/build/release}
shift || true
ranks=("$@")
[ ${#ranks[@]} -gt 0 ] || ranks=(2)
for program in launch 04_process_group; do
  [ -x "$build/bin/$program" ] || { echo "error: no $build/bin/$program: build first, or name the build folder" >&2; exit 1; }
done
for count in "${ranks[@]}"; do
  for numel in 1199882 10000; do
    OMP_NUM_THREADS=1 "$build/bin/launch" --nproc "$count" --timeout 120 --no-prefix \
      "$build/bin/04_process_group" --numel "$numel" --repeats 200 2>/dev/null | grep -A3 '^all-reduce of'
  done
done
