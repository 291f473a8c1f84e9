// What Ctrl-C and the signals that ask a program to end do.
#pragma once

namespace miniddp {

/// From now on SIGINT, SIGTERM and SIGHUP remove the file that is being written before they end the program, as they would have anyway.
/// Signals that are ignored (nohup) stay so.
void handle_interrupts();

/// The unfinished file to remove; nullptr: there is none. `path` must live until the next call.
void remove_if_interrupted(const char* path);

/// While it lives, the first such signal is only noted, so that the work can be stopped in good order; a second one ends the program.
class OrderlyStop {
 public:
  /// `wanted` false: does nothing.
  explicit OrderlyStop(bool wanted = true);
  ~OrderlyStop();
  OrderlyStop(const OrderlyStop&) = delete;
  OrderlyStop& operator=(const OrderlyStop&) = delete;

  /// A signal has come.
  bool asked() const;
  /// Ends the program by the signal that has come, so that whoever started it sees why it ended.
  [[noreturn]] void end() const;

 private:
  bool wanted_;
};

}  // namespace miniddp
