#include "common/core/interrupt.h"

#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>

namespace miniddp {
namespace {

constexpr int ending_signals[] = {SIGINT, SIGTERM, SIGHUP};

std::atomic<const char*> unfinished{nullptr};
std::atomic<bool> orderly{false};
std::atomic<int> noted{0};
static_assert(std::atomic<const char*>::is_always_lock_free && std::atomic<int>::is_always_lock_free);

void end_by(int signal) {
  std::signal(signal, SIG_DFL);
  std::raise(signal);  // inside a handler it waits until the handler has returned
}

void on_signal(int signal) {
  if (orderly && noted.exchange(signal) == 0) return;
  if (const char* path = unfinished) ::unlink(path);
  end_by(signal);
}

}  // namespace

void handle_interrupts() {
  for (int signal : ending_signals) {
    struct sigaction action {};
    if (::sigaction(signal, nullptr, &action) != 0 || action.sa_handler != SIG_DFL) continue;
    action.sa_handler = on_signal;
    action.sa_flags = SA_RESTART;
    ::sigaction(signal, &action, nullptr);
  }
}

void remove_if_interrupted(const char* path) { unfinished = path; }

OrderlyStop::OrderlyStop(bool wanted) : wanted_(wanted) {
  if (wanted_) orderly = true;
}

OrderlyStop::~OrderlyStop() {
  if (wanted_) orderly = false;
}

bool OrderlyStop::asked() const { return wanted_ && noted != 0; }

void OrderlyStop::end() const {
  std::fflush(stdout);
  orderly = false;
  end_by(noted);
  std::_Exit(128 + noted);  // the signal is blocked
}

}  // namespace miniddp
