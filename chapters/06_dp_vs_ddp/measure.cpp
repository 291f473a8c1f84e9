#include "chapters/06_dp_vs_ddp/measure.h"

#include <algorithm>
#include <limits>

#include "chapters/05_distributed_data_parallel/evaluate_distributed.h"
#include "chapters/06_dp_vs_ddp/reference.h"
#include "common/kernels/kernels.h"
#include "common/tensor/storage.h"

namespace miniddp {
namespace {

double milliseconds(int64_t nanoseconds) { return static_cast<double>(nanoseconds) / 1e6; }

// Of DataParallel all communication is exposed: every phase waits for the one before it.
constexpr const char* exposed_phases[] = {"scatter", "replicate", "gather", "gather backward", "reduce", "communication"};

RunPart run_of(const Profile& profile) {
  RunPart run;
  for (const int64_t step : profile.step_nanoseconds) run.step_ms.push_back(milliseconds(step));
  const auto steps = static_cast<double>(profile.steps);
  for (const PhaseTotal& each : profile.phases) run.phases.push_back({each.phase, each.row, milliseconds(each.nanoseconds) / steps});
  run.transfers = profile.transfers;
  for (const char* phase : exposed_phases) run.exposed_ms += milliseconds(profile.time(phase)) / steps;
  const int64_t hidden = profile.time("all-reduce") - common_time(profile.spans, "all-reduce", "communication");
  run.hidden_ms = milliseconds(hidden) / steps;
  return run;
}

int64_t bytes_of(const std::vector<Tensor>& tensors) {
  int64_t bytes = 0;
  for (const Tensor& tensor : tensors) bytes += tensor.defined() ? static_cast<int64_t>(tensor.nbytes()) : 0;
  return bytes;
}

// What is known to be there; the rest of the peak are activations and temporary tensors.
void note_memory(std::vector<Memory>& all, const Profile& profile, const Training& training) {
  const std::vector<Tensor> parameters = training.network().parameters();
  std::vector<Tensor> gradients;
  for (const Tensor& parameter : parameters) gradients.push_back(parameter.grad());
  for (const auto& [device, peak] : profile.peak_bytes) {
    Memory memory{device, peak};
    memory.parameters = bytes_of(parameters);  // on other devices than the first the replica's
    if (device == training.first().str()) {
      memory.gradients = bytes_of(gradients);
      memory.momentum = bytes_of(training.optimizer().momentum_buffers());
      memory.buckets = training.bucket_bytes();
    } else if (peak < memory.parameters) {
      memory.parameters = 0;  // nothing trains there: a batch on its way
    }
    memory.rest = peak - memory.parameters - memory.gradients - memory.momentum - memory.buckets;
    const auto known = std::find_if(all.begin(), all.end(), [&](const Memory& each) { return each.device == device; });
    if (known == all.end()) {
      all.push_back(memory);
    } else if (known->peak < peak) {
      *known = memory;
    }
  }
}

}  // namespace

int64_t common_time(const std::vector<SpanRecord>& spans, const std::string& phase, const std::string& other) {
  int64_t total = 0;
  for (const SpanRecord& a : spans) {
    if (a.phase != phase) continue;
    for (const SpanRecord& b : spans) {
      if (b.phase == other) total += std::max<int64_t>(0, std::min(a.end, b.end) - std::max(a.begin, b.begin));
    }
  }
  return total;
}

VariantPart measure(const std::string& name, Training& training, const MeasureSetup& setup) {
  const CompareOptions& options = setup.options;
  const int rank = setup.group != nullptr ? setup.group->rank() : 0, world = setup.group != nullptr ? setup.group->size() : 1;
  VariantPart part;
  part.name = name;
  part.rank = rank;
  BatchStream batches(setup.images, options.global_batch, rank, world);
  const auto step = [&] {
    const Span span("iteration", training.first());
    return training.step(batches.next());
  };

  if (setup.is_reference) {
    ReferenceWriter writer(setup.reference);
    for (int64_t i = 0; i < options.parity_steps; ++i) {
      part.parity.losses.push_back(step().item<double>());
      writer.add(part.parity.losses.back(), training.network().named_parameters());
    }
    writer.close();
    const std::vector<double> none(part.parity.losses.size(), 0.0);
    part.parity.loss = part.parity.gradients = part.parity.parameters = none;
    part.parity.tolerance = parity_tolerance(options.parity_steps);
    part.parity.passed = true;
  } else {
    ReferenceReader reader(setup.reference, options.parity_steps);
    for (int64_t i = 0; i < options.parity_steps; ++i) {
      const Tensor own = step();
      const Tensor loss = setup.group != nullptr ? mean_over_ranks(*setup.group, own) : own;
      reader.compare(loss.item<double>(), training.network().named_parameters());
    }
    part.parity = reader.result();
  }

  for (int64_t run = 0; run < options.runs; ++run) {
    if (setup.group != nullptr) setup.group->barrier()->wait();
    recorder().start(true);
    for (int64_t i = 0; i < options.steps; ++i) {
      step();
      if (training.first().type == DeviceType::cuda) kernels(DeviceType::cuda).synchronize(training.first().index);
      recorder().step_done();
    }
    Profile profile = recorder().take();
    part.runs.push_back(run_of(profile));
    note_memory(part.memory, profile, training);
    part.spans = std::move(profile.spans);
  }
  part.reduced_elements = training.reduced_elements();
  return part;
}

std::vector<ClockOffset> compare_clocks(ProcessGroup& group) {
  constexpr int exchanges = 32;
  std::vector<ClockOffset> offsets;
  for (int other = 1; other < group.size(); ++other) {
    ClockOffset best{other, 0, std::numeric_limits<double>::infinity()};
    for (int i = 0; i < exchanges; ++i) {
      Tensor stamp = Tensor::zeros({1}, DType::int64);
      if (group.rank() == 0) {
        const int64_t sent = steady_nanoseconds();
        group.send(stamp, other)->wait();
        group.recv(stamp, other)->wait();
        const int64_t received = steady_nanoseconds();
        const double round_trip = static_cast<double>(received - sent) / 1e3;
        const double offset = (static_cast<double>(stamp.item<int64_t>() - sent) - static_cast<double>(received - sent) / 2) / 1e3;
        if (round_trip < best.round_trip_us) best = {other, offset, round_trip};
      } else if (group.rank() == other) {
        group.recv(stamp, 0)->wait();
        stamp.data<int64_t>()[0] = steady_nanoseconds();
        group.send(stamp, 0)->wait();
      }
    }
    if (group.rank() == 0) offsets.push_back(best);
  }
  return offsets;
}

}  // namespace miniddp
