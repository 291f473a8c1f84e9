// Convolution by oneDNN. Tensors are plain NCHW; oneDNN is fast in layouts of its own, with 8 or 16 channels side by
// side, so operands are reordered at the operator's boundary. The batch goes through in chunks: what one stage writes
// the next one still finds in the core's cache, and a large batch needs no more scratch memory than a small one.
#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "common/kernels/cpu/block_cache.h"
#include "common/kernels/cpu/convolution.h"
#include "common/kernels/cpu/onednn.h"
#include "common/kernels/cpu/parallel.h"

namespace miniddp::fast_conv {

namespace {

using dnnl::memory;
using Tag = memory::format_tag;

enum class Pass { forward, backward_input, backward_weight };

/// One operand: where oneDNN wants it, and how it gets there.
struct Operand {
  int arg;  // DNNL_ARG_…
  bool output;
  memory::desc plain, inner;
  std::optional<dnnl::reorder> reorder;  // into or out of `inner`, where that is not `plain`
  int64_t blocks = 0;                    // an output that unblock() reorders: its blocks of channels
};

constexpr int64_t block = 16;

/// (blocks, H * W, 16) -> (blocks * 16, H * W): oneDNN's favourite layout back to NCHW, twice as fast as its own reorder.
void unblock(const float* blocked, int64_t blocks, int64_t size, float* plain) {
  constexpr int64_t tile = 16;
  parallel_for(blocks, block * size, [=](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) {
      const float* from = blocked + b * block * size;
      float* to = plain + b * block * size;
      for (int64_t start = 0; start < size; start += tile) {
        const int64_t n = std::min(tile, size - start);
        const auto transpose = [&](int64_t columns) {
          for (int64_t c = 0; c < block; ++c) {
            for (int64_t i = 0; i < columns; ++i) to[c * size + start + i] = from[(start + i) * block + c];
          }
        };
        n == tile ? transpose(tile) : transpose(n);  // a constant length vectorises
      }
    }
  });
}

memory::desc plain_desc(memory::dims dims, Tag tag) { return {std::move(dims), memory::data_type::f32, tag}; }
memory::desc any_desc(memory::dims dims) { return {std::move(dims), memory::data_type::f32, Tag::any}; }

size_t round_up(size_t bytes) { return (bytes + 63) / 64 * 64; }

/// One pass over one chunk of the batch: the primitive, made once for each shape and number of threads. It holds no
/// memory, so several threads may run it at once.
class Plan {
 public:
  Plan(Pass pass, const ConvShape& s, bool bias) {
    const memory::dims x{s.n, s.c, s.h, s.w}, w{s.o, s.c, s.k, s.k}, b{s.o}, y{s.n, s.o, s.oh, s.ow};
    onednn::ConvolutionDescs descs{any_desc(x), any_desc(w), bias ? plain_desc(b, Tag::x) : memory::desc(),
                                   any_desc(y), {s.stride, s.stride}, {s.padding, s.padding}};
    // Winograd needs fewer multiplications for 3x3, but pays for its transforms with few channels.
    const bool winograd = s.k == 3 && s.stride == 1 && s.c >= 16 && s.o >= 16;
    if (!winograd || !create(dnnl::algorithm::convolution_winograd, pass, descs)) {
      check(create(dnnl::algorithm::convolution_direct, pass, descs),
            "oneDNN has no convolution for {} x {} x {} images, {} output channels and a {} x {} kernel", s.c, s.h,
            s.w, s.o, s.k, s.k);
    }
    const bool backward_input = pass == Pass::backward_input, backward_weight = pass == Pass::backward_weight;
    const int src = backward_input ? DNNL_ARG_DIFF_SRC : DNNL_ARG_SRC;
    const int weights = backward_weight ? DNNL_ARG_DIFF_WEIGHTS : DNNL_ARG_WEIGHTS;
    add_operand(src, backward_input, x, Tag::nchw);
    add_operand(weights, backward_weight, w, Tag::oihw);
    if (bias) add_operand(backward_weight ? DNNL_ARG_DIFF_BIAS : DNNL_ARG_BIAS, backward_weight, b, Tag::x);
    add_operand(pass == Pass::forward ? DNNL_ARG_DST : DNNL_ARG_DIFF_DST, pass == Pass::forward, y, Tag::nchw);
    scratch_bytes_ += scratchpad_.get_size();
  }

