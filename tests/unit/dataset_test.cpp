#include "common/data/dataset.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "common/core/error.h"
#include "common/core/file.h"
#include "common/data/byte_source.h"
#include "common/data/transforms.h"
#include "tests/support/catch.h"
#include "tests/support/idx_files.h"
#include "tests/support/sha256.h"
#include "tests/support/temporary_directory.h"

using namespace miniddp;
namespace fs = std::filesystem;
using Catch::Matchers::ContainsSubstring;

namespace {

std::string error_of(const fs::path& directory, Split split = Split::train) {
  try {
    load_images(directory, split);
  } catch (const DataError& error) {
    return error.what();
  }
  return "";
}

void write_set(const fs::path& directory, uint32_t images, const std::string& labels) {
  write_file(directory / "train-images-idx3-ubyte", idx_header({images, 7, 5}) + random_bytes(images * 35));
  write_file(directory / "train-labels-idx1-ubyte.gz",
             gzip(idx_header({static_cast<uint32_t>(labels.size())}) + labels));
}

std::vector<uint8_t> unpacked(const fs::path& path) {
  ByteSource source(path, "a data file");
  std::vector<uint8_t> bytes;
  std::vector<uint8_t> piece(1 << 20);
  while (const size_t count = source.read(piece))
    bytes.insert(bytes.end(), piece.begin(), piece.begin() + static_cast<long>(count));
  return bytes;
}

}  // namespace

TEST_CASE("SHA-256 of the standard's examples") {
  const auto of = [](std::string_view text) {
    return sha256({reinterpret_cast<const uint8_t*>(text.data()), text.size()});
  };
  CHECK(of("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(of("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(of("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq") ==
        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
}

TEST_CASE("The MNIST files are the published ones") {
  const fs::path directory = fs::path(MINIDDP_SOURCE_DIR) / "datasets" / "mnist";
  std::istringstream readme(read_file(directory / "README.md", "the data set's README"));
  int files = 0;
  for (std::string line; std::getline(readme, line);) {
    // | name | what it holds | bytes | SHA-256 |
    const size_t end = line.find(".gz |");
    if (line.rfind("| ", 0) != 0 || end == std::string::npos) continue;
    const std::string name = line.substr(2, end + 1);
    const std::vector<uint8_t> bytes = unpacked(directory / name);
    CAPTURE(name);
    CHECK_THAT(line, ContainsSubstring(fmt::format("| {} | {} |", bytes.size(), sha256(bytes))));
    ++files;
  }
  CHECK(files == 4);
}

TEST_CASE("MNIST loads") {
  const ImageDataset train = load_images(fs::path(MINIDDP_SOURCE_DIR) / "datasets" / "mnist", Split::train);
  CHECK(train.size() == 60000);
  CHECK(train.rows == 28);
  CHECK(train.cols == 28);
  CHECK(train.images.size() == 60000 * 784);
  CHECK(std::vector<int>(train.labels.begin(), train.labels.begin() + 10) ==
        std::vector<int>{5, 0, 4, 1, 9, 2, 1, 3, 1, 4});
  // Mean and standard deviation of all pixels are what Normalize takes off.
  double sum = 0;
  double squares = 0;
  for (const uint8_t pixel : train.images) {
    sum += pixel / 255.0;
    squares += pixel / 255.0 * (pixel / 255.0);
  }
  const double mean = sum / static_cast<double>(train.images.size());
  CHECK(mean == Approx(0.1307).margin(5e-5));
  CHECK(std::sqrt(squares / static_cast<double>(train.images.size()) - mean * mean) ==
        Approx(0.3081).margin(5e-5));

  const ImageDataset test = load_images(default_data_directory(), Split::test);
  CHECK(test.size() == 10000);
  CHECK(test.image(9999).data() == test.images.data() + 9999 * 784);
  for (int digit = 0; digit < 10; ++digit)
    CHECK(std::count(test.labels.begin(), test.labels.end(), digit) > 800);
}

TEST_CASE("A data set of another size, in torchvision's folders, raw beside packed") {
  const TemporaryDirectory directory;
  write_set(directory.path() / "MNIST" / "raw", 13, random_bytes(13, 10));
  const ImageDataset set = load_images(directory.path(), Split::train);
  CHECK(set.size() == 13);
  CHECK(set.rows == 7);
  CHECK(set.cols == 5);
  CHECK(set.image(12).size() == 35);
  CHECK_THAT(error_of(directory.path(), Split::test), ContainsSubstring("t10k-images-idx3-ubyte"));
}

TEST_CASE("Images and labels that do not fit together") {
  const TemporaryDirectory directory;
  write_set(directory.path(), 200, random_bytes(199, 10));
  CHECK_THAT(error_of(directory.path()), ContainsSubstring("holds 200 images"));
  CHECK_THAT(error_of(directory.path()), ContainsSubstring("holds 199 labels"));
  std::string labels = random_bytes(200, 10);
  labels[137] = 10;
  write_set(directory.path(), 200, labels);
  CHECK_THAT(error_of(directory.path()), ContainsSubstring("found 10 for image 137"));
  write_set(directory.path(), 0, "");
  CHECK_THAT(error_of(directory.path()), ContainsSubstring("found none"));
}

TEST_CASE("60000 images with 59999 labels") {
  const TemporaryDirectory directory;
  write_file(directory.path() / "train-images-idx3-ubyte.gz",
             gzip(idx_header({60000, 1, 1}) + random_bytes(60000)));
  write_file(directory.path() / "train-labels-idx1-ubyte", idx_header({59999}) + random_bytes(59999, 10));
  CHECK_THAT(error_of(directory.path()), ContainsSubstring("60000 images"));
}

TEST_CASE("A data directory that is missing, empty or a file") {
  const TemporaryDirectory directory;
  CHECK_THAT(error_of(directory.path() / "absent"), ContainsSubstring("--data"));
  CHECK_THAT(error_of(directory.path()), ContainsSubstring("train-images-idx3-ubyte.gz"));
  write_file(directory.path() / "file", "x");
  CHECK_THAT(error_of(directory.path() / "file"), ContainsSubstring("found a file"));
}

TEST_CASE("ToTensor and Normalize are torchvision's, in float32") {
  const PixelTransform transform;
  // The darkest and the brightest pixel, as PyTorch has them.
  CHECK(transform(0) == -0.4242129623889923F);
  CHECK(transform(255) == 2.821486711502075F);
  for (int pixel = 0; pixel < 256; ++pixel) {
    // Each step rounded to float32 by itself.
    const volatile float scaled = static_cast<float>(pixel) / 255.0F;
    const volatile float shifted = scaled - 0.1307F;
    CHECK(transform(static_cast<uint8_t>(pixel)) == shifted / 0.3081F);
  }
  const std::vector<uint8_t> pixels{7, 0, 255};
  std::vector<float> out(3);
  transform(pixels, out.data());
  CHECK(out == std::vector<float>{transform(7), transform(0), transform(255)});
  CHECK(PixelTransform(Normalize{0.0F, 1.0F})(51) == 0.2F);
}
