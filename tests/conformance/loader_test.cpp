// Samplers and loaders: cases 15-19 and 21 of docs/parity.md. The orders are PyTorch's. Case 16 (persistent
// workers) has no counterpart here: the loader has no workers, so each pass draws the base seed, as PyTorch's
// default does.
#include <algorithm>
#include <cmath>

#include "common/data/data_loader.h"
#include "tests/support/catch.h"

using namespace miniddp;

namespace {

using Indices = std::vector<int64_t>;

/// n images of 2 x 3 pixels; the first two pixels are the sample's number, its label is the number modulo 10.
ImageDataset numbered(int64_t n) {
  ImageDataset set;
  set.rows = 2;
  set.cols = 3;
  for (int64_t i = 0; i < n; ++i) {
    for (const int64_t pixel : {i / 256, i % 256, int64_t{1}, int64_t{2}, int64_t{3}, int64_t{4}}) {
      set.images.push_back(static_cast<uint8_t>(pixel));
    }
    set.labels.push_back(static_cast<uint8_t>(i % 10));
  }
  return set;
}

DataLoaderOptions raw_pixels(int64_t batch_size, bool drop_last = false, Generator* generator = nullptr) {
  return {batch_size, drop_last, PixelTransform(Normalize{0.0F, 1.0F / 255.0F}), generator};
}

Indices indices_of(const DataLoader& loader, int64_t epoch) {
  Indices all;
  for (const Batch& batch : loader.pass(epoch))
    all.insert(all.end(), batch.indices.begin(), batch.indices.end());
  return all;
}

std::vector<int64_t> batch_sizes(int64_t n, int64_t batch_size, bool drop_last) {
  const ImageDataset set = numbered(n);
  const SequentialSampler sampler(n);
  const DataLoader loader(set, sampler, raw_pixels(batch_size, drop_last));
  std::vector<int64_t> sizes;
  for (const Batch& batch : loader.pass(0)) {
    CHECK(batch.images.shape() == Shape{batch.size(), 1, 2, 3});
    CHECK(batch.labels.shape() == Shape{batch.size()});
    sizes.push_back(batch.size());
  }
  CHECK(loader.size() == static_cast<int64_t>(sizes.size()));
  return sizes;
}

}  // namespace

TEST_CASE("case 15: three shuffled epochs of ten") {
  const ImageDataset set = numbered(10);
  const RandomSampler sampler(10);
  const DataLoader loader(set, sampler, raw_pixels(4));
  manual_seed(1);
  CHECK(indices_of(loader, 0) == Indices{4, 2, 0, 6, 8, 7, 9, 1, 5, 3});
  CHECK(default_generator().draws() == 4);
  CHECK(indices_of(loader, 1) == Indices{4, 8, 1, 5, 0, 2, 3, 6, 9, 7});
  CHECK(indices_of(loader, 2) == Indices{5, 8, 3, 7, 6, 9, 2, 1, 0, 4});
  CHECK(default_generator().draws() == 12);
}

TEST_CASE("case 15: the base seed is drawn at once, the sampler's with the first batch") {
  const ImageDataset set = numbered(10);
  const RandomSampler random(10);
  const SequentialSampler sequential(10);
  manual_seed(1);
  const DataLoader shuffled(set, random, raw_pixels(4));
  CHECK(default_generator().draws() == 0);
  DataPass pass = shuffled.pass(0);
  CHECK(default_generator().draws() == 2);
  pass.begin();
  CHECK(default_generator().draws() == 4);
  const DataLoader plain(set, sequential, raw_pixels(4));
  indices_of(plain, 0);
  CHECK(default_generator().draws() == 6);
}

TEST_CASE("case 17: a generator of the loader's own") {
  const ImageDataset set = numbered(10);
  Generator own(7);
  const RandomSampler sampler(10, &own);
  const DataLoader loader(set, sampler, raw_pixels(4, false, &own));
  manual_seed(1);
  CHECK(indices_of(loader, 0) == Indices{1, 3, 5, 7, 9, 4, 6, 2, 8, 0});
  CHECK(own.draws() == 2 + 9 + 9);
  CHECK(indices_of(loader, 1) == Indices{5, 1, 6, 0, 9, 7, 8, 4, 3, 2});
  CHECK(default_generator().draws() == 0);
}

TEST_CASE("case 18: RandomSampler alone") {
  const RandomSampler sampler(60000);
  Generator source(1);
  const auto first_eight = [&] {
    const Indices order = sampler.order(0, sampler.begin_pass(source));
    CHECK(order.size() == 60000);
    return Indices(order.begin(), order.begin() + 8);
  };
  CHECK(first_eight() == Indices{35646, 13173, 9238, 13461, 24735, 30239, 25480, 31617});
  CHECK(first_eight() == Indices{24894, 45082, 51850, 25962, 57884, 58887, 59203, 58901});
}

