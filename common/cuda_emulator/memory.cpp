#include "common/cuda_emulator/memory.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <mutex>
#include <set>

#include "common/cuda_emulator/block_runner.h"
#include "common/cuda_emulator/runtime.h"
#include "common/cuda_emulator/sanitizers.h"

namespace miniddp::emulator {
namespace {

struct Memory {
  std::mutex mutex;
  std::map<const char*, Allocation> allocations;  // by start
  std::size_t used[64] = {};
  std::size_t peak[64] = {};
  std::set<std::pair<int, int>> peers;  // (device, the one whose memory it may use)
  int operations = 0;                   // device operations that run now
};

Memory& memory() {
  static auto* instance = new Memory;  // never destroyed: statics of the program may free memory at the very end
  return *instance;
}

class Locked {  // the race detector must not take this lock for something that orders the program
 public:
  Locked() : lock_(memory().mutex) {}

 private:
  Quiet quiet_;
  std::lock_guard<std::mutex> lock_;
};

/// Host reads of device memory are found by forbidding the memory while no device operation runs. That needs to know when
/// operations run: eager streams.
bool guards_device_memory() { return memory_detector && settings().streams == StreamMode::eager; }

const Allocation* find(const void* pointer) {
  auto& all = memory().allocations;
  const char* p = static_cast<const char*>(pointer);
  auto after = all.upper_bound(p);
  if (after == all.begin()) return nullptr;
  const Allocation& a = std::prev(after)->second;
  return p < a.start + a.bytes ? &a : nullptr;
}

/// A view of no elements may start where memory ends.
bool ends_at(const void* pointer) {
  auto& all = memory().allocations;
  const char* p = static_cast<const char*>(pointer);
  auto after = all.lower_bound(p);
  if (after == all.begin()) return false;
  const Allocation& a = std::prev(after)->second;
  return p == a.start + a.bytes;
}

std::string complaint(const Allocation* a, int device) {
  if (!a) return "is not device memory";
  if (a->freed) return "has been freed";
  if (a->kind == MemoryKind::device && a->device != device && !memory().peers.contains({device, a->device}))
    return "lies on device " + std::to_string(a->device) + ", and peer access is not enabled";
  return "";
}

}  // namespace

cudaError_t allocate(void** pointer, std::size_t bytes, int device, MemoryKind kind, const void* owner) {
  *pointer = nullptr;
  if (bytes == 0) return cudaSuccess;
  Locked locked;
  Memory& m = memory();
  const bool on_device = kind == MemoryKind::device;
  if (on_device && bytes > settings().memory_bytes - std::min(settings().memory_bytes, m.used[device]))
    return cudaErrorMemoryAllocation;
  void* p = nullptr;
  if (posix_memalign(&p, 256, bytes) != 0) return cudaErrorMemoryAllocation;
  fill_unwritten(p, bytes);
  if (on_device) {
    m.used[device] += bytes;
    m.peak[device] = std::max(m.peak[device], m.used[device]);
    if (guards_device_memory() && m.operations == 0) poison(p, bytes);
  }
  m.allocations[static_cast<char*>(p)] = {static_cast<char*>(p), bytes, device, kind, false, owner};
  *pointer = p;
  return cudaSuccess;
}

cudaError_t release_memory(void* pointer, MemoryKind kind) {
  {
    Locked locked;
    Memory& m = memory();
    auto it = m.allocations.find(static_cast<char*>(pointer));
    if (it == m.allocations.end() || it->second.kind != kind) return cudaErrorInvalidValue;
    if (kind == MemoryKind::device) {
      m.used[it->second.device] -= it->second.bytes;
      unpoison(pointer, it->second.bytes);
    }
    m.allocations.erase(it);
  }
  // Outside of the lock, where the race detector listens: a kernel that still uses the memory races with this.
  if (kind != MemoryKind::registered) std::free(pointer);
  return cudaSuccess;
}

cudaError_t register_host(void* pointer, std::size_t bytes, int device) {
  if (!pointer || bytes == 0) return cudaErrorInvalidValue;
  Locked locked;
  if (find(pointer)) return cudaErrorHostMemoryAlreadyRegistered;
  char* start = static_cast<char*>(pointer);
  memory().allocations[start] = {start, bytes, device, MemoryKind::registered, false, nullptr};
  return cudaSuccess;
}

cudaError_t mark_freed(void* pointer) {
  Locked locked;
  auto it = memory().allocations.find(static_cast<char*>(pointer));
  if (it == memory().allocations.end() || it->second.kind != MemoryKind::device || it->second.freed)
    return cudaErrorInvalidValue;
  it->second.freed = true;
  return cudaSuccess;
}

void mark_used(void* pointer, bool used) {
  Locked locked;
  auto it = memory().allocations.find(static_cast<char*>(pointer));
  if (it != memory().allocations.end()) it->second.freed = !used;
}

std::optional<Allocation> find_allocation(const void* pointer) {
  Locked locked;
  const Allocation* a = find(pointer);
  return a ? std::optional(*a) : std::nullopt;
}

std::string why_unusable(const void* pointer, int device) {
  if (!pointer) return "";
  Locked locked;
  const Allocation* a = find(pointer);
  if (!a && ends_at(pointer)) return "";
  return complaint(a, device);
}

std::string why_unusable(const void* pointer, std::size_t bytes, int device) {
  if (bytes == 0) return "";
  Locked locked;
  const Allocation* a = find(pointer);
  std::string why = complaint(a, device);
  if (why.empty() && static_cast<const char*>(pointer) + bytes > a->start + a->bytes)
    why = "is followed by only " + std::to_string(a->start + a->bytes - static_cast<const char*>(pointer)) + " of the " +
          std::to_string(bytes) + " bytes that are used";
  return why;
}

bool enable_peer(int device, int peer) {
  Locked locked;
  return memory().peers.insert({device, peer}).second;
}

bool disable_peer(int device, int peer) {
  Locked locked;
  return memory().peers.erase({device, peer}) == 1;
}

std::size_t used_bytes(int device) {
  Locked locked;
  return memory().used[device];
}

std::size_t peak_bytes(int device) {
  Locked locked;
  return memory().peak[device];
}

void reset_peak(int device) {
  Locked locked;
  memory().peak[device] = memory().used[device];
}

DeviceAccess::DeviceAccess() {
  if (!guards_device_memory()) return;
  Locked locked;
  if (memory().operations++ > 0) return;
  for (const auto& [start, a] : memory().allocations)
    if (a.kind == MemoryKind::device) unpoison(start, a.bytes);
}

DeviceAccess::~DeviceAccess() {
  if (!guards_device_memory()) return;
  Locked locked;
  if (--memory().operations > 0) return;
  for (const auto& [start, a] : memory().allocations)
    if (a.kind == MemoryKind::device) poison(start, a.bytes);
}

}  // namespace miniddp::emulator
