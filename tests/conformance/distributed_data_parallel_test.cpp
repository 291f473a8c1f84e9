// DistributedDataParallel: cases 50-75, each by N processes over Gloo.
#include "chapters/05_distributed_data_parallel/distributed_data_parallel.h"

#include "chapters/01_single_device/networks.h"
#include "chapters/04_process_group/init_process_group.h"
#include "chapters/05_distributed_data_parallel/sync_batch_norm.h"
#include "common/autograd/engine.h"
#include "common/autograd/node.h"
#include "common/core/warning.h"
#include "common/optim/sgd.h"
#include "tests/support/catch.h"
#include "tests/support/ranks.h"

using namespace miniddp;
using namespace miniddp::testing;
namespace F = miniddp::functional;
using Catch::Matchers::ContainsSubstring;

namespace {

// y = x * w, one weight: every gradient can be worked out by hand. x (N, 1).
struct OneWeight : Cloneable<OneWeight> {
  explicit OneWeight(float w = 1) : weight(Tensor::from({w}, {1, 1})) { register_parameter("weight", &OneWeight::weight); }
  Tensor forward(const Tensor& x) override { return F::linear(x, weight); }
  Tensor weight;
};

// Two weights; which of them take part is chosen for each forward.
struct TwoWeights : Cloneable<TwoWeights> {
  TwoWeights() {
    register_module("a", &TwoWeights::a);
    register_module("b", &TwoWeights::b);
  }
  Tensor forward(const Tensor& x) override {
    if (use_a && use_b) return F::add(a(x), b(x));
    return use_b ? b(x) : a(x);
  }
  OneWeight a, b;
  bool use_a = true, use_b = false;
};

Tensor column(std::vector<float> values) { return Tensor::from(values, {static_cast<int64_t>(values.size()), 1}); }
Tensor row_loss(const Tensor& y) { return F::mean(y); }
std::string grad_of(const Tensor& parameter) {
  return parameter.grad().defined() ? fmt::format("{}", parameter.grad().to_vector<float>()[0]) : "None";
}
std::string error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "no error";
}

using Body = std::function<std::string(ProcessGroup& group)>;

// Every rank's text.
std::vector<std::string> on_ranks(int world, const Body& body, const std::string& backend = "gloo") {
  return run_ranks_all(world, [&](int) {
    set_threads_per_device(1);
    InitOptions init;
    init.backend = backend;
    init.timeout = Milliseconds(20000);
    const ProcessGroupGuard guard(init);
    set_warning_handler([](const std::string&) {});
    return body(default_process_group());
  });
}

using Texts = std::vector<std::string>;

}  // namespace

TEST_CASE("case 50: all ranks get rank 0's weights and buffers") {
  const Texts texts = on_ranks(2, [](ProcessGroup& group) {
    manual_seed(100 + static_cast<uint64_t>(group.rank()));
    auto layer = std::make_shared<Linear>(2, 2);
    const DistributedDataParallel model(layer);
    std::string text;
    for (const float value : layer->weight.to_vector<float>()) text += fmt::format("{:.9g} ", value);
    return text;
  });
  CHECK(texts[0] == fmt::format("{:.9g} {:.9g} {:.9g} {:.9g} ", -.5491896271705627f, .4466696083545685f, -.3357880711555481f,
                                -.022800518199801445f));
  CHECK(texts[1] == texts[0]);
}

TEST_CASE("case 51: models that differ are refused on every rank") {
  const Texts counts = on_ranks(2, [](ProcessGroup& group) {
    return error_of([&] { DistributedDataParallel(std::make_shared<Linear>(2, 3, group.rank() == 0)); });
  });
  for (const std::string& text : counts) {
    CHECK_THAT(text, ContainsSubstring("Rank 0 has 2 params, while rank 1 has inconsistent 1 params."));
  }
  const Texts shapes = on_ranks(3, [](ProcessGroup& group) {
    return error_of([&] { DistributedDataParallel(std::make_shared<Linear>(group.rank() == 2 ? 3 : 2, 4)); });
  });
  for (const std::string& text : shapes) CHECK_THAT(text, ContainsSubstring("rank 2 with sizes [4, 3]") && ContainsSubstring("[4, 2]"));
}

