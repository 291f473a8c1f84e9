// The CPU's memory: reuse, alignment, the bound, and many threads at once.
#include <cstring>
#include <set>
#include <thread>

#include "common/core/error.h"
#include "common/kernels/cpu/block_cache.h"
#include "common/kernels/kernels.h"
#include "tests/support/catch.h"

using namespace miniddp;

namespace {

constexpr size_t mib = size_t{1} << 20;

bool is_aligned(const void* block) { return reinterpret_cast<uintptr_t>(block) % 64 == 0; }

}  // namespace

TEST_CASE("a size class holds what was asked for and wastes an eighth at most") {
  for (size_t n : {size_t{0}, size_t{1}, size_t{64}, size_t{65}, size_t{512}, size_t{513}, size_t{9437184}, size_t{9437185}, 700 * mib}) {
    const size_t size = BlockCache::size_class(n);
    CAPTURE(n, size);
    CHECK(size >= n);
    CHECK(size % 64 == 0);
    CHECK(size <= n + n / 8 + 64);
    CHECK(BlockCache::size_class(size) == size);
  }
}

TEST_CASE("blocks are aligned, writable, and come back when they are asked for again") {
  BlockCache cache(64 * mib);
  std::set<void*> blocks;
  for (const size_t n : {size_t{0}, size_t{100}, size_t{5000}, 3 * mib + 13}) {
    void* block = cache.allocate(n);
    REQUIRE(is_aligned(block));
    std::memset(block, 1, n);
    CHECK(blocks.insert(block).second);
  }
  void* block = cache.allocate(1234567);
  cache.deallocate(block);
  const size_t total = cache.total_bytes();
  CHECK(cache.allocate(1234567) == block);
  CHECK(cache.total_bytes() == total);
  cache.deallocate(block);
  for (void* each : blocks) cache.deallocate(each);
}

TEST_CASE("idle blocks do not pile up beyond the limit") {
  BlockCache cache(64 * mib);
  for (size_t n = 1; n <= 60; ++n) {
    cache.deallocate(cache.allocate(n * mib));
    CHECK(cache.total_bytes() <= 64 * mib);
  }
}

TEST_CASE("near the limit a larger idle block is taken rather than a fresh one") {
  BlockCache cache(64 * mib);
  void* large = cache.allocate(60 * mib);
  cache.deallocate(large);
  void* smaller = cache.allocate(40 * mib);
  CHECK(smaller == large);
  CHECK(cache.total_bytes() == 60 * mib);
  cache.deallocate(smaller);
}

TEST_CASE("more than the limit can be in use, and goes back to the system afterwards") {
  BlockCache cache(8 * mib);
  void* blocks[] = {cache.allocate(8 * mib), cache.allocate(8 * mib), cache.allocate(8 * mib)};
  CHECK(cache.total_bytes() == 24 * mib);
  for (void* block : blocks) cache.deallocate(block);
  cache.deallocate(cache.allocate(mib));
  CHECK(cache.total_bytes() <= 8 * mib);
  cache.release_all();
  CHECK(cache.total_bytes() == 0);
}

TEST_CASE("threads get blocks of their own") {
  BlockCache cache(64 * mib);
  std::vector<int> wrong(4);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < wrong.size(); ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 300; ++i) {
        const size_t n = 1000 + 37 * static_cast<size_t>(i % 11);
        auto* block = static_cast<unsigned char*>(cache.allocate(n));
        std::memset(block, static_cast<int>(t), n);
        for (size_t k = 0; k < n; ++k) wrong[t] += block[k] != t;
        cache.deallocate(block);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == std::vector<int>(4, 0));
}

TEST_CASE("a device that does not exist is named") {
  CHECK_THROWS_AS(kernels(DeviceType::cpu).allocate(64, 64), DeviceError);
  CHECK_THROWS_AS(kernels(DeviceType::cpu).allocate(64, -1), DeviceError);
  CHECK(device_count(DeviceType::cpu) == 64);
}

TEST_CASE("a request that no machine can fill is an error") {
  CHECK_THROWS_AS(block_cache().allocate(size_t{1} << 60), DeviceError);
}
