// safetensors files, base64, and the chapter programs' checkpoints.
#include "common/training/checkpoint.h"

#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>

#include "common/core/base64.h"
#include "common/core/file.h"
#include "common/nn/layers.h"
#include "common/training/safetensors.h"
#include "tests/support/catch.h"
#include "tests/support/temporary_directory.h"

using namespace miniddp;
using Catch::Matchers::ContainsSubstring;

TEST_CASE("base64: RFC 4648's examples, every length, damage") {
  CHECK(encode_base64("") == "");
  CHECK(encode_base64("f") == "Zg==");
  CHECK(encode_base64("fo") == "Zm8=");
  CHECK(encode_base64("foobar") == "Zm9vYmFy");
  std::string bytes;
  for (int length = 0; length < 300; ++length) {
    CHECK(decode_base64(encode_base64(bytes)) == bytes);
    bytes += static_cast<char>(length * 37);
  }
  for (const char* bad : {"A", "AAA", "AA=A", "====", "AA-A", "AA==AAAA"}) {
    INFO(bad);
    CHECK_THROWS_AS(decode_base64(bad), DataError);
  }
}

TEST_CASE("safetensors: what is written is read, byte for byte as the format says") {
  TemporaryDirectory directory;
  const auto path = directory.path() / "x.safetensors";
  SafeTensors content;
  content.tensors = {{"a.weight", Tensor::from({1, -2, 3}, {3, 1})},
                     {"empty", Tensor::zeros({0, 4})},
                     {"count", Tensor::from(std::vector<int64_t>{7}, {})}};
  content.metadata = {{"format", "pt"}};
  write_safetensors(path, content);

  const std::string bytes = read_file(path, "a test file");
  uint64_t header = 0;
  std::memcpy(&header, bytes.data(), sizeof header);
  CHECK(header % 8 == 0);
  CHECK(bytes.size() == 8 + header + 12 + 8);
  CHECK_THAT(bytes, ContainsSubstring(R"("a.weight":{"dtype":"F32","shape":[3,1],"data_offsets":[0,12]})"));

  const SafeTensors read = read_safetensors(path);
  REQUIRE(read.tensors.size() == 3);
  CHECK(read.tensors[0].first == "a.weight");
  CHECK(read.tensors[0].second.shape() == Shape{3, 1});
  CHECK(read.tensors[0].second.to_vector<float>() == std::vector<float>{1, -2, 3});
  CHECK(read.tensors[2].second.item<int64_t>() == 7);
  CHECK(read.metadata == content.metadata);
}

TEST_CASE("safetensors: damaged files are refused with a message, whatever the damage") {
  TemporaryDirectory directory;
  const auto path = directory.path() / "x.safetensors";
  CHECK_THROWS_AS(read_safetensors(path), DataError);
  write_safetensors(path, {{{"w", Tensor::from({1, 2, 3, 4}, {4})}}, {}});
  const std::string good = read_file(path, "a test file");
  for (size_t length = 0; length < good.size(); ++length) {
    write_file(path, good.substr(0, length));
    CHECK_THROWS_AS(read_safetensors(path), DataError);
  }
  write_file(path, good + "x");
  CHECK_THROWS_WITH(read_safetensors(path), ContainsSubstring("x.safetensors"));
  const auto with_header = [&](const std::string& header, const std::string& data) {
    const uint64_t length = header.size();
    std::string bytes(8, '\0');
    std::memcpy(bytes.data(), &length, 8);
    write_file(path, bytes + header + data);
  };
  for (const char* header : {R"([])", R"({"w":{}})", R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
                             R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})",
                             R"({"w":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})",
                             R"({"w":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0]}})",
                             R"({"w":{"dtype":"C64","shape":[1],"data_offsets":[0,8]}})",
                             R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
                             R"({"w":{"dtype":"F32","shape":[1.5],"data_offsets":[0,4]}})", R"({"w":{"dtype":"F32","shape":1,"data_offsets":[0,4]}})",
                             R"({"w":{"dtype":"F32","shape":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1],"data_offsets":[0,4]}})", R"({"__metadata__":{"a":1}})"}) {
    INFO(header);
    with_header(header, "abcd");
    CHECK_THROWS_AS(read_safetensors(path), DataError);
  }
  // A file that claims more than our networks can have is not read at all.
  std::filesystem::resize_file(path, uint64_t{1} << 40);
  CHECK_THROWS_WITH(read_safetensors(path), ContainsSubstring("at most 1073741824 bytes"));
}

