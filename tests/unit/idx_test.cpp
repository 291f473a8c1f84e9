#include "common/data/idx.h"

#include "common/core/error.h"
#include "common/core/file.h"
#include "tests/support/catch.h"
#include "tests/support/idx_files.h"
#include "tests/support/temporary_directory.h"

using namespace miniddp;
using Catch::Matchers::ContainsSubstring;

namespace {

/// The message of the DataError that reading `bytes` ends in; empty if there is none.
std::string error_of(const std::string& bytes, int dims = 3) {
  const TemporaryDirectory directory;
  const auto path = directory.path() / "some-file";
  write_file(path, bytes);
  try {
    read_idx(path, dims);
  } catch (const DataError& error) {
    const std::string message = error.what();
    CHECK(message.find("some-file") != std::string::npos);
    return message;
  }
  return "";
}

IdxArray read_bytes(const std::string& bytes, int dims) {
  const TemporaryDirectory directory;
  write_file(directory.path() / "file", bytes);
  return read_idx(directory.path() / "file", dims);
}

const std::string pixels = random_bytes(13 * 7 * 5);
const std::string images = idx_header({13, 7, 5}) + pixels;

}  // namespace

TEST_CASE("IDX is read packed or not, whatever the file is called") {
  for (const std::string& bytes :
       {images, gzip(images), gzip(images.substr(0, 100)) + gzip(images.substr(100))}) {
    const IdxArray array = read_bytes(bytes, 3);
    CHECK(array.shape == Shape{13, 7, 5});
    CHECK(std::string(array.data.begin(), array.data.end()) == pixels);
  }
}

TEST_CASE("IDX sizes above 127 and 32767 are not taken for negative") {
  for (const uint32_t count : {1U, 128U, 200U, 255U, 256U, 32768U, 60000U}) {
    const std::string labels = random_bytes(count, 10);
    const IdxArray array = read_bytes(idx_header({count}) + labels, 1);
    CHECK(array.shape == Shape{count});
    CHECK(std::string(array.data.begin(), array.data.end()) == labels);
  }
}

TEST_CASE("IDX with no elements, and contents that pack very well") {
  CHECK(read_bytes(idx_header({0, 28, 28}), 3).shape == Shape{0, 28, 28});
  CHECK(read_bytes(gzip(idx_header({0})), 1).data.empty());
  const IdxArray zeros = read_bytes(gzip(idx_header({5000, 28, 28}) + std::string(5000 * 784, '\0')), 3);
  CHECK(zeros.data.size() == 5000 * 784);
}

TEST_CASE("IDX cut short anywhere is an error, packed or not") {
  const std::string packed = gzip(images);
  for (const size_t length :
       {size_t{0}, size_t{1}, size_t{3}, size_t{4}, size_t{15}, size_t{16}, images.size() - 1}) {
    CAPTURE(length);
    CHECK_THAT(error_of(images.substr(0, length)), ContainsSubstring("truncated"));
    CHECK_THAT(error_of(gzip(images.substr(0, length))), ContainsSubstring("truncated"));
  }
  for (const size_t length :
       {size_t{3}, size_t{15}, size_t{16}, packed.size() / 2, packed.size() - 9, packed.size() - 1}) {
    CAPTURE(length);
    CHECK_THAT(error_of(packed.substr(0, length)), ContainsSubstring("truncated"));
  }
}

TEST_CASE("IDX with bytes behind its end is an error") {
  CHECK_THAT(error_of(images + "x"), ContainsSubstring("too long"));
  CHECK_THAT(error_of(gzip(images + "x")), ContainsSubstring("more bytes"));
  CHECK_THAT(error_of(gzip(images) + "x"), ContainsSubstring("after its gzip data"));
  CHECK_THAT(error_of(gzip(images) + gzip("x")), ContainsSubstring("more bytes"));
}

TEST_CASE("A damaged gzip checksum is an error, and so is damage within") {
  std::string packed = gzip(images);
  packed[packed.size() - 6] ^= 1;  // CRC-32, then the length: four bytes each
  CHECK_THAT(error_of(packed), ContainsSubstring("incorrect data check"));
  packed = gzip(images);
  packed[packed.size() - 2] ^= 1;
  CHECK_THAT(error_of(packed), ContainsSubstring("incorrect length check"));
  packed = gzip(images);
  packed[2] = 7;
  CHECK_THAT(error_of(packed), ContainsSubstring("unknown compression method"));
}

TEST_CASE("What is not IDX is named") {
  CHECK_THAT(error_of("<!DOCTYPE html><html><body>403 Forbidden</body></html>"), ContainsSubstring("HTML"));
  CHECK_THAT(error_of("\n  <html>"), ContainsSubstring("HTML"));
  CHECK_THAT(error_of(gzip("<html>")), ContainsSubstring("HTML"));
  CHECK_THAT(error_of("version https://git-lfs.github.com/spec/v1"), ContainsSubstring("text (\"vers\")"));
  CHECK_THAT(error_of("\x89PNG\r\n\x1a\n"), ContainsSubstring("89 50 4e 47"));
  std::string floats = images;
  floats[2] = 0x0d;
  CHECK_THAT(error_of(floats), ContainsSubstring("element type"));
  CHECK_THAT(error_of(images, 1), ContainsSubstring("found 00 00 08 03"));
  CHECK_THAT(error_of(idx_header({13}) + random_bytes(13)), ContainsSubstring("swapped"));
}

TEST_CASE("A header that claims gigabytes makes no memory") {
  const uint32_t most = 0x7fffffff;
  CHECK_THAT(error_of(idx_header({most, 28, 28}) + pixels), ContainsSubstring("truncated"));
  CHECK_THAT(error_of(idx_header({most, most, most}) + pixels), ContainsSubstring("more than 2^64"));
  CHECK_THAT(error_of(idx_header({0xffffffff}) + pixels, 1), ContainsSubstring("truncated"));
  CHECK_THAT(error_of(gzip(idx_header({most, 28, 28}) + pixels)), ContainsSubstring("trusted to hold"));
  CHECK_THAT(error_of(gzip(idx_header({most, most, most}) + pixels)), ContainsSubstring("more than 2^64"));
  CHECK_THAT(error_of(gzip(idx_header({200, 1000, 1000}) + pixels)), ContainsSubstring("truncated"));
}

TEST_CASE("An IDX file that is missing, or a directory") {
  const TemporaryDirectory directory;
  CHECK_THROWS_AS(read_idx(directory.path() / "absent", 3), DataError);
  CHECK_THROWS_AS(read_idx(directory.path(), 3), DataError);
  CHECK_THROWS_AS(read_idx("/dev/zero", 3), DataError);
}
