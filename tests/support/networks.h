// The networks and data sets of the conformance cases (docs/parity.md): small, and the same numbers everywhere.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/core/generator.h"
#include "common/nn/layers.h"

namespace miniddp::testing {

/// "Mini": 5 258 parameters. Input (N, 1, 28, 28), output (N, 10) logits. Construction draws from the default generator.
struct Mini : Cloneable<Mini> {
  Mini();
  Tensor forward(const Tensor& x) override;

  Conv2d conv1{1, 8, 3}, conv2{8, 16, 3};
  Linear fc{400, 10};
};

/// "Net": article B's layers without dropout, 1 199 882 parameters. Output: logits.
struct Net : Cloneable<Net> {
  Net();
  Tensor forward(const Tensor& x) override;

  Conv2d conv1{1, 32, 3}, conv2{32, 64, 3};
  Linear fc1{9216, 128}, fc2{128, 10};
};

struct Samples {
  Tensor images;  // (N, 1, 28, 28) float32, uniform in [0, 1)
  Tensor labels;  // (N) int64 in [0, 10)
};

/// rand(n, 1, 28, 28), then randint(10, (n)), from one generator. "D64" is (1234, 64), "D256" is (99, 256).
Samples random_samples(uint64_t seed, int64_t n);
inline Samples d64() { return random_samples(1234, 64); }
inline Samples d256() { return random_samples(99, 256); }

/// Losses of eight steps of Mini and Net on the whole of D64, lr 0.1, seed 1: PyTorch 1.13 in float64 (cases 88 and 91).
inline const std::vector<double> mini_losses{2.3091361439, 2.2868901188, 2.2715774015, 2.2606752171, 2.2531491253, 2.2481590756, 2.2448158527, 2.2424397827};
inline const std::vector<double> net_losses{2.3079128029, 2.2577112570, 2.2461545222, 2.2409642792, 2.2375101127, 2.2343269668, 2.2312357136, 2.2283816360};

/// The rows of `samples` with these indices, in this order.
Samples select(const Samples& samples, std::span<const int64_t> indices);

}  // namespace miniddp::testing
