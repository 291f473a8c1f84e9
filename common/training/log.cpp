#include "common/training/log.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "common/core/console.h"
#include "common/core/file.h"
#include "common/training/profile.h"

namespace miniddp {

using std::chrono::steady_clock;

std::string train_line(int epoch, int64_t batch, int64_t batches, int64_t sample, int64_t samples, double loss) {
  return fmt::format("Train Epoch: {} [{}/{} ({:.0f}%)]\tLoss: {:.6f}", epoch, sample, samples,
                     100.0 * static_cast<double>(batch) / static_cast<double>(batches), loss);
}

std::string test_line(const TestResult& result) {
  return fmt::format("Test set: Average loss: {:.4f}, Accuracy: {}/{} ({:.0f}%)", result.average_loss, result.correct, result.total,
                     100.0 * static_cast<double>(result.correct) / static_cast<double>(std::max<int64_t>(result.total, 1)));
}

TrainingLog::TrainingLog(const TrainingOptions& options, int64_t samples, int64_t batches, int64_t steps_done, int rank, int processes)
    : options_(options),
      samples_(samples),
      batches_(batches),
      steps_(steps_done),
      rank_(rank),
      processes_(processes),
      speaks_(rank == 0 && !options.quiet),
      bar_(speaks_ && isatty(STDOUT_FILENO) != 0 && isatty(STDERR_FILENO) != 0),
      start_(steady_clock::now()),
      last_draw_(start_) {
  if (options.profile || !options.trace.empty()) recorder().start(!options.trace.empty());
}

TrainingLog::~TrainingLog() { clear_bar(); }

void TrainingLog::step(int epoch, int64_t batch, int64_t batch_samples, const Tensor& loss) {
  recorder().step_done();
  ++steps_;
  samples_seen_ += batch_samples * processes_;
  if (rank_ == 0 && !options_.loss_csv.empty()) csv_ += fmt::format("{},{:.9g}\n", steps_, loss.item<double>());
  if (speaks_ && batch % options_.log_interval == 0) {
    clear_bar();
    print_output("{}\n", train_line(epoch, batch, batches_, batch * options_.batch_size * processes_, samples_, loss.item<double>()));
  }
  if (bar_) draw_bar(epoch, batch + 1);
}

void TrainingLog::test(const TestResult& result) {
  write_losses();  // a run that ends early leaves the losses of the epochs before
  if (!speaks_) return;
  clear_bar();
  print_output("\n{}\n\n", test_line(result));
}

void TrainingLog::write_losses() const {
  if (rank_ == 0 && !options_.loss_csv.empty()) write_file(options_.loss_csv, csv_);
}

void TrainingLog::finish() {
  clear_bar();
  write_losses();
  if (!options_.profile && options_.trace.empty()) return;
  const Profile profile = recorder().take();
  if (!options_.trace.empty()) write_file(trace_path(options_.trace, rank_), trace_json(profile, rank_));
  if (options_.profile && rank_ == 0) write_output(profile_table(profile));
}

void TrainingLog::draw_bar(int epoch, int64_t batch) {
  const auto now = steady_clock::now();
  if (batch < batches_ && now - last_draw_ < std::chrono::milliseconds(100)) return;
  last_draw_ = now;
  constexpr int width = 30;
  const int filled = static_cast<int>(width * batch / std::max<int64_t>(batches_, 1));
  const double seconds = std::chrono::duration<double>(now - start_).count();
  print_terminal("\r\033[KEpoch {} [{:=>{}}{:>{}}] {}/{}  {:.0f} samples/s", epoch, "", filled, "", width - filled, batch, batches_,
             static_cast<double>(samples_seen_) / std::max(seconds, 1e-9));
  bar_drawn_ = true;
}

void TrainingLog::clear_bar() {
  if (!bar_drawn_) return;
  write_terminal("\r\033[K");
  bar_drawn_ = false;
}

}  // namespace miniddp
