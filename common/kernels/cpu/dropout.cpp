#include "common/core/generator.h"
#include "common/kernels/cpu/cpu_kernels.h"
#include "common/kernels/cpu/parallel.h"

namespace miniddp {

void CpuKernels::dropout_mask(double keep, Generator& generator, Tensor& mask) {
  with_float_type(mask, [&](auto zero) {
    using T = decltype(zero);
    // PyTorch divides a mask of ones by `keep` in the mask's type.
    const T kept = T{1} / static_cast<T>(keep);
    T* out = mask.data<T>();
    const int64_t n = mask.numel();
    for (int64_t i = 0; i < n; ++i) out[i] = generator.bernoulli(keep) ? kept : T{0};  // draws come in order
  });
}

void CpuKernels::scale_planes(const Tensor& x, const Tensor& mask, Tensor& y) {
  const int64_t planes = mask.numel();
  if (planes == 0) return;
  const int64_t size = x.numel() / planes;
  with_float_type(y, [&](auto zero) {
    using T = decltype(zero);
    const T* in = x.data<T>();
    const T* factor = mask.data<T>();
    T* out = y.data<T>();
    if (size == 1) return mul(x, mask, y);
    parallel_for(planes, size, [&](int64_t begin, int64_t end) {
      for (int64_t plane = begin; plane < end; ++plane) {
        const T by = factor[plane];
#pragma omp simd
        for (int64_t i = plane * size; i < (plane + 1) * size; ++i) out[i] = in[i] * by;
      }
    });
  });
}

}  // namespace miniddp
