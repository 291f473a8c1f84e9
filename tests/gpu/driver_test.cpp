// What the machine's NVIDIA driver offers. The first thing to look at when a GPU test misbehaves.
#include "tests/support/gpu.h"

TEST_CASE("the driver offers at least one GPU") {
  NEEDS_GPU();
  CHECK(miniddp::test::probe_gpus().count >= 1);
  CHECK(miniddp::test::probe_gpus().reason.empty());
}
