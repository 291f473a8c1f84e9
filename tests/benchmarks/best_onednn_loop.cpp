#include "tests/benchmarks/best_onednn_loop.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace miniddp::benchmarks {

namespace {

using dnnl::memory;
using Tag = memory::format_tag;
constexpr int64_t channels1 = 32, size1 = 26, channels2 = 64, size2 = 24, pooled_size = 12;
constexpr int64_t features = channels2 * pooled_size * pooled_size, hidden_size = 128, classes = 10;

memory::desc desc(memory::dims dims, Tag tag) { return {std::move(dims), memory::data_type::f32, tag}; }
memory make_memory(const memory::desc& d) {
  memory result(d, onednn::engine());
  std::memset(result.get_data_handle(), 0, d.get_size());  // also touches the pages
  return result;
}
float* floats(const memory& m) { return static_cast<float*>(m.get_data_handle()); }
int64_t count_of(const memory& m) { return static_cast<int64_t>(m.get_desc().get_size() / sizeof(float)); }

void relu(float* x, int64_t n) {
#pragma omp parallel for simd
  for (int64_t i = 0; i < n; ++i) x[i] = x[i] < 0 ? 0 : x[i];
}

void relu_backward(float* grad, const float* y, int64_t n) {
#pragma omp parallel for simd
  for (int64_t i = 0; i < n; ++i) grad[i] = y[i] > 0 ? grad[i] : 0;
}

/// x (planes, 24, 24, B) -> y (planes, 12, 12, B): B channels lie side by side.
template <int64_t B>
void pool(const float* x, int64_t planes, float* y, uint8_t* winner) {
#pragma omp parallel for
  for (int64_t row = 0; row < planes * pooled_size; ++row) {
    const float* top = x + 2 * row * size2 * B;
    for (int64_t i = 0; i < pooled_size; ++i) {
      const float* window[4] = {top + 2 * i * B, top + (2 * i + 1) * B, top + (size2 + 2 * i) * B,
                                top + (size2 + 2 * i + 1) * B};
      const int64_t out = (row * pooled_size + i) * B;
#pragma omp simd
      for (int64_t c = 0; c < B; ++c) {
        float best = window[0][c];
        int place = 0;
        for (int k = 1; k < 4; ++k) {
          place = window[k][c] > best ? k : place;
          best = std::max(best, window[k][c]);
        }
        y[out + c] = best;
        winner[out + c] = static_cast<uint8_t>(place);
      }
    }
  }
}

template <int64_t B>
void unpool(const float* grad, const uint8_t* winner, int64_t planes, float* dx) {
#pragma omp parallel for
  for (int64_t row = 0; row < planes * pooled_size; ++row) {
    float* top = dx + 2 * row * size2 * B;
    for (int64_t i = 0; i < pooled_size; ++i) {
      float* window[4] = {top + 2 * i * B, top + (2 * i + 1) * B, top + (size2 + 2 * i) * B,
                          top + (size2 + 2 * i + 1) * B};
      const int64_t in = (row * pooled_size + i) * B;
      for (int k = 0; k < 4; ++k) {
#pragma omp simd
        for (int64_t c = 0; c < B; ++c) window[k][c] = winner[in + c] == k ? grad[in + c] : 0;
      }
    }
  }
}

void add_bias(float* y, const float* bias, int64_t rows, int64_t columns) {
  for (int64_t n = 0; n < rows; ++n) std::copy(bias, bias + columns, y + n * columns);
}

void sum_rows(const float* grad, float* out, int64_t rows, int64_t columns) {
  std::fill(out, out + columns, 0.0f);
  for (int64_t n = 0; n < rows; ++n) {
    for (int64_t c = 0; c < columns; ++c) out[c] += grad[n * columns + c];
  }
}

}  // namespace

BestOnednnLoop::Parameter BestOnednnLoop::make_parameter(const memory::desc& d, const memory& value) {
  Parameter result{make_memory(d), make_memory(d), make_memory(d)};
  dnnl::reorder(value, result.value).execute(stream_, const_cast<memory&>(value), result.value);
  stream_.wait();
  return result;
}

