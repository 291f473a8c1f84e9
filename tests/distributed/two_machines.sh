#!/bin/bash
# Two machines, imitated by two network namespaces with a cable (a veth pair) between them:
#   two_machines.sh BIN_DIR DATA_DIR losses     2 ranks on each have the losses of 4 ranks on one machine
#   two_machines.sh BIN_DIR DATA_DIR link-down  the cable is pulled in mid-training: every rank ends with an error within its time limit
# The ranks are started by hand, with torch.distributed's variables. Exits 77 where namespaces cannot be made.
set -u
bin=$1 data=$2 scenario=$3
work=$(mktemp -d)
first=mddp-a-$$ second=mddp-b-$$
pids=()

# Called by trap only.
clean_up() {
  for pid in "${pids[@]}"; do kill -9 "$pid" 2>/dev/null; done
  wait 2>/dev/null
  ip netns del "$first" 2>/dev/null
  ip netns del "$second" 2>/dev/null
  rm -rf "$work"
}
trap clean_up EXIT

skip() { echo "skipped: $1"; exit 77; }
fail() { echo "FAILED: $1"; tail -n 5 "$work"/*.log 2>/dev/null; exit 1; }

command -v ip >/dev/null || skip "no ip command (package iproute2)"
ip netns add "$first" 2>"$work/why" || skip "network namespaces cannot be made here: $(cat "$work/why")"
ip netns add "$second" && ip -n "$first" link add cable type veth peer name cable netns "$second" 2>"$work/why" ||
  skip "veth pairs cannot be made here: $(cat "$work/why")"
ip -n "$first" addr add 10.213.7.1/24 dev cable && ip -n "$second" addr add 10.213.7.2/24 dev cable || fail "addresses"
for machine in "$first" "$second"; do ip -n "$machine" link set lo up && ip -n "$machine" link set cable up || fail "links"; done

# rank RANK LOCAL_RANK WORLD_SIZE MASTER_ADDR LOG [options]: starts a rank, in the namespace named by $machine.
rank() {
  local rank=$1 local_rank=$2 world=$3 master=$4 log=$5
  shift 5
  ip netns exec "$machine" env OMP_WAIT_POLICY=passive RANK="$rank" LOCAL_RANK="$local_rank" WORLD_SIZE="$world" \
    MASTER_ADDR="$master" MASTER_PORT=29517 \
    "$bin/05_distributed_data_parallel" --data "$data" --device cpu --threads 1 --model article_a --seed 3 "$@" >"$work/$log" 2>&1 &
  pids+=($!)
}
four_on_two_machines() {
  pids=()
  machine=$first
  rank 0 0 4 10.213.7.1 0.log "$@"
  rank 1 1 4 10.213.7.1 1.log "$@"
  machine=$second
  rank 2 0 4 10.213.7.1 2.log "$@"
  rank 3 1 4 10.213.7.1 3.log "$@"
}
# Waits for all ranks, at most $1 seconds; their exit codes are then in `codes`.
wait_for_all() {
  local end=$((SECONDS + $1)) pid
  for pid in "${pids[@]}"; do
    while kill -0 "$pid" 2>/dev/null; do
      [ "$SECONDS" -lt "$end" ] || fail "a rank still runs after $1 s"
      sleep 0.1
    done
  done
  codes=()
  for pid in "${pids[@]}"; do wait "$pid"; codes+=($?); done
  pids=()
}

case $scenario in
losses)
  for backend in gloo ring; do
    four_on_two_machines --backend $backend --max-steps 8 --quiet --loss-csv "$work/two.csv"
    wait_for_all 90
    [ "${codes[*]}" = "0 0 0 0" ] || fail "two machines, $backend: exit codes ${codes[*]}"
    machine=$first
    for r in 0 1 2 3; do rank $r $r 4 127.0.0.1 one-$r.log --backend $backend --max-steps 8 --quiet --loss-csv "$work/one.csv"; done
    wait_for_all 90
    [ "${codes[*]}" = "0 0 0 0" ] || fail "one machine, $backend: exit codes ${codes[*]}"
    [ "$(wc -l <"$work/one.csv")" = 9 ] || fail "expected 8 losses and a header"
    cmp "$work/one.csv" "$work/two.csv" || fail "$backend: two machines have other losses than one"
    echo "$backend: 2 ranks on each of two machines have the losses of 4 on one, digit for digit:"
    tail -n 1 "$work/two.csv"
    rm "$work/one.csv" "$work/two.csv"
  done
  ;;
link-down)
  four_on_two_machines --epochs 50 --log-interval 1 --timeout 4
  end=$((SECONDS + 60))
  until grep -q "Train Epoch: 1 \[[1-9]" "$work/0.log"; do
    [ "$SECONDS" -lt "$end" ] || fail "training did not begin"
    sleep 0.1
  done
  ip -n "$first" link set cable down
  start=$SECONDS
  wait_for_all 20
  for r in 0 1 2 3; do
    [ "${codes[$r]}" = 1 ] || fail "rank $r: exit code ${codes[$r]}, expected 1"
    grep -q "^error: " "$work/$r.log" || fail "rank $r: no error message"
    echo "rank $r: $(grep "^error: " "$work/$r.log" | head -n 1 | cut -c 1-160)"
  done
  echo "all ranks ended within $((SECONDS - start)) s; their limit was 4 s"
  ;;
*)
  echo "usage: two_machines.sh BIN_DIR DATA_DIR losses|link-down" >&2
  exit 2
  ;;
esac
