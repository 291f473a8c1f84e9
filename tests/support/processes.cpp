#include "tests/support/processes.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <sstream>
#include <thread>

#include "common/core/error.h"

namespace miniddp::testing {
namespace {

constexpr auto pause = std::chrono::milliseconds(5);

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

template <class Condition>
bool wait_until(Condition condition, std::chrono::seconds limit) {
  const auto end = std::chrono::steady_clock::now() + limit;
  while (!condition()) {
    if (std::chrono::steady_clock::now() >= end) return false;
    std::this_thread::sleep_for(pause);
  }
  return true;
}

}  // namespace

BackgroundProgram::BackgroundProgram(const std::vector<std::string>& arguments,
                                     const std::map<std::string, std::string>& environment) {
  std::string path =
      (std::getenv("TMPDIR") ? std::getenv("TMPDIR") : "/tmp") + std::string("/miniddp-test-XXXXXX");
  const int file = ::mkstemp(path.data());
  check(file >= 0, "cannot make a temporary file: {}", std::strerror(errno));
  file_ = path;
  mark_ = path.substr(path.size() - 6) + "-" + std::to_string(::getpid());
  const pid_t parent = ::getpid();
  pid_ = ::fork();
  if (pid_ == 0) {
    ::setpgid(0, 0);
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(127);
    ::dup2(file, STDOUT_FILENO);
    ::dup2(file, STDERR_FILENO);
    ::close(file);
    for (const auto& [name, value] : environment) ::setenv(name.c_str(), value.c_str(), 1);
    ::setenv("MINIDDP_TEST_MARK", mark_.c_str(), 1);
    std::vector<char*> pointers;
    for (const std::string& argument : arguments) pointers.push_back(const_cast<char*>(argument.c_str()));
    pointers.push_back(nullptr);
    ::execvp(pointers[0], pointers.data());
    ::_exit(127);
  }
  ::close(file);
  check(pid_ > 0, "cannot start {}: {}", arguments[0], std::strerror(errno));
}

BackgroundProgram::~BackgroundProgram() {
  for (pid_t pid : processes()) ::kill(pid, SIGKILL);
  if (!ended_) {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, &status_, 0);
  }
  ::unlink(file_.c_str());
}

std::string BackgroundProgram::output() const {
  return read_file(file_);
}

bool BackgroundProgram::wait_for_output(const std::string& text, std::chrono::seconds limit) const {
  return wait_until([&] { return output().find(text) != std::string::npos; }, limit);
}

void BackgroundProgram::send_signal(int signal) const {
  ::kill(pid_, signal);
}

int BackgroundProgram::wait(std::chrono::seconds limit) {
  const bool over = ended_ || wait_until([&] { return ::waitpid(pid_, &status_, WNOHANG) == pid_; }, limit);
  if (!over) return -1;
  ended_ = true;
  return WIFEXITED(status_) ? WEXITSTATUS(status_) : 128 + WTERMSIG(status_);
}

std::vector<pid_t> BackgroundProgram::processes() const {
  const std::string wanted = "MINIDDP_TEST_MARK=" + mark_;
  std::vector<pid_t> found;
  const std::unique_ptr<DIR, int (*)(DIR*)> directory(::opendir("/proc"), ::closedir);
  while (const dirent* entry = directory ? ::readdir(directory.get()) : nullptr) {
    const pid_t pid = static_cast<pid_t>(std::atoi(entry->d_name));
    // A zombie has no environment any more: it has ended and only waits for its parent.
    if (pid > 0 && read_file("/proc/" + std::to_string(pid) + "/environ").find(wanted) != std::string::npos) {
      found.push_back(pid);
    }
  }
  return found;
}

bool BackgroundProgram::wait_until_gone(std::chrono::seconds limit) const {
  return wait_until([&] { return processes().empty(); }, limit);
}

}  // namespace miniddp::testing
