#include "common/core/generator.h"

#include <cmath>
#include <locale>
#include <map>
#include <mutex>
#include <numeric>
#include <sstream>

#include "common/core/error.h"

namespace miniddp {
namespace {

constexpr int64_t two_draw_range = int64_t{1} << 28;
constexpr const char* state_tag = "mt19937";

/// FNV-1a: finds damage, not malice.
uint64_t checksum(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3;
  return hash;
}

[[noreturn]] void fail_state(std::string_view found) {
  throw DataError(
      "the saved state of a random generator is damaged: {}; expected what Generator::state() wrote. Take "
      "another checkpoint",
      found);
}

/// All default generators, made when first asked for.
struct Defaults {
  std::mutex mutex;
  uint64_t seed = Generator::default_seed;
  std::map<Device, Generator> generators;
};

Defaults& defaults() {
  static Defaults instance;
  return instance;
}

}  // namespace

Generator::Generator(uint64_t seed) {
  manual_seed(seed);
}

void Generator::manual_seed(uint64_t seed) {
  seed_ = seed;
  draws_ = 0;
  engine_.seed(static_cast<uint32_t>(seed));
}

uint32_t Generator::random() {
  ++draws_;
  return static_cast<uint32_t>(engine_());
}

uint64_t Generator::random64() {
  const uint64_t high = random();
  return high << 32 | random();
}

int64_t Generator::random_int64() {
  return static_cast<int64_t>(random64() & 0x7fffffffffffffff);
}

float Generator::rand() {
  return static_cast<float>(random() & 0xffffff) * 0x1p-24F;
}

double Generator::rand_double() {
  return static_cast<double>(random64() & ((uint64_t{1} << 53) - 1)) * 0x1p-53;
}

float Generator::uniform(float low, float high) {
  return std::fmaf(rand(), high - low, low);
}

int64_t Generator::randint(int64_t low, int64_t high) {
  check(low < high, "randint expects low < high, found low {} and high {}", low, high);
  // Unsigned: the difference of two int64 may need 64 bits.
  const uint64_t range = static_cast<uint64_t>(high) - static_cast<uint64_t>(low);
  const uint64_t offset =
      range < static_cast<uint64_t>(two_draw_range) ? random() % range : random64() % range;
  return static_cast<int64_t>(static_cast<uint64_t>(low) + offset);
}

bool Generator::bernoulli(double p) {
  check(p >= 0 && p <= 1, "bernoulli expects a probability in [0, 1], found {}", p);
  return rand_double() < p;
}

std::vector<int64_t> Generator::randperm(int64_t n) {
  check(n >= 0, "randperm expects n >= 0, found {}", n);
  std::vector<int64_t> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), int64_t{0});
  for (int64_t i = 0; i < n - 1; ++i) {
    const int64_t other = i + static_cast<int64_t>(random() % static_cast<uint64_t>(n - i));
    std::swap(order[static_cast<size_t>(i)], order[static_cast<size_t>(other)]);
  }
  return order;
}

void Generator::uniform_(std::span<float> out, float low, float high) {
  for (float& value : out) value = uniform(low, high);
}

std::string Generator::state() const {
  std::ostringstream text;
  text.imbue(std::locale::classic());
  text << state_tag << ' ' << seed_ << ' ' << draws_ << ' ' << engine_;
  return fmt::format("{} {:016x}", text.str(), checksum(text.str()));
}

void Generator::set_state(const std::string& text) {
  const size_t split = text.rfind(' ');
  if (split == std::string::npos) fail_state("it has no checksum");
  const std::string body = text.substr(0, split);
  if (text.substr(split + 1) != fmt::format("{:016x}", checksum(body)))
    fail_state("its checksum does not fit");

  std::istringstream in(body);
  in.imbue(std::locale::classic());
  std::string tag;
  Generator restored;
  in >> tag >> restored.seed_ >> restored.draws_;
  // The engine's own reader takes any position, so read the words first and look at the last: it indexes an
  // array.
  const auto engine_text = in.tellg();
  uint64_t word = 0;
  size_t words = 0;
  for (; in >> word; ++words) {
  }
  const bool complete = tag == state_tag && in.eof() && words == std::mt19937::state_size + 1 &&
                        word <= std::mt19937::state_size;
  if (!complete) fail_state("it does not hold a Mersenne twister");
  in.clear();
  in.seekg(engine_text);
  in >> restored.engine_;
  if (in.fail()) fail_state("it does not hold a Mersenne twister");
  *this = restored;
}

Generator& default_generator(Device device) {
  check<DeviceError>(device.index >= 0, "expected a device index >= 0, found {}", device.index);
  Defaults& all = defaults();
  const std::lock_guard lock(all.mutex);
  return all.generators.try_emplace(device, all.seed).first->second;
}

void manual_seed(uint64_t seed) {
  Defaults& all = defaults();
  const std::lock_guard lock(all.mutex);
  all.seed = seed;
  for (auto& [device, generator] : all.generators) generator.manual_seed(seed);
}

}  // namespace miniddp
