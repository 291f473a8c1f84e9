#include "tests/support/run_program.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <sstream>
#include <thread>

#include "common/core/error.h"

namespace miniddp::testing {
namespace {

using Clock = std::chrono::steady_clock;

struct Pipe {
  int read_end = -1, write_end = -1;
  Pipe() {
    int ends[2];
    check(::pipe2(ends, O_CLOEXEC) == 0, "cannot make a pipe: {}", std::strerror(errno));
    read_end = ends[0];
    write_end = ends[1];
  }
  ~Pipe() {
    ::close(read_end);
    close_write_end();
  }
  void close_write_end() {
    if (write_end >= 0) ::close(write_end);
    write_end = -1;
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
};

std::vector<char*> pointers(std::vector<std::string>& strings) {
  std::vector<char*> result;
  for (std::string& string : strings) result.push_back(string.data());
  result.push_back(nullptr);
  return result;
}

std::vector<std::string> merged_environment(const std::map<std::string, std::string>& added) {
  std::vector<std::string> result;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    if (!added.contains(text.substr(0, text.find('=')))) result.push_back(text);
  }
  for (const auto& [name, value] : added) result.push_back(name + "=" + value);
  return result;
}

/// Reads both pipes until they close or the deadline passes. False at the deadline.
bool read_until_closed(std::array<int, 2> descriptors, std::array<std::string*, 2> texts, Clock::time_point deadline) {
  std::array<pollfd, 2> polled{pollfd{descriptors[0], POLLIN, 0}, pollfd{descriptors[1], POLLIN, 0}};
  while (polled[0].fd >= 0 || polled[1].fd >= 0) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) return false;
    if (::poll(polled.data(), polled.size(), static_cast<int>(left)) < 0 && errno != EINTR) return false;
    for (size_t i = 0; i < polled.size(); ++i) {
      if (polled[i].fd < 0 || polled[i].revents == 0) continue;
      char buffer[65536];
      const ssize_t count = ::read(polled[i].fd, buffer, sizeof buffer);
      if (count > 0) texts[i]->append(buffer, static_cast<size_t>(count));
      if (count == 0 || (count < 0 && errno != EINTR)) polled[i].fd = -1;
    }
  }
  return true;
}

}  // namespace

std::string ProgramResult::summary() const {
  constexpr size_t longest = 2000;
  const std::string tail = errors.size() > longest ? "… " + errors.substr(errors.size() - longest) : errors;
  return fmt::format("{}, standard error: {}", timed_out ? "killed at its time limit" : fmt::format("exit code {}", exit_code),
                     tail.empty() ? "nothing" : tail);
}

ProgramResult run_program(const std::vector<std::string>& arguments, std::chrono::seconds limit,
                          const std::map<std::string, std::string>& environment) {
  check(!arguments.empty(), "expected a program to run, found no arguments");
  std::vector<std::string> argument_strings = arguments, environment_strings = merged_environment(environment);
  const std::vector<char*> argv = pointers(argument_strings), envp = pointers(environment_strings);
  Pipe output, errors;
  const Clock::time_point deadline = Clock::now() + limit;
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  check(child >= 0, "cannot start {}: {}", arguments[0], std::strerror(errno));
  if (child == 0) {  // between fork and exec only what is safe in a program with threads
    ::setpgid(0, 0);
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(127);
    ::dup2(output.write_end, STDOUT_FILENO);
    ::dup2(errors.write_end, STDERR_FILENO);
    ::execvpe(argv[0], argv.data(), envp.data());
    const char message[] = "cannot be executed";
    (void)!::write(STDERR_FILENO, message, sizeof message - 1);
    ::_exit(127);
  }
  output.close_write_end();
  errors.close_write_end();
  ProgramResult result;
  result.timed_out =
      !read_until_closed({output.read_end, errors.read_end}, {&result.output, &result.errors}, deadline);
  int status = 0;
  while (!result.timed_out && ::waitpid(child, &status, WNOHANG) == 0) {  // closed its outputs, may still run
    result.timed_out = Clock::now() >= deadline;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  ::kill(-child, SIGKILL);
  if (result.timed_out) {
    ::kill(child, SIGKILL);  // in case it had not yet made its group
    ::waitpid(child, &status, 0);
  }
  result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return result;
}

std::vector<std::string> split_lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

}  // namespace miniddp::testing
