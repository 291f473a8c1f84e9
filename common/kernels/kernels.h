// Every kernel, declared once; cpu/ and cuda/ implement this interface.
//
// Tensors are contiguous. All tensors of a call are on one device and outputs are allocated by the caller with the
// shapes named here; kernels do not check shapes (common/nn/functional.cpp does) and never see autograd.
// `float32` and `float64` are implemented for every arithmetic kernel unless said otherwise. Zero-size batches work.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "common/core/device.h"

namespace miniddp {

class Tensor;
class Generator;

/// Convolution (square strides and zero padding, groups 1, dilation 1).
struct Conv2dParams {
  int64_t stride = 1;
  int64_t padding = 0;
};

/// Max-pool over kernel x kernel windows without padding.
struct MaxPool2dParams {
  int64_t kernel = 2;
  int64_t stride = 2;
};

/// Of one device.
struct DeviceProperties {
  int64_t total_memory = 0;  // bytes
  int processors = 0;        // a GPU's multiprocessors
};

/// Options of one SGD step; PyTorch's torch.optim.SGD defines them.
struct SgdParams {
  double lr = 0.01;
  double momentum = 0;
  double dampening = 0;
  double weight_decay = 0;
  bool nesterov = false;
};

enum class Reduction { mean, sum };

/// Work on a device that was recorded once and can be enqueued again and again with one call (a CUDA graph).
class CapturedWork {
 public:
  virtual ~CapturedWork() = default;
  /// Enqueues all of it. It reads and writes the memory that it was captured with. Random masks are drawn anew, from the device's
  /// default generator.
  virtual void launch() = 0;
};

/// The kernels and the memory of one type of device.
class Kernels {
 public:
  virtual ~Kernels() = default;

  // --- memory ---------------------------------------------------------------------------------------------------
  /// Devices of this type. CPU: 64 virtual ones.
  virtual int device_count() const = 0;
  /// What a run on these devices should say of them: "" for the CPU, " (NVIDIA H200)", or that the GPU is emulated and slow.
  virtual std::string description() const { return ""; }
  /// What tells devices of this type apart; zeros where nothing is known, or all are alike.
  virtual DeviceProperties properties(int /*device*/) const { return {}; }
  /// True for GPUs that are really there: programs then use them by default.
  virtual bool is_gpu() const { return false; }
  /// At least `nbytes` bytes, 64-byte aligned, reused from a cache where possible. Throws DeviceError when there are none left.
  virtual void* allocate(size_t nbytes, int device) = 0;
  virtual void deallocate(void* data, size_t nbytes, int device) = 0;
  /// Waits until everything enqueued on the device is done. CPU: nothing to wait for.
  virtual void synchronize(int device) = 0;
  /// Calls `work`, which must enqueue on this device alone and from this thread alone, and records what it enqueues instead of running
  /// it. Tensors that it made and that still exist afterwards hold the results of the last launch. What it computes from numbers of the
  /// host (a learning rate, say) keeps the numbers of now. Throws DeviceError where `work` waits for the device, and on CPUs.
  virtual std::unique_ptr<CapturedWork> capture(int device, const std::function<void()>& work);
  /// `rows` rows of `width` bytes each; a row starts `pitch` bytes after the one before. One of the two devices is of this type, the
  /// other may be the CPU. Ordered after the work enqueued before it on both devices; the host may reuse `src` at once.
  virtual void copy_rows(void* dst, Device dst_device, size_t dst_pitch, const void* src, Device src_device, size_t src_pitch,
                         size_t width, size_t rows) = 0;

  // --- elementwise, any shape -----------------------------------------------------------------------------------
  /// out = value (any dtype but the 16-bit ones).
  virtual void fill(Tensor& out, double value) = 0;
  /// out = in converted; between float32, float64, float16, bfloat16 (round to nearest even), and uint8/int64 to floats.
  virtual void cast(const Tensor& in, Tensor& out) = 0;
  virtual void add(const Tensor& a, const Tensor& b, Tensor& out) = 0;
  virtual void mul(const Tensor& a, const Tensor& b, Tensor& out) = 0;
  /// out = a * factor. `out` may be `a`.
  virtual void scale(const Tensor& a, double factor, Tensor& out) = 0;
  /// y += alpha * x.
  virtual void axpy(double alpha, const Tensor& x, Tensor& y) = 0;
  /// y = max(x, 0); NaN stays NaN. `y` may be `x`.
  virtual void relu_forward(const Tensor& x, Tensor& y) = 0;
  /// dx = dy where y > 0, else 0. `dx` may be `dy`.
  virtual void relu_backward(const Tensor& dy, const Tensor& y, Tensor& dx) = 0;
  /// out = sum of all elements, a scalar. Deterministic order.
  virtual void sum(const Tensor& in, Tensor& out) = 0;

  // --- layers ---------------------------------------------------------------------------------------------------
  /// y (N, O) = x (N, I) * w (O, I)^T + b (O); `b` may be undefined.
  virtual void linear_forward(const Tensor& x, const Tensor& w, const Tensor& b, Tensor& y) = 0;
  /// dx (N, I) = dy (N, O) * w (O, I).
  virtual void linear_backward_input(const Tensor& dy, const Tensor& w, Tensor& dx) = 0;
  /// dw (O, I) = dy^T * x; db (O) = column sums of dy, skipped when undefined.
  virtual void linear_backward_weight(const Tensor& dy, const Tensor& x, Tensor& dw, Tensor& db) = 0;

