#include <cblas.h>
#include <cublas_v2.h>
#include <dlfcn.h>

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <set>
#include <vector>

#include "common/cuda_emulator/memory.h"
#include "common/cuda_emulator/runtime.h"
#include "common/cuda_emulator/sanitizers.h"
#include "common/cuda_emulator/stream.h"

using namespace miniddp::emulator;

struct cublasContext {
  int device;
  cudaStream_t stream = nullptr;
  cublasPointerMode_t pointer_mode = CUBLAS_POINTER_MODE_HOST;
  cublasMath_t math_mode = CUBLAS_DEFAULT_MATH;
};

namespace {

struct Handles {
  std::mutex mutex;
  std::set<cublasHandle_t> alive;
};
Handles& handles() {
  static auto* instance = new Handles;
  return *instance;
}
bool alive(cublasHandle_t handle) {
  Quiet quiet;
  std::lock_guard lock(handles().mutex);
  return handles().alive.contains(handle);
}

/// OpenBLAS starts threads as soon as it is loaded, and Debian 13's hangs for ever where there is no memory for them. So it is loaded when
/// cuBLAS is first used, and told to have none: streams are threads already, and results must not depend on the number of cores.
struct Blas {
  decltype(&cblas_sgemm) sgemm = nullptr;
  decltype(&cblas_dgemm) dgemm = nullptr;
  decltype(&cblas_sgemv) sgemv = nullptr;
  decltype(&cblas_dgemv) dgemv = nullptr;

  Blas() {
    setenv("OPENBLAS_NUM_THREADS", "1", 1);
    void* library = dlopen(MINIDDP_OPENBLAS, RTLD_NOW | RTLD_LOCAL);
    find(library, "cblas_sgemm", sgemm);
    find(library, "cblas_dgemm", dgemm);
    find(library, "cblas_sgemv", sgemv);
    find(library, "cblas_dgemv", dgemv);
    if (!complete()) std::fprintf(stderr, "CUDA emulator: OpenBLAS cannot be loaded: %s\n", dlerror());
  }
  bool complete() const { return sgemm != nullptr && dgemm != nullptr && sgemv != nullptr && dgemv != nullptr; }

