#include "chapters/02_manual_parallel/chunks.h"

#include <algorithm>

#include "common/core/recorder.h"

namespace miniddp {
namespace {

// A tensor seen along one dimension: `outer` rows, each `size` slices of `slice` bytes. In row-major memory a chunk of that dimension is
// a piece of every row:
//
//   whole  |aaabb|aaabb|aaabb|      chunk a  |aaa|aaa|aaa|      chunk b  |bb|bb|bb|
struct Layout {
  Layout(const Tensor& tensor, int64_t dim) : slice(size_of(tensor.dtype())) {
    const Shape& shape = tensor.shape();
    const auto at = static_cast<size_t>(dim);
    for (size_t i = 0; i < at; ++i) outer *= static_cast<size_t>(shape[i]);
    for (size_t i = at + 1; i < shape.size(); ++i) slice *= static_cast<size_t>(shape[i]);
    pitch = static_cast<size_t>(shape[at]) * slice;
  }

  size_t outer = 1, slice, pitch = 0;
};

std::byte* bytes_of(const Tensor& tensor) { return static_cast<std::byte*>(tensor.raw_data()); }

}  // namespace

std::vector<Tensor> split(const Tensor& whole, const std::vector<int64_t>& sizes, const std::vector<Device>& devices, int64_t dim,
                          TransferName name) {
  const Layout layout(whole, dim);
  // BEGIN SOLUTION 02.2 a tensor's chunks
  std::vector<Tensor> chunks;
  int64_t start = 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (dim == 0 && devices[i] == whole.device()) {
      chunks.push_back(whole.detach().narrow(start, sizes[i]));
    } else {
      Shape shape = whole.shape();
      shape[static_cast<size_t>(dim)] = sizes[i];
      Tensor chunk = Tensor::empty(shape, whole.dtype(), devices[i]);
      const size_t width = static_cast<size_t>(sizes[i]) * layout.slice;
      copy_rows(chunk.raw_data(), devices[i], width, bytes_of(whole) + static_cast<size_t>(start) * layout.slice, whole.device(),
                layout.pitch, width, layout.outer);
      count_transfer(name.phase, name.kind, whole.device(), devices[i], static_cast<int64_t>(chunk.nbytes()));
      chunks.push_back(chunk);
    }
    start += sizes[i];
  }
  return chunks;
  // END SOLUTION
}

void join(const std::vector<Tensor>& chunks, const std::vector<int64_t>& sizes, int64_t dim, Tensor& whole, TransferName name) {
  const Layout layout(whole, dim);
  // BEGIN SOLUTION 02.3 chunks become one tensor
  if (std::any_of(chunks.begin(), chunks.end(), [](const Tensor& chunk) { return !chunk.defined(); })) whole.zero_();
  int64_t start = 0;
  for (size_t i = 0; i < chunks.size(); ++i) {
    if (chunks[i].defined()) {
      const size_t width = static_cast<size_t>(sizes[i]) * layout.slice;
      copy_rows(bytes_of(whole) + static_cast<size_t>(start) * layout.slice, whole.device(), layout.pitch, chunks[i].raw_data(),
                chunks[i].device(), width, width, layout.outer);
      count_transfer(name.phase, name.kind, chunks[i].device(), whole.device(), static_cast<int64_t>(chunks[i].nbytes()));
    }
    start += sizes[i];
  }
  // END SOLUTION
}

}  // namespace miniddp