  /// y (N, O, OH, OW) from x (N, C, H, W), w (O, C, K, K), b (O); `b` may be undefined.
  virtual void conv2d_forward(const Tensor& x, const Tensor& w, const Tensor& b, Conv2dParams params, Tensor& y) = 0;
  virtual void conv2d_backward_input(const Tensor& dy, const Tensor& w, Conv2dParams params, Tensor& dx) = 0;
  /// dw (O, C, K, K); db (O), skipped when undefined.
  virtual void conv2d_backward_weight(const Tensor& dy, const Tensor& x, Conv2dParams params, Tensor& dw, Tensor& db) = 0;

  /// y (N, C, OH, OW) and the winner's place in its window (uint8, row-major, kernel <= 15; the first of equals wins; NaN wins).
  virtual void max_pool2d_forward(const Tensor& x, MaxPool2dParams params, Tensor& y, Tensor& winner) = 0;
  /// dx (N, C, H, W); windows that overlap add up.
  virtual void max_pool2d_backward(const Tensor& dy, const Tensor& winner, MaxPool2dParams params, Tensor& dx) = 0;

  /// mask = 1/keep with probability keep, else 0. CPU: two draws an element, as PyTorch; CUDA: Philox.
  virtual void dropout_mask(double keep, Generator& generator, Tensor& mask) = 0;
  /// y = x * mask, where mask (M elements) covers x's leading dimensions: each mask element scales numel/M neighbours.
  virtual void scale_planes(const Tensor& x, const Tensor& mask, Tensor& y) = 0;

  /// y (N, C) = x - log(sum(exp(x))) along the last dimension.
  virtual void log_softmax_forward(const Tensor& x, Tensor& y) = 0;
  virtual void log_softmax_backward(const Tensor& dy, const Tensor& y, Tensor& dx) = 0;
  /// loss (scalar) of log-probabilities x (N, C) at target (N, int64). A target outside [0, C) throws Error (CUDA: at the next
  /// synchronisation). An empty batch gives NaN for the mean, as PyTorch.
  virtual void nll_loss_forward(const Tensor& x, const Tensor& target, Reduction reduction, Tensor& loss) = 0;
  /// dx (N, C) from dloss (scalar).
  virtual void nll_loss_backward(const Tensor& dloss, const Tensor& target, Reduction reduction, Tensor& dx) = 0;
  /// count (int64 scalar) += rows of x (N, C) whose largest element (the first of equals) is at target (N, int64).
  virtual void count_correct(const Tensor& x, const Tensor& target, Tensor& count) = 0;

  // BatchNorm in four pieces, so that SyncBatchNorm can combine the statistics of several ranks between them.
  /// Per channel of x (N, C, …): mean (C) and biased variance (C).
  virtual void batch_norm_stats(const Tensor& x, Tensor& mean, Tensor& var) = 0;
  /// invstd (C) = 1 / sqrt(var + eps).
  virtual void inverse_std(const Tensor& var, double eps, Tensor& invstd) = 0;
  /// y = (x - mean) * invstd * w + b; w and b (C).
  virtual void batch_norm_forward(const Tensor& x, const Tensor& mean, const Tensor& invstd, const Tensor& w, const Tensor& b,
                                  Tensor& y) = 0;
  /// sum_dy (C) and sum_dy_xmu (C) = sum of dy * (x - mean). db = sum_dy, dw = sum_dy_xmu * invstd.
  virtual void batch_norm_backward_reduce(const Tensor& dy, const Tensor& x, const Tensor& mean, Tensor& sum_dy,
                                          Tensor& sum_dy_xmu) = 0;
  /// dx = (dy - sum_dy/count - (x - mean) * invstd^2 * sum_dy_xmu/count) * invstd * w.
  virtual void batch_norm_backward_input(const Tensor& dy, const Tensor& x, const Tensor& mean, const Tensor& invstd,
                                         const Tensor& w, const Tensor& sum_dy, const Tensor& sum_dy_xmu, double count,
                                         Tensor& dx) = 0;

  /// One SGD step over all parameters. `buffers[i]` is the momentum buffer (undefined tensors when momentum is 0);
  /// `first[i]` says that buffer i is new: it becomes the gradient itself, without dampening.
  virtual void sgd_step(std::span<Tensor> params, std::span<const Tensor> grads, std::span<Tensor> buffers,
                        std::span<const uint8_t> first, SgdParams options) = 0;
};

/// The kernels of a device type. Throws DeviceError with what to do when this build has none (no_cuda.cpp).
Kernels& kernels(DeviceType type);

/// Devices of a type, at most `most_devices`: 0 when the build or the machine has none.
int device_count(DeviceType type);

/// Throws DeviceError unless `device` is one of these.
void check_exists(Device device);

/// True if a real GPU is there (the emulator's virtual ones do not count).
bool has_gpu();

/// Whether large matrix products on GPUs may round their factors to TF32: much faster on tensor cores, but only 10 bits of mantissa, so
/// losses differ from the fourth digit on. Off by default; without effect on CPUs.
void set_tf32(bool allowed);
bool tf32();

/// CPU threads that each virtual device, and the calling thread, may use for one kernel. Default: all cores.
void set_threads_per_device(int threads);
int threads_per_device();

}  // namespace miniddp
