// Times the kernels of article B's training step (batch 64) and says how near each comes to what the GPU could do: to its
// memory's speed for kernels that mostly move data, to its arithmetic for products. Both limits are measured in the same run, by a
// large copy and a large cuBLAS product. Writes JSON to the file that is named.
#include <algorithm>
#include <cstdio>
#include <functional>
#include <nlohmann/json.hpp>

#include "common/core/file.h"
#include "common/core/generator.h"
#include "common/kernels/cuda/device.h"
#include "common/kernels/cuda/launch.h"
#include "common/kernels/cuda/matmul.h"
#include "common/kernels/kernels.h"
#include "common/tensor/tensor.h"
#include "common/training/options.h"
#include "gpu_kind.h"

using namespace miniddp;

namespace {

const Device gpu{DeviceType::cuda, 0};

Tensor random_tensor(const Shape& shape, uint64_t seed) {
  Generator generator(seed);
  std::vector<float> values(static_cast<size_t>(numel_of(shape)));
  for (float& value : values) value = generator.uniform(-1, 1);
  return Tensor::from(values, shape, gpu);
}

Tensor empty(const Shape& shape) { return Tensor::empty(shape, DType::float32, gpu); }

/// Seconds of one call: `calls` of them between two events, the best of three such runs after a first one that does not count.
double seconds_of(int calls, const std::function<void()>& call) {
  const cudaStream_t stream = cuda::compute_stream(0);
  cudaEvent_t start, end;
  cuda::check_cuda(cudaEventCreate(&start), "cudaEventCreate");
  cuda::check_cuda(cudaEventCreate(&end), "cudaEventCreate");
  float best = 0;
  for (int run = 0; run < 4; ++run) {
    cuda::check_cuda(cudaEventRecord(start, stream), "cudaEventRecord");
    for (int i = 0; i < calls; ++i) call();
    cuda::check_cuda(cudaEventRecord(end, stream), "cudaEventRecord");
    cuda::check_cuda(cudaEventSynchronize(end), "cudaEventSynchronize");
    float milliseconds = 0;
    cuda::check_cuda(cudaEventElapsedTime(&milliseconds, start, end), "cudaEventElapsedTime");
    if (run == 1 || (run > 1 && milliseconds < best)) best = milliseconds;
  }
  cudaEventDestroy(start);
  cudaEventDestroy(end);
  return best / 1000 / calls;
}

struct Kernel {
  const char* name;
  double bytes, flops;  // of one call: what must be moved at least, what must be computed
  std::function<void()> call;
};

int run(int argc, char** argv) {
  check<UsageError>(argc == 2 || argc == 3, "expected kernel_times FILE [CALLS], found {} arguments", argc - 1);
  const int calls = argc == 3 ? std::max(1, std::atoi(argv[2])) : 20;
  Kernels& k = kernels(DeviceType::cuda);
  const cuda::DeviceGuard guard(0);
  const bool small = cuda::gpu_is_emulated;  // the emulator has no speed: only whether it runs
  const int64_t n = small ? 2 : 64;

  // The limits.
  const int64_t copied = small ? 1 << 16 : 1 << 27;
  Tensor from = Tensor::zeros({copied}, DType::float32, gpu), to = empty({copied});
  const double bandwidth = 8.0 * static_cast<double>(copied) / seconds_of(calls, [&] { to.copy_(from); });
  from = to = Tensor();
  const int64_t side = small ? 64 : 4096;
  const Tensor a = random_tensor({side, side}, 1), b = random_tensor({side, side}, 2);
  Tensor c = empty({side, side});
  const double arithmetic = 2.0 * static_cast<double>(side * side * side) / seconds_of(calls, [&] {
    cuda::matmul_cublas(cuda::cublas_handle(0), side, side, side, {a.data<float>()}, {b.data<float>()}, 0.0f, c.data<float>());
  });

  // Article B's tensors.
  const Tensor x0 = random_tensor({n, 1, 28, 28}, 3), w1 = random_tensor({32, 1, 3, 3}, 4), b1 = random_tensor({32}, 5);
  const Tensor w2 = random_tensor({64, 32, 3, 3}, 6), b2 = random_tensor({64}, 7), h1 = random_tensor({n, 32, 26, 26}, 8);
  const Tensor dy2 = random_tensor({n, 64, 24, 24}, 9), pooled = random_tensor({n, 64, 12, 12}, 10), flat = random_tensor({n, 9216}, 11);
  const Tensor wf = random_tensor({128, 9216}, 12), bf = random_tensor({128}, 13), dyf = random_tensor({n, 128}, 14);
  const Tensor scores = random_tensor({n, 10}, 15), target = Tensor::zeros({n}, DType::int64, gpu);
  Tensor y1 = empty({n, 32, 26, 26}), y2 = empty({n, 64, 24, 24}), dw1 = empty({32, 1, 3, 3}), db1 = empty({32}), dw2 = empty({64, 32, 3, 3});
  Tensor db2 = empty({64}), dx2 = empty({n, 32, 26, 26}), yp = empty({n, 64, 12, 12}), dxp = empty({n, 64, 24, 24}), yf = empty({n, 128});
  Tensor winner = Tensor::zeros({n, 64, 12, 12}, DType::uint8, gpu), dxf = empty({n, 9216}), dwf = empty({128, 9216}), dbf = empty({128});
  Tensor log_p = empty({n, 10}), loss = empty({}), mask = empty({n, 64});
  std::vector<Tensor> params{w1.clone(), b1.clone(), w2.clone(), b2.clone(), wf.clone(), bf.clone()}, grads{w1, b1, w2, b2, wf, bf};
  std::vector<Tensor> buffers = {w1.clone(), b1.clone(), w2.clone(), b2.clone(), wf.clone(), bf.clone()};
  const std::vector<uint8_t> first(params.size(), 0);
  double parameters = 0;
  for (const Tensor& p : params) parameters += static_cast<double>(p.numel());

  const auto bytes = [](std::initializer_list<const Tensor*> all) {
    double total = 0;
    for (const Tensor* t : all) total += static_cast<double>(t->nbytes());
    return total;
  };
  const double conv1 = 2.0 * static_cast<double>(n) * 32 * 676 * 9, conv2 = 2.0 * static_cast<double>(n) * 64 * 576 * 288;
  const double fc1 = 2.0 * static_cast<double>(n) * 128 * 9216;
  const std::vector<Kernel> all{
      {"conv1 forward", bytes({&x0, &w1, &y1}), conv1, [&] { k.conv2d_forward(x0, w1, b1, {}, y1); }},
      {"conv1 backward weight", bytes({&x0, &h1}), conv1, [&] { k.conv2d_backward_weight(h1, x0, {}, dw1, db1); }},
      {"conv2 forward", bytes({&h1, &w2, &y2}), conv2, [&] { k.conv2d_forward(h1, w2, b2, {}, y2); }},
      {"conv2 backward input", bytes({&dy2, &w2, &dx2}), conv2, [&] { k.conv2d_backward_input(dy2, w2, {}, dx2); }},
      {"conv2 backward weight", bytes({&dy2, &h1}), conv2, [&] { k.conv2d_backward_weight(dy2, h1, {}, dw2, db2); }},
      {"relu forward", bytes({&dy2, &y2}), 0, [&] { k.relu_forward(dy2, y2); }},
      {"relu backward", 1.5 * bytes({&dy2, &y2}), 0, [&] { k.relu_backward(dy2, dy2, y2); }},
      {"max_pool2d forward", bytes({&dy2, &yp, &winner}), 0, [&] { k.max_pool2d_forward(dy2, {}, yp, winner); }},
      {"max_pool2d backward", bytes({&pooled, &winner, &dxp}), 0, [&] { k.max_pool2d_backward(pooled, winner, {}, dxp); }},
      {"dropout mask", bytes({&mask}), 0, [&] { k.dropout_mask(0.75, default_generator(gpu), mask); }},
      {"dropout planes", bytes({&pooled, &mask, &yp}), 0, [&] { k.scale_planes(pooled, mask, yp); }},
      {"fc1 forward", bytes({&flat, &wf, &yf}), fc1, [&] { k.linear_forward(flat, wf, bf, yf); }},
      {"fc1 backward input", bytes({&dyf, &wf, &dxf}), fc1, [&] { k.linear_backward_input(dyf, wf, dxf); }},
      {"fc1 backward weight", bytes({&dyf, &flat, &dwf}), fc1, [&] { k.linear_backward_weight(dyf, flat, dwf, dbf); }},
      {"log_softmax forward", bytes({&scores, &log_p}), 0, [&] { k.log_softmax_forward(scores, log_p); }},
      {"nll_loss forward", bytes({&scores}), 0, [&] { k.nll_loss_forward(scores, target, Reduction::mean, loss); }},
      {"SGD, all parameters", 20 * parameters, 0,
       [&] { k.sgd_step(params, grads, buffers, first, {.lr = 1e-6, .momentum = 0.5}); }},
  };

  nlohmann::json report;
  report["device"] = k.description();
  report["memory_bytes_per_s"] = bandwidth;
  report["float32_flops"] = arithmetic;
  fmt::print("Kernels of article B's step, batch {}, on cuda:0{}\nlimits: copy {:.0f} GB/s, cuBLAS float32 {:.1f} TFLOP/s\n", n,
             k.description(), bandwidth / 1e9, arithmetic / 1e12);
  fmt::print("{:<24} {:>10} {:>10} {:>10}  {}\n", "kernel", "us", "GB/s", "GFLOP/s", "share of its limit");
  for (const Kernel& kernel : all) {
    const double seconds = seconds_of(calls, kernel.call);
    const double memory = kernel.bytes / seconds / bandwidth, products = kernel.flops / seconds / arithmetic;
    const bool by_memory = memory >= products;
    fmt::print("{:<24} {:>10.1f} {:>10.1f} {:>10.1f}  {:>3.0f} % of {}\n", kernel.name, seconds * 1e6, kernel.bytes / seconds / 1e9,
               kernel.flops / seconds / 1e9, 100 * std::max(memory, products), by_memory ? "memory" : "arithmetic");
    report["kernels"].push_back({{"name", kernel.name},
                                 {"seconds", seconds},
                                 {"share", std::max(memory, products)},
                                 {"limit", by_memory ? "memory" : "arithmetic"}});
  }
  k.synchronize(0);
  write_file(argv[1], report.dump(2) + "\n");
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return run_program(run, argc, argv); }