TEST_CASE("case 52: gradients are averaged, in every reducer") {
  for (ReducerKind kind : {ReducerKind::after_backward, ReducerKind::per_gradient, ReducerKind::buckets}) {
    for (int world : {1, 2, 4}) {
      const Texts texts = on_ranks(world, [&](ProcessGroup& group) {
        auto net = std::make_shared<OneWeight>();
        DistributedDataParallel model(net, {.kind = kind});
        row_loss(model(column({static_cast<float>(group.rank() + 1)}))).backward();
        return grad_of(net->weight);
      });
      CHECK(texts == Texts(static_cast<size_t>(world), fmt::format("{}", (world + 1) / 2.0)));
    }
  }
}

TEST_CASE("case 53: the division comes before the sum") {
  const Texts texts = on_ranks(3, [](ProcessGroup& group) {
    auto net = std::make_shared<OneWeight>();
    DistributedDataParallel model(net);
    const float values[] = {.1f, .2f, .3f};
    row_loss(model(column({values[group.rank()]}))).backward();
    return fmt::format("{:a}", net->weight.grad().item<float>());
  });
  CHECK(texts == Texts(3, "0x1.99999cp-3"));  // a sum that is divided afterwards would give 0x1.99999ap-3
}

TEST_CASE("case 54: no_sync accumulates, and the place of forward decides") {
  const Texts texts = on_ranks(2, [](ProcessGroup& group) {
    auto net = std::make_shared<OneWeight>();
    DistributedDataParallel model(net);
    const auto r = static_cast<float>(group.rank() + 1);
    std::string text;
    {
      const auto guard = model.no_sync();
      row_loss(model(column({r}))).backward();
      text += grad_of(net->weight);
    }
    row_loss(model(column({group.rank() == 0 ? 10.f : 20.f}))).backward();
    text += " " + grad_of(net->weight);

    net->zero_grad();
    Tensor loss = row_loss(model(column({r})));
    {
      const auto guard = model.no_sync();
      loss.backward();
    }
    text += " " + grad_of(net->weight);
    net->zero_grad();
    {
      const auto guard = model.no_sync();
      loss = row_loss(model(column({r})));
    }
    loss.backward();
    return text + " " + grad_of(net->weight);
  });
  CHECK(texts == Texts{"1 16.5 1.5 1", "2 16.5 1.5 2"});
}

TEST_CASE("case 55: without zero_grad the accumulated gradient is averaged again") {
  const Texts texts = on_ranks(2, [](ProcessGroup& group) {
    auto net = std::make_shared<OneWeight>();
    DistributedDataParallel model(net);
    std::string text;
    for (int step = 0; step < 2; ++step) {
      row_loss(model(column({static_cast<float>(group.rank() + 1)}))).backward();
      text += grad_of(net->weight) + " ";
    }
    return text;
  });
  CHECK(texts == Texts(2, "1.5 3 "));
}

TEST_CASE("case 56 and P1: an unused parameter leaves local gradients, and the next forward names it") {
  const Texts texts = on_ranks(2, [](ProcessGroup& group) {
    auto net = std::make_shared<TwoWeights>();
    DistributedDataParallel model(net);
    std::string warning;
    set_warning_handler([&](const std::string& message) { warning += message; });
    row_loss(model(column({static_cast<float>(group.rank() + 1)}))).backward();
    std::string text = grad_of(net->a.weight) + " " + grad_of(net->b.weight) + "|" + warning + "|";
    text += error_of([&] { model.check_finished(); }) + "|";
    return text + error_of([&] { model(column({1})); });
  });
  CHECK_THAT(texts[0], ContainsSubstring("1 None|"));
  CHECK_THAT(texts[1], ContainsSubstring("2 None|"));
  for (const std::string& text : texts) {
    CHECK_THAT(text, ContainsSubstring("nothing was averaged: b.weight (indices 1)|Expected to have finished reduction in the prior"));
    CHECK_THAT(text, ContainsSubstring("b.weight (indices 1)|Expected to have finished reduction in the prior iteration"));
  }
}

