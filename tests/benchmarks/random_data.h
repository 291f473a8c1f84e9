// Random data of MNIST's shapes.
#pragma once

#include "common/core/generator.h"
#include "common/tensor/tensor.h"

namespace miniddp::benchmarks {

/// U[-1, 1) of a shape, from the default generator.
inline Tensor random_tensor(const Shape& shape) {
  Tensor result = Tensor::empty(shape);
  default_generator().uniform_({result.data<float>(), static_cast<size_t>(result.numel())}, -1, 1);
  return result;
}

struct Batch {
  Tensor images;  // (N, 1, 28, 28)
  Tensor labels;  // (N)
};

inline Batch random_batch(int64_t n) {
  Batch batch{random_tensor({n, 1, 28, 28}), Tensor::empty({n}, DType::int64)};
  for (int64_t i = 0; i < n; ++i) batch.labels.data<int64_t>()[i] = default_generator().randint(0, 10);
  return batch;
}

}  // namespace miniddp::benchmarks
