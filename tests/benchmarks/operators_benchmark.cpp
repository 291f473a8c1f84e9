// Every operator of article B's step by itself, at the article's shapes.
#include <benchmark/benchmark.h>

#include "chapters/01_single_device/networks.h"
#include "tests/benchmarks/random_data.h"

namespace miniddp::benchmarks {
namespace {

Kernels& cpu() { return kernels(DeviceType::cpu); }

/// Runs `body` for the state's batch size and threads.
template <class Body>
void measure(benchmark::State& state, const Body& body) {
  for (int i = 0; i < 3; ++i) body();
  for (auto _ : state) body();
  state.SetItemsProcessed(state.iterations() * state.range(0));
}

int64_t batch_of(benchmark::State& state) {
  set_threads_per_device(static_cast<int>(state.range(1)));
  manual_seed(1);
  return state.range(0);
}

struct Convolution {
  Convolution(int64_t n, int64_t c, int64_t o, int64_t size)
      : x(random_tensor({n, c, size, size})), w(random_tensor({o, c, 3, 3})), b(random_tensor({o})),
        y(random_tensor({n, o, size - 2, size - 2})) {}
  Tensor x, w, b, y;
};
Convolution conv1(int64_t n) { return {n, 1, 32, 28}; }
Convolution conv2(int64_t n) { return {n, 32, 64, 26}; }

template <Convolution make(int64_t)>
void conv_forward(benchmark::State& state) {
  Convolution c = make(batch_of(state));
  measure(state, [&] { cpu().conv2d_forward(c.x, c.w, c.b, {}, c.y); });
}

template <Convolution make(int64_t)>
void conv_backward_input(benchmark::State& state) {
  Convolution c = make(batch_of(state));
  measure(state, [&] { cpu().conv2d_backward_input(c.y, c.w, {}, c.x); });
}

template <Convolution make(int64_t)>
void conv_backward_weight(benchmark::State& state) {
  Convolution c = make(batch_of(state));
  measure(state, [&] { cpu().conv2d_backward_weight(c.y, c.x, {}, c.w, c.b); });
}

void relu2_forward(benchmark::State& state) {
  Tensor x = random_tensor({batch_of(state), 64, 24, 24}), y = Tensor::empty_like(x);
  measure(state, [&] { cpu().relu_forward(x, y); });
}

void relu2_backward(benchmark::State& state) {
  Tensor y = random_tensor({batch_of(state), 64, 24, 24}), dy = Tensor::ones(y.shape()), dx = Tensor::empty_like(y);
  measure(state, [&] { cpu().relu_backward(dy, y, dx); });
}

void max_pool_forward(benchmark::State& state) {
  const int64_t n = batch_of(state);
  Tensor x = random_tensor({n, 64, 24, 24}), y = Tensor::empty({n, 64, 12, 12});
  Tensor winner = Tensor::empty(y.shape(), DType::uint8);
  measure(state, [&] { cpu().max_pool2d_forward(x, {}, y, winner); });
}

void max_pool_backward(benchmark::State& state) {
  const int64_t n = batch_of(state);
  Tensor x = random_tensor({n, 64, 24, 24}), y = Tensor::empty({n, 64, 12, 12});
  Tensor winner = Tensor::empty(y.shape(), DType::uint8);
  cpu().max_pool2d_forward(x, {}, y, winner);
  measure(state, [&] { cpu().max_pool2d_backward(y, winner, {}, x); });
}

void dropout2d(benchmark::State& state) {
  Tensor x = random_tensor({batch_of(state), 64, 12, 12}), y = Tensor::empty_like(x);
  Tensor mask = Tensor::empty({x.size(0), 64});
  measure(state, [&] {
    cpu().dropout_mask(0.75, default_generator(), mask);
    cpu().scale_planes(x, mask, y);
  });
}

struct Fc1 {
  explicit Fc1(int64_t n)
      : x(random_tensor({n, 9216})), w(random_tensor({128, 9216})), b(random_tensor({128})), y(random_tensor({n, 128})) {}
  Tensor x, w, b, y;
};

void fc1_forward(benchmark::State& state) {
  Fc1 fc(batch_of(state));
  measure(state, [&] { cpu().linear_forward(fc.x, fc.w, fc.b, fc.y); });
}

void fc1_backward_input(benchmark::State& state) {
  Fc1 fc(batch_of(state));
  measure(state, [&] { cpu().linear_backward_input(fc.y, fc.w, fc.x); });
}

void fc1_backward_weight(benchmark::State& state) {
  Fc1 fc(batch_of(state));
  measure(state, [&] { cpu().linear_backward_weight(fc.y, fc.x, fc.w, fc.b); });
}

void log_softmax_nll(benchmark::State& state) {
  const Batch batch = random_batch(batch_of(state));
  const Tensor x = random_tensor({batch.labels.numel(), 10});
  measure(state, [&] { functional::nll_loss(functional::log_softmax(x), batch.labels); });
}

void sgd(benchmark::State& state) {
  batch_of(state);
  ArticleB net(/*dropout=*/false);
  std::vector<Tensor> params = net.parameters(), grads, buffers;
  for (const Tensor& p : params) {
    grads.push_back(Tensor::zeros(p.shape()));
    buffers.push_back(Tensor::zeros(p.shape()));
  }
  const std::vector<uint8_t> first(params.size(), 0);
  measure(state, [&] { cpu().sgd_step(params, grads, buffers, first, {.lr = 0.01, .momentum = 0.5}); });
}

void batch_and_threads(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"batch", "threads"})->ArgsProduct({{64, 256}, {1, 2}});
  bench->Unit(benchmark::kMicrosecond)->UseRealTime();
}
BENCHMARK_TEMPLATE(conv_forward, conv1)->Apply(batch_and_threads);
BENCHMARK_TEMPLATE(conv_backward_weight, conv1)->Apply(batch_and_threads);
BENCHMARK_TEMPLATE(conv_forward, conv2)->Apply(batch_and_threads);
BENCHMARK_TEMPLATE(conv_backward_input, conv2)->Apply(batch_and_threads);
BENCHMARK_TEMPLATE(conv_backward_weight, conv2)->Apply(batch_and_threads);
BENCHMARK(relu2_forward)->Apply(batch_and_threads);
BENCHMARK(relu2_backward)->Apply(batch_and_threads);
BENCHMARK(max_pool_forward)->Apply(batch_and_threads);
BENCHMARK(max_pool_backward)->Apply(batch_and_threads);
BENCHMARK(dropout2d)->Apply(batch_and_threads);
BENCHMARK(fc1_forward)->Apply(batch_and_threads);
BENCHMARK(fc1_backward_input)->Apply(batch_and_threads);
BENCHMARK(fc1_backward_weight)->Apply(batch_and_threads);
BENCHMARK(log_softmax_nll)->Apply(batch_and_threads);
BENCHMARK(sgd)->Apply(batch_and_threads);

}  // namespace
}  // namespace miniddp::benchmarks
