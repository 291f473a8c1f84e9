// Every collective on every host backend, with random values and uneven sizes, against a plain loop over what
// all ranks put in.
#include <chrono>
#include <thread>
#include <cmath>

#include "chapters/04_process_group/init_process_group.h"
#include "chapters/04_process_group/ring_all_reduce.h"
#include "common/core/generator.h"
#include "tests/support/catch.h"
#include "tests/support/ranks.h"

using namespace miniddp;
using namespace miniddp::testing;

namespace {

const std::vector<std::string> backends = {"gloo", "ring"};

// What rank `rank` puts into round `round`; every rank can compute everybody's.
std::vector<double> values_of(int rank, int64_t numel, int round) {
  Generator generator(static_cast<uint64_t>(1000 * round + rank + 1));
  std::vector<double> values;
  for (int64_t i = 0; i < numel; ++i) values.push_back(1 + static_cast<double>(generator.randint(0, 5)));
  return values;
}

Tensor tensor_of(const std::vector<double>& values, DType dtype) {
  return Tensor::from(values, {static_cast<int64_t>(values.size())}).to(dtype);
}

template <class T>
std::vector<double> widened(const Tensor& tensor) {
  const std::vector<T> values = tensor.to_vector<T>();
  return {values.begin(), values.end()};
}

std::vector<double> doubles(const Tensor& tensor) {
  switch (tensor.dtype()) {
    case DType::float32:
      return widened<float>(tensor);
    case DType::float64:
      return widened<double>(tensor);
    case DType::int64:
      return widened<int64_t>(tensor);
    case DType::uint8:
      return widened<uint8_t>(tensor);
    default:
      return widened<float>(tensor.to(DType::float32));
  }
}

// A tensor of any dtype; casts to integers do not exist, so those are made from their own values.
Tensor make(const std::vector<double>& values, DType dtype) {
  const Shape shape = {static_cast<int64_t>(values.size())};
  if (dtype == DType::int64) return Tensor::from(std::vector<int64_t>(values.begin(), values.end()), shape);
  if (dtype == DType::uint8) return Tensor::from(std::vector<uint8_t>(values.begin(), values.end()), shape);
  return tensor_of(values, dtype);
}

std::vector<double> reduced(int world, int64_t numel, int round, ReduceOp op) {
  std::vector<double> result = values_of(0, numel, round);
  for (int rank = 1; rank < world; ++rank) {
    const std::vector<double> more = values_of(rank, numel, round);
    for (size_t i = 0; i < result.size(); ++i) {
      switch (op) {
        case ReduceOp::product:
          result[i] *= more[i];
          break;
        case ReduceOp::min:
          result[i] = std::min(result[i], more[i]);
          break;
        case ReduceOp::max:
          result[i] = std::max(result[i], more[i]);
          break;
        default:
          result[i] += more[i];
      }
    }
  }
  if (op == ReduceOp::avg) {
    for (double& value : result) value /= world;
  }
  return result;
}

// "" if they agree, else what is wrong. Small integers are exact in every dtype; an average is rounded once.
std::string difference(const std::string& what, const Tensor& found, const std::vector<double>& expected) {
  const std::vector<double> values = doubles(found);
  if (values.size() != expected.size()) return what + ": wrong size\n";
  const double tolerance = found.dtype() == DType::bfloat16  ? 1.0 / 128
                           : found.dtype() == DType::float16 ? 1.0 / 1024
                                                             : 1e-6;
  for (size_t i = 0; i < values.size(); ++i) {
    if (!(std::abs(values[i] - expected[i]) <= tolerance * std::abs(expected[i]))) {
      return fmt::format("{}: element {} is {}, expected {}\n", what, i, values[i], expected[i]);
    }
  }
  return "";
}

std::string check_reductions(ProcessGroup& group, int64_t numel, DType dtype, int& round) {
  std::string problems;
  for (ReduceOp op : {ReduceOp::sum, ReduceOp::avg, ReduceOp::product, ReduceOp::min, ReduceOp::max}) {
    if (op == ReduceOp::avg && (dtype == DType::int64 || dtype == DType::uint8)) continue;
    if (op == ReduceOp::product && dtype == DType::uint8) continue;  // overflows
    const std::string what = fmt::format("{} of {} {}", name_of(op), numel, name_of(dtype));
    Tensor tensor = make(values_of(group.rank(), numel, ++round), dtype);
    group.all_reduce(tensor, op)->wait();
    problems += difference("all_reduce " + what, tensor, reduced(group.size(), numel, round, op));

    const int root = round % group.size();
    tensor = make(values_of(group.rank(), numel, ++round), dtype);
    group.reduce(tensor, root, op)->wait();
    if (group.rank() == root)
      problems += difference("reduce " + what, tensor, reduced(group.size(), numel, round, op));

    // Rank r's inputs are one long vector cut into size() pieces.
    const std::vector<double> mine = values_of(group.rank(), numel * group.size(), ++round);
    std::vector<Tensor> inputs;
    const auto piece = [&](const std::vector<double>& all, int index) {
      return std::vector<double>(all.begin() + index * numel, all.begin() + (index + 1) * numel);
    };
    for (int i = 0; i < group.size(); ++i) inputs.push_back(make(piece(mine, i), dtype));
    tensor = Tensor::empty({numel}, dtype);
    group.reduce_scatter(tensor, inputs, op)->wait();
    problems += difference("reduce_scatter " + what, tensor,
                           piece(reduced(group.size(), numel * group.size(), round, op), group.rank()));
  }
  return problems;
}

std::string check_movements(ProcessGroup& group, int64_t numel, DType dtype, int& round) {
  std::string problems;
  const int rank = group.rank(), size = group.size(), root = (round + 1) % size;
  const auto what = [&](const char* name) { return fmt::format("{} of {} {}", name, numel, name_of(dtype)); };
  Tensor tensor = make(values_of(rank, numel, ++round), dtype);
  group.broadcast(tensor, root)->wait();
  problems += difference(what("broadcast"), tensor, values_of(root, numel, round));

  std::vector<Tensor> parts;
  for (int i = 0; i < size; ++i) parts.push_back(Tensor::empty({numel}, dtype));
  group.all_gather(parts, make(values_of(rank, numel, ++round), dtype))->wait();
  for (int i = 0; i < size; ++i)
    problems += difference(what("all_gather"), parts[static_cast<size_t>(i)], values_of(i, numel, round));

  std::vector<Tensor> gathered;
  for (int i = 0; i < size && rank == root; ++i) gathered.push_back(Tensor::empty({numel}, dtype));
  group.gather(gathered, make(values_of(rank, numel, ++round), dtype), root)->wait();
  for (size_t i = 0; i < gathered.size(); ++i) {
    problems += difference(what("gather"), gathered[i], values_of(static_cast<int>(i), numel, round));
  }

  std::vector<Tensor> dealt;
  ++round;
  for (int i = 0; i < size && rank == root; ++i) dealt.push_back(make(values_of(i, numel, round), dtype));
  tensor = Tensor::empty({numel}, dtype);
  group.scatter(tensor, dealt, root)->wait();
  problems += difference(what("scatter"), tensor, values_of(rank, numel, round));

  // Round the ring: an exchange of uneven sizes, then the last rank's send and rank 0's receive.
  const int right = (rank + 1) % size, left = (rank + size - 1) % size;
  tensor = Tensor::empty({numel + left}, dtype);
  group.exchange(make(values_of(rank, numel + rank, ++round), dtype), right, tensor, left, 3)->wait();
  problems += difference(what("exchange"), tensor, values_of(left, numel + left, round));
  tensor = make(values_of(size - 1, numel, ++round), dtype);
  if (rank == size - 1) group.send(tensor, 0, 5)->wait();
  if (rank == 0) {
    tensor = Tensor::empty({numel}, dtype);
    group.recv(tensor, size - 1, 5)->wait();
    problems += difference(what("recv"), tensor, values_of(size - 1, numel, round));
  }
  group.barrier()->wait();
  return problems;
}

void check_everywhere(int world, const std::vector<int64_t>& sizes, const std::vector<DType>& dtypes) {
  for (const std::string& backend : backends) {
    const auto results = run_ranks_all(world, [&](int) {
      const ProcessGroupGuard guard({.backend = backend});
      int round = 0;
      std::string problems;
      for (int64_t numel : sizes) {
        for (DType dtype : dtypes) {
          problems += check_reductions(default_process_group(), numel, dtype, round);
          problems += check_movements(default_process_group(), numel, dtype, round);
        }
      }
      return problems;
    });
    for (const std::string& problems : results) {
      INFO(backend << ", " << world << " ranks\n" << problems);
      CHECK(problems.empty());
    }
  }
}

}  // namespace