  /// `plain`: x, w, b (where there is one), y, or their gradients.
  void run(std::span<float* const> plain) const {
    thread_local dnnl::stream stream(onednn::engine());
    Scratch scratch(scratch_bytes_);
    std::byte* free = scratch.data();
    std::unordered_map<int, memory> args;
    for (size_t i = 0; i < operands_.size(); ++i) {
      const Operand& operand = operands_[i];
      memory user(operand.plain, onednn::engine(), plain[i]);
      if (!operand.reorder) {
        args.emplace(operand.arg, user);
        continue;
      }
      memory inner(operand.inner, onednn::engine(), free);
      free += round_up(operand.inner.get_size());
      if (!operand.output) operand.reorder->execute(stream, user, inner);
      args.emplace(operand.arg, inner);
    }
    args.emplace(DNNL_ARG_SCRATCHPAD, memory(scratchpad_, onednn::engine(), free));
    primitive_.execute(stream, args);
    for (size_t i = 0; i < operands_.size(); ++i) {
      const Operand& operand = operands_[i];
      if (!operand.reorder || !operand.output) continue;
      memory& inner = args.at(operand.arg);
      if (operand.blocks > 0) {
        const auto values = static_cast<int64_t>(operand.inner.get_size() / sizeof(float));
        unblock(static_cast<const float*>(inner.get_data_handle()), operand.blocks, values / (operand.blocks * block),
                plain[i]);
        continue;
      }
      memory user(operand.plain, onednn::engine(), plain[i]);
      operand.reorder->execute(stream, inner, user);
    }
    stream.wait();
  }

 private:
  /// False where oneDNN has no such algorithm for these operands on this machine.
  bool create(dnnl::algorithm algorithm, Pass pass, const onednn::ConvolutionDescs& descs) {
    dnnl::primitive_attr attr;
    attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    const auto forward = onednn::convolution_forward(algorithm, descs, attr);
    if (!forward) return false;
    if (pass == Pass::forward) return adopt<dnnl::convolution_forward>(forward);
    if (pass == Pass::backward_input) {
      return adopt<dnnl::convolution_backward_data>(onednn::convolution_backward_data(algorithm, descs, forward, attr));
    }
    return adopt<dnnl::convolution_backward_weights>(
        onednn::convolution_backward_weights(algorithm, descs, forward, attr));
  }

  template <class Primitive, class PrimitiveDesc>
  bool adopt(const PrimitiveDesc& desc) {
    if (!desc) return false;
    primitive_ = Primitive(desc);
    desc_ = desc;
    scratchpad_ = desc.scratchpad_desc();
    return true;
  }

  void add_operand(int arg, bool output, const memory::dims& dims, Tag tag) {
    const memory::desc plain = plain_desc(dims, tag);
    Operand operand{arg, output, plain, desc_.query_md(dnnl::query::exec_arg_md, arg), {}};
    if (operand.inner != plain) {
      const auto& from = output ? operand.inner : plain;
      const auto& to = output ? plain : operand.inner;
      operand.reorder.emplace(dnnl::reorder::primitive_desc(onednn::engine(), from, onednn::engine(), to));
      scratch_bytes_ += round_up(operand.inner.get_size());
      const bool images = tag == Tag::nchw && dims[1] % block == 0 && operand.inner == plain_desc(dims, Tag::nChw16c);
      if (output && images) operand.blocks = dims[0] * dims[1] / block;
    }
    operands_.push_back(std::move(operand));
  }

