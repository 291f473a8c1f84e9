#include "common/data/sampler.h"

#include <numeric>

#include "common/core/error.h"

namespace miniddp {
namespace {

int64_t checked_size(int64_t n) {
  check(n >= 0, "a sampler expects a number of samples >= 0, found {}", n);
  return n;
}

std::vector<int64_t> ascending(int64_t n) {
  std::vector<int64_t> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), int64_t{0});
  return order;
}

}  // namespace

SequentialSampler::SequentialSampler(int64_t n) : n_(checked_size(n)) {}

std::vector<int64_t> SequentialSampler::order(int64_t, Generator) const {
  return ascending(n_);
}

RandomSampler::RandomSampler(int64_t n, Generator* generator) : n_(checked_size(n)), generator_(generator) {}

Generator RandomSampler::begin_pass(Generator& source) const {
  if (generator_ == nullptr) return Generator(static_cast<uint64_t>(source.random_int64()));
  const Generator stream = *generator_;
  generator_->randperm(n_);  // order() makes the same permutation from the copy
  return stream;
}

std::vector<int64_t> RandomSampler::order(int64_t, Generator stream) const {
  return stream.randperm(n_);
}

// PyTorch makes one more permutation, of which it uses nothing: the part of a pass that is left when
// num_samples is no multiple of n. Only a generator of the sampler's own shows it.
void RandomSampler::end_pass() const {
  if (generator_ != nullptr) generator_->randperm(n_);
}

std::vector<int64_t> distributed_order(int64_t n, int64_t seed, int64_t epoch, bool shuffle) {
  // BEGIN SOLUTION 05.11 the run that sees the same order again
  if (!shuffle) return ascending(checked_size(n));
  Generator generator(static_cast<uint64_t>(seed) + static_cast<uint64_t>(epoch));  // one for all ranks, another in each epoch
  return generator.randperm(n);
  // END SOLUTION
}

WorldOneSampler::WorldOneSampler(int64_t n, int64_t seed) : n_(checked_size(n)), seed_(seed) {}

std::vector<int64_t> WorldOneSampler::order(int64_t epoch, Generator) const {
  return distributed_order(n_, seed_, epoch);
}

}  // namespace miniddp
