// oneDNN 2.6 and 3.x behind one face: the only file that knows which of the two it is.
#pragma once

#include <omp.h>

#include <cstdint>
#include <oneapi/dnnl/dnnl.hpp>

#include "common/core/error.h"
#include "common/kernels/kernels.h"

namespace miniddp::onednn {

using dnnl::memory;

/// The one engine. Never destroyed: primitives in static caches may outlive everything else.
inline const dnnl::engine& engine() {
  static const auto* instance = new dnnl::engine(dnnl::engine::kind::cpu, 0);
  return *instance;
}

/// oneDNN asks OpenMP how many threads to use, and OpenMP keeps that number for each thread.
inline int apply_thread_share() {
  const int threads = threads_per_device();
  omp_set_num_threads(threads);
  return threads;
}

/// c (M, N) = op(a) (M, K) * op(b) (K, N) + beta * c, row-major with rows of lda, ldb and ldc elements.
inline void sgemm(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k, const float* a, int64_t lda,
                  const float* b, int64_t ldb, float beta, float* c, int64_t ldc) {
  apply_thread_share();
  const auto status = dnnl::sgemm(transpose_a ? 'T' : 'N', transpose_b ? 'T' : 'N', m, n, k, 1.0f, a, lda, b, ldb, beta,
                                  c, ldc);
  check(status == dnnl::status::success, "oneDNN could not multiply ({}, {}) by ({}, {}): status {}", m, k, k, n,
        static_cast<int>(status));
}

/// Operands of a convolution; a zero `bias` stands for none.
struct ConvolutionDescs {
  memory::desc src, weights, bias, dst;
  memory::dims strides, padding;
};

// Each returns an empty primitive_desc where oneDNN has no such implementation on this machine.
// `hint` is the forward convolution that a backward one belongs to.
#if DNNL_VERSION_MAJOR >= 3

inline auto convolution_forward(dnnl::algorithm algorithm, const ConvolutionDescs& d,
                                const dnnl::primitive_attr& attr) {
  return dnnl::convolution_forward::primitive_desc(engine(), dnnl::prop_kind::forward_training, algorithm, d.src,
                                                   d.weights, d.bias, d.dst, d.strides, d.padding, d.padding, attr,
                                                   true);
}

inline auto convolution_backward_data(dnnl::algorithm algorithm, const ConvolutionDescs& d,
                                      const dnnl::convolution_forward::primitive_desc& hint,
                                      const dnnl::primitive_attr& attr) {
  return dnnl::convolution_backward_data::primitive_desc(engine(), algorithm, d.src, d.weights, d.dst, d.strides,
                                                         d.padding, d.padding, hint, attr, true);
}

inline auto convolution_backward_weights(dnnl::algorithm algorithm, const ConvolutionDescs& d,
                                         const dnnl::convolution_forward::primitive_desc& hint,
                                         const dnnl::primitive_attr& attr) {
  return dnnl::convolution_backward_weights::primitive_desc(engine(), algorithm, d.src, d.weights, d.bias, d.dst,
                                                            d.strides, d.padding, d.padding, hint, attr, true);
}

#else

inline auto convolution_forward(dnnl::algorithm algorithm, const ConvolutionDescs& d,
                                const dnnl::primitive_attr& attr) {
  const dnnl::convolution_forward::desc desc(dnnl::prop_kind::forward_training, algorithm, d.src, d.weights, d.bias,
                                             d.dst, d.strides, d.padding, d.padding);
  return dnnl::convolution_forward::primitive_desc(desc, attr, engine(), true);
}

inline auto convolution_backward_data(dnnl::algorithm algorithm, const ConvolutionDescs& d,
                                      const dnnl::convolution_forward::primitive_desc& hint,
                                      const dnnl::primitive_attr& attr) {
  const dnnl::convolution_backward_data::desc desc(algorithm, d.src, d.weights, d.dst, d.strides, d.padding,
                                                   d.padding);
  return dnnl::convolution_backward_data::primitive_desc(desc, attr, engine(), hint, true);
}

inline auto convolution_backward_weights(dnnl::algorithm algorithm, const ConvolutionDescs& d,
                                         const dnnl::convolution_forward::primitive_desc& hint,
                                         const dnnl::primitive_attr& attr) {
  const dnnl::convolution_backward_weights::desc desc(algorithm, d.src, d.weights, d.bias, d.dst, d.strides, d.padding,
                                                      d.padding);
  return dnnl::convolution_backward_weights::primitive_desc(desc, attr, engine(), hint, true);
}

#endif

}  // namespace miniddp::onednn
