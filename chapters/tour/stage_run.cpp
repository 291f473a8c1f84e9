#include "chapters/tour/stage_run.h"

#include <chrono>
#include <deque>
#include <optional>
#include <regex>
#include <sstream>

#include "common/launch/child_program.h"
#include "common/core/error.h"
#include "common/core/file.h"
#include "common/training/safetensors.h"

namespace miniddp {
namespace {

using Clock = std::chrono::steady_clock;

// The last lines of a program's error output: shown if it fails.
class LastErrors {
 public:
  void add(const std::string& line) {
    lines_.push_back(line);
    if (lines_.size() > 15) lines_.pop_front();
  }
  std::string text() const {
    std::string all;
    for (const std::string& line : lines_) all += "\n    " + line;
    return all;
  }

 private:
  std::deque<std::string> lines_;
};

std::string describe_failure(const Stage& stage, int code, const LastErrors& errors) {
  return fmt::format("its program {} ended with exit code {}{}; its last words:{}", stage.program, code,
                     code == 124 ? " (the time limit, --timeout)" : "", errors.text());
}

int64_t sample_of(const std::smatch& match) { return std::stoll(match[1]); }

}  // namespace

StageResult run_stage(const Stage& stage, const TourOptions& options, const std::filesystem::path& programs,
                      const std::filesystem::path& directory, const std::function<void(const StageLine&)>& on_line) {
  static const std::regex train_line(R"(Train Epoch: 1 \[(\d+)/.*)"), test_line(R"(Test set: .*Accuracy: (\d+)/(\d+).*)");
  const std::filesystem::path csv = directory / (stage.program + ".csv");
  StageResult result;
  LastErrors errors;
  std::optional<Clock::time_point> first;
  int64_t first_sample = 0;
  const auto read_output = [&](const std::string& text) {
    std::smatch match;
    StageLine line{text, 0, result.samples_per_second};
    if (std::regex_match(text, match, train_line)) {
      const Clock::time_point now = Clock::now();
      if (!first) {
        first = now;
        first_sample = sample_of(match);
      } else {  // a line comes after its step: between two of them lie the steps behind the first one
        const std::chrono::duration<double> seconds = now - *first;
        result.samples_per_second = static_cast<double>(sample_of(match) - first_sample) / seconds.count();
      }
      line.step = sample_of(match) / options.batch_size + 1;
      line.samples_per_second = result.samples_per_second;
    } else if (std::regex_match(text, match, test_line)) {
      result.correct = std::stoll(match[1]);
      result.total = std::stoll(match[2]);
    }
    if (!text.empty()) on_line(line);
  };
  const int code = run_child(command_of(stage, options, programs, options.steps, {"--loss-csv", csv}),
                             std::chrono::duration<double>(options.timeout + 15),
                             {read_output, [&](const std::string& line) { errors.add(line); }});
  if (code != 0) {
    result.failure = describe_failure(stage, code, errors);
    return result;
  }
  result.losses = read_losses(csv);
  const auto steps = static_cast<size_t>(options.steps);
  if (result.losses.size() != steps) result.failure = fmt::format("expected the losses of {} steps, found {}", steps, result.losses.size());
  if (result.total == 0) result.failure = "it printed no test accuracy";
  return result;
}

NamedTensors weights_after(const Stage& stage, const TourOptions& options, const std::filesystem::path& programs,
                           const std::filesystem::path& directory, int64_t steps) {
  const std::filesystem::path file = directory / (stage.program + ".safetensors");
  LastErrors errors;
  const int code = run_child(command_of(stage, options, programs, steps, {"--quiet", "--save", file}),
                             std::chrono::duration<double>(options.timeout + 15),
                             {[](const std::string&) {}, [&](const std::string& line) { errors.add(line); }});
  check(code == 0, "stage {}: {}", stage.number, describe_failure(stage, code, errors));
  return consume_prefix_in_state_dict_if_present(read_safetensors(file).tensors);
}

std::vector<double> read_losses(const std::filesystem::path& path) {
  std::istringstream text(read_file(path, "losses"));
  std::string line;
  check<DataError>(std::getline(text, line) && line == "step,loss", "{}: expected step,loss in the first line, found {}", path.string(), line);
  std::vector<double> losses;
  while (std::getline(text, line)) {
    std::istringstream row(line);
    size_t step = 0;
    char comma = 0;
    std::string loss;  // as text: a stream does not read nan
    row >> step >> comma >> loss;
    char* end = nullptr;
    const double value = std::strtod(loss.c_str(), &end);
    check<DataError>(step == losses.size() + 1 && comma == ',' && !loss.empty() && *end == '\0', "{}: expected step {} and its loss, found {}",
                     path.string(), losses.size() + 1, line);
    losses.push_back(value);
  }
  return losses;
}

}  // namespace miniddp
