// Runs another program and reads its lines while it works.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

namespace miniddp {

struct LineReaders {
  std::function<void(const std::string& line)> output, errors;  // called as soon as a line is complete
};

/// Runs `command` to its end and returns its exit code, 128 + signal if it was killed. At the limit it is sent SIGTERM, and SIGKILL some
/// seconds later; so it is if a reader throws. A program that is the launcher ends all its ranks. If this process is killed, the program gets SIGTERM. Throws Error if it
/// cannot be started, or if stop_on_signals() was called and a signal has come: the program is ended first.
int run_child(const std::vector<std::string>& command, std::chrono::duration<double> limit, const LineReaders& readers);

/// SIGINT, SIGTERM and SIGHUP from now on end run_child, so that the caller can clean up.
void stop_on_signals();
/// If one of them has come: dies of it, as if it had not been handled.
void die_of_signal();

}  // namespace miniddp
