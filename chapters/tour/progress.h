// What is seen of a stage while it runs.
#pragma once

#include <chrono>
#include <cstdint>

#include "chapters/tour/stage_run.h"

namespace miniddp {

/// Prints the stage's name, then five of its log lines and the test line, indented. On a terminal a bar with samples/s runs under them.
class Progress {
 public:
  Progress(const Stage& stage, const TourOptions& options);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void line(const StageLine& line);

 private:
  void draw_bar(const StageLine& line);
  void clear_bar();

  int64_t steps_, interval_;
  bool bar_, drawn_ = false;
  std::chrono::steady_clock::time_point last_draw_;
};

}  // namespace miniddp
