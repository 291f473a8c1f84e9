#include "chapters/02_manual_parallel/broadcast.h"

#include "chapters/02_manual_parallel/check_copy.h"
#include "common/autograd/node.h"
#include "common/core/recorder.h"

namespace miniddp {
namespace {

// Tensors of one dtype that share a buffer, as indices into the list.
using Bucket = std::vector<size_t>;

// In order, a bucket is closed when the next tensor would not fit any more; a tensor larger than the limit has one to itself.
std::vector<Bucket> buckets_of(const std::vector<Tensor>& tensors, size_t limit) {
  std::vector<Bucket> buckets;
  size_t filled = 0;
  for (const DType dtype : {DType::float32, DType::float64, DType::int64, DType::uint8, DType::float16, DType::bfloat16}) {
    bool open = false;
    for (size_t i = 0; i < tensors.size(); ++i) {
      if (tensors[i].dtype() != dtype) continue;
      if (!open || filled + tensors[i].nbytes() > limit) {
        buckets.emplace_back();
        filled = 0;
        open = true;
      }
      buckets.back().push_back(i);
      filled += tensors[i].nbytes();
    }
  }
  return buckets;
}

int64_t numel_of(const std::vector<Tensor>& like, const Bucket& bucket) {
  int64_t total = 0;
  for (const size_t i : bucket) total += like[i].numel();
  return total;
}

// The bucket's tensors one after another in one flat tensor on `device`, where they are; undefined ones as zeros.
Tensor flatten(const std::vector<Tensor>& tensors, const std::vector<Tensor>& like, const Bucket& bucket, Device device) {
  Tensor flat = Tensor::empty({numel_of(like, bucket)}, like[bucket[0]].dtype(), device);
  int64_t start = 0;
  for (const size_t i : bucket) {
    Tensor place = flat.narrow(start, like[i].numel());
    if (tensors[i].defined()) {
      place.copy_(tensors[i].detach().view({-1}));
    } else {
      place.zero_();
    }
    start += like[i].numel();
  }
  return flat;
}

// The reverse: out[i] is a view of the flat tensor.
void unflatten(const Tensor& flat, const std::vector<Tensor>& like, const Bucket& bucket, std::vector<Tensor>& out) {
  int64_t start = 0;
  for (const size_t i : bucket) {
    out[i] = flat.narrow(start, like[i].numel()).view(like[i].shape());
    start += like[i].numel();
  }
}

// A copy on `device`, counted. Unlike Tensor::to a copy even if it is there already, and not recorded.
Tensor copy_to(const Tensor& tensor, Device device, const char* phase, const char* kind) {
  Tensor copy = Tensor::empty(tensor.shape(), tensor.dtype(), device);
  copy.copy_(tensor);
  count_transfer(phase, kind, tensor.device(), device, static_cast<int64_t>(tensor.nbytes()));
  return copy;
}

}  // namespace

std::vector<Tensor> reduce_add_coalesced(const std::vector<std::vector<Tensor>>& gradients, const std::vector<Tensor>& like, Device target,
                                         const std::vector<Device>& devices, size_t buffer_bytes) {
  const Span span("reduce", target);
  // BEGIN SOLUTION 02.5 replicate's backward
  std::vector<Tensor> sums(like.size());
  for (const Bucket& bucket : buckets_of(like, buffer_bytes)) {
    Tensor sum = flatten(gradients[0], like, bucket, devices[0]);
    if (devices[0] != target) sum = copy_to(sum, target, "reduce", "gradients");
    for (size_t d = 1; d < devices.size(); ++d) {
      const Tensor flat = flatten(gradients[d], like, bucket, devices[d]);
      sum.add_(devices[d] == target ? flat : copy_to(flat, target, "reduce", "gradients"));
    }
    unflatten(sum, like, bucket, sums);
  }
  return sums;
  // END SOLUTION
}

std::vector<std::vector<Tensor>> broadcast_coalesced(const std::vector<Tensor>& tensors, const std::vector<Device>& devices,
                                                     size_t buffer_bytes, const char* kind) {
  check(!devices.empty(), "broadcast needs at least one device");
  std::vector<std::vector<Tensor>> copies(devices.size(), std::vector<Tensor>(tensors.size()));
  for (size_t i = 0; i < tensors.size(); ++i) {
    check<DeviceError>(tensors[i].device() == devices[0], "broadcast: expected all tensors on {}, the first device, found {}",
                       devices[0].str(), tensors[i].describe());
    copies[0][i] = tensors[i].detach();
  }
  if (devices.size() > 1) {
    for (Device device : devices) check_copy_once(devices[0], device);
    for (const Bucket& bucket : buckets_of(tensors, buffer_bytes)) {
      const Tensor flat = flatten(tensors, tensors, bucket, devices[0]);
      for (size_t d = 1; d < devices.size(); ++d) {
        unflatten(copy_to(flat, devices[d], "replicate", kind), tensors, bucket, copies[d]);
      }
    }
  }

  std::vector<Tensor*> outputs;
  for (auto& on_device : copies) {
    for (Tensor& copy : on_device) outputs.push_back(&copy);
  }
  // Backward needs to know how the tensors look. These handles have no history: saving the copies themselves would make a cycle.
  std::vector<Tensor> like;
  for (const Tensor& tensor : tensors) like.push_back(tensor.detach());
  record("Broadcast", devices[0], tensors, outputs, [like, devices, buffer_bytes](Grads grads) {
    std::vector<std::vector<Tensor>> on_device;
    for (size_t d = 0; d < devices.size(); ++d) {
      const auto first = grads.begin() + static_cast<std::ptrdiff_t>(d * like.size());
      on_device.emplace_back(first, first + static_cast<std::ptrdiff_t>(like.size()));
    }
    return reduce_add_coalesced(on_device, like, devices[0], devices, buffer_bytes);
  });
  return copies;
}

}  // namespace miniddp
