# ./tutorial doctor: what is on this machine. It only looks.

doctor_missing=0

row() { printf '%-9s %-15s %s\n' "$1" "$2" "$3"; }
hint() { printf '%-9s %-15s   → %s\n' "" "" "$1"; }

found() { row found "$1" "$2"; }

# needed NAME HINT: something the chapters cannot do without is not there.
needed() {
  row MISSING "$1" "not found"
  hint "$2"
  doctor_missing=1
}

optional() {
  row absent "$1" "$2"
  hint "$3"
}

# at_least VERSION MINIMUM
at_least() { [ "$(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1)" = "$2" ]; }

package_version() { dpkg-query -W -f '${Version}' "$1" 2>/dev/null || true; }

# True if the compiler finds this header.
has_header() {
  have g++ || return 1
  [ "$(printf '#if __has_include(<%s>)\nyes\n#endif\n' "$1" | g++ -E -P -x c++ - 2>/dev/null)" = yes ]
}

check_tool() {  # NAME COMMAND MINIMUM PACKAGE PURPOSE
  local version
  if ! have "$2"; then
    needed "$1" "apt-get install $4"
    return
  fi
  version=$("$2" --version 2>/dev/null | grep -oE '[0-9]+(\.[0-9]+)+' | head -n 1 || true)
  if at_least "${version:-0}" "$3"; then
    found "$1" "$version ($(command -v "$2"))"
  else
    row MISSING "$1" "version ${version:-unknown} is too old: $3 or newer is needed"
    hint "apt-get install $4 (Debian 12 or newer)"
    doctor_missing=1
  fi
}

check_library() {  # NAME HEADER PACKAGE
  local version
  if has_header "$2"; then
    version=$(package_version "$3")
    found "$1" "${version:-installed, not from a package}"
  else
    needed "$1" "apt-get install $3"
  fi
}

check_catch2() {
  if has_header catch2/catch_all.hpp || has_header catch2/catch.hpp; then
    found Catch2 "$(package_version catch2)"
  else
    needed Catch2 "apt-get install catch2"
  fi
}

check_mnist() {
  local name bad=
  for name in train-images-idx3 train-labels-idx1 t10k-images-idx3 t10k-labels-idx1; do
    gzip -t "datasets/mnist/$name-ubyte.gz" 2>/dev/null || bad="$bad $name-ubyte.gz"
  done
  if [ -z "$bad" ]; then
    found MNIST "60,000 and 10,000 digits in datasets/mnist"
  else
    row MISSING MNIST "not readable in datasets/mnist:$bad"
    hint "they are part of the repository: git checkout -- datasets/mnist"
    doctor_missing=1
  fi
}

# The CUDA compiler: on PATH, or where NVIDIA's packages put it.
find_nvcc() {
  local candidate
  for candidate in "$(command -v nvcc || true)" "${CUDA_HOME:-/usr/local/cuda}/bin/nvcc" /usr/local/cuda/bin/nvcc; do
    if [ -x "$candidate" ]; then echo "$candidate"; return; fi
  done
}

check_cuda() {
  local nvcc gpus header
  nvcc=$(find_nvcc)
  if [ -n "$nvcc" ]; then
    found "CUDA toolkit" "$("$nvcc" --version | sed -n 's/.*release \([0-9.]*\).*/\1/p') ($nvcc)"
  else
    optional "CUDA toolkit" "no nvcc on PATH or in /usr/local/cuda" \
      "only for real GPUs: NVIDIA's cuda-toolkit 12 or 13, developer.nvidia.com/cuda-downloads"
  fi
  gpus=$(timeout 20 nvidia-smi --query-gpu=index,name,memory.total --format=csv,noheader 2>/dev/null || true)
  if [ -n "$gpus" ]; then
    while IFS= read -r header; do found GPU "$header"; done <<<"$gpus"
  else
    optional GPU "nvidia-smi $(have nvidia-smi && echo 'finds none' || echo 'is not installed')" \
      "not needed: every chapter runs on the CPU with virtual devices"
  fi
  header=$(ls /usr/include/nccl.h "${nvcc%/bin/nvcc}"/include/nccl.h \
    /usr/local/cuda/targets/*/include/nccl.h 2>/dev/null | head -n 1 || true)
  if [ -n "$header" ]; then
    found NCCL "$(awk '/define NCCL_(MAJOR|MINOR|PATCH) / { printf "%s%s", dot, $3; dot = "." }' "$header") ($header)"
  else
    optional NCCL "no nccl.h" "only for several real GPUs: NVIDIA's libnccl-dev"
  fi
}

check_pytorch() {
  local python version
  for python in /usr/bin/python3 python3; do
    version=$(timeout 60 "$python" -c 'import torch; print(torch.__version__)' 2>/dev/null) || continue
    found PyTorch "$version ($python)"
    return
  done
  optional PyTorch "python3 cannot import torch" \
    "for live comparisons in the tests: apt-get install python3-torch python3-numpy"
}

check_openmpi() {
  if have mpirun; then
    found "Open MPI" "$(mpirun --version 2>/dev/null | grep -oE '[0-9]+(\.[0-9]+)+' | head -n 1) ($(command -v mpirun))"
  else
    optional "Open MPI" "no mpirun" "for tests of that launcher: apt-get install openmpi-bin libopenmpi-dev"
  fi
}

doctor() {
  check_tool compiler g++ 11 g++
  check_tool CMake cmake 3.22 cmake
  if have ninja; then
    check_tool Ninja ninja 1.10 ninja-build
  elif have make; then
    optional Ninja "not found, make is used" "faster builds: apt-get install ninja-build"
  else
    needed Ninja "apt-get install ninja-build"
  fi
  check_library oneDNN oneapi/dnnl/dnnl.hpp libdnnl-dev
  check_library fmt fmt/core.h libfmt-dev
  check_library CLI11 CLI/CLI.hpp libcli11-dev
  check_library nlohmann-json nlohmann/json.hpp nlohmann-json3-dev
  check_library zlib zlib.h zlib1g-dev
  check_library stb stb/stb_image.h libstb-dev
  check_library Gloo gloo/context.h libgloo-dev
  check_library Boost.Context boost/context/fiber.hpp libboost-context-dev
  check_library OpenBLAS cblas.h libopenblas-dev
  check_catch2
  check_library benchmark benchmark/benchmark.h libbenchmark-dev
  check_mnist
  check_cuda
  check_pytorch
  check_openmpi
  echo
  if [ "$doctor_missing" = 0 ]; then
    echo "All that the chapters need is here: ./tutorial run"
  else
    echo "Something that the chapters need is missing. ./tutorial run installs packages on Debian and Ubuntu."
    exit 1
  fi
}
