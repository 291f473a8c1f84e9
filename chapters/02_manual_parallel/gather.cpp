#include "chapters/02_manual_parallel/gather.h"

#include <algorithm>

#include "chapters/02_manual_parallel/chunks.h"
#include "common/autograd/node.h"
#include "common/core/recorder.h"
#include "common/core/warning.h"

namespace miniddp {
namespace {

// Scalars have no dimension to be put together along: each becomes a vector of one.
std::vector<Tensor> scalars_as_vectors(const std::vector<Tensor>& outputs, int64_t dim) {
  if (dim != 0 || std::any_of(outputs.begin(), outputs.end(), [](const Tensor& each) { return each.dim() != 0; })) return outputs;
  warn("Was asked to gather along dimension 0, but all input tensors were scalars; will instead unsqueeze and return a vector.");
  std::vector<Tensor> vectors;
  for (const Tensor& output : outputs) vectors.push_back(output.view({1}));
  return vectors;
}

void check_fits(const Tensor& output, const Tensor& first, int64_t dim) {
  check(output.dtype() == first.dtype(), "gather: expected {} from every replica, found {}", name_of(first.dtype()), output.describe());
  Shape expected = first.shape();
  if (output.dim() == first.dim()) expected[static_cast<size_t>(dim)] = output.size(dim);
  check<ShapeError>(output.shape() == expected, "Gather got an input of invalid size: got {}, but expected {}", to_string(output.shape()),
                    to_string(expected));
}

}  // namespace

Tensor gather(const std::vector<Tensor>& replicas_outputs, Device target, int64_t dim) {
  check(!replicas_outputs.empty(), "gather needs at least one output");
  const std::vector<Tensor> outputs = scalars_as_vectors(replicas_outputs, dim);
  dim = resolve_dim(dim, outputs[0].shape());
  std::vector<int64_t> sizes;
  std::vector<Device> devices;
  Shape shape = outputs[0].shape();
  shape[static_cast<size_t>(dim)] = 0;
  for (const Tensor& output : outputs) {
    check_fits(output, outputs[0], dim);
    sizes.push_back(output.size(dim));
    devices.push_back(output.device());
    shape[static_cast<size_t>(dim)] += output.size(dim);
  }

  const Span span("gather", target);
  // BEGIN SOLUTION 02.4 gather and its backward
  Tensor whole = Tensor::empty(shape, outputs[0].dtype(), target);
  join(outputs, sizes, dim, whole, {"gather", "outputs"});
  record("Gather", target, outputs, {&whole}, [sizes, devices, dim](Grads grads) {
    const Span span("gather backward", grads[0].device());
    return split(grads[0], sizes, devices, dim, {"gather backward", "gradients"});
  });
  return whole;
  // END SOLUTION
}

namespace {

// outputs[i] of every replica, looked up by `part`.
template <class Part>
std::vector<Value> each(const std::vector<Value>& outputs, const Part& part) {
  std::vector<Value> parts;
  for (const Value& output : outputs) parts.push_back(part(output));
  return parts;
}

std::vector<Value> gather_items(const std::vector<Value>& outputs, Device target, int64_t dim) {
  const size_t count = outputs[0].items().size();
  for (const Value& output : outputs) {
    check(output.items().size() == count, "gather: expected {} from every replica, found {}", outputs[0].kind(), output.kind());
  }
  std::vector<Value> items;
  for (size_t i = 0; i < count; ++i) {
    items.push_back(gather(each(outputs, [i](const Value& output) { return output.at(i); }), target, dim));
  }
  return items;
}

Value::Dict gather_dict(const std::vector<Value>& outputs, Device target, int64_t dim) {
  const auto& first = outputs[0].get_if<Value::Dict>()->items;
  for (const Value& output : outputs) {
    const auto* dict = output.get_if<Value::Dict>();
    check(dict != nullptr && dict->items.size() == first.size(), "All dicts must have the same number of keys: found {} and {}",
          outputs[0].kind(), output.kind());
  }
  Value::Dict result;
  for (const auto& item : first) {
    const std::string& key = item.first;
    result.items.emplace_back(key, gather(each(outputs, [&key](const Value& output) { return output.at(key); }), target, dim));
  }
  return result;
}

}  // namespace

Value gather(const std::vector<Value>& outputs, Device target, int64_t dim) {
  check(!outputs.empty(), "gather needs at least one output");
  const Value& first = outputs[0];
  if (first.get_if<Tensor>() != nullptr) {
    std::vector<Tensor> tensors;
    for (const Value& output : outputs) tensors.push_back(output.tensor());
    return gather(tensors, target, dim);
  }
  if (first.get_if<Value::Dict>() != nullptr) return gather_dict(outputs, target, dim);
  if (first.get_if<Value::List>() != nullptr) return Value::List{gather_items(outputs, target, dim)};
  if (first.get_if<Value::Tuple>() != nullptr) return Value::Tuple{gather_items(outputs, target, dim)};
  for (const Value& output : outputs) {
    check(output.is_none(), "gather: expected tensors, containers of them, or None from every replica, found {} and {}", first.kind(),
          output.kind());
  }
  return {};
}

}  // namespace miniddp
