// Each collective in terms of Gloo's.
#include <gloo/allgather.h>
#include <gloo/allreduce_halving_doubling.h>
#include <gloo/allreduce_ring.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/gather.h>
#include <gloo/reduce.h>
#include <gloo/scatter.h>

#include <algorithm>
#include <cstring>

#include "chapters/04_process_group/gloo_backend.h"

namespace miniddp {

namespace {

constexpr size_t most_kept = 32;
// Gloo's classes count bytes in an int.
constexpr size_t longest_piece = size_t(256) << 20;
constexpr uint64_t point_to_point_slot = 0x42ull << 56;

char* chars(const Tensor& tensor) {
  return static_cast<char*>(tensor.raw_data());
}

// Gloo asks for a plain function for each operation.
template <class T, ReduceOp op>
void reduce_function(T* into, const T* from, size_t count) {
  reduce_into(into, from, count, dtype_of<T>, op);
}

template <class T>
const ::gloo::ReductionFunction<T>* reduction(ReduceOp op) {
  using Function = ::gloo::ReductionFunction<T>;
  static const Function functions[] = {{::gloo::CUSTOM, reduce_function<T, ReduceOp::sum>},
                                       {::gloo::CUSTOM, reduce_function<T, ReduceOp::avg>},
                                       {::gloo::CUSTOM, reduce_function<T, ReduceOp::product>},
                                       {::gloo::CUSTOM, reduce_function<T, ReduceOp::min>},
                                       {::gloo::CUSTOM, reduce_function<T, ReduceOp::max>},
                                       {::gloo::CUSTOM, reduce_function<T, ReduceOp::band>},
                                       {::gloo::CUSTOM, reduce_function<T, ReduceOp::bor>},
                                       {::gloo::CUSTOM, reduce_function<T, ReduceOp::bxor>}};
  return &functions[static_cast<size_t>(op)];
}

// Of Gloo's algorithms the ring class is the fastest between two ranks. With more it would send everything R
// - 1 times, and add up in another order on each rank; halving-doubling sends it twice at most, with the same
// result everywhere.
template <class T>
std::unique_ptr<::gloo::Algorithm> make_algorithm(const std::shared_ptr<::gloo::Context>& context,
                                                  std::vector<std::byte>& values, ReduceOp op) {
  const std::vector<T*> pointers = {reinterpret_cast<T*>(values.data())};
  const int count = static_cast<int>(values.size() / sizeof(T));
  if (context->size == 2)
    return std::make_unique<::gloo::AllreduceRing<T>>(context, pointers, count, reduction<T>(op));
  return std::make_unique<::gloo::AllreduceHalvingDoubling<T>>(context, pointers, count, reduction<T>(op));
}

}  // namespace

int64_t GlooBackend::dispatch(const Collective& c, const Deadline& deadline) {
  if (c.kind == CollectiveKind::barrier) {
    barrier(c, deadline);
    return 0;
  }
  if (c.is_point_to_point()) return point_to_point(c, deadline);
  if (c.own().numel() == 0) return 0;
  const Tensor& own = c.own();
  switch (c.kind) {
    case CollectiveKind::broadcast:
      return broadcast(c, deadline);
    case CollectiveKind::all_reduce: {
      int64_t bytes = 0;
      for (size_t begin = 0; begin < own.nbytes(); begin += longest_piece) {
        const size_t length = std::min(longest_piece, own.nbytes() - begin);
        bytes += all_reduce({static_cast<std::byte*>(own.raw_data()) + begin, length}, own.dtype(), c.op);
      }
      return bytes;
    }
    case CollectiveKind::reduce:
      return reduce(c, deadline);
    case CollectiveKind::all_gather:
      return all_gather(c, deadline);
    case CollectiveKind::reduce_scatter:
      return reduce_scatter(c);
    case CollectiveKind::gather:
      return gather(c, deadline);
    case CollectiveKind::scatter:
      return scatter(c, deadline);
    default:
      throw Error("gloo: unexpected operation {}", name_of(c.kind));
  }
}

int64_t GlooBackend::all_reduce(std::span<std::byte> values, DType dtype, ReduceOp op) {
  if (size_ == 1) return 0;
  GlooAllReduce& kept = kept_all_reduce(values.size() / size_of(dtype), dtype, op);
  std::memcpy(kept.values.data(), values.data(), values.size());
  kept.algorithm->run();
  if (op == ReduceOp::avg) divide(kept.values.data(), values.size() / size_of(dtype), dtype, size_);
  std::memcpy(values.data(), kept.values.data(), values.size());
  // What the algorithms send: everything once between two ranks, else all but one share of it, twice.
  const auto nbytes = static_cast<int64_t>(values.size());
  return size_ == 2 ? nbytes : 2 * nbytes * (size_ - 1) / size_;
}

GlooAllReduce& GlooBackend::kept_all_reduce(size_t count, DType dtype, ReduceOp op) {
  const auto key = std::tuple(count, dtype, op);
  auto found = kept_.find(key);
  if (found == kept_.end()) {
    if (kept_.size() >= most_kept) {
      kept_.erase(std::min_element(kept_.begin(), kept_.end(), [](const auto& a, const auto& b) {
        return a.second.last_use < b.second.last_use;
      }));
    }
    found = kept_.try_emplace(key).first;
    GlooAllReduce& made = found->second;
    made.values.resize(count * size_of(dtype));
    switch (dtype) {
      case DType::float32:
        made.algorithm = make_algorithm<float>(context_, made.values, op);
        break;
      case DType::float64:
        made.algorithm = make_algorithm<double>(context_, made.values, op);
        break;
      case DType::int64:
        made.algorithm = make_algorithm<int64_t>(context_, made.values, op);
        break;
      case DType::uint8:
        made.algorithm = make_algorithm<uint8_t>(context_, made.values, op);
        break;
      case DType::float16:
        made.algorithm = make_algorithm<Half>(context_, made.values, op);
        break;
      case DType::bfloat16:
        made.algorithm = make_algorithm<BFloat16>(context_, made.values, op);
        break;
    }
  }
  found->second.last_use = ++uses_;
  return found->second;
}

int64_t GlooBackend::broadcast(const Collective& c, const Deadline& deadline) {
  ::gloo::BroadcastOptions options(context_);
  options.setOutput(chars(c.own()), c.own().nbytes());
  options.setRoot(c.root);
  options.setTag(c.sequence);
  options.setTimeout(Milliseconds(deadline.left_ms() + 1));
  ::gloo::broadcast(options);
  return rank_ == c.root && size_ > 1 ? static_cast<int64_t>(c.own().nbytes()) : 0;
}

int64_t GlooBackend::reduce(const Collective& c, const Deadline& deadline) {
  const Tensor& own = c.own();
  // One "element" is a byte to Gloo's arithmetic of sizes unless the type is right; the function below knows
  // the dtype.
  const auto function = [dtype = own.dtype(), op = c.op](void* out, const void* a, const void* b,
                                                         size_t count) {
    if (out != a) std::memcpy(out, a, count * size_of(dtype));
    reduce_into(out, b, count, dtype, op);
  };
  ::gloo::ReduceOptions options(context_);
  const auto result = scratch(own.nbytes());
  switch (size_of(own.dtype())) {
    case 1:
      options.setInput(static_cast<uint8_t*>(own.raw_data()), static_cast<size_t>(own.numel())),
          options.setOutput(reinterpret_cast<uint8_t*>(result.data()), static_cast<size_t>(own.numel()));
      break;
    case 2:
      options.setInput(static_cast<uint16_t*>(own.raw_data()), static_cast<size_t>(own.numel())),
          options.setOutput(reinterpret_cast<uint16_t*>(result.data()), static_cast<size_t>(own.numel()));
      break;
    case 4:
      options.setInput(static_cast<uint32_t*>(own.raw_data()), static_cast<size_t>(own.numel())),
          options.setOutput(reinterpret_cast<uint32_t*>(result.data()), static_cast<size_t>(own.numel()));
      break;
    default:
      options.setInput(static_cast<uint64_t*>(own.raw_data()), static_cast<size_t>(own.numel())),
          options.setOutput(reinterpret_cast<uint64_t*>(result.data()), static_cast<size_t>(own.numel()));
      break;
  }
  options.setReduceFunction(function);
  options.setRoot(c.root);
  options.setTag(c.sequence);
  options.setTimeout(Milliseconds(deadline.left_ms() + 1));
  ::gloo::reduce(options);
  if (rank_ == c.root) {
    if (c.op == ReduceOp::avg) divide(result.data(), static_cast<size_t>(own.numel()), own.dtype(), size_);
    std::memcpy(own.raw_data(), result.data(), own.nbytes());
  }
  return static_cast<int64_t>(own.nbytes()) * (size_ - 1) / size_;
}

int64_t GlooBackend::all_gather(const Collective& c, const Deadline& deadline) {
  const size_t nbytes = c.own().nbytes();
  const auto all = scratch(nbytes * static_cast<size_t>(size_));
  ::gloo::AllgatherOptions options(context_);
  options.setInput(chars(c.own()), nbytes);
  options.setOutput(reinterpret_cast<char*>(all.data()), all.size());
  options.setTag(c.sequence);
  options.setTimeout(Milliseconds(deadline.left_ms() + 1));
  ::gloo::allgather(options);
  for (size_t rank = 0; rank < c.outputs.size(); ++rank)
    std::memcpy(c.outputs[rank].raw_data(), all.data() + rank * nbytes, nbytes);
  return static_cast<int64_t>(nbytes) * (size_ - 1);
}

// Gloo has none for any number of ranks: reduce all, keep our part.
int64_t GlooBackend::reduce_scatter(const Collective& c) {
  const size_t nbytes = c.own().nbytes();
  const auto all = scratch(nbytes * static_cast<size_t>(size_));
  for (size_t rank = 0; rank < c.inputs.size(); ++rank)
    std::memcpy(all.data() + rank * nbytes, c.inputs[rank].raw_data(), nbytes);
  int64_t bytes = 0;
  for (size_t begin = 0; begin < all.size(); begin += longest_piece) {
    bytes +=
        all_reduce(all.subspan(begin, std::min(longest_piece, all.size() - begin)), c.own().dtype(), c.op);
  }
  std::memcpy(c.own().raw_data(), all.data() + static_cast<size_t>(rank_) * nbytes, nbytes);
  return bytes;
}

int64_t GlooBackend::gather(const Collective& c, const Deadline& deadline) {
  const size_t nbytes = c.own().nbytes();
  ::gloo::GatherOptions options(context_);
  options.setInput(chars(c.own()), nbytes);
  options.setRoot(c.root);
  options.setTag(c.sequence);
  options.setTimeout(Milliseconds(deadline.left_ms() + 1));
  std::span<std::byte> all;
  if (rank_ == c.root) {
    all = scratch(nbytes * static_cast<size_t>(size_));
    options.setOutput(reinterpret_cast<char*>(all.data()), all.size());
  }
  ::gloo::gather(options);
  for (size_t rank = 0; rank < c.outputs.size(); ++rank)
    std::memcpy(c.outputs[rank].raw_data(), all.data() + rank * nbytes, nbytes);
  return rank_ == c.root ? 0 : static_cast<int64_t>(nbytes);
}

int64_t GlooBackend::scatter(const Collective& c, const Deadline& deadline) {
  const size_t nbytes = c.own().nbytes();
  ::gloo::ScatterOptions options(context_);
  if (rank_ == c.root) {
    std::vector<char*> inputs;
    for (const Tensor& input : c.inputs) inputs.push_back(chars(input));
    options.setInputs(inputs, nbytes);
  }
  options.setOutput(chars(c.own()), nbytes);
  options.setRoot(c.root);
  options.setTag(c.sequence);
  options.setTimeout(Milliseconds(deadline.left_ms() + 1));
  ::gloo::scatter(options);
  return rank_ == c.root ? static_cast<int64_t>(nbytes) * (size_ - 1) : 0;
}

// First the fingerprints, whose size is always right; the payload only if they agree.
int64_t GlooBackend::point_to_point(const Collective& c, const Deadline& deadline) {
  const uint64_t slot = point_to_point_slot | static_cast<uint64_t>(static_cast<uint32_t>(c.tag)) << 1;
  const Tensor* out = c.kind == CollectiveKind::recv ? nullptr : &c.inputs[0];
  const Tensor* in = c.kind == CollectiveKind::send ? nullptr : &c.outputs[0];
  const int destination = c.root, source = c.kind == CollectiveKind::exchange ? c.source : c.root;
  Fingerprint mine = c.fingerprint(), expected = mine, theirs;
  if (in) expected.numel = static_cast<uint64_t>(in->numel());

  const auto transfer = [&](void* sent, size_t sent_bytes, void* received, size_t received_bytes,
                            uint64_t at) {
    Buffer sending, receiving;
    if (received_bytes > 0) (receiving = buffer(received, received_bytes))->recv(source, at);
    if (sent_bytes > 0) (sending = buffer(sent, sent_bytes))->send(destination, at);
    if (receiving) receiving->waitRecv(Milliseconds(deadline.left_ms() + 1));
    if (sending) sending->waitSend(Milliseconds(deadline.left_ms() + 1));
  };
  transfer(&mine, out ? sizeof mine : 0, &theirs, in ? sizeof theirs : 0, slot);
  check(!in || theirs == expected, "{}", mismatch_message(rank_, expected, source, theirs));
  transfer(out ? out->raw_data() : nullptr, out ? out->nbytes() : 0, in ? in->raw_data() : nullptr,
           in ? in->nbytes() : 0, slot | 1);
  return out ? static_cast<int64_t>(out->nbytes()) : 0;
}

void GlooBackend::barrier(const Collective& c, const Deadline& deadline) {
  ::gloo::BarrierOptions options(context_);
  options.setTag(c.sequence);
  options.setTimeout(Milliseconds(deadline.left_ms() + 1));
  ::gloo::barrier(options);
}

std::span<std::byte> GlooBackend::scratch(size_t nbytes) {
  if (scratch_.size() < nbytes) scratch_.resize(nbytes);
  return std::span(scratch_).first(nbytes);
}

}  // namespace miniddp