TEST_CASE("collectives: all kinds and dtypes between 2 ranks") {
  check_everywhere(
      2, {0, 1, 2, 3, 7, 1000},
      {DType::float32, DType::float64, DType::int64, DType::uint8, DType::float16, DType::bfloat16});
}

TEST_CASE("collectives: all kinds between 3 ranks, also fewer elements than ranks") {
  check_everywhere(3, {0, 1, 2, 5, 1013}, {DType::float32, DType::int64});
}

TEST_CASE("collectives: all kinds between 4 ranks, also fewer elements than ranks") {
  check_everywhere(4, {0, 1, 3, 4, 6, 997}, {DType::float32, DType::float16});
}

TEST_CASE("collectives: 5 ranks, and one rank alone") {
  check_everywhere(5, {1, 4, 11}, {DType::float32});
  const auto results = run_ranks_all(1, [](int) {
    const ProcessGroupGuard guard({.backend = "ring"});
    int round = 0;
    return check_reductions(default_process_group(), 33, DType::float32, round);
  });
  CHECK(results[0].empty());
}

TEST_CASE("collectives: a message larger than every socket buffer, all ranks at once") {
  constexpr size_t numel = 3'000'017;  // 12 MB
  for (const std::string& backend : backends) {
    const auto results = run_ranks_all(3, [&](int rank) {
      const ProcessGroupGuard guard({.backend = backend});
      ProcessGroup& group = default_process_group();
      const auto value = [](int of, size_t i) {
        return static_cast<float>(i % 1013 + 17 * static_cast<size_t>(of));
      };
      std::vector<float> mine(numel);
      for (size_t i = 0; i < numel; ++i) mine[i] = value(rank, i);
      Tensor sum = Tensor::from(mine, {numel}), from_left = Tensor::empty({numel});
      const int left = (rank + 2) % 3;
      const WorkPtr reducing = group.all_reduce(sum);
      group.exchange(Tensor::from(mine, {numel}), (rank + 1) % 3, from_left, left)->wait();
      reducing->wait();
      size_t wrong = 0;
      for (size_t i = 0; i < numel; ++i) {
        wrong += sum.data<float>()[i] != value(0, i) + value(1, i) + value(2, i);
        wrong += from_left.data<float>()[i] != value(left, i);
      }
      return std::to_string(wrong);
    });
    for (const std::string& wrong : results) {
      INFO(backend);
      CHECK(wrong == "0");
    }
  }
}

