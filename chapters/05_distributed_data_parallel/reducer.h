// Reducer: averages gradients over all ranks in buckets, while backward is still running.
//
//   gradient ready ──► copied into its bucket ──► bucket full ──► its all-reduce starts ──► backward goes on below
//                                                                        └── waited for at the end of backward
//
// What must hold: every rank starts the same buckets in the same order, whatever order its gradients become ready in.
#pragma once

#include <string>
#include <vector>

#include "chapters/05_distributed_data_parallel/buckets.h"
#include "chapters/05_distributed_data_parallel/comm_hook.h"
#include "chapters/05_distributed_data_parallel/gradient_reducer.h"

namespace miniddp {

struct ReducerOptions {
  size_t bucket_cap_bytes = default_bucket_cap_bytes;
  bool find_unused_parameters = false;
  bool static_graph = false;
  bool gradient_as_bucket_view = false;
  /// False: buckets start only after backward. For measuring what overlap gains.
  bool overlap = true;
};

class Reducer : public GradientReducer {
 public:
  /// `names` are for messages. Hooks itself to the parameters' gradients; the destructor takes the hooks away.
  Reducer(ProcessGroup& group, std::vector<Tensor> parameters, std::vector<std::string> names, ReducerOptions options);
  ~Reducer() override;

  /// Also rebuilds the buckets, once, in the order in which the first backward pass finished its gradients (rank 0's order). Throws
  /// Error naming the parameters if the pass before left some without a gradient.
  void prepare_for_forward(bool sync) override;
  /// With find_unused_parameters, parameters that the outputs do not depend on count as ready, with zeros.
  void prepare_for_backward(const std::vector<Tensor>& outputs) override;
  void check_finished() const override;

  /// Throws Error if there is one already.
  void register_comm_hook(CommHook hook);
  /// The mean's divisor: the number of ranks, or of those that still have data (join).
  void set_divisor(int divisor) { divisor_ = divisor; }

  const std::vector<Bucket>& buckets() const { return buckets_; }
  /// Indices in the order in which gradients became ready in the first backward pass.
  const std::vector<size_t>& ready_order() const { return ready_order_; }
  /// True if the next pass that averages rebuilds the buckets first; the same on all ranks that have done a step.
  bool will_rebuild() const { return first_pass_done_ && !rebuilt_ && may_rebuild(); }
  /// The collectives of a rebuild and of a backward pass, for a rank that has run out of data: it contributes zeros.
  void rebuild();
  void shadow_backward();

 private:
  bool may_rebuild() const { return options_.static_graph || !options_.find_unused_parameters; }
  void assign(const std::vector<std::vector<size_t>>& assignment);
  void gradient_ready(size_t index);
  /// Throws Error if the parameter's gradient was complete before in this pass.
  void check_not_ready(size_t index) const;
  void mark_ready(size_t index);
  void fill_slice(size_t index);
  void start_full_buckets();
  void backward_done();
  void finish();
  void store_result(size_t bucket, const Tensor& result, const std::vector<int64_t>& used);
  /// On how many ranks each parameter got a gradient.
  std::vector<int64_t> count_users();
  void skip_unreachable(const std::vector<Tensor>& outputs);
  std::string missing_names() const;

  ProcessGroup& group_;
  const std::vector<Tensor> parameters_;
  const std::vector<std::string> names_;
  const ReducerOptions options_;
  CommHook hook_;
  int divisor_;
  std::vector<int> hook_numbers_;

  struct Place {
    size_t bucket = 0, slot = 0;
  };
  std::vector<Bucket> buckets_;  // in the order in which they start
  std::vector<Place> places_;    // of each parameter
  std::vector<size_t> ready_order_;
  bool first_pass_done_ = false;
  bool rebuilt_ = false;
  std::vector<int64_t> static_users_;  // static_graph: what the first pass found
  bool warned_all_used_ = false;

  // Of the current pass; one entry for each parameter or bucket.
  bool running_ = false;         // it has begun and is not finished
  std::vector<uint8_t> ready_;   // parameter is in its bucket
  std::vector<uint8_t> used_;    // parameter got a gradient on this rank
  std::vector<size_t> missing_;  // parameters that the bucket waits for
  std::vector<PendingBucket> pending_;  // buckets that were started
};

}  // namespace miniddp
