// The model's numbers for this machine, measured with the chapters' own programs.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "chapters/06_dp_vs_ddp/cost_model.h"
#include "chapters/06_dp_vs_ddp/options.h"

namespace miniddp {

struct Calibration {
  int cores = 0;
  Line compute;  // one thread, while every core is busy with the same
  Link link;     // chapter 04's ring between two processes that train
  Link memory;   // DataParallel's copies between two virtual devices that train
};

/// A step of DDP (chapter 05, ring) or DP (chapter 03) on so many processes or devices: what the model says and what it takes.
struct ModelCheck {
  std::string what;
  int devices = 0;
  double predicted = 0, measured = 0;  // seconds

  double error() const { return predicted / measured - 1; }
};

/// DDP's buckets for the model: PyTorch's sizes and order, and by the arithmetic of each layer how early in backward they are complete.
std::vector<Workload::Bucket> buckets_of(const std::string& model);

/// The model's workload from a calibration.
Workload workload_of(const CompareOptions& options, const Line& compute);

struct MachineMeasured {
  Calibration calibration;
  std::vector<ModelCheck> checks;  // 2 and 4 processes, and as many devices, with options.global_batch samples a step
};

/// Takes one or two minutes. Everything is measured in turn, three times, and the best counts: what other programs take from this machine
/// comes and goes. `programs`: where the chapters' programs are. Throws Error naming the program that failed or took too long.
MachineMeasured measure_machine(const CompareOptions& options, const std::filesystem::path& programs);

}  // namespace miniddp
