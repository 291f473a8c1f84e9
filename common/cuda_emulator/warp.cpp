// Warp operations: each lane leaves a value, the last to come computes what every lane receives.
#include <bit>
#include <cstdio>
#include <cstdlib>

#include "common/cuda_emulator/block_runner.h"
#include "common/cuda_emulator/sanitizers.h"

namespace miniddp::emulator {
namespace {

constexpr std::uint64_t nobody = std::uint64_t{unwritten} << 32 | unwritten;

/// The lane that `lane` reads. CUDA: a lane that would read outside its `width` lanes reads itself.
int source_lane(WarpOperation operation, int lane, int argument, int width) {
  const int base = lane / width * width;
  switch (operation) {
    case WarpOperation::shuffle:
      return base + (argument & (width - 1));
    case WarpOperation::shuffle_up:
      return lane - argument < base ? lane : lane - argument;
    case WarpOperation::shuffle_down:
      return lane + argument >= base + width ? lane : lane + argument;
    case WarpOperation::shuffle_xor:
      return (lane ^ argument) >= base + width ? lane : lane ^ argument;
    case WarpOperation::sync:
    case WarpOperation::ballot:
      break;
  }
  return lane;
}

}  // namespace

std::uint64_t BlockRunner::warp(WarpOperation operation, unsigned mask, std::uint64_t value, int argument, int width,
                                Where where) {
  Fiber& self = *current_;
  const unsigned thread = self.thread;
  const unsigned lane = thread % 32;
  const unsigned first = thread - lane;
  if (!(mask >> lane & 1)) {
    std::fprintf(stderr, "error: emulator: %s: %s:%u: lane %u is not in its own mask %08x\n", describe().c_str(),
                 where.file_name(), where.line(), lane, mask);
    std::abort();
  }
  states_[thread] = State::at_warp;
  waiting_[thread] = {&self, where, value, mask, argument, width, operation};
  ++at_warp_;
  // __syncwarp orders memory, a shuffle does not.
  char* token = race_detector && operation == WarpOperation::sync
                    ? grid_->warp_token(block_, first / 32, warp_syncs_[first / 32])
                    : nullptr;
  if (token) release(token);
  finish_warp(first, mask);
  go_on();
  select(thread);
  if (token) acquire(token);
  return waiting_[thread].value;
}

/// Lets the lanes of `mask` go on if all of them that still run have come.
void BlockRunner::finish_warp(unsigned first, unsigned mask) {
  unsigned here = 0;
  unsigned expected = 0;
  for (unsigned lane = 0; lane < 32 && first + lane < count_; ++lane) {
    const unsigned thread = first + lane;
    if (!(mask >> lane & 1) || states_[thread] == State::done) continue;
    expected |= 1u << lane;
    if (states_[thread] == State::at_warp && waiting_[thread].mask == mask) here |= 1u << lane;
  }
  if (here && here == expected) exchange(first, here);
}

void BlockRunner::exchange(unsigned first, unsigned here) {
  const Waiting& leader = waiting_[first + std::countr_zero(here)];
  const unsigned line = leader.where.line();
  if (leader.operation == WarpOperation::sync) ++warp_syncs_[first / 32];
  std::uint64_t values[32] = {};
  std::uint64_t ballot = 0;
  for (unsigned lane = 0; lane < 32; ++lane) {
    if (!(here >> lane & 1)) continue;
    if (waiting_[first + lane].where.line() != line) stuck("lanes of one warp meet at different warp operations");
    values[lane] = waiting_[first + lane].value;
    ballot |= (values[lane] & 1) << lane;
  }
  for (unsigned lane = 0; lane < 32; ++lane) {
    if (!(here >> lane & 1)) continue;
    Waiting& w = waiting_[first + lane];
    const int source = source_lane(w.operation, static_cast<int>(lane), w.argument, w.width);
    // Reading a lane that does not take part is undefined: give a value that shows.
    if (w.operation == WarpOperation::ballot)
      w.value = ballot;
    else
      w.value = here >> source & 1 ? values[source] : nobody;
    states_[first + lane] = State::running;
    --at_warp_;
    ready_.push_back(first + lane);
  }
}

/// The warp may have waited only for the thread that has just returned.
void BlockRunner::warp_after_exit(unsigned thread) {
  const unsigned first = thread / 32 * 32;
  for (unsigned lane = 0; lane < 32 && first + lane < count_; ++lane)
    if (states_[first + lane] == State::at_warp) return finish_warp(first, waiting_[first + lane].mask);
}

}  // namespace miniddp::emulator
