#include "common/cuda_emulator/fiber.h"

#include <pthread.h>
#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>
#include <utility>

#include "common/cuda_emulator/sanitizers.h"

namespace miniddp::emulator {
namespace {
namespace bc = boost::context::detail;

// Reserved, not used, until touched. Sanitizers make frames several times larger.
constexpr std::size_t stack_bytes = std::size_t{race_detector || memory_detector ? 256 : 64} << 10;
constexpr std::size_t page = 4096;

struct Passage {  // what a switch hands over: who leaves and who goes on
  Fiber* from;
  Fiber* to;
};
}  // namespace

Fiber::Fiber(Entry entry, void* argument, std::size_t index) : entry_(entry), argument_(argument), owns_stack_(true) {
  void* memory = mmap(nullptr, stack_bytes + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
  if (memory == MAP_FAILED) {
    std::perror("error: emulator: no memory for a CUDA thread's stack");
    std::abort();
  }
  mprotect(memory, page, PROT_NONE);  // an overflow faults instead of reaching a neighbour
  stack_ = static_cast<char*>(memory) + page;
  size_ = stack_bytes;
  // Tops of stacks that lie a power of two apart would all fall into the same few cache lines.
  const std::size_t skew = (index * 5 % 61) * 64;
  context_ = bc::make_fcontext(stack_ + size_ - skew, size_ - skew, &Fiber::start);
  tsan_ = new_tsan_fiber();
}

Fiber::~Fiber() {
  if (!owns_stack_) return;
  munmap(stack_ - page, size_ + page);
  delete_tsan_fiber(tsan_);
}

void Fiber::adopt_thread() {
  tsan_ = current_tsan_fiber();
  if (!memory_detector) return;
  // AddressSanitizer must be told the bounds of the stack it comes back to. Asking is slow: once for each thread.
  thread_local const auto bounds = [] {
    pthread_attr_t attributes;
    void* bottom = nullptr;
    std::size_t size = 0;
    pthread_getattr_np(pthread_self(), &attributes);
    pthread_attr_getstack(&attributes, &bottom, &size);
    pthread_attr_destroy(&attributes);
    return std::pair{static_cast<char*>(bottom), size};
  }();
  stack_ = bounds.first;
  size_ = bounds.second;
}

void Fiber::resume_from(Fiber& from) {
  Passage passage{&from, this};
  start_stack_switch(&from.fake_stack_, stack_, size_);
  switch_tsan_fiber(tsan_);
  const bc::transfer_t back = bc::jump_fcontext(context_, &passage);
  // Here `from` goes on, perhaps much later and because of another fiber: that one's context comes with the jump.
  static_cast<Passage*>(back.data)->from->context_ = back.fctx;
  finish_stack_switch(from.fake_stack_, nullptr, nullptr);
}

void Fiber::start(bc::transfer_t transfer) {
  const Passage passage = *static_cast<Passage*>(transfer.data);
  passage.from->context_ = transfer.fctx;
  finish_stack_switch(nullptr, nullptr, nullptr);
  passage.to->entry_(*passage.to, passage.to->argument_);
  std::abort();  // an entry never returns
}

}  // namespace miniddp::emulator