 private:
  template <class F>
  static void find(void* library, const char* name, F& function) {
    if (library != nullptr) function = reinterpret_cast<F>(dlsym(library, name));
  }
};
const Blas& blas() {
  static const Blas instance;
  return instance;
}

CBLAS_TRANSPOSE op_of(cublasOperation_t op) { return op == CUBLAS_OP_N ? CblasNoTrans : CblasTrans; }

void product(CBLAS_TRANSPOSE ta, CBLAS_TRANSPOSE tb, int m, int n, int k, float alpha, const float* a, int lda,
             const float* b, int ldb, float beta, float* c, int ldc) {
  blas().sgemm(CblasColMajor, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}
void product(CBLAS_TRANSPOSE ta, CBLAS_TRANSPOSE tb, int m, int n, int k, double alpha, const double* a, int lda,
             const double* b, int ldb, double beta, double* c, int ldc) {
  blas().dgemm(CblasColMajor, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}
void product(CBLAS_TRANSPOSE t, int m, int n, float alpha, const float* a, int lda, const float* x, int incx, float beta,
             float* y, int incy) {
  blas().sgemv(CblasColMajor, t, m, n, alpha, a, lda, x, incx, beta, y, incy);
}
void product(CBLAS_TRANSPOSE t, int m, int n, double alpha, const double* a, int lda, const double* x, int incx,
             double beta, double* y, int incy) {
  blas().dgemv(CblasColMajor, t, m, n, alpha, a, lda, x, incx, beta, y, incy);
}

/// A column-major matrix of `batch` pieces.
template <class T>
struct Matrix {
  const char* name;
  T* data;
  int rows;
  int columns;
  int leading;
  long long stride = 0;
  int batch = 1;

  bool empty() const { return rows == 0 || columns == 0 || batch == 0; }
  std::size_t bytes() const {
    if (empty()) return 0;
    return sizeof(T) * (static_cast<std::size_t>(stride) * (batch - 1) +
                        static_cast<std::size_t>(leading) * (columns - 1) + rows);
  }
  template <class Function>
  void each_column(Function function) const {
    for (int i = 0; i < batch; ++i)
      for (int j = 0; j < columns; ++j) function(data + i * stride + static_cast<long long>(j) * leading);
  }
  void announce_read() const {
    if (race_detector || memory_detector) each_column([this](T* column) { about_to_read(column, sizeof(T) * rows); });
  }
  void announce_write() const {
    if constexpr (!std::is_const_v<T>)
      if (race_detector || memory_detector) each_column([this](T* column) { about_to_write(column, sizeof(T) * rows); });
  }
};

template <class T>
Matrix<T> vector_of(const char* name, T* data, int count, int increment) {
  return {name, data, 1, count, std::abs(increment)};
}

/// Memory that the handle's device cannot use would fault on a GPU, after the call.
template <class T>
bool usable(const cublasContext& handle, const Matrix<T>& matrix) {
  const std::string why = why_unusable(matrix.data, matrix.bytes(), handle.device);
  if (why.empty()) return true;
  std::fprintf(stderr, "emulator: cuBLAS on device %d: %s (%p) %s\n", handle.device, matrix.name,
               static_cast<const void*>(matrix.data), why.c_str());
  return false;
}

/// The nearest float with 10 bits of mantissa, ties to even: what tensor cores compute with.
float tf32(float x) {
  auto bits = std::bit_cast<std::uint32_t>(x);
  if ((bits & 0x7f800000u) == 0x7f800000u) return x;
  bits += 0xfffu + (bits >> 13 & 1);
  return std::bit_cast<float>(bits & ~0x1fffu);
}

/// Runs `operation(alpha, beta)` in the handle's stream. Scalars in host memory are read now, in device memory then.
template <class T, class Function>
cublasStatus_t run(cublasHandle_t handle, const T* alpha, const T* beta, Function operation) {
  if (handle->device != current_device()) {
    std::fprintf(stderr, "emulator: cuBLAS: the handle belongs to device %d, but device %d is the current one\n",
                 handle->device, current_device());
    return CUBLAS_STATUS_EXECUTION_FAILED;
  }
  std::shared_ptr<Stream> stream;
  if (find_stream(handle->stream, stream)) return CUBLAS_STATUS_EXECUTION_FAILED;
  cudaError_t error;
  if (handle->pointer_mode == CUBLAS_POINTER_MODE_DEVICE)
    error = enqueue(*stream, [=] { operation(*alpha, *beta); });
  else
    error = enqueue(*stream, [=, a = *alpha, b = *beta] { operation(a, b); });
  return error ? CUBLAS_STATUS_EXECUTION_FAILED : CUBLAS_STATUS_SUCCESS;
}

template <class T>
cublasStatus_t gemm(cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b, int m, int n, int k,
                    const T* alpha, const T* a, int lda, long long stride_a, const T* b, int ldb, long long stride_b,
                    const T* beta, T* c, int ldc, long long stride_c, int batch) {
  if (!alive(handle)) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (m < 0 || n < 0 || k < 0 || batch < 0 || !alpha || !beta) return CUBLAS_STATUS_INVALID_VALUE;
  const bool plain_a = op_a == CUBLAS_OP_N;
  const bool plain_b = op_b == CUBLAS_OP_N;
  const Matrix<const T> in_a{"A", a, plain_a ? m : k, plain_a ? k : m, lda, stride_a, batch};
  const Matrix<const T> in_b{"B", b, plain_b ? k : n, plain_b ? n : k, ldb, stride_b, batch};
  const Matrix<T> out{"C", c, m, n, ldc, stride_c, batch};
  if (lda < std::max(1, in_a.rows) || ldb < std::max(1, in_b.rows) || ldc < std::max(1, m))
    return CUBLAS_STATUS_INVALID_VALUE;
  if (out.empty()) return CUBLAS_STATUS_SUCCESS;
  if (!usable(*handle, in_a) || !usable(*handle, in_b) || !usable(*handle, out)) return CUBLAS_STATUS_EXECUTION_FAILED;
  const bool rounds = std::is_same_v<T, float> && handle->math_mode == CUBLAS_TF32_TENSOR_OP_MATH;
  return run(handle, alpha, beta, [=](T alpha_value, T beta_value) {
    in_a.announce_read();
    in_b.announce_read();
    out.announce_write();
    std::vector<T> rounded_a;
    std::vector<T> rounded_b;
    for (int i = 0; i < batch; ++i) {
      const T* from_a = a + i * stride_a;
      const T* from_b = b + i * stride_b;
      if (rounds) {
        const auto round = [](const T* from, const Matrix<const T>& shape, std::vector<T>& to) {
          to.assign(from, from + static_cast<std::size_t>(shape.leading) * (shape.columns - 1) + shape.rows);
          for (T& x : to) x = static_cast<T>(tf32(static_cast<float>(x)));
          return to.data();
        };
        if (!in_a.empty()) from_a = round(from_a, in_a, rounded_a);
        if (!in_b.empty()) from_b = round(from_b, in_b, rounded_b);
      }
      product(op_of(op_a), op_of(op_b), m, n, k, alpha_value, from_a, lda, from_b, ldb, beta_value, c + i * stride_c,
              ldc);
    }
  });
}

template <class T>
cublasStatus_t gemv(cublasHandle_t handle, cublasOperation_t op, int m, int n, const T* alpha, const T* a, int lda,
                    const T* x, int incx, const T* beta, T* y, int incy) {
  if (!alive(handle)) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (m < 0 || n < 0 || lda < std::max(1, m) || incx == 0 || incy == 0 || !alpha || !beta)
    return CUBLAS_STATUS_INVALID_VALUE;
  const bool plain = op == CUBLAS_OP_N;
  const Matrix<const T> in{"A", a, m, n, lda};
  const auto in_x = vector_of("x", x, plain ? n : m, incx);
  const auto out = vector_of("y", y, plain ? m : n, incy);
  if (m == 0 || n == 0) return CUBLAS_STATUS_SUCCESS;
  if (!usable(*handle, in) || !usable(*handle, in_x) || !usable(*handle, out)) return CUBLAS_STATUS_EXECUTION_FAILED;
  return run(handle, alpha, beta, [=](T alpha_value, T beta_value) {
    in.announce_read();
    in_x.announce_read();
    out.announce_write();
    product(op_of(op), m, n, alpha_value, a, lda, x, incx, beta_value, y, incy);
  });
}

}  // namespace

const char* cublasGetStatusName(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS:
      return "CUBLAS_STATUS_SUCCESS";
    case CUBLAS_STATUS_NOT_INITIALIZED:
      return "CUBLAS_STATUS_NOT_INITIALIZED";
    case CUBLAS_STATUS_ALLOC_FAILED:
      return "CUBLAS_STATUS_ALLOC_FAILED";
    case CUBLAS_STATUS_INVALID_VALUE:
      return "CUBLAS_STATUS_INVALID_VALUE";
    case CUBLAS_STATUS_ARCH_MISMATCH:
      return "CUBLAS_STATUS_ARCH_MISMATCH";
    case CUBLAS_STATUS_MAPPING_ERROR:
      return "CUBLAS_STATUS_MAPPING_ERROR";
    case CUBLAS_STATUS_EXECUTION_FAILED:
      return "CUBLAS_STATUS_EXECUTION_FAILED";
    case CUBLAS_STATUS_INTERNAL_ERROR:
      return "CUBLAS_STATUS_INTERNAL_ERROR";
    case CUBLAS_STATUS_NOT_SUPPORTED:
      return "CUBLAS_STATUS_NOT_SUPPORTED";
  }
  return "unrecognized status";
}
const char* cublasGetStatusString(cublasStatus_t status) { return cublasGetStatusName(status); }

cublasStatus_t cublasCreate(cublasHandle_t* handle) {
  if (!blas().complete()) return CUBLAS_STATUS_NOT_INITIALIZED;
  *handle = new cublasContext{current_device()};
  Quiet quiet;
  std::lock_guard lock(handles().mutex);
  handles().alive.insert(*handle);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasDestroy(cublasHandle_t handle) {
  {
    Quiet quiet;
    std::lock_guard lock(handles().mutex);
    if (handles().alive.erase(handle) == 0) return CUBLAS_STATUS_NOT_INITIALIZED;
  }
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasGetVersion(cublasHandle_t, int* version) {
  *version = 130000;
  return CUBLAS_STATUS_SUCCESS;
}

// Settings of a handle: alike but for the field.
#define MINIDDP_EMULATOR_FIELD(name, type, field)                             \
  cublasStatus_t cublasSet##name(cublasHandle_t handle, type value) {         \
    if (!alive(handle)) return CUBLAS_STATUS_NOT_INITIALIZED;                 \
    handle->field = value;                                                    \
    return CUBLAS_STATUS_SUCCESS;                                             \
  }                                                                           \
  cublasStatus_t cublasGet##name(cublasHandle_t handle, type* value) {        \
    if (!alive(handle)) return CUBLAS_STATUS_NOT_INITIALIZED;                 \
    *value = handle->field;                                                   \
    return CUBLAS_STATUS_SUCCESS;                                             \
  }
MINIDDP_EMULATOR_FIELD(Stream, cudaStream_t, stream)
MINIDDP_EMULATOR_FIELD(PointerMode, cublasPointerMode_t, pointer_mode)
MINIDDP_EMULATOR_FIELD(MathMode, cublasMath_t, math_mode)
#undef MINIDDP_EMULATOR_FIELD
cublasStatus_t cublasSetWorkspace(cublasHandle_t handle, void*, std::size_t) {
  return alive(handle) ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_INITIALIZED;
}

cublasStatus_t cublasSgemm(cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b, int m, int n, int k,
                           const float* alpha, const float* a, int lda, const float* b, int ldb, const float* beta,
                           float* c, int ldc) {
  return gemm(handle, op_a, op_b, m, n, k, alpha, a, lda, 0, b, ldb, 0, beta, c, ldc, 0, 1);
}
cublasStatus_t cublasDgemm(cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b, int m, int n, int k,
                           const double* alpha, const double* a, int lda, const double* b, int ldb, const double* beta,
                           double* c, int ldc) {
  return gemm(handle, op_a, op_b, m, n, k, alpha, a, lda, 0, b, ldb, 0, beta, c, ldc, 0, 1);
}
cublasStatus_t cublasSgemmStridedBatched(cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b, int m,
                                         int n, int k, const float* alpha, const float* a, int lda, long long stride_a,
                                         const float* b, int ldb, long long stride_b, const float* beta, float* c,
                                         int ldc, long long stride_c, int batch) {
  return gemm(handle, op_a, op_b, m, n, k, alpha, a, lda, stride_a, b, ldb, stride_b, beta, c, ldc, stride_c, batch);
}
cublasStatus_t cublasDgemmStridedBatched(cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b, int m,
                                         int n, int k, const double* alpha, const double* a, int lda,
                                         long long stride_a, const double* b, int ldb, long long stride_b,
                                         const double* beta, double* c, int ldc, long long stride_c, int batch) {
  return gemm(handle, op_a, op_b, m, n, k, alpha, a, lda, stride_a, b, ldb, stride_b, beta, c, ldc, stride_c, batch);
}
cublasStatus_t cublasSgemv(cublasHandle_t handle, cublasOperation_t op, int m, int n, const float* alpha, const float* a,
                           int lda, const float* x, int incx, const float* beta, float* y, int incy) {
  return gemv(handle, op, m, n, alpha, a, lda, x, incx, beta, y, incy);
}
cublasStatus_t cublasDgemv(cublasHandle_t handle, cublasOperation_t op, int m, int n, const double* alpha,
                           const double* a, int lda, const double* x, int incx, const double* beta, double* y,
                           int incy) {
  return gemv(handle, op, m, n, alpha, a, lda, x, incx, beta, y, incy);
}
