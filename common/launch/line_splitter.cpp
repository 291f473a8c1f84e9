#include "common/launch/line_splitter.h"

#include <algorithm>
#include <utility>

namespace miniddp {

std::string LineSplitter::add(std::string_view piece, std::string_view prefix) {
  std::string out;
  while (!piece.empty()) {
    const size_t end = piece.find('\n');
    const size_t room = longest_line - line_.size();
    const bool whole = end != std::string_view::npos && end <= room;
    const size_t length = whole ? end : std::min(piece.size(), room);
    line_.append(piece.substr(0, length));
    piece.remove_prefix(length + (whole ? 1 : 0));
    if (whole || line_.size() == longest_line) out += take(prefix);
  }
  return out;
}

std::string LineSplitter::finish(std::string_view prefix) {
  return line_.empty() ? "" : take(prefix);
}

std::string LineSplitter::take(std::string_view prefix) {
  std::string out(prefix);
  out += line_;
  out += '\n';
  line_.clear();
  return out;
}

void LastLines::add(std::string_view piece) {
  for (char c : piece) {
    if (c != '\n') {
      if (line_.size() < 1000) line_ += c;
      continue;
    }
    lines_.push_back(std::move(line_));
    line_.clear();
    if (lines_.size() > count) lines_.pop_front();
  }
}

std::deque<std::string> LastLines::lines() const {
  std::deque<std::string> all = lines_;
  if (!line_.empty()) all.push_back(line_);
  if (all.size() > count) all.pop_front();
  return all;
}

}  // namespace miniddp
