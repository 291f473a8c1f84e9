#include "common/data/data_loader.h"

#include <algorithm>

#include "common/core/recorder.h"

namespace miniddp {
namespace {

/// Asks for memory that is wanted soon: a batch's images lie far apart, and waiting for one after the other
/// takes longer than the rest.
void prefetch(std::span<const uint8_t> pixels) {
  constexpr size_t cache_line = 64;
  for (size_t i = 0; i < pixels.size(); i += cache_line) __builtin_prefetch(pixels.data() + i);
}

}  // namespace

DataLoader::DataLoader(const ImageDataset& dataset, const Sampler& sampler, DataLoaderOptions options)
    : dataset_(&dataset), sampler_(&sampler), options_(options) {
  check(options.batch_size >= 1, "a DataLoader expects a batch size >= 1, found {}", options.batch_size);
}

int64_t DataLoader::size() const {
  const int64_t samples = sampler_->size();
  const int64_t full = samples / options_.batch_size;
  return full + (!options_.drop_last && samples % options_.batch_size != 0 ? 1 : 0);
}

DataPass DataLoader::pass(int64_t epoch) const {
  generator()
      .random_int64();  // the base seed: no workers need it, but the stream must go on as PyTorch's does
  return {*this, {epoch, 0, options_.batch_size, sampler_->size(), {}}};
}

DataPass DataLoader::resume(const PassState& state) const {
  check<DataError>(state.batch_size == options_.batch_size && state.samples == sampler_->size(),
                   "expected to go on with batches of {} from {} samples, found batches of {} from {}: "
                   "resume with the options and data of "
                   "the run that was interrupted",
                   state.batch_size, state.samples, options_.batch_size, sampler_->size());
  check<DataError>(
      state.next_batch >= 0 && state.next_batch <= size() && (state.next_batch == 0 || !state.stream.empty()),
      "the saved position in the epoch is damaged: batch {} of {}", state.next_batch, size());
  DataPass pass(*this, state);
  if (!state.stream.empty()) {
    Generator stream;
    stream.set_state(state.stream);
    pass.order_ = sampler_->order(state.epoch, stream);
  }
  return pass;
}

Batch DataLoader::load(std::vector<int64_t> indices) const {
  const Span span("data", Device{});
  const auto count = static_cast<int64_t>(indices.size());
  Batch batch{Tensor::empty({count, 1, dataset_->rows, dataset_->cols}), Tensor::empty({count}, DType::int64),
              std::move(indices)};
  auto* image = batch.images.data<float>();
  auto* label = batch.labels.data<int64_t>();
  for (const int64_t index : batch.indices) {
    check(index >= 0 && index < dataset_->size(), "the sampler asks for sample {} of a data set that has {}",
          index, dataset_->size());
    prefetch(dataset_->image(index));
  }
  for (const int64_t index : batch.indices) {
    options_.transform(dataset_->image(index), image);
    image += dataset_->rows * dataset_->cols;
    *label++ = dataset_->labels[static_cast<size_t>(index)];
  }
  return batch;
}

DataPass::Iterator DataPass::begin() {
  if (state_.stream.empty()) {
    const Generator stream = loader_->sampler_->begin_pass(loader_->generator());
    state_.stream = stream.state();
    order_ = loader_->sampler_->order(state_.epoch, stream);
  }
  advance();
  return Iterator(this);
}

void DataPass::advance() {
  if (state_.next_batch == loader_->size()) {
    batch_ = {};
    if (!finished_) loader_->sampler_->end_pass();
    finished_ = true;
    return;
  }
  const int64_t first = state_.next_batch * loader_->options_.batch_size;
  const int64_t last = std::min(first + loader_->options_.batch_size, static_cast<int64_t>(order_.size()));
  batch_ = {};  // gives its memory back first: the new batch takes it
  batch_ = loader_->load({order_.begin() + first, order_.begin() + last});
  ++state_.next_batch;
}

}  // namespace miniddp
