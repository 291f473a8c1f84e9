#include "common/kernels/cuda/sgd.h"

#include <algorithm>

#include "common/kernels/cuda/launch.h"

namespace miniddp::cuda {

namespace {

constexpr int threads = 256;
constexpr int64_t elements_per_block = 4 * threads;
constexpr int most_parameters = 32;  // of one launch: its arguments must fit into 4 KB

/// All that a launch needs, by value: nothing has to be copied to the GPU before it.
template <class T>
struct Step {
  SgdParameter<T> parameters[most_parameters];
  int64_t first_block[most_parameters + 1];  // blocks first_block[i] … first_block[i+1]-1 work on parameter i
  int count;
  T lr, momentum, undamped, decay;
  bool nesterov;
};

template <class T>
__global__ void step_all(const __grid_constant__ Step<T> step) {
  // BEGIN SOLUTION 01.9 one SGD step for all parameters
  int which = 0;
  while (which + 1 < step.count && step.first_block[which + 1] <= blockIdx.x) ++which;
  const SgdParameter<T>& p = step.parameters[which];
  const int64_t begin = (blockIdx.x - step.first_block[which]) * elements_per_block;
  const int64_t end = min(static_cast<long long>(p.n), static_cast<long long>(begin + elements_per_block));
  for (int64_t i = begin + threadIdx.x; i < end; i += threads) {
    const T slope = p.grad[i] + step.decay * p.param[i];
    if (p.buffer == nullptr) {
      p.param[i] -= step.lr * slope;
      continue;
    }
    const T velocity = p.first ? slope : step.momentum * p.buffer[i] + step.undamped * slope;
    p.buffer[i] = velocity;
    p.param[i] -= step.lr * (step.nesterov ? slope + step.momentum * velocity : velocity);
  }
  // END SOLUTION
}

}  // namespace

template <class T>
void sgd_step(cudaStream_t stream, std::span<const SgdParameter<T>> parameters, const SgdParams& options) {
  for (size_t start = 0; start < parameters.size(); start += most_parameters) {
    Step<T> step{};
    step.count = static_cast<int>(std::min<size_t>(most_parameters, parameters.size() - start));
    for (int i = 0; i < step.count; ++i) {
      step.parameters[i] = parameters[start + static_cast<size_t>(i)];
      step.first_block[i + 1] = step.first_block[i] + (step.parameters[i].n + elements_per_block - 1) / elements_per_block;
    }
    step.lr = static_cast<T>(options.lr);
    step.momentum = static_cast<T>(options.momentum);
    step.undamped = static_cast<T>(1 - options.dampening);
    step.decay = static_cast<T>(options.weight_decay);
    step.nesterov = options.nesterov;
    launch(step_all<T>, static_cast<unsigned>(step.first_block[step.count]), threads, 0, stream, step);
  }
}

template void sgd_step(cudaStream_t, std::span<const SgdParameter<float>>, const SgdParams&);
template void sgd_step(cudaStream_t, std::span<const SgdParameter<double>>, const SgdParams&);

}  // namespace miniddp::cuda
