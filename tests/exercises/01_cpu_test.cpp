// Tests of the exercises of chapter 01 that run on the CPU: the optimizer and the loss.
#include <cmath>

#include "tests/exercises/expect.h"
#include "tests/support/against_float64.h"

using namespace miniddp;
using namespace miniddp::testing;

namespace {

// torch.optim.SGD's formula, for one parameter, in doubles.
struct SgdByHand {
  SgdParams options;
  std::vector<double> param, buffer = {};

  void step(const std::vector<double>& grad) {
    const bool first = buffer.empty();
    if (first) buffer.resize(param.size());
    for (size_t i = 0; i < param.size(); ++i) {
      double g = grad[i] + options.weight_decay * param[i];
      if (options.momentum != 0) {
        buffer[i] = first ? g : options.momentum * buffer[i] + (1 - options.dampening) * g;
        g = options.nesterov ? g + options.momentum * buffer[i] : buffer[i];
      }
      param[i] -= options.lr * g;
    }
  }
};

// What the row's log-probabilities are, in doubles.
std::vector<double> log_softmax_by_hand(const std::vector<double>& x) {
  const double largest = *std::max_element(x.begin(), x.end());
  double total = 0;
  for (const double each : x) total += std::exp(each - largest);
  std::vector<double> result;
  for (const double each : x) result.push_back(each - largest - std::log(total));
  return result;
}

std::vector<double> log_softmax_of(const std::vector<float>& row) {
  const Tensor x = Tensor::from(row, {1, static_cast<int64_t>(row.size())});
  Tensor y = output(x.shape());
  cpu().log_softmax_forward(x, y);
  return to_doubles(y);
}

}  // namespace

TEST_CASE("01.10 SGD with momentum", "[01.10]") {
  struct Case {
    const char* name;
    SgdParams options;
  };
  for (const Case& each : {Case{"without momentum", {.lr = 0.3}}, Case{"weight decay", {.lr = 0.3, .weight_decay = 0.1}},
                           Case{"momentum", {.lr = 0.3, .momentum = 0.9}},
                           Case{"momentum and dampening", {.lr = 0.3, .momentum = 0.9, .dampening = 0.4}},
                           Case{"momentum and weight decay", {.lr = 0.3, .momentum = 0.7, .weight_decay = 0.1}},
                           Case{"nesterov", {.lr = 0.3, .momentum = 0.9, .nesterov = true}}}) {
    Generator generator(7);
    std::vector<Tensor> params{random_tensor({13}, generator)};
    const bool has_buffer = each.options.momentum != 0;
    std::vector<Tensor> buffers{has_buffer ? output({13}) : Tensor()};  // NaN at first: nothing is there yet
    SgdByHand by_hand{each.options, to_doubles(params[0])};
    for (int step = 0; step < 3; ++step) {
      const std::vector<Tensor> grads{random_tensor({13}, generator)};
      const std::vector<uint8_t> first{static_cast<uint8_t>(has_buffer && step == 0)};
      cpu().sgd_step(params, grads, buffers, first, each.options);
      by_hand.step(to_doubles(grads[0]));
      expect_close(fmt::format("parameter after step {}, {}", step, each.name), to_doubles(params[0]), by_hand.param, 2e-6);
      if (has_buffer) expect_close(fmt::format("momentum buffer after step {}, {}", step, each.name), to_doubles(buffers[0]), by_hand.buffer, 2e-6);
    }
  }
}

TEST_CASE("01.11 log-softmax", "[01.11]") {
  Generator generator(5);
  for (const int64_t classes : {10, 7, 1}) {
    const Tensor x = random_tensor({5, classes}, generator, -3, 3);
    Tensor y = output(x.shape());
    cpu().log_softmax_forward(x, y);
    for (int64_t n = 0; n < 5; ++n) {
      const std::vector<double> expected = log_softmax_by_hand(to_doubles(x.narrow(n, 1)));
      const std::vector<double> found = to_doubles(y.narrow(n, 1));
      // With a single class its probability is 1 and the logarithm 0.
      if (classes == 1) {
        expect(found[0] == 0, fmt::format("log-probability of the only class: expected 0, found {}", found[0]));
      } else {
        expect_close(fmt::format("log-probabilities of row {}, {} classes", n, classes), found, expected, 1e-5);
      }
    }
  }
  expect_close("log-probabilities of large scores, 1000 and 998 and 997", log_softmax_of({1000, 998, 997}), log_softmax_by_hand({1000, 998, 997}), 1e-4);
  expect_close("log-probabilities of small scores, -1000 and -998 and -997", log_softmax_of({-1000, -998, -997}),
               log_softmax_by_hand({-1000, -998, -997}), 1e-4);
  expect_close("log-probabilities when only the last score is large, -5 and 500", log_softmax_of({-5, 500}), {-505, 0}, 1e-4);
}

TEST_CASE("01.12 log-softmax backward", "[01.12]") {
  Generator generator(9);
  for (const int64_t classes : {10, 7, 2}) {
    const Tensor x = random_tensor({5, classes}, generator, -3, 3), grad = random_tensor({5, classes}, generator);
    std::vector<float> log_p;
    for (int64_t n = 0; n < 5; ++n) {
      for (const double each : log_softmax_by_hand(to_doubles(x.narrow(n, 1)))) log_p.push_back(static_cast<float>(each));
    }
    Tensor dx = output(x.shape());
    cpu().log_softmax_backward(grad, Tensor::from(log_p, x.shape()), dx);
    // The derivative of sum(grad * log_softmax(x)) by differences.
    for (int64_t n = 0; n < 5; ++n) {
      const std::vector<double> row = to_doubles(x.narrow(n, 1)), weights = to_doubles(grad.narrow(n, 1));
      std::vector<double> expected;
      for (size_t c = 0; c < row.size(); ++c) {
        const auto value_at = [&](double change) {
          std::vector<double> moved = row;
          moved[c] += change;
          const std::vector<double> y = log_softmax_by_hand(moved);
          double sum = 0;
          for (size_t k = 0; k < y.size(); ++k) sum += weights[k] * y[k];
          return sum;
        };
        expected.push_back((value_at(1e-5) - value_at(-1e-5)) / 2e-5);
      }
      expect_close(fmt::format("gradient of row {}, {} classes", n, classes), to_doubles(dx.narrow(n, 1)), expected, 2e-5);
    }
  }
}
