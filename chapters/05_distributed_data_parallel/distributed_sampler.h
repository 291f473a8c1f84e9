// DistributedSampler: each rank sees its own share of every epoch, bit for bit PyTorch's torch.utils.data.DistributedSampler.
#pragma once

#include <memory>

#include "common/data/dataset.h"
#include "common/data/sampler.h"

namespace miniddp {

struct DistributedSamplerOptions {
  bool shuffle = true;
  int64_t seed = 0;  // the same on all ranks: different seeds would give some samples twice and others never
  bool drop_last = false;
};

/// All ranks permute the same way (seed + epoch) and rank r takes every size-th index from r on. So that all ranks get equally many, the
/// list is first padded from its own start, or, with drop_last, cut. The epoch is an argument of the pass, so that set_epoch cannot be
/// forgotten. Draws nothing from the loader's generator.
class DistributedSampler : public Sampler {
 public:
  using Options = DistributedSamplerOptions;

  /// Throws Error with PyTorch's message unless 0 <= rank < world_size.
  DistributedSampler(int64_t n, int world_size, int rank, Options options = {});

  /// Of this rank; the same on all.
  int64_t size() const override { return num_samples_; }
  /// Of all ranks together, padding included.
  int64_t total_size() const { return num_samples_ * world_size_; }
  std::vector<int64_t> order(int64_t epoch, Generator stream = Generator(0)) const override;

 private:
  int64_t n_;
  int64_t world_size_;
  int64_t rank_;
  Options options_;
  int64_t num_samples_;
};

/// The same deal without padding, in the file's order: for evaluation, where every sample must count exactly once. Ranks may get one
/// sample more or fewer than others.
class UnpaddedSampler : public Sampler {
 public:
  UnpaddedSampler(int64_t n, int world_size, int rank);
  int64_t size() const override;
  std::vector<int64_t> order(int64_t epoch, Generator stream) const override;

 private:
  int64_t n_, world_size_, rank_;
};

/// What a rank takes of a data set of so many samples: a DistributedSampler with PyTorch's seed for training, an UnpaddedSampler for tests.
std::unique_ptr<Sampler> sampler_of_rank(int64_t samples, int world_size, int rank, Split split, bool shuffle = true);

}  // namespace miniddp
