// Checkpoints: a run that is resumed goes on bit for bit as if it had not been interrupted.
#pragma once

#include <filesystem>

#include "common/data/data_loader.h"
#include "common/nn/module.h"
#include "common/optim/sgd.h"
#include "common/training/options.h"

namespace miniddp {

/// Where a run stands.
struct Progress {
  int64_t steps = 0;  // training steps done
  int epoch = 0;      // the epoch of `pass`, counted from 1; 0: nothing done yet
  PassState pass;     // over the training data
};

/// The random generators of this process as text: of the CPU, which orders the data, and of `devices`, which draw dropout.
std::string generators_state(const std::vector<Device>& devices);

/// Writes the model under PyTorch's names (its `state_dict`) and, as text in the file's metadata, all that training needs besides:
/// momentum, random generators, position. Whole or not at all. Of several processes one writes: `generators` then are the
/// generators_state() of each; empty: this process is alone.
void save_checkpoint(const std::filesystem::path& path, const TrainingOptions& options, const Module& model, const SGD& optimizer,
                     const Progress& progress, const std::vector<Device>& devices, const std::vector<std::string>& generators = {});

/// Gives the model the weights of a file that read_safetensors has read, saved with or without DataParallel's prefix. Throws DataError,
/// naming the file, if they are another network's or not finite.
void load_weights(const std::filesystem::path& path, const NamedTensors& tensors, Module& model);

/// Restores all of it. Throws DataError if the file is damaged, holds no training state, or comes from a run with other options that
/// decide the losses (network, batch size, order of the samples, dropout, number of devices or of processes). Of several processes each calls it, with its rank, and gets its
/// own random generators back.
Progress load_checkpoint(const std::filesystem::path& path, const TrainingOptions& options, Module& model, SGD& optimizer,
                         const std::vector<Device>& devices, int rank = 0, int processes = 1);

}  // namespace miniddp
