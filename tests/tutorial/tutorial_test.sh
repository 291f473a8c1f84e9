#!/usr/bin/env bash
# Tests of the `tutorial` script: tutorial_test.sh NAME runs one function, without a name all of them.
# Each works on a copy of the script in a folder of its own, with stand-ins for apt, dpkg, sudo, cmake and ctest, and
# a PATH that has nothing but these and a few basic tools: nothing is installed or built.
set -uo pipefail
source_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd -P)
. "$source_dir/tests/tutorial/stand_ins.sh"

test_unknown_command() {
  call frob
  expect_status 2
  expect_in err "unknown command 'frob'" "usage: ./tutorial"
  expect_empty out
}

test_without_a_command_prints_the_help() {
  call
  expect_status 0
  expect_in out "usage: ./tutorial"
}

test_help_on_every_command() {
  local name
  for name in run test doctor compare start check hint solution progress; do
    call "$name" --help
    expect_status 0
    expect_in out "./tutorial $name"
    call help "$name"
    expect_status 0
    expect_in out "./tutorial $name"
  done
  call help frob
  expect_status 2
  expect_not_called apt-get cmake
}

test_missing_chapter_names_those_that_exist() {
  local number
  for number in 99 00 7x 123; do
    call run $number --max-steps 3
    expect_status 2
    expect_in err "chapter" "01_single_device"
  done
  call run first
  expect_status 2
  expect_in err "'first'" "01_single_device"
  expect_not_called apt-get cmake
}

test_workshop_commands_go_to_their_program() {
  stand_in python3 <<<'shift 2
echo "workshop$(printf " <%s>" "$@")" >>"$stand_in_log"
[ "$1" != started ] || { [ ! -e "$stand_in_state/not_started" ] || exit 1; echo 02; }'
  call start 02 --force
  expect_status 0
  expect_in log "workshop <start> <02> <--force>"
  call check 2 3
  expect_status 0
  expect_in log "workshop <started> <2> <3>" "--target workshop_02" "workshop <check> <2> <3> <--program> <build/release/bin/workshop_02>"
  call solution 02 --yes
  expect_in log "workshop <solution> <02> <--yes>"
  touch "$stand_in_state/compile_error"
  call check 02
  expect_status 1
  expect_in err "main.cpp:7: error: expected" "your copy does not compile"
  : >"$sandbox/log"
  touch "$stand_in_state/not_started"
  call check 02
  expect_status 1
  expect_not_called cmake
}

test_workshop_commands_need_a_chapter_and_python() {
  local name
  for name in start check hint solution; do
    call "$name"
    expect_status 2
    expect_in err "$name needs a chapter"
  done
  call progress
  expect_status 1
  expect_in err "python3"
}

test_run_passes_options_on() {
  mkdir "$sandbox/elsewhere"
  call_from "$sandbox/elsewhere" run 01 --max-steps 20 "two words" --help
  expect_status 0
  expect_in out "program 01_single_device" "<--max-steps> <20> <two words> <--help>" "in $sandbox/elsewhere" "OMP_WAIT_POLICY=passive"
  # stdout is the program's alone
  [ "$(wc -l <"$sandbox/out")" = 1 ] || problem "more than the program's line on stdout"
  call run 1
  expect_status 0
  expect_in out "program 01_single_device"
}

test_run_keeps_the_users_environment() {
  OMP_WAIT_POLICY=active call run 01
  expect_in out "OMP_WAIT_POLICY=active"
}

test_run_with_nproc_goes_through_the_launcher() {
  local program=$copy/build/release/bin/01_single_device
  call run 01 --epochs 2 --nproc 3 --no-prefix --seed 4
  expect_status 0
  expect_in out "program launch" "<--nproc> <3> <--no-prefix> <--> <$program> <--epochs> <2> <--seed> <4>"
  call run 01 --nproc=3
  expect_in out "<--nproc> <3> <--> <$program>"
  # without its number it is for the launcher to complain
  call run 01 --nproc
  expect_in out "<--nproc> <--> <$program>"
}

test_run_returns_the_programs_status() {
  echo 3 >"$stand_in_state/program_status"
  call run 01
  expect_status 3
}

