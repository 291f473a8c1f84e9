#include "common/kernels/cpu/cpu_kernels.h"
#include "common/kernels/cpu/onednn.h"
#include "common/kernels/cpu/parallel.h"

namespace miniddp {

namespace {

enum class Op { none, transpose };

/// c (M, N) = op(a) (M, K) * op(b) (K, N) + beta * c, row-major; `lda` and `ldb` are the stored rows' lengths.
void gemm(Op op_a, Op op_b, int64_t m, int64_t n, int64_t k, const float* a, int64_t lda, const float* b, int64_t ldb,
          float beta, float* c) {
  onednn::sgemm(op_a == Op::transpose, op_b == Op::transpose, m, n, k, a, lda, b, ldb, beta, c, n);
}

void gemm(Op op_a, Op op_b, int64_t m, int64_t n, int64_t k, const double* a, int64_t lda, const double* b,
          int64_t ldb, double beta, double* c) {
  parallel_for(m, n * k, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        double total = 0;
        for (int64_t p = 0; p < k; ++p) {
          total += (op_a == Op::none ? a[i * lda + p] : a[p * lda + i]) *
                   (op_b == Op::none ? b[p * ldb + j] : b[j * ldb + p]);
        }
        c[i * n + j] = total + (beta == 0 ? 0 : beta * c[i * n + j]);
      }
    }
  });
}

}  // namespace

void CpuKernels::linear_forward(const Tensor& x, const Tensor& w, const Tensor& b, Tensor& y) {
  with_float_type(y, [&](auto zero) {
    using T = decltype(zero);
    const int64_t batch = y.size(0), outputs = w.size(0), inputs = w.size(1);
    if (y.numel() == 0) return;
    T* out = y.data<T>();
    if (b.defined()) {
      const T* bias = b.data<T>();
      for (int64_t n = 0; n < batch; ++n) std::copy(bias, bias + outputs, out + n * outputs);
    }
    gemm(Op::none, Op::transpose, batch, outputs, inputs, x.data<T>(), inputs, w.data<T>(), inputs,
         b.defined() ? T{1} : T{0}, out);
  });
}

void CpuKernels::linear_backward_input(const Tensor& dy, const Tensor& w, Tensor& dx) {
  with_float_type(dx, [&](auto zero) {
    using T = decltype(zero);
    const int64_t batch = dy.size(0), outputs = w.size(0), inputs = w.size(1);
    if (dx.numel() == 0) return;
    gemm(Op::none, Op::none, batch, inputs, outputs, dy.data<T>(), outputs, w.data<T>(), inputs, T{0}, dx.data<T>());
  });
}

void CpuKernels::linear_backward_weight(const Tensor& dy, const Tensor& x, Tensor& dw, Tensor& db) {
  with_float_type(dw, [&](auto zero) {
    using T = decltype(zero);
    const int64_t batch = dy.size(0), outputs = dw.size(0), inputs = dw.size(1);
    if (batch == 0) {
      fill(dw, 0);
    } else if (dw.numel() > 0) {
      gemm(Op::transpose, Op::none, outputs, inputs, batch, dy.data<T>(), outputs, x.data<T>(), inputs, T{0},
           dw.data<T>());
    }
    if (!db.defined()) return;
    T* bias = db.data<T>();
    const T* grad = dy.data<T>();
    std::fill(bias, bias + outputs, T{0});
    for (int64_t n = 0; n < batch; ++n) {
      for (int64_t o = 0; o < outputs; ++o) bias[o] += grad[n * outputs + o];
    }
  });
}

}  // namespace miniddp
