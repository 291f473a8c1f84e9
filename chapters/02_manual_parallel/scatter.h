// Scatter: one batch becomes one chunk for each device.
// Source: torch.nn.parallel.scatter, torch.nn.parallel.scatter_gather.
#pragma once

#include <vector>

#include "common/nn/value.h"
#include "common/tensor/tensor.h"

namespace miniddp {

/// How torch.chunk shares out `size` samples: every chunk has ceil(size / devices), the last one what is left. There may be fewer chunks
/// than devices: 5 on 4 devices are 2, 2, 1. Nothing (0) becomes `devices` empty chunks.
std::vector<int64_t> chunk_sizes(int64_t size, size_t devices);

/// Chunk i on devices[i]: input (B, …) -> (ceil(B/D), …), …. Fewer chunks than devices: the last devices get nothing. A chunk that is
/// on its device already, and in one piece (dim 0), shares the input's memory. `sizes` replaces chunk_sizes(): one for each device.
/// Differentiable: backward puts the chunks' gradients together on the input's device; a chunk without one counts as zeros.
/// Throws ShapeError for a scalar, or for sizes that are not positive or do not sum up to the dimension's size.
std::vector<Tensor> scatter(const Tensor& input, const std::vector<Device>& devices, int64_t dim = 0,
                            const std::vector<int64_t>& sizes = {});

/// The arguments of one call become those of one call for each chunk. Tensors are scattered wherever they are nested; containers keep
/// their kinds and order; everything else is shared by all. Without any tensor each device gets the arguments as they are.
/// Throws ShapeError unless all tensors make the same number of chunks (PyTorch drops chunks or arguments in silence there).
std::vector<Inputs> scatter(const Inputs& inputs, const std::vector<Device>& devices, int64_t dim = 0);

}  // namespace miniddp
