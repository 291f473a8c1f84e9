#include "chapters/04_process_group/host_process_group.h"

#include <cstdlib>
#include <exception>

namespace miniddp {

namespace {
constexpr Milliseconds farewell{1000};
}

/// Finished by the communication thread, waited for by the caller.
class HostProcessGroup::HostWork : public Work {
 public:
  bool is_completed() const override {
    const std::lock_guard lock(mutex_);
    return done_;
  }

  void wait() override {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return done_; });  // bounded: the operation has its own limit
    if (error_) std::rethrow_exception(error_);
  }

  Clock::time_point start_time() const override { return start_; }
  Clock::time_point end_time() const override { return end_; }
  int64_t bytes_sent() const override { return bytes_sent_; }

  void begin() { start_ = Clock::now(); }

  void finish(int64_t bytes_sent, std::exception_ptr error) {
    const std::lock_guard lock(mutex_);
    end_ = Clock::now();
    bytes_sent_ = bytes_sent;
    error_ = std::move(error);
    done_ = true;
    changed_.notify_all();
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool done_ = false;
  std::exception_ptr error_;
  Clock::time_point start_{}, end_{};
  int64_t bytes_sent_ = 0;
};

HostProcessGroup::HostProcessGroup(int rank, int size, std::shared_ptr<TcpStore> store,
                                   std::shared_ptr<Store> keys, std::unique_ptr<HostBackend> backend,
                                   DebugLevel debug)
    : ProcessGroup(rank, size),
      store_(std::move(store)),
      keys_(std::move(keys)),
      reporter_(std::static_pointer_cast<TcpStore>(store_->clone())),
      watched_(std::static_pointer_cast<TcpStore>(store_->clone())),
      backend_(std::move(backend)),
      debug_(debug) {
  communicator_ = std::thread([this] { communicate(); });
  watcher_ = std::thread([this] { watch(); });
}

HostProcessGroup::~HostProcessGroup() {
  take_leave();
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    if (unusable_.empty()) unusable_ = "it was destroyed";
  }
  changed_.notify_all();
  watched_->interrupt();
  backend_->abort();
  communicator_.join();
  watcher_.join();
}

// TCP throws away what a peer has not read yet when the other end closes with bytes unread, as Gloo does. So a rank
// that is done waits until all are, or for a moment: somebody may never come.
void HostProcessGroup::take_leave() noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (!unusable_.empty() || std::uncaught_exceptions() > 0) return;
  }
  try {
    if (keys_->add("leaving", 1) == size()) {
      keys_->set("all are leaving", "");
    } else {
      keys_->wait({"all are leaving"}, farewell);
    }
  } catch (const std::exception&) {  // too late for somebody, who will say so
  }
}

WorkPtr HostProcessGroup::submit(Collective collective) {
  auto work = std::make_shared<HostWork>();
  {
    const std::lock_guard lock(mutex_);
    tasks_.push_back({work, std::move(collective)});
  }
  changed_.notify_all();
  return work;
}

void HostProcessGroup::communicate() {
  while (true) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return stop_ || !tasks_.empty(); });
    if (tasks_.empty()) return;
    Task task = std::move(tasks_.front());
    tasks_.pop_front();
    const std::string unusable = unusable_;
    lock.unlock();

    task.work->begin();
    try {
      check<DistBackendError>(unusable.empty(), "{}: this process group cannot be used any more: {}",
                              name_of(task.collective.kind), unusable);
      task.work->finish(run(task.collective), nullptr);
    } catch (const std::exception& error) {
      task.work->finish(0, unusable.empty() ? failed(task.collective, error) : std::current_exception());
    }
  }
}

int64_t HostProcessGroup::run(Collective& collective) {
  const Deadline deadline(collective.timeout);
  if (debug_ == DebugLevel::detail && !collective.is_point_to_point()) check_detail(collective, deadline);
  if (collective.kind == CollectiveKind::monitored_barrier) {
    run_monitored_barrier(collective, deadline);
    return 0;
  }
  const bool on_host = !collective.own().defined() || collective.own().device().type == DeviceType::cpu;
  if (on_host) return backend_->run(collective, deadline);

  Collective staged = collective;
  for (Tensor& tensor : staged.inputs) tensor = tensor.detach().to(Device{});
  for (size_t i = 0; i < staged.outputs.size(); ++i) {
    const bool in_place = !collective.inputs.empty() && collective.inputs[0].is_same(collective.outputs[i]);
    staged.outputs[i] = in_place
                            ? staged.inputs[0]
                            : Tensor::empty(collective.outputs[i].shape(), collective.outputs[i].dtype());
  }
  const int64_t bytes = backend_->run(staged, deadline);
  for (size_t i = 0; i < staged.outputs.size(); ++i) collective.outputs[i].copy_(staged.outputs[i]);
  return bytes;
}

