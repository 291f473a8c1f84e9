// The ladder of CUDA.md: one matrix product in four ways, each checked against the last rung and timed.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <functional>

#include "common/core/console.h"
#include "common/core/generator.h"
#include "common/kernels/cuda/device.h"
#include "common/kernels/cuda/launch.h"
#include "common/kernels/cuda/matmul.h"
#include "common/kernels/kernels.h"
#include "common/tensor/tensor.h"
#include "common/training/options.h"

using namespace miniddp;

namespace {

/// Milliseconds of one call, the median of `repeats`. The GPU's own clock: the host's would time the launch alone.
double time_on_gpu(cudaStream_t stream, int repeats, const std::function<void()>& call) {
  cudaEvent_t start, end;
  cuda::check_cuda(cudaEventCreate(&start), "cudaEventCreate");
  cuda::check_cuda(cudaEventCreate(&end), "cudaEventCreate");
  std::vector<float> times;
  for (int i = 0; i <= repeats; ++i) {
    cuda::check_cuda(cudaEventRecord(start, stream), "cudaEventRecord");
    call();
    cuda::check_cuda(cudaEventRecord(end, stream), "cudaEventRecord");
    cuda::check_cuda(cudaEventSynchronize(end), "cudaEventSynchronize");
    float milliseconds = 0;
    cuda::check_cuda(cudaEventElapsedTime(&milliseconds, start, end), "cudaEventElapsedTime");
    if (i > 0) times.push_back(milliseconds);  // the first call also loads the kernel
  }
  cudaEventDestroy(start);
  cudaEventDestroy(end);
  std::nth_element(times.begin(), times.begin() + repeats / 2, times.end());
  return times[static_cast<size_t>(repeats / 2)];
}

Tensor random_matrix(int64_t rows, int64_t columns, uint64_t seed, Device device) {
  Generator generator(seed);
  std::vector<float> values(static_cast<size_t>(rows * columns));
  for (float& value : values) value = generator.uniform(-1, 1);
  return Tensor::from(values, {rows, columns}, device);
}

double largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  double largest = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double difference = std::fabs(static_cast<double>(a[i]) - b[i]);
    if (!(difference <= largest)) largest = difference;  // NaN stays
  }
  return largest;
}

int climb(int argc, char** argv) {
  int64_t m = 64, n = 128, k = 9216;  // article B's fc1
  int repeats = 5;
  CLI::App app("The ladder of CUDA.md: c (m, n) = a (m, k) * b (k, n) in four ways");
  app.add_option("--m", m)->check(CLI::Range(1, 65536))->capture_default_str();
  app.add_option("--n", n)->check(CLI::Range(1, 65536))->capture_default_str();
  app.add_option("--k", k)->check(CLI::Range(1, 65536))->capture_default_str();
  app.add_option("--repeats", repeats, "Timed calls of each rung")->check(CLI::Range(1, 1000))->capture_default_str();
  parse_command_line(app, argc, argv);

  const Device device{DeviceType::cuda, 0};
  print_output("c ({}, {}) = a ({}, {}) * b ({}, {}) on {}{}\n", m, n, m, k, k, n, device.str(), kernels(device.type).description());
  const Tensor a = random_matrix(m, k, 1, device), b = random_matrix(k, n, 2, device);
  Tensor c = Tensor::zeros({m, n}, DType::float32, device);
  const cuda::DeviceGuard guard(device.index);
  const cudaStream_t stream = cuda::compute_stream(device.index);
  const float *pa = a.data<float>(), *pb = b.data<float>();
  float* pc = c.data<float>();

  struct Rung {
    const char* name;
    std::function<void()> call;
  };
  const std::vector<Rung> rungs{
      {"naive", [&] { cuda::matmul_naive(stream, m, n, k, pa, pb, pc); }},
      {"tiled", [&] { cuda::matmul_tiled(stream, m, n, k, pa, pb, pc); }},
      {"registers", [&] { cuda::matmul_registers<float>(stream, m, n, k, {pa}, {pb}, nullptr, pc); }},
      {"cuBLAS", [&] { cuda::matmul_cublas(cuda::cublas_handle(device.index), m, n, k, {pa}, {pb}, 0.0f, pc); }},
  };
  rungs.back().call();
  const std::vector<float> reference = c.to_vector<float>();
  const double allowed = 1e-6 * static_cast<double>(k);  // both are sums of k rounded products
  bool good = true;
  print_output("{:<10} {:>10} {:>10} {:>24}\n", "rung", "ms", "GFLOP/s", "difference from cuBLAS");
  for (const Rung& rung : rungs) {
    c.fill_(NAN);
    const double ms = time_on_gpu(stream, repeats, rung.call);
    const double difference = largest_difference(c.to_vector<float>(), reference);
    good = good && difference <= allowed;
    print_output("{:<10} {:>10.4f} {:>10.1f} {:>24.3g}\n", rung.name, ms, 2e-6 * static_cast<double>(m * n * k) / ms, difference);
  }
  check(good, "the rungs differ by more than {:.3g}", allowed);
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return run_program(climb, argc, argv); }
