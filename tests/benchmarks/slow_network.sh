#!/bin/bash
# What buckets and overlap gain on a slow network: two network namespaces, a cable of 1 Gbit/s with 1 ms of latency (tc netem) between them,
# one rank of one thread in each, article B, batch 64. Milliseconds a step, from 15 steps: a run of 20 less a run of 5.
#   tests/benchmarks/slow_network.sh [BUILD_FOLDER]       needs root, iproute2
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
build=${1:-$root/build/release}
first=mddp-slow-a-$$ second=mddp-slow-b-$$
trap 'ip netns del "$first" 2>/dev/null; ip netns del "$second" 2>/dev/null; true' EXIT
ip netns add "$first"
ip netns add "$second"
ip -n "$first" link add cable type veth peer name cable netns "$second"
ip -n "$first" addr add 10.213.8.1/24 dev cable
ip -n "$second" addr add 10.213.8.2/24 dev cable
for machine in "$first" "$second"; do
  ip -n "$machine" link set lo up
  ip -n "$machine" link set cable up
  tc -n "$machine" qdisc add dev cable root netem delay 1ms rate 1gbit limit 20000
done

rank() {  # MACHINE RANK options...
  local machine=$1 rank=$2
  shift 2
  ip netns exec "$machine" env OMP_NUM_THREADS=1 RANK="$rank" LOCAL_RANK=0 WORLD_SIZE=2 MASTER_ADDR=10.213.8.1 MASTER_PORT=29518 \
    "$build/bin/05_distributed_data_parallel" --data "$root/datasets/mnist" --device cpu --threads 1 --model article_b --batch-size 64 \
    --quiet --timeout 60 "$@" >/dev/null
}
seconds() {
  local from to second_rank
  from=$(date +%s.%N)
  rank "$second" 1 "$@" &
  second_rank=$!
  rank "$first" 0 "$@"
  wait "$second_rank"
  to=$(date +%s.%N)
  awk "BEGIN { print $to - $from }"
}
while read -r options; do
  # shellcheck disable=SC2086
  short=$(seconds $options --max-steps 5) long=$(seconds $options --max-steps 20)
  awk "BEGIN { printf \"%-40s %7.1f ms a step\n\", \"$options\", ($long - $short) / 15 * 1000 }"
done <<END
--reducer after-backward
--reducer per-gradient
--bucket-cap-mb 25 --no-overlap
--bucket-cap-mb 25
--bucket-cap-mb 1 --no-overlap
--bucket-cap-mb 1
END
