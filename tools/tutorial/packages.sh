# What the project needs from the distribution, and how it gets installed.

# For whom, name: what it is for. "test" packages are only for ./tutorial test; where the distribution lacks one, or
# it cannot be installed, the tests that need it are skipped and say so.
packages=(
  "run g++: C++20 compiler"
  "run cmake: build system"
  "run ninja-build: runs the build"
  "run pkg-config: finds libraries"
  "run libdnnl-dev: oneDNN, convolutions and matrix products on the CPU"
  "run ocl-icd-opencl-dev: OpenCL, which oneDNN of Debian 12 is built with"
  "run libfmt-dev: text formatting"
  "run libcli11-dev: command-line options"
  "run nlohmann-json3-dev: JSON"
  "run zlib1g-dev: reads the gzipped MNIST files"
  "run libstb-dev: reads and writes pictures"
  "run catch2: test framework"
  "run libbenchmark-dev: micro-benchmarks"
  "run libgloo-dev: communication between processes"
  "run libboost-context-dev: fibers for the CUDA emulator"
  "run libopenblas-dev: matrix products for the CUDA emulator"
  "run python3: small tools and reference programs"
  "test python3-torch: PyTorch, which our losses are compared with"
  "test python3-numpy: arrays for the reference programs"
  "test openmpi-bin: mpirun, one of the launchers that chapter 05 understands"
  "test libopenmpi-dev: MPI headers"
  "test iproute2: separate network addresses for tests with several machines"
)
setup_log=build/setup.log
# Names of test packages that this distribution does not have; looked for again after the next apt-get update.
unavailable_list=build/unavailable_packages

# package_names run|test: the names of one kind.
package_names() {
  local line
  for line in "${packages[@]}"; do
    case $line in "$1 "*) line=${line#* }; echo "${line%%:*}" ;; esac
  done
}

# Of the names on stdin, those that are not installed.
not_installed() {
  local names installed
  mapfile -t names
  installed=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' "${names[@]}" 2>/dev/null | sed -n 's/^installed //p') || true
  printf '%s\n' "${names[@]}" | grep -vxF -- "${installed:-/}" || true
}

# Of the names on stdin, those that apt does not know.
without_candidate() {
  local names known
  mapfile -t names
  known=$(LC_ALL=C apt-cache policy "${names[@]}" 2>/dev/null |
    awk '/^[^ ]/ { name = $1; sub(":$", "", name) } /^  Candidate:/ && $2 != "(none)" { print name }')
  printf '%s\n' "${names[@]}" | grep -vxF -- "${known:-/}" || true
}

# How to become root, as words before a command: nothing, "sudo" or "sudo -n". Fails where there is no way.
root_words() {
  if [ "$(id -u)" = 0 ]; then return 0; fi
  have sudo || return 1
  if on_terminal; then
    echo sudo
  else
    sudo -n true 2>/dev/null || return 1
    echo sudo -n
  fi
}

apt() {
  local words=(env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=120 "$@")
  # Without a terminal the details go to a log; on one, apt shows its own progress.
  if on_terminal; then
    $become_root "${words[@]}"
  else
    run_quietly "apt-get $1" "$setup_log" $become_root "${words[@]}"
  fi
}

updated=0
apt_update() {
  [ "$updated" = 0 ] || return 0
  updated=1
  apt update
}

# apt_install names…; an old list of packages is a common reason to fail, so it is renewed once.
apt_install() {
  apt install -y --no-install-recommends "$@" || { [ "$updated" = 0 ] && apt_update && apt install -y --no-install-recommends "$@"; }
}

show_setup_log() { on_terminal || tail -n 15 "$setup_log" >&2 || true; }

by_hand() {
  say "Install by hand and run this again:"
  say "    apt-get install $*"
  say "or go on with what is there: --no-install"
}

not_debian() {
  # Said once, before the first build; after that the build itself knows what it found.
  [ -f build/release/build.ninja ] || [ -f build/release/Makefile ] && return 0
  say "This is not a Debian or Ubuntu system, so nothing is installed for you. The project needs (names as in Debian):"
  package_names run | tr '\n' ' ' >&2
  say
}

# set_up run|test: after this the packages are installed, or the script has ended with a reason.
set_up() {
  local needed=() extra=() unknown=() name line
  [ "$may_install" = 1 ] || return 0
  if ! have dpkg-query || ! have apt-get; then
    not_debian
    return 0
  fi
  mapfile -t needed < <(package_names run | not_installed)
  if [ "$1" = test ]; then
    mapfile -t extra < <(package_names test | not_installed | known_unavailable)
  fi
  [ ${#needed[@]} -gt 0 ] || [ ${#extra[@]} -gt 0 ] || return 0

  say "Missing packages:"
  for name in "${needed[@]}" "${extra[@]}"; do
    for line in "${packages[@]}"; do
      case $line in *" $name:"*) say "    ${line#* }" ;; esac
    done
  done
  if ! become_root=$(root_words); then
    say "Installing them needs root, and there is no sudo that works without asking for a password here."
    by_hand "${needed[@]}" "${extra[@]}"
    [ ${#needed[@]} -eq 0 ] || exit 1
    return 0
  fi
  if ! agreed "Install them with apt-get?"; then
    by_hand "${needed[@]}" "${extra[@]}"
    [ ${#needed[@]} -eq 0 ] || exit 1
    return 0
  fi
  mapfile -t unknown < <(printf '%s\n' "${needed[@]}" "${extra[@]}" | grep . | without_candidate)
  [ ${#unknown[@]} -eq 0 ] || apt_update || { show_setup_log; fail "apt-get update failed." "Check the network and /etc/apt, then run this again."; }

  if [ ${#needed[@]} -gt 0 ]; then
    mapfile -t unknown < <(printf '%s\n' "${needed[@]}" | without_candidate)
    [ ${#unknown[@]} -eq 0 ] || fail "this distribution has no package named: ${unknown[*]}" \
      "The project is made for Debian 12, Debian 13 and recent Ubuntu (there with the 'universe' component)."
    if ! apt_install "${needed[@]}"; then
      show_setup_log
      say "error: apt-get could not install the packages."
      by_hand "${needed[@]}"
      exit 1
    fi
  fi
  [ ${#extra[@]} -eq 0 ] || install_extra "${extra[@]}"
  must_configure=1
}

# Drops the names that this distribution is known not to have.
known_unavailable() {
  if [ -f "$unavailable_list" ] && [ "$unavailable_list" -nt /var/lib/apt/lists ]; then
    grep -vxF -f "$unavailable_list" || true
  else
    cat
  fi
}

# Packages that only some tests need: a failure is told, and those tests skip.
install_extra() {
  local unknown
  unknown=$(printf '%s\n' "$@" | without_candidate)
  mkdir -p build
  if [ -n "$unknown" ]; then
    say "Not in this distribution, tests that need it are skipped:" $unknown
    printf '%s\n' "$unknown" >"$unavailable_list"
  fi
  local names
  mapfile -t names < <(printf '%s\n' "$@" | grep -vxF -- "${unknown:-/}")
  [ ${#names[@]} -gt 0 ] || return 0
  apt_install "${names[@]}" || { show_setup_log; say "Could not install ${names[*]}: tests that need them are skipped."; }
}
