# Stand-ins and checks for tutorial_test.sh.

# A tool of the stand-in PATH: stand_in NAME <script
stand_in() { { echo "#!/bin/bash"; cat; } >"$bin/$1" && chmod +x "$bin/$1"; }

set_up() {
  sandbox=$(mktemp -d)
  sandbox=$(cd "$sandbox" && pwd -P)
  copy=$sandbox/clone bin=$sandbox/bin
  export stand_in_state=$sandbox/state stand_in_log=$sandbox/log
  mkdir -p "$copy/chapters/01_single_device" "$copy/tools" "$bin" "$stand_in_state"
  cp "$source_dir/tutorial" "$copy/"
  cp -r "$source_dir/tools/tutorial" "$copy/tools/"
  touch "$copy/chapters/01_single_device/main.cpp" "$stand_in_log"
  local tool
  for tool in awk basename bash cat chmod cp cut date dirname env flock getconf grep gzip head kill ls mkdir mv nproc readlink rm sed \
    sleep sort stat tail timeout touch tr true wc; do
    ln -s "$(type -P $tool)" "$bin/$tool"
  done
  (
    . "$source_dir/tools/tutorial/packages.sh"
    package_names run
    package_names test
  ) >"$stand_in_state/installed"

  stand_in id <<<'cat "$stand_in_state/id" 2>/dev/null || echo 0'
  stand_in sudo <<<'echo "sudo$(printf " <%s>" "$@")" >>"$stand_in_log"
[ "$1" = -n ] && shift
[ ! -e "$stand_in_state/sudo_wants_password" ] || exit 1
exec "$@"'
  stand_in dpkg-query <<<'sed "s/^/installed /" "$stand_in_state/installed" 2>/dev/null'
  stand_in apt-cache <<<'echo "apt-cache $*" >>"$stand_in_log"
shift
for name in "$@"; do
  if [ -e "$stand_in_state/needs_update" ] || grep -qx "$name" "$stand_in_state/unknown" 2>/dev/null; then continue; fi
  printf "%s:\n  Installed: (none)\n  Candidate: 1.0\n" "$name"
done'
  stand_in apt-get <<<'echo "apt-get$(printf " <%s>" "$@")" >>"$stand_in_log"
[ ! -e "$stand_in_state/broken_apt" ] || { echo "no space left"; exit 100; }
case "$*" in
  *update*) rm -f "$stand_in_state/needs_update" "$stand_in_state/old_lists" ;;
  *install*)
    [ ! -e "$stand_in_state/old_lists" ] || { echo "404 not found"; exit 100; }
    printf "%s\n" "$@" >>"$stand_in_state/installed" ;;
esac'
  stand_in ninja </dev/null
  stand_in cmake <<<'echo "cmake $*" >>"$stand_in_log"
if [ "$1" = --version ]; then
  echo "cmake version 3.25.1"
elif [ "$1" = --preset ]; then
  [ ! -e "$stand_in_state/configure_error" ] || { echo "Libraries are missing"; exit 1; }
  mkdir -p "build/$2/bin"
  printf "CMAKE_HOME_DIRECTORY:INTERNAL=%s\nCMAKE_CACHEFILE_DIR:INTERNAL=%s\n" "$PWD" "$PWD/build/$2" >"build/$2/CMakeCache.txt"
  touch "build/$2/build.ninja"
elif [ -e "$stand_in_state/compile_error" ]; then
  printf "[1/2] compiled fine\nFAILED: main.o\nmain.cpp:7: error: expected something\n"
  for i in {1..20000}; do echo "note: and more about it"; done
  exit 1
elif [ -e "$stand_in_state/slow" ]; then
  sleep 60 &
  echo $! >"$stand_in_state/slow_pid.new"
  mv "$stand_in_state/slow_pid.new" "$stand_in_state/slow_pid"
  wait
else
  dir=$2
  while [ $# -gt 0 ] && [ "$1" != --target ]; do shift; done
  shift || exit 1
  for target in "$@"; do
    cat >"$dir/bin/$target" <<"PROGRAM"
#!/bin/bash
echo "program $(basename "$0")$(printf " <%s>" "$@") in $PWD OMP_WAIT_POLICY=$OMP_WAIT_POLICY"
exit "$(cat "$stand_in_state/program_status" 2>/dev/null || echo 0)"
PROGRAM
    chmod +x "$dir/bin/$target"
  done
fi'
  stand_in ctest <<<'echo "ctest $1 $2$(printf " <%s>" "${@:3}")" >>"$stand_in_log"
exit "$(cat "$stand_in_state/ctest_status" 2>/dev/null || echo 0)"'
}

call_from() {
  local folder=$1
  shift
  status=0
  (cd "$folder" && env PATH="$bin" "$copy/tutorial" "$@" </dev/null >"$sandbox/out" 2>"$sandbox/err") || status=$?
}
call() { call_from "$copy" "$@"; }

call_in_background() {
  env PATH="$bin" "$copy/tutorial" "$@" </dev/null >"$sandbox/out" 2>"$sandbox/err" &
  tutorial_pid=$!
}

# call_on_terminal ANSWER arguments…: what appears on the terminal is in `out`.
call_on_terminal() {
  local answer=$1
  shift
  status=0
  echo "$answer" | script -qec "env PATH=$bin $copy/tutorial $*" /dev/null >"$sandbox/out" 2>&1 || status=$?
}

# A process that has ended but was not waited for yet does not count.
is_running() { [ -e "/proc/$1" ] && ! grep -q '^State:.*zombie' "/proc/$1/status" 2>/dev/null; }

wait_for() {
  local i
  for i in $(seq 100); do
    [ ! -e "$1" ] || return 0
    sleep 0.1
  done
  problem "$1 did not appear"
}

problem() {
  echo "    $1"
  failed=1
}
expect_status() { [ "$status" = "$1" ] || problem "exit status $status instead of $1; stderr: $(tail -n 3 "$sandbox/err")"; }
expect_empty() { [ ! -s "$sandbox/$1" ] || problem "$1 is not empty: $(head -n 3 "$sandbox/$1")"; }
expect_in() {  # FILE text…
  local file=$1 text
  shift
  for text in "$@"; do
    grep -qF -- "$text" "$sandbox/$file" || problem "'$text' is not in $file: $(head -c 600 "$sandbox/$file")"
  done
}
expect_not_in() {
  local file=$1 text
  shift
  for text in "$@"; do
    ! grep -qF -- "$text" "$sandbox/$file" || problem "'$text' is in $file"
  done
}
expect_not_called() {
  local tool
  for tool in "$@"; do
    ! grep -q "^$tool " "$stand_in_log" || problem "$tool was called: $(grep -m 1 "^$tool " "$stand_in_log")"
  done
}

run_tests() {
  local names name result=0
  if [ $# -gt 0 ]; then names="$*"; else names=$(declare -F | sed -n 's/^declare -f \(test_.*\)/\1/p'); fi
  for name in $names; do
    declare -F "$name" >/dev/null || { echo "no test named $name"; exit 2; }
    failed=0
    set_up
    "$name"
    rm -rf "$sandbox"
    if [ "$failed" = 0 ]; then echo "ok      $name"; else echo "FAILED  $name" && result=1; fi
  done
  exit $result
}
