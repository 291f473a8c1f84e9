// Small modules whose numbers can be checked by hand.
#pragma once

#include <fmt/format.h>

#include <vector>

#include "common/nn/layers.h"

namespace miniddp {

/// y = w x with w = 1: the gradient of w is the sum of what reaches it times x.
struct OneWeight : Cloneable<OneWeight> {
  OneWeight() {
    weight = Tensor::ones({1, 1});
    register_parameter("weight", &OneWeight::weight);
  }
  Tensor forward(const Tensor& x) override { return functional::linear(x, weight); }
  Tensor weight;
};

/// Adds up, in a buffer, all that it sees.
struct Summing : Cloneable<Summing> {
  Summing() {
    weight = Tensor::ones({1, 1});
    total = Tensor::zeros({1});
    register_parameter("weight", &Summing::weight);
    register_buffer("total", &Summing::total);
  }
  Tensor forward(const Tensor& x) override {
    total.add_(functional::sum(x.detach()).view({1}));
    return functional::linear(x, weight);
  }
  Tensor weight, total;
};

/// BatchNorm over one channel.
struct Norm : Cloneable<Norm> {
  Norm() { register_module("bn", &Norm::bn); }
  Tensor forward(const Tensor& x) override { return bn(x); }
  BatchNorm2d bn{1};
};

/// Half of the values dropped; a weight, so that it can be wrapped.
struct Dropping : Cloneable<Dropping> {
  Dropping() {
    weight = Tensor::ones({1, 1});
    register_parameter("weight", &Dropping::weight);
  }
  Tensor forward(const Tensor& x) override { return dropout(functional::linear(x, weight)); }
  Tensor weight;
  Dropout dropout{0.5};
};

/// (N, 1)
inline Tensor column(const std::vector<float>& values) { return Tensor::from(values, {static_cast<int64_t>(values.size()), 1}); }
/// (N, 1, 1, 1)
inline Tensor planes(const std::vector<float>& values) { return Tensor::from(values, {static_cast<int64_t>(values.size()), 1, 1, 1}); }

inline std::string number(const Tensor& scalar) { return fmt::format("{:.4g}", scalar.item<double>()); }
inline std::string yes_or_no(bool value) { return value ? "yes" : "no"; }

}  // namespace miniddp
