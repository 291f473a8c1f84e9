#include "common/cuda_emulator/block_runner.h"

#include <cstdio>
#include <cstdlib>
#include <string>

#include "common/cuda_emulator/sanitizers.h"
#include "common/cuda_emulator/shared_memory.h"

constinit thread_local uint3 threadIdx{};
constinit thread_local uint3 blockIdx{};
constinit thread_local dim3 blockDim{};
constinit thread_local dim3 gridDim{};

namespace miniddp::emulator {
namespace {

constinit thread_local BlockRunner* runner = nullptr;

// The race detector keeps thread, stack and history together: there a fiber is one CUDA thread, and no loop.
constexpr bool one_fiber_per_thread = race_detector;

std::int64_t now_ns() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

}  // namespace

// Not inlined: a fiber may be resumed on another operating-system thread, where the variable has another address.
[[gnu::noinline]] BlockRunner*& current_runner() { return runner; }

[[gnu::flatten]] void block_barrier(Where where) { current_runner()->barrier(where); }
[[gnu::flatten]] std::uint64_t warp_operation(WarpOperation operation, unsigned mask, std::uint64_t value, int argument,
                                              int width, Where where) {
  return current_runner()->warp(operation, mask, value, argument, width, where);
}
void* dynamic_shared() { return current_runner()->dynamic_shared(); }
void trap() { current_runner()->trap(); }

// ---- one block

void BlockRunner::run(Grid& grid, unsigned block) {
  {
    Quiet quiet;
    prepare(grid, block);
  }
  started_ = now_ns();
  current_runner() = this;
  current_ = &root_;
  root_.adopt_thread();
  if (race_detector) release(grid.block_token(block));
  go_on();
  started_ = 0;
}

void BlockRunner::prepare(Grid& grid, unsigned block) {
  grid_ = &grid;
  block_ = block;
  count_ = grid.threads_per_block();
  next_ = done_ = at_barrier_ = at_warp_ = barriers_ = 0;
  ready_.clear();
  ready_head_ = 0;
  ready_.reserve(count_);
  states_.assign(count_, State::fresh);
  waiting_.resize(count_);
  const dim3 shape = grid.block;
  if (coordinates_.size() != count_ || coordinates_.back().x + 1 != shape.x || coordinates_.back().y + 1 != shape.y) {
    coordinates_.clear();
    for (unsigned z = 0; z < shape.z; ++z)
      for (unsigned y = 0; y < shape.y; ++y)
        for (unsigned x = 0; x < shape.x; ++x) coordinates_.push_back({x, y, z});
  }
  if (order_.size() != count_ || grid.order.kind == Order::shuffle) {
    order_.resize(count_);
    grid.order.arrange(order_, block);
  }
  blockDim = grid.block;
  gridDim = grid.grid;
  blockIdx = {block % grid.grid.x, block / grid.grid.x % grid.grid.y, block / (grid.grid.x * grid.grid.y)};
  fill_shared_memory();
  if (one_fiber_per_thread) {
    // A fiber remembers what its last CUDA thread has seen. Another one for the same place in the next block, or that
    // history would order what nothing orders.
    while (fibers_.size() < count_) make_fiber();
    idle_.clear();
    for (std::size_t i = 0; i < fibers_.size(); ++i) idle_.push_back(fibers_[(i + block) % fibers_.size()].get());
  }
}

void BlockRunner::fill_shared_memory() {
  fill_static_shared(grid_->call.function);
  dynamic_.reset();
  if (grid_->dynamic_shared == 0) return;
  dynamic_.reset(new char[grid_->dynamic_shared]);  // of exactly this size: AddressSanitizer sees a step past its end
  fill_unwritten(dynamic_.get(), grid_->dynamic_shared);
}

// ---- fibers

void BlockRunner::make_fiber() {
  fibers_.push_back(std::make_unique<Fiber>(&BlockRunner::fiber_entry, this, fibers_.size()));
}

Fiber& BlockRunner::idle_fiber() {
  if (idle_.empty()) {
    make_fiber();
    return *fibers_.back();
  }
  Fiber* fiber = idle_.back();
  idle_.pop_back();
  return *fiber;
}

void BlockRunner::fiber_entry(Fiber& self, void* runner) { static_cast<BlockRunner*>(runner)->life_of(self); }

void BlockRunner::life_of(Fiber& self) {
  for (;;) {
    if (one_fiber_per_thread) {
      run_thread(self, order_[next_++]);
    } else {
      while (next_ < count_) run_thread(self, order_[next_++]);
      idle_.push_back(&self);
    }
    go_on();
  }
}

void BlockRunner::run_thread(Fiber& self, unsigned thread) {
  self.thread = thread;
  select(thread);
  if (race_detector) {
    acquire(grid_->start_token());
    acquire(grid_->block_token(block_));
  }
  grid_->call.run_thread(grid_->call.state.get());
  if (race_detector) release(grid_->end_token());
  states_[thread] = State::done;
  ++done_;
  if (at_barrier_ && at_barrier_ + done_ == count_) release_barrier();
  if (at_warp_) warp_after_exit(thread);
}

// Not inlined for the reason of current_runner().
[[gnu::noinline]] void BlockRunner::select(unsigned thread) { threadIdx = coordinates_[thread]; }

void BlockRunner::switch_to(Fiber& fiber) {
  Fiber& from = *current_;
  current_ = &fiber;
  fiber.resume_from(from);
}

/// The current fiber has nothing to do for now: goes on with a thread that may run, else with one that has not started.
void BlockRunner::go_on() {
  if (ready_head_ < ready_.size()) {
    const unsigned thread = ready_[ready_head_++];
    if (ready_head_ == ready_.size()) {
      ready_.clear();
      ready_head_ = 0;
    }
    states_[thread] = State::running;
    Fiber& fiber = *waiting_[thread].fiber;
    if (&fiber != current_) switch_to(fiber);
  } else if (next_ < count_) {
    switch_to(idle_fiber());
  } else if (done_ == count_) {
    switch_to(root_);
  } else {
    stuck("some threads wait for others that can never come");
  }
}

// ---- __syncthreads

void BlockRunner::barrier(Where where) {
  Fiber& self = *current_;
  const unsigned thread = self.thread;
  states_[thread] = State::at_barrier;
  waiting_[thread].fiber = &self;
  waiting_[thread].where = where;
  char* token = race_detector ? grid_->barrier_token(block_, barriers_) : nullptr;
  release(token);
  if (++at_barrier_ + done_ == count_) release_barrier();
  go_on();
  select(thread);
  acquire(token);
}

/// Every thread that has not returned is at a barrier: all may go on.
void BlockRunner::release_barrier() {
  // A GPU may let this pass, CUDA's rules do not.
  if (done_) stuck("some threads wait at __syncthreads() while others have returned");
  at_barrier_ = 0;
  ++barriers_;
  if (grid_->order.kind == Order::shuffle) grid_->order.arrange(order_, block_ * 131u + barriers_);
  const unsigned line = waiting_[order_[0]].where.line();
  for (const unsigned thread : order_) {
    if (waiting_[thread].where.line() != line) stuck("threads of one block meet at different __syncthreads()");
    ready_.push_back(thread);
  }
}

// ---- reports

void BlockRunner::stuck(const char* why) {
  std::fprintf(stderr, "error: emulator: %s: %s:\n", describe().c_str(), why);
  Where last{};
  int shown = 0;
  for (unsigned t = 0; t < count_ && shown < 8; ++t) {
    if (states_[t] != State::at_barrier && states_[t] != State::at_warp) continue;
    const Where& where = waiting_[t].where;
    if (where.line() == last.line() && where.file_name() == last.file_name()) continue;
    last = where;
    ++shown;
    std::fprintf(stderr, "  thread %u waits at %s:%u (%s)\n", t, where.file_name(), where.line(), where.function_name());
  }
  std::fprintf(stderr, "  %u of %u threads have returned\n", done_, count_);
  std::abort();
}

void BlockRunner::trap() {
  std::fprintf(stderr, "error: emulator: %s: __trap() by thread %u\n", describe().c_str(), current_->thread);
  std::abort();
}

std::chrono::nanoseconds BlockRunner::running_for() const {
  const std::int64_t started = started_;
  return std::chrono::nanoseconds(started ? now_ns() - started : 0);
}

std::string BlockRunner::describe() const {
  const dim3 g = grid_->grid;
  char place[64];
  std::snprintf(place, sizeof place, "block (%u,%u,%u) of ", block_ % g.x, block_ / g.x % g.y, block_ / (g.x * g.y));
  return place + describe_kernel(grid_->call.function);
}

}  // namespace miniddp::emulator