test_run_without_a_chapter_is_the_tour() {
  call run
  expect_status 0
  expect_in out "program tour <>"
  expect_in log "--target tour"
  call run --yes --devices 2 --break no-all-reduce
  expect_in out "program tour" "<--devices> <2> <--break> <no-all-reduce>"
  expect_not_in out "<--yes>"
  echo 1 >"$stand_in_state/program_status"
  call run
  expect_status 1
}

test_test_passes_options_and_status_on() {
  call test --yes -L unit -R "a b"
  expect_status 0
  expect_in log "ctest --test-dir build/release" "<-L> <unit> <-R> <a b>"
  echo 8 >"$stand_in_state/ctest_status"
  call test
  expect_status 8
  call test --preset asan
  expect_in log "cmake --preset asan" "--test-dir build/asan"
}

test_missing_packages_are_installed_without_questions() {
  rm "$stand_in_state/installed"
  call run 01
  expect_status 0
  expect_in err "Missing packages" "libdnnl-dev: oneDNN" "g++: C++20 compiler"
  expect_in log "apt-get" "install" "libgloo-dev"
  expect_not_in log "python3-torch" "apt-get update"
  : >"$sandbox/log"
  call run 01
  expect_not_called apt-get apt-cache sudo
}

test_update_only_when_a_package_is_unknown() {
  grep -v fmt "$stand_in_state/installed" >"$stand_in_state/few" && mv "$stand_in_state/few" "$stand_in_state/installed"
  touch "$stand_in_state/needs_update"
  call run 01
  expect_status 0
  expect_in log "<update>" "libfmt-dev"
  expect_not_in log "zlib1g-dev"
}

test_a_failed_download_is_tried_again_after_an_update() {
  rm "$stand_in_state/installed"
  touch "$stand_in_state/old_lists"
  call run 01
  expect_status 0
  expect_in log "<update>"
}

test_test_packages_may_be_missing() {
  printf 'python3-torch\nopenmpi-bin\n' >"$stand_in_state/unknown"
  grep -vE 'torch|openmpi|iproute' "$stand_in_state/installed" >"$stand_in_state/few" && mv "$stand_in_state/few" "$stand_in_state/installed"
  call test
  expect_status 0
  expect_in err "Not in this distribution" "python3-torch"
  expect_in log "iproute2" "ctest"
  : >"$sandbox/log"
  call test
  expect_not_called apt-get
}

test_needed_packages_may_not_be_missing() {
  echo libgloo-dev >"$stand_in_state/unknown"
  rm "$stand_in_state/installed"
  call run 01
  expect_status 1
  expect_in err "no package named: libgloo-dev"
  expect_not_called cmake
}

test_install_that_fails_says_what_to_do() {
  rm "$stand_in_state/installed"
  touch "$stand_in_state/broken_apt"
  call run 01
  expect_status 1
  expect_in err "no space left" "apt-get install g++" "--no-install"
  expect_not_called cmake
}

test_without_root_and_sudo() {
  rm "$stand_in_state/installed" "$bin/sudo"
  echo 1000 >"$stand_in_state/id"
  call run 01
  expect_status 1
  expect_in err "needs root" "apt-get install g++" "--no-install"
  call run --no-install 01
  expect_status 0
}

test_sudo_that_wants_a_password_is_not_waited_for() {
  rm "$stand_in_state/installed"
  echo 1000 >"$stand_in_state/id"
  touch "$stand_in_state/sudo_wants_password"
  call run 01
  expect_status 1
  expect_in err "needs root"
}

test_sudo_is_used() {
  rm "$stand_in_state/installed"
  echo 1000 >"$stand_in_state/id"
  call run 01
  expect_status 0
  expect_in log "sudo <-n> <env>"
}

test_other_systems_are_told_the_names() {
  rm "$bin/apt-get" "$bin/dpkg-query"
  call run 01
  expect_status 0
  expect_in err "not a Debian or Ubuntu system" "libdnnl-dev"
  call run 01
  expect_not_in err "Debian"
}

test_a_terminal_is_asked() {
  command -v script >/dev/null || { echo "SKIPPED: no script(1)"; exit 77; }
  rm "$stand_in_state/installed"
  call_on_terminal n run 01
  expect_status 1
  expect_in out "Install them with apt-get?" "apt-get install g++"
  expect_not_called apt-get cmake
  call_on_terminal y run 01
  expect_status 0
  expect_in log "<install>" "libdnnl-dev"
  rm "$stand_in_state/installed"
  call_on_terminal n run 01 --yes
  expect_status 0
  expect_not_in out "Install them with apt-get?"
}

