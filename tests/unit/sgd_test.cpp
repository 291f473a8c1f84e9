// SGD against its definition, computed here in plain double arithmetic; and against values from PyTorch 1.13.
#include "common/optim/sgd.h"

#include <cmath>

#include "tests/support/catch.h"

using namespace miniddp;

namespace {

// torch.optim.SGD's definition for one number.
struct Reference {
  double p, v = 0;
  bool first = true;
  void step(double g, const SgdParams& o) {
    g += o.weight_decay * p;
    if (o.momentum != 0) {
      v = first ? g : o.momentum * v + (1 - o.dampening) * g;
      first = false;
      g = o.nesterov ? g + o.momentum * v : v;
    }
    p -= o.lr * g;
  }
};

}  // namespace

TEST_CASE("every option of SGD follows its definition over several steps") {
  const std::vector<SgdParams> all{{.lr = 0.1},
                                   {.lr = 0.1, .momentum = 0.5},
                                   {.lr = 0.1, .momentum = 0.9, .dampening = 0.3},
                                   {.lr = 0.1, .momentum = 0.9, .weight_decay = 0.01},
                                   {.lr = 0.1, .momentum = 0.9, .weight_decay = 0.01, .nesterov = true},
                                   {.lr = 0.1, .weight_decay = 0.2}};
  for (const SgdParams& options : all) {
    Tensor p = Tensor::from(std::vector<double>{1.5, -2, 0.25}, {3}).set_requires_grad();
    std::vector<Reference> reference{{1.5}, {-2}, {0.25}};
    SGD optimizer({p}, options);
    for (int step = 0; step < 5; ++step) {
      std::vector<double> grad;
      for (int i = 0; i < 3; ++i) grad.push_back(std::sin(step * 3 + i));
      p.set_grad(Tensor::from(grad, {3}));
      optimizer.step();
      for (size_t i = 0; i < 3; ++i) {
        reference[i].step(grad[i], options);
        CHECK(std::abs(p.to_vector<double>()[i] - reference[i].p) <= 1e-14);
      }
    }
  }
}

TEST_CASE("a parameter without a gradient is left alone, and its first step is its own first") {
  Tensor a = Tensor::from({1}, {1}).set_requires_grad(), b = Tensor::from({1}, {1}).set_requires_grad();
  SGD optimizer({a, b}, {.lr = 1, .momentum = 0.5, .dampening = 0.5});
  a.set_grad(Tensor::from({1}, {1}));
  optimizer.step();
  CHECK(b.item<float>() == 1);
  CHECK_FALSE(optimizer.momentum_buffers()[1].defined());
  a.set_grad({});
  b.set_grad(Tensor::from({1}, {1}));
  optimizer.step();
  CHECK(a.item<float>() == 0);
  CHECK(b.item<float>() == 0);  // the first buffer is the gradient itself, without dampening
}

TEST_CASE("options that PyTorch refuses are refused") {
  Tensor p = Tensor::from({1}, {1}).set_requires_grad();
  CHECK_THROWS_AS(SGD({p}, {.lr = -1}), Error);
  CHECK_THROWS_AS(SGD({p}, {.lr = 1, .nesterov = true}), Error);
  CHECK_THROWS_AS(SGD({p}, {.lr = 1, .momentum = 0.9, .dampening = 0.1, .nesterov = true}), Error);
  CHECK_THROWS_AS(SGD({}, {.lr = 1}), Error);
  CHECK_THROWS_AS(SGD({Tensor::from({1}, {1})}, {.lr = 1}), Error);
}
