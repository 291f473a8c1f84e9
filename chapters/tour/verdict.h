// Are the stages the same training? Which step and which tensor first say no?
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "common/nn/module.h"

namespace miniddp {

/// What a stage may differ by. Over more steps than the first 20 two float32 runs may part by themselves: docs/parity.md.
namespace allowed {
inline constexpr size_t steps = 20;
inline constexpr double from_first_stage = 5e-6, from_pytorch = 1e-5;  // losses
inline constexpr double accuracy = 0.5;                                // percentage points
inline constexpr double weights = 1e-5;                                // of each element, in the first 20 steps
}  // namespace allowed

struct LossDifference {
  double largest = 0;       // infinity if one is NaN
  int64_t first_step = 0;   // the first beyond the tolerance, counted from 1; 0: none
  double found = 0, expected = 0;  // at that step
};

/// Compares the first steps, at most allowed::steps. Throws Error if one has fewer than the other of those, or if `expected` is empty or
/// all zeros and so proves nothing.
LossDifference compare_losses(const std::vector<double>& found, const std::vector<double>& expected, double tolerance);

struct TensorDifference {
  int64_t step = 0;  // after this step, counted from 1; 0: none differs
  std::string name;
  double largest = 0;
};

/// The first tensor, in the model's order, with an element that differs by more than `tolerance`; step stays 0. An empty name: none does.
/// Throws Error if names or shapes differ.
TensorDifference first_difference(const NamedTensors& found, const NamedTensors& expected, double tolerance);

/// The weights after so many steps.
using WeightsAfter = std::function<NamedTensors(int64_t steps)>;

/// The first step of 1 … last_step after which a tensor differs, found by halving: what has parted stays apart.
TensorDifference find_parting(const WeightsAfter& found, const WeightsAfter& expected, int64_t last_step, double tolerance);

}  // namespace miniddp
