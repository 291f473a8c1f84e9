#include "common/cuda_emulator/settings.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <random>
#include <string>
#include <string_view>
#include <thread>

namespace miniddp::emulator {
namespace {

std::string text_of(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

[[noreturn]] void refuse(const char* name, const std::string& found, const char* expected) {
  std::fprintf(stderr, "error: %s=%s: expected %s\n", name, found.c_str(), expected);
  _exit(2);
}

long number_of(const char* name, long fallback, long least, long most) {
  const std::string text = text_of(name);
  if (text.empty()) return fallback;
  char* end = nullptr;
  const long value = std::strtol(text.c_str(), &end, 10);
  if (*end || value < least || value > most)
    refuse(name, text, ("a number from " + std::to_string(least) + " to " + std::to_string(most)).c_str());
  return value;
}

/// "shuffle:7" is ("shuffle", 7), "shuffle" is ("shuffle", 1).
std::pair<std::string, std::uint64_t> name_and_seed(const std::string& text) {
  const auto colon = text.find(':');
  if (colon == std::string::npos) return {text, 1};
  return {text.substr(0, colon), std::strtoull(text.c_str() + colon + 1, nullptr, 10)};
}

Order order_of(const char* name) {
  const std::string text = text_of(name);
  const auto [kind, seed] = name_and_seed(text);
  if (text.empty() || kind == "forward") return {Order::forward, 0};
  if (kind == "reverse") return {Order::reverse, 0};
  if (kind == "shuffle") return {Order::shuffle, seed};
  refuse(name, text, "forward, reverse or shuffle:SEED");
}

Settings read() {
  Settings s;
  s.devices = static_cast<int>(number_of("MINIDDP_EMULATOR_DEVICES", s.devices, 0, 64));
  s.memory_bytes = static_cast<std::size_t>(number_of("MINIDDP_EMULATOR_MEMORY_MB", 2048, 1, 1 << 20)) << 20;
  const long cores = std::clamp<long>(std::thread::hardware_concurrency(), 1, 256);
  s.workers = static_cast<int>(number_of("MINIDDP_EMULATOR_THREADS", cores, 1, 256));
#ifdef MINIDDP_EMULATOR_ASAN
  s.workers = 1;  // all blocks share one copy of each __shared__ variable, so they run one at a time
#endif
  s.order = order_of("MINIDDP_EMULATOR_ORDER");
  const std::string streams = text_of("MINIDDP_EMULATOR_STREAMS");
  const auto [mode, seed] = name_and_seed(streams);
  if (mode == "delay")
    s.streams = StreamMode::delay, s.delay_seed = seed;
  else if (mode == "lazy")
    s.streams = StreamMode::lazy;
  else if (mode == "eager")
    s.streams = StreamMode::eager;
  else if (!mode.empty() && mode != "threads")
    refuse("MINIDDP_EMULATOR_STREAMS", streams, "threads, delay:SEED, lazy or eager");
  s.nccl_timeout = std::chrono::seconds(number_of("MINIDDP_EMULATOR_NCCL_TIMEOUT", 30, 1, 86400));
  s.block_limit = std::chrono::seconds(number_of("MINIDDP_EMULATOR_BLOCK_LIMIT", 120, 1, 86400));
  return s;
}

}  // namespace

const Settings& settings() {
  static const Settings instance = read();
  return instance;
}

void Order::arrange(std::vector<unsigned>& places, std::uint64_t salt) const {
  std::iota(places.begin(), places.end(), 0u);
  if (kind == reverse) std::reverse(places.begin(), places.end());
  if (kind == shuffle) {
    const std::uint64_t mixed = (seed + 1) * 0x9e3779b97f4a7c15u + salt * 7919;
    std::shuffle(places.begin(), places.end(), std::minstd_rand(static_cast<unsigned>(mixed >> 1)));
  }
}

}  // namespace miniddp::emulator
