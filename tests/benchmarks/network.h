// Article B's network without dropout, and random data of MNIST's shapes.
#pragma once

#include "common/nn/layers.h"
#include "common/optim/sgd.h"

namespace miniddp::benchmarks {

class Network : public Cloneable<Network> {
 public:
  Network() {
    register_module("conv1", &Network::conv1_);
    register_module("conv2", &Network::conv2_);
    register_module("fc1", &Network::fc1_);
    register_module("fc2", &Network::fc2_);
  }

  Tensor forward(const Tensor& x) override {
    namespace F = functional;
    Tensor h = F::relu(conv2_(F::relu(conv1_(x))));  // (N, 64, 24, 24)
    h = F::relu(fc1_(F::flatten(F::max_pool2d(h, 2))));
    return F::log_softmax(fc2_(h));  // (N, 10)
  }

 private:
  Conv2d conv1_{1, 32, 3}, conv2_{32, 64, 3};
  Linear fc1_{9216, 128}, fc2_{128, 10};
};

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
