// The twin of kernels/cuda: CMake picks it when the build has no CUDA backend.
#include "common/kernels/backends.h"

namespace miniddp {

Kernels* cuda_kernels() { return nullptr; }

}  // namespace miniddp
