// The "ring" backend: every collective by hand, over send and receive.
#include "chapters/04_process_group/host_backend.h"
#include "chapters/04_process_group/ring_all_reduce.h"

#include <cstring>

namespace miniddp {

namespace {

std::span<std::byte> bytes_of(const Tensor& tensor) {
  return {static_cast<std::byte*>(tensor.raw_data()), tensor.nbytes()};
}

class RingBackend : public HostBackend {
 public:
  RingBackend(int rank, int size, Store& keys, const std::string& address, const Deadline& deadline)
      : links_(rank, size, keys, address, deadline), rank_(rank), size_(size) {}

  std::string name() const override { return "ring"; }
  void abort() override { links_.abort(); }

  int64_t run(const Collective& c, const Deadline& deadline) override {
    const int64_t before = links_.bytes_sent();
    const Fingerprint what = c.fingerprint();
    // A root that only sends would never hear that the others do something else.
    if (c.kind != CollectiveKind::barrier && !c.is_point_to_point() && c.root >= 0) barrier(what, deadline);
    switch (c.kind) {
      case CollectiveKind::broadcast:
        broadcast(what, c, deadline);
        break;
      case CollectiveKind::all_reduce: {
        const Tensor& tensor = c.inputs[0];
        ring_all_reduce(links_, what, bytes_of(tensor).data(), tensor.numel(), tensor.dtype(), c.op, inbox_,
                        deadline);
        break;
      }
      case CollectiveKind::reduce:
        reduce(what, c, deadline);
        break;
      case CollectiveKind::all_gather:
        all_gather(what, c, deadline);
        break;
      case CollectiveKind::reduce_scatter:
        reduce_scatter(what, c, deadline);
        break;
      case CollectiveKind::gather:
        gather(what, c, deadline);
        break;
      case CollectiveKind::scatter:
        scatter(what, c, deadline);
        break;
      case CollectiveKind::send:
        links_.send(what, c.root, bytes_of(c.inputs[0]), deadline);
        break;
      case CollectiveKind::recv:
        links_.receive(what, c.root, {bytes_of(c.outputs[0])}, deadline);
        break;
      case CollectiveKind::exchange:
        exchange(what, c, deadline);
        break;
      case CollectiveKind::barrier:
        barrier(what, deadline);
        break;
      case CollectiveKind::monitored_barrier:
        break;  // the group does it through the store
    }
    return links_.bytes_sent() - before;
  }

 private:
  // A binomial tree. Ranks are counted from the root; in each round those who have the data send it as far
  // again: 0 -> 1, then 0 -> 2 and 1 -> 3, then 0 -> 4 …
  void broadcast(const Fingerprint& what, const Collective& c, const Deadline& deadline) {
    const int me = (rank_ - c.root + size_) % size_;
    for (int have = 1; have < size_; have *= 2) {
      if (me < have && me + have < size_) {
        links_.send(what, (me + have + c.root) % size_, bytes_of(c.inputs[0]), deadline);
      } else if (me >= have && me < 2 * have) {
        links_.receive(what, (me - have + c.root) % size_, {bytes_of(c.inputs[0])}, deadline);
      }
    }
  }

  // The same tree backwards: the upper half sends its partial results down and is done.
  void reduce(const Fingerprint& what, const Collective& c, const Deadline& deadline) {
    const int me = (rank_ - c.root + size_) % size_;
    const auto bytes = bytes_of(c.inputs[0]);
    int have = 1;
    while (have < size_) have *= 2;
    for (have /= 2; have >= 1; have /= 2) {
      if (me < have && me + have < size_) {
        const auto inbox = inbox_of(bytes.size());
        links_.receive(what, (me + have + c.root) % size_, {inbox}, deadline);
        reduce_into(bytes.data(), inbox.data(), static_cast<size_t>(c.inputs[0].numel()), c.inputs[0].dtype(),
                    c.op);
      } else if (me >= have && me < 2 * have) {
        links_.send(what, (me - have + c.root) % size_, bytes, deadline);
      }
    }
    if (me == 0 && c.op == ReduceOp::avg)
      divide(bytes.data(), static_cast<size_t>(c.inputs[0].numel()), c.inputs[0].dtype(), size_);
  }

