// Negative log-likelihood, and counting right answers. T is float or double.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace miniddp::cuda {

/// A kernel cannot throw. It writes down the first target that it finds out of range, in pinned memory that the host reads
/// at the next synchronisation.
struct TargetReport {
  unsigned long long row_plus_one;  // 0: none
  long long target, classes;
};

/// *loss = -sum over rows of x (rows, classes) at target (rows), divided by the rows if `mean`: NaN for no rows.
template <class T>
void nll_loss_forward(cudaStream_t stream, int64_t rows, int64_t classes, const T* x, const int64_t* target, bool mean,
                      TargetReport* report, T* loss);
/// dx (rows, classes): -*dloss (/ rows) at the targets, 0 elsewhere.
template <class T>
void nll_loss_backward(cudaStream_t stream, int64_t rows, int64_t classes, const T* dloss, const int64_t* target, bool mean,
                       TargetReport* report, T* dx);
/// *count += rows whose largest element (the first of equals; NaN is the largest) is at the target.
template <class T>
void count_correct(cudaStream_t stream, int64_t rows, int64_t classes, const T* x, const int64_t* target, int64_t* count);

}  // namespace miniddp::cuda
