// One SGD step over all parameters in one kernel: a small network has many small parameters, and a launch costs more than
// the arithmetic on one of them.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <span>

#include "common/kernels/kernels.h"

namespace miniddp::cuda {

template <class T>
struct SgdParameter {
  T* param;
  const T* grad;
  T* buffer;   // the velocity; null without momentum
  bool first;  // the buffer holds nothing yet
  int64_t n;
};

/// The step that Kernels::sgd_step defines. T is float or double.
template <class T>
void sgd_step(cudaStream_t stream, std::span<const SgdParameter<T>> parameters, const SgdParams& options);

}  // namespace miniddp::cuda
