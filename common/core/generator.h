// Random numbers, bit for bit PyTorch's on the CPU.
// Source: docs/parity.md, "Random numbers"; PyTorch's MT19937 engine and its CPU distributions.
#pragma once

#include <cstdint>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "common/core/device.h"

namespace miniddp {

/// A stream of random numbers. Not thread-safe: one generator belongs to one device.
class Generator {
 public:
  /// PyTorch's seed for a generator that nobody seeded.
  static constexpr uint64_t default_seed = 67280421310721;

  explicit Generator(uint64_t seed = default_seed);

  /// Starts the stream anew. Only the low 32 bits choose the stream; the whole seed is kept.
  void manual_seed(uint64_t seed);
  uint64_t initial_seed() const { return seed_; }

  /// One 32-bit draw.
  uint32_t random();
  /// Two draws, the first is the high word.
  uint64_t random64();
  /// `random_()` of an int64 tensor element: two draws, low 63 bits.
  int64_t random_int64();
  /// U[0, 1) in float32: one draw.
  float rand();
  /// U[0, 1) in float64: two draws.
  double rand_double();
  /// U[low, high) in float32, one fused multiply-add per draw as PyTorch's vectorised kernel does it.
  float uniform(float low, float high);
  /// Integer in [low, high): one draw for ranges below 2^28, else two. Throws Error if high <= low.
  int64_t randint(int64_t low, int64_t high);
  /// True with probability p: two draws.
  bool bernoulli(double p);
  /// A permutation of 0 … n-1: n-1 draws.
  std::vector<int64_t> randperm(int64_t n);
  /// Fills with U[low, high), row-major.
  void uniform_(std::span<float> out, float low, float high);

  /// 32-bit draws since the seed. A counter-based generator (CUDA's Philox) uses it as its offset.
  uint64_t draws() const { return draws_; }

  /// Everything needed to go on from here, as text (for checkpoints); set_state throws DataError on damaged text.
  std::string state() const;
  void set_state(const std::string& text);

 private:
  uint64_t seed_;
  uint64_t draws_ = 0;
  std::mt19937 engine_;
};

/// The generator that `device` uses when none is given. Every device has its own.
Generator& default_generator(Device device = {});

/// Seeds the default generators of all devices with the same seed, as torch.manual_seed does.
void manual_seed(uint64_t seed);

}  // namespace miniddp
