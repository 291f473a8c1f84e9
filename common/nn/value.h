// What a module may take and return besides one tensor: nothing, tensors in lists, tuples and dictionaries, any object.
#pragma once

#include <any>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "common/tensor/tensor.h"

namespace miniddp {

/// A Python-like value. Copying it copies handles: tensors and objects are shared.
class Value {
 public:
  struct List {
    std::vector<Value> items;
  };
  struct Tuple {
    std::vector<Value> items;
  };
  /// Keys keep the order in which they were put in.
  struct Dict {
    std::vector<std::pair<std::string, Value>> items;
  };

  /// None.
  Value() = default;
  Value(Tensor tensor) : held_(std::move(tensor)) {}
  Value(List list) : held_(std::move(list)) {}
  Value(Tuple tuple) : held_(std::move(tuple)) {}
  Value(Dict dict) : held_(std::move(dict)) {}
  /// Anything else: a number, a text, a pointer.
  template <class T>
  static Value object(T thing) {
    Value value;
    value.held_ = std::make_shared<const std::any>(std::move(thing));
    return value;
  }

  bool is_none() const { return std::holds_alternative<std::monostate>(held_); }
  /// The Tensor, List, Tuple or Dict in it; nullptr if it holds something else.
  template <class T>
  const T* get_if() const {
    return std::get_if<T>(&held_);
  }

  // The content, if it is of that kind; otherwise Error, naming both kinds.
  const Tensor& tensor() const;
  /// Of a list or a tuple.
  const std::vector<Value>& items() const;
  const Value& at(size_t index) const;
  /// Of a dictionary.
  const Value& at(const std::string& key) const;
  template <class T>
  const T& as() const {
    const auto* object = std::get_if<Object>(&held_);
    const T* thing = object == nullptr ? nullptr : std::any_cast<T>(object->get());
    check(thing != nullptr, "expected an object of another type, found {}", kind());
    return *thing;
  }

  /// "a tensor", "a list of 3", "None": for messages.
  std::string kind() const;

 private:
  using Object = std::shared_ptr<const std::any>;
  std::variant<std::monostate, Tensor, List, Tuple, Dict, Object> held_;
};

/// The arguments of one call: positional ones and those with a name.
struct Inputs {
  std::vector<Value> args;
  Value::Dict kwargs;

  /// The argument with this place or name; `fallback` if it was not given.
  Value get(size_t place, const std::string& name, const Value& fallback = {}) const;
};

}  // namespace miniddp
