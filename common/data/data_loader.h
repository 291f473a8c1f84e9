// DataLoader: batches of a data set, in a sampler's order. As torch.utils.data.DataLoader without workers: a
// batch takes microseconds.
#pragma once

#include <cstdint>
#include <iterator>
#include <string>
#include <vector>

#include "common/data/dataset.h"
#include "common/data/sampler.h"
#include "common/data/transforms.h"
#include "common/tensor/tensor.h"

namespace miniddp {

struct Batch {
  Tensor images;                 // (B, 1, rows, cols) float32, transformed
  Tensor labels;                 // (B) int64
  std::vector<int64_t> indices;  // (B), of the samples in the data set

  int64_t size() const { return static_cast<int64_t>(indices.size()); }
};

struct DataLoaderOptions {
  int64_t batch_size = 1;
  bool drop_last = false;          // leave out a last batch that is not full
  PixelTransform transform{};      // of each pixel
  Generator* generator = nullptr;  // none: the default generator of the CPU
};

/// Where a pass stands: everything needed to go on in the middle of an epoch with the same batches, drawing
/// nothing again.
struct PassState {
  int64_t epoch = 0;
  int64_t next_batch = 0;
  int64_t batch_size = 0;  // with `samples`, to notice a loader that is not the same
  int64_t samples = 0;
  std::string stream;  // state of the generator that the order came from; empty before the first batch

  bool operator==(const PassState&) const = default;
};

class DataPass;

/// Draws from the generator as PyTorch's does. Each pass: first two draws (the base seed of workers), at
/// once; then, with the first batch, what the sampler draws. The loader keeps references to the data set, the
/// sampler and the generator.
class DataLoader {
 public:
  /// Throws Error if batch_size < 1.
  DataLoader(const ImageDataset& dataset, const Sampler& sampler, DataLoaderOptions options);

  /// Batches in one pass.
  int64_t size() const;
  /// Begins a pass, as iter(loader) does: `for (const Batch& batch : loader.pass(epoch))`.
  DataPass pass(int64_t epoch) const;
  /// Goes on with a pass from where its state() was taken; the generators must be as they were then. Throws
  /// DataError if the state is damaged or was taken from a loader of another batch size or number of samples.
  DataPass resume(const PassState& state) const;

 private:
  friend class DataPass;
  Generator& generator() const {
    return options_.generator != nullptr ? *options_.generator : default_generator();
  }
  Batch load(std::vector<int64_t> indices) const;

  const ImageDataset* dataset_;
  const Sampler* sampler_;
  DataLoaderOptions options_;
};

/// One pass over a loader's batches; good for one loop.
class DataPass {
 public:
  class Iterator {
   public:
    explicit Iterator(DataPass* pass) : pass_(pass) {}
    const Batch& operator*() const { return pass_->batch_; }
    Iterator& operator++() {
      pass_->advance();
      return *this;
    }
    bool operator==(std::default_sentinel_t) const { return pass_->finished_; }

   private:
    DataPass* pass_;
  };

  /// Loads the first batch. The pass must not move after that.
  Iterator begin();
  std::default_sentinel_t end() const { return {}; }

  int64_t epoch() const { return state_.epoch; }
  /// Batches given out so far, the current one included.
  int64_t batches_done() const { return state_.next_batch; }
  /// Where to go on after the current batch.
  const PassState& state() const { return state_; }

 private:
  friend class DataLoader;
  DataPass(const DataLoader& loader, PassState state) : loader_(&loader), state_(std::move(state)) {}
  void advance();

  const DataLoader* loader_;
  PassState state_;
  std::vector<int64_t> order_;
  Batch batch_;
  bool finished_ = false;
};

}  // namespace miniddp
