#include "chapters/05_distributed_data_parallel/simple_reducers.h"

#include <utility>

#include "chapters/05_distributed_data_parallel/comm_hook.h"
#include "common/autograd/engine.h"
#include "common/core/recorder.h"

namespace miniddp {

void average_gradients(ProcessGroup& group, const std::vector<Tensor>& parameters) {
  // BEGIN SOLUTION 05.2 gradients averaged after backward
  for (const Tensor& parameter : parameters) {
    Tensor grad = parameter.grad();
    if (!grad.defined()) continue;
    grad.mul_(1.0 / group.size());  // before the sum, which then cannot overflow where the mean does not
    wait_and_count(group, *group.all_reduce(grad), grad.device());
  }
  // END SOLUTION
}

namespace {

std::vector<int> hook_all(const std::vector<Tensor>& parameters, const Tensor::GradHook& hook) {
  std::vector<int> numbers;
  for (const Tensor& parameter : parameters) numbers.push_back(parameter.register_post_accumulate_grad_hook(hook));
  return numbers;
}

void unhook_all(const std::vector<Tensor>& parameters, const std::vector<int>& numbers) {
  for (size_t i = 0; i < numbers.size(); ++i) parameters[i].remove_hook(numbers[i]);
}

}  // namespace

AfterBackwardReducer::AfterBackwardReducer(ProcessGroup& group, std::vector<Tensor> parameters)
    : group_(group), parameters_(std::move(parameters)) {
  // BEGIN SOLUTION 05.8 the run that learns alone
  hooks_ = hook_all(parameters_, [this](Tensor&) {
    if (!std::exchange(sync_, false)) return;  // the first gradient of a pass speaks for all
    queue_backward_callback([this] {
      const Span span("communication", parameters_[0].device());
      average_gradients(group_, parameters_);
    });
  });
  // END SOLUTION
}

AfterBackwardReducer::~AfterBackwardReducer() { unhook_all(parameters_, hooks_); }

PerGradientReducer::PerGradientReducer(ProcessGroup& group, std::vector<Tensor> parameters)
    : group_(group), parameters_(std::move(parameters)) {
  hooks_ = hook_all(parameters_, [this](Tensor& parameter) { gradient_ready(parameter); });
}

PerGradientReducer::~PerGradientReducer() { unhook_all(parameters_, hooks_); }

void PerGradientReducer::gradient_ready(Tensor& parameter) {
  // BEGIN SOLUTION 05.7 the run whose ranks drift apart
  if (!sync_) return;
  if (works_.empty()) queue_backward_callback([this] { finish(); });
  Tensor grad = parameter.grad();
  grad.mul_(1.0 / group_.size());
  works_.push_back(group_.all_reduce(grad));
  // END SOLUTION
}

void PerGradientReducer::finish() {
  sync_ = false;
  const Span span("communication", parameters_[0].device());
  const std::vector<WorkPtr> works = std::exchange(works_, {});
  for (const WorkPtr& work : works) wait_and_count(group_, *work, parameters_[0].device());
}

}  // namespace miniddp
