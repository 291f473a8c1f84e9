// For tests that run on real and on emulated GPUs.
#pragma once

#include <cuda_runtime.h>

#include <string>

#include "tests/support/skip.h"

namespace miniddp::testing {

inline int device_count() {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess) count = 0;
  cudaGetLastError();
  return count;
}

}  // namespace miniddp::testing

/// First line of a test: with fewer GPUs, real or emulated, it is skipped.
#define NEEDS_DEVICES(count)                                                                              \
  do {                                                                                                    \
    if (::miniddp::testing::device_count() < (count))                                                     \
      SKIP_TEST("GPU", std::to_string(::miniddp::testing::device_count()) + " GPUs, needs " + #count);    \
  } while (false)
