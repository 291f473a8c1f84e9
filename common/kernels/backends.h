// Where the registry finds the backends. Only kernels.cpp and the backends include this.
#pragma once

#include "common/kernels/kernels.h"

namespace miniddp {

/// Always there.
Kernels& cpu_kernels();

/// Defined by kernels/cuda/ or, in a build without it, by no_cuda.cpp, which returns nullptr.
Kernels* cuda_kernels();

}  // namespace miniddp
