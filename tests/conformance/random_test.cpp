// Random numbers: cases 1-8, 13 and 14 of docs/parity.md. The values are PyTorch's.
#include <cmath>
#include <numeric>

#include "common/core/error.h"
#include "common/core/generator.h"
#include "tests/support/catch.h"

using namespace miniddp;

namespace {

std::vector<int64_t> int64_draws(uint64_t seed, int count) {
  Generator generator(seed);
  std::vector<int64_t> values;
  for (int i = 0; i < count; ++i) values.push_back(generator.random_int64());
  return values;
}

using Ints = std::vector<int64_t>;

}  // namespace

TEST_CASE("case 1: raw words of the Mersenne twister") {
  Generator generator(0);
  for (const uint32_t expected : {2357136044U, 2546248239U, 3071714933U, 3626093760U, 2588848963U}) {
    CHECK(generator.random() == expected);
  }
  CHECK(generator.draws() == 5);
}

TEST_CASE("case 2: random_() of int64") {
  CHECK(int64_draws(0, 2) == Ints{900450186894289455, 3969543146641149120});
  CHECK(int64_draws(1, 2) == Ints{7692698082559361259, 4064269471072392264});
  CHECK(int64_draws(42, 2) == Ints{6909045637428952499, 8314211556539077902});
  CHECK(int64_draws(123, 2) == Ints{3624216819017203053, 5278339153051796802});
}

TEST_CASE("case 3: only the low 32 bits of a seed choose the stream") {
  CHECK(int64_draws(static_cast<uint64_t>(-1), 2) == Ints{1800993050274709794, 7607120784305990727});
  const uint64_t wide = (uint64_t{1} << 32) + 5;
  CHECK(int64_draws(wide, 2) == Ints{4095051218741643470, 6838803925648402109});
  CHECK(int64_draws(wide, 2) == int64_draws(5, 2));
  CHECK(Generator(wide).initial_seed() == wide);
  CHECK(Generator().initial_seed() == 67280421310721);
}

TEST_CASE("case 4: rand of float32") {
  const auto expect = [](uint64_t seed, std::initializer_list<double> values) {
    Generator generator(seed);
    for (const double value : values) CHECK(generator.rand() == static_cast<float>(value));
  };
  expect(0, {.49625658988952637, .7682217955589294, .08847743272781372, .13203048706054688});
  expect(1, {.7576315999031067, .2793108820915222, .40306925773620605, .7346844673156738});
  expect(42, {.8822692632675171, .9150039553642273, .38286375999450684, .9593056440353394});
  expect(1234, {.028979241847991943, .4018985629081726, .25984418392181396, .3666413426399231});
}

TEST_CASE("case 5: randint, and the draws it takes") {
  Generator generator(5);
  for (const int expected : {1, 4, 7, 5, 6, 0, 2, 3}) CHECK(generator.randint(0, 10) == expected);
  CHECK(generator.draws() == 8);
  const int64_t big = int64_t{1} << 40;
  CHECK(generator.randint(0, big) < big);
  CHECK(generator.draws() == 10);
  CHECK(generator.randint(-3, -2) == -3);
  CHECK_THROWS_AS(generator.randint(4, 4), Error);
}

TEST_CASE("case 6: randperm(10)") {
  CHECK(Generator(0).randperm(10) == Ints{4, 1, 7, 5, 3, 9, 0, 8, 6, 2});
  CHECK(Generator(1).randperm(10) == Ints{5, 6, 1, 2, 0, 8, 9, 3, 7, 4});
  CHECK(Generator(2).randperm(10) == Ints{8, 7, 1, 5, 6, 9, 0, 4, 2, 3});
  CHECK(Generator(42).randperm(10) == Ints{2, 6, 1, 8, 4, 5, 0, 9, 3, 7});
}

TEST_CASE("case 7: randperm(11)") {
  CHECK(Generator(0).randperm(11) == Ints{10, 0, 4, 3, 5, 8, 2, 1, 9, 7, 6});
  CHECK(Generator(1).randperm(11) == Ints{0, 10, 2, 3, 7, 6, 4, 8, 1, 9, 5});
  CHECK(Generator(5).randperm(11) == Ints{9, 5, 0, 8, 10, 2, 3, 6, 7, 1, 4});
}