TEST_CASE("case 57: find_unused_parameters: unused everywhere, stale, and on one rank only") {
  const Texts texts = on_ranks(2, [](ProcessGroup& group) {
    std::string text;
    for (bool view : {false, true}) {
      auto net = std::make_shared<TwoWeights>();
      DistributedDataParallel model(net, {.reducer = {.find_unused_parameters = true, .gradient_as_bucket_view = view}});
      const Tensor x = column({static_cast<float>(group.rank() + 1)});
      row_loss(model(x)).backward();
      text += grad_of(net->a.weight) + " " + grad_of(net->b.weight);  // b nowhere: None
      net->zero_grad();
      net->use_b = true;
      net->use_a = false;
      row_loss(model(column({1}))).backward();
      text += ", " + grad_of(net->b.weight);
      net->use_a = true;
      net->use_b = false;
      row_loss(model(x)).backward();  // without b: its old gradient stays
      text += " " + grad_of(net->b.weight);
      net->zero_grad();
      net->use_a = group.rank() == 0;  // a on rank 0 (x = 1), b on rank 1 (x = 2)
      net->use_b = group.rank() == 1;
      row_loss(model(x)).backward();
      text += ", " + grad_of(net->a.weight) + " " + grad_of(net->b.weight) + "; ";
    }
    return text;
  });
  CHECK(texts == Texts(2, "1.5 None, 1 1, 0.5 1; 1.5 None, 1 1, 0.5 1; "));
}

namespace {

// Returns two outputs, one for each weight.
struct TwoOutputs : Cloneable<TwoOutputs> {
  TwoOutputs() {
    register_module("a", &TwoOutputs::a);
    register_module("b", &TwoOutputs::b);
  }
  Tensor forward(const Tensor&) override { throw Error("has two outputs"); }
  Value forward_values(const Inputs& inputs) override {
    const Tensor x = inputs.get(0, "input").tensor();
    return Value::Tuple{{a(x), b(x)}};
  }
  OneWeight a, b;
};

}  // namespace

TEST_CASE("case 58: an output that takes no part in the loss is an error at the second forward") {
  const Texts texts = on_ranks(2, [](ProcessGroup&) {
    DistributedDataParallel model(std::make_shared<TwoOutputs>());
    const auto step = [&] { row_loss(model(Inputs{{column({1})}, {}}).at(0).tensor()).backward(); };
    const std::string first = error_of(step);
    return first + "|" + error_of(step);
  });
  for (const std::string& text : texts) CHECK_THAT(text, ContainsSubstring("no error|Expected to have finished reduction"));
}

TEST_CASE("case 59: static_graph lets parameters be unused, but not change") {
  const Texts texts = on_ranks(2, [](ProcessGroup& group) {
    auto net = std::make_shared<TwoWeights>();
    DistributedDataParallel model(net, {.reducer = {.static_graph = true}});
    const Tensor x = column({static_cast<float>(group.rank() + 1)});
    std::string text;
    for (int step = 0; step < 3; ++step) {
      net->zero_grad();
      row_loss(model(x)).backward();
      text += grad_of(net->a.weight) + " " + grad_of(net->b.weight) + " ";
    }
    net->use_b = true;
    return text + error_of([&] { row_loss(model(x)).backward(); });
  });
  for (const std::string& text : texts) {
    CHECK_THAT(text, ContainsSubstring("1.5 None 1.5 None 1.5 None Your training graph has changed in this iteration"));
  }
}

