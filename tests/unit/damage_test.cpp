// Readers of files against damage of every kind: thousands of random changes. A reader may take what is left
// or throw DataError; under the sanitizers nothing else is allowed either.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#define STBI_WRITE_NO_STDIO
#include <stb/stb_image_write.h>

#include "common/core/error.h"
#include "common/core/file.h"
#include "common/data/dataset.h"
#include "common/data/digit.h"
#include "common/data/idx.h"
#include "tests/support/catch.h"
#include "tests/support/idx_files.h"
#include "tests/support/temporary_directory.h"

using namespace miniddp;

namespace {

/// One to six changes: bytes set, bits flipped, pieces cut out, doubled, or the end cut off.
std::string damaged(std::string bytes, Generator& generator) {
  const int64_t changes = generator.randint(1, 7);
  for (int64_t change = 0; change < changes && !bytes.empty(); ++change) {
    const auto size = static_cast<int64_t>(bytes.size());
    // Half of the changes hit the first bytes: that is where sizes stand.
    const auto place = static_cast<size_t>(
        generator.randint(0, generator.bernoulli(0.5) ? std::min<int64_t>(size, 64) : size));
    const auto length = static_cast<size_t>(generator.randint(1, 9));
    switch (generator.randint(0, 6)) {
      case 0:
        bytes[place] = static_cast<char>(generator.randint(0, 256));
        break;
      case 1:
        bytes[place] ^= static_cast<char>(1 << generator.randint(0, 8));
        break;
      case 2:
        bytes[place] = generator.bernoulli(0.5) ? '\x7f' : '\xff';
        break;
      case 3:
        bytes.erase(place, length);
        break;
      case 4:
        bytes.insert(place, bytes.substr(place, length));
        break;
      default:
        if (generator.bernoulli(0.1)) bytes.resize(place);
        break;
    }
  }
  return bytes;
}

/// Counts of the readings that succeeded and that ended in DataError. Everything else fails the test.
struct Outcome {
  int taken = 0;
  int refused = 0;
};

template <class Read>
Outcome damage(const std::string& good, uint64_t seed, int rounds, Read read) {
  const TemporaryDirectory directory;
  const auto path = directory.path() / "file";
  Generator generator(seed);
  Outcome outcome;
  for (int round = 0; round < rounds; ++round) {
    const std::string bytes = damaged(good, generator);
    // A new file each time, and not by write_file: the disk shall not wait for any of them.
    std::filesystem::remove(path);
    std::ofstream(path, std::ios::binary) << bytes;
    try {
      read(path);
      ++outcome.taken;
    } catch (const DataError& error) {
      if (std::string(error.what()).find(path.string()) == std::string::npos) {
        FAIL("round " << round << ": the message names no file: " << error.what());
      }
      ++outcome.refused;
    } catch (const std::exception& error) {
      FAIL("round " << round << ": " << error.what());
    }
  }
  INFO(outcome.taken << " taken, " << outcome.refused << " refused");
  CHECK(outcome.refused > rounds / 10);
  return outcome;
}

int rounds_of(int usual) {
  const char* factor = std::getenv("MINIDDP_DAMAGE_FACTOR");
  return factor == nullptr ? usual : usual * std::atoi(factor);
}

uint64_t seed_of() {
  const char* seed = std::getenv("MINIDDP_DAMAGE_SEED");
  return seed == nullptr ? 1 : static_cast<uint64_t>(std::atoll(seed));
}

void append(void* out, void* data, int size) {
  static_cast<std::string*>(out)->append(static_cast<const char*>(data), static_cast<size_t>(size));
}

/// A dark square on noise, (41, 37, channels).
std::vector<uint8_t> picture(int channels) {
  const std::string noise = random_bytes(static_cast<size_t>(41 * 37 * channels), 40);
  std::vector<uint8_t> pixels;
  for (const char value : noise) pixels.push_back(static_cast<uint8_t>(200 + static_cast<uint8_t>(value)));
  for (int row = 11; row < 30; ++row) {
    for (int col = 9; col < 20 * channels; ++col) pixels[static_cast<size_t>(row * 37 * channels + col)] = 3;
  }
  return pixels;
}

}  // namespace

TEST_CASE("damaged IDX files") {
  const std::string images = idx_header({13, 7, 5}) + random_bytes(13 * 7 * 5);
  const auto read = [](const std::filesystem::path& path) {
    const IdxArray array = read_idx(path, 3);
    CHECK(static_cast<int64_t>(array.data.size()) == numel_of(array.shape));
  };
  damage(images, seed_of(), rounds_of(2000), read);
  damage(gzip(images), seed_of(), rounds_of(2000), read);
}

TEST_CASE("damaged pictures") {
  const auto read = [](const std::filesystem::path& path) {
    // Not within CHECK: it would catch what is thrown.
    const GreyImage digit = to_mnist_digit(load_image(path), path.string());
    CHECK(digit.pixels.size() == 28 * 28);
  };
  for (const int channels : {1, 3, 4}) {
    const auto pixels = picture(channels);
    std::string png;
    REQUIRE(stbi_write_png_to_func(append, &png, 37, 41, channels, pixels.data(), 37 * channels) != 0);
    damage(png, seed_of(), rounds_of(400), read);
    std::string jpeg;
    REQUIRE(stbi_write_jpg_to_func(append, &jpeg, 37, 41, channels, pixels.data(), 80) != 0);
    damage(jpeg, seed_of(), rounds_of(400), read);
  }
}

TEST_CASE("damaged generator states") {
  Generator source(7);
  source.random();
  const std::string good = source.state();
  Generator generator(seed_of());
  for (int round = 0; round < rounds_of(500); ++round) {
    const std::string bad = damaged(good, generator);
    if (bad == good) continue;
    Generator victim;
    try {
      victim.set_state(bad);
      FAIL("round " << round << ": a damaged state was taken");
    } catch (const DataError&) {
    }
  }
}
