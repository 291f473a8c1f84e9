#include "common/launch/rank_process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "common/core/error.h"

namespace miniddp {

namespace {

void write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(fd, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return;  // nobody reads any more; the ranks go on
    text.remove_prefix(static_cast<size_t>(written));
  }
}

void set_variable(const char* name, const std::string& value) {
  setenv(name, value.c_str(), 1);
}

[[noreturn]] void run_rank(const LaunchPlan& plan, int rank, pid_t supervisor, int out, int err) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != supervisor) _exit(1);  // it died before the line above

  // The supervisor's signal handling is not the program's.
  signal(SIGPIPE, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);

  const int null = open("/dev/null", O_RDONLY);
  dup2(null, STDIN_FILENO);
  dup2(out, STDOUT_FILENO);
  dup2(err, STDERR_FILENO);

  const std::string world = std::to_string(plan.options.nproc);
  set_variable("RANK", std::to_string(rank));
  set_variable("LOCAL_RANK", std::to_string(rank));
  set_variable("WORLD_SIZE", world);
  set_variable("LOCAL_WORLD_SIZE", world);
  set_variable("MASTER_ADDR", plan.options.master_addr);
  set_variable("MASTER_PORT", std::to_string(plan.master_port));
  set_variable("MINIDDP_RUN_ID", plan.run_id);
  unsetenv("MINIDDP_STORE_FD");
  if (rank == 0 && plan.store_socket >= 0) {
    const int kept = dup(plan.store_socket);  // without close-on-exec: the program inherits it
    set_variable("MINIDDP_STORE_FD", std::to_string(kept));
  }
  if (plan.omp_threads > 0) set_variable("OMP_NUM_THREADS", std::to_string(plan.omp_threads));

  std::vector<char*> arguments;
  for (const std::string& argument : plan.options.command)
    arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  execvp(arguments[0], arguments.data());
  write_all(STDERR_FILENO, fmt::format("error: cannot run {}: {}\n", arguments[0], std::strerror(errno)));
  _exit(127);
}

}  // namespace

RankProcess::RankProcess(const LaunchPlan& plan, int rank) : rank_(rank), prefixed_(plan.options.prefix) {
  int out[2] = {-1, -1}, err[2] = {-1, -1};
  const bool made = pipe2(out, O_CLOEXEC) == 0 && pipe2(err, O_CLOEXEC) == 0;
  const pid_t supervisor = getpid();
  pid_ = made ? fork() : -1;
  if (pid_ == 0) run_rank(plan, rank, supervisor, out[1], err[1]);
  const int reason = errno;
  for (int fd : {out[1], err[1]}) {
    if (fd >= 0) close(fd);
  }
  pipes_[0] = out[0];
  pipes_[1] = err[0];
  check(pid_ > 0, "cannot start rank {}: {}", rank, std::strerror(reason));
  setpgid(pid_, pid_);  // the child does the same: whoever comes first
  for (int fd : pipes_) fcntl(fd, F_SETFL, O_NONBLOCK);
}

RankProcess::RankProcess(RankProcess&& other) noexcept
    : rank_(other.rank_),
      prefixed_(other.prefixed_),
      pid_(other.pid_),
      pipes_{std::exchange(other.pipes_[0], -1), std::exchange(other.pipes_[1], -1)},
      splitters_{std::move(other.splitters_[0]), std::move(other.splitters_[1])},
      last_lines_(std::move(other.last_lines_)),
      running_(other.running_),
      status_(other.status_),
      end_time_(other.end_time_) {}

RankProcess::~RankProcess() {
  for (int fd : pipes_) {
    if (fd >= 0) close(fd);
  }
}

std::string RankProcess::prefix() const {
  return prefixed_ ? fmt::format("[rank {}] ", rank_) : std::string();
}

void RankProcess::forward_output() {
  char buffer[16384];
  for (int i = 0; i < 2; ++i) {
    // A rank that writes without end must not keep the others from being served.
    for (int turn = 0; turn < 16 && pipes_[i] >= 0; ++turn) {
      const ssize_t got = read(pipes_[i], buffer, sizeof buffer);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) break;
      if (got == 0) {
        close(std::exchange(pipes_[i], -1));
        break;
      }
      const std::string_view piece(buffer, static_cast<size_t>(got));
      last_lines_.add(piece);
      write_all(i == 0 ? STDOUT_FILENO : STDERR_FILENO, splitters_[i].add(piece, prefix()));
    }
  }
}

void RankProcess::finish_output() {
  forward_output();
  write_all(STDOUT_FILENO, splitters_[0].finish(prefix()));
  write_all(STDERR_FILENO, splitters_[1].finish(prefix()));
}

void RankProcess::ended(int status) {
  running_ = false;
  status_ = status;
  end_time_ = Clock::now();
}

bool RankProcess::killed_by_signal() const {
  return WIFSIGNALED(status_);
}

int RankProcess::exit_code() const {
  return killed_by_signal() ? 128 + WTERMSIG(status_) : WEXITSTATUS(status_);
}

std::string RankProcess::how_it_ended() const {
  if (!killed_by_signal()) return fmt::format("exit code {}", WEXITSTATUS(status_));
  return fmt::format("killed by signal {} ({})", WTERMSIG(status_), strsignal(WTERMSIG(status_)));
}

void RankProcess::signal_group(int signal) const {
  kill(-pid_, signal);
}

}  // namespace miniddp