TEST_CASE("case 60: buckets by size") {
  const auto floats = [](std::vector<int64_t> sizes) {
    std::vector<Tensor> tensors;
    for (int64_t size : sizes) tensors.push_back(Tensor::zeros({size}));
    return tensors;
  };
  std::vector<Tensor> mixed;
  for (int i = 0; i < 3; ++i) {
    mixed.push_back(Tensor::zeros({50}));
    mixed.push_back(Tensor::zeros({25}, DType::float64));
  }
  using Buckets = std::vector<std::vector<size_t>>;
  CHECK(compute_bucket_assignment_by_size(floats({100, 200, 100, 50}), {400}) == Buckets{{0}, {1}, {2}, {3}});
  CHECK(compute_bucket_assignment_by_size(mixed, {400}) == Buckets{{0, 2}, {1, 3}, {4}, {5}});
  CHECK(compute_bucket_assignment_by_size(floats({10, 10, 10, 10}), {40, 80}) == Buckets{{0}, {1, 2}, {3}});
  CHECK(compute_bucket_assignment_by_size(mixed, {200, 400}) == Buckets{{0}, {1}, {2, 4}, {3, 5}});
}

namespace {

std::string bucket_text(const Reducer& reducer) {
  std::string text;
  for (const Bucket& bucket : reducer.buckets()) {
    text += "[";
    for (size_t index : bucket.parameters) text += fmt::format("{}{}", text.back() == '[' ? "" : " ", index);
    text += fmt::format("]={} ", bucket.flat.nbytes());
  }
  return text;
}

void one_step(Module& model) {
  model.zero_grad();
  Tensor x = Tensor::full({2, 1, 28, 28}, 0.5);
  const Tensor target = Tensor::from(std::vector<int64_t>{3, 7}, {2});
  F::nll_loss(model(x), target).backward();
}

}  // namespace

TEST_CASE("case 61: article B's buckets, before and after they are rebuilt") {
  const Texts texts = on_ranks(2, [](ProcessGroup&) {
    DistributedDataParallel model(std::make_shared<ArticleB>(false));
    std::string text = bucket_text(model.reducer());
    one_step(model);
    for (size_t index : model.reducer().ready_order()) text += fmt::format("{} ", index);
    one_step(model);
    return text + bucket_text(model.reducer());
  });
  // PyTorch's order within a convolution is weight, bias, as here.
  CHECK(texts == Texts(2, "[0 1 2 3 4 5 6 7]=4799528 7 6 5 4 2 3 0 1 [7 6 5 4]=4724264 [2 3 0 1]=75264 "));
}

TEST_CASE("case 62: with find_unused_parameters the buckets are fixed from the start") {
  const Texts texts = on_ranks(2, [](ProcessGroup&) {
    DistributedDataParallel model(std::make_shared<ArticleB>(false),
                                  {.reducer = {.bucket_cap_bytes = 1 << 20, .find_unused_parameters = true}});
    const std::string before = bucket_text(model.reducer());
    one_step(model);
    one_step(model);
    return before + (bucket_text(model.reducer()) == before ? "kept" : "rebuilt");
  });
  CHECK(texts == Texts(2, "[5 6 7]=5672 [0 1 2 3 4]=4793856 kept"));
}

TEST_CASE("case 63 and P10: buckets start in the same order although gradients become ready in another") {
  // Rank 1 uses the weights in the other order, so its backward finishes them the other way round.
  const Texts texts = on_ranks(2, [](ProcessGroup& group) {
    struct Ordered : Cloneable<Ordered> {
      Ordered() {
        register_module("a", &Ordered::a);
        register_module("b", &Ordered::b);
      }
      Tensor forward(const Tensor& x) override { return first_a ? F::add(a(x), F::scale(b(x), 2)) : F::add(F::scale(b(x), 2), a(x)); }
      OneWeight a, b;
      bool first_a = true;
    };
    auto net = std::make_shared<Ordered>();
    net->first_a = group.rank() == 0;
    DistributedDataParallel model(net, {.reducer = {.bucket_cap_bytes = 1}});
    std::string text;
    for (int step = 0; step < 4; ++step) {
      net->zero_grad();
      row_loss(model(column({static_cast<float>(group.rank() + 1)}))).backward();
      text += grad_of(net->a.weight) + " " + grad_of(net->b.weight) + " ";
    }
    return text;
  });
  CHECK(texts == Texts(2, "1.5 3 1.5 3 1.5 3 1.5 3 "));
}

