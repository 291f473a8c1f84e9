// What a Tensor handle points to. Only tensor.cpp and autograd include this.
#pragma once

#include <map>
#include <memory>
#include <mutex>

#include "common/tensor/tensor.h"

namespace miniddp {

struct TensorImpl : std::enable_shared_from_this<TensorImpl> {
  std::shared_ptr<Storage> storage;
  size_t offset = 0;  // bytes from the storage's start
  Shape shape;
  int64_t numel = 0;
  DType dtype = DType::float32;

  bool requires_grad = false;
  // An inner tensor: the node that made it, and which of the node's outputs it is.
  std::shared_ptr<Node> grad_fn;
  int output_index = 0;
  // A leaf: its gradient, the node that accumulates it (alive while a graph uses it) and who wants to be told.
  Tensor grad;
  std::weak_ptr<Node> accumulator;
  std::map<int, Tensor::GradHook> hooks;
  int next_hook = 0;
  std::mutex mutex;  // guards accumulator and hooks: replicas build their graphs side by side
};

}  // namespace miniddp
