// From a tensor's dtype to the C++ type that a kernel's template takes.
#pragma once

#include "common/core/error.h"
#include "common/tensor/tensor.h"

namespace miniddp {

/// Calls f(float{}) or f(double{}), as the tensor's dtype says. Throws Error for any other dtype.
template <class F>
void with_float_type(const Tensor& tensor, const F& f) {
  switch (tensor.dtype()) {
    case DType::float32: return f(float{});
    case DType::float64: return f(double{});
    default: throw Error("expected a float32 or float64 tensor, found {}; convert it with Tensor::to(DType)", tensor.describe());
  }
}

}  // namespace miniddp
