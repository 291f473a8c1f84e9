#include "chapters/04_process_group/collective.h"

namespace miniddp {

namespace {
bool has_op(CollectiveKind kind) {
  return kind == CollectiveKind::all_reduce || kind == CollectiveKind::reduce ||
         kind == CollectiveKind::reduce_scatter;
}
}  // namespace

std::string_view name_of(CollectiveKind kind) {
  constexpr std::string_view names[] = {"broadcast",         "all_reduce", "reduce",  "all_gather",
                                        "reduce_scatter",    "gather",     "scatter", "barrier",
                                        "monitored_barrier", "send",       "recv",    "exchange"};
  const auto index = static_cast<size_t>(kind);
  return index < std::size(names) ? names[index] : "unknown operation";
}

std::string Fingerprint::str() const {
  std::string text = fmt::format("{}", name_of(kind));
  if (has_op(kind)) text += fmt::format("({})", name_of(static_cast<ReduceOp>(op)));
  if (kind != CollectiveKind::barrier)
    text += fmt::format(" of {} {} elements", numel, name_of(static_cast<DType>(dtype)));
  if (kind == CollectiveKind::send) return text + (root != 0 ? fmt::format(" with tag {}", root) : "");
  if (root >= 0) text += fmt::format(", root {}", root);
  return fmt::format("operation {}, {}", sequence, text);
}

const Tensor& Collective::own() const {
  static const Tensor none;
  switch (kind) {
    case CollectiveKind::scatter:
    case CollectiveKind::reduce_scatter:
    case CollectiveKind::recv:
      return outputs.at(0);
    case CollectiveKind::barrier:
    case CollectiveKind::monitored_barrier:
      return none;
    default:
      return inputs.at(0);
  }
}

Fingerprint Collective::fingerprint() const {
  Fingerprint print;
  print.kind = is_point_to_point() ? CollectiveKind::send : kind;
  print.sequence = is_point_to_point() ? 0 : sequence;
  print.root = is_point_to_point() ? tag : root;
  if (has_op(kind)) print.op = static_cast<uint8_t>(op);
  if (const Tensor& tensor = own(); tensor.defined()) {
    print.dtype = static_cast<uint8_t>(tensor.dtype());
    print.numel = static_cast<uint64_t>(tensor.numel());
  }
  return print;
}

std::string Collective::describe() const {
  std::string text = fmt::format("{}", name_of(kind));
  if (has_op(kind)) text += fmt::format("({})", name_of(op));
  if (const Tensor& tensor = own(); tensor.defined())
    text += fmt::format(" of {} {}", name_of(tensor.dtype()), to_string(tensor.shape()));
  if (is_point_to_point())
    return text + fmt::format(" {} rank {}", kind == CollectiveKind::recv ? "from" : "to", root);
  if (root >= 0) text += fmt::format(", root {}", root);
  return text;
}

std::string mismatch_message(int rank, const Fingerprint& mine, int other_rank, const Fingerprint& others) {
  return fmt::format(
      "Detected mismatch between collectives on ranks. Rank {} is running {}, but rank {} is running {}. All "
      "ranks must call the same operations "
      "with the same sizes in the same order",
      rank, mine.str(), other_rank, others.str());
}

}  // namespace miniddp
