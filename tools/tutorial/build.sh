# Finds the chapters, configures and builds.

must_configure=0

# chapter_folder NN: "01_single_device", or nothing.
chapter_folder() {
  local folder
  [[ $1 =~ ^[0-9]{1,2}$ ]] || return 0
  for folder in chapters/"$(printf '%02d' "$((10#$1))")"_*/; do
    [ -f "$folder/main.cpp" ] && basename "$folder" && return 0
  done
  return 0
}

list_chapters() {
  local file
  echo "Chapters of this version:"
  for file in chapters/[0-9][0-9]_*/main.cpp; do
    echo "    $(basename "$(dirname "$file")")"
  done
}

# As many compilers at once as there are cores, and memory for (about 1.5 GB each).
parallel_jobs() {
  local cores memory
  if [ -n "${CMAKE_BUILD_PARALLEL_LEVEL:-}" ]; then
    echo "$CMAKE_BUILD_PARALLEL_LEVEL"
    return
  fi
  cores=$(nproc 2>/dev/null || getconf _NPROCESSORS_ONLN)
  memory=$(awk '/^MemAvailable:/ { print int($2 / 1500000) }' /proc/meminfo 2>/dev/null || true)
  memory=${memory:-$cores}
  [ "$memory" -ge 1 ] || memory=1
  echo $((cores < memory ? cores : memory))
}

cache_entry() { sed -n "s/^$2:[A-Z]*=//p" "$1/CMakeCache.txt" 2>/dev/null; }

# configure PRESET: makes build/PRESET ready. A folder that belongs to another place (the clone was moved or copied)
# is made anew.
configure() {
  local preset=$1 dir=build/$1 words
  if [ -f "$dir/CMakeCache.txt" ] && { ! [ "$(cache_entry "$dir" CMAKE_HOME_DIRECTORY)" -ef "$root" ] ||
    ! [ "$(cache_entry "$dir" CMAKE_CACHEFILE_DIR)" -ef "$dir" ]; }; then
    say "$dir was made for another folder: starting it anew."
    rm -rf "$dir"
  fi
  if [ "$must_configure" = 0 ] && { [ -f "$dir/build.ninja" ] || [ -f "$dir/Makefile" ]; }; then return 0; fi
  have cmake || fail "cmake was not found." "Install it (Debian: apt-get install cmake) and run this again."
  words=(cmake --preset "$preset")
  have ninja || words+=(-G "Unix Makefiles")
  if ! run_quietly "configuring" "$dir.configure.log" "${words[@]}"; then
    cat "$dir.configure.log" >&2
    fail "CMake could not configure the project (its words are above)." "./tutorial doctor tells what is missing."
  fi
}

# build PRESET TARGET…
build() {
  local dir=build/$1 log=build/$1.build.log
  shift
  if ! run_quietly "building $1" "$log" cmake --build "$dir" --parallel "$(parallel_jobs)" --target "$@"; then
    # What the compiler said: from the first failed command on, or the end.
    if grep -q '^FAILED:' "$log"; then
      awk '/^FAILED:/ { shown = 1 } shown && lines++ < 200' "$log" >&2
    else
      tail -n 60 "$log" >&2
    fi
    fail "the build failed (whole output: $log)."
  fi
  ! grep -q 'warning:' "$log" || say "The compiler gave warnings: $log"
}

# Two builds in one folder would spoil each other's files: the second waits. The lock goes with the process that holds it.
lock_builds() {
  local place=.
  [ ! -d build ] || place=build
  [ -w "$place" ] || fail "no permission to write in $root, where the build goes." \
    "Run this as the owner of the clone, or clone the project into a folder of your own."
  mkdir -p build
  have flock || return 0
  exec {build_lock}>build/lock
  flock --nonblock "$build_lock" && return 0
  say "Another ./tutorial is building in this clone: waiting for it …"
  flock --timeout 3600 "$build_lock" || fail "the other build has not ended within an hour." "End it and run this again."
}

unlock_builds() {
  [ -z "${build_lock:-}" ] || exec {build_lock}>&-
  build_lock=
}

# prepare run|test PRESET TARGET…: set up, configure, build; each only as far as needed.
prepare() {
  case $2 in
    release | debug | asan | tsan | emulated | cuda) ;;
    *) fail_usage "there is no build named '$2'." "Builds: release, debug, asan, tsan, emulated, cuda." ;;
  esac
  lock_builds
  set_up "$1"
  configure "$2"
  build "${@:2}"
  unlock_builds
}