BestOnednnLoop::Parameter BestOnednnLoop::make_vector(const std::vector<float>& values) {
  const memory::desc d = desc({static_cast<int64_t>(values.size())}, Tag::x);
  return make_parameter(d, memory(d, onednn::engine(), const_cast<float*>(values.data())));
}

BestOnednnLoop::Convolution BestOnednnLoop::make_convolution(dnnl::algorithm algorithm, const memory::desc& src,
                                                             int64_t outputs, int64_t size, bool needs_input_grad,
                                                             const std::vector<float>& weight,
                                                             const std::vector<float>& bias) {
  const int64_t inputs = needs_input_grad ? channels1 : 1;
  const memory::dims weight_dims{outputs, inputs, 3, 3};
  const onednn::ConvolutionDescs descs{src, desc(weight_dims, Tag::any), desc({outputs}, Tag::x),
                                       desc({batch_, outputs, size, size}, Tag::any), {1, 1}, {0, 0}};
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  Convolution c;
  c.forward_desc = onednn::convolution_forward(algorithm, descs, attr);
  if (!c.forward_desc) {  // no Winograd on this machine
    return make_convolution(dnnl::algorithm::convolution_direct, src, outputs, size, needs_input_grad, weight, bias);
  }
  // Activations and their gradients share one layout, so that nothing is reordered between the layers.
  onednn::ConvolutionDescs backward = descs;
  backward.dst = c.forward_desc.dst_desc();
  c.weights_desc = onednn::convolution_backward_weights(algorithm, backward, c.forward_desc, attr);
  check(static_cast<bool>(c.weights_desc), "oneDNN has no backward convolution for the layout of its forward one");
  size_t scratch = std::max(c.forward_desc.scratchpad_desc().get_size(), c.weights_desc.scratchpad_desc().get_size());
  c.forward = dnnl::convolution_forward(c.forward_desc);
  c.backward_weights = dnnl::convolution_backward_weights(c.weights_desc);
  if (needs_input_grad) {
    c.data_desc = onednn::convolution_backward_data(algorithm, backward, c.forward_desc, attr);
    check(static_cast<bool>(c.data_desc), "oneDNN has no backward convolution for the layout of its forward one");
    c.backward_data = dnnl::convolution_backward_data(c.data_desc);
    c.data_weight = make_memory(c.data_desc.weights_desc());
    scratch = std::max(scratch, c.data_desc.scratchpad_desc().get_size());
  }
  check(c.forward_desc.weights_desc() == c.weights_desc.diff_weights_desc(),
        "expected weights and their gradient in one layout");
  c.scratchpad = make_memory(memory::desc({static_cast<int64_t>(scratch) + 64}, memory::data_type::u8, Tag::a));
  c.weight = make_parameter(c.forward_desc.weights_desc(), memory(desc(weight_dims, Tag::oihw), onednn::engine(),
                                                                  const_cast<float*>(weight.data())));
  c.bias = make_vector(bias);
  return c;
}

