#include "common/training/data.h"

#include <algorithm>

#include "common/autograd/node.h"
#include "common/core/recorder.h"

namespace miniddp {
namespace {

TrainingData::SamplerFactory samplers_of(const TrainingOptions& options) {
  return [options](int64_t samples, Split split) -> std::unique_ptr<Sampler> {
    if (split == Split::test || options.no_shuffle) return std::make_unique<SequentialSampler>(samples);
    if (options.sampler == "distributed") return std::make_unique<WorldOneSampler>(samples);
    return std::make_unique<RandomSampler>(samples);
  };
}

ImageDataset load_checked(const TrainingOptions& options, Split split) {
  const auto directory = options.data.empty() ? default_data_directory() : options.data;
  ImageDataset set = load_images(directory, split);
  check<DataError>(set.rows == 28 && set.cols == 28, "{}: expected images of 28 x 28 pixels, found {} x {}", directory.string(), set.rows,
                   set.cols);
  return set;
}

}  // namespace

TrainingData::TrainingData(const TrainingOptions& options) : TrainingData(options, samplers_of(options)) {}

TrainingData::TrainingData(const TrainingOptions& options, const SamplerFactory& make_sampler)
    : train_(load_checked(options, Split::train)),
      test_(load_checked(options, Split::test)),
      train_sampler_(make_sampler(train_.size(), Split::train)),
      test_sampler_(make_sampler(test_.size(), Split::test)),
      no_set_epoch_(options.no_set_epoch) {
  DataLoaderOptions loading;
  loading.batch_size = options.batch_size;
  train_loader_ = std::make_unique<DataLoader>(train_, *train_sampler_, loading);
  loading.batch_size = options.test_batch_size;
  test_loader_ = std::make_unique<DataLoader>(test_, *test_sampler_, loading);
}

TestResult evaluate(Module& model, DataLoader& loader, functional::LossFunction loss, Device device) {
  const NoGrad no_grad;
  const RecordingPaused paused;
  model.eval();
  TestResult result;
  double total_loss = 0;
  Tensor correct = Tensor::zeros({}, DType::int64, device);
  for (const Batch& batch : loader.pass(0)) {
    const Tensor labels = batch.labels.to(device);
    const Tensor output = model(batch.images.to(device));
    total_loss += loss(output, labels, Reduction::sum).item<double>();
    kernels(device.type).count_correct(output, labels, correct);
    result.total += batch.size();
  }
  result.correct = correct.item<int64_t>();
  result.average_loss = total_loss / static_cast<double>(std::max<int64_t>(result.total, 1));
  return result;
}

}  // namespace miniddp
