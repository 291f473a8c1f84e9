// Initial weights and what construction draws: PyTorch's, bit for bit (cases 9-12, 14, 20).
#include <zlib.h>

#include "chapters/01_single_device/networks.h"
#include "common/data/data_loader.h"
#include "tests/support/catch.h"
#include "tests/support/networks.h"

using namespace miniddp;

namespace {

uint32_t crc_of(const Tensor& tensor) {
  const std::vector<float> values = tensor.to_vector<float>();
  return static_cast<uint32_t>(crc32(0, reinterpret_cast<const Bytef*>(values.data()), static_cast<uInt>(values.size() * sizeof(float))));
}

std::vector<uint32_t> crcs_of(const Module& model) {
  std::vector<uint32_t> crcs;
  for (const Tensor& parameter : model.parameters()) crcs.push_back(crc_of(parameter));
  return crcs;
}

// The first indices of a shuffled pass over 60,000 samples, batch 64.
std::vector<int64_t> first_indices() {
  ImageDataset dataset;
  dataset.rows = dataset.cols = 1;
  dataset.images.resize(60000);
  dataset.labels.resize(60000);
  const RandomSampler sampler(60000);
  const DataLoader loader(dataset, sampler, {.batch_size = 64});
  for (const Batch& batch : loader.pass(0)) return {batch.indices.begin(), batch.indices.begin() + 8};
  return {};
}

uint64_t draws_of(auto construct) {
  manual_seed(0);
  construct();
  return default_generator().draws();
}

}  // namespace

TEST_CASE("case 9: Linear(4, 3) from seed 0") {
  manual_seed(0);
  const Linear layer(4, 3);
  CHECK(layer.weight.to_vector<float>() ==
        std::vector<float>{-.003743410110473633f, .26822179555892944f, -.4115225672721863f, -.3679695129394531f, -.19257718324661255f,
                           .13407868146896362f, -.009906589984893799f, .39644473791122437f, -.04437202215194702f, .1323062777519226f,
                           -.15110653638839722f, -.09828269481658936f});
  CHECK(layer.bias.to_vector<float>() == std::vector<float>{-.4776742458343506f, -.33114105463027954f, -.20611155033111572f});
}

TEST_CASE("case 10: Conv2d(1, 2, 3) from seed 0") {
  manual_seed(0);
  const Conv2d layer(1, 2, 3);
  const std::vector<float> weight = layer.weight.to_vector<float>();
  CHECK(std::vector<float>(weight.begin(), weight.begin() + 4) ==
        std::vector<float>{-.0024956068955361843f, .17881453037261963f, -.2743483781814575f, -.24531301856040955f});
  CHECK(layer.bias.to_vector<float>() == std::vector<float>{-.22598037123680115f, -.14515428245067596f});
}

TEST_CASE("case 11: Mini from seed 1, by checksum") {
  manual_seed(1);
  CHECK(crcs_of(testing::Mini()) ==
        std::vector<uint32_t>{0xefd0f8fd, 0xf4f7a482, 0x9b002231, 0x2d218dac, 0x0939a720, 0x00608ecb});
}

TEST_CASE("case 12: article B's network from seed 1, by checksum, and the next draw after it") {
  manual_seed(1);
  CHECK(crcs_of(ArticleB()) == std::vector<uint32_t>{0x48352b30, 0xdbf93134, 0x0ac5fd1d, 0xaabf21bd, 0x75ca0afa, 0xe4518009, 0x01fe1f04,
                                                     0x5f415c77});
  CHECK(default_generator().random_int64() == 3961684187514624903);
}

TEST_CASE("case 14: draws of constructors and of dropout") {
  CHECK(draws_of([] { Linear(4, 2); }) == 10);
  CHECK(draws_of([] { Linear(4, 2, false); }) == 8);
  CHECK(draws_of([] { Conv2d(1, 2, 3); }) == 20);
  CHECK(draws_of([] { BatchNorm2d(7); }) == 0);
  CHECK(draws_of([] { ArticleB(); }) == 1199882);
  const Tensor x = Tensor::ones({2, 3, 5, 4});
  for (double p : {0.0, 0.5, 1.0}) CHECK(draws_of([&] { functional::dropout2d(x, p, false); }) == 0);
  CHECK(draws_of([&] { functional::dropout2d(x, 0, true); }) == 0);
  CHECK(draws_of([&] { functional::dropout2d(x, 1, true); }) == 0);
  CHECK(draws_of([&] { functional::dropout2d(x, 0.5, true); }) == 12);
  CHECK(draws_of([&] { functional::dropout(x, 0.5, true); }) == 240);
}

TEST_CASE("case 20: the first shuffled indices after a network was constructed from seed 1") {
  manual_seed(1);
  ArticleB net;
  CHECK(first_indices() == std::vector<int64_t>{8975, 45053, 47588, 16068, 10865, 46651, 39317, 15167});
  manual_seed(1);
  testing::Mini mini;
  CHECK(first_indices() == std::vector<int64_t>{34848, 23831, 59238, 14625, 8902, 37414, 12120, 34914});
}
