// Several GPUs: copies between them, threads, devices that do not exist or do not fit.
#include <thread>

#include "common/kernels/cuda/device.h"
#include "common/nn/functional.h"
#include "tests/emulated/operators.h"
#include "tests/support/compare.h"

using namespace miniddp;
using namespace miniddp::testing;
using Catch::Matchers::ContainsSubstring;
namespace F = miniddp::functional;

TEST_CASE("devices: copies from GPU to GPU, whole and in rows, wait for what was enqueued on both") {
  NEEDS_GPUS(2);
  Sizes size(1);
  for (int round = 0; round < rounds; ++round) {
    const int64_t rows = size(1, 13), columns = size(2, 3000);
    const Tensor x = random_floats({rows, columns}, size.seed());
    Tensor source = x.to(gpu0);
    for (int i = 0; i < 5; ++i) source.mul_(2);  // still running when the copy is enqueued
    Tensor copy = source.to(gpu1);
    source.zero_();  // must wait for the copy
    copy.mul_(1.0 / 32);
    check_close("copy", copy, x, 1e-6);

    const int64_t part = columns / 2;
    const size_t width = static_cast<size_t>(part) * sizeof(float), pitch = static_cast<size_t>(columns) * sizeof(float);
    Tensor narrow = Tensor::empty({rows, part}, DType::float32, gpu0), expected = Tensor::empty({rows, part});
    copy_rows(narrow.raw_data(), gpu0, width, copy.raw_data(), gpu1, pitch, width, static_cast<size_t>(rows));
    copy_rows(expected.raw_data(), {}, width, x.raw_data(), {}, pitch, width, static_cast<size_t>(rows));
    check_close("narrow copy", narrow, expected, 1e-6);
  }
}

TEST_CASE("devices: a gradient travels home from another GPU, one backward worker for each device") {
  NEEDS_GPUS(2);
  const Tensor x = random_floats({7, 13}, 3), w0 = random_floats({5, 13}, 4), w1 = random_floats({5, 13}, 5);
  const auto loss = [&](Device a, Device b) {
    Tensor p = x.to(a).detach().set_requires_grad();
    const Tensor left = F::relu(F::linear(p, w0.to(a))), right = F::relu(F::linear(p.to(b), w1.to(b)));
    F::sum(F::mul(left, right.to(a))).backward();
    return p.grad();
  };
  check_close("gradient", loss(gpu0, gpu1), loss({}, {}), 1e-5);
}

TEST_CASE("devices, C7: threads work on their own GPUs side by side, and the caller's device stays what it was") {
  NEEDS_GPUS(2);
  const int devices = std::min(4, device_count(DeviceType::cuda));
  const Tensor x = random_floats({9, 1, 13, 11}, 6), w = random_floats({5, 1, 3, 3}, 7);
  std::vector<Tensor> outputs(static_cast<size_t>(devices));
  std::vector<int> wrong(static_cast<size_t>(devices), 0);
  std::vector<std::thread> threads;
  for (int d = 0; d < devices; ++d) {
    threads.emplace_back([&, d] {
      const Device device{DeviceType::cuda, d};
      for (int i = 0; i < 10; ++i) outputs[static_cast<size_t>(d)] = F::max_pool2d(F::conv2d(x.to(device), w.to(device)), 2);
      int current = -1;
      cudaGetDevice(&current);
      cudaPointerAttributes where{};
      cudaPointerGetAttributes(&where, outputs[static_cast<size_t>(d)].raw_data());
      wrong[static_cast<size_t>(d)] = current != 0 || where.device != d;
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == std::vector<int>(static_cast<size_t>(devices), 0));
  const Tensor expected = F::max_pool2d(F::conv2d(x, w), 2);
  for (const Tensor& output : outputs) check_close("output", output, expected, 1e-6);
}

TEST_CASE("devices: several threads share one GPU") {
  NEEDS_GPUS(1);
  const Tensor x = random_floats({33, 70}, 8), w = random_floats({45, 70}, 9);
  const Tensor expected = F::linear(x, w);
  std::vector<Tensor> outputs(4);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < outputs.size(); ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 10; ++i) outputs[t] = F::linear(x.to(gpu0), w.to(gpu0));
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Tensor& output : outputs) check_close("output", output, expected, 1e-6);
}

TEST_CASE("devices: mixing them, or naming one that is not there, is an error that says so") {
  NEEDS_GPUS(2);
  const Tensor a = random_floats({3}, 10).to(gpu0), b = random_floats({3}, 11).to(gpu1);
  CHECK_THROWS_WITH(F::add(a, b), ContainsSubstring("cuda:0") && ContainsSubstring("cuda:1"));
  CHECK_THROWS_AS(F::add(a, random_floats({3}, 12)), DeviceError);
  CHECK_THROWS_WITH(Tensor::zeros({3}, DType::float32, {DeviceType::cuda, 63}), ContainsSubstring("cuda:63"));
  check_close("a call after the error", F::add(a, b.to(gpu0)), F::add(a.to(Device{}), b.to(Device{})), 1e-6);
}

TEST_CASE("devices: they tell their memory and their processors") {
  NEEDS_GPUS(1);
  for (int i = 0; i < device_count(DeviceType::cuda); ++i) {
    const DeviceProperties found = kernels(DeviceType::cuda).properties(i);
    cudaDeviceProp expected;
    REQUIRE(cudaGetDeviceProperties(&expected, i) == cudaSuccess);
    CHECK(found.total_memory == static_cast<int64_t>(expected.totalGlobalMem));
    CHECK(found.total_memory >= int64_t{1} << 20);
    CHECK(found.processors == expected.multiProcessorCount);
    CHECK(found.processors >= 1);
  }
  CHECK_THROWS_AS(kernels(DeviceType::cuda).properties(63), DeviceError);
}

TEST_CASE("devices: memory that is used up is an error with figures, and work goes on afterwards") {
  NEEDS_GPUS(1);
  CHECK_THROWS_WITH(Tensor::empty({int64_t{1} << 44}, DType::float32, gpu0), ContainsSubstring("memory left"));
  CHECK(Tensor::full({5}, 3, DType::float32, gpu0).to_vector<float>()[4] == 3);
}

TEST_CASE("devices: the memory of a freed tensor is used again while kernels are still running") {
  NEEDS_GPUS(1);
  const Tensor x = random_floats({70001}, 13);
  Tensor total = Tensor::zeros({70001}, DType::float32, gpu0);
  for (int i = 0; i < 20; ++i) {
    Tensor temporary = x.to(gpu0);
    temporary.mul_(2);
    total.add_(temporary);
  }
  Tensor expected = x.clone();
  check_close("sum", total, expected.mul_(40), 1e-5);
}
