#include "chapters/06_dp_vs_ddp/training.h"

#include <algorithm>

#include "chapters/01_single_device/networks.h"
#include "chapters/03_data_parallel/data_parallel.h"
#include "chapters/05_distributed_data_parallel/distributed_sampler.h"

namespace miniddp {

std::vector<DdpWay> ddp_ways() {
  return {{"ddp_after_backward", "DDP, after backward", {.kind = ReducerKind::after_backward}},
          {"ddp_per_gradient", "DDP, per gradient", {.kind = ReducerKind::per_gradient}},
          {"ddp_buckets", "DDP, buckets", {.reducer = {.overlap = false}}},
          {"ddp_overlap", "DDP, buckets with overlap", {}}};
}

Training::Training(const CompareOptions& options) : loss_(loss_of(options.model)) {
  manual_seed(options.seed);
  network_ = make_network(options.model, false);
}

void Training::make_optimizer(const CompareOptions& options) {
  optimizer_ = std::make_unique<SGD>(network_->parameters(), SgdParams{.lr = options.lr, .momentum = options.momentum});
}

Training::Training(const CompareOptions& options, Device device) : Training(options) {
  first_ = device;
  network_->to(first_);
  make_optimizer(options);
}

Training::Training(const CompareOptions& options, const std::vector<Device>& devices) : Training(options, devices.at(0)) {
  wrapper_ = std::make_unique<DataParallel>(network_, devices);
  whole_batch_ = true;
}

Training::Training(const CompareOptions& options, Device device, const DdpOptions& ddp) : Training(options, device) {
  auto wrapper = std::make_unique<DistributedDataParallel>(network_, ddp);
  ddp_ = wrapper.get();
  kind_ = ddp.kind;
  wrapper_ = std::move(wrapper);
}

Tensor Training::step(const Batch& batch) {
  optimizer_->zero_grad();
  Module& model = wrapper_ ? *wrapper_ : *network_;
  const Tensor output = model(whole_batch_ ? batch.images : batch.images.to(first_));
  Tensor loss = loss_(output, batch.labels.to(first_), Reduction::mean);
  loss.backward();
  optimizer_->step();
  return loss;
}

std::vector<int64_t> Training::reduced_elements() const {
  std::vector<int64_t> elements;
  if (ddp_ == nullptr) return elements;
  if (kind_ == ReducerKind::buckets) {
    for (const Bucket& bucket : ddp_->reducer().buckets()) elements.push_back(bucket.flat.numel());
  } else {
    for (const Tensor& parameter : network_->parameters()) elements.push_back(parameter.numel());
    // Gradients become ready from the last layer to the first.
    if (kind_ == ReducerKind::per_gradient) std::reverse(elements.begin(), elements.end());
  }
  return elements;
}

int64_t Training::bucket_bytes() const {
  int64_t bytes = 0;
  if (ddp_ == nullptr || kind_ != ReducerKind::buckets) return 0;
  for (const Bucket& bucket : ddp_->reducer().buckets()) bytes += static_cast<int64_t>(bucket.flat.nbytes());
  return bytes;
}

struct BatchStream::State {
  State(const ImageDataset& images, int64_t global_batch, int rank, int world)
      : sampler(images.size(), world, rank),
        loader(images, sampler, {.batch_size = global_batch / world, .drop_last = true}),
        per_epoch(images.size() / global_batch) {}

  DistributedSampler sampler;
  DataLoader loader;
  int64_t per_epoch;
  int64_t epoch = -1;
  std::optional<DataPass> pass;
  std::optional<DataPass::Iterator> at;
};

BatchStream::BatchStream(const ImageDataset& images, int64_t global_batch, int rank, int world) {
  check(images.size() >= global_batch, "a batch of {} needs as many images, found {}", global_batch, images.size());
  state_ = std::make_unique<State>(images, global_batch, rank, world);
}

BatchStream::~BatchStream() = default;

const Batch& BatchStream::next() {
  State& state = *state_;
  if (state.at && state.pass->batches_done() < state.per_epoch) {
    ++*state.at;
  } else {
    state.pass.emplace(state.loader.pass(++state.epoch));
    state.at.emplace(state.pass->begin());
  }
  return **state.at;
}

}  // namespace miniddp
