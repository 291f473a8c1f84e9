#include "chapters/06_dp_vs_ddp/cost_model.h"

#include <algorithm>

#include "common/core/error.h"

namespace miniddp {
namespace {

int rounds_of_tree(int devices) {
  int rounds = 0;
  for (int reached = 1; reached < devices; reached *= 2) ++rounds;
  return rounds;
}

// How many times slower everything is because devices share cores.
double slowdown(int devices, int cores) { return cores > 0 ? std::max(1.0, static_cast<double>(devices) / cores) : 1; }

}  // namespace

double tree_broadcast(const Link& link, double bytes, int devices) { return rounds_of_tree(devices) * link.message(bytes); }

double star(const Link& link, double bytes_for_each, int devices) { return (devices - 1) * link.message(bytes_for_each); }

double all_reduce(AllReduce algorithm, const Link& link, double bytes, int devices) {
  if (devices == 1) return 0;
  if (algorithm == AllReduce::ring) return 2.0 * (devices - 1) * link.message(bytes / devices);
  return 2.0 * rounds_of_tree(devices) * link.latency + 2 * bytes / link.bandwidth;
}

double Workload::parameter_bytes() const {
  double total = 0;
  for (const Bucket& bucket : buckets) total += bucket.bytes;
  return total;
}

StepTime ddp_step(const Workload& work, const Link& link, AllReduce algorithm, bool overlap, int devices, double samples_per_device, int cores) {
  // BEGIN SOLUTION 06.1 a step of DDP with overlap
  const double slower = slowdown(devices, cores);
  const double samples = slower * samples_per_device * work.seconds_per_sample;
  const double backward = samples * work.backward_share;
  StepTime time;
  time.compute = samples + slower * work.seconds_per_step;
  const bool beside = overlap && (cores == 0 || devices < cores);
  // Times count from the beginning of backward. Buckets go one after the other, each not before it is complete.
  double sent = beside ? 0 : backward, busy = 0;
  for (const Workload::Bucket& bucket : work.buckets) {
    const double seconds = all_reduce(algorithm, link, bucket.bytes, devices);
    sent = std::max(sent, beside ? bucket.ready * backward : backward) + seconds;
    busy += seconds;
  }
  time.exposed = std::max(0.0, sent - backward);
  time.hidden = busy - time.exposed;
  if (work.reduces_loss) time.exposed += all_reduce(algorithm, link, 4, devices);
  return time;
  // END SOLUTION
}

StepTime dp_step(const Workload& work, const Link& link, int devices, double samples_per_device, int cores) {
  const double slower = slowdown(devices, cores);
  StepTime time;
  // Only the first device has an optimizer: the cost of a step is not multiplied by those that share its core.
  time.compute = slower * samples_per_device * work.seconds_per_sample + work.seconds_per_step;
  const double parameters = work.parameter_bytes();
  time.exposed = star(link, samples_per_device * work.sample_bytes, devices)          // scatter
                 + tree_broadcast(link, parameters, devices)                          // replicate
                 + 2 * star(link, samples_per_device * work.output_bytes, devices)    // gather, and its backward
                 + tree_reduce(link, parameters, devices);                            // replicate's backward
  return time;
}

Line fit_line(const std::vector<double>& samples, const std::vector<double>& seconds) {
  check(samples.size() == seconds.size() && !samples.empty(), "expected as many times as numbers of samples, found {} and {}", seconds.size(),
        samples.size());
  const auto n = static_cast<double>(samples.size());
  double x = 0, y = 0, xx = 0, xy = 0;
  for (size_t i = 0; i < samples.size(); ++i) {
    x += samples[i];
    y += seconds[i];
    xx += samples[i] * samples[i];
    xy += samples[i] * seconds[i];
  }
  const double spread = n * xx - x * x;
  check(spread > 0, "expected times for at least two different numbers of samples");
  const double slope = (n * xy - x * y) / spread;
  return {(y - slope * x) / n, slope};
}

}  // namespace miniddp
