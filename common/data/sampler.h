// Samplers: the order in which a pass over a data set visits its samples. As torch.utils.data's, with one
// difference: the epoch is an argument of the pass, so that nobody can forget set_epoch.
#pragma once

#include <cstdint>
#include <vector>

#include "common/core/generator.h"

namespace miniddp {

class Sampler {
 public:
  virtual ~Sampler() = default;

  /// Indices in one pass.
  virtual int64_t size() const = 0;
  /// Takes from `source` the random numbers that a new pass starts with, and returns the stream that order()
  /// is to use. A pass that is resumed does not call this again: it has kept the stream.
  virtual Generator begin_pass(Generator& /*source*/) const { return Generator(0); }
  /// The indices of a pass, size() of them: the same for the same epoch and stream.
  virtual std::vector<int64_t> order(int64_t epoch, Generator stream) const = 0;
  /// A pass has reached its end.
  virtual void end_pass() const {}
};

/// 0 … n-1. Draws nothing.
class SequentialSampler : public Sampler {
 public:
  /// Throws Error if n < 0; so do the others.
  explicit SequentialSampler(int64_t n);
  int64_t size() const override { return n_; }
  std::vector<int64_t> order(int64_t epoch, Generator stream) const override;

 private:
  int64_t n_;
};

/// A new permutation each pass; the epoch does not matter. Each pass draws a seed from `source` (two draws)
/// for a stream of its own; with a generator of its own it permutes with that one and leaves `source` alone.
class RandomSampler : public Sampler {
 public:
  explicit RandomSampler(int64_t n, Generator* generator = nullptr);
  int64_t size() const override { return n_; }
  Generator begin_pass(Generator& source) const override;
  std::vector<int64_t> order(int64_t epoch, Generator stream) const override;
  void end_pass() const override;

 private:
  int64_t n_;
  Generator* generator_;
};

/// All n indices as PyTorch's DistributedSampler orders them before it deals them out: permuted by a stream
/// seeded seed + epoch.
std::vector<int64_t> distributed_order(int64_t n, int64_t seed, int64_t epoch, bool shuffle = true);

/// PyTorch's DistributedSampler where the world is one process. Draws nothing from `source`.
class WorldOneSampler : public Sampler {
 public:
  explicit WorldOneSampler(int64_t n, int64_t seed = 0);
  int64_t size() const override { return n_; }
  std::vector<int64_t> order(int64_t epoch, Generator stream) const override;

 private:
  int64_t n_;
  int64_t seed_;
};

}  // namespace miniddp