TEST_CASE("case 64: sum losses come out smaller by the number of ranks, uneven shards weigh differently") {
  const auto grads = [](std::vector<float> rank0, std::vector<float> rank1, bool mean) {
    return on_ranks(2, [&](ProcessGroup& group) {
      auto net = std::make_shared<OneWeight>();
      DistributedDataParallel model(net);
      const Tensor y = model(column(group.rank() == 0 ? rank0 : rank1));
      (mean ? F::mean(y) : F::sum(y)).backward();
      return grad_of(net->weight);
    });
  };
  CHECK(grads({1, 2}, {3, 4}, false) == Texts(2, "5"));
  CHECK(grads({1, 2}, {3, 4}, true) == Texts(2, "2.5"));
  CHECK(grads({1, 2}, {3}, true) == Texts(2, "2.25"));
}

TEST_CASE("case 65: two forwards and one backward, a second backward over one graph stays local") {
  const Texts texts = on_ranks(2, [](ProcessGroup& group) {
    auto net = std::make_shared<OneWeight>();
    DistributedDataParallel model(net);
    const auto r = static_cast<float>(group.rank() + 1);
    row_loss(F::add(model(column({r})), model(column({2 * r})))).backward();
    std::string text = grad_of(net->weight);
    net->zero_grad();
    const Tensor loss = row_loss(model(column({r})));
    loss.backward({}, true);
    loss.backward();
    return text + " " + grad_of(net->weight);
  });
  CHECK(texts == Texts{"4.5 2.5", "4.5 3.5"});
}

TEST_CASE("case 66: a shared weight counts once") {
  const Texts texts = on_ranks(2, [](ProcessGroup& group) {
    struct Shared : Cloneable<Shared> {
      Shared() {
        register_module("d", &Shared::d);
        register_module("e", &Shared::e);
        e.weight = d.weight;
      }
      Tensor forward(const Tensor& x) override { return e(d(x)); }
      OneWeight d, e;
    };
    auto net = std::make_shared<Shared>();
    DistributedDataParallel model(net);
    row_loss(model(column({static_cast<float>(group.rank() + 1)}))).backward();
    return fmt::format("{} {}", model.parameters().size(), grad_of(net->d.weight));
  });
  CHECK(texts == Texts(2, "1 3"));
}

namespace {

struct Norm : Cloneable<Norm> {
  Norm() { register_module("bn", &Norm::bn); }
  Tensor forward(const Tensor& x) override { return bn(x); }
  BatchNorm2d bn{1};
};

std::string stats_of(const BatchNorm2d& bn) {
  return fmt::format("{:.4g}/{:.4g}/{} ", bn.running_mean.item<float>(), bn.running_var.item<float>(), bn.num_batches_tracked.item<int64_t>());
}

Tensor norm_input(int rank) { return rank == 0 ? column({0, 2}) : column({10, 12}); }

}  // namespace

TEST_CASE("case 67: buffers become rank 0's at the start of forward, unless that is switched off") {
  for (bool broadcast : {true, false}) {
    const Texts texts = on_ranks(2, [&](ProcessGroup& group) {
      auto net = std::make_shared<Norm>();
      DistributedDataParallel model(net, {.broadcast_buffers = broadcast});
      std::string text;
      for (int step = 0; step < 2; ++step) {
        F::sum(model(norm_input(group.rank()))).backward();
        text += stats_of(net->bn);
      }
      return text;
    });
    CHECK(texts[0] == "0.1/1.1/1 0.19/1.19/2 ");
    CHECK(texts[1] == (broadcast ? "1.1/1.1/1 1.19/1.19/2 " : "1.1/1.1/1 2.09/1.19/2 "));
  }
}

