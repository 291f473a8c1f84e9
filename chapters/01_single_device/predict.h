// What a trained network says about a picture, and where it is wrong.
#pragma once

#include <filesystem>

#include "common/data/dataset.h"
#include "common/nn/module.h"
#include "common/training/options.h"

namespace CLI {
class App;
}

namespace miniddp {

struct PredictOptions {
  std::filesystem::path picture;        // --predict
  std::filesystem::path misclassified;  // --misclassified

  bool asked() const { return !picture.empty() || !misclassified.empty(); }
};
void add_predict_options(CLI::App& app, PredictOptions& options);

/// Before the training: throws DataError for a picture without a digit, Error for a directory that cannot be written, UsageError for
/// options of training beside --resume, with which nothing is trained.
void check_predictions(const PredictOptions& options, const TrainingOptions& training);

/// Draws the digit of a picture (PNG or JPEG) as the network sees it, and the ten probabilities as bars. Throws DataError for a file that
/// is no picture.
void predict_picture(const std::filesystem::path& path, Module& model, Device device);

/// Writes DIR/misclassified.png: the test images that the network gets wrong (the first 400), with truth and answer; prints how many.
void write_misclassified(const std::filesystem::path& directory, Module& model, const ImageDataset& test_set, Device device);

/// Does what the options ask for.
void run_predictions(const PredictOptions& options, Module& model, const ImageDataset& test_set, Device device);

}  // namespace miniddp
