// Turns what a rank writes, in pieces of any size, into whole lines.
#pragma once

#include <cstddef>
#include <deque>
#include <string>
#include <string_view>

namespace miniddp {

class LineSplitter {
 public:
  /// Longer lines are cut, so that a rank that never ends its line cannot fill the memory.
  static constexpr size_t longest_line = 64 * 1024;

  /// Takes a piece; returns the lines it completes, each with `prefix` before and a newline behind it.
  std::string add(std::string_view piece, std::string_view prefix);
  /// The line that was begun and never ended, completed; "" if there is none.
  std::string finish(std::string_view prefix);

 private:
  std::string take(std::string_view prefix);

  std::string line_;
};

/// The last lines that a rank wrote, without prefix.
class LastLines {
 public:
  static constexpr size_t count = 12;

  void add(std::string_view piece);
  /// Oldest first; the line being written included.
  std::deque<std::string> lines() const;

 private:
  std::deque<std::string> lines_;
  std::string line_;
};

}  // namespace miniddp
