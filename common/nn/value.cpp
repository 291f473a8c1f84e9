#include "common/nn/value.h"

#include <algorithm>

namespace miniddp {
namespace {

const Value* find(const Value::Dict& dict, const std::string& key) {
  const auto found = std::find_if(dict.items.begin(), dict.items.end(), [&](const auto& item) { return item.first == key; });
  return found == dict.items.end() ? nullptr : &found->second;
}

}  // namespace

std::string Value::kind() const {
  if (is_none()) return "None";
  if (get_if<Tensor>() != nullptr) return "a tensor";
  if (const auto* list = get_if<List>()) return fmt::format("a list of {}", list->items.size());
  if (const auto* tuple = get_if<Tuple>()) return fmt::format("a tuple of {}", tuple->items.size());
  if (const auto* dict = get_if<Dict>()) return fmt::format("a dictionary of {}", dict->items.size());
  return "an object";
}

const Tensor& Value::tensor() const {
  const auto* tensor = get_if<Tensor>();
  check(tensor != nullptr, "expected a tensor, found {}", kind());
  return *tensor;
}

const std::vector<Value>& Value::items() const {
  if (const auto* list = get_if<List>()) return list->items;
  const auto* tuple = get_if<Tuple>();
  check(tuple != nullptr, "expected a list or a tuple, found {}", kind());
  return tuple->items;
}

const Value& Value::at(size_t index) const {
  check(index < items().size(), "expected at least {} items, found {}", index + 1, kind());
  return items()[index];
}

const Value& Value::at(const std::string& key) const {
  const auto* dict = get_if<Dict>();
  check(dict != nullptr, "expected a dictionary, found {}", kind());
  const Value* value = find(*dict, key);
  check(value != nullptr, "the dictionary has no key \"{}\"", key);
  return *value;
}

Value Inputs::get(size_t place, const std::string& name, const Value& fallback) const {
  if (place < args.size()) return args[place];
  const Value* value = find(kwargs, name);
  return value == nullptr ? fallback : *value;
}

}  // namespace miniddp
