#include "common/kernels/cpu/cpu_kernels.h"
#include "common/kernels/cpu/parallel.h"

namespace miniddp {

namespace {

/// One parameter. With momentum, `buffer` is its velocity; `first` says that it holds nothing yet.
template <class T>
void step(T* param, const T* grad, T* buffer, int64_t n, bool first, const SgdParams& options) {
  const T lr = static_cast<T>(options.lr), momentum = static_cast<T>(options.momentum);
  const T undamped = static_cast<T>(1 - options.dampening), decay = static_cast<T>(options.weight_decay);
  const bool nesterov = options.nesterov;
  // BEGIN SOLUTION 01.10 SGD with momentum
  if (momentum == 0) {
    parallel_for(n, 1, [=](int64_t begin, int64_t end) {
#pragma omp simd
      for (int64_t i = begin; i < end; ++i) param[i] -= lr * (grad[i] + decay * param[i]);
    });
    return;
  }
  parallel_for(n, 1, [=](int64_t begin, int64_t end) {
#pragma omp simd
    for (int64_t i = begin; i < end; ++i) {
      const T slope = grad[i] + decay * param[i];
      const T velocity = first ? slope : momentum * buffer[i] + undamped * slope;
      buffer[i] = velocity;
      param[i] -= lr * (nesterov ? slope + momentum * velocity : velocity);
    }
  });
  // END SOLUTION
}

}  // namespace

void CpuKernels::sgd_step(std::span<Tensor> params, std::span<const Tensor> grads, std::span<Tensor> buffers,
                          std::span<const uint8_t> first, SgdParams options) {
  for (size_t i = 0; i < params.size(); ++i) {
    with_float_type(params[i], [&](auto zero) {
      using T = decltype(zero);
      const bool has_buffer = options.momentum != 0;
      T* buffer = has_buffer ? buffers[i].data<T>() : nullptr;
      step(params[i].data<T>(), grads[i].data<T>(), buffer, params[i].numel(), has_buffer && first[i] != 0, options);
    });
  }
}

}  // namespace miniddp
