// What ranks do with their shared memory: copy in, meet, combine, copy out.
#include <algorithm>
#include <cstring>

#include "common/cuda_emulator/block_runner.h"
#include "common/cuda_emulator/communicator.h"
#include "common/cuda_emulator/sanitizers.h"
#include "common/cuda_emulator/small_floats.h"

namespace miniddp::emulator {
namespace {

struct Half {
  std::uint16_t bits;
  operator double() const { return half_format.to_double(bits); }
  static Half from(double value) { return {half_format.from_double(value)}; }
};
struct Bfloat16 {
  std::uint16_t bits;
  operator double() const { return bfloat16_format.to_double(bits); }
  static Bfloat16 from(double value) { return {bfloat16_format.from_double(value)}; }
};

// The 16-bit types are computed in float and rounded after each step, as on a GPU.
template <class T>
struct Arithmetic {
  using Wide = T;
  static T narrow(Wide value) { return value; }
};
template <>
struct Arithmetic<Half> {
  using Wide = float;
  static Half narrow(float value) { return Half::from(value); }
};
template <>
struct Arithmetic<Bfloat16> {
  using Wide = float;
  static Bfloat16 narrow(float value) { return Bfloat16::from(value); }
};

template <class Function>
void with_type(ncclDataType_t type, Function function) {
  switch (type) {
    case ncclInt8:
      return function(std::int8_t{});
    case ncclUint8:
      return function(std::uint8_t{});
    case ncclInt32:
      return function(std::int32_t{});
    case ncclUint32:
      return function(std::uint32_t{});
    case ncclInt64:
      return function(std::int64_t{});
    case ncclUint64:
      return function(std::uint64_t{});
    case ncclFloat16:
      return function(Half{});
    case ncclFloat32:
      return function(float{});
    case ncclFloat64:
      return function(double{});
    case ncclBfloat16:
      return function(Bfloat16{});
  }
}

}  // namespace

const char* name_of(CallKind kind) {
  static const char* const names[] = {"AllReduce", "Reduce", "Broadcast", "ReduceScatter", "AllGather"};
  return names[static_cast<int>(kind)];
}

std::size_t size_of(ncclDataType_t type) {
  std::size_t size = 0;
  with_type(type, [&](auto example) { size = sizeof example; });
  return size;
}

void combine(ncclDataType_t type, ncclRedOp_t op, void* to, const void* from, std::size_t count) {
  with_type(type, [&](auto example) {
    using T = decltype(example);
    using Wide = typename Arithmetic<T>::Wide;
    auto* out = static_cast<T*>(to);
    const auto* in = static_cast<const T*>(from);
    for (std::size_t i = 0; i < count; ++i) {
      const Wide a = static_cast<Wide>(out[i]);
      const Wide b = static_cast<Wide>(in[i]);
      const Wide result = op == ncclProd ? a * b : op == ncclMax ? std::max(a, b) : op == ncclMin ? std::min(a, b) : a + b;
      out[i] = Arithmetic<T>::narrow(result);
    }
  });
}

void divide(ncclDataType_t type, void* values, std::size_t count, int ranks) {
  with_type(type, [&](auto example) {
    using T = decltype(example);
    using Wide = typename Arithmetic<T>::Wide;
    auto* out = static_cast<T*>(values);
    for (std::size_t i = 0; i < count; ++i)
      out[i] = Arithmetic<T>::narrow(static_cast<Wide>(static_cast<Wide>(out[i]) / static_cast<Wide>(ranks)));
  });
}

void spoil(char* receive, std::size_t bytes) {
  if (receive) fill_unwritten(receive, bytes);
}

ncclResult_t Communicator::collective(const Call& call, const char* send, char* receive) {
  segment_->rank[rank_].call = call;
  // A reduce-scatter puts its piece for every rank into the slot.
  const std::size_t parts = call.kind == CallKind::reduce_scatter ? static_cast<std::size_t>(ranks_) : 1;
  const std::size_t step = slot_bytes / size_of(call.type) / parts;
  std::size_t at = 0;
  do {  // once even for nothing: all ranks must agree that it is nothing
    const std::size_t part = std::min(step, call.count - at);
    put(call, send, at, part);
    if (auto result = meet(name_of(call.kind))) return result;
    if (at == 0)
      if (auto result = agree(call)) return result;
    take(call, receive, at, part);
    if (auto result = meet(name_of(call.kind))) return result;  // nobody overwrites what another one still reads
    at += part;
  } while (at < call.count);
  return ncclSuccess;
}

/// Elements [at, at + part) of what this rank gives.
void Communicator::put(const Call& call, const char* send, std::size_t at, std::size_t part) const {
  const std::size_t size = size_of(call.type);
  if (part == 0 || (call.kind == CallKind::broadcast && rank_ != call.root)) return;
  if (call.kind != CallKind::reduce_scatter) {
    std::memcpy(slot(rank_), send + at * size, part * size);
    return;
  }
  for (int r = 0; r < ranks_; ++r)
    std::memcpy(slot(rank_) + r * part * size, send + (r * call.count + at) * size, part * size);
}

void Communicator::take(const Call& call, char* receive, std::size_t at, std::size_t part) const {
  const std::size_t size = size_of(call.type);
  if (part == 0 || (call.kind == CallKind::reduce && rank_ != call.root)) return;
  char* to = receive + at * size;
  if (call.kind == CallKind::broadcast) {
    std::memcpy(to, slot(call.root), part * size);
    return;
  }
  if (call.kind == CallKind::all_gather) {
    for (int r = 0; r < ranks_; ++r)
      std::memcpy(receive + (r * call.count + at) * size, slot(r), part * size);
    return;
  }
  // In the order of ranks: the same bits on every rank and in every run.
  const std::size_t first = call.kind == CallKind::reduce_scatter ? rank_ * part * size : 0;
  about_to_write(to, part * size);
  std::memcpy(to, slot(0) + first, part * size);
  for (int r = 1; r < ranks_; ++r) combine(call.type, call.op, to, slot(r) + first, part);
  if (call.op == ncclAvg) divide(call.type, to, part, ranks_);
}

/// Moves a piece if the mailbox lets it; false if there is nothing to do now.
bool Communicator::advance(Transfer& transfer, bool& mismatch) {
  const int from = transfer.sends ? rank_ : transfer.peer;
  const int to = transfer.sends ? transfer.peer : rank_;
  Mailbox& box = mailbox(from, to);
  const bool full = box.sent != box.taken;
  if (transfer.sends) {
    if (full) return false;
    acquire(&box);
    box.total = transfer.bytes;
    box.piece = std::min(mailbox_bytes, transfer.bytes - transfer.moved);
    std::memcpy(mailbox_data(from, to), transfer.data + transfer.moved, box.piece);
    transfer.moved += box.piece;
    release(&box);
    ++box.sent;
  } else {
    if (!full) return false;
    acquire(&box);
    if (box.total != transfer.bytes) {
      mismatch = true;
      give_up(ncclInvalidUsage, "rank " + std::to_string(from) + " sends " + std::to_string(box.total) + " bytes to rank " +
                                    std::to_string(to) + ", which receives " + std::to_string(transfer.bytes));
      return false;
    }
    std::memcpy(transfer.data + transfer.moved, mailbox_data(from, to), box.piece);
    transfer.moved += box.piece;
    release(&box);
    ++box.taken;
  }
  transfer.started = true;
  ring();
  return true;
}

}  // namespace miniddp::emulator