TEST_CASE("case 68: buffers are not sent after a forward that did not average") {
  const Texts texts = on_ranks(2, [](ProcessGroup& group) {
    std::string text;
    for (bool eval_between : {false, true}) {
      auto net = std::make_shared<Norm>();
      DistributedDataParallel model(net);
      const auto step = [&] {
        F::sum(model(norm_input(group.rank()))).backward();
        text += fmt::format("{:.4g} ", net->bn.running_mean.item<float>());
      };
      if (eval_between) {
        step();
        NoGrad no_grad;
        model.eval();
        model(norm_input(group.rank()));
        model.train();
        text += fmt::format("{:.4g} ", net->bn.running_mean.item<float>());
      } else {
        const auto guard = model.no_sync();
        step();
      }
      step();
      step();
      text += "| ";
    }
    return text;
  });
  CHECK(texts[0] == "0.1 0.19 0.271 | 0.1 0.1 0.19 0.271 | ");
  CHECK(texts[1] == "1.1 2.09 1.271 | 1.1 0.1 1.19 1.271 | ");
}

TEST_CASE("case 69: join: ranks with unequal numbers of steps") {
  const auto run = [](JoinOptions options) {
    return on_ranks(2, [&](ProcessGroup& group) {
      auto net = std::make_shared<OneWeight>();
      DistributedDataParallel model(net);
      SGD optimizer(net->parameters(), {.lr = 0.1});
      std::string text;
      const std::string error = error_of([&] {
        model.join(
            [&] {
              for (int step = 0; step < (group.rank() == 0 ? 1 : 3); ++step) {
                optimizer.zero_grad();
                row_loss(model(column({1}))).backward();
                text += grad_of(net->weight) + " ";
                optimizer.step();
              }
            },
            options);
      });
      return text + fmt::format("{:.10f} ", net->weight.item<float>()) + error;
    });
  };
  CHECK(run({}) == Texts{"1 0.7999999523 no error", "1 0.5 0.5 0.7999999523 no error"});
  CHECK(run({.divide_by_initial_world_size = false}) == Texts{"1 0.6999999285 no error", "1 1 1 0.6999999285 no error"});
  const Texts thrown = run({.throw_on_early_termination = true});
  CHECK_THAT(thrown[0], ContainsSubstring("Rank 0 exhausted all inputs."));
  CHECK_THAT(thrown[1], ContainsSubstring("Detected at least one rank that exhausted inputs. Throwing across all ranks."));
}

TEST_CASE("case 69: join: buffers come from the highest rank that still has data") {
  const Texts texts = on_ranks(3, [](ProcessGroup& group) {
    auto net = std::make_shared<Norm>();
    DistributedDataParallel model(net);
    std::string seen;
    // Rank 0 has the fewest batches, rank 1 the most.
    const int steps = group.rank() == 0 ? 1 : group.rank() == 1 ? 4 : 2;
    model.join([&] {
      for (int step = 0; step < steps; ++step) {
        const auto low = static_cast<float>(10 * group.rank());
        F::sum(model(column({low, low + 2}))).backward();
        seen += fmt::format("{:.4g} ", net->bn.running_mean.item<float>());
      }
    });
    return seen + fmt::format("| {:.4g}", net->bn.running_mean.item<float>());
  });
  // Rank r's batches have the mean 10 r + 1, so a step makes 0.9 m + 0.1 (10 r + 1) of the mean m that was sent. That is rank 2's in
  // steps 1 (0) and 2 (2.1), then rank 1's (2.99, 3.791).
  CHECK(texts[0] == "0.1 | 4.512");
  CHECK(texts[1] == "1.1 2.99 3.791 4.512 | 4.512");
  CHECK(texts[2] == "2.1 3.99 | 4.512");
}

