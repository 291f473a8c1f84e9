// A model, not a measurement: how long a training step takes on N devices, from a handful of numbers.
//
// The alpha-beta model: a message of n bytes takes alpha + n / beta, alpha being the link's latency and beta its bandwidth. What a
// collective costs follows from how many messages come one after the other. Nothing here knows of congestion, stragglers, slow disks or
// protocols that change with the size of the message.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace miniddp {

struct Link {
  std::string name;
  double latency = 0;    // alpha, seconds a message
  double bandwidth = 0;  // beta, bytes a second, in each direction

  /// Seconds for one message.
  double message(double bytes) const { return latency + bytes / bandwidth; }
};

/// One device sends the same bytes to all, or gets one sum from all: ceil(log2 n) rounds of a binary tree, each a whole message.
double tree_broadcast(const Link& link, double bytes, int devices);
inline double tree_reduce(const Link& link, double bytes, int devices) { return tree_broadcast(link, bytes, devices); }
/// One device sends other bytes to each of the others, or gets some from each, through its one link: n - 1 messages in a row.
double star(const Link& link, double bytes_for_each, int devices);

enum class AllReduce { ring, tree };
/// Ring: 2 (n - 1) rounds of one n-th of the bytes. Tree: two binary trees at once, pipelined, as NCCL does since 2.4: 2 ceil(log2 n)
/// latencies, and the bytes twice over the link.
/// Source: developer.nvidia.com/blog/massively-scale-deep-learning-training-nccl-2-4
double all_reduce(AllReduce algorithm, const Link& link, double bytes, int devices);

/// What one device does in a step.
struct Workload {
  double seconds_per_sample = 0;  // forward and backward together
  double seconds_per_step = 0;    // whatever the batch: optimizer, launches
  double backward_share = 2.0 / 3;  // of seconds_per_sample
  struct Bucket {
    double bytes = 0;
    double ready = 1;  // complete after this share of backward
  };
  std::vector<Bucket> buckets;  // DDP's, in the order in which they are sent
  double sample_bytes = 0, output_bytes = 0;  // DP scatters the one and gathers the other, for each sample
  bool reduces_loss = false;                  // DDP: one more all-reduce, of 4 bytes

  double parameter_bytes() const;
};

/// Seconds of a step.
struct StepTime {
  double compute = 0, exposed = 0;  // communication that nothing hides
  double hidden = 0;                // communication beside backward; not part of the total
  double total() const { return compute + exposed; }
};

/// `cores`: the devices are shares of so many cores, as chapter 05's processes on one machine are; 0: every device has its own. Where
/// devices are more than cores all of them compute more slowly, and where no core is spare nothing overlaps: communication needs one too.
/// It is not slowed down by sharing: most of it is waiting for the others, and who waits leaves the core to them.
StepTime ddp_step(const Workload& work, const Link& link, AllReduce algorithm, bool overlap, int devices, double samples_per_device, int cores = 0);

/// DataParallel: scatter, replicate, forward, gather, backward, and the gradients' sum on the first device, one after the other.
StepTime dp_step(const Workload& work, const Link& link, int devices, double samples_per_device, int cores = 0);

/// Least squares: seconds = per_step + per_sample * samples. Throws Error unless there are two different numbers of samples.
struct Line {
  double per_step = 0, per_sample = 0;
};
Line fit_line(const std::vector<double>& samples, const std::vector<double>& seconds);

}  // namespace miniddp
