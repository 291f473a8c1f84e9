#include "chapters/tour/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "common/core/console.h"

namespace miniddp {

Progress::Progress(const Stage& stage, const TourOptions& options)
    : steps_(options.steps),
      interval_(std::max<int64_t>(1, options.steps / 5)),
      bar_(::isatty(STDOUT_FILENO) != 0 && ::isatty(STDERR_FILENO) != 0) {
  print_output("\nStage {}: {} ({}{}, {})\n", stage.number, stage.name, stage.program,
             stage.mistake.empty() ? "" : " --break " + stage.mistake, stage.devices());
}

Progress::~Progress() { clear_bar(); }

void Progress::line(const StageLine& line) {
  if (line.step == 0 || (line.step - 1) % interval_ == 0) {
    clear_bar();
    print_output("  {}\n", line.text);
  }
  if (bar_ && line.step > 0) draw_bar(line);
}

void Progress::draw_bar(const StageLine& line) {
  const auto now = std::chrono::steady_clock::now();
  if (line.step < steps_ && now - last_draw_ < std::chrono::milliseconds(100)) return;
  last_draw_ = now;
  constexpr int64_t width = 30;
  const auto filled = static_cast<int>(width * line.step / steps_);
  const std::string end = line.step == steps_ ? "now the test set" : fmt::format("{:.0f} samples/s", line.samples_per_second);
  print_terminal("\r\033[K  [{:=>{}}{:>{}}] {}/{}  {}", "", filled, "", static_cast<int>(width) - filled, line.step, steps_, end);
  drawn_ = true;
}

void Progress::clear_bar() {
  if (!drawn_) return;
  write_terminal("\r\033[K");
  drawn_ = false;
}

}  // namespace miniddp
