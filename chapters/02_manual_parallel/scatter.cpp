#include "chapters/02_manual_parallel/scatter.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "chapters/02_manual_parallel/chunks.h"
#include "common/autograd/node.h"
#include "common/core/recorder.h"

namespace miniddp {

std::vector<int64_t> chunk_sizes(int64_t size, size_t devices) {
  // BEGIN SOLUTION 02.1 chunk sizes
  if (size == 0) return std::vector<int64_t>(devices, 0);
  const auto count = static_cast<int64_t>(devices);
  const int64_t chunk = (size + count - 1) / count;
  std::vector<int64_t> sizes;
  for (int64_t start = 0; start < size; start += chunk) sizes.push_back(std::min(chunk, size - start));
  return sizes;
  // END SOLUTION
}

std::vector<Tensor> scatter(const Tensor& input, const std::vector<Device>& devices, int64_t dim, const std::vector<int64_t>& given) {
  check(!devices.empty(), "scatter needs at least one device");
  check<ShapeError>(input.dim() > 0, "chunk expects at least a 1-dimensional tensor, found {}", input.describe());
  dim = resolve_dim(dim, input.shape());
  const std::vector<int64_t> sizes = given.empty() ? chunk_sizes(input.size(dim), devices.size()) : given;
  if (!given.empty()) {
    const int64_t sum = std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
    check<ShapeError>(sizes.size() == devices.size(), "scatter: expected a size for each of {} devices, found {}", devices.size(), sizes.size());
    check<ShapeError>(*std::min_element(sizes.begin(), sizes.end()) > 0, "scatter: expected chunk sizes above 0, found {}", to_string(sizes));
    check<ShapeError>(sum == input.size(dim),
                      "given chunk sizes don't sum up to the tensor's size (sum(chunk_sizes) == {}, but expected {})", sum, input.size(dim));
  }

  const Span span("scatter", input.device());
  std::vector<Tensor> chunks = split(input, sizes, devices, dim, {"scatter", "input"});
  std::vector<Tensor*> outputs;
  for (Tensor& chunk : chunks) outputs.push_back(&chunk);
  record("Scatter", input.device(), {input}, outputs,
         [shape = input.shape(), home = input.device(), dtype = input.dtype(), sizes, dim](Grads grads) {
           Tensor gradient = Tensor::empty(shape, dtype, home);
           join(grads, sizes, dim, gradient, {"scatter", "gradients"});
           return Grads{gradient};
         });
  return chunks;
}

namespace {

// Calls visit(tensor) for every tensor in a value.
template <class Visit>
void for_each_tensor(const Value& value, const Visit& visit) {
  if (const auto* tensor = value.get_if<Tensor>()) {
    visit(*tensor);
  } else if (const auto* dict = value.get_if<Value::Dict>()) {
    for (const auto& [key, item] : dict->items) for_each_tensor(item, visit);
  } else if (value.get_if<Value::List>() != nullptr || value.get_if<Value::Tuple>() != nullptr) {
    for (const Value& item : value.items()) for_each_tensor(item, visit);
  }
}

struct ValueScatter {
  const std::vector<Device>& devices;
  int64_t dim;
  size_t count;  // chunks

  // One value for each chunk, of the same kind as the whole one.
  std::vector<Value> operator()(const Value& value) const {
    std::vector<Value> parts(count, value);
    if (const auto* tensor = value.get_if<Tensor>()) {
      const std::vector<Tensor> chunks = scatter(*tensor, devices, dim);
      std::copy(chunks.begin(), chunks.end(), parts.begin());
    } else if (const auto* list = value.get_if<Value::List>()) {
      const auto items = each(list->items);
      for (size_t i = 0; i < count; ++i) parts[i] = Value::List{items[i]};
    } else if (const auto* tuple = value.get_if<Value::Tuple>()) {
      const auto items = each(tuple->items);
      for (size_t i = 0; i < count; ++i) parts[i] = Value::Tuple{items[i]};
    } else if (const auto* dict = value.get_if<Value::Dict>()) {
      const auto items = each(*dict);
      for (size_t i = 0; i < count; ++i) parts[i] = items[i];
    }
    return parts;
  }

  // Of several values: the parts of all of them, for each chunk.
  std::vector<std::vector<Value>> each(const std::vector<Value>& values) const {
    std::vector<std::vector<Value>> parts(count);
    for (const Value& value : values) {
      const std::vector<Value> pieces = (*this)(value);
      for (size_t i = 0; i < count; ++i) parts[i].push_back(pieces[i]);
    }
    return parts;
  }

  std::vector<Value::Dict> each(const Value::Dict& dict) const {
    std::vector<Value::Dict> parts(count);
    for (const auto& [key, value] : dict.items) {
      const std::vector<Value> pieces = (*this)(value);
      for (size_t i = 0; i < count; ++i) parts[i].items.emplace_back(key, pieces[i]);
    }
    return parts;
  }
};

}  // namespace

std::vector<Inputs> scatter(const Inputs& inputs, const std::vector<Device>& devices, int64_t dim) {
  std::optional<size_t> count;
  const auto count_chunks = [&](const Tensor& tensor) {
    check<ShapeError>(tensor.dim() > 0, "chunk expects at least a 1-dimensional tensor, found {}", tensor.describe());
    const size_t chunks = chunk_sizes(tensor.size(dim), devices.size()).size();
    count = count.value_or(chunks);
    check<ShapeError>(*count == chunks,
                      "scatter: all tensors must make as many chunks, found {} and, from {}, {}; give them the same size in dimension {}",
                      *count, tensor.describe(), chunks, dim);
  };
  for (const Value& value : inputs.args) for_each_tensor(value, count_chunks);
  for_each_tensor(inputs.kwargs, count_chunks);

  const ValueScatter scatter_value{devices, dim, count.value_or(devices.size())};
  const auto args = scatter_value.each(inputs.args);
  const auto kwargs = scatter_value.each(inputs.kwargs);
  std::vector<Inputs> calls(scatter_value.count);
  for (size_t i = 0; i < calls.size(); ++i) calls[i] = {args[i], kwargs[i]};
  return calls;
}

}  // namespace miniddp
