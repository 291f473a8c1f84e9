#include "common/launch/child_program.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <thread>

#include "common/core/error.h"
#include "common/launch/line_splitter.h"

namespace miniddp {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto grace = std::chrono::seconds(15);  // the launcher needs some for its own SIGTERM, wait, SIGKILL
constexpr int poll_ms = 200;
volatile sig_atomic_t signal_that_came = 0;

// The read end of a pipe, and the lines that came out of it.
class LineReader {
 public:
  explicit LineReader(const std::function<void(const std::string&)>& on_line) : on_line_(on_line) {
    check(::pipe2(ends_, O_CLOEXEC) == 0, "cannot make a pipe: {}", std::strerror(errno));
  }
  ~LineReader() {
    close_end(0);
    close_end(1);
  }
  LineReader(const LineReader&) = delete;
  LineReader& operator=(const LineReader&) = delete;

  int read_end() const { return ends_[0]; }
  int write_end() const { return ends_[1]; }
  bool open() const { return ends_[0] >= 0; }
  void close_write_end() { close_end(1); }

  /// To be called when there is something to read.
  void read_some() {
    char buffer[4096];
    const ssize_t count = ::read(ends_[0], buffer, sizeof buffer);
    if (count < 0 && errno == EINTR) return;
    if (count > 0) return hand_out(splitter_.add({buffer, static_cast<size_t>(count)}, ""));
    hand_out(splitter_.finish(""));
    close_end(0);
  }

 private:
  void hand_out(const std::string& lines) {
    for (size_t start = 0; start < lines.size();) {
      const size_t end = lines.find('\n', start);
      on_line_(lines.substr(start, end - start));
      start = end + 1;
    }
  }
  void close_end(int which) {
    if (ends_[which] >= 0) ::close(ends_[which]);
    ends_[which] = -1;
  }

  const std::function<void(const std::string&)>& on_line_;
  int ends_[2] = {-1, -1};
  LineSplitter splitter_;
};

// Ends and reaps the process, whatever happens to us: also when a reader throws.
class Child {
 public:
  explicit Child(pid_t pid, Clock::time_point limit) : pid_(pid), limit_(limit) {}
  ~Child() {
    limit_ = std::min(limit_, Clock::now());
    wait();
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  /// Sends the signals that are due; to be called every now and then.
  void enforce_limit() {
    const Clock::time_point now = Clock::now();
    if (now >= limit_ + grace) {
      ::kill(pid_, SIGKILL);
    } else if (now >= limit_ && !asked_) {
      asked_ = true;
      ::kill(pid_, SIGTERM);
    }
  }
  int wait() {
    while (!status_) {
      int status = 0;
      if (::waitpid(pid_, &status, WNOHANG) == pid_) {
        status_ = status;
        break;
      }
      enforce_limit();
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    return WIFEXITED(*status_) ? WEXITSTATUS(*status_) : 128 + WTERMSIG(*status_);
  }

 private:
  pid_t pid_;
  Clock::time_point limit_;
  bool asked_ = false;
  std::optional<int> status_;
};

}  // namespace

int run_child(const std::vector<std::string>& command, std::chrono::duration<double> limit, const LineReaders& readers) {
  check(!command.empty(), "expected a program to run, found no words");
  std::vector<std::string> words = command;
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);

  LineReader output(readers.output), errors(readers.errors);
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  check(pid >= 0, "cannot start {}: {}", command[0], std::strerror(errno));
  if (pid == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (::getppid() != parent) ::_exit(127);
    ::dup2(output.write_end(), STDOUT_FILENO);
    ::dup2(errors.write_end(), STDERR_FILENO);
    ::execvp(argv[0], argv.data());
    const char message[] = "error: the program cannot be executed\n";
    (void)!::write(STDERR_FILENO, message, sizeof message - 1);
    ::_exit(127);
  }
  Child child(pid, Clock::now() + std::chrono::duration_cast<Clock::duration>(limit));
  output.close_write_end();
  errors.close_write_end();
  while (output.open() || errors.open()) {
    pollfd waits[2] = {{output.read_end(), POLLIN, 0}, {errors.read_end(), POLLIN, 0}};  // poll passes over -1
    child.enforce_limit();
    check(::poll(waits, 2, poll_ms) >= 0 || errno == EINTR, "poll: {}", std::strerror(errno));
    check(signal_that_came == 0, "interrupted by signal {}", static_cast<int>(signal_that_came));
    if (waits[0].revents != 0) output.read_some();
    if (waits[1].revents != 0) errors.read_some();
  }
  return child.wait();
}

void stop_on_signals() {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) ::signal(signal, [](int number) { signal_that_came = number; });
}

void die_of_signal() {
  if (signal_that_came == 0) return;
  ::signal(signal_that_came, SIG_DFL);
  ::raise(signal_that_came);
}

}  // namespace miniddp
