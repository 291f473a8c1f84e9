#!/usr/bin/env bash
# Packs the GPU check for a machine that has a GPU and CUDA's libraries, but neither this project's libraries nor a way to install them.
#
#   tests/gpu/pack.sh ARCHITECTURE FOLDER        tests/gpu/pack.sh 90 /tmp/gpu_check
#
# Builds with nvcc here (no GPU needed) and writes the programs, the shared libraries that they need apart from CUDA's and the C library,
# MNIST, and check.sh into FOLDER. There:  FOLDER/check.sh
set -euo pipefail
arch="${1:?usage: tests/gpu/pack.sh ARCHITECTURE FOLDER}"
folder="${2:?usage: tests/gpu/pack.sh ARCHITECTURE FOLDER}"
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
root="$(cd "$here/../.." && pwd)"
build="$root/build/pack_$arch"
programs="emulated_tests static_tensor emulator_tests gpu_rules_tests 01_single_device 01_matmul_ladder kernel_times"

# Not tuned for this machine: the other one has another processor.
cmake -S "$root" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DMINIDDP_CUDA=ON -DMINIDDP_CUDA_ARCHITECTURES="$arch" -DMINIDDP_NATIVE=OFF
# shellcheck disable=SC2086
cmake --build "$build" --target $programs

new="$folder.new"
rm -rf "$new"
mkdir -p "$new/bin" "$new/lib" "$new/datasets/mnist" "$new/tests/parity"
for program in $programs; do
  [ -x "$build/bin/$program" ] || continue
  strip -o "$new/bin/$program" "$build/bin/$program"
  # What the other machine has of its own: the C library and its parts, and everything of CUDA.
  ldd "$build/bin/$program" | awk '/=> \//{print $3}' |
    grep -vE '/(libc|libm|libdl|librt|libpthread|ld-linux[^/]*)\.so|/lib(cuda|cudart|cublas|cublasLt|nccl|nvrtc|nvidia)[^/]*\.so' |
    while read -r library; do cp -L "$library" "$new/lib/"; done
done
gzip "$new"/lib/*  # oneDNN alone has 40 MB; check.sh unpacks them
cp "$root"/datasets/mnist/*.gz "$new/datasets/mnist/"
cp "$here/check.sh" "$here/pytorch_times.py" "$new/"
cp -r "$root/tests/parity/recorded" "$new/tests/parity/"
echo "$arch" >"$new/packed"
size="$(du -sm "$new" | cut -f1)"
if [ "$size" -gt 60 ]; then
  echo "error: $new has $size MB, expected at most 60" >&2
  exit 1
fi
rm -rf "$folder"
mv "$new" "$folder"
echo "$folder: $size MB for architecture $arch. On the machine with the GPU: $folder/check.sh"
