// What breaks for others who write CUDA from scratch: cases C1 to C14 of the field reports
// (C13: nccl_memory_test.cpp).
#include <cmath>
#include <filesystem>
#include <thread>

#include "common/kernels/cuda/cuda_kernels.h"
#include "common/kernels/cuda/elementwise.h"
#include "common/kernels/cuda/launch.h"
#include "common/kernels/cuda/matmul.h"
#include "common/nn/functional.h"
#include "common/optim/sgd.h"
#include "tests/emulated/operators.h"
#include "tests/support/compare.h"
#include "tests/support/networks.h"
#include "tests/support/run_program.h"

using namespace miniddp;
using namespace miniddp::testing;
using Catch::Matchers::ContainsSubstring;
namespace F = miniddp::functional;

namespace miniddp::testing {
void launch_too_many_threads(cudaStream_t stream);  // refused_launch.cu
}

TEST_CASE("C1: every operator takes an empty batch") {
  NEEDS_GPUS(1);
  const auto run = [](Device device) {
    std::vector<Tensor> results;
    Tensor x = Tensor::empty({0, 1, 9, 9}, DType::float32, device).set_requires_grad();
    Tensor w = random_floats({3, 1, 3, 3}, 1).to(device).set_requires_grad(), b = random_floats({3}, 2).to(device).set_requires_grad();
    Tensor fc = random_floats({4, 27}, 3).to(device).set_requires_grad(), bias = random_floats({4}, 4).to(device).set_requires_grad();
    Tensor h = F::max_pool2d(F::relu(F::conv2d(x, w, b)), 2);
    h = F::dropout(F::dropout2d(h, 0.5, true), 0.5, true);
    h = F::log_softmax(F::linear(F::flatten(h), fc, bias));
    const Tensor target = Tensor::empty({0}, DType::int64, device);
    Tensor count = Tensor::zeros({}, DType::int64, device);
    kernels(device.type).count_correct(h, target, count);
    CHECK(count.item<int64_t>() == 0);
    CHECK(std::isnan(F::nll_loss(h, target).item<double>()));
    const Tensor loss = F::nll_loss(h, target, Reduction::sum);
    CHECK(loss.item<double>() == 0);
    loss.backward();
    for (const Tensor& each : {w, b, fc, bias}) results.push_back(each.grad().to(Device{}));
    CHECK(x.grad().numel() == 0);
    CHECK(F::sum(F::add(h, h)).item<double>() == 0);
    CHECK(h.to(DType::float16).numel() == 0);
    return results;
  };
  const auto on_gpu = run(gpu0), on_cpu = run({});
  for (size_t i = 0; i < on_gpu.size(); ++i) CHECK(same_bits(on_gpu[i], on_cpu[i]));
  CHECK(cudaGetLastError() == cudaSuccess);
}

TEST_CASE("C2: more planes than a grid has blocks in y or z") {
  NEEDS_GPUS(1);
  const int64_t batch = rounds < 10 ? 3 : 2049, channels = 32;  // 65,568 planes
  const Tensor x = random_floats({batch, 1, 4, 3}, 1), w = random_floats({channels, 1, 2, 2}, 2);
  const auto layer = [](const Tensors& in) { return F::max_pool2d(F::conv2d(in[0], in[1]), 2, 1); };
  check_operator("convolution and pooling", {x, w}, layer);
  const Tensor rows = random_floats({rounds < 10 ? 70 : 65539, 2}, 3);
  check_operator("log_softmax", {rows}, [](const Tensors& in) { return F::log_softmax(in[0]); });
  check_operator("linear", {rows, random_floats({3, 2}, 4)}, [](const Tensors& in) { return F::linear(in[0], in[1]); });
}

TEST_CASE("C4: a launch that CUDA refuses is an error that names it, and the next one works") {
  NEEDS_GPUS(1);
  const cuda::DeviceGuard guard(0);
  CHECK_THROWS_WITH(launch_too_many_threads(cuda::compute_stream(0)),
                    ContainsSubstring("cuda:0") && ContainsSubstring("block (2048, 1, 1)") &&
                        ContainsSubstring("cudaErrorInvalidConfiguration") && ContainsSubstring("launch_too_many_threads"));
  CHECK(cudaGetLastError() == cudaSuccess);
  CHECK(Tensor::full({3}, 2, DType::float32, gpu0).to_vector<float>() == std::vector<float>{2, 2, 2});
}

