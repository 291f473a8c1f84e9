#include "common/training/checkpoint.h"

#include <nlohmann/json.hpp>

#include "common/core/base64.h"
#include "common/core/generator.h"
#include "common/training/safetensors.h"

namespace miniddp {
namespace {

// The key of the training state in the file's metadata. Its value is text: PyTorch's readers see tensors of the model alone.
constexpr const char* state_key = "miniddp.training_state";

nlohmann::json run_of(const TrainingOptions& options, const std::vector<Device>& devices) {
  return {{"model", options.model},          {"batch_size", options.batch_size}, {"sampler", options.sampler},
          {"no_shuffle", options.no_shuffle}, {"no_set_epoch", options.no_set_epoch}, {"no_dropout", options.no_dropout},
          {"devices", devices.size()}};
}

std::string bytes_of(const Tensor& tensor) {
  std::string bytes(tensor.nbytes(), '\0');
  copy_rows(bytes.data(), Device{}, bytes.size(), tensor.raw_data(), tensor.device(), bytes.size(), bytes.size(), 1);
  return bytes;
}

}  // namespace

void save_checkpoint(const std::filesystem::path& path, const TrainingOptions& options, const Module& model, const SGD& optimizer,
                     const Progress& progress, const std::vector<Device>& devices) {
  nlohmann::json state;
  state["run"] = run_of(options, devices);
  state["steps"] = progress.steps;
  state["epoch"] = progress.epoch;
  state["pass"] = {{"epoch", progress.pass.epoch},
                   {"next_batch", progress.pass.next_batch},
                   {"batch_size", progress.pass.batch_size},
                   {"samples", progress.pass.samples},
                   {"stream", progress.pass.stream}};
  // The CPU's first generator always: it orders the data. The devices' own draw dropout.
  state["generators"][Device{}.str()] = default_generator().state();
  for (Device device : devices) state["generators"][device.str()] = default_generator(device).state();
  for (const Tensor& buffer : optimizer.momentum_buffers()) {
    state["momentum"].push_back(buffer.defined() ? encode_base64(bytes_of(buffer)) : "");
  }
  write_safetensors(path, {model.state_dict(), {{"format", "pt"}, {state_key, state.dump()}}});
}

Progress load_checkpoint(const std::filesystem::path& path, const TrainingOptions& options, Module& model, SGD& optimizer,
                         const std::vector<Device>& devices) {
  const SafeTensors content = read_safetensors(path);
  const auto found = content.metadata.find(state_key);
  check<DataError>(found != content.metadata.end(), "{}: holds a model but no training state; only a file from --save can be resumed",
                   path.string());
  Progress progress;
  try {
    const auto state = nlohmann::json::parse(found->second);
    const nlohmann::json run = run_of(options, devices);
    for (const auto& [name, value] : run.items()) {
      const std::string saved = state.at("run").at(name).dump();
      check(saved == value.dump(), "it was saved with {} = {}, this run has {}", name, saved, value.dump());
    }
    progress.steps = state.at("steps").get<int64_t>();
    progress.epoch = state.at("epoch").get<int>();
    const auto& pass = state.at("pass");
    progress.pass = {pass.at("epoch").get<int64_t>(), pass.at("next_batch").get<int64_t>(), pass.at("batch_size").get<int64_t>(),
                     pass.at("samples").get<int64_t>(), pass.at("stream").get<std::string>()};
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
    const bool wrapped = model.state_dict().front().first.starts_with("module.");
    model.load_state_dict(wrapped ? content.tensors : consume_prefix_in_state_dict_if_present(content.tensors));
    optimizer.set_momentum_buffers(std::move(buffers));
    for (const auto& [device, text] : state.at("generators").items()) {
      default_generator(Device::parse(device)).set_state(text.get<std::string>());
    }
  } catch (const nlohmann::json::exception& error) {
    throw DataError("{}: its training state is damaged: {}", path.string(), error.what());
  } catch (const Error& error) {
    throw DataError("{}: cannot be resumed: {}", path.string(), error.what());
  }
  return progress;
}

}  // namespace miniddp
