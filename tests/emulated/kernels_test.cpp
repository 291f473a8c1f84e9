// Kernels that no gradient passes through: copies, casts, counting, masks, SGD.
#include <cmath>

#include "common/core/generator.h"
#include "common/nn/functional.h"
#include "common/optim/sgd.h"
#include "tests/emulated/operators.h"
#include "tests/support/compare.h"

using namespace miniddp;
using namespace miniddp::testing;
namespace F = miniddp::functional;

namespace {

Kernels& cuda() { return kernels(DeviceType::cuda); }

}  // namespace

TEST_CASE("kernels: fill, axpy and scale in place") {
  NEEDS_GPUS(1);
  Sizes size(1);
  for (int round = 0; round < rounds; ++round) {
    const int64_t n = size(1, 5000);
    for (const DType dtype : {DType::float32, DType::float64, DType::int64, DType::uint8}) {
      CHECK(to_doubles(Tensor::full({n}, 7, dtype, gpu0)) == std::vector<double>(static_cast<size_t>(n), 7));
    }
    const Tensor x = random_floats({n}, size.seed()), y = random_floats({n}, size.seed());
    Tensor found = y.to(gpu0), expected = y.clone();
    found.add_(x.to(gpu0), -0.3).mul_(1.7);
    expected.add_(x, -0.3).mul_(1.7);
    check_close("axpy and scale", found, expected, 1e-6);
  }
}

TEST_CASE("kernels: casts round as the CPU's do") {
  NEEDS_GPUS(1);
  // Ties, subnormals, overflow, both zeros and infinities, and random numbers of all sizes.
  std::vector<float> values{0.0f, -0.0f, 1.0f, 65504.0f, 65519.0f, 65520.0f, -1e9f, 6.1e-5f, 5.96e-8f, 2.98e-8f, 2.981e-8f, 1e-40f,
                            INFINITY, -INFINITY, 1.0009765625f, 1.00048828125f, 1.00146484375f, 1.00390625f, 1.01171875f, 3.4e38f};
  std::mt19937 random(2);
  for (int i = 0; i < 1000; ++i) values.push_back(std::ldexp(std::uniform_real_distribution<float>(-2, 2)(random), i % 60 - 30));
  const Tensor x = Tensor::from(values, {static_cast<int64_t>(values.size())});
  for (const DType from : {DType::float32, DType::float64, DType::float16, DType::bfloat16}) {
    const Tensor source = x.to(from);
    for (const DType to : {DType::float32, DType::float64, DType::float16, DType::bfloat16}) {
      INFO(name_of(from) << " to " << name_of(to));
      CHECK(same_bits(source.to(gpu0).to(to), source.to(to)));
    }
  }
  const Tensor labels = random_targets(133, 200, 3);
  CHECK(same_bits(labels.to(gpu0).to(DType::float32), labels.to(DType::float32)));
  for (const DType to : {DType::float16, DType::bfloat16}) {
    const Tensor nan = Tensor::from({NAN}, {1}, gpu0).to(to).to(DType::float32);
    CHECK(std::isnan(nan.item<float>()));
  }
}

TEST_CASE("kernels: count_correct adds up, the first of equals counts") {
  NEEDS_GPUS(1);
  Sizes size(4);
  for (int round = 0; round < rounds; ++round) {
    const int64_t rows = size(0, 600), classes = size(1, 13);
    const Tensor x = random_floats({rows, classes}, size.seed()), target = random_targets(rows, classes, size.seed());
    Tensor found = Tensor::full({}, 3, DType::int64, gpu0), expected = Tensor::full({}, 3, DType::int64);
    cuda().count_correct(x.to(gpu0), target.to(gpu0), found);
    kernels(DeviceType::cpu).count_correct(x, target, expected);
    CHECK(found.item<int64_t>() == expected.item<int64_t>());
  }
  Tensor count = Tensor::zeros({}, DType::int64, gpu0);
  cuda().count_correct(Tensor::from({1, 1, 0, NAN, 5, NAN}, {2, 3}, gpu0), Tensor::from(std::vector<int64_t>{0, 0}, {2}, gpu0), count);
  CHECK(count.item<int64_t>() == 2);
}

TEST_CASE("kernels: a dropout mask keeps its share, depends on seed and call only, and scales planes") {
  NEEDS_GPUS(1);
  const int64_t n = 100003;
  Generator one(5), two(5), other(6);
  const auto draw = [&](Generator& generator) {
    Tensor mask = Tensor::empty({n}, DType::float32, gpu0);
    cuda().dropout_mask(0.75, generator, mask);
    return mask;
  };
  const Tensor first = draw(one), second = draw(one);
  CHECK(same_bits(first, draw(two)));
  CHECK(same_bits(second, draw(two)));
  CHECK_FALSE(same_bits(first, second));
  CHECK_FALSE(same_bits(first, draw(other)));
  int64_t kept = 0;
  for (const float value : first.to_vector<float>()) {
    if (value != 0) CHECK(value == 1.0f / 0.75f);
    kept += value != 0;
  }
  // Four standard deviations of the binomial distribution.
  CHECK(std::fabs(static_cast<double>(kept) - 0.75 * n) <= 4 * std::sqrt(n * 0.75 * 0.25));

  Sizes size(7);
  for (int round = 0; round < rounds; ++round) {
    const int64_t batch = size(1, 7), channels = size(1, 5);
    const Tensor mask = random_floats({batch, channels}, size.seed());
    check_operator("scale_planes", {random_floats({batch, channels, size(1, 9), size(1, 30)}, size.seed())}, [&](const Tensors& in) {
      Tensor y = Tensor::empty_like(in[0]);
      const Tensor factors = mask.to(in[0].dtype()).to(in[0].device());
      kernels(in[0].device().type).scale_planes(in[0].detach(), factors, y);
      return F::add(y, F::scale(in[0], 0.5));
    });
  }
}

