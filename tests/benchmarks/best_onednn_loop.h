// The peer our training step is measured against: article B's step (without dropout) written by hand for oneDNN alone,
// with activations and weights kept in oneDNN's blocked layouts between the layers. No tensor, no tape, no allocation.
#pragma once

#include <cstdint>
#include <vector>

#include "common/kernels/cpu/onednn.h"

namespace miniddp::benchmarks {

/// The plain values of article B's parameters, as PyTorch stores them.
struct ArticleBWeights {
  std::vector<float> conv1_w, conv1_b, conv2_w, conv2_b, fc1_w, fc1_b, fc2_w, fc2_b;
};

class BestOnednnLoop {
 public:
  BestOnednnLoop(int64_t batch, const ArticleBWeights& weights, float lr, float momentum);

  /// One training step on images (batch, 1, 28, 28) with labels (batch). Returns the mean loss before the update.
  float step(const float* images, const int64_t* labels);

 private:
  /// A parameter in the layout its kernel likes, with its gradient and velocity.
  struct Parameter {
    dnnl::memory value, grad, velocity;
  };
  /// One convolution: its primitives, and the weights as backward_data wants them.
  struct Convolution {
    dnnl::convolution_forward::primitive_desc forward_desc;
    dnnl::convolution_backward_data::primitive_desc data_desc;
    dnnl::convolution_backward_weights::primitive_desc weights_desc;
    dnnl::convolution_forward forward;
    dnnl::convolution_backward_data backward_data;
    dnnl::convolution_backward_weights backward_weights;
    Parameter weight, bias;
    dnnl::memory data_weight, scratchpad;
  };

  Convolution make_convolution(dnnl::algorithm algorithm, const dnnl::memory::desc& src, int64_t outputs, int64_t size,
                               bool needs_input_grad, const std::vector<float>& weight,
                               const std::vector<float>& bias);
  Parameter make_parameter(const dnnl::memory::desc& desc, const dnnl::memory& value);
  Parameter make_vector(const std::vector<float>& values);
  void forward(const float* images);
  float loss_and_grad(const int64_t* labels);
  void backward();
  void update();

  int64_t batch_, block_ = 16;
  float lr_, momentum_;
  dnnl::stream stream_;
  Convolution conv1_, conv2_;
  Parameter fc1_w_, fc1_b_, fc2_w_, fc2_b_;
  dnnl::memory x_, a1_, a2_, grad_a1_, grad_a2_;
  std::vector<float> pooled_, grad_pooled_, hidden_, grad_hidden_, scores_, grad_scores_;
  std::vector<uint8_t> winner_;
};

}  // namespace miniddp::benchmarks
