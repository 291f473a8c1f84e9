// The CPU backend: oneDNN for convolution and the products in float32, plain loops for the rest.
// One source file for each family of kernels. Several threads (one for each virtual device) call it at once.
#pragma once

#include "common/kernels/kernels.h"

namespace miniddp {

class CpuKernels final : public Kernels {
 public:
  int device_count() const override { return most_devices; }
  void* allocate(size_t nbytes, int device) override;
  void deallocate(void* data, size_t nbytes, int device) override;
  void synchronize(int device) override;
  void copy_rows(void* dst, Device dst_device, size_t dst_pitch, const void* src, Device src_device, size_t src_pitch,
                 size_t width, size_t rows) override;

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
  void conv2d_backward_weight(const Tensor& dy, const Tensor& x, Conv2dParams params, Tensor& dw,
                              Tensor& db) override;

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
  void batch_norm_forward(const Tensor& x, const Tensor& mean, const Tensor& invstd, const Tensor& w, const Tensor& b,
                          Tensor& y) override;
  void batch_norm_backward_reduce(const Tensor& dy, const Tensor& x, const Tensor& mean, Tensor& sum_dy,
                                  Tensor& sum_dy_xmu) override;
  void batch_norm_backward_input(const Tensor& dy, const Tensor& x, const Tensor& mean, const Tensor& invstd,
                                 const Tensor& w, const Tensor& sum_dy, const Tensor& sum_dy_xmu, double count,
                                 Tensor& dx) override;

  void sgd_step(std::span<Tensor> params, std::span<const Tensor> grads, std::span<Tensor> buffers,
                std::span<const uint8_t> first, SgdParams options) override;
};

}  // namespace miniddp