TEST_CASE("case 70: communication hooks") {
  const auto grads = [](float rank0, float rank1, CommHook hook) {
    return on_ranks(2, [&](ProcessGroup& group) {
      auto net = std::make_shared<OneWeight>();
      DistributedDataParallel model(net);
      model.register_comm_hook(hook);
      row_loss(model(column({group.rank() == 0 ? rank0 : rank1}))).backward();
      const std::string twice = error_of([&] { model.register_comm_hook(hook); });
      return fmt::format("{:.17g}", net->weight.grad().item<float>()) + (twice.find("once") != std::string::npos ? "" : " twice?");
    });
  };
  CHECK(grads(.1f, .2f, allreduce_hook) == Texts(2, fmt::format("{:.17g}", .15000000596046448)));
  CHECK(grads(1000.123f, 1000.123f, allreduce_hook) == Texts(2, fmt::format("{:.17g}", 1000.1229858398438)));
  CHECK(grads(.1f, .2f, fp16_compress_hook) == Texts(2, fmt::format("{:.17g}", .14990234375)));
  CHECK(grads(1000.123f, 1000.123f, fp16_compress_hook) == Texts(2, "1000"));
  const Texts bf16 = grads(1000.123f, 1000.123f, bf16_compress_hook);
  CHECK(bf16 == Texts(2, "1000"));
  // One that a user wrote: it does nothing, so gradients stay local.
  const CommHook nothing = [](ProcessGroup&, Tensor flat) -> PendingBucket { return [flat] { return flat; }; };
  CHECK(grads(1, 2, nothing) == Texts{"1", "2"});
}

TEST_CASE("case 71 and P9: gradients as views of the buckets") {
  const Texts texts = on_ranks(2, [](ProcessGroup& group) {
    auto net = std::make_shared<OneWeight>();
    DistributedDataParallel model(net, {.reducer = {.gradient_as_bucket_view = true}});
    const auto step = [&] { row_loss(model(column({static_cast<float>(group.rank() + 1)}))).backward(); };
    std::string text;
    step();
    text += grad_of(net->weight) + (net->weight.grad().shares_storage_with(model.reducer().buckets()[0].flat) ? " view " : " copy ");
    step();  // across the rebuild, without zero_grad: 1.5 + 1.5
    text += grad_of(net->weight) + (net->weight.grad().shares_storage_with(model.reducer().buckets()[0].flat) ? " view " : " copy ");
    for (int i = 0; i < 2; ++i) {
      net->zero_grad(false);
      step();
      text += grad_of(net->weight) + " ";
    }
    net->zero_grad();
    step();
    return text + grad_of(net->weight);
  });
  CHECK(texts == Texts(2, "1.5 view 3 view 1.5 1.5 1.5"));
}

TEST_CASE("case 72: mixed dtypes get buckets of their own") {
  const Texts texts = on_ranks(2, [](ProcessGroup& group) {
    struct Mixed : Cloneable<Mixed> {
      Mixed() {
        b.to(DType::float64);
        register_module("a", &Mixed::a);
        register_module("b", &Mixed::b);
      }
      Tensor forward(const Tensor&) override { throw Error("has two outputs"); }
      Value forward_values(const Inputs& inputs) override {
        const Tensor x = inputs.get(0, "input").tensor();
        return Value::Tuple{{a(x), b(x.to(DType::float64))}};
      }
      OneWeight a, b;
    };
    auto net = std::make_shared<Mixed>();
    DistributedDataParallel model(net);
    const Value out = model(Inputs{{column({static_cast<float>(group.rank() + 1)})}, {}});
    std::vector<int64_t> bytes;
    const Tensor loss = F::sum(out.at(0).tensor()), other = F::sum(out.at(1).tensor());
    backward({loss, other});
    for (const Bucket& bucket : model.reducer().buckets()) bytes.push_back(static_cast<int64_t>(bucket.flat.nbytes()));
    std::sort(bytes.begin(), bytes.end());
    return fmt::format("{} {}: {} {}", bytes.at(0), bytes.at(1), net->a.weight.grad().item<float>(), net->b.weight.grad().item<double>());
  });
  CHECK(texts == Texts(2, "4 8: 1.5 1.5"));
}

