#!/bin/bash
# What buckets and overlap gain on a slow network: two network namespaces, a cable of 1 Gbit/s with 1 ms of latency between them (tc netem, or
# where the kernel has none the program `cable`), one rank of one thread in each, article B, batch 64. Milliseconds a step, from 15 steps: a
# run of 20 less a run of 5; medians over ROUNDS rounds.
#   tests/benchmarks/slow_network.sh [BUILD_FOLDER [ROUNDS]]       needs root, iproute2
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
build=${1:-$root/build/release}
rounds=${2:-3}
results=$(mktemp)
first=mddp-slow-a-$$ second=mddp-slow-b-$$
cable=
clean_up() {  # called by trap
  [ -z "$cable" ] || kill "$cable"
  ip netns del "$first" 2>/dev/null
  ip netns del "$second" 2>/dev/null
  rm -f "$results"
}
trap clean_up EXIT
ip netns add "$first"
ip netns add "$second"

if ip -n "$first" link add cable type veth peer name cable netns "$second" &&
  tc -n "$first" qdisc add dev cable root netem delay 1ms rate 1gbit limit 20000 2>/dev/null; then
  tc -n "$second" qdisc add dev cable root netem delay 1ms rate 1gbit limit 20000
  echo "cable: veth with tc netem" >&2
else
  ip -n "$first" link del cable 2>/dev/null || true
  exec {ready}< <("$build/bin/cable" "$first" "$second" 1000 1e9 & echo $!; wait)
  read -r -t 10 cable <&"$ready"
  read -r -t 10 word <&"$ready" && [ "$word" = ready ]
  for machine in "$first" "$second"; do ip -n "$machine" link set cable mtu 9000; done
  echo "cable: the program (this kernel has no netem)" >&2
fi
ip -n "$first" addr add 10.213.8.1/24 dev cable
ip -n "$second" addr add 10.213.8.2/24 dev cable
for machine in "$first" "$second"; do
  ip -n "$machine" link set lo up
  ip -n "$machine" link set cable up
done
ip netns exec "$first" ping -c 3 -i 0.2 -q 10.213.8.2 2>/dev/null | tail -n 1 >&2 || true

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

variants=("--reducer after-backward" "--reducer per-gradient" "--bucket-cap-mb 25 --no-overlap" "--bucket-cap-mb 25"
  "--bucket-cap-mb 1 --no-overlap" "--bucket-cap-mb 1")
for ((round = 1; round <= rounds; ++round)); do
  for options in "${variants[@]}"; do
    # shellcheck disable=SC2086
    short=$(seconds $options --max-steps 5) long=$(seconds $options --max-steps 20)
    awk "BEGIN { printf \"%s\t%.1f\n\", \"$options\", ($long - $short) / 15 * 1000 }" | tee -a "$results" >&2
  done
done
printf '\n%-32s %s\n' "medians of $rounds" "ms a step"
for options in "${variants[@]}"; do
  awk -F '\t' -v name="$options" '$1 == name { print $2 }' "$results" | sort -n |
    awk -v name="$options" '{ value[NR] = $1 } END { printf "%-32s %9.1f\n", name, value[int((NR + 1) / 2)] }'
done
