#include "tests/support/ranks.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "common/core/error.h"
#include "common/kernels/kernels.h"

namespace miniddp::testing {
namespace {

using Clock = std::chrono::steady_clock;

struct Child {
  pid_t pid = -1;
  int pipe = -1;
  bool running = true;
};

int open_listener(int* port) {
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  check(fd >= 0 && ::bind(fd, reinterpret_cast<sockaddr*>(&address), length) == 0 && ::listen(fd, 64) == 0 &&
            ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length) == 0,
        "cannot listen: {}", std::strerror(errno));
  *port = ntohs(address.sin_port);
  return fd;
}

void set_variable(const char* name, const std::string& value) {
  ::setenv(name, value.c_str(), 1);
}

[[noreturn]] void run_child(int rank, int world_size, int listener, int port, int pipe, pid_t parent,
                            const RankFunction& function, const std::vector<std::string>& environment) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);
  set_variable("RANK", std::to_string(rank));
  set_variable("LOCAL_RANK", std::to_string(rank));
  set_variable("WORLD_SIZE", std::to_string(world_size));
  set_variable("LOCAL_WORLD_SIZE", std::to_string(world_size));
  set_variable("MASTER_ADDR", "127.0.0.1");
  set_variable("MASTER_PORT", std::to_string(port));
  set_variable("OMP_NUM_THREADS", "1");
  set_variable("MINIDDP_RUN_ID", fmt::format("test-{}-{}", parent, port));
  ::unsetenv("TORCHELASTIC_USE_AGENT_STORE");
  if (rank == 0) {
    set_variable("MINIDDP_STORE_FD", std::to_string(listener));
  } else {
    ::unsetenv("MINIDDP_STORE_FD");
    ::close(listener);
  }
  for (const std::string& entry : environment) {
    const size_t equals = entry.find('=');
    set_variable(entry.substr(0, equals).c_str(), entry.substr(equals + 1));
  }
  std::string message;
  try {
    set_threads_per_device(1);  // OpenMP's threads, if the parent had any, did not survive the fork
    message = "R" + function(rank);
  } catch (const std::exception& error) {
    message = std::string("E") + error.what();
  }
  for (size_t sent = 0; sent < message.size();) {
    const ssize_t count = ::write(pipe, message.data() + sent, message.size() - sent);
    if (count < 0) break;
    sent += static_cast<size_t>(count);
  }
  std::fflush(nullptr);
  ::_exit(0);  // the test program's own end is the parent's business
}

}  // namespace

std::vector<RankOutcome> run_ranks(int world_size, const RankFunction& function, std::chrono::seconds limit,
                                   const std::vector<std::string>& environment) {
  int port = 0;
  const int listener = open_listener(&port);
  const Clock::time_point start = Clock::now();
  const pid_t parent = ::getpid();
  std::fflush(nullptr);
  std::vector<Child> children(static_cast<size_t>(world_size));
  for (int rank = 0; rank < world_size; ++rank) {
    int ends[2];
    check(::pipe2(ends, O_CLOEXEC) == 0, "cannot make a pipe: {}", std::strerror(errno));
    const pid_t pid = ::fork();
    check(pid >= 0, "cannot fork: {}", std::strerror(errno));
    if (pid == 0) run_child(rank, world_size, listener, port, ends[1], parent, function, environment);
    ::close(ends[1]);
    children[static_cast<size_t>(rank)] = {pid, ends[0]};
  }
  ::close(listener);

  std::vector<RankOutcome> outcomes(children.size());
  for (size_t left = children.size(); left > 0;) {
    std::vector<pollfd> waits;
    for (const Child& child : children) waits.push_back({child.running ? child.pipe : -1, POLLIN, 0});
    const auto until = std::chrono::ceil<std::chrono::milliseconds>(start + limit - Clock::now()).count();
    ::poll(waits.data(), waits.size(), static_cast<int>(std::max<long>(0, until)));
    const bool late = Clock::now() >= start + limit;
    for (size_t i = 0; i < children.size(); ++i) {
      if (!children[i].running) continue;
      if (late) ::kill(children[i].pid, SIGKILL);
      if (!late && waits[i].revents == 0) continue;
      char buffer[65536];
      const ssize_t count = ::read(children[i].pipe, buffer, sizeof buffer);
      if (count > 0) outcomes[i].text.append(buffer, static_cast<size_t>(count));
      if (count > 0 || (count < 0 && errno == EINTR)) continue;
      ::close(children[i].pipe);
      int status = 0;
      ::waitpid(children[i].pid, &status, 0);
      children[i].running = false;
      --left;
      RankOutcome& outcome = outcomes[i];
      outcome.seconds = std::chrono::duration<double>(Clock::now() - start).count();
      outcome.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
      outcome.returned = outcome.text.starts_with("R") && outcome.signal == 0;
      if (!outcome.text.empty()) outcome.text.erase(0, 1);
    }
  }
  return outcomes;
}

std::vector<std::string> run_ranks_all(int world_size, const RankFunction& function,
                                       std::chrono::seconds limit,
                                       const std::vector<std::string>& environment) {
  const auto outcomes = run_ranks(world_size, function, limit, environment);
  std::vector<std::string> results;
  for (const RankOutcome& outcome : outcomes) {
    check(outcome.returned, "not every rank returned:\n{}", describe(outcomes));
    results.push_back(outcome.text);
  }
  return results;
}

std::string describe(const std::vector<RankOutcome>& outcomes) {
  std::string text;
  for (size_t rank = 0; rank < outcomes.size(); ++rank) {
    const RankOutcome& outcome = outcomes[rank];
    text += fmt::format("rank {} after {:.2f} s: {} {}\n", rank, outcome.seconds,
                        outcome.signal     ? fmt::format("killed by signal {}", outcome.signal)
                        : outcome.returned ? "returned"
                                           : "threw",
                        outcome.text);
  }
  return text;
}

}  // namespace miniddp::testing