TEST_CASE("case 73: SyncBatchNorm has the statistics of the whole batch, and its gradients") {
  const Texts texts = on_ranks(2, [](ProcessGroup& group) {
    SyncBatchNorm sync(1);
    Tensor x = norm_input(group.rank()).set_requires_grad();
    // A loss that is not symmetric, so that the gradient of the statistics counts.
    const Tensor y = sync(x);
    F::sum(F::mul(F::mul(y, y), y)).backward();

    BatchNorm2d whole(1);
    Tensor all = column({0, 2, 10, 12}).set_requires_grad();
    const Tensor z = whole(all);
    F::sum(F::mul(F::mul(z, z), z)).backward();
    double worst = 0;
    for (int i = 0; i < 2; ++i) {
      const auto at = static_cast<size_t>(2 * group.rank() + i);
      worst = std::max<double>(worst, std::abs(y.to_vector<float>()[static_cast<size_t>(i)] - z.to_vector<float>()[at]));
      worst = std::max<double>(worst, std::abs(x.grad().to_vector<float>()[static_cast<size_t>(i)] - all.grad().to_vector<float>()[at]));
    }
    return fmt::format("{:.7g} {:.7g} {}", sync.running_mean.item<float>(), sync.running_var.item<float>(), worst <= 2e-6 ? "equal" : "differs");
  });
  CHECK(texts == Texts(2, "0.6 4.366667 equal"));
}

TEST_CASE("case 74: names in the state_dict, and loading without the wrapper") {
  const Texts texts = on_ranks(2, [](ProcessGroup&) {
    DistributedDataParallel model(std::make_shared<Linear>(2, 2));
    const NamedTensors state = model.state_dict();
    Linear bare(2, 2);
    std::string text = state[0].first + " " + state[1].first + "|" + error_of([&] { bare.load_state_dict(state); }) + "|";
    bare.load_state_dict(consume_prefix_in_state_dict_if_present(state));
    return text + (bare.weight.to_vector<float>() == state[0].second.to_vector<float>() ? "loaded" : "differs");
  });
  for (const std::string& text : texts) {
    CHECK_THAT(text, ContainsSubstring("module.weight module.bias|") && ContainsSubstring("Missing key(s) in state_dict: \"weight\", \"bias\"") &&
                         ContainsSubstring("|loaded"));
  }
}

TEST_CASE("case 75 and P2: an extra iteration on one rank fails within the time limit, the others finish") {
  const Texts texts = on_ranks(2, [](ProcessGroup& group) {
    group.set_timeout(Milliseconds(2000));
    DistributedDataParallel model(std::make_shared<OneWeight>());
    std::string text;
    for (int step = 0; step < (group.rank() == 0 ? 3 : 2); ++step) {
      text = error_of([&] { row_loss(model(column({1}))).backward(); });
      if (text != "no error") return fmt::format("step {}: {}", step + 1, text);
    }
    return text;
  });
  CHECK(texts[1] == "no error");
  CHECK_THAT(texts[0], ContainsSubstring("step 3: "));
}

TEST_CASE("DistributedDataParallel refuses what cannot work") {
  const Texts texts = on_ranks(1, [](ProcessGroup&) {
    auto frozen = std::make_shared<OneWeight>();
    frozen->weight.set_requires_grad(false);
    std::string text = error_of([&] { DistributedDataParallel{frozen}; }) + "|";
    const Device gpu{DeviceType::cuda, 0};
    text += error_of([&] { DistributedDataParallel(std::make_shared<OneWeight>(), {.device_ids = {gpu, gpu}}); }) + "|";
    text += error_of([&] { DistributedDataParallel(std::make_shared<OneWeight>(), {.device_ids = {Device{}}}); }) + "|";
    DistributedDataParallel model(std::make_shared<OneWeight>());
    return text + error_of([&] { static_cast<void>(model.clone()); });
  });
  CHECK_THAT(texts[0], ContainsSubstring("is not needed when a module doesn't have any parameter") &&
                           ContainsSubstring("|device_ids can only be None or contain a single element.|") &&
                           ContainsSubstring("|device_ids only work with modules on a single GPU") && ContainsSubstring("cannot be copied"));
  CHECK_THROWS_WITH(DistributedDataParallel(std::make_shared<OneWeight>()), ContainsSubstring("init_process_group"));
}
