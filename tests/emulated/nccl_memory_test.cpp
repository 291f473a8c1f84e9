// Case C13 of the field reports: collectives between which memory is allocated and freed. Built where there is NCCL.
#include <nccl.h>

#include <array>

#include "common/kernels/cuda/device.h"
#include "common/kernels/cuda/launch.h"
#include "tests/emulated/operators.h"
#include "tests/support/compare.h"

using namespace miniddp;
using namespace miniddp::testing;

TEST_CASE("C13: one thread, two GPUs, a thousand all-reduces with allocations between them") {
  NEEDS_GPUS(2);
  const int steps = rounds < 10 ? 10 : 1000;
  constexpr std::array devices{0, 1};
  std::array<ncclComm_t, 2> communicators{};
  REQUIRE(ncclCommInitAll(communicators.data(), 2, devices.data()) == ncclSuccess);
  const Tensor a = random_floats({1237}, 1), b = random_floats({1237}, 2);
  Tensor expected = a.clone();
  expected.add_(b);
  expected.mul_(0.5);

  std::array tensors{a.to(gpu0), b.to(gpu1)};
  int failures = 0;
  for (int step = 0; step < steps; ++step) {
    failures += ncclGroupStart() != ncclSuccess;  // without the group the first call would wait for the second, for ever
    for (size_t i = 0; i < 2; ++i) {
      const cuda::DeviceGuard guard(devices[i]);
      failures += ncclAllReduce(tensors[i].data<float>(), tensors[i].data<float>(), 1237, ncclFloat32, ncclSum, communicators[i],
                                cuda::compute_stream(devices[i])) != ncclSuccess;
    }
    failures += ncclGroupEnd() != ncclSuccess;
    for (size_t i = 0; i < 2; ++i) {
      // The mean; in memory that is freed while the next all-reduce waits for it.
      Tensor mean = Tensor::empty({1237}, DType::float32, {DeviceType::cuda, devices[i]});
      mean.copy_(tensors[i]);
      mean.mul_(0.5);
      tensors[i].copy_(mean);
    }
  }
  CHECK(failures == 0);
  for (const Tensor& tensor : tensors) check_close("mean", tensor, expected, 1e-6);
  for (size_t i = 0; i < 2; ++i) {
    const cuda::DeviceGuard guard(devices[i]);
    CHECK(ncclCommDestroy(communicators[i]) == ncclSuccess);
  }
}