TEST_CASE("kernels: dropout, the gradient passes where the value did") {
  NEEDS_GPUS(1);
  Tensor x = random_floats({13, 7, 3, 5}, 8).to(gpu0).set_requires_grad();
  for (const bool planes : {false, true}) {
    const Tensor y = planes ? F::dropout2d(x, 0.4, true) : F::dropout(x, 0.4, true);
    x.set_grad({});
    y.backward(Tensor::full(x.shape(), 2, DType::float32, gpu0));
    const auto in = x.to_vector<float>(), out = y.to_vector<float>(), gradient = x.grad().to_vector<float>();
    int dropped = 0;
    for (size_t i = 0; i < in.size(); ++i) {
      const bool kept = out[i] != 0;
      dropped += !kept;
      CHECK(gradient[i] == (kept ? 2 / 0.6f : 0.0f));
    }
    CHECK(dropped > 0);
    CHECK(dropped < static_cast<int>(in.size()));
  }
}

TEST_CASE("kernels: SGD over many parameters at once, with every option") {
  NEEDS_GPUS(1);
  const std::vector<SgdParams> variants{{.lr = 0.1},
                                        {.lr = 0.01, .momentum = 0.5},
                                        {.lr = 0.05, .momentum = 0.9, .weight_decay = 0.1, .nesterov = true},
                                        {.lr = 0.05, .momentum = 0.9, .dampening = 0.3}};
  for (const SgdParams& options : variants) {
    Sizes size(9);
    std::vector<Tensor> on_cpu, on_gpu;
    for (int i = 0; i < 37; ++i) {  // more than one launch takes
      const Shape shape{size(1, 5), i % 11 == 10 ? 0 : size(1, i % 10 == 0 ? 3000 : 40)};
      on_cpu.push_back(random_floats(shape, size.seed()));
      on_gpu.push_back(on_cpu.back().to(gpu0));
      on_cpu.back().set_requires_grad();
      on_gpu.back().set_requires_grad();
    }
    SGD cpu_sgd(on_cpu, options), gpu_sgd(on_gpu, options);
    for (int step = 0; step < 3; ++step) {
      for (size_t i = 0; i < on_cpu.size(); ++i) {
        if (i == 3 && step == 0) continue;  // its first step comes later than the others'
        const Tensor gradient = random_floats(on_cpu[i].shape(), size.seed());
        on_cpu[i].set_grad(gradient);
        on_gpu[i].set_grad(gradient.to(gpu0));
      }
      cpu_sgd.step();
      gpu_sgd.step();
    }
    for (size_t i = 0; i < on_cpu.size(); ++i) {
      if (on_cpu[i].numel() > 0) check_close("parameter " + std::to_string(i), on_gpu[i], on_cpu[i], 1e-6);
    }
  }
}

TEST_CASE("kernels: copies between host and GPU, whole and in rows") {
  NEEDS_GPUS(1);
  Sizes size(10);
  for (int round = 0; round < rounds; ++round) {
    const int64_t rows = size(1, 13), columns = size(2, 300), part = size(1, columns);
    const Tensor x = random_floats({rows, columns}, size.seed());
    const Tensor there = x.to(gpu0);
    CHECK(same_bits(there.to(Device{}), x));
    CHECK(same_bits(there.clone(), x));
    // The first `part` columns into a narrower tensor, host to GPU, within the GPU, and back.
    const size_t width = static_cast<size_t>(part) * sizeof(float), pitch = static_cast<size_t>(columns) * sizeof(float);
    Tensor expected = Tensor::empty({rows, part}), back = Tensor::empty({rows, part});
    Tensor a = Tensor::empty({rows, part}, DType::float32, gpu0), b = Tensor::zeros({rows, columns}, DType::float32, gpu0);
    copy_rows(expected.raw_data(), {}, width, x.raw_data(), {}, pitch, width, static_cast<size_t>(rows));
    copy_rows(a.raw_data(), gpu0, width, x.raw_data(), {}, pitch, width, static_cast<size_t>(rows));
    copy_rows(b.raw_data(), gpu0, pitch, a.raw_data(), gpu0, width, width, static_cast<size_t>(rows));
    copy_rows(back.raw_data(), {}, width, b.raw_data(), gpu0, pitch, width, static_cast<size_t>(rows));
    CHECK(same_bits(a, expected));
    CHECK(same_bits(back, expected));
  }
}