TEST_CASE("checkpoint: model, momentum, generators and position come back, other options are refused") {
  TemporaryDirectory directory;
  const auto path = directory.path() / "x.safetensors";
  const std::vector<Device> devices{Device{}};
  TrainingOptions options;
  manual_seed(3);
  Linear model(3, 2);
  SGD optimizer(model.parameters(), {.lr = 0.1, .momentum = 0.5});
  for (Tensor parameter : model.parameters()) parameter.set_grad(Tensor::ones(parameter.shape()));
  optimizer.step();
  const Progress progress{17, 2, {1, 5, 64, 100, "some stream"}};
  save_checkpoint(path, options, model, optimizer, progress, devices);
  const uint32_t next = default_generator().random();

  Linear other(3, 2);
  SGD other_optimizer(other.parameters(), {.lr = 0.1, .momentum = 0.5});
  const Progress loaded = load_checkpoint(path, options, other, other_optimizer, devices);
  CHECK(loaded.steps == 17);
  CHECK(loaded.epoch == 2);
  CHECK(loaded.pass == progress.pass);
  CHECK(default_generator().random() == next);
  CHECK(other.weight.to_vector<float>() == model.weight.to_vector<float>());
  CHECK(other_optimizer.momentum_buffers()[0].to_vector<float>() == std::vector<float>(6, 1));

  TrainingOptions smaller = options;
  smaller.batch_size = 32;
  CHECK_THROWS_WITH(load_checkpoint(path, smaller, other, other_optimizer, devices),
                    ContainsSubstring("batch_size") && ContainsSubstring("32"));
  write_safetensors(path, {model.state_dict(), {}});
  CHECK_THROWS_WITH(load_checkpoint(path, options, other, other_optimizer, devices), ContainsSubstring("no training state"));
}

TEST_CASE("checkpoint: a position that lies, missing generators and weights that are not finite are refused") {
  TemporaryDirectory directory;
  const auto path = directory.path() / "x.safetensors";
  const std::vector<Device> devices{Device{}};
  const TrainingOptions options;
  Linear model(3, 2);
  SGD optimizer(model.parameters(), {.lr = 0.1, .momentum = 0.5});
  save_checkpoint(path, options, model, optimizer, {17, 2, {1, 5, 64, 100, "some stream"}}, devices);
  const SafeTensors good = read_safetensors(path);
  const auto load = [&](const SafeTensors& content) {
    write_safetensors(path, content);
    load_checkpoint(path, options, model, optimizer, devices);
  };
  REQUIRE_NOTHROW(load(good));
  const auto damaged = [&](const std::string& pointer, const nlohmann::json& value) {
    SafeTensors content = good;
    std::string& text = content.metadata.at("miniddp.training_state");
    auto state = nlohmann::json::parse(text);
    state.at(nlohmann::json::json_pointer(pointer)) = value;
    text = state.dump();
    return content;
  };
  for (const char* pointer : {"/steps", "/epoch", "/pass/epoch", "/pass/next_batch", "/pass/batch_size", "/pass/samples"}) {
    for (const nlohmann::json& value : {nlohmann::json(-1), nlohmann::json(1.5), nlohmann::json(1e30), nlohmann::json("x"), nlohmann::json()}) {
      INFO(pointer << " " << value.dump());
      CHECK_THROWS_WITH(load(damaged(pointer, value)), ContainsSubstring("x.safetensors") && ContainsSubstring("whole number"));
    }
  }
  CHECK_THROWS_AS(load(damaged("/epoch", 3000000001)), DataError);
  CHECK_THROWS_AS(load(damaged("/steps", std::numeric_limits<int64_t>::max())), DataError);
  CHECK_THROWS_WITH(load(damaged("/generators/0", nlohmann::json::object())), ContainsSubstring("generator is missing"));
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    SafeTensors content = good;
    content.tensors[0].second = Tensor::full(content.tensors[0].second.shape(), bad);
    CHECK_THROWS_WITH(load(content), ContainsSubstring("diverged"));
  }
}
