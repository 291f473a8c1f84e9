// Training by SGD from seed 1 reaches PyTorch's losses, gradients and weights: cases 88-92 and 95.
// The expected numbers were computed with PyTorch 1.13, those of 88-91 in float64.
#include <zlib.h>

#include <cmath>
#include <numeric>
#include <vector>

#include "common/optim/sgd.h"
#include "tests/support/catch.h"
#include "tests/support/check_agrees.h"
#include "tests/support/networks.h"

using namespace miniddp;
using namespace miniddp::testing;

namespace {

using Series = std::vector<double>;


template <class Network>
Network seeded(DType dtype = DType::float32) {
  manual_seed(1);
  Network network;
  network.to(dtype);
  return network;
}

/// One step; returns the loss before it.
double train_step(Module& network, SGD& optimizer, const Tensor& images, const Tensor& labels) {
  optimizer.zero_grad();
  const Tensor loss = functional::cross_entropy(network(images), labels);
  loss.backward();
  optimizer.step();
  return loss.item<double>();
}

/// Eight steps on all of D64.
Series train_on_d64(Module& network, SgdParams options) {
  const Samples samples = d64();
  const Tensor images = samples.images.to(network.parameters().front().dtype());
  SGD optimizer(network.parameters(), options);
  Series losses;
  for (int step = 0; step < 8; ++step) losses.push_back(train_step(network, optimizer, images, samples.labels));
  return losses;
}

Series sums_of_parameters(const Module& network) {
  Series sums;
  for (const Tensor& parameter : network.parameters()) {
    const Series values = to_doubles(parameter);
    sums.push_back(std::accumulate(values.begin(), values.end(), 0.0));
  }
  return sums;
}

template <class T>
unsigned long crc_of(const Tensor& tensor) {
  const std::vector<T> values = tensor.to_vector<T>();
  return crc32(0, reinterpret_cast<const Bytef*>(values.data()), static_cast<uInt>(values.size() * sizeof(T)));
}

}  // namespace

TEST_CASE("training: data sets D64 and D256 are PyTorch's, bit for bit") {
  CHECK(crc_of<float>(d64().images) == 0x89d8c9c3);
  CHECK(crc_of<int64_t>(d64().labels) == 0x05072993);
  CHECK(crc_of<float>(d256().images) == 0x60394452);
  CHECK(crc_of<int64_t>(d256().labels) == 0xfe74ae3d);
}

TEST_CASE("training, cases 88 and 89: Mini on D64, losses and the sums of the weights after 8 steps") {
  const Series sums{.88048754, .54128371, 1.03452641, -.06168194, -2.48379808, -.03447021};
  SECTION("float32") {
    Mini network = seeded<Mini>();
    check_agrees(compare(train_on_d64(network, {.lr = 0.1}), mini_losses, 1e-5, "step"));
    check_agrees(compare(sums_of_parameters(network), sums, 1e-5, "parameter"));
  }
  SECTION("float64: as many digits as were written down") {
    Mini network = seeded<Mini>(DType::float64);
    check_agrees(compare(train_on_d64(network, {.lr = 0.1}), mini_losses, 1e-9, "step"));
    check_agrees(compare(sums_of_parameters(network), sums, 2e-8, "parameter"));
  }
}

TEST_CASE("training, case 90: norms of Mini's first gradients") {
  Mini network = seeded<Mini>();
  const Samples samples = d64();
  functional::cross_entropy(network(samples.images), samples.labels).backward();
  Series norms;
  for (const Tensor& parameter : network.parameters()) {
    const Series gradient = to_doubles(parameter.grad());
    norms.push_back(std::sqrt(std::inner_product(gradient.begin(), gradient.end(), gradient.begin(), 0.0)));
  }
  check_agrees(compare(norms, Series{.066831227, .039682955, .190246880, .071240405, .429407900, .116975588}, 1e-5, "parameter"));
}

TEST_CASE("training, case 91: Net on D64, losses, and the weights beside float64's") {
  Net single = seeded<Net>();
  check_agrees(compare(train_on_d64(single, {.lr = 0.1}), net_losses, 1e-5, "step"));
  Net exact = seeded<Net>(DType::float64);
  check_agrees(compare(train_on_d64(exact, {.lr = 0.1}), net_losses, 1e-9, "step"));
  const NamedTensors expected = exact.named_parameters(), found = single.named_parameters();
  REQUIRE(found.size() == 8);
  for (size_t i = 0; i < found.size(); ++i) {
    INFO(found[i].first);
    check_agrees(compare(found[i].second.to(DType::float64), expected[i].second, 2e-4));
  }
}

TEST_CASE("training, case 92: with momentum 0.9, Mini and Net on D64") {
  Mini mini = seeded<Mini>();
  check_agrees(compare(train_on_d64(mini, {.lr = 0.01, .momentum = 0.9}),
                       Series{2.3091362, 2.3067057, 2.3022509, 2.2962494, 2.2892258, 2.2816839, 2.2740717, 2.2667732}, 1e-5, "step"));
  Net net = seeded<Net>();
  check_agrees(compare(train_on_d64(net, {.lr = 0.01, .momentum = 0.9}),
                       Series{2.3079126, 2.2993157, 2.2866011, 2.2728434, 2.2612400, 2.2522531, 2.2471087, 2.2456605}, 1e-5, "step"));
}

TEST_CASE("training, case 95: Mini on D256, shuffled batches of 32, two epochs") {
  Mini network = seeded<Mini>();
  const Samples samples = d256();
  SGD optimizer(network.parameters(), {.lr = 0.1});
  Series losses;
  for (int epoch = 0; epoch < 2; ++epoch) {
    default_generator().random_int64();  // the loader's base seed comes before the sampler's
    Generator sampler(static_cast<uint64_t>(default_generator().random_int64()));
    const std::vector<int64_t> order = sampler.randperm(256);
    for (size_t start = 0; start < order.size(); start += 32) {
      const Samples batch = select(samples, std::span(order).subspan(start, 32));
      losses.push_back(train_step(network, optimizer, batch.images, batch.labels));
    }
  }
  check_agrees(compare(losses,
                       Series{2.285528, 2.285983, 2.350830, 2.323967, 2.258329, 2.327181, 2.310922, 2.329430,
                              2.298651, 2.276408, 2.277729, 2.280043, 2.331717, 2.319436, 2.274729, 2.311882},
                       1e-5, "step"));
}
