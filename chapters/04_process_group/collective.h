// One operation of a process group: what it is, on which tensors, and what all ranks must agree on.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "chapters/04_process_group/reduce_op.h"
#include "chapters/04_process_group/socket.h"
#include "common/tensor/tensor.h"

namespace miniddp {

enum class CollectiveKind : uint8_t {
  broadcast,
  all_reduce,
  reduce,
  all_gather,
  reduce_scatter,
  gather,
  scatter,
  barrier,
  monitored_barrier,
  // Between two ranks.
  send,
  recv,
  exchange
};

std::string_view name_of(CollectiveKind kind);

/// What must be the same on every rank: compared before data moves, because a backend that gets 8 elements
/// where it expects 4 hangs (NCCL) or ends the whole process (Gloo). Fixed size, so that comparing is always
/// safe.
struct Fingerprint {
  uint32_t sequence = 0;  // how many collectives the group ran before this one
  CollectiveKind kind = CollectiveKind::barrier;
  uint8_t dtype = 0;
  uint8_t op = 0;
  uint8_t reserved = 0;
  int32_t root = -1;  // or the tag of a send
  uint32_t padding = 0;
  uint64_t numel = 0;  // of one rank's own part

  bool operator==(const Fingerprint&) const = default;
  /// "operation 5, all_reduce(sum) of 8 float32 elements".
  std::string str() const;
};
static_assert(sizeof(Fingerprint) == 24);

struct Collective {
  CollectiveKind kind = CollectiveKind::barrier;
  /// What is read and what is written; for all_reduce, broadcast and reduce the same tensor.
  std::vector<Tensor> inputs = {}, outputs = {};
  ReduceOp op = ReduceOp::sum;
  /// The root of a rooted operation; the peer of a send, recv or exchange (to).
  int root = -1;
  /// exchange: whom to receive from.
  int source = -1;
  int tag = 0;
  bool wait_all_ranks = false;  // monitored_barrier
  uint32_t sequence = 0;
  Milliseconds timeout{300'000};

  /// This rank's own part: the tensor whose size all ranks must agree on. Undefined for barriers.
  const Tensor& own() const;
  Fingerprint fingerprint() const;
  /// With the shape, for MINIDDP_DEBUG=detail: "all_reduce(sum) of float32 (2, 4)".
  std::string describe() const;
  bool is_point_to_point() const { return kind >= CollectiveKind::send; }
};

/// What rank `mine` says when it finds that `other` does something else.
std::string mismatch_message(int rank, const Fingerprint& mine, int other_rank, const Fingerprint& others);

}  // namespace miniddp