TEST_CASE("collectives: ring chunks are dealt out by floor(n * r / R)") {
  const auto bounds = [](int64_t numel, int size) {
    std::vector<int64_t> all;
    for (int chunk = 0; chunk <= size; ++chunk) all.push_back(ring_chunk_begin(numel, chunk, size));
    return all;
  };
  CHECK(bounds(10, 4) == std::vector<int64_t>{0, 2, 5, 7, 10});
  CHECK(bounds(1, 3) == std::vector<int64_t>{0, 0, 0, 1});
  CHECK(bounds(int64_t(1) << 61, 4).back() == int64_t(1) << 61);
}

TEST_CASE("collectives: each rank sends 2 (R - 1) / R times its data round the ring") {
  for (int world : {2, 3, 4}) {
    const auto results = run_ranks_all(world, [](int) {
      const ProcessGroupGuard guard({.backend = "ring"});
      const WorkPtr work = default_process_group().all_reduce(Tensor::ones({12'000}));
      work->wait();
      return std::to_string(work->bytes_sent());
    });
    for (const std::string& bytes : results) CHECK(std::stoll(bytes) == 2 * (world - 1) * 48'000 / world);
  }
}

TEST_CASE("collectives: two groups side by side, and a second run in the same processes") {
  const auto results = run_ranks_all(2, [](int rank) {
    std::string text;
    // The second time rank 0 opens the port itself: the socket it inherited was the first run's.
    for (int run = 0; run < 2; ++run) {
      const ProcessGroupGuard guard({.backend = "gloo"});
      const auto ring = new_group("ring");
      Tensor a = Tensor::full({5}, rank + 1), b = Tensor::full({7}, rank + 10);
      const WorkPtr first = default_process_group().all_reduce(a), second = ring->all_reduce(b);
      second->wait();
      first->wait();
      text += fmt::format("{} {} ", a.to_vector<float>()[4], b.to_vector<float>()[6]);
    }
    return text;
  });
  for (const std::string& text : results) CHECK(text == "3 21 3 21 ");
}

TEST_CASE("collectives: mistakes in the arguments are found by the call itself") {
  const auto results = run_ranks_all(2, [](int rank) {
    const ProcessGroupGuard guard({.backend = "gloo"});
    ProcessGroup& group = default_process_group();
    std::string text;
    const auto expect = [&](const char* part, const std::function<void()>& action) {
      try {
        action();
        text += fmt::format("no error instead of \"{}\"\n", part);
      } catch (const Error& error) {
        if (std::string(error.what()).find(part) == std::string::npos)
          text += fmt::format("{} instead of \"{}\"\n", error.what(), part);
      }
    };
    const Tensor tensor = Tensor::ones({2});
    expect("broadcast: invalid root rank: 4", [&] { (void)group.broadcast(tensor, 4); });
    expect("undefined", [&] { (void)group.all_reduce(Tensor()); });
    expect("avg needs a floating-point tensor",
           [&] { (void)group.all_reduce(Tensor::ones({2}, DType::int64), ReduceOp::avg); });
    expect("band needs an integer tensor", [&] { (void)group.all_reduce(tensor, ReduceOp::band); });
    expect("expected 2 outputs", [&] { (void)group.all_gather({tensor}, tensor); });
    expect("same number of elements", [&] { (void)group.all_gather({tensor, Tensor::ones({3})}, tensor); });
    expect("one dtype", [&] { (void)group.all_gather({tensor, Tensor::ones({2}, DType::float64)}, tensor); });
    expect("cannot send to or receive from itself", [&] { (void)group.send(tensor, rank); });
    // None of them counted: the ranks still agree.
    group.barrier()->wait();
    return text;
  });
  for (const std::string& text : results) CHECK(text == "");
}

TEST_CASE("collectives: different kinds, dtypes, roots and orders are found before data moves") {
  using Call = std::function<WorkPtr(ProcessGroup&, int rank)>;
  const std::vector<std::pair<std::string, Call>> calls = {
      {"broadcast",
       [](ProcessGroup& group, int rank) {
         return rank == 0 ? group.all_reduce(Tensor::ones({4})) : group.broadcast(Tensor::ones({4}), 0);
       }},
      {"float64",
       [](ProcessGroup& group, int rank) {
         return group.all_reduce(Tensor::ones({4}, rank == 0 ? DType::float32 : DType::float64));
       }},
      {"4 float32 elements, root ", [](ProcessGroup& group, int rank) { return group.broadcast(Tensor::ones({4}), rank); }},
      {"max",
       [](ProcessGroup& group, int rank) {
         return group.all_reduce(Tensor::ones({4}), rank == 0 ? ReduceOp::sum : ReduceOp::max);
       }},
      {"5 float32",
       [](ProcessGroup& group, int rank) { return group.all_reduce(Tensor::ones({rank == 2 ? 5 : 4})); }},
  };
  for (const std::string& backend : backends) {
    for (const auto& [part, call] : calls) {
      const auto results = run_ranks_all(3, [&](int rank) {
        const ProcessGroupGuard guard({.backend = backend});
        try {
          // All are connected, the mistake comes after that; the news of it may reach a rank that is still here.
          default_process_group().barrier()->wait();
          call(default_process_group(), rank)->wait();
        } catch (const Error& error) {
          return std::string(error.what());
        }
        return std::string("no error");
      });
      for (const std::string& result : results) {
        INFO(backend << ": " << result);
        CHECK(result.find("mismatch between collectives") != std::string::npos);
        CHECK(result.find(part) != std::string::npos);
      }
    }
  }
}

TEST_CASE("collectives: a send and a receive that do not fit are an error, not the end of the process") {
  for (const std::string& backend : backends) {
    const auto outcomes = run_ranks(2, [&](int rank) {
      const ProcessGroupGuard guard({.backend = backend, .timeout = Milliseconds(5000)});
      ProcessGroup& group = default_process_group();
      (rank == 0 ? group.send(Tensor::ones({8}), 1) : group.recv(Tensor::ones({4}), 0))->wait();
      group.barrier()->wait();
      return std::string();
    });
    INFO(backend << "\n" << describe(outcomes));
    for (const RankOutcome& outcome : outcomes) {
      CHECK(!outcome.returned);
      CHECK(outcome.signal == 0);
      CHECK(outcome.text.find("8 float32") != std::string::npos);
      CHECK(outcome.text.find("4 float32") != std::string::npos);
    }
  }
}