TEST_CASE("C4: a target out of range is reported at the next synchronisation, once") {
  NEEDS_GPUS(1);
  const Tensor x = F::log_softmax(random_floats({4, 5}, 5)).to(gpu0).set_requires_grad();
  for (const int64_t wrong : {int64_t{5}, int64_t{-1}}) {
    const Tensor target = Tensor::from(std::vector<int64_t>{0, 4, wrong, 1}, {4}, gpu0);
    const Tensor loss = F::nll_loss(x, target);
    CHECK_THROWS_WITH(loss.item<double>(), ContainsSubstring("[0, 5)") && ContainsSubstring("found " + std::to_string(wrong)) &&
                                               ContainsSubstring("row 2"));
    loss.backward();
    CHECK_THROWS_WITH(kernels(DeviceType::cuda).synchronize(0), ContainsSubstring("row 2"));
    CHECK_NOTHROW(kernels(DeviceType::cuda).synchronize(0));
  }
}

TEST_CASE("C5 and C6: two runs give the same bits") {
  NEEDS_GPUS(1);
  const int repeats = rounds < 10 ? 3 : 20;
  const Tensor x = random_floats({37, 533}, 6).to(gpu0);
  const Tensor sum = F::sum(x), softmax = F::log_softmax(x);
  for (int i = 0; i < repeats; ++i) {
    CHECK(same_bits(F::sum(x), sum));
    CHECK(same_bits(F::log_softmax(x), softmax));
  }
  const auto train = [&] {
    manual_seed(1);
    Mini network;
    network.to(gpu0);
    SGD optimizer(network.parameters(), {.lr = 0.05, .momentum = 0.5});
    const Samples samples = random_samples(1234, rounds < 10 ? 3 : 13);
    for (int step = 0; step < (rounds < 10 ? 1 : 5); ++step) {
      optimizer.zero_grad();
      F::cross_entropy(network(samples.images.to(gpu0)), samples.labels.to(gpu0)).backward();
      optimizer.step();
    }
    return network.parameters();
  };
  const auto one = train(), two = train();
  for (size_t i = 0; i < one.size(); ++i) CHECK(same_bits(one[i], two[i]));
}

namespace {

std::vector<double> product(int64_t m, int64_t n, int64_t k, const std::vector<float>& a, const std::vector<float>& b) {
  std::vector<double> c(static_cast<size_t>(m * n));
  for (int64_t i = 0; i < m; ++i)
    for (int64_t p = 0; p < k; ++p)
      for (int64_t j = 0; j < n; ++j)
        c[static_cast<size_t>(i * n + j)] += static_cast<double>(a[static_cast<size_t>(i * k + p)]) * b[static_cast<size_t>(p * n + j)];
  return c;
}

std::vector<float> transposed(int64_t rows, int64_t columns, const std::vector<float>& x) {
  std::vector<float> out(x.size());
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j) out[static_cast<size_t>(j * rows + i)] = x[static_cast<size_t>(i * columns + j)];
  return out;
}

}  // namespace

TEST_CASE("C8: every rung of the ladder, with each transpose, on matrices that are not square") {
  NEEDS_GPUS(1);
  const cuda::DeviceGuard guard(0);
  const cudaStream_t stream = cuda::compute_stream(0);
  struct Size {
    int64_t m, n, k;
  };
  std::vector<Size> sizes{{2, 3, 4}, {1, 10, 128}, {17, 5, 1}, {33, 130, 19}, {70, 67, 45}};
  if (rounds >= 10) sizes.push_back({64, 10, 3136});
  for (const auto [m, n, k] : sizes) {
    const std::vector<float> a = random_floats({m, k}, 7).to_vector<float>(), b = random_floats({k, n}, 8).to_vector<float>();
    const std::vector<double> expected = product(m, n, k, a, b);
    const Tensor c = Tensor::empty({m, n}, DType::float32, gpu0);
    const Tensor reference = Tensor::from(expected, {m, n});
    const auto check_product = [&](const std::string& what) {
      check_close(fmt::format("{}, {} x {} x {}", what, m, n, k), c, reference, 1e-5);
      Tensor(c).fill_(NAN);
    };
    const Tensor plain_a = Tensor::from(a, {m, k}, gpu0), plain_b = Tensor::from(b, {k, n}, gpu0);
    cuda::matmul_naive(stream, m, n, k, plain_a.data<float>(), plain_b.data<float>(), c.data<float>());
    check_product("naive");
    cuda::matmul_tiled(stream, m, n, k, plain_a.data<float>(), plain_b.data<float>(), c.data<float>());
    check_product("tiled");
    for (const bool turn_a : {false, true}) {
      for (const bool turn_b : {false, true}) {
        const Tensor stored_a = turn_a ? Tensor::from(transposed(m, k, a), {k, m}, gpu0) : plain_a;
        const Tensor stored_b = turn_b ? Tensor::from(transposed(k, n, b), {n, k}, gpu0) : plain_b;
        const cuda::Operand<float> left{stored_a.data<float>(), turn_a}, right{stored_b.data<float>(), turn_b};
        const std::string how = std::string(turn_a ? ", a^T" : "") + (turn_b ? ", b^T" : "");
        cuda::matmul_registers<float>(stream, m, n, k, left, right, nullptr, c.data<float>());
        check_product("registers" + how);
        cuda::matmul_cublas(cuda::cublas_handle(0), m, n, k, left, right, 0.0f, c.data<float>());
        check_product("cuBLAS" + how);
      }
    }
  }
}

