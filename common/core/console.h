// Standard output and error of a program. What is printed to standard output is a result: if it cannot be written, that is an error.
// What goes to standard error is for a person to read: if nobody can, the work goes on.
#pragma once

#include <fmt/format.h>

#include <string_view>
#include <utility>

namespace miniddp {

/// Opens /dev/null in place of standard streams that were closed: else the next file opened would take their number, and what is printed
/// would go into it. To be called first of all.
void open_standard_streams();

/// Writes and flushes. Throws Error if standard output cannot be written.
void write_output(std::string_view text);
/// Writes and flushes; never fails. Control characters, which a damaged file's name or contents may hold, become "?".
void write_errors(std::string_view text);
/// Writes and flushes as it is: for drawing on a terminal. Never fails.
void write_terminal(std::string_view text);

template <class... Args>
void print_output(fmt::format_string<Args...> format, Args&&... args) {
  write_output(fmt::format(format, std::forward<Args>(args)...));
}

template <class... Args>
void print_errors(fmt::format_string<Args...> format, Args&&... args) {
  write_errors(fmt::format(format, std::forward<Args>(args)...));
}

template <class... Args>
void print_terminal(fmt::format_string<Args...> format, Args&&... args) {
  write_terminal(fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace miniddp
