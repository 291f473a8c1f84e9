#!/usr/bin/env bash
# Does the README hold on a machine that has nothing? Makes a minimal Debian in a temporary folder, clones the last
# commit into it and runs the two commands of the README there, nothing else.
#   tests/fresh_machine.sh bookworm|trixie [--keep]
# As root, with debootstrap and git. All mounts and processes live in namespaces of their own and end with the script;
# --keep leaves the folder for a look. The base system (about 45 MB) is kept for a week in
# ${XDG_CACHE_HOME:-~/.cache}/miniddp. Mirror: that of this machine's apt, or DEBIAN_MIRROR.
set -euo pipefail

fail() { printf 'error: %s\n' "$@" >&2; exit 1; }

release=${1:-}
case $release in
  bookworm | trixie) ;;
  *) echo "usage: tests/fresh_machine.sh bookworm|trixie [--keep]" >&2; exit 2 ;;
esac
keep=
case ${2:-} in "") ;; --keep) keep=1 ;; *) echo "error: unknown option '$2'" >&2; exit 2 ;; esac
[ "$(id -u)" = 0 ] || fail "a new system can only be made by root: sudo $0 $*"
for tool in debootstrap git unshare; do
  command -v $tool >/dev/null || fail "$tool is needed: apt-get install debootstrap git util-linux"
done
project=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.." && pwd -P)
limit=${FRESH_MACHINE_LIMIT:-3600}  # seconds for each of the two commands

# The archive that this machine's apt uses; not the one with security updates, which has no base system.
find_mirror() {
  if [ -n "${DEBIAN_MIRROR:-}" ]; then echo "$DEBIAN_MIRROR"; return; fi
  apt-get indextargets --format '$(REPO_URI) $(COMPONENT)' 'Created-By: Packages' 2>/dev/null |
    awk '$2 == "main" && $1 ~ /\/debian\/?$/ { print $1; exit }'
}

# What apt needs to reach the network here: proxies, and whether dates are checked.
apt_settings() { apt-config dump 2>/dev/null | grep -E '^Acquire::(https?|ftp|Check)[^ ]* ' || true; }

make_base() {
  local mirror cache=${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/miniddp
  mirror=$(find_mirror)
  [ -n "$mirror" ] || fail "found no Debian archive in apt's sources; name one: DEBIAN_MIRROR=http://…/debian"
  local tarball=$cache/$release.tar
  mkdir -p "$cache"
  if [ -z "$(find "$tarball" -mtime -7 2>/dev/null)" ]; then
    debootstrap --variant=minbase --make-tarball="$tarball.new" "$release" "$work/download" "$mirror" >"$work/debootstrap.log" 2>&1 ||
      { tail -n 20 "$work/debootstrap.log" >&2; fail "debootstrap could not fetch $release."; }
    mv "$tarball.new" "$tarball"
  fi
  debootstrap --variant=minbase --unpack-tarball="$tarball" "$release" "$machine" "$mirror" >"$work/debootstrap.log" 2>&1 ||
    { tail -n 20 "$work/debootstrap.log" >&2; fail "debootstrap could not make $release."; }
  cp -L /etc/resolv.conf "$machine/etc/resolv.conf"
  # As every installed Debian: the machine knows its own name.
  printf '127.0.0.1 localhost\n127.0.1.1 %s\n' "$(hostname)" >"$machine/etc/hosts"
  apt_settings >"$machine/etc/apt/apt.conf.d/90from-host"
}

# in_machine WHAT command…: in the new system, without a terminal, with nothing of our environment but proxies.
in_machine() {
  local what=$1 begin=$SECONDS status=0 variable environment=()
  shift
  for variable in http_proxy https_proxy ftp_proxy no_proxy HTTP_PROXY HTTPS_PROXY NO_PROXY; do
    [ -z "${!variable:-}" ] || environment+=("$variable=${!variable}")
  done
  echo "== $release: $what"
  timeout --kill-after=10 "$limit" env -i "${environment[@]}" HOME=/root LANG=C.UTF-8 \
    PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    chroot "$machine" /bin/sh -c 'cd /root/miniddp && exec "$@"' sh "$@" </dev/null 2>&1 || status=$?
  echo "== $release: $what: status $status, $((SECONDS - begin)) s"
  return "$status"
}

# Runs inside the namespaces.
inside() {
  local begin=$SECONDS status=0
  mkdir -p "$machine"
  make_base
  echo "== $release: the empty system: $((SECONDS - begin)) s"
  mount -t proc proc "$machine/proc"
  mount -t devpts -o newinstance,ptmxmode=0666,mode=0620 devpts "$machine/dev/pts"
  mkdir -p "$machine/dev/shm"
  mount -t tmpfs -o mode=1777 tmpfs "$machine/dev/shm"
  git clone --quiet "file://$project" "$machine/root/miniddp"
  in_machine "./tutorial run" ./tutorial run || status=1
  in_machine "./tutorial test" ./tutorial test || status=1
  return "$status"
}

if [ -n "${FRESH_MACHINE_WORK:-}" ]; then
  work=$FRESH_MACHINE_WORK machine=$FRESH_MACHINE_WORK/machine
  inside
  exit
fi

[ -z "$(git -C "$project" status --porcelain 2>/dev/null)" ] || echo "Note: only what is committed is tried." >&2
work=$(mktemp -d "${TMPDIR:-/var/tmp}/miniddp-$release.XXXXXX")
child=
clean_up() {
  [ -z "$child" ] || { kill -KILL "$child" && wait "$child"; } 2>/dev/null || true
  if [ -n "$keep" ]; then
    echo "Kept: $work/machine"
  else
    rm -rf --one-file-system "$work"
  fi
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
# Killing unshare kills the first process of the new PID namespace, and with it every other one and all mounts.
FRESH_MACHINE_WORK=$work unshare --mount --pid --fork --kill-child "${BASH_SOURCE[0]}" "$release" &
child=$!
status=0
wait "$child" || status=$?
child=
[ "$status" = 0 ] && echo "== $release: passed" || echo "== $release: FAILED"
exit "$status"