  // Each input travels round the ring once.
  void all_gather(const Fingerprint& what, const Collective& c, const Deadline& deadline) {
    copy(c.inputs[0], c.outputs[static_cast<size_t>(rank_)]);
    for (int step = 0; step < size_ - 1; ++step) {
      const auto out = static_cast<size_t>((rank_ - step + size_) % size_),
                 in = static_cast<size_t>((rank_ - step - 1 + size_) % size_);
      links_.exchange(what, right(), bytes_of(c.outputs[out]), left(), {bytes_of(c.outputs[in])}, deadline);
    }
  }

  // The first half of the all-reduce, one tensor a chunk, arranged so that rank r ends with chunk r.
  void reduce_scatter(const Fingerprint& what, const Collective& c, const Deadline& deadline) {
    const size_t nbytes = c.outputs[0].nbytes(), numel = static_cast<size_t>(c.outputs[0].numel());
    const auto inbox = inbox_of(2 * nbytes);
    auto partial = inbox.first(nbytes), arriving = inbox.subspan(nbytes, nbytes);
    const auto input = [&](int chunk) {
      return bytes_of(c.inputs[static_cast<size_t>((chunk + 2 * size_) % size_)]);
    };
    if (nbytes > 0) std::memcpy(partial.data(), input(rank_ - 1).data(), nbytes);
    for (int step = 0; step < size_ - 1; ++step) {
      links_.exchange(what, right(), partial, left(), {arriving}, deadline);
      reduce_into(arriving.data(), input(rank_ - step - 2).data(), numel, c.outputs[0].dtype(), c.op);
      std::swap(partial, arriving);
    }
    if (size_ == 1 && nbytes > 0) std::memcpy(partial.data(), input(0).data(), nbytes);
    if (c.op == ReduceOp::avg) divide(partial.data(), numel, c.outputs[0].dtype(), size_);
    if (nbytes > 0) std::memcpy(bytes_of(c.outputs[0]).data(), partial.data(), nbytes);
  }

  void gather(const Fingerprint& what, const Collective& c, const Deadline& deadline) {
    if (rank_ != c.root) return links_.send(what, c.root, bytes_of(c.inputs[0]), deadline);
    for (int from = 0; from < size_; ++from) {
      const Tensor& output = c.outputs[static_cast<size_t>(from)];
      if (from == rank_) {
        copy(c.inputs[0], output);
      } else {
        links_.receive(what, from, {bytes_of(output)}, deadline);
      }
    }
  }

  void scatter(const Fingerprint& what, const Collective& c, const Deadline& deadline) {
    if (rank_ != c.root) return links_.receive(what, c.root, {bytes_of(c.outputs[0])}, deadline);
    for (int to = 0; to < size_; ++to) {
      const Tensor& input = c.inputs[static_cast<size_t>(to)];
      if (to == rank_) {
        copy(input, c.outputs[0]);
      } else {
        links_.send(what, to, bytes_of(input), deadline);
      }
    }
  }

  void exchange(const Fingerprint& what, const Collective& c, const Deadline& deadline) {
    Fingerprint expected = what;
    expected.numel = static_cast<uint64_t>(c.outputs[0].numel());
    links_.exchange(what, c.root, bytes_of(c.inputs[0]), c.source, {bytes_of(c.outputs[0]), {}, expected},
                    deadline);
  }

  // After round k everybody has heard, directly or not, from the 2^(k+1) ranks to the left.
  void barrier(const Fingerprint& what, const Deadline& deadline) {
    for (int distance = 1; distance < size_; distance *= 2) {
      links_.exchange(what, (rank_ + distance) % size_, {}, (rank_ - distance + size_) % size_, {}, deadline);
    }
  }

  static void copy(const Tensor& from, const Tensor& to) {
    if (from.nbytes() > 0 && from.raw_data() != to.raw_data())
      std::memcpy(to.raw_data(), from.raw_data(), from.nbytes());
  }

  std::span<std::byte> inbox_of(size_t nbytes) {
    if (inbox_.size() < nbytes) inbox_.resize(nbytes);
    return std::span(inbox_).first(nbytes);
  }
  int right() const { return (rank_ + 1) % size_; }
  int left() const { return (rank_ - 1 + size_) % size_; }

  Links links_;
  int rank_;
  int size_;
  std::vector<std::byte> inbox_;  // kept: fresh pages cost more than the arithmetic
};

}  // namespace

std::unique_ptr<HostBackend> make_ring_backend(int rank, int size, Store& keys, const std::string& address,
                                               const Deadline& deadline) {
  return std::make_unique<RingBackend>(rank, size, keys, address, deadline);
}

}  // namespace miniddp
