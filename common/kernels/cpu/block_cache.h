// Memory blocks that are used again. The first touch of a fresh page costs more than the arithmetic on it, so a training
// step must find every buffer where the step before left it.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <unordered_map>
#include <vector>

namespace miniddp {

/// Thread-safe. A block is 64-byte aligned; its real size is a size class, at most an eighth above what was asked for.
class BlockCache {
 public:
  /// Idle blocks go back to the system when idle and used bytes together would grow past `limit`.
  explicit BlockCache(size_t limit) : limit_(limit) {}
  ~BlockCache() { release_all(); }
  BlockCache(const BlockCache&) = delete;
  BlockCache& operator=(const BlockCache&) = delete;

  /// Throws DeviceError when the system has no memory left.
  void* allocate(size_t nbytes);
  void deallocate(void* block);
  /// Gives every idle block back to the system.
  void release_all();

  /// Bytes of all blocks, used and idle.
  size_t total_bytes() const;

  static size_t size_class(size_t nbytes);

 private:
  void* take_idle(size_t smallest, size_t largest);
  void shrink_to(size_t bytes);

  const size_t limit_;
  mutable std::mutex mutex_;
  size_t total_bytes_ = 0;
  std::map<size_t, std::vector<void*>> idle_;   // by size; the last one used is the warmest
  std::unordered_map<void*, size_t> used_;      // the size of each block in use
};

/// The cache of all CPU devices. Never destroyed: tensors in static variables may outlive everything else.
BlockCache& block_cache();

/// A kernel's working memory, from the same cache.
class Scratch {
 public:
  explicit Scratch(size_t nbytes) : data_(block_cache().allocate(nbytes)) {}
  ~Scratch() { block_cache().deallocate(data_); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  std::byte* data() const { return static_cast<std::byte*>(data_); }

 private:
  void* data_;
};

}  // namespace miniddp
