#include "common/launch/supervisor.h"

#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "common/core/console.h"
#include "common/core/error.h"
#include "common/launch/process_tree.h"

namespace miniddp {

namespace {

double seconds(RankProcess::Clock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

RankProcess::Clock::duration duration_of(double seconds) {
  return std::chrono::duration_cast<RankProcess::Clock::duration>(std::chrono::duration<double>(seconds));
}

}  // namespace

Supervisor::Supervisor(LaunchPlan plan) : plan_(std::move(plan)), start_(Clock::now()) {
  sigset_t set;
  sigemptyset(&set);
  for (int signal : {SIGCHLD, SIGINT, SIGTERM, SIGHUP}) sigaddset(&set, signal);
  sigprocmask(SIG_BLOCK, &set, nullptr);
  signals_ = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
  check(signals_ >= 0, "cannot receive signals: {}", std::strerror(errno));
  signal(SIGPIPE, SIG_IGN);
}

Supervisor::~Supervisor() {
  if (signals_ >= 0) close(signals_);
}

int Supervisor::run() {
  try {
    start_ranks();
  } catch (...) {
    kill_descendants();
    throw;
  }
  while (running() > 0) step();
  // A program may have left children of its own. They hold the pipes open, and they are not to outlive the
  // launch.
  kill_descendants();
  for (RankProcess& rank : ranks_) rank.finish_output();
  return report();
}

void Supervisor::start_ranks() {
  ranks_.reserve(static_cast<size_t>(plan_.options.nproc));
  for (int rank = 0; rank < plan_.options.nproc; ++rank) ranks_.emplace_back(plan_, rank);
  // From now on the socket is rank 0's alone: it closes when rank 0 ends, and late ranks are refused at once.
  if (plan_.store_socket >= 0) close(plan_.store_socket);
}

int Supervisor::running() const {
  return static_cast<int>(
      std::count_if(ranks_.begin(), ranks_.end(), [](const RankProcess& rank) { return rank.running(); }));
}

void Supervisor::step() {
  std::vector<pollfd> waits = {{signals_, POLLIN, 0}};
  for (const RankProcess& rank : ranks_) {
    for (int fd : {rank.output(), rank.error_output()}) {
      if (fd >= 0) waits.push_back({fd, POLLIN, 0});
    }
  }
  int wait_ms = 1000;
  for (const auto& limit :
       {kill_at_, plan_.options.timeout > 0 ? std::optional(start_ + duration_of(plan_.options.timeout))
                                            : std::nullopt}) {
    if (limit) wait_ms = std::clamp(static_cast<int>(seconds(*limit - Clock::now()) * 1000) + 1, 1, wait_ms);
  }
  if (poll(waits.data(), waits.size(), wait_ms) < 0 && errno != EINTR)
    throw Error("poll: {}", std::strerror(errno));
  for (RankProcess& rank : ranks_) rank.forward_output();
  handle_signals();
  check_limits();
}

void Supervisor::handle_signals() {
  signalfd_siginfo info;
  while (read(signals_, &info, sizeof info) == sizeof info) {
    const int signal = static_cast<int>(info.ssi_signo);
    if (signal == SIGCHLD) continue;  // reaped below, however many signals were merged
    if (!interrupted_by_) {
      interrupted_by_ = signal;
      print_errors("launch: signal {} ({}) received: ending all ranks\n", signal, strsignal(signal));
      begin_stop();
    } else {
      kill_at_ = Clock::now();  // asked twice: no more grace
    }
  }
  reap();
}

void Supervisor::reap() {
  std::vector<int> failed;
  int status = 0;
  while (true) {
    const pid_t pid = waitpid(-1, &status, WNOHANG);
    if (pid <= 0) break;
    for (size_t i = 0; i < ranks_.size(); ++i) {
      if (ranks_[i].pid() != pid) continue;
      ranks_[i].ended(status);
      ranks_[i].forward_output();
      if (ranks_[i].failed()) failed.push_back(static_cast<int>(i));
    }
  }
  if (failed.empty() || first_failure_ || kill_at_) return;
  // Several may have ended since the last look. One that was killed is the cause, one that exited with an
  // error has probably only lost its connection to it.
  const auto killed = std::find_if(failed.begin(), failed.end(), [this](int i) {
    return ranks_[static_cast<size_t>(i)].killed_by_signal();
  });
  first_failure_ = killed != failed.end() ? *killed : failed.front();
  begin_stop();
}

void Supervisor::begin_stop() {
  kill_at_ = Clock::now() + duration_of(plan_.options.grace);
  for (const RankProcess& rank : ranks_) {
    if (rank.running()) rank.signal_group(SIGTERM);
  }
}

void Supervisor::check_limits() {
  const Clock::time_point now = Clock::now();
  if (plan_.options.timeout > 0 && !timed_out_ && !kill_at_ &&
      now >= start_ + duration_of(plan_.options.timeout)) {
    timed_out_ = true;
    print_errors("launch: the time limit of {} s is reached: ending all ranks\n",
               plan_.options.timeout);
    begin_stop();
  }
  if (!kill_at_ || now < *kill_at_) return;
  for (const RankProcess& rank : ranks_) {
    if (!rank.running()) continue;
    if (!killed_)
      print_errors("launch: rank {} did not end within {} s of SIGTERM: killing it\n", rank.rank(),
                 plan_.options.grace);
    rank.signal_group(SIGKILL);
  }
  killed_ = true;
  kill_at_ = now + std::chrono::milliseconds(100);
}

int Supervisor::report() {
  if (interrupted_by_) return 128 + interrupted_by_;
  if (timed_out_) return 124;
  if (!first_failure_) return 0;
  const RankProcess& first = ranks_[static_cast<size_t>(*first_failure_)];
  if (!plan_.options.report_failures) return first.exit_code();
  print_errors("launch: rank {} failed first: {}, {:.1f} s after the start\n", first.rank(),
             first.how_it_ended(), seconds(first.end_time() - start_));
  if (const auto lines = first.last_lines().lines(); !lines.empty()) {
    print_errors("launch: the last lines of rank {}:\n", first.rank());
    for (const std::string& line : lines) print_terminal("    {}\n", line);
  }
  for (const RankProcess& rank : ranks_) {
    if (!rank.failed() && rank.end_time() < first.end_time()) {
      print_errors("launch: rank {} had ended {:.1f} s before, with exit code 0: did it return early?\n",
                   rank.rank(), seconds(first.end_time() - rank.end_time()));
    }
  }
  return first.exit_code();
}

}  // namespace miniddp
