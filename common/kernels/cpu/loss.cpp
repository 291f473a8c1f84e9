#include <cmath>
#include <limits>

#include "common/kernels/cpu/cpu_kernels.h"
#include "common/kernels/cpu/parallel.h"

namespace miniddp {

namespace {

void check_targets(const Tensor& target, int64_t classes) {
  const int64_t* labels = target.data<int64_t>();
  for (int64_t n = 0; n < target.numel(); ++n) {
    check(labels[n] >= 0 && labels[n] < classes,
          "expected targets in [0, {}), as there are {} classes, found {} in row {}; check the labels, or the number "
          "of outputs of the last layer",
          classes, classes, labels[n], n);
  }
}

/// What each row's term counts for in the loss.
double weight_of(Reduction reduction, int64_t rows) {
  return reduction == Reduction::sum ? 1.0 : 1.0 / static_cast<double>(rows);
}

/// log_p[c] = x[c] - log(sum(exp(x))), of one row.
template <class T>
void log_softmax_row(const T* x, T* log_p, int64_t classes) {
  // BEGIN SOLUTION 01.11 log-softmax
  T largest = -std::numeric_limits<T>::infinity();
  for (int64_t c = 0; c < classes; ++c) largest = std::max(largest, x[c]);
  T total = 0;
  for (int64_t c = 0; c < classes; ++c) total += std::exp(x[c] - largest);
  const T log_total = std::log(total);
  for (int64_t c = 0; c < classes; ++c) log_p[c] = x[c] - largest - log_total;
  // END SOLUTION
}

/// The gradient of x from that of log_p, of one row.
template <class T>
void log_softmax_row_backward(const T* grad, const T* log_p, T* dx, int64_t classes) {
  // BEGIN SOLUTION 01.12 log-softmax backward
  T total = 0;
  for (int64_t c = 0; c < classes; ++c) total += grad[c];
  for (int64_t c = 0; c < classes; ++c) dx[c] = grad[c] - std::exp(log_p[c]) * total;
  // END SOLUTION
}

}  // namespace

void CpuKernels::log_softmax_forward(const Tensor& x, Tensor& y) {
  with_float_type(y, [&](auto zero) {
    using T = decltype(zero);
    const int64_t classes = x.size(1);
    const T* in = x.data<T>();
    T* out = y.data<T>();
    parallel_for(x.size(0), 16 * classes, [&](int64_t begin, int64_t end) {
      for (int64_t n = begin; n < end; ++n) log_softmax_row(in + n * classes, out + n * classes, classes);
    });
  });
}

void CpuKernels::log_softmax_backward(const Tensor& dy, const Tensor& y, Tensor& dx) {
  with_float_type(dx, [&](auto zero) {
    using T = decltype(zero);
    const int64_t classes = y.size(1);
    const T* grad = dy.data<T>();
    const T* log_p = y.data<T>();
    T* out = dx.data<T>();
    parallel_for(y.size(0), 16 * classes, [&](int64_t begin, int64_t end) {
      for (int64_t n = begin; n < end; ++n) {
        log_softmax_row_backward(grad + n * classes, log_p + n * classes, out + n * classes, classes);
      }
    });
  });
}

void CpuKernels::nll_loss_forward(const Tensor& x, const Tensor& target, Reduction reduction, Tensor& loss) {
  const int64_t rows = x.size(0), classes = x.size(1);
  check_targets(target, classes);
  with_float_type(x, [&](auto zero) {
    using T = decltype(zero);
    const T* log_p = x.data<T>();
    const int64_t* labels = target.data<int64_t>();
    double total = 0;
    for (int64_t n = 0; n < rows; ++n) total -= log_p[n * classes + labels[n]];
    // The mean of no rows is 0 / 0: NaN, as in PyTorch.
    *loss.data<T>() = static_cast<T>(reduction == Reduction::mean ? total / static_cast<double>(rows) : total);
  });
}

void CpuKernels::nll_loss_backward(const Tensor& dloss, const Tensor& target, Reduction reduction, Tensor& dx) {
  const int64_t rows = dx.size(0), classes = dx.size(1);
  check_targets(target, classes);
  fill(dx, 0);
  if (rows == 0) return;
  with_float_type(dx, [&](auto zero) {
    using T = decltype(zero);
    const T grad = static_cast<T>(-*dloss.data<T>() * weight_of(reduction, rows));
    const int64_t* labels = target.data<int64_t>();
    T* out = dx.data<T>();
    for (int64_t n = 0; n < rows; ++n) out[n * classes + labels[n]] = grad;
  });
}

void CpuKernels::count_correct(const Tensor& x, const Tensor& target, Tensor& count) {
  with_float_type(x, [&](auto zero) {
    using T = decltype(zero);
    const int64_t rows = x.size(0), classes = x.size(1);
    const T* scores = x.data<T>();
    const int64_t* labels = target.data<int64_t>();
    int64_t correct = 0;
    for (int64_t n = 0; n < rows; ++n) {
      const T* row = scores + n * classes;
      int64_t best = 0;
      for (int64_t c = 1; c < classes; ++c) {
        // NaN counts as the largest, as in torch.argmax.
        if (row[c] > row[best] || (row[c] != row[c] && row[best] == row[best])) best = c;
      }
      correct += classes > 0 && best == labels[n];
    }
    *count.data<int64_t>() += correct;
  });
}

}  // namespace miniddp
