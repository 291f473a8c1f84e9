// What the sanitizers must be told. In a build without them every function here does nothing.
//
// ThreadSanitizer: the emulator itself is not instrumented, its locks and memory say nothing about the program under
// test. What orders the program's accesses (barriers, launches, events, streams) is told with acquire and release.
// AddressSanitizer: it must know when a thread changes its stack, and which memory the host may not touch.
#pragma once

#include <cstddef>

#ifdef MINIDDP_EMULATOR_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

#ifdef MINIDDP_EMULATOR_TSAN
extern "C" {
void* __tsan_get_current_fiber();
void* __tsan_create_fiber(unsigned flags);
void __tsan_destroy_fiber(void* fiber);
void __tsan_switch_to_fiber(void* fiber, unsigned flags);
void __tsan_acquire(void* address);
void __tsan_release(void* address);
void __tsan_ignore_thread_begin();
void __tsan_ignore_thread_end();
void __tsan_read_range(void* address, unsigned long size);
void __tsan_write_range(void* address, unsigned long size);
void AnnotateIgnoreSyncBegin(const char* file, int line);
void AnnotateIgnoreSyncEnd(const char* file, int line);
}
#endif

namespace miniddp::emulator {

#ifdef MINIDDP_EMULATOR_TSAN
inline constexpr bool race_detector = true;
inline void acquire(void* token) { __tsan_acquire(token); }
inline void release(void* token) { __tsan_release(token); }
/// A logical thread of the race detector.
inline void* new_tsan_fiber() { return __tsan_create_fiber(0); }
inline void delete_tsan_fiber(void* fiber) { __tsan_destroy_fiber(fiber); }
inline void* current_tsan_fiber() { return __tsan_get_current_fiber(); }
/// Goes on as another logical thread; 1: the switch orders nothing between the two.
inline void switch_tsan_fiber(void* fiber) { __tsan_switch_to_fiber(fiber, 1); }
/// While one lives, the calling thread's accesses and locks are the emulator's own.
class Quiet {
 public:
  Quiet() {
    AnnotateIgnoreSyncBegin(__FILE__, __LINE__);
    __tsan_ignore_thread_begin();
  }
  ~Quiet() {
    __tsan_ignore_thread_end();
    AnnotateIgnoreSyncEnd(__FILE__, __LINE__);
  }
  Quiet(const Quiet&) = delete;
  Quiet& operator=(const Quiet&) = delete;
};
#else
inline constexpr bool race_detector = false;
inline void acquire(void*) {}
inline void release(void*) {}
inline void* new_tsan_fiber() { return nullptr; }
inline void delete_tsan_fiber(void*) {}
inline void* current_tsan_fiber() { return nullptr; }
inline void switch_tsan_fiber(void*) {}
class Quiet {
 public:
  Quiet() {}  // not trivial, so that unused objects are no warning
  ~Quiet() {}
  Quiet(const Quiet&) = delete;
  Quiet& operator=(const Quiet&) = delete;
};
#endif

#ifdef MINIDDP_EMULATOR_ASAN
inline constexpr bool memory_detector = true;
inline void poison(const void* p, std::size_t bytes) { __asan_poison_memory_region(p, bytes); }
inline void unpoison(const void* p, std::size_t bytes) { __asan_unpoison_memory_region(p, bytes); }
inline void start_stack_switch(void** fake_stack, const void* bottom, std::size_t size) {
  __sanitizer_start_switch_fiber(fake_stack, bottom, size);
}
inline void finish_stack_switch(void* fake_stack, const void** bottom, std::size_t* size) {
  __sanitizer_finish_switch_fiber(fake_stack, bottom, size);
}
#else
inline constexpr bool memory_detector = false;
inline void poison(const void*, std::size_t) {}
inline void unpoison(const void*, std::size_t) {}
inline void start_stack_switch(void**, const void*, std::size_t) {}
inline void finish_stack_switch(void*, const void**, std::size_t*) {}
#endif

/// Libraries that no sanitizer has instrumented (OpenBLAS) say here what they are about to read and to write.
inline void about_to_read([[maybe_unused]] const void* p, [[maybe_unused]] std::size_t bytes) {
#if defined(MINIDDP_EMULATOR_TSAN)
  if (bytes) __tsan_read_range(const_cast<void*>(p), bytes);
#elif defined(MINIDDP_EMULATOR_ASAN)
  // Touching the first forbidden byte makes the report.
  if (bytes)
    if (auto* bad = static_cast<volatile char*>(__asan_region_is_poisoned(const_cast<void*>(p), bytes))) (void)*bad;
#endif
}
inline void about_to_write([[maybe_unused]] void* p, [[maybe_unused]] std::size_t bytes) {
#if defined(MINIDDP_EMULATOR_TSAN)
  if (bytes) __tsan_write_range(p, bytes);
#else
  about_to_read(p, bytes);
#endif
}

}  // namespace miniddp::emulator
