// A fiber: a stack of its own that a thread can leave in the middle of a function and come back to. Switching takes a few
// instructions (Boost.Context), where operating-system threads need the kernel and its scheduler.
#pragma once

#include <boost/context/detail/fcontext.hpp>
#include <cstddef>

namespace miniddp::emulator {

class Fiber {
 public:
  using Entry = void (*)(Fiber& self, void* argument);

  /// The calling thread's own stack, as a place to come back to.
  Fiber() = default;
  /// A new stack; `entry(self, argument)` starts at the first switch and must never return.
  Fiber(Entry entry, void* argument, std::size_t index);
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// Leaves `from`, which must be running, for this one.
  void resume_from(Fiber& from);
  /// Called for the thread's own stack by the thread that is about to leave it.
  void adopt_thread();

  unsigned thread = 0;  // the CUDA thread it is running

 private:
  static void start(boost::context::detail::transfer_t transfer);

  boost::context::detail::fcontext_t context_ = nullptr;
  char* stack_ = nullptr;  // bottom; null for a thread's own
  std::size_t size_ = 0;
  Entry entry_ = nullptr;
  void* argument_ = nullptr;
  void* fake_stack_ = nullptr;  // AddressSanitizer's
  void* tsan_ = nullptr;        // ThreadSanitizer's logical thread
  bool owns_stack_ = false;
};

}  // namespace miniddp::emulator
