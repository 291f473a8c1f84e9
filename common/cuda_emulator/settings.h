// How the virtual GPUs behave: read once from the environment.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace miniddp::emulator {

/// In which order threads (between barriers) and blocks run. A right kernel gives the same result in any.
struct Order {
  enum Kind { forward, reverse, shuffle } kind = forward;
  std::uint64_t seed = 0;

  /// Fills `places` with 0 … size-1 in this order; `salt` makes shuffles of different blocks differ.
  void arrange(std::vector<unsigned>& places, std::uint64_t salt) const;
};

/// When the operations of a stream run. A right program gives the same result in any.
///   threads  at once, each stream in a thread of its own
///   delay    the same, with random pauses before operations
///   lazy     only when somebody waits for them: a missing wait shows every time
///   eager    inside the call that enqueues them, on the caller's thread
enum class StreamMode { threads, delay, lazy, eager };

struct Settings {
  int devices = 4;                                            // MINIDDP_EMULATOR_DEVICES
  std::size_t memory_bytes = std::size_t{2048} << 20;         // MINIDDP_EMULATOR_MEMORY_MB, of each device
  int workers = 1;                                            // MINIDDP_EMULATOR_THREADS, default: all cores
  Order order;                                                // MINIDDP_EMULATOR_ORDER=forward|reverse|shuffle:SEED
  StreamMode streams = StreamMode::threads;                   // MINIDDP_EMULATOR_STREAMS=threads|delay:SEED|lazy|eager
  std::uint64_t delay_seed = 1;
  std::chrono::seconds nccl_timeout{30};                      // MINIDDP_EMULATOR_NCCL_TIMEOUT
  std::chrono::seconds block_limit{120};                      // MINIDDP_EMULATOR_BLOCK_LIMIT: a block that runs longer hangs
};

/// Ends the program with status 2 and a message when a variable makes no sense.
const Settings& settings();

}  // namespace miniddp::emulator
