// The two articles' networks.
#pragma once

#include <memory>
#include <string>

#include "common/nn/layers.h"

namespace miniddp {

/// Article A: one convolution. Returns raw scores; its loss is the cross-entropy.
/// (The article forgets the pooling: 24 * 24 * 10 = 5760 values do not fit the 1440 that its Linear takes.)
class ArticleA : public Cloneable<ArticleA> {
 public:
  ArticleA();
  Tensor forward(const Tensor& x) override;

 private:
  Conv2d conv1_{1, 10, 5};
  Linear fc_{1440, 10};
};

/// Article B: two convolutions, dropout. Returns log-probabilities; its loss is the negative log-likelihood.
class ArticleB : public Cloneable<ArticleB> {
 public:
  explicit ArticleB(bool dropout = true);
  Tensor forward(const Tensor& x) override;

 private:
  Conv2d conv1_{1, 32, 3};
  Conv2d conv2_{32, 64, 3};
  Linear fc1_{9216, 128};
  Linear fc2_{128, 10};
  bool dropout_;
};

/// `name`: "article_a" or "article_b". Weights come from the CPU's default generator.
std::unique_ptr<Module> make_network(const std::string& name, bool dropout);
functional::LossFunction loss_of(const std::string& name);

}  // namespace miniddp
