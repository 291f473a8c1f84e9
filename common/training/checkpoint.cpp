#include "common/training/checkpoint.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "common/core/base64.h"
#include "common/core/generator.h"
#include "common/training/safetensors.h"

namespace miniddp {
namespace {

// The key of the training state in the file's metadata. Its value is text: PyTorch's readers see tensors of the model alone.
constexpr const char* state_key = "miniddp.training_state";

nlohmann::json run_of(const TrainingOptions& options, const std::vector<Device>& devices, size_t processes) {
  return {{"model", options.model},          {"batch_size", options.batch_size}, {"sampler", options.sampler},
          {"no_shuffle", options.no_shuffle}, {"no_set_epoch", options.no_set_epoch}, {"no_dropout", options.no_dropout},
          {"devices", devices.size()},         {"processes", processes}};
}

std::string bytes_of(const Tensor& tensor) {
  std::string bytes(tensor.nbytes(), '\0');
  copy_rows(bytes.data(), Device{}, bytes.size(), tensor.raw_data(), tensor.device(), bytes.size(), bytes.size(), 1);
  return bytes;
}

// nlohmann-json turns fractions, negative and too large numbers into what was asked for.
int64_t whole_number(const nlohmann::json& object, const char* name, int64_t largest = std::numeric_limits<int64_t>::max()) {
  const auto& value = object.at(name);
  check(value.is_number_unsigned() && value.get<uint64_t>() <= static_cast<uint64_t>(largest),
        "its training state is damaged: expected a whole number from 0 to {} as {}, found {}", largest, name, value.dump());
  return value.get<int64_t>();
}

}  // namespace

void load_weights(const std::filesystem::path& path, const NamedTensors& tensors, Module& model) {
  for (const auto& [name, tensor] : tensors) {
    if (tensor.dtype() != DType::float32) continue;
    const auto values = tensor.to_vector<float>();
    const auto bad = std::find_if(values.begin(), values.end(), [](float value) { return !std::isfinite(value); });
    check<DataError>(bad == values.end(),
                     "{}: {} holds {}: the run that saved it had diverged. Take an earlier checkpoint, or train anew with a smaller --lr",
                     path.string(), name, bad == values.end() ? 0 : *bad);
  }
  const bool wrapped = model.state_dict().front().first.starts_with("module.");
  try {
    model.load_state_dict(wrapped ? tensors : consume_prefix_in_state_dict_if_present(tensors));
  } catch (const Error& error) {
    throw DataError("{}: holds another network than this one (see --model): {}", path.string(), error.what());
  }
}

std::string generators_state(const std::vector<Device>& devices) {
  nlohmann::json state;
  // The CPU's first generator always: it orders the data. The devices' own draw dropout.
  state[Device{}.str()] = default_generator().state();
  for (Device device : devices) state[device.str()] = default_generator(device).state();
  return state.dump();
}

void save_checkpoint(const std::filesystem::path& path, const TrainingOptions& options, const Module& model, const SGD& optimizer,
                     const Progress& progress, const std::vector<Device>& devices, const std::vector<std::string>& generators) {
  nlohmann::json state;
  const std::vector<std::string> ranks = generators.empty() ? std::vector{generators_state(devices)} : generators;
  state["run"] = run_of(options, devices, ranks.size());
  state["steps"] = progress.steps;
  state["epoch"] = progress.epoch;
  state["pass"] = {{"epoch", progress.pass.epoch},
                   {"next_batch", progress.pass.next_batch},
                   {"batch_size", progress.pass.batch_size},
                   {"samples", progress.pass.samples},
                   {"stream", progress.pass.stream}};
  for (const std::string& text : ranks) state["generators"].push_back(nlohmann::json::parse(text));
  for (const Tensor& buffer : optimizer.momentum_buffers()) {
    state["momentum"].push_back(buffer.defined() ? encode_base64(bytes_of(buffer)) : "");
  }
  write_safetensors(path, {model.state_dict(), {{"format", "pt"}, {state_key, state.dump()}}});
}

Progress load_checkpoint(const std::filesystem::path& path, const TrainingOptions& options, Module& model, SGD& optimizer,
                         const std::vector<Device>& devices, int rank, int processes) {
  const SafeTensors content = read_safetensors(path);
  const auto found = content.metadata.find(state_key);
  check<DataError>(found != content.metadata.end(), "{}: holds a model but no training state; only a file from --save can be resumed",
                   path.string());
  Progress progress;
  try {
    const auto state = nlohmann::json::parse(found->second);
    const nlohmann::json run = run_of(options, devices, static_cast<size_t>(processes));
    for (const auto& [name, value] : run.items()) {
      const std::string saved = state.at("run").at(name).dump();
      check(saved == value.dump(), "it was saved with {} = {}, this run has {}", name, saved, value.dump());
    }
    constexpr int most_epochs = std::numeric_limits<int>::max();
    constexpr int64_t most_steps = std::numeric_limits<int64_t>::max() / 2;  // there is room to go on
    progress.steps = whole_number(state, "steps", most_steps);
    progress.epoch = static_cast<int>(whole_number(state, "epoch", most_epochs));
    const auto& pass = state.at("pass");
    progress.pass = {whole_number(pass, "epoch", most_epochs), whole_number(pass, "next_batch"), whole_number(pass, "batch_size"),
                     whole_number(pass, "samples"), pass.at("stream").get<std::string>()};
    const std::vector<Tensor> parameters = model.parameters();
    std::vector<Tensor> buffers(parameters.size());
    const auto& momentum = state.at("momentum");
    check(momentum.size() == buffers.size(), "expected {} momentum buffers, found {}", buffers.size(), momentum.size());
    for (size_t i = 0; i < buffers.size(); ++i) {
      const std::string bytes = decode_base64(momentum[i].get<std::string>());
      if (bytes.empty()) continue;
      buffers[i] = Tensor::empty_like(parameters[i]);
      check(bytes.size() == buffers[i].nbytes(), "momentum buffer {}: expected {} bytes, found {}", i, buffers[i].nbytes(), bytes.size());
      copy_rows(buffers[i].raw_data(), buffers[i].device(), bytes.size(), bytes.data(), Device{}, bytes.size(), bytes.size(), 1);
    }
    optimizer.set_momentum_buffers(std::move(buffers));
    const auto& own = state.at("generators").at(static_cast<size_t>(rank));
    check(own.contains(Device{}.str()), "its training state is damaged: {}'s random generator is missing", Device{}.str());
    for (const auto& [device, text] : own.items()) {
      default_generator(Device::parse(device)).set_state(text.get<std::string>());
    }
  } catch (const nlohmann::json::exception& error) {
    throw DataError("{}: its training state is damaged: {}", path.string(), error.what());
  } catch (const Error& error) {
    throw DataError("{}: cannot be resumed: {}", path.string(), error.what());
  }
  load_weights(path, content.tensors, model);
  return progress;
}

}  // namespace miniddp
