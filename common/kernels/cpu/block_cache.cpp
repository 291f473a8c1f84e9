#include "common/kernels/cpu/block_cache.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstdlib>

#include "common/core/error.h"

namespace miniddp {

namespace {

constexpr size_t alignment = 64;
constexpr size_t huge_page = size_t{1} << 21;

void* system_allocate(size_t size) {
  if (size < huge_page) return std::aligned_alloc(alignment, size);
  // Whole huge pages: fewer first touches, fewer TLB misses.
  const size_t whole = (size + huge_page - 1) / huge_page * huge_page;
  void* block = std::aligned_alloc(huge_page, whole);
  if (block != nullptr) madvise(block, whole, MADV_HUGEPAGE);  // a hint: where it is refused, small pages do
  return block;
}

}  // namespace

size_t BlockCache::size_class(size_t nbytes) {
  if (nbytes <= 8 * alignment) return std::max(alignment, (nbytes + alignment - 1) / alignment * alignment);
  check<DeviceError>(nbytes <= size_t{1} << 46, "expected a block of at most 64 TiB, found a request for {} bytes",
                     nbytes);
  const size_t step = std::bit_floor(nbytes - 1) / 8;  // eight classes from one power of two to the next
  return (nbytes + step - 1) / step * step;
}

void* BlockCache::allocate(size_t nbytes) {
  const size_t size = size_class(nbytes);
  std::lock_guard lock(mutex_);
  if (void* block = take_idle(size, size)) return block;
  // Near the limit a block up to twice too large is better than fresh pages.
  const bool crowded = total_bytes_ + size > limit_;
  if (crowded) {
    if (void* block = take_idle(size, 2 * size)) return block;
    shrink_to(limit_ > size ? limit_ - size : 0);
  }
  void* block = system_allocate(size);
  if (block == nullptr) {
    shrink_to(0);
    block = system_allocate(size);
  }
  check<DeviceError>(block != nullptr,
                     "the system has no {} bytes of memory left ({} bytes are in use); use a smaller batch or fewer "
                     "devices",
                     size, total_bytes_);
  total_bytes_ += size;
  used_.emplace(block, size);
  return block;
}

void BlockCache::deallocate(void* block) {
  if (block == nullptr) return;
  std::lock_guard lock(mutex_);
  const auto it = used_.find(block);
  if (it == used_.end()) std::abort();  // freed twice, or not ours: memory is damaged already
  idle_[it->second].push_back(block);
  used_.erase(it);
}

void BlockCache::release_all() {
  std::lock_guard lock(mutex_);
  shrink_to(0);
}

size_t BlockCache::total_bytes() const {
  std::lock_guard lock(mutex_);
  return total_bytes_;
}

void* BlockCache::take_idle(size_t smallest, size_t largest) {
  for (auto it = idle_.lower_bound(smallest); it != idle_.end() && it->first <= largest; ++it) {
    if (it->second.empty()) continue;
    void* block = it->second.back();
    it->second.pop_back();
    used_.emplace(block, it->first);
    return block;
  }
  return nullptr;
}

/// Frees idle blocks, the largest first, until at most `bytes` are left or none is idle.
void BlockCache::shrink_to(size_t bytes) {
  while (total_bytes_ > bytes && !idle_.empty()) {
    const auto largest = std::prev(idle_.end());
    while (total_bytes_ > bytes && !largest->second.empty()) {
      std::free(largest->second.back());
      largest->second.pop_back();
      total_bytes_ -= largest->first;
    }
    if (largest->second.empty()) idle_.erase(largest);
  }
}

BlockCache& block_cache() {
  // Leaked on purpose. 256 MiB holds the tensors of a training step at batch 256.
  static BlockCache* cache = new BlockCache(size_t{256} << 20);
  return *cache;
}

}  // namespace miniddp