test_nothing_is_built_twice_or_configured_twice() {
  call run 01
  call run 01
  [ "$(grep -c 'cmake --preset' "$sandbox/log")" = 1 ] || problem "configured more than once"
}

test_configuring_that_fails_is_shown_and_tried_again() {
  touch "$stand_in_state/configure_error"
  call run 01
  expect_status 1
  expect_in err "Libraries are missing" "doctor"
  rm "$stand_in_state/configure_error"
  call run 01
  expect_status 0
}

test_compiler_errors_are_shown() {
  touch "$stand_in_state/compile_error"
  call run 01
  expect_status 1
  expect_in err "main.cpp:7: error: expected" "build/release.build.log"
  expect_not_in err "compiled fine"
  expect_empty out
}

test_moved_clone_is_configured_anew() {
  call run 01
  mv "$copy" "$sandbox/moved"
  copy=$sandbox/moved
  : >"$sandbox/log"
  call run 01
  expect_status 0
  expect_in err "made for another folder"
  expect_in log "cmake --preset release"
  expect_in out "program 01_single_device"
}

test_a_signal_ends_the_build_and_all_its_processes() {
  local signal status
  for signal in INT TERM; do
    : >"$stand_in_state/slow"
    # A shell's background job ignores SIGINT; a process group of its own does not.
    set -m
    call_in_background run 01
    set +m
    wait_for "$stand_in_state/slow_pid"
    kill -"$signal" "$tutorial_pid"
    wait "$tutorial_pid"
    status=$?
    [ "$status" = 130 ] || [ "$status" = 143 ] || problem "$signal: status $status"
    sleep 0.3
    ! is_running "$(cat "$stand_in_state/slow_pid")" || problem "$signal: the compiler is still running"
    rm -f "$stand_in_state/slow" "$stand_in_state/slow_pid"
  done
}

test_a_second_build_in_the_clone_waits_for_the_first() {
  mkdir -p "$copy/build"
  flock "$copy/build/lock" sh -c "touch $sandbox/held; sleep 1; touch $sandbox/released" &
  wait_for "$sandbox/held"
  call run 01
  expect_status 0
  expect_in err "Another ./tutorial is building"
  expect_in out "program 01_single_device"
  [ -e "$sandbox/released" ] || problem "did not wait"
  call run 01
  expect_not_in err "Another ./tutorial is building"
}

test_unknown_presets() {
  local name
  for name in "" ../release Release; do
    call test --preset "$name"
    expect_status 2
    expect_in err "no build named" "asan"
  done
  expect_not_called cmake
}

test_a_clone_that_cannot_be_written() {
  [ "$(id -u)" != 0 ] || { chmod 777 "$sandbox" "$sandbox"/*; chmod -R a+rX "$sandbox"; }
  command -v setpriv >/dev/null || { echo "SKIPPED: no setpriv(1)"; exit 77; }
  [ "$(id -u)" = 0 ] || { echo "SKIPPED: needs root"; exit 77; }
  chmod 755 "$copy"
  status=0
  (cd "$sandbox" && setpriv --reuid 65534 --regid 65534 --clear-groups env PATH="$bin" "$copy/tutorial" run 01 </dev/null >"$sandbox/out" 2>"$sandbox/err") || status=$?
  expect_status 1
  expect_in err "error: no permission to write in $copy"
}

test_a_folder_that_is_gone() {
  mkdir "$sandbox/gone"
  status=0
  (cd "$sandbox/gone" && rmdir "$sandbox/gone" && env PATH="$bin" "$copy/tutorial" run 01 </dev/null >"$sandbox/out" 2>"$sandbox/err") || status=$?
  expect_status 1
  expect_in err "error: " "not there any more"
}

test_doctor_says_what_is_missing() {
  call doctor
  expect_status 1
  expect_in out "MISSING   compiler" "apt-get install g++" "GPU" "PyTorch" "MNIST"
  call doctor now
  expect_status 2
  expect_not_called apt-get
}

run_tests "$@"
