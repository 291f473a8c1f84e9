// The CUDA backend: tensors become pointers and sizes here, on their device and its compute stream. The kernels themselves,
// one idea a file, are the .cu files beside this one; chapters/01_single_device/CUDA.md explains them.
#pragma once

#include "common/kernels/cuda/device.h"
#include "common/kernels/float_type.h"
#include "common/kernels/kernels.h"

namespace miniddp {

class CudaKernels final : public Kernels {
 public:
  int device_count() const override { return cuda::count_devices().count; }
  std::string description() const override;
  DeviceProperties properties(int device) const override;
  bool is_gpu() const override;

  void* allocate(size_t nbytes, int device) override;
  void deallocate(void* data, size_t nbytes, int device) override;
  void synchronize(int device) override;
  void copy_rows(void* dst, Device dst_device, size_t dst_pitch, const void* src, Device src_device, size_t src_pitch, size_t width,
                 size_t rows) override;
  std::unique_ptr<CapturedWork> capture(int device, const std::function<void()>& work) override;

  void fill(Tensor& out, double value) override;
  void cast(const Tensor& in, Tensor& out) override;
  void add(const Tensor& a, const Tensor& b, Tensor& out) override;
  void mul(const Tensor& a, const Tensor& b, Tensor& out) override;
  void scale(const Tensor& a, double factor, Tensor& out) override;
  void axpy(double alpha, const Tensor& x, Tensor& y) override;
  void relu_forward(const Tensor& x, Tensor& y) override;
  void relu_backward(const Tensor& dy, const Tensor& y, Tensor& dx) override;
  void sum(const Tensor& in, Tensor& out) override;

  void linear_forward(const Tensor& x, const Tensor& w, const Tensor& b, Tensor& y) override;
  void linear_backward_input(const Tensor& dy, const Tensor& w, Tensor& dx) override;
  void linear_backward_weight(const Tensor& dy, const Tensor& x, Tensor& dw, Tensor& db) override;

  void conv2d_forward(const Tensor& x, const Tensor& w, const Tensor& b, Conv2dParams params, Tensor& y) override;
  void conv2d_backward_input(const Tensor& dy, const Tensor& w, Conv2dParams params, Tensor& dx) override;
  void conv2d_backward_weight(const Tensor& dy, const Tensor& x, Conv2dParams params, Tensor& dw, Tensor& db) override;

  void max_pool2d_forward(const Tensor& x, MaxPool2dParams params, Tensor& y, Tensor& winner) override;
  void max_pool2d_backward(const Tensor& dy, const Tensor& winner, MaxPool2dParams params, Tensor& dx) override;

  void dropout_mask(double keep, Generator& generator, Tensor& mask) override;
  void scale_planes(const Tensor& x, const Tensor& mask, Tensor& y) override;

  void log_softmax_forward(const Tensor& x, Tensor& y) override;
  void log_softmax_backward(const Tensor& dy, const Tensor& y, Tensor& dx) override;
  void nll_loss_forward(const Tensor& x, const Tensor& target, Reduction reduction, Tensor& loss) override;
  void nll_loss_backward(const Tensor& dloss, const Tensor& target, Reduction reduction, Tensor& dx) override;
  void count_correct(const Tensor& x, const Tensor& target, Tensor& count) override;

  void batch_norm_stats(const Tensor& x, Tensor& mean, Tensor& var) override;
  void inverse_std(const Tensor& var, double eps, Tensor& invstd) override;
  void batch_norm_forward(const Tensor& x, const Tensor& mean, const Tensor& invstd, const Tensor& w, const Tensor& b, Tensor& y) override;
  void batch_norm_backward_reduce(const Tensor& dy, const Tensor& x, const Tensor& mean, Tensor& sum_dy, Tensor& sum_dy_xmu) override;
  void batch_norm_backward_input(const Tensor& dy, const Tensor& x, const Tensor& mean, const Tensor& invstd, const Tensor& w,
                                 const Tensor& sum_dy, const Tensor& sum_dy_xmu, double count, Tensor& dx) override;

  void sgd_step(std::span<Tensor> params, std::span<const Tensor> grads, std::span<Tensor> buffers, std::span<const uint8_t> first,
                SgdParams options) override;
};

namespace cuda {

/// A kernel call's surroundings: the tensor's device is the thread's device, and its compute stream is known.
struct OnDeviceOf {
  DeviceGuard guard;
  DeviceState& state;
  cudaStream_t stream;

  explicit OnDeviceOf(const Tensor& tensor, std::source_location where = std::source_location::current())
      : OnDeviceOf(tensor.device(), where) {}
  explicit OnDeviceOf(Device device, std::source_location where = std::source_location::current())
      : guard(device.index, where), state(device_state(device.index)), stream(state.compute) {}
};

/// Working memory of a kernel, from the device's pool and in its stream's order.
template <class T>
class Scratch {
 public:
  Scratch(int64_t count, int device)
      : bytes_(static_cast<size_t>(count) * sizeof(T)),
        device_(device),
        data_(kernels(DeviceType::cuda).allocate(bytes_, device)) {}
  ~Scratch() { kernels(DeviceType::cuda).deallocate(data_, bytes_, device_); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  T* data() const { return static_cast<T*>(data_); }

 private:
  size_t bytes_;
  int device_;
  void* data_;
};

template <class T>
T* data_or_null(const Tensor& tensor) {
  return tensor.defined() ? tensor.data<T>() : nullptr;
}

}  // namespace cuda
}  // namespace miniddp
