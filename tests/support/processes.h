// Programs that a test starts, watches and kills.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <map>
#include <string>
#include <vector>

namespace miniddp::testing {

/// A program that runs beside the test. It is killed with the object, and if the test dies.
class BackgroundProgram {
 public:
  /// Its output goes to one file, which output() reads. It carries MINIDDP_TEST_MARK=<mark()> in its
  /// environment, as do its descendants.
  explicit BackgroundProgram(const std::vector<std::string>& arguments,
                             const std::map<std::string, std::string>& environment = {});
  ~BackgroundProgram();
  BackgroundProgram(const BackgroundProgram&) = delete;
  BackgroundProgram& operator=(const BackgroundProgram&) = delete;

  pid_t pid() const { return pid_; }
  const std::string& mark() const { return mark_; }
  /// What it and its descendants have written so far, stdout and stderr together.
  std::string output() const;
  /// Waits until output() holds the text. False at the limit.
  bool wait_for_output(const std::string& text, std::chrono::seconds limit = std::chrono::seconds(30)) const;
  void send_signal(int signal) const;
  /// Its exit code, 128 + signal if it was killed; -1 at the limit.
  int wait(std::chrono::seconds limit = std::chrono::seconds(30));
  /// Living processes that it started, directly or not, itself included; wherever they have gone since.
  std::vector<pid_t> processes() const;
  /// Waits until there are none. False at the limit.
  bool wait_until_gone(std::chrono::seconds limit = std::chrono::seconds(10)) const;

 private:
  pid_t pid_ = -1;
  int status_ = 0;
  bool ended_ = false;
  std::string mark_;
  std::string file_;
};

}  // namespace miniddp::testing