TEST_CASE("case 8: randperm(60000)") {
  const Ints order = Generator(0).randperm(60000);
  REQUIRE(order.size() == 60000);
  CHECK(Ints(order.begin(), order.begin() + 10) ==
        Ints{36044, 10678, 57327, 55074, 21567, 15479, 9481, 43095, 26145, 7479});
  CHECK(Ints(order.end() - 5, order.end()) == Ints{6024, 6465, 31951, 27130, 1544});
  int64_t sum = 0;
  for (size_t i = 0; i < order.size(); ++i) sum += static_cast<int64_t>(i) * order[i];
  CHECK(sum == 53969758505953);
}

TEST_CASE("case 13: uniform_ is a fused multiply-add") {
  const float high = 1.0F / 3.0F;
  const float low = -high;
  std::vector<float> fused(20000);
  Generator(1).uniform_(fused, low, high);
  Generator generator(1);
  int differences = 0;
  for (const float value : fused) {
    // volatile: the compiler must not fuse this one.
    const volatile float product = generator.rand() * (high - low);
    differences += product + low != value ? 1 : 0;
  }
  CHECK(differences == 8477);
}

TEST_CASE("case 14: draws of each operation") {
  const auto draws = [](auto&& operation) {
    Generator generator(3);
    operation(generator);
    return generator.draws();
  };
  CHECK(draws([](Generator& g) {
          std::vector<float> out(5);
          g.uniform_(out, 0, 1);
        }) == 5);
  CHECK(draws([](Generator& g) {
          for (int i = 0; i < 3; ++i) g.random_int64();
        }) == 6);
  CHECK(draws([](Generator& g) {
          for (int i = 0; i < 3; ++i) g.rand_double();
        }) == 6);
  CHECK(draws([](Generator& g) { g.bernoulli(0.25); }) == 2);
  CHECK(draws([](Generator& g) { g.randperm(10); }) == 9);
  CHECK(draws([](Generator& g) { g.randperm(1); }) == 0);
  CHECK(draws([](Generator& g) { g.randperm(0); }) == 0);
}

TEST_CASE("a generator goes on from its saved state") {
  Generator generator(77);
  generator.randperm(1234);
  const std::string saved = generator.state();
  Generator other(1);
  other.set_state(saved);
  CHECK(other.initial_seed() == 77);
  CHECK(other.draws() == generator.draws());
  // More than the 624 words of one block.
  for (int i = 0; i < 2000; ++i) {
    const uint32_t expected = generator.random();
    if (other.random() != expected) FAIL("draw " << i << " differs");
  }
  CHECK(other.state() == generator.state());
}

TEST_CASE("a damaged generator state is an error and changes nothing") {
  Generator generator(77);
  generator.random();
  const std::string saved = generator.state();
  Generator victim(5);
  const std::string before = victim.state();
  std::vector<std::string> damaged{"",         " ", "mt19937", "mt19937 1 2 3", saved + " 1", saved.substr(1),
                                   " " + saved};
  for (const double part : {0.01, 0.5, 0.99}) {
    damaged.push_back(saved.substr(0, static_cast<size_t>(part * static_cast<double>(saved.size()))));
    std::string flipped = saved;
    flipped[static_cast<size_t>(part * static_cast<double>(saved.size()))] ^= 1;
    damaged.push_back(flipped);
  }
  for (const std::string& text : damaged) {
    CAPTURE(text.substr(0, 40));
    CHECK_THROWS_AS(victim.set_state(text), DataError);
    CHECK(victim.state() == before);
  }
}

TEST_CASE("manual_seed reaches the default generators of all devices, made before or after") {
  const Device made_before{DeviceType::cuda, 3};
  default_generator(made_before).random();
  default_generator({DeviceType::cpu, 63}).random();
  manual_seed(42);
  const Device made_after{DeviceType::cpu, 61};
  for (const Device device : {made_before, made_after, Device{DeviceType::cpu, 63}, Device{}}) {
    CAPTURE(device.str());
    CHECK(default_generator(device).initial_seed() == 42);
    CHECK(default_generator(device).draws() == 0);
    CHECK(default_generator(device).random_int64() == 6909045637428952499);
  }
  CHECK(&default_generator(made_after) == &default_generator(made_after));
  CHECK_THROWS_AS(default_generator({DeviceType::cpu, -1}), DeviceError);
}