  dnnl::primitive primitive_;
  dnnl::primitive_desc_base desc_;
  memory::desc scratchpad_;
  std::vector<Operand> operands_;
  size_t scratch_bytes_ = 0;
};

/// Plans are kept: making one generates code, which takes longer than running it.
std::shared_ptr<const Plan> plan_for(Pass pass, const ConvShape& shape, bool bias) {
  using Key = std::tuple<Pass, ConvShape, bool, int>;
  static auto* const plans = new std::map<Key, std::shared_ptr<const Plan>>;
  static std::mutex mutex;
  const Key key{pass, shape, bias, onednn::apply_thread_share()};
  std::lock_guard lock(mutex);
  if (const auto it = plans->find(key); it != plans->end()) return it->second;
  constexpr size_t most = 512;  // shapes that never come back must not pile up
  if (plans->size() >= most) plans->clear();
  return plans->emplace(key, std::make_shared<const Plan>(pass, shape, bias)).first->second;
}

/// Samples that go through at once: about 4 MiB of x and y together, in chunks of nearly equal size.
int64_t chunk_of(const ConvShape& s) {
  constexpr int64_t elements = int64_t{1} << 20;
  const int64_t most = std::clamp<int64_t>(elements / (s.x_size() + s.y_size()), 1, s.n);
  const int64_t chunks = (s.n + most - 1) / most;
  return (s.n + chunks - 1) / chunks;
}

/// f(chunk's plan, first sample) for each chunk.
template <class F>
void for_each_chunk(Pass pass, const ConvShape& shape, bool bias, const F& f) {
  try {
    ConvShape part = shape;
    const int64_t chunk = chunk_of(shape);
    for (int64_t begin = 0; begin < shape.n; begin += chunk) {
      part.n = std::min(chunk, shape.n - begin);
      f(*plan_for(pass, part, bias), begin);
    }
  } catch (const dnnl::error& error) {
    throw Error("oneDNN failed in a convolution of {} x {} x {} images, {} output channels and a {} x {} kernel: {}",
                shape.c, shape.h, shape.w, shape.o, shape.k, shape.k, error.what());
  }
}

/// oneDNN takes inputs by pointers to non-const, too; it does not write to them.
float* input(const float* data) { return const_cast<float*>(data); }

}  // namespace

void forward(const ConvShape& s, const float* x, const float* w, const float* b, float* y) {
  for_each_chunk(Pass::forward, s, b != nullptr, [&](const Plan& plan, int64_t n) {
    float* const in = input(x) + n * s.x_size();
    float* const out = y + n * s.y_size();
    if (b != nullptr) {
      plan.run(std::array{in, input(w), input(b), out});
    } else {
      plan.run(std::array{in, input(w), out});
    }
  });
}

void backward_input(const ConvShape& s, const float* dy, const float* w, float* dx) {
  for_each_chunk(Pass::backward_input, s, false, [&](const Plan& plan, int64_t n) {
    plan.run(std::array{dx + n * s.x_size(), input(w), input(dy) + n * s.y_size()});
  });
}

void backward_weight(const ConvShape& s, const float* dy, const float* x, float* dw, float* db) {
  // The first chunk writes the gradients, the others add to them.
  const int64_t bias_size = db == nullptr ? 0 : s.o;
  Scratch scratch((s.w_size() + bias_size) * sizeof(float));
  float* const more_dw = reinterpret_cast<float*>(scratch.data());
  float* const more_db = more_dw + s.w_size();
  for_each_chunk(Pass::backward_weight, s, db != nullptr, [&](const Plan& plan, int64_t n) {
    float* const in = input(x) + n * s.x_size();
    float* const grad = input(dy) + n * s.y_size();
    float* const to_dw = n == 0 ? dw : more_dw;
    float* const to_db = n == 0 ? db : more_db;
    if (db != nullptr) {
      plan.run(std::array{in, to_dw, to_db, grad});
    } else {
      plan.run(std::array{in, to_dw, grad});
    }
    if (n == 0) return;
    for (int64_t i = 0; i < s.w_size(); ++i) dw[i] += more_dw[i];
    for (int64_t i = 0; i < bias_size; ++i) db[i] += more_db[i];
  });
}

}  // namespace miniddp::fast_conv
