// Labelled images: MNIST, and every data set that comes in files of the same form.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>
#include <vector>

namespace miniddp {

/// Grey images and their labels, as bytes; DataLoader makes tensors of them.
struct ImageDataset {
  static constexpr int64_t classes = 10;

  std::vector<uint8_t> images;  // (N, rows, cols), 0 is the ground and 255 ink
  std::vector<uint8_t> labels;  // (N), each below `classes`
  int64_t rows = 0;
  int64_t cols = 0;

  int64_t size() const { return static_cast<int64_t>(labels.size()); }
  /// Pixels of one image, (rows, cols).
  std::span<const uint8_t> image(int64_t index) const {
    const auto pixels = static_cast<size_t>(rows * cols);
    return std::span(images).subspan(static_cast<size_t>(index) * pixels, pixels);
  }
};

enum class Split { train, test };

/// Loads `train-images-idx3-ubyte` and `train-labels-idx1-ubyte`, or the `t10k-…` files, from a directory:
/// with `.gz` or without, in the directory itself or in `raw` or `MNIST/raw` below it, where torchvision puts
/// them. Throws DataError if a file is missing or bad (see read_idx), if there are not as many labels as
/// images, if there are none, or if a label is not below `classes`.
ImageDataset load_images(const std::filesystem::path& directory, Split split);

/// The MNIST that comes with the project, or the directory that the environment variable MINIDDP_DATA names.
std::filesystem::path default_data_directory();

}  // namespace miniddp