void HostProcessGroup::check_detail(const Collective& collective, const Deadline& deadline) {
  const auto key = [](uint32_t sequence, int rank) { return fmt::format("detail/{}/{}", sequence, rank); };
  const std::string mine = collective.describe();
  keys_->set(key(collective.sequence, rank()), mine);
  // Everybody has read what I wrote two operations ago: they have all begun the last one since.
  if (collective.sequence >= 2) keys_->delete_key(key(collective.sequence - 2, rank()));
  std::string differing;
  for (int other = 0; other < size(); ++other) {
    keys_->wait({key(collective.sequence, other)}, Milliseconds(deadline.left_ms()));
    const std::string theirs = keys_->get(key(collective.sequence, other));
    if (theirs != mine) differing += fmt::format(", but rank {} is running {}", other, theirs);
  }
  check<DistBackendError>(
      differing.empty(),
      "Detected mismatch between collectives on ranks (operation {}). Rank {} is running {}{}",
      collective.sequence, rank(), mine, differing);
}

void HostProcessGroup::run_monitored_barrier(const Collective& collective, const Deadline& deadline) {
  const auto key = [&](const std::string& what) {
    return fmt::format("monitored_barrier/{}/{}", collective.sequence, what);
  };
  if (rank() != 0) {
    keys_->set(key(std::to_string(rank())), "");
    // Rank 0 decides; it needs its whole limit, and its verdict some time to come here.
    keys_->wait({key("verdict")}, collective.timeout + Milliseconds(5000));
    const std::string verdict = keys_->get(key("verdict"));
    check<DistBackendError>(verdict.empty(),
                            "Rank {} successfully reached monitored_barrier, but rank 0 says: {}", rank(),
                            verdict);
    return;
  }
  std::string missing;
  int count = 0;
  for (int other = 1; other < size(); ++other) {
    try {
      keys_->wait({key(std::to_string(other))}, Milliseconds(deadline.left_ms()));
    } catch (const TimeoutError&) {
      missing += fmt::format("{}{}", count++ > 0 ? ", " : "", other);
      if (!collective.wait_all_ranks) break;
    }
  }
  std::string verdict;
  if (count > 0) {
    verdict = fmt::format("[Rank 0]: Rank{} {} failed to pass monitored_barrier in {} ms",
                          count > 1 ? "s" : "", missing, collective.timeout.count());
  }
  keys_->set(key("verdict"), verdict);
  check<TimeoutError>(count == 0, "{}", verdict);
}

std::exception_ptr HostProcessGroup::failed(const Collective& collective, const std::exception& error) {
  const bool late = dynamic_cast<const TimeoutError*>(&error) != nullptr;
  const bool lost = dynamic_cast<const DistNetworkError*>(&error) != nullptr;
  std::string what = fmt::format("{} failed on rank {}: {}", collective.describe(), rank(), error.what());
  const std::string cause = find_cause(lost, what);
  if (!cause.empty() && cause != what) what += ". Cause: " + cause;
  {
    const std::lock_guard lock(mutex_);
    if (unusable_.empty()) unusable_ = what;
  }
  backend_->abort();
  return late ? std::make_exception_ptr(TimeoutError(what)) : std::make_exception_ptr(DistBackendError(what));
}

// A lost connection is only a symptom: another rank, or the store, knows more. Anything else is news for the
// others.
std::string HostProcessGroup::find_cause(bool connection_lost, const std::string& own_account) {
  std::string departures;
  {
    std::unique_lock lock(mutex_);
    if (connection_lost)
      changed_.wait_for(lock, std::chrono::milliseconds(200), [this] { return stop_ || !cause_.empty(); });
    if (!cause_.empty()) return cause_;
    if (stop_) return unusable_;
  }
  try {
    if (connection_lost) {
      const std::string cause = reporter_->watch(Milliseconds(500), &departures);
      if (!cause.empty()) return cause;
      if (!departures.empty()) return reporter_->report(departures);
    }
    return reporter_->report(own_account);
  } catch (const std::exception& error) {
    return error.what();  // the store has gone, and with it rank 0
  }
}

void HostProcessGroup::watch() {
  std::string cause;
  while (cause.empty()) {
    try {
      cause = watched_->watch(Milliseconds(60'000));
    } catch (const std::exception& error) {
      cause = error.what();
    }
    const std::lock_guard lock(mutex_);
    if (stop_) return;
    if (cause.empty()) continue;
    cause_ = cause;
    if (unusable_.empty()) unusable_ = cause;
  }
  changed_.notify_all();
  backend_->abort();
}

DebugLevel debug_level() {
  const char* value = std::getenv("MINIDDP_DEBUG");
  std::string text = value ? value : "";
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  if (text.empty() || text == "off") return DebugLevel::off;
  if (text == "info") return DebugLevel::info;
  check(text == "detail", "The value of MINIDDP_DEBUG must be OFF, INFO, or DETAIL, found \"{}\"", value);
  return DebugLevel::detail;
}

}  // namespace miniddp
