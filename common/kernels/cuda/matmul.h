// Matrix products. A ladder of four ways to compute the same thing, each faster than the one before; chapter 01 climbs it
// (chapters/01_single_device/CUDA.md). All matrices are row-major, T is float or double.
#pragma once

#include <cublas_v2.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace miniddp::cuda {

/// An operand of c (m, n) = a (m, k) * b (k, n), or its transpose as it lies in memory.
template <class T>
struct Operand {
  const T* data;
  bool transposed = false;  // a is stored as (k, m), b as (n, k)
};

/// Rung 1: a thread for each element of c, everything read from global memory. No transposes.
template <class T>
void matmul_naive(cudaStream_t stream, int64_t m, int64_t n, int64_t k, const T* a, const T* b, T* c);

/// Rung 2: tiles of 16 x 16 in shared memory, so that each element is read k/16 times less. No transposes.
template <class T>
void matmul_tiled(cudaStream_t stream, int64_t m, int64_t n, int64_t k, const T* a, const T* b, T* c);

/// Rung 3: besides, each thread keeps a small tile of c in registers, so that each value from shared memory is used several
/// times. `bias` (n) is added to each row unless it is null.
template <class T>
void matmul_registers(cudaStream_t stream, int64_t m, int64_t n, int64_t k, Operand<T> a, Operand<T> b, const T* bias, T* c);

/// Rung 4: NVIDIA's library. c = a * b + beta * c; `handle` belongs to the stream.
void matmul_cublas(cublasHandle_t handle, int64_t m, int64_t n, int64_t k, Operand<float> a, Operand<float> b, float beta, float* c);
void matmul_cublas(cublasHandle_t handle, int64_t m, int64_t n, int64_t k, Operand<double> a, Operand<double> b, double beta, double* c);

/// `batch` products at once; the operands of the next one lie `a_step`, `b_step` and `c_step` elements on (0: the same one).
void matmul_cublas_batched(cublasHandle_t handle, int64_t batch, int64_t m, int64_t n, int64_t k, Operand<float> a, int64_t a_step,
                           Operand<float> b, int64_t b_step, float* c, int64_t c_step);
void matmul_cublas_batched(cublasHandle_t handle, int64_t batch, int64_t m, int64_t n, int64_t k, Operand<double> a, int64_t a_step,
                           Operand<double> b, int64_t b_step, double* c, int64_t c_step);

/// Which rung a product takes: below this many multiplications our own kernel is as fast, and adds the bias for nothing.
inline bool is_large_product(int64_t m, int64_t n, int64_t k) { return m * n * k >= int64_t{1} << 19; }

/// Throws DeviceError naming the call and cuBLAS's code unless `status` is success.
void check_cublas(cublasStatus_t status, const char* what);

}  // namespace miniddp::cuda