TEST_CASE("C9: products are in full float32 unless TF32 is asked for") {
  NEEDS_GPUS(1);
  const int64_t m = rounds < 10 ? 16 : 64, k = 3136, n = 128;
  const Tensor x = random_floats({m, k}, 9), w = random_floats({n, k}, 10);
  const Tensor expected = F::linear(x.to(DType::float64), w.to(DType::float64));
  check_close("float32", F::linear(x.to(gpu0), w.to(gpu0)), expected, 1e-6);
  set_tf32(true);
  const std::vector<double> rounded = to_doubles(F::linear(x.to(gpu0), w.to(gpu0)));
  set_tf32(false);
  const Comparison close = compare(rounded, to_doubles(expected), 0.05);
  CHECK(close.passed);
  check_close("float32 again", F::linear(x.to(gpu0), w.to(gpu0)), expected, 1e-6);
  int major = 0;
  cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0);
  if (major >= 8) CHECK_FALSE(compare(rounded, to_doubles(expected), 1e-5).passed);  // older GPUs have no TF32
}

TEST_CASE("C10: four threads multiply by cuBLAS on one GPU") {
  NEEDS_GPUS(1);
  const int repeats = rounds < 10 ? 3 : 100;
  const Tensor x = random_floats({64, 131}, 11), w = random_floats({77, 131}, 12);
  const Tensor on_gpu = x.to(gpu0), weight = w.to(gpu0);
  std::vector<Tensor> results(4);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < results.size(); ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < repeats; ++i) results[t] = F::linear(on_gpu, weight);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Tensor& result : results) check_close("product", result, F::linear(x, w), 1e-6);
}

TEST_CASE("C11: peer access that is on already does not spoil a later launch") {
  NEEDS_GPUS(2);
  int possible = 0;
  cudaDeviceCanAccessPeer(&possible, 0, 1);
  if (possible == 0) SKIP_TEST("PEER", "these GPUs cannot reach each other");
  const cuda::DeviceGuard guard(0);
  cudaDeviceEnablePeerAccess(1, 0);
  CHECK(cudaDeviceEnablePeerAccess(1, 0) == cudaErrorPeerAccessAlreadyEnabled);
  CHECK(Tensor::full({3}, 2, DType::float32, gpu0).to(gpu1).to_vector<float>() == std::vector<float>{2, 2, 2});
  cudaGetLastError();
  cudaDeviceDisablePeerAccess(1);
}

TEST_CASE("C12: the host reads a result only when it is there, and may overwrite what it sent at once") {
  NEEDS_GPUS(1);
  for (int round = 0; round < rounds; ++round) {
    Tensor host = random_floats({12345}, static_cast<unsigned>(round));
    const Tensor before = host.clone();
    Tensor x = host.to(gpu0);
    host.zero_();
    for (int i = 0; i < 8; ++i) x.mul_(2);
    x.mul_(1.0 / 256);
    CHECK(same_bits(x, before));
  }
}

TEST_CASE("C14: a tensor and a graph that live until after main() end a program quietly") {
  NEEDS_GPUS(1);
  const std::string program = std::filesystem::read_symlink("/proc/self/exe").parent_path() / "static_tensor";
  const ProgramResult result = testing::run_program({program}, std::chrono::seconds(60));
  INFO(result.summary());
  CHECK(result.exit_code == 0);
  CHECK(result.output == "");
  CHECK(result.errors == "");
}
