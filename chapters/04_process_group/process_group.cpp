// What every backend has in common: the caller's own mistakes are found here, before anything is sent.
#include "chapters/04_process_group/process_group.h"

namespace miniddp {

namespace {

void check_tensors(const Collective& collective) {
  std::vector<Tensor> all = collective.inputs;
  all.insert(all.end(), collective.outputs.begin(), collective.outputs.end());
  for (const Tensor& tensor : all) {
    check(tensor.defined(), "{}: a tensor is undefined", name_of(collective.kind));
    const Tensor& first = all.front();
    check(tensor.dtype() == first.dtype(), "{}: all tensors must have one dtype, found {} and {}",
          name_of(collective.kind), first.describe(), tensor.describe());
    check<DeviceError>(tensor.device() == first.device(),
                       "{}: all tensors must be on one device, found {} and {}", name_of(collective.kind),
                       first.describe(), tensor.describe());
    // What one rank sends and receives with exchange() may differ in size.
    check<ShapeError>(collective.kind == CollectiveKind::exchange || tensor.numel() == first.numel(),
                      "{}: all tensors must have the same number of elements, found {} and {}",
                      name_of(collective.kind), first.describe(), tensor.describe());
  }
}

}  // namespace

WorkPtr ProcessGroup::start(Collective collective) {
  check_tensors(collective);
  if (collective.kind == CollectiveKind::all_reduce || collective.kind == CollectiveKind::reduce ||
      collective.kind == CollectiveKind::reduce_scatter) {
    check_reduce_op(collective.op, collective.inputs.front().dtype());
  }
  const auto check_rank = [&](int rank, std::string_view what) {
    check(rank >= 0 && rank < size_, "{}: invalid {} rank: {}; the group has ranks 0 to {}",
          name_of(collective.kind), what, rank, size_ - 1);
  };
  switch (collective.kind) {
    case CollectiveKind::broadcast:
    case CollectiveKind::reduce:
    case CollectiveKind::gather:
    case CollectiveKind::scatter:
      check_rank(collective.root, "root");
      break;
    case CollectiveKind::send:
      check_rank(collective.root, "destination");
      break;
    case CollectiveKind::recv:
      check_rank(collective.root, "source");
      break;
    case CollectiveKind::exchange:
      check_rank(collective.root, "destination");
      check_rank(collective.source, "source");
      break;
    default:
      break;
  }
  if (collective.is_point_to_point()) {
    check(collective.root != rank_ && collective.source != rank_,
          "{}: rank {} cannot send to or receive from itself", name_of(collective.kind), rank_);
  } else {
    collective.sequence = next_sequence_++;
  }
  if (collective.kind != CollectiveKind::monitored_barrier) collective.timeout = timeout_;
  return submit(std::move(collective));
}

WorkPtr ProcessGroup::broadcast(Tensor tensor, int root) {
  Collective collective{
      .kind = CollectiveKind::broadcast, .inputs = {tensor}, .outputs = {tensor}, .root = root};
  return start(std::move(collective));
}

WorkPtr ProcessGroup::all_reduce(Tensor tensor, ReduceOp op) {
  return start({.kind = CollectiveKind::all_reduce, .inputs = {tensor}, .outputs = {tensor}, .op = op});
}

WorkPtr ProcessGroup::reduce(Tensor tensor, int root, ReduceOp op) {
  return start(
      {.kind = CollectiveKind::reduce, .inputs = {tensor}, .outputs = {tensor}, .op = op, .root = root});
}

WorkPtr ProcessGroup::all_gather(std::vector<Tensor> outputs, Tensor input) {
  check(static_cast<int>(outputs.size()) == size_,
        "all_gather: expected {} outputs, one for each rank, found {}", size_, outputs.size());
  return start(
      {.kind = CollectiveKind::all_gather, .inputs = {std::move(input)}, .outputs = std::move(outputs)});
}

WorkPtr ProcessGroup::reduce_scatter(Tensor output, std::vector<Tensor> inputs, ReduceOp op) {
  check(static_cast<int>(inputs.size()) == size_,
        "reduce_scatter: expected {} inputs, one for each rank, found {}", size_, inputs.size());
  return start({.kind = CollectiveKind::reduce_scatter,
                .inputs = std::move(inputs),
                .outputs = {std::move(output)},
                .op = op});
}

WorkPtr ProcessGroup::gather(std::vector<Tensor> outputs, Tensor input, int root) {
  const int expected = rank_ == root ? size_ : 0;
  check(static_cast<int>(outputs.size()) == expected,
        "gather: expected {} outputs on rank {} (root {}), found {}", expected, rank_, root, outputs.size());
  return start({.kind = CollectiveKind::gather,
                .inputs = {std::move(input)},
                .outputs = std::move(outputs),
                .root = root});
}

WorkPtr ProcessGroup::scatter(Tensor output, std::vector<Tensor> inputs, int root) {
  const int expected = rank_ == root ? size_ : 0;
  check(static_cast<int>(inputs.size()) == expected,
        "scatter: expected {} inputs on rank {} (root {}), found {}", expected, rank_, root, inputs.size());
  return start({.kind = CollectiveKind::scatter,
                .inputs = std::move(inputs),
                .outputs = {std::move(output)},
                .root = root});
}

WorkPtr ProcessGroup::send(Tensor tensor, int destination, int tag) {
  return start({.kind = CollectiveKind::send,
                .inputs = {std::move(tensor)},
                .outputs = {},
                .root = destination,
                .tag = tag});
}

WorkPtr ProcessGroup::recv(Tensor tensor, int source, int tag) {
  return start({.kind = CollectiveKind::recv,
                .inputs = {},
                .outputs = {std::move(tensor)},
                .root = source,
                .tag = tag});
}

WorkPtr ProcessGroup::exchange(Tensor out, int destination, Tensor in, int source, int tag) {
  return start({.kind = CollectiveKind::exchange,
                .inputs = {std::move(out)},
                .outputs = {std::move(in)},
                .root = destination,
                .source = source,
                .tag = tag});
}

WorkPtr ProcessGroup::barrier() {
  return start({.kind = CollectiveKind::barrier});
}

WorkPtr ProcessGroup::monitored_barrier(Milliseconds timeout, bool wait_all_ranks) {
  return start(
      {.kind = CollectiveKind::monitored_barrier, .wait_all_ranks = wait_all_ranks, .timeout = timeout});
}

}  // namespace miniddp
