// cuBLAS as this project calls it, against plain loops. The same file runs on a real GPU.
#include <cublas_v2.h>

#include <cmath>

#include "tests/emulator/device_buffer.h"
#include "tests/emulator/needs_devices.h"
#include "tests/support/catch.h"
#include "tests/support/compare.h"

namespace miniddp::testing {
namespace {

struct Handle {
  Handle() { REQUIRE(cublasCreate(&handle) == CUBLAS_STATUS_SUCCESS); }
  ~Handle() { cublasDestroy(handle); }
  operator cublasHandle_t() const { return handle; }
  cublasHandle_t handle = nullptr;
};

cublasStatus_t gemm(cublasHandle_t h, cublasOperation_t ta, cublasOperation_t tb, int m, int n, int k, float alpha,
                    const float* a, int lda, const float* b, int ldb, float beta, float* c, int ldc) {
  return cublasSgemm(h, ta, tb, m, n, k, &alpha, a, lda, b, ldb, &beta, c, ldc);
}
cublasStatus_t gemm(cublasHandle_t h, cublasOperation_t ta, cublasOperation_t tb, int m, int n, int k, double alpha,
                    const double* a, int lda, const double* b, int ldb, double beta, double* c, int ldc) {
  return cublasDgemm(h, ta, tb, m, n, k, &alpha, a, lda, b, ldb, &beta, c, ldc);
}

/// Column-major C = A B with all four transpositions, leading dimensions larger than needed.
template <class T>
void check_products(double tolerance) {
  const int m = 13, n = 7, k = 19;
  const Handle handle;
  for (const bool ta : {false, true})
    for (const bool tb : {false, true}) {
      const int lda = (ta ? k : m) + 2, ldb = (tb ? n : k) + 3, ldc = m + 1;
      const auto floats_a = random_floats(lda * (ta ? m : k), 1), floats_b = random_floats(ldb * (tb ? k : n), 2);
      const std::vector<T> a(floats_a.begin(), floats_a.end()), b(floats_b.begin(), floats_b.end());
      std::vector<double> expected(m * n);
      for (int j = 0; j < n; ++j)
        for (int i = 0; i < m; ++i)
          for (int l = 0; l < k; ++l)
            expected[j * m + i] += 1.5 * (ta ? a[i * lda + l] : a[l * lda + i]) * (tb ? b[l * ldb + j] : b[j * ldb + l]);
      const DeviceBuffer<T> device_a(a), device_b(b), device_c(ldc * n);  // beta 0 must not read C, which holds NaN
      REQUIRE(gemm(handle, ta ? CUBLAS_OP_T : CUBLAS_OP_N, tb ? CUBLAS_OP_T : CUBLAS_OP_N, m, n, k, T(1.5), device_a.get(),
                   lda, device_b.get(), ldb, T(0), device_c.get(), ldc) == CUBLAS_STATUS_SUCCESS);
      const auto c = device_c.values();
      std::vector<double> found;
      for (int j = 0; j < n; ++j) found.insert(found.end(), c.begin() + j * ldc, c.begin() + j * ldc + m);
      const Comparison result = compare(found, expected, tolerance);
      INFO(result.message);
      CHECK(result.passed);
    }
}

}  // namespace

TEST_CASE("cublas: matrix products in single and double precision") {
  NEEDS_DEVICES(1);
  check_products<float>(1e-5);
  check_products<double>(1e-13);
}

TEST_CASE("cublas: batched products and a matrix with a vector") {
  NEEDS_DEVICES(1);
  const int m = 5, k = 3, batch = 4;
  const auto a = random_floats(m * k * batch, 3), x = random_floats(k, 4);
  const DeviceBuffer<float> device_a(a), device_x(x), batched(m * batch), single(m);
  const Handle handle;
  const float one = 1, zero = 0;
  REQUIRE(cublasSgemmStridedBatched(handle, CUBLAS_OP_N, CUBLAS_OP_N, m, 1, k, &one, device_a.get(), m, m * k,
                                    device_x.get(), k, 0, &zero, batched.get(), m, m, batch) == CUBLAS_STATUS_SUCCESS);
  const auto products = batched.values();
  for (int b = 0; b < batch; ++b) {
    REQUIRE(cublasSgemv(handle, CUBLAS_OP_N, m, k, &one, device_a.get() + b * m * k, m, device_x.get(), 1, &zero,
                        single.get(), 1) == CUBLAS_STATUS_SUCCESS);
    const auto y = single.values();
    for (int i = 0; i < m; ++i) {
      double expected = 0;
      for (int l = 0; l < k; ++l) expected += double(a[b * m * k + l * m + i]) * x[l];
      CHECK(std::abs(y[i] - expected) <= 1e-6);
      CHECK(std::abs(products[b * m + i] - expected) <= 1e-6);
    }
  }
}

TEST_CASE("cublas: TF32 rounds the inputs to ten bits of mantissa, the default does not") {
  NEEDS_DEVICES(1);
  const float fine = 1.0f + 1.0f / 4096;  // needs twelve bits
  const int n = 64;                       // a product that a GPU gives to its tensor cores
  const DeviceBuffer<float> a(std::vector<float>(n * n, fine)), b(std::vector<float>(n * n, 1.0f)), c(n * n);
  const Handle handle;
  REQUIRE(gemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, n, n, n, 1.0f, a.get(), n, b.get(), n, 0.0f, c.get(), n) ==
          CUBLAS_STATUS_SUCCESS);
  CHECK(c.values()[5] == n * fine);
  REQUIRE(cublasSetMathMode(handle, CUBLAS_TF32_TENSOR_OP_MATH) == CUBLAS_STATUS_SUCCESS);
  REQUIRE(gemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, n, n, n, 1.0f, a.get(), n, b.get(), n, 0.0f, c.get(), n) ==
          CUBLAS_STATUS_SUCCESS);
  CHECK(std::abs(c.values()[5] - n) <= n * 1e-3);
}

TEST_CASE("cublas: wrong leading dimensions and dead handles are refused") {
  NEEDS_DEVICES(1);
  const DeviceBuffer<float> a(64), b(64), c(64);
  const Handle handle;
  CHECK(gemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, 8, 8, 8, 1.0f, a.get(), 7, b.get(), 8, 0.0f, c.get(), 8) ==
        CUBLAS_STATUS_INVALID_VALUE);
  CHECK(gemm(nullptr, CUBLAS_OP_N, CUBLAS_OP_N, 8, 8, 8, 1.0f, a.get(), 8, b.get(), 8, 0.0f, c.get(), 8) ==
        CUBLAS_STATUS_NOT_INITIALIZED);
}

}  // namespace miniddp::testing
