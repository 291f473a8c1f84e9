#include "common/data/dataset.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string>

#include "common/core/error.h"
#include "common/data/idx.h"

namespace miniddp {
namespace fs = std::filesystem;
namespace {

/// The file in its first place. Raw files come before packed ones: they load faster.
fs::path find_file(const fs::path& directory, const std::string& name) {
  std::error_code error;
  check<DataError>(fs::is_directory(directory, error),
                   "{}: expected a directory with {}[.gz], found {}. Name the directory with --data",
                   directory.string(), name, fs::exists(directory, error) ? "a file" : "nothing");
  for (const char* below : {"", "raw", "MNIST/raw"}) {
    for (const char* suffix : {"", ".gz"}) {
      const fs::path path = directory / below / (name + suffix);
      if (fs::exists(path, error)) return path;
    }
  }
  throw DataError("{}: holds neither {} nor {}.gz. Name the directory that has the IDX files with --data",
                  directory.string(), name, name);
}

}  // namespace

ImageDataset load_images(const fs::path& directory, Split split) {
  const std::string prefix = split == Split::train ? "train" : "t10k";
  const fs::path image_file = find_file(directory, prefix + "-images-idx3-ubyte");
  const fs::path label_file = find_file(directory, prefix + "-labels-idx1-ubyte");
  IdxArray labels = read_idx(label_file, 1);
  IdxArray images = read_idx(image_file, 3);

  const int64_t count = images.shape[0];
  check<DataError>(
      count == labels.shape[0],
      "{} holds {} images, {} holds {} labels: expected as many. Are the files from one data set?",
      image_file.string(), count, label_file.string(), labels.shape[0]);
  check<DataError>(!images.data.empty(), "{}: expected images, found none: its shape is {}",
                   image_file.string(), to_string(images.shape));
  const auto bad = std::find_if(labels.data.begin(), labels.data.end(),
                                [](uint8_t label) { return label >= ImageDataset::classes; });
  check<DataError>(
      bad == labels.data.end(),
      "{}: expected labels from 0 to {}, found {} for image {}: it is damaged, or not labels of {} classes",
      label_file.string(), ImageDataset::classes - 1, bad == labels.data.end() ? 0 : *bad,
      bad - labels.data.begin(), ImageDataset::classes);
  return {std::move(images.data), std::move(labels.data), images.shape[1], images.shape[2]};
}

fs::path default_data_directory() {
  const char* override_directory = std::getenv("MINIDDP_DATA");
  if (override_directory != nullptr && *override_directory != '\0') return override_directory;
  return fs::path(MINIDDP_SOURCE_DIR) / "datasets" / "mnist";
}

}  // namespace miniddp
