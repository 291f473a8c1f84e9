// The training and the test data of a run.
#pragma once

#include <functional>
#include <memory>

#include "common/data/data_loader.h"
#include "common/data/dataset.h"
#include "common/nn/functional.h"
#include "common/nn/module.h"
#include "common/training/log.h"
#include "common/training/options.h"

namespace miniddp {

/// Loads both sets and makes their loaders as the options say. Throws DataError for bad files or images that are not 28 x 28.
class TrainingData {
 public:
  /// Makes the sampler of a set of so many samples; chapter 05's deals them out to the ranks.
  using SamplerFactory = std::function<std::unique_ptr<Sampler>(int64_t samples, Split split)>;

  explicit TrainingData(const TrainingOptions& options);
  TrainingData(const TrainingOptions& options, const SamplerFactory& make_sampler);
  TrainingData(const TrainingData&) = delete;
  TrainingData& operator=(const TrainingData&) = delete;

  const ImageDataset& train_set() const { return train_; }
  const ImageDataset& test_set() const { return test_; }
  DataLoader& train_loader() { return *train_loader_; }
  DataLoader& test_loader() { return *test_loader_; }
  /// The epoch number for the sampler: 0 for the first, and always 0 with --no-set-epoch. `epoch` counts from 1.
  int64_t sampler_epoch(int64_t epoch) const { return no_set_epoch_ ? 0 : epoch - 1; }

 private:
  ImageDataset train_, test_;
  std::unique_ptr<Sampler> train_sampler_, test_sampler_;
  std::unique_ptr<DataLoader> train_loader_, test_loader_;
  bool no_set_epoch_;
};

/// Average loss and accuracy over all samples of a loader, the last partial batch included. Leaves the model in evaluation mode.
TestResult evaluate(Module& model, DataLoader& loader, functional::LossFunction loss, Device device);

}  // namespace miniddp
