// For tests that need a real GPU.
#pragma once

#include <string>

#include "tests/support/skip.h"

namespace miniddp::test {

/// GPUs that the NVIDIA driver of this machine offers (the driver itself is asked, whatever this build contains).
struct GpuProbe {
  int count = 0;
  std::string reason;  ///< why there is none; empty if count > 0
};
const GpuProbe& probe_gpus();

}  // namespace miniddp::test

/// First line of a test that needs a GPU: without one it is skipped, with REQUIRE_GPU=1 it fails.
#define NEEDS_GPU()                                                                                     \
  do {                                                                                                  \
    if (::miniddp::test::probe_gpus().count == 0) SKIP_TEST("GPU", ::miniddp::test::probe_gpus().reason); \
  } while (false)
