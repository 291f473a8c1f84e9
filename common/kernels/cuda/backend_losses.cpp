// Losses, and what the backend says of itself.
#include "common/kernels/backends.h"
#include "common/kernels/cuda/cuda_kernels.h"
#include "common/kernels/cuda/launch.h"
#include "common/kernels/cuda/log_softmax.h"
#include "common/kernels/cuda/nll_loss.h"
#include "gpu_kind.h"

namespace miniddp {

using cuda::OnDeviceOf;

Kernels* cuda_kernels() {
  static CudaKernels* instance = new CudaKernels;  // leaked on purpose: tensors in static variables may outlive it
  return instance;
}

std::string CudaKernels::description() const {
  if (device_count() == 0) return fmt::format(" (none found: {})", cuda::count_devices().reason);
  if constexpr (cuda::gpu_is_emulated) return " (emulated on the CPU: the GPU's own code, but slow)";
  cudaDeviceProp properties;
  cuda::check_cuda(cudaGetDeviceProperties(&properties, 0), "cudaGetDeviceProperties");
  return fmt::format(" ({})", properties.name);
}

DeviceProperties CudaKernels::properties(int device) const {
  cudaDeviceProp properties;
  cuda::check_cuda(cudaGetDeviceProperties(&properties, device), "cudaGetDeviceProperties");
  return {static_cast<int64_t>(properties.totalGlobalMem), properties.multiProcessorCount};
}

bool CudaKernels::is_gpu() const { return !cuda::gpu_is_emulated; }

void CudaKernels::log_softmax_forward(const Tensor& x, Tensor& y) {
  const OnDeviceOf on(y);
  with_float_type(y, [&](auto zero) {
    using T = decltype(zero);
    cuda::log_softmax_forward(on.stream, x.size(0), x.size(1), x.data<T>(), y.data<T>());
  });
}

void CudaKernels::log_softmax_backward(const Tensor& dy, const Tensor& y, Tensor& dx) {
  const OnDeviceOf on(dx);
  with_float_type(dx, [&](auto zero) {
    using T = decltype(zero);
    cuda::log_softmax_backward(on.stream, y.size(0), y.size(1), dy.data<T>(), y.data<T>(), dx.data<T>());
  });
}

void CudaKernels::nll_loss_forward(const Tensor& x, const Tensor& target, Reduction reduction, Tensor& loss) {
  const OnDeviceOf on(loss);
  with_float_type(x, [&](auto zero) {
    using T = decltype(zero);
    cuda::nll_loss_forward(on.stream, x.size(0), x.size(1), x.data<T>(), target.data<int64_t>(), reduction == Reduction::mean,
                           on.state.report, loss.data<T>());
  });
}

void CudaKernels::nll_loss_backward(const Tensor& dloss, const Tensor& target, Reduction reduction, Tensor& dx) {
  const OnDeviceOf on(dx);
  with_float_type(dx, [&](auto zero) {
    using T = decltype(zero);
    cuda::nll_loss_backward(on.stream, dx.size(0), dx.size(1), dloss.data<T>(), target.data<int64_t>(), reduction == Reduction::mean,
                            on.state.report, dx.data<T>());
  });
}

void CudaKernels::count_correct(const Tensor& x, const Tensor& target, Tensor& count) {
  const OnDeviceOf on(x);
  with_float_type(x, [&](auto zero) {
    using T = decltype(zero);
    cuda::count_correct(on.stream, x.size(0), x.size(1), x.data<T>(), target.data<int64_t>(), count.data<int64_t>());
  });
}

}  // namespace miniddp
