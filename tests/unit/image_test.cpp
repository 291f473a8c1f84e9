#include "common/data/image.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#define STBI_WRITE_NO_STDIO
#include <stb/stb_image_write.h>

#include "common/core/error.h"
#include "common/core/file.h"
#include "common/data/contact_sheet.h"
#include "common/data/dataset.h"
#include "common/data/digit.h"
#include "common/data/resize.h"
#include "tests/support/catch.h"
#include "tests/support/idx_files.h"
#include "tests/support/temporary_directory.h"

using namespace miniddp;
namespace fs = std::filesystem;
using Catch::Matchers::ContainsSubstring;

namespace {

const ImageDataset& digits() {
  static const ImageDataset set =
      load_images(fs::path(MINIDDP_SOURCE_DIR) / "datasets" / "mnist", Split::test);
  return set;
}

GreyImage digit(int64_t index) {
  const auto pixels = digits().image(index);
  return {28, 28, {pixels.begin(), pixels.end()}};
}

GreyImage inverted(GreyImage image) {
  for (uint8_t& pixel : image.pixels) pixel = static_cast<uint8_t>(255 - pixel);
  return image;
}

/// Surrounded by `margin` pixels of `ground`, more on the left.
GreyImage framed(const GreyImage& image, int64_t margin, uint8_t ground) {
  GreyImage out{image.rows + 2 * margin, image.cols + 3 * margin, {}};
  out.pixels.assign(static_cast<size_t>(out.rows * out.cols), ground);
  for (int64_t row = 0; row < image.rows; ++row) {
    for (int64_t col = 0; col < image.cols; ++col)
      out.at(row + margin, col + 2 * margin) = image.at(row, col);
  }
  return out;
}

/// Mean absolute difference of two pictures of one size.
double difference(const GreyImage& a, const GreyImage& b) {
  REQUIRE(a.pixels.size() == b.pixels.size());
  REQUIRE(*std::max_element(b.pixels.begin(), b.pixels.end()) > 0);
  double sum = 0;
  for (size_t i = 0; i < a.pixels.size(); ++i) sum += std::abs(a.pixels[i] - b.pixels[i]);
  return sum / static_cast<double>(a.pixels.size());
}

/// Which of the first 200 pictures differs least.
int64_t nearest(const GreyImage& image) {
  int64_t best = 0;
  for (int64_t i = 1; i < 200; ++i) {
    if (difference(image, digit(i)) < difference(image, digit(best))) best = i;
  }
  return best;
}

std::vector<uint8_t> with_channels(const GreyImage& image, int channels, uint8_t alpha) {
  std::vector<uint8_t> bytes;
  for (const uint8_t pixel : image.pixels) {
    for (int channel = 0; channel < channels; ++channel) {
      const bool is_alpha = channels % 2 == 0 && channel == channels - 1;
      bytes.push_back(is_alpha ? alpha : pixel);
    }
  }
  return bytes;
}

/// For stb's writers: adds to the string that `out` points to.
void append(void* out, void* data, int size) {
  static_cast<std::string*>(out)->append(static_cast<const char*>(data), static_cast<size_t>(size));
}

std::string error_of(const fs::path& path) {
  try {
    to_mnist_digit(load_image(path), path.string());
  } catch (const DataError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("PNG of every number of channels, read back as grey") {
  const TemporaryDirectory directory;
  const GreyImage seven = digit(0);
  for (const int channels : {1, 2, 3, 4}) {
    const auto path = directory.path() / "digit.png";
    // write_png is for 1 and 3; the others are written by stb itself.
    std::string bytes;
    const auto pixels = with_channels(seven, channels, 255);
    REQUIRE(stbi_write_png_to_func(append, &bytes, 28, 28, channels, pixels.data(), 28 * channels) != 0);
    write_file(path, bytes);
    const GreyImage read = load_image(path);
    CAPTURE(channels);
    CHECK(read.rows == 28);
    CHECK(read.cols == 28);
    CHECK(read.pixels == seven.pixels);
  }
}

TEST_CASE("write_png writes what load_image reads, and refuses what does not fit") {
  const TemporaryDirectory directory;
  const auto path = directory.path() / "made" / "picture.png";
  const std::string noise = random_bytes(13 * 7);
  const GreyImage image{13, 7, {noise.begin(), noise.end()}};
  write_png(path, image.pixels, 13, 7, 1);
  CHECK(load_image(path).pixels == image.pixels);
  CHECK_THROWS_AS(write_png(path, image.pixels, 13, 8, 1), Error);
  CHECK(load_image(path).pixels == image.pixels);
}

TEST_CASE("Transparent ground: a dark digit is laid on white, a bright one on black") {
  const TemporaryDirectory directory;
  const GreyImage seven = digit(0);
  for (const uint8_t ink : {uint8_t{0}, uint8_t{255}}) {
    // The digit's brightness becomes its opacity, as drawing programs make it.
    std::vector<uint8_t> bytes;
    for (const uint8_t pixel : seven.pixels) bytes.insert(bytes.end(), {ink, ink, ink, pixel});
    std::string png;
    REQUIRE(stbi_write_png_to_func(append, &png, 28, 28, 4, bytes.data(), 28 * 4) != 0);
    write_file(directory.path() / "digit.png", png);
    const GreyImage read = load_image(directory.path() / "digit.png");
    CHECK(read.pixels == (ink == 0 ? inverted(seven) : seven).pixels);
    CHECK(difference(to_mnist_digit(read), seven) < 1);
  }
}

TEST_CASE("MNIST's own pictures, of either polarity, come through unchanged") {
  for (int64_t i = 0; i < 500; ++i) {
    const GreyImage original = digit(i);
    CAPTURE(i);
    if (difference(to_mnist_digit(original), original) >= 1) FAIL("as it is");
    if (difference(to_mnist_digit(inverted(original)), original) >= 1) FAIL("inverted");
    if (difference(to_mnist_digit(framed(original, 9, 0)), original) >= 1) FAIL("off the middle");
  }
}

TEST_CASE("Larger, smaller, framed and inverted pictures still are nearest to a digit of their own kind") {
  for (const int side : {23, 28, 97, 280, 1400}) {
    for (int64_t i = 0; i < 20; ++i) {
      const GreyImage made = to_mnist_digit(framed(inverted(resize(digit(i), side, side)), 41, 255));
      CHECK(made.rows == 28);
      const auto label = [](int64_t index) {
        return static_cast<int>(digits().labels[static_cast<size_t>(index)]);
      };
      if (label(nearest(made)) != label(i))
        FAIL("picture " << i << " at " << side << " pixels looks like a " << label(nearest(made)));
    }
  }
}

TEST_CASE("Noise, a shadow over the paper and specks do not disturb the crop") {
  Generator generator(5);
  const GreyImage original = digit(2);  // a 1: anything that widens the crop shows
  GreyImage picture = framed(inverted(resize(original, 280, 280)), 60, 255);
  for (int64_t row = 0; row < picture.rows; ++row) {
    for (int64_t col = 0; col < picture.cols; ++col) {
      const double lit = 0.85 + 0.1 * static_cast<double>(col) / static_cast<double>(picture.cols);
      picture.at(row, col) =
          static_cast<uint8_t>(picture.at(row, col) * lit + static_cast<double>(generator.randint(0, 8)));
    }
  }
  for (int64_t k = 0; k < 3; ++k) picture.at(9 + k, 11) = 0;
  CHECK(nearest(to_mnist_digit(picture)) == 2);

  std::string jpeg;
  REQUIRE(stbi_write_jpg_to_func(append, &jpeg, static_cast<int>(picture.cols),
                                 static_cast<int>(picture.rows), 1, picture.pixels.data(), 60) != 0);
  const TemporaryDirectory directory;
  write_file(directory.path() / "photo.jpg", jpeg);
  CHECK(nearest(to_mnist_digit(load_image(directory.path() / "photo.jpg"))) == 2);
}

TEST_CASE("Pictures of odd shapes") {
  // One stroke of one pixel; a picture that is all border; a line along a whole side.
  GreyImage dot{9, 5, std::vector<uint8_t>(45, 0)};
  dot.at(4, 2) = 200;
  CHECK(to_mnist_digit(dot).pixels[14 * 28 + 14] == 255);
  CHECK(to_mnist_digit({1, 3, {0, 255, 0}}).pixels.size() == 784);
  GreyImage column{40, 1, std::vector<uint8_t>(40, 255)};
  std::fill(column.pixels.begin() + 10, column.pixels.begin() + 20, uint8_t{0});
  CHECK(to_mnist_digit(column).pixels.size() == 784);
}

TEST_CASE("What is no picture of a digit is an error") {
  const TemporaryDirectory directory;
  const auto path = directory.path() / "picture.png";
  CHECK_THAT(error_of(directory.path() / "absent.png"), ContainsSubstring("no such file"));
  CHECK_THAT(error_of(directory.path()), ContainsSubstring("a directory"));
  write_file(path, "");
  CHECK_THAT(error_of(path), ContainsSubstring("something else"));
  write_file(path, "this is not a picture");
  CHECK_THAT(error_of(path), ContainsSubstring("something else"));
  write_png(path, std::vector<uint8_t>(30 * 30, 255), 30, 30, 1);
  CHECK_THAT(error_of(path), ContainsSubstring("blank"));

  write_png(path, digit(0).pixels, 28, 28, 1);
  std::string bytes = read_file(path, "a test");
  write_file(path, bytes.substr(0, bytes.size() / 2));
  CHECK_THAT(error_of(path), ContainsSubstring("damaged"));
  // Width and height: four bytes each, big-endian, behind the 8 bytes of signature and 8 of chunk header.
  bytes.replace(16, 8, std::string("\0\0\x40\0\0\0\x40\0", 8));
  write_file(path, bytes);
  CHECK_THAT(error_of(path), ContainsSubstring("16384 x 16384"));
  bytes.replace(16, 8, std::string("\x7f\xff\xff\xff\x7f\xff\xff\xff", 8));
  write_file(path, bytes);
  CHECK_THAT(error_of(path), ContainsSubstring("beyond all measure"));
}

TEST_CASE("A JPEG whose Huffman table claims more than 256 codes is refused before it is decoded") {
  const TemporaryDirectory directory;
  const auto path = directory.path() / "picture.jpg";
  std::string jpeg;
  const auto pixels = digit(0).pixels;
  REQUIRE(stbi_write_jpg_to_func(append, &jpeg, 28, 28, 1, pixels.data(), 90) != 0);
  write_file(path, jpeg);
  CHECK(load_image(path).pixels.size() == 28 * 28);
  const size_t table = jpeg.find("\xff\xc4");
  REQUIRE(table != std::string::npos);
  for (size_t count = 0; count < 16; ++count) jpeg[table + 5 + count] = '\x7f';
  write_file(path, jpeg);
  CHECK_THAT(error_of(path), ContainsSubstring("damaged"));
  // Cut off within the counts: the decoder takes zeros for the rest.
  write_file(path, jpeg.substr(0, table + 12));
  CHECK_THAT(error_of(path), ContainsSubstring("damaged"));
  // A quantisation table (65 bytes) with what looks like a long comment in it must not hide the segments
  // behind it.
  std::string quantisation("\xff\xdb\x00\x43\x00", 5);
  quantisation += std::string("\xff\xfe\xff\xff", 4) + std::string(60, '\x01');
  write_file(path, jpeg.substr(0, 2) + quantisation + jpeg.substr(2));
  CHECK_THAT(error_of(path), ContainsSubstring("damaged"));
}

TEST_CASE("resize keeps what it should") {
  const GreyImage seven = digit(0);
  CHECK(resize(seven, 28, 28).pixels == seven.pixels);
  const GreyImage flat{7, 13, std::vector<uint8_t>(91, 77)};
  for (const auto& [rows, cols] : {std::pair{1, 1}, {3, 50}, {29, 2}}) {
    const GreyImage out = resize(flat, rows, cols);
    CHECK(out.pixels == std::vector<uint8_t>(static_cast<size_t>(rows * cols), 77));
  }
  CHECK_THROWS_AS(resize(flat, 0, 5), Error);
}

TEST_CASE("A digit is drawn, as text and in colours") {
  const std::vector<uint8_t> pixels{0, 255, 128, 255, 0, 64};
  CHECK(draw(pixels, 2, 3, Drawing::text) == "  @@==\n@@  ::\n");
  const std::string coloured = draw(pixels, 2, 3, Drawing::colours);
  CHECK(coloured.find("\033[38;5;232;48;5;255m") == 0);
  CHECK(std::count(coloured.begin(), coloured.end(), '\n') == 1);
  const std::string seven = draw(digits().image(0), 28, 28, Drawing::text);
  CHECK(std::count(seven.begin(), seven.end(), '\n') == 28);
}

TEST_CASE("A contact sheet shows every tile and its two numbers") {
  const TemporaryDirectory directory;
  const auto path = directory.path() / "sheet.png";
  std::vector<Tile> tiles;
  for (int64_t i = 0; i < 13; ++i)
    tiles.push_back({digits().image(i), digits().labels[static_cast<size_t>(i)], i % 10});
  write_contact_sheet(path, tiles, 28, 28);
  const GreyImage sheet = load_image(path);
  // 4 across; a tile is 56 x 56 with a caption of 9 rows, and 6 pixels lie between tiles.
  CHECK(sheet.cols == 6 + 4 * 62);
  CHECK(sheet.rows == 6 + 4 * 71);
  for (int64_t i = 0; i < 13; ++i) {
    for (int64_t row = 0; row < 28; ++row) {
      for (int64_t col = 0; col < 28; ++col) {
        const uint8_t shown = sheet.at(6 + i / 4 * 71 + 2 * row, 6 + i % 4 * 62 + 2 * col);
        if (shown != tiles[static_cast<size_t>(i)].image[static_cast<size_t>(row * 28 + col)])
          FAIL("tile " << i);
      }
    }
  }
  tiles[3].prediction = 10;
  CHECK_THROWS_AS(write_contact_sheet(path, tiles, 28, 28), Error);
  tiles[3].prediction = 9;
  CHECK_THROWS_AS(write_contact_sheet(path, tiles, 28, 27), ShapeError);
  CHECK_THROWS_AS(write_contact_sheet(path, {}, 28, 28), Error);
  CHECK(load_image(path).pixels == sheet.pixels);
}
