// Runs thread blocks, one after another, on the calling operating-system thread.
//
// Every CUDA thread is a fiber; but a fiber that has finished one CUDA thread goes on with the next that has not started.
// So a block whose threads never wait needs a single fiber and runs like a loop, and the first barrier makes the others
// start. Fibers switch to each other directly; the thread's own stack (root) is resumed when the block is done.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "common/cuda_emulator/fiber.h"
#include "common/cuda_emulator/kernel_call.h"
#include "common/cuda_emulator/settings.h"

namespace miniddp::emulator {

/// One launch.
struct Grid {
  dim3 grid;
  dim3 block;
  std::size_t dynamic_shared = 0;
  KernelCall call;
  Order order;
  /// Addresses that stand for events of this launch (its start, its end, barriers) when the race detector asks what
  /// comes before what. Empty in other builds.
  std::vector<char> tokens;

  unsigned blocks() const { return grid.x * grid.y * grid.z; }
  unsigned threads_per_block() const { return block.x * block.y * block.z; }

  static constexpr std::size_t tokens_per_block = 2 + 2 * 32 + 1;
  char* start_token() { return tokens.data(); }
  char* end_token() { return tokens.data() + tokens.size() - 1; }
  /// __syncthreads number `turn`: two alternate, so that an early thread cannot release into the next turn.
  char* barrier_token(unsigned b, unsigned turn) { return tokens.data() + 1 + b * tokens_per_block + turn % 2; }
  char* warp_token(unsigned b, unsigned warp, unsigned turn) {
    return tokens.data() + 1 + b * tokens_per_block + 2 + 2 * warp + turn % 2;
  }
  char* block_token(unsigned b) { return tokens.data() + 1 + (b + 1) * tokens_per_block - 1; }
};

class BlockRunner {
 public:
  void run(Grid& grid, unsigned block);

  // Called by the running CUDA thread.
  void barrier(Where where);
  std::uint64_t warp(WarpOperation operation, unsigned mask, std::uint64_t value, int argument, int width, Where where);
  void* dynamic_shared() { return dynamic_.get(); }
  [[noreturn]] void trap();

  /// For how long the block that it runs has been running; zero when it runs none. Any thread may ask.
  std::chrono::nanoseconds running_for() const;
  /// "block (1,0,0) of kernel …"
  std::string describe() const;

 private:
  enum class State : unsigned char { fresh, running, at_barrier, at_warp, done };
  struct Waiting {  // what a thread that waits has left behind
    Fiber* fiber;
    Where where;
    std::uint64_t value;
    unsigned mask;
    int argument;
    int width;
    WarpOperation operation;
  };

  void prepare(Grid& grid, unsigned block);
  void fill_shared_memory();
  static void fiber_entry(Fiber& self, void* runner);
  [[noreturn]] void life_of(Fiber& self);
  void run_thread(Fiber& self, unsigned thread);
  void select(unsigned thread);
  void switch_to(Fiber& fiber);
  void go_on();
  Fiber& idle_fiber();
  void make_fiber();
  void release_barrier();
  void finish_warp(unsigned first_thread, unsigned mask);
  void exchange(unsigned first_thread, unsigned here);
  void warp_after_exit(unsigned thread);
  [[noreturn]] void stuck(const char* why);

  Grid* grid_ = nullptr;
  unsigned block_ = 0;
  unsigned count_ = 0;  // threads of the block
  Fiber root_;
  Fiber* current_ = nullptr;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<Fiber*> idle_;

  std::vector<State> states_;        // by thread
  std::vector<Waiting> waiting_;     // by thread
  std::vector<uint3> coordinates_;   // by thread
  std::vector<unsigned> order_;      // in which threads start, and go on after a barrier
  std::vector<unsigned> ready_;      // threads that may go on
  std::size_t ready_head_ = 0;
  unsigned next_ = 0;                // the first place in order_ whose thread has not started
  unsigned done_ = 0;
  unsigned at_barrier_ = 0;
  unsigned at_warp_ = 0;
  unsigned barriers_ = 0;
  unsigned warp_syncs_[32] = {};
  std::unique_ptr<char[]> dynamic_;
  std::atomic<std::int64_t> started_{0};  // steady clock, nanoseconds; 0: idle
};

/// The runner of the block that the calling thread is running.
BlockRunner*& current_runner();

/// "kernel name" or "kernel at library+offset", from its address.
std::string describe_kernel(const void* function);

/// What memory holds that nobody has written: NaN as float and as double, and no likely integer.
inline constexpr std::uint32_t unwritten = 0x7fbadbad;
void fill_unwritten(void* p, std::size_t bytes);

}  // namespace miniddp::emulator
