# Messages of ./tutorial, and commands that run quietly. Our own words go to stderr: stdout belongs to the programs.

assume_yes=0
may_install=1

say() { printf '%s\n' "$*" >&2; }

fail() {
  printf 'error: %s\n' "$1" >&2
  shift
  [ $# -eq 0 ] || printf '%s\n' "$@" >&2
  exit 1
}

fail_usage() {
  (fail "$@") || exit 2
}

usage_error() {
  printf 'error: %s\n\n' "$1" >&2
  usage >&2
  exit 2
}

have() { command -v "$1" >/dev/null 2>&1; }

on_terminal() { [ -t 0 ] && [ -t 2 ]; }

# True if the user agrees, or cannot be asked.
agreed() {
  local answer
  if [ "$assume_yes" = 1 ] || ! on_terminal; then return 0; fi
  read -r -p "$1 [Y/n] " answer || return 1
  case $answer in "" | [yY]*) return 0 ;; *) return 1 ;; esac
}

child=

stop_child() {
  [ -z "$child" ] || kill -TERM -- "-$child" 2>/dev/null || true
  child=
}

# One line about a running build, rewritten in place: "building … 12/80".
show_progress() {
  local last
  last=$(tail -c 4000 "$2" 2>/dev/null | grep -oE '^\[ *[0-9]+(/[0-9]+|%)\]' | tail -n 1) || true
  printf '\r\033[K%s … %s' "$1" "$(tr -d '[] ' <<<"$last")" >&2
}

# run_quietly WHAT LOG command…: the command's output goes to LOG; returns its exit status. The command gets a
# process group of its own, so that Ctrl-C or a termination signal ends all of it.
run_quietly() {
  local what=$1 log=$2 begin=$SECONDS status=0
  shift 2
  mkdir -p "$(dirname "$log")"
  trap 'stop_child; exit 130' INT
  trap 'stop_child; exit 143' TERM HUP
  set -m
  "$@" >"$log" 2>&1 </dev/null &
  child=$!
  set +m
  if [ -t 2 ]; then
    while kill -0 "$child" 2>/dev/null; do
      show_progress "$what" "$log"
      sleep 0.2
    done
    printf '\r\033[K' >&2
  else
    say "$what …"
  fi
  wait "$child" || status=$?
  child=
  trap - INT TERM HUP
  [ "$status" -ne 0 ] || say "$what: done in $((SECONDS - begin)) s"
  return "$status"
}
