// Rung 4: cuBLAS. It reads matrices column by column, so to it our row-major matrices are their transposes, and
// c^T = b^T * a^T: the operands change places and nothing is copied.
#include "common/core/error.h"
#include "common/kernels/cuda/matmul.h"
#include "common/kernels/kernels.h"

namespace miniddp::cuda {

namespace {

int dimension(int64_t size) {
  check<ShapeError>(size <= INT32_MAX, "expected matrices with less than 2^31 rows and columns (cuBLAS's limit), found {}", size);
  return static_cast<int>(size);
}

template <class T>
cublasOperation_t operation(Operand<T> x) {
  return x.transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
}

/// TF32 keeps 10 bits of each factor: far faster on tensor cores, but losses differ from the fourth digit on. Off unless asked for.
void set_math_mode(cublasHandle_t handle) {
  check_cublas(cublasSetMathMode(handle, tf32() ? CUBLAS_TF32_TENSOR_OP_MATH : CUBLAS_DEFAULT_MATH), "cublasSetMathMode");
}

template <class T, class Gemm>
void multiply(Gemm gemm, const char* what, cublasHandle_t handle, int64_t m, int64_t n, int64_t k, Operand<T> a, Operand<T> b, T beta,
              T* c) {
  if (m == 0 || n == 0) return;
  set_math_mode(handle);
  const T alpha = 1;
  const int64_t lda = a.transposed ? m : k, ldb = b.transposed ? k : n;
  check_cublas(gemm(handle, operation(b), operation(a), dimension(n), dimension(m), dimension(k), &alpha, b.data, dimension(ldb), a.data,
                    dimension(lda), &beta, c, dimension(n)),
               what);
}

template <class T, class Gemm>
void multiply_batched(Gemm gemm, const char* what, cublasHandle_t handle, int64_t batch, int64_t m, int64_t n, int64_t k, Operand<T> a,
                      int64_t a_step, Operand<T> b, int64_t b_step, T* c, int64_t c_step) {
  if (batch == 0 || m == 0 || n == 0) return;
  set_math_mode(handle);
  const T alpha = 1, beta = 0;
  const int64_t lda = a.transposed ? m : k, ldb = b.transposed ? k : n;
  check_cublas(gemm(handle, operation(b), operation(a), dimension(n), dimension(m), dimension(k), &alpha, b.data, dimension(ldb), b_step,
                    a.data, dimension(lda), a_step, &beta, c, dimension(n), c_step, dimension(batch)),
               what);
}

}  // namespace

void check_cublas(cublasStatus_t status, const char* what) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  int device = -1;
  cudaGetDevice(&device);
  throw DeviceError("{} failed on cuda:{}: {}", what, device, cublasGetStatusName(status));
}

void matmul_cublas(cublasHandle_t handle, int64_t m, int64_t n, int64_t k, Operand<float> a, Operand<float> b, float beta, float* c) {
  multiply(cublasSgemm, "cublasSgemm", handle, m, n, k, a, b, beta, c);
}

void matmul_cublas(cublasHandle_t handle, int64_t m, int64_t n, int64_t k, Operand<double> a, Operand<double> b, double beta, double* c) {
  multiply(cublasDgemm, "cublasDgemm", handle, m, n, k, a, b, beta, c);
}

void matmul_cublas_batched(cublasHandle_t handle, int64_t batch, int64_t m, int64_t n, int64_t k, Operand<float> a, int64_t a_step,
                           Operand<float> b, int64_t b_step, float* c, int64_t c_step) {
  multiply_batched(cublasSgemmStridedBatched, "cublasSgemmStridedBatched", handle, batch, m, n, k, a, a_step, b, b_step, c, c_step);
}

void matmul_cublas_batched(cublasHandle_t handle, int64_t batch, int64_t m, int64_t n, int64_t k, Operand<double> a, int64_t a_step,
                           Operand<double> b, int64_t b_step, double* c, int64_t c_step) {
  multiply_batched(cublasDgemmStridedBatched, "cublasDgemmStridedBatched", handle, batch, m, n, k, a, a_step, b, b_step, c, c_step);
}

}  // namespace miniddp::cuda