BestOnednnLoop::BestOnednnLoop(int64_t batch, const ArticleBWeights& w, float lr, float momentum)
    : batch_(batch), lr_(lr), momentum_(momentum), stream_(onednn::engine()) {
  onednn::apply_thread_share();
  x_ = memory(desc({batch, 1, 28, 28}, Tag::nchw), onednn::engine(), nullptr);
  conv1_ = make_convolution(dnnl::algorithm::convolution_direct, x_.get_desc(), channels1, size1, false, w.conv1_w,
                            w.conv1_b);
  conv2_ = make_convolution(dnnl::algorithm::convolution_winograd, conv1_.forward_desc.dst_desc(), channels2, size2,
                            true, w.conv2_w, w.conv2_b);
  block_ = conv2_.forward_desc.dst_desc() == desc({batch, channels2, size2, size2}, Tag::nChw16c) ? 16 : 8;
  check(block_ == 16 || conv2_.forward_desc.dst_desc() == desc({batch, channels2, size2, size2}, Tag::nChw8c),
        "expected oneDNN to keep 8 or 16 channels side by side");
  a1_ = make_memory(conv1_.forward_desc.dst_desc());
  a2_ = make_memory(conv2_.forward_desc.dst_desc());
  grad_a1_ = make_memory(conv1_.forward_desc.dst_desc());
  grad_a2_ = make_memory(conv2_.forward_desc.dst_desc());
  // fc1 sees the pooled activations in the blocked order, so its columns are permuted once, here.
  std::vector<float> fc1(w.fc1_w.size());
  for (int64_t o = 0; o < hidden_size; ++o) {
    for (int64_t c = 0; c < channels2; ++c) {
      for (int64_t i = 0; i < pooled_size * pooled_size; ++i) {
        const int64_t blocked = (c / block_ * pooled_size * pooled_size + i) * block_ + c % block_;
        fc1[o * features + blocked] = w.fc1_w[o * features + c * pooled_size * pooled_size + i];
      }
    }
  }
  fc1_w_ = make_vector(fc1);
  fc1_b_ = make_vector(w.fc1_b);
  fc2_w_ = make_vector(w.fc2_w);
  fc2_b_ = make_vector(w.fc2_b);
  for (auto* buffer : {&pooled_, &grad_pooled_}) buffer->resize(batch * features);
  for (auto* buffer : {&hidden_, &grad_hidden_}) buffer->resize(batch * hidden_size);
  for (auto* buffer : {&scores_, &grad_scores_}) buffer->resize(batch * classes);
  winner_.resize(batch * features);
}

void BestOnednnLoop::forward(const float* images) {
  x_.set_data_handle(const_cast<float*>(images));
  conv1_.forward.execute(stream_, {{DNNL_ARG_SRC, x_}, {DNNL_ARG_WEIGHTS, conv1_.weight.value},
                                   {DNNL_ARG_BIAS, conv1_.bias.value}, {DNNL_ARG_DST, a1_},
                                   {DNNL_ARG_SCRATCHPAD, conv1_.scratchpad}});
  relu(floats(a1_), count_of(a1_));
  conv2_.forward.execute(stream_, {{DNNL_ARG_SRC, a1_}, {DNNL_ARG_WEIGHTS, conv2_.weight.value},
                                   {DNNL_ARG_BIAS, conv2_.bias.value}, {DNNL_ARG_DST, a2_},
                                   {DNNL_ARG_SCRATCHPAD, conv2_.scratchpad}});
  relu(floats(a2_), count_of(a2_));
  const auto pooling = block_ == 16 ? pool<16> : pool<8>;
  pooling(floats(a2_), batch_ * channels2 / block_, pooled_.data(), winner_.data());
  add_bias(hidden_.data(), floats(fc1_b_.value), batch_, hidden_size);
  onednn::sgemm(false, true, batch_, hidden_size, features, pooled_.data(), features, floats(fc1_w_.value), features, 1,
                hidden_.data(), hidden_size);
  relu(hidden_.data(), batch_ * hidden_size);
  add_bias(scores_.data(), floats(fc2_b_.value), batch_, classes);
  onednn::sgemm(false, true, batch_, classes, hidden_size, hidden_.data(), hidden_size, floats(fc2_w_.value),
                hidden_size, 1, scores_.data(), classes);
}

float BestOnednnLoop::loss_and_grad(const int64_t* labels) {
  double loss = 0;
  for (int64_t n = 0; n < batch_; ++n) {
    const float* row = scores_.data() + n * classes;
    float* grad = grad_scores_.data() + n * classes;
    const float largest = *std::max_element(row, row + classes);
    float total = 0;
    for (int64_t c = 0; c < classes; ++c) total += std::exp(row[c] - largest);
    const float log_total = largest + std::log(total);
    loss += log_total - row[labels[n]];
    for (int64_t c = 0; c < classes; ++c) {
      grad[c] = (std::exp(row[c] - log_total) - (c == labels[n] ? 1.0f : 0.0f)) / static_cast<float>(batch_);
    }
  }
  return static_cast<float>(loss / static_cast<double>(batch_));
}

