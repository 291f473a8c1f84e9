#include "chapters/05_distributed_data_parallel/distributed_sampler.h"

#include "common/core/error.h"

namespace miniddp {
namespace {

void check_rank(int64_t n, int world_size, int rank) {
  check(n >= 0, "expected a number of samples of at least 0, found {}", n);
  check(world_size >= 1, "expected a world size of at least 1, found {}", world_size);
  check(rank >= 0 && rank < world_size, "Invalid rank {}, rank should be in the interval [0, {}]", rank, world_size - 1);
}

int64_t samples_per_rank(int64_t n, int64_t world_size, bool drop_last) {
  if (drop_last) return n / world_size;
  return (n + world_size - 1) / world_size;
}

}  // namespace

DistributedSampler::DistributedSampler(int64_t n, int world_size, int rank, Options options)
    : n_(n), world_size_(world_size), rank_(rank), options_(options) {
  check_rank(n, world_size, rank);
  num_samples_ = samples_per_rank(n, world_size, options.drop_last);
}

std::vector<int64_t> DistributedSampler::order(int64_t epoch, Generator /*stream*/) const {
  // BEGIN SOLUTION 05.1 indices of the DistributedSampler
  const std::vector<int64_t> all = distributed_order(n_, options_.seed, epoch, options_.shuffle);
  std::vector<int64_t> mine;
  mine.reserve(static_cast<size_t>(num_samples_));
  for (int64_t i = rank_; i < total_size(); i += world_size_) {
    mine.push_back(all[static_cast<size_t>(i % n_)]);  // past the end the list begins anew: the padding
  }
  return mine;
  // END SOLUTION
}

UnpaddedSampler::UnpaddedSampler(int64_t n, int world_size, int rank) : n_(n), world_size_(world_size), rank_(rank) {
  check_rank(n, world_size, rank);
}

int64_t UnpaddedSampler::size() const { return (n_ - rank_ + world_size_ - 1) / world_size_; }

std::vector<int64_t> UnpaddedSampler::order(int64_t /*epoch*/, Generator /*stream*/) const {
  std::vector<int64_t> mine;
  for (int64_t i = rank_; i < n_; i += world_size_) mine.push_back(i);
  return mine;
}

std::unique_ptr<Sampler> sampler_of_rank(int64_t samples, int world_size, int rank, Split split, bool shuffle) {
  // BEGIN SOLUTION 05.12 the run that never sees some samples
  if (split == Split::test) return std::make_unique<UnpaddedSampler>(samples, world_size, rank);
  DistributedSampler::Options options;
  options.shuffle = shuffle;
  options.seed = 0;
  return std::make_unique<DistributedSampler>(samples, world_size, rank, options);
  // END SOLUTION
}

}  // namespace miniddp
