#include "chapters/04_process_group/gloo_backend.h"

#include <gloo/transport/tcp/device.h>
#include <signal.h>

#include <thread>

namespace miniddp {

namespace {

// What Gloo knows of a store.
class GlooStore : public ::gloo::rendezvous::Store {
 public:
  explicit GlooStore(miniddp::Store& store) : store_(store) {}

  void set(const std::string& key, const std::vector<char>& data) override {
    store_.set(key, std::string(data.begin(), data.end()));
  }
  std::vector<char> get(const std::string& key) override {
    const std::string value = store_.get(key);
    return {value.begin(), value.end()};
  }
  void wait(const std::vector<std::string>& keys) override { store_.wait(keys); }
  void wait(const std::vector<std::string>& keys, const std::chrono::milliseconds& timeout) override {
    store_.wait(keys, timeout);
  }

 private:
  miniddp::Store& store_;
};

// Slots of our own messages, apart from those that Gloo's collectives use.
constexpr uint64_t agreement_slot = 0x40ull << 56;
constexpr uint64_t abort_slot = 0x41ull << 56;

// One rank tells the next what it is about to do, and whether it has heard of anybody who does something
// else.
struct Agreement {
  Fingerprint mine;
  int32_t other_rank = -1;
  uint32_t padding = 0;
  Fingerprint others;
};

}  // namespace

GlooBackend::GlooBackend(int rank, int size, Store& keys, const std::string& address, Milliseconds timeout)
    : rank_(rank), size_(size) {
  // A connection that breaks while Gloo writes must be an error, not the end of the process.
  struct sigaction current {};
  if (sigaction(SIGPIPE, nullptr, &current) == 0 && current.sa_handler == SIG_DFL) signal(SIGPIPE, SIG_IGN);

  // By number: Gloo would otherwise ask what this machine's own name means, which in containers is often
  // nothing.
  ::gloo::transport::tcp::attr attributes;
  attributes.hostname = address;
  std::shared_ptr<::gloo::transport::Device> device = ::gloo::transport::tcp::CreateDevice(attributes);
  context_ = std::make_shared<::gloo::rendezvous::Context>(rank, size);
  context_->setTimeout(timeout);
  GlooStore store(keys);
  context_->connectFullMesh(store, device);
  guard_ = std::thread([this] { guard(); });
}

GlooBackend::~GlooBackend() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  guard_.join();
  kept_.clear();
  context_->closeConnections();
}

int64_t GlooBackend::run(const Collective& collective, const Deadline& deadline) {
  {
    const std::lock_guard lock(mutex_);
    check<DistNetworkError>(!aborted_, "the group was ended");
    limit_ = deadline;
  }
  std::string problem;
  int64_t bytes = 0;
  try {
    if (!collective.is_point_to_point()) agree(collective.fingerprint(), deadline);
    bytes = dispatch(collective, deadline);
  } catch (const ::gloo::Exception& error) {
    problem = error.what();
  }
  {
    const std::lock_guard lock(mutex_);
    limit_.reset();
  }
  if (!problem.empty() && deadline.passed())
    throw TimeoutError("timed out after {}; Gloo says: {}", deadline.str(), problem);
  if (!problem.empty()) throw DistNetworkError("lost a connection; Gloo says: {}", problem);
  return bytes;
}

// A dissemination: in round k each rank hears what the 2^k ranks to its left have heard. So after log2(R)
// rounds everybody knows whether all agree, and nobody begins before.
void GlooBackend::agree(const Fingerprint& what, const Deadline& deadline) {
  Agreement out{what, -1, 0, {}}, in;
  const Buffer sending = buffer(&out, sizeof out), receiving = buffer(&in, sizeof in);
  uint64_t slot = agreement_slot;
  for (int distance = 1; distance < size_; distance *= 2, ++slot) {
    const int left = (rank_ - distance + size_) % size_;
    receiving->recv(left, slot);
    sending->send((rank_ + distance) % size_, slot);
    receiving->waitRecv(Milliseconds(deadline.left_ms() + 1));
    sending->waitSend(Milliseconds(deadline.left_ms() + 1));
    if (out.other_rank >= 0) continue;
    if (in.mine != what) {
      out.other_rank = left;
      out.others = in.mine;
    } else if (in.other_rank >= 0) {
      out.other_rank = in.other_rank;
      out.others = in.others;
    }
  }
  check(out.other_rank < 0, "{}", mismatch_message(rank_, what, out.other_rank, out.others));
}

void GlooBackend::guard() {
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, Milliseconds(50), [this] { return stop_; })) {
    if (!limit_ || !limit_->passed() || aborted_) continue;
    lock.unlock();
    abort();
    lock.lock();
  }
}

// Gloo has no call for this, but a receive that times out closes every connection of the context and wakes
// every waiter; so receive what nobody will ever send.
void GlooBackend::abort() {
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(aborted_, true)) return;
  }
  if (size_ < 2) return;
  try {
    char byte = 0;
    const Buffer never = buffer(&byte, 1);
    never->recv((rank_ + 1) % size_, abort_slot);
    never->waitRecv(Milliseconds(1));
  } catch (const std::exception&) {
    // As intended.
  }
}

std::unique_ptr<HostBackend> make_gloo_backend(int rank, int size, Store& keys, const std::string& address,
                                               Milliseconds timeout) {
  try {
    return std::make_unique<GlooBackend>(rank, size, keys, address, timeout);
  } catch (const ::gloo::Exception& error) {
    throw DistNetworkError("Gloo could not connect the ranks: {}", error.what());
  }
}

}  // namespace miniddp
