#!/usr/bin/env bash
# The GPU check: everything that only a real GPU can tell, in one run of at most 8 minutes, with one table at the end.
#
#   tests/gpu/check.sh [--dry-run] [--build DIR] [--no-build] [--out DIR] [--arch 90]
#
#   --dry-run   the same steps on the emulator, with little data: shows that the check itself works
#   --build     a build folder to use [build/gpu_check, or build/emulated for a dry run]
#   --no-build  takes the programs in --build as they are
#   --out       where logs, the table and check.json go [BUILD/gpu_check]
#   --arch      the architecture to build for [the GPU's own]
#
# Inside a folder that pack.sh made it builds nothing and uses the programs there. Exit status 0: every step passed.
set -uo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
dry=0 build="" no_build=0 out="" arch=native
while [ $# -gt 0 ]; do
  case "$1" in
    --dry-run) dry=1 ;;
    --build) build="${2:?--build needs a folder}"; shift ;;
    --no-build) no_build=1 ;;
    --out) out="${2:?--out needs a folder}"; shift ;;
    --arch) arch="${2:?--arch needs a number}"; shift ;;
    -h | --help) sed -n '2,/^set/p' "${BASH_SOURCE[0]}" | sed '/^set/d; s/^# \{0,1\}//'; exit 0 ;;
    *) echo "error: unknown option $1 (see --help)" >&2; exit 2 ;;
  esac
  shift
done

command -v python3 >/dev/null || { echo "error: expected python3 (it writes check.json), found none" >&2; exit 77; }
if [ $dry = 0 ] && ! compgen -G '/dev/nvidia[0-9]*' >/dev/null && [ ! -e /dev/dxg ] && [ ! -e /dev/nvhost-gpu ]; then
  echo "error: expected an NVIDIA GPU, found none (no /dev/nvidia0); tests/gpu/check.sh --dry-run in the repository needs none" >&2
  exit 1
fi

if [ -f "$here/packed" ]; then
  [ $dry = 0 ] || { echo "error: a packed check has no emulator: run --dry-run in the repository" >&2; exit 2; }
  bin="$here/bin" data="$here/datasets/mnist" root="$here"
  if compgen -G "$here/lib/*.gz" >/dev/null; then gunzip "$here"/lib/*.gz || exit 1; fi
  # CUDA's libraries: the toolkit's usual places, and those that come with PyTorch.
  cuda_libraries="$(ls -d /usr/local/cuda*/lib64 /usr/local/cuda*/targets/*/lib /usr/lib/x86_64-linux-gnu 2>/dev/null | tr '\n' ':')"
  python_libraries="$(python3 -c 'import glob, site, sys
for d in site.getsitepackages() + [site.getusersitepackages()]: print(*glob.glob(d + "/nvidia/*/lib"), sep=":", end=":")' 2>/dev/null)"
  export LD_LIBRARY_PATH="$here/lib:$cuda_libraries$python_libraries${LD_LIBRARY_PATH:-}"
else
  root="$(cd "$here/../.." && pwd)"
  if [ -z "$build" ]; then [ $dry = 1 ] && build="$root/build/emulated" || build="$root/build/gpu_check"; fi
  bin="$build/bin" data="$root/datasets/mnist"
fi
out="${out:-${build:-$here}/gpu_check}"
mkdir -p "$out" || exit 1
results="$out/results.tsv"
: >"$results"
started=$SECONDS

# step NAME LIMIT command…: runs it with a limit of seconds; exit status 77 means skipped.
step() {
  local name="$1" limit="$2" begin=$SECONDS status
  shift 2
  timeout --kill-after=10 "$limit" "$@" >"$out/${name// /_}.log" 2>&1
  status=$?
  local verdict=FAILED
  [ $status = 0 ] && verdict=passed
  [ $status = 77 ] && verdict=skipped
  [ $status = 124 ] && verdict="TIMED OUT"
  printf '%s\t%s\t%s\n' "$name" "$verdict" $((SECONDS - begin)) >>"$results"
  printf '%-28s %-9s %4d s\n' "$name" "$verdict" $((SECONDS - begin))
  if [ "$verdict" = FAILED ] || [ "$verdict" = "TIMED OUT" ]; then tail -15 "$out/${name// /_}.log" | sed 's/^/    /'; fi
  return 0
}