TEST_CASE("case 19: DataLoader over 60000, batch 64") {
  const ImageDataset set = numbered(60000);
  const RandomSampler sampler(60000);
  const DataLoader loader(set, sampler, raw_pixels(64));
  CHECK(loader.size() == 938);
  manual_seed(1);
  const Indices all = indices_of(loader, 0);
  CHECK(all.size() == 60000);
  CHECK(Indices(all.begin(), all.begin() + 8) ==
        Indices{24894, 45082, 51850, 25962, 57884, 58887, 59203, 58901});
}

TEST_CASE("case 21: batch sizes") {
  using Sizes = std::vector<int64_t>;
  CHECK(batch_sizes(10, 3, false) == Sizes{3, 3, 3, 1});
  CHECK(batch_sizes(10, 3, true) == Sizes{3, 3, 3});
  CHECK(batch_sizes(11, 4, false) == Sizes{4, 4, 3});
  CHECK(batch_sizes(11, 4, true) == Sizes{4, 4});
  CHECK(batch_sizes(3, 8, false) == Sizes{3});
  CHECK(batch_sizes(3, 8, true).empty());
  CHECK(batch_sizes(0, 4, false).empty());
  CHECK(batch_sizes(0, 4, true).empty());
}

TEST_CASE("every sample comes once, with its own label, in 157 batches of which the last has 16") {
  const ImageDataset set = numbered(10000);
  const RandomSampler sampler(10000);
  const DataLoader loader(set, sampler, raw_pixels(64));
  manual_seed(3);
  std::vector<int> seen(10000, 0);
  std::vector<int64_t> sizes;
  bool pixels_fit = true;
  for (const Batch& batch : loader.pass(0)) {
    sizes.push_back(batch.size());
    const auto images = batch.images.to_vector<float>();
    const auto labels = batch.labels.to_vector<int64_t>();
    for (size_t i = 0; i < batch.indices.size(); ++i) {
      const auto number = static_cast<int64_t>(std::lround(images[6 * i] * 256 + images[6 * i + 1]));
      ++seen.at(static_cast<size_t>(number));
      pixels_fit = pixels_fit && number == batch.indices[i] && labels[i] == number % 10 &&
                   std::lround(images[6 * i + 5]) == 4;
    }
  }
  CHECK(pixels_fit);
  CHECK(seen == std::vector<int>(10000, 1));
  REQUIRE(sizes.size() == 157);
  CHECK(sizes.back() == 16);
}

TEST_CASE("a pass that is resumed gives the batches that were left, and draws nothing again") {
  const ImageDataset set = numbered(23);
  Generator own(5);
  const bool with_own = GENERATE(false, true);
  Generator* const generator = with_own ? &own : nullptr;
  const RandomSampler sampler(23, generator);
  const DataLoader loader(set, sampler, raw_pixels(4, false, generator));
  for (const int64_t stop_after : {0, 1, 3, 5, 6}) {
    CAPTURE(with_own, stop_after);
    manual_seed(8);
    own.manual_seed(5);
    Generator& used = with_own ? own : default_generator();
    indices_of(loader, 0);
    std::vector<Indices> expected;
    PassState saved;
    std::string generator_then;
    DataPass pass = loader.pass(1);
    const auto save_if = [&] {
      if (pass.batches_done() != stop_after) return;
      saved = pass.state();
      generator_then = used.state();
      expected.clear();
    };
    save_if();
    for (const Batch& batch : pass) {
      expected.push_back(batch.indices);
      save_if();
    }
    expected.push_back(indices_of(loader, 2));

    manual_seed(99);  // another process: nothing is left but what was saved
    used.set_state(generator_then);
    std::vector<Indices> resumed;
    DataPass rest = loader.resume(saved);
    for (const Batch& batch : rest) resumed.push_back(batch.indices);
    resumed.push_back(indices_of(loader, 2));
    CHECK(rest.epoch() == 1);
    CHECK(rest.batches_done() == 6);
    CHECK(resumed == expected);
  }
}

TEST_CASE("a saved position that does not fit the loader is an error") {
  const ImageDataset set = numbered(23);
  const RandomSampler sampler(23);
  const DataLoader loader(set, sampler, raw_pixels(4));
  DataPass pass = loader.pass(0);
  pass.begin();
  const PassState good = pass.state();
  CHECK_NOTHROW(loader.resume(good));
  const auto broken = [&](auto&& change) {
    PassState state = good;
    change(state);
    CHECK_THROWS_AS(loader.resume(state), DataError);
  };
  broken([](PassState& s) { s.batch_size = 5; });
  broken([](PassState& s) { s.samples = 24; });
  broken([](PassState& s) { s.next_batch = 7; });
  broken([](PassState& s) { s.next_batch = -1; });
  broken([](PassState& s) { s.stream.clear(); });
  broken([](PassState& s) { s.stream[20] ^= 1; });
}

TEST_CASE("a loader's wrong options and a sampler beyond the data are errors") {
  const ImageDataset set = numbered(5);
  const SequentialSampler sampler(5);
  CHECK_THROWS_AS(DataLoader(set, sampler, raw_pixels(0)), Error);
  const SequentialSampler too_long(6);
  const DataLoader loader(set, too_long, raw_pixels(4));
  CHECK_THROWS_AS(indices_of(loader, 0), Error);
}
