#include "chapters/04_process_group/ring_all_reduce.h"

#include <algorithm>

namespace miniddp {

namespace {

// A chunk of the values, in bytes.
std::span<std::byte> chunk_of(std::byte* values, int64_t numel, DType dtype, int chunk, int size) {
  const auto element = static_cast<int64_t>(size_of(dtype));
  const int64_t begin = ring_chunk_begin(numel, chunk, size), end = ring_chunk_begin(numel, chunk + 1, size);
  return {values + begin * element, static_cast<size_t>((end - begin) * element)};
}

int modulo(int value, int size) {
  return (value % size + size) % size;
}

}  // namespace

int64_t ring_chunk_begin(int64_t numel, int chunk, int size) {
  // numel * chunk, without overflow for any tensor that fits in memory.
  return static_cast<int64_t>(static_cast<__int128>(numel) * chunk / size);
}

void ring_reduce_scatter(Links& links, const Fingerprint& what, std::byte* values, int64_t numel, DType dtype,
                         ReduceOp op, std::vector<std::byte>& inbox, const Deadline& deadline) {
  const int rank = links.rank(), size = links.size();
  const int right = (rank + 1) % size, left = modulo(rank - 1, size);
  const size_t element = size_of(dtype);
  // BEGIN SOLUTION 04.1 reduce-scatter in a ring
  for (int step = 0; step < size - 1; ++step) {
    // I pass on the chunk I added to last, and add my share to the one that comes.
    const auto out = chunk_of(values, numel, dtype, modulo(rank - step, size), size);
    const auto mine = chunk_of(values, numel, dtype, modulo(rank - step - 1, size), size);
    if (inbox.size() < mine.size()) inbox.resize(mine.size());

    // Elements are added as they arrive, while they are still in the cache and the rest is still on its way.
    size_t added = 0;
    const auto add_arrived = [&](size_t received) {
      constexpr size_t piece = 64 * 1024;
      const size_t whole = received / element * element;
      if (whole - added < piece && received < mine.size()) return;
      reduce_into(mine.data() + added, inbox.data() + added, (whole - added) / element, dtype, op);
      added = whole;
    };
    links.exchange(what, right, out, left, {std::span(inbox).first(mine.size()), add_arrived}, deadline);
  }
  // END SOLUTION
}

void ring_all_gather(Links& links, const Fingerprint& what, std::byte* values, int64_t numel, DType dtype,
                     const Deadline& deadline) {
  const int rank = links.rank(), size = links.size();
  const int right = (rank + 1) % size, left = modulo(rank - 1, size);
  // BEGIN SOLUTION 04.2 all-gather in a ring
  for (int step = 0; step < size - 1; ++step) {
    const auto out = chunk_of(values, numel, dtype, modulo(rank + 1 - step, size), size);
    const auto in = chunk_of(values, numel, dtype, modulo(rank - step, size), size);
    links.exchange(what, right, out, left, {in}, deadline);
  }
  // END SOLUTION
}

void ring_all_reduce(Links& links, const Fingerprint& what, std::byte* values, int64_t numel, DType dtype,
                     ReduceOp op, std::vector<std::byte>& inbox, const Deadline& deadline) {
  // BEGIN SOLUTION 04.3 all-reduce
  if (links.size() == 1) return;
  ring_reduce_scatter(links, what, values, numel, dtype, op, inbox, deadline);
  if (op == ReduceOp::avg) {
    const auto finished = chunk_of(values, numel, dtype, (links.rank() + 1) % links.size(), links.size());
    divide(finished.data(), finished.size() / size_of(dtype), dtype, links.size());
  }
  ring_all_gather(links, what, values, numel, dtype, deadline);
  // END SOLUTION
}

}  // namespace miniddp