build_programs() {
  if [ $dry = 1 ]; then
    cmake -S "$root" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DMINIDDP_CUDA=EMULATED || return 1
  else
    if [ "$arch" = native ]; then
      arch="$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader | head -1 | tr -d .)"
    fi
    cmake -S "$root" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DMINIDDP_CUDA=ON -DMINIDDP_CUDA_ARCHITECTURES="${arch:-90}" || return 1
  fi
  cmake --build "$build" --target emulated_tests static_tensor emulator_tests gpu_rules_tests 01_single_device 01_matmul_ladder kernel_times
}

# With compute-sanitizer, one pass over the operators; without it, skipped.
sanitize() {
  command -v compute-sanitizer >/dev/null || { echo "skipped: no compute-sanitizer on PATH"; return 77; }
  compute-sanitizer --tool "$1" --error-exitcode 1 "$bin/emulated_tests" "operators*"
}

# The emulator would evaluate on 10,000 images for minutes: a dry run takes the first few of each file.
small_data() {
  python3 - "$1" "$2" <<'PY'
import gzip, os, struct, sys
os.makedirs(sys.argv[2], exist_ok=True)
for part in ("train", "t10k"):
    for kind, header, item in (("images-idx3", 16, 784), ("labels-idx1", 8, 1)):
        name = f"{part}-{kind}-ubyte.gz"
        data = gzip.open(f"{sys.argv[1]}/{name}").read(header + 24 * item)
        gzip.open(f"{sys.argv[2]}/{name}", "wb").write(data[:4] + struct.pack(">I", 24) + data[8:])
PY
}

train() {
  local file="$1" size="--epochs 1" data="$data"
  shift
  if [ $dry = 1 ]; then
    size="--max-steps 3 --batch-size 8 --no-dropout"
    small_data "$data" "$out/mnist" || return 1
    data="$out/mnist"
  fi
  # shellcheck disable=SC2086
  "$bin/01_single_device" --device cuda --model article_b $size --data "$data" --loss-csv "$out/$file.csv" --threads 4 "$@"
}

export -f build_programs sanitize small_data train
export root build bin data out arch dry
export MINIDDP_ROOT="$root"  # for tests that read recorded losses

if [ ! -f "$here/packed" ] && [ $no_build = 0 ]; then step "build" 400 bash -c build_programs; fi
export REQUIRE_GPU=$((1 - dry))
# A dry run leaves the training tests to ctest, which runs them in every mode.
step "kernels against CPU" 300 "$bin/emulated_tests" $([ $dry = 1 ] && echo "~training*")
step "streams, cuBLAS, graphs" 120 "$bin/emulator_tests"
step "error codes" 120 "$bin/gpu_rules_tests"
step "memcheck" 90 bash -c "sanitize memcheck"
step "racecheck" 90 bash -c "sanitize racecheck"
step "article B eager" 120 bash -c "train eager"
step "article B graph" 120 bash -c "train graph --graph"
step "article B tf32" 120 bash -c "train tf32 --tf32"
step "same losses with graph" 10 cmp "$out/eager.csv" "$out/graph.csv"
step "matmul ladder" 60 "$bin/01_matmul_ladder" $([ $dry = 1 ] && echo --m 33 --n 65 --k 70)
step "kernel times" 60 "$bin/kernel_times" "$out/kernels.json" $([ $dry = 1 ] && echo 1)
step "PyTorch" 120 python3 "$here/pytorch_times.py" "$out/pytorch.json"

echo
[ ! -s "$out/kernel_times.log" ] || cat "$out/kernel_times.log"
[ ! -s "$out/matmul_ladder.log" ] || { echo; cat "$out/matmul_ladder.log"; }
[ ! -s "$out/PyTorch.log" ] || { echo; cat "$out/PyTorch.log"; }

# One JSON file of everything, written whole.
python3 - "$out" "$dry" $((SECONDS - started)) <<'PY'
import json, os, sys
out, dry, seconds = sys.argv[1], sys.argv[2] == "1", int(sys.argv[3])
report = {"dry_run": dry, "seconds": seconds, "steps": []}
for line in open(f"{out}/results.tsv"):
    name, verdict, took = line.rstrip("\n").split("\t")
    report["steps"].append({"name": name, "verdict": verdict, "seconds": int(took)})
for key in ("kernels", "pytorch"):
    path = f"{out}/{key}.json"
    if os.path.exists(path):
        report[key] = json.load(open(path))
with open(f"{out}/check.json.new", "w") as file:
    json.dump(report, file, indent=2)
os.replace(f"{out}/check.json.new", f"{out}/check.json")
PY
echo
echo "Written: $out/check.json ($((SECONDS - started)) s in all)"
! grep -qE 'FAILED|TIMED OUT' "$results"
