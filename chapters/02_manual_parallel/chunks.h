// Copies between a tensor and its chunks: what scatter and gather, and their backward functions, have in common.
#pragma once

#include <vector>

#include "common/tensor/tensor.h"

namespace miniddp {

/// What a profile calls the bytes that move.
struct TransferName {
  const char* phase;
  const char* kind;
};

/// Chunk i of `whole` along `dim`, sizes[i] long, on devices[i]. Without history. A chunk of dimension 0 that is on its device already is
/// a view.
std::vector<Tensor> split(const Tensor& whole, const std::vector<int64_t>& sizes, const std::vector<Device>& devices, int64_t dim,
                          TransferName name);

/// Fills `whole` with the chunks, one after another along `dim`; an undefined chunk counts as zeros of the size that sizes[i] says.
void join(const std::vector<Tensor>& chunks, const std::vector<int64_t>& sizes, int64_t dim, Tensor& whole, TransferName name);

}  // namespace miniddp