void BestOnednnLoop::backward() {
  onednn::sgemm(true, false, classes, hidden_size, batch_, grad_scores_.data(), classes, hidden_.data(), hidden_size, 0,
                floats(fc2_w_.grad), hidden_size);
  sum_rows(grad_scores_.data(), floats(fc2_b_.grad), batch_, classes);
  onednn::sgemm(false, false, batch_, hidden_size, classes, grad_scores_.data(), classes, floats(fc2_w_.value),
                hidden_size, 0, grad_hidden_.data(), hidden_size);
  relu_backward(grad_hidden_.data(), hidden_.data(), batch_ * hidden_size);
  onednn::sgemm(true, false, hidden_size, features, batch_, grad_hidden_.data(), hidden_size, pooled_.data(), features,
                0, floats(fc1_w_.grad), features);
  sum_rows(grad_hidden_.data(), floats(fc1_b_.grad), batch_, hidden_size);
  onednn::sgemm(false, false, batch_, features, hidden_size, grad_hidden_.data(), hidden_size, floats(fc1_w_.value),
                features, 0, grad_pooled_.data(), features);
  const auto unpooling = block_ == 16 ? unpool<16> : unpool<8>;
  unpooling(grad_pooled_.data(), winner_.data(), batch_ * channels2 / block_, floats(grad_a2_));
  relu_backward(floats(grad_a2_), floats(a2_), count_of(a2_));
  conv2_.backward_weights.execute(stream_, {{DNNL_ARG_SRC, a1_}, {DNNL_ARG_DIFF_DST, grad_a2_},
                                            {DNNL_ARG_DIFF_WEIGHTS, conv2_.weight.grad},
                                            {DNNL_ARG_DIFF_BIAS, conv2_.bias.grad},
                                            {DNNL_ARG_SCRATCHPAD, conv2_.scratchpad}});
  if (conv2_.data_weight.get_desc() != conv2_.weight.value.get_desc()) {
    dnnl::reorder(conv2_.weight.value, conv2_.data_weight).execute(stream_, conv2_.weight.value, conv2_.data_weight);
  } else {
    conv2_.data_weight = conv2_.weight.value;
  }
  conv2_.backward_data.execute(stream_, {{DNNL_ARG_DIFF_DST, grad_a2_}, {DNNL_ARG_WEIGHTS, conv2_.data_weight},
                                         {DNNL_ARG_DIFF_SRC, grad_a1_}, {DNNL_ARG_SCRATCHPAD, conv2_.scratchpad}});
  relu_backward(floats(grad_a1_), floats(a1_), count_of(a1_));
  conv1_.backward_weights.execute(stream_, {{DNNL_ARG_SRC, x_}, {DNNL_ARG_DIFF_DST, grad_a1_},
                                            {DNNL_ARG_DIFF_WEIGHTS, conv1_.weight.grad},
                                            {DNNL_ARG_DIFF_BIAS, conv1_.bias.grad},
                                            {DNNL_ARG_SCRATCHPAD, conv1_.scratchpad}});
  stream_.wait();
}

void BestOnednnLoop::update() {
  for (Parameter* p : {&conv1_.weight, &conv1_.bias, &conv2_.weight, &conv2_.bias, &fc1_w_, &fc1_b_, &fc2_w_, &fc2_b_}) {
    float *value = floats(p->value), *velocity = floats(p->velocity);
    const float* grad = floats(p->grad);
    const int64_t n = count_of(p->value);
#pragma omp parallel for simd if (n > 32768)
    for (int64_t i = 0; i < n; ++i) {
      velocity[i] = momentum_ * velocity[i] + grad[i];
      value[i] -= lr_ * velocity[i];
    }
  }
}

float BestOnednnLoop::step(const float* images, const int64_t* labels) {
  onednn::apply_thread_share();
  forward(images);
  const float loss = loss_and_grad(labels);
  backward();
  update();
  return loss;
}

}  // namespace miniddp::benchmarks
