// Runs another program from a test, with a time limit, and reads what it prints.
#pragma once

#include <chrono>
#include <map>
#include <string>
#include <vector>

namespace miniddp::testing {

struct ProgramResult {
  int exit_code = -1;  // 128 + signal if a signal ended it
  bool timed_out = false;
  std::string output, errors;
  /// How it ended and the end of its error output: for INFO.
  std::string summary() const;
};

/// arguments[0] is looked up in PATH; `environment` is added to the test's own. The program and whatever it started are killed at the
/// limit, and if the test itself dies. Throws Error if it cannot be started.
ProgramResult run_program(const std::vector<std::string>& arguments, std::chrono::seconds limit,
                          const std::map<std::string, std::string>& environment = {});

/// The lines of a text, without their ends.
std::vector<std::string> split_lines(const std::string& text);

}  // namespace miniddp::testing
