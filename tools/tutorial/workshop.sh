# The workshop's commands. tools/workshop/workshop.py does the work; here is only what must be built for it.

workshop_help() {
  case $1 in
    start) cat <<'TEXT' ;;
usage: ./tutorial start NN [--force] [--mine]

Writes your copy of chapter NN's files with tasks to workshop/: the code of each task is left out.
  --force   begin anew; what is there is kept in workshop/backup
  --mine    build on your own files of the chapters before, instead of the project's
TEXT
    check) cat <<'TEXT' ;;
usage: ./tutorial check NN [k] [--emulated]

Builds your copy of chapter NN, runs the tests of its tasks (or of task k alone) and says what is still wrong.
Exit status 0 only if all passed.
  --emulated  kernels on the emulator, even where there is a GPU: it finds races that a GPU may hide
TEXT
    hint) cat <<'TEXT' ;;
usage: ./tutorial hint NN [k]

The next of three hints: for task k, or for the first one that has not passed.
TEXT
    solution) cat <<'TEXT' ;;
usage: ./tutorial solution NN [k] [--yes]

Shows how the solution differs from your code. Asks first; without a terminal it needs --yes.
TEXT
    progress) cat <<'TEXT' ;;
usage: ./tutorial progress

All tasks, and how far you are.
TEXT
  esac
}

workshop() {
  have python3 || fail "the workshop needs python3, which was not found." "Install it (Debian: apt-get install python3) and run this again."
  python3 -B tools/workshop/workshop.py "$@"
}

# Shows the compiler's errors, with the learner's file as it is named in the repository.
show_compile_errors() {
  grep -E 'error:|undefined reference|multiple definition' "$1" | sed -e "s|$root/||g" -e "s|\.\./\.\./workshop/|workshop/|g" | head -n 20 >&2 || true
  grep -qE 'error:|undefined reference|multiple definition' "$1" || tail -n 40 "$1" >&2
}

command_check() {
  local chapter preset=release log=build/check.log words=() word
  for word in "$@"; do
    if [ "$word" = --emulated ]; then preset=emulated; else words+=("$word"); fi
  done
  [ ${#words[@]} -gt 0 ] || fail_usage "check needs a chapter, such as: ./tutorial check 02"
  chapter=$(workshop started "${words[@]}") || exit $?
  set_up run
  configure "$preset"
  if ! run_quietly "building your chapter $chapter" "$log" cmake --build "build/$preset" --parallel "$(parallel_jobs)" --target "workshop_$chapter"; then
    show_compile_errors "$log"
    fail "your copy does not compile (whole output: $log)."
  fi
  workshop check "${words[@]}" --program "build/$preset/bin/workshop_$chapter"
}

command_workshop() {
  local name=$1
  shift
  case ${1:-} in --help | -h) workshop_help "$name"; return ;; esac
  if [ $# -eq 0 ] && [ "$name" != progress ]; then
    fail_usage "$name needs a chapter, such as: ./tutorial $name 02"
  fi
  case $name in
    check) command_check "$@" ;;
    solution) if [ "$assume_yes" = 1 ]; then workshop solution "$@" --yes; else workshop solution "$@"; fi ;;
    *) workshop "$name" "$@" ;;
  esac
}
