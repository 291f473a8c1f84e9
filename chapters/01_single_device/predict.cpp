#include "chapters/01_single_device/predict.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>

#include "common/autograd/node.h"
#include "common/core/console.h"
#include "common/core/file.h"
#include "common/data/contact_sheet.h"
#include "common/data/data_loader.h"
#include "common/data/digit.h"
#include "common/nn/functional.h"

namespace miniddp {
namespace {

// Probabilities (B, 10) of images (B, 1, 28, 28).
std::vector<float> probabilities_of(Module& model, const Tensor& images) {
  NoGrad no_grad;
  model.eval();
  // Article A returns scores, article B their log-softmax; the log-softmax of that is itself.
  std::vector<float> values = functional::log_softmax(model(images)).to_vector<float>();
  for (float& value : values) {
    value = std::exp(value);
    check(std::isfinite(value), "the network's answers are no numbers (NaN): its training diverged; train with a smaller --lr");
  }
  return values;
}

int64_t largest(const float* values) { return std::max_element(values, values + ImageDataset::classes) - values; }

std::filesystem::path contact_sheet_in(const std::filesystem::path& directory) { return directory / "misclassified.png"; }

}  // namespace

void add_predict_options(CLI::App& app, PredictOptions& options) {
  app.add_option("--predict", options.picture, "After training (or with --resume instead of it): recognise the digit in a picture")
      ->check(not_empty());
  app.add_option("--misclassified", options.misclassified,
                 "After training (or with --resume instead of it): draw the misread test images into this directory")
      ->check(not_empty());
}

void check_predictions(const PredictOptions& options, const TrainingOptions& training) {
  if (!options.asked()) return;
  const bool looks_only = !training.resume.empty();
  const bool results_of_training = !training.save.empty() || !training.loss_csv.empty() || !training.trace.empty() || training.profile;
  check<UsageError>(!looks_only || !results_of_training,
                    "with --resume, --predict and --misclassified only look, nothing is trained: leave --save, --loss-csv, --trace and "
                    "--profile out, or train and look in two runs");
  if (!options.picture.empty()) to_mnist_digit(load_image(options.picture), options.picture.string());
  if (!options.misclassified.empty()) check_writable(contact_sheet_in(options.misclassified));
}

void predict_picture(const std::filesystem::path& path, Module& model, Device device) {
  const GreyImage digit = to_mnist_digit(load_image(path), path.string());
  Tensor image = Tensor::empty({1, 1, digit.rows, digit.cols});
  PixelTransform{}(digit.pixels, image.data<float>());
  const std::vector<float> probabilities = probabilities_of(model, image.to(device));
  const Drawing drawing = isatty(STDOUT_FILENO) != 0 ? Drawing::colours : Drawing::text;
  print_output("{}\n", draw(digit.pixels, digit.rows, digit.cols, drawing));
  for (int64_t i = 0; i < ImageDataset::classes; ++i) {
    const float p = probabilities[static_cast<size_t>(i)];
    print_output("{}  {:5.1f}%  {:#<{}}\n", i, 100 * p, "", static_cast<int>(std::lround(40 * p)));
  }
  print_output("{}: this is a {}\n", path.string(), largest(probabilities.data()));
}

void write_misclassified(const std::filesystem::path& directory, Module& model, const ImageDataset& test_set, Device device) {
  constexpr size_t most_tiles = 400;
  const SequentialSampler sampler(test_set.size());
  Generator own;  // looking at the test set must not move the generator that training uses
  const DataLoader loader(test_set, sampler, {.batch_size = 500, .generator = &own});
  std::vector<Tile> tiles;
  size_t wrong = 0;
  for (const Batch& batch : loader.pass(0)) {
    const std::vector<float> probabilities = probabilities_of(model, batch.images.to(device));
    for (size_t i = 0; i < batch.indices.size(); ++i) {
      const int64_t index = batch.indices[i];
      const int64_t label = test_set.labels[static_cast<size_t>(index)];
      const int64_t answer = largest(&probabilities[i * ImageDataset::classes]);
      if (answer == label) continue;
      if (++wrong <= most_tiles) tiles.push_back({test_set.image(index), label, answer});
    }
  }
  if (tiles.empty()) {
    print_output("All {} test images are recognised: no contact sheet to draw\n", test_set.size());
    return;
  }
  const auto path = contact_sheet_in(directory);
  write_contact_sheet(path, tiles, test_set.rows, test_set.cols);
  print_output("{} of {} test images are misread; {} of them are drawn in {}\n", wrong, test_set.size(), tiles.size(), path.string());
}

void run_predictions(const PredictOptions& options, Module& model, const ImageDataset& test_set, Device device) {
  if (!options.picture.empty()) predict_picture(options.picture, model, device);
  if (!options.misclassified.empty()) write_misclassified(options.misclassified, model, test_set, device);
}

}  // namespace miniddp
