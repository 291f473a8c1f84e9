// All-reduce by hand: R ranks in a ring, each sends to its right neighbour and receives from its left.
#pragma once

#include <vector>

#include "chapters/04_process_group/links.h"

namespace miniddp {

/// Where chunk `chunk` of `numel` elements begins when they are dealt out to `size` ranks: floor(numel *
/// chunk / size). Chunks differ by at most one element; with fewer elements than ranks some are empty.
int64_t ring_chunk_begin(int64_t numel, int chunk, int size);

/// First half: afterwards each rank holds the full reduction of one chunk, chunk (rank + 1) mod size, and
/// partial sums elsewhere. `values` has `numel` elements; `inbox` is scratch memory, kept between calls.
void ring_reduce_scatter(Links& links, const Fingerprint& what, std::byte* values, int64_t numel, DType dtype,
                         ReduceOp op, std::vector<std::byte>& inbox, const Deadline& deadline);

/// Second half: the finished chunks travel round the ring.
void ring_all_gather(Links& links, const Fingerprint& what, std::byte* values, int64_t numel, DType dtype,
                     const Deadline& deadline);

/// Both. Each rank sends 2 (R - 1) / R times the data, whatever R is. A chunk is reduced along one path and
/// then copied, so the result is the same on every rank, bit for bit. avg divides the finished sums once.
void ring_all_reduce(Links& links, const Fingerprint& what, std::byte* values, int64_t numel, DType dtype,
                     ReduceOp op, std::vector<std::byte>& inbox, const Deadline& deadline);

}  // namespace miniddp
