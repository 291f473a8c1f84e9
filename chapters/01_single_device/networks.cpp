#include "chapters/01_single_device/networks.h"

namespace miniddp {

namespace F = functional;

ArticleA::ArticleA() {
  register_module("conv1", &ArticleA::conv1_);
  register_module("fc", &ArticleA::fc_);
}

Tensor ArticleA::forward(const Tensor& x) {
  Tensor h = F::max_pool2d(conv1_(x), 2);  // (N, 10, 12, 12)
  return fc_(F::flatten(h));               // (N, 10)
}

ArticleB::ArticleB(bool dropout) : dropout_(dropout) {
  register_module("conv1", &ArticleB::conv1_);
  register_module("conv2", &ArticleB::conv2_);
  register_module("fc1", &ArticleB::fc1_);
  register_module("fc2", &ArticleB::fc2_);
}

Tensor ArticleB::forward(const Tensor& x) {
  const bool drop = dropout_ && is_training();
  Tensor h = F::relu(conv1_(x));   // (N, 32, 26, 26)
  h = F::relu(conv2_(h));          // (N, 64, 24, 24)
  h = F::max_pool2d(h, 2);         // (N, 64, 12, 12)
  h = F::dropout2d(h, 0.25, drop);
  h = F::relu(fc1_(F::flatten(h)));  // (N, 128)
  h = F::dropout2d(h, 0.5, drop);  // on a 2-D tensor: element by element (the article means dropout)
  return F::log_softmax(fc2_(h));  // (N, 10)
}

std::unique_ptr<Module> make_network(const std::string& name, bool dropout) {
  if (name == "article_a") return std::make_unique<ArticleA>();
  check<UsageError>(name == "article_b", "expected the network article_a or article_b, found {}", name);
  return std::make_unique<ArticleB>(dropout);
}

F::LossFunction loss_of(const std::string& name) { return name == "article_a" ? F::cross_entropy : F::nll_loss; }

}  // namespace miniddp
