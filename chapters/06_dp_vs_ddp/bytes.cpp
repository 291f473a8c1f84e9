#include "chapters/06_dp_vs_ddp/bytes.h"

#include "chapters/02_manual_parallel/scatter.h"
#include "chapters/04_process_group/ring_all_reduce.h"
#include "common/core/error.h"

namespace miniddp {
namespace {

constexpr int64_t image_bytes = 28 * 28 * 4, label_bytes = 8, output_bytes = 10 * 4;

// The loader's batch lies on cpu:0.
void add_batch_to_gpu(const ByteSetup& setup, std::vector<ByteCount>& rows, int64_t samples, int64_t bytes, const std::string& text) {
  if (setup.type != DeviceType::cpu) rows.push_back({"to", "tensors", "cpu:0", Device{setup.type, 0}.str(), 0, samples * bytes, text});
}

}  // namespace

int64_t ring_bytes(int64_t elements, int rank, int ranks) {
  const auto chunk = [&](int index) {
    const int own = (index % ranks + ranks) % ranks;
    return ring_chunk_begin(elements, own + 1, ranks) - ring_chunk_begin(elements, own, ranks);
  };
  int64_t sent = 0;
  for (int step = 0; step < ranks - 1; ++step) sent += chunk(rank - step) + chunk(rank + 1 - step);
  return sent * 4;
}

std::vector<ByteCount> one_device_bytes(const ByteSetup& setup) {
  std::vector<ByteCount> rows;
  add_batch_to_gpu(setup, rows, setup.global_batch, image_bytes + label_bytes, "batch · (784 · 4 + 8)");
  return rows;
}

std::vector<ByteCount> dp_bytes(const ByteSetup& setup) {
  std::vector<ByteCount> rows;
  add_batch_to_gpu(setup, rows, setup.global_batch, label_bytes, "batch · 8");
  const std::vector<int64_t> chunks = chunk_sizes(setup.global_batch, static_cast<size_t>(setup.devices));
  const std::string first = Device{setup.type, 0}.str();
  for (size_t i = setup.type == DeviceType::cpu ? 1 : 0; i < chunks.size(); ++i) {
    rows.push_back({"scatter", "input", "cpu:0", Device{setup.type, static_cast<int>(i)}.str(), 0, chunks[i] * image_bytes, "chunk · 784 · 4"});
  }
  for (size_t i = 1; i < chunks.size(); ++i) {
    const std::string device = Device{setup.type, static_cast<int>(i)}.str();
    rows.push_back({"replicate", "parameters", first, device, 0, setup.parameter_bytes, "parameters · 4"});
    rows.push_back({"gather", "outputs", device, first, 0, chunks[i] * output_bytes, "chunk · 10 · 4"});
    rows.push_back({"gather backward", "gradients", first, device, 0, chunks[i] * output_bytes, "chunk · 10 · 4"});
    rows.push_back({"reduce", "gradients", device, first, 0, setup.parameter_bytes, "parameters · 4"});
  }
  return rows;
}

std::vector<ByteCount> ddp_bytes(const ByteSetup& setup, const std::vector<int64_t>& reduced_elements, int rank) {
  std::vector<ByteCount> rows;
  const int64_t ranks = setup.devices;
  int64_t bytes = 0;
  for (const int64_t elements : reduced_elements) {
    if (setup.backend == "ring") {
      bytes += ring_bytes(elements, rank, setup.devices);
    } else {
      bytes += ranks == 2 ? elements * 4 : 2 * elements * 4 * (ranks - 1) / ranks;
    }
  }
  const std::string text = setup.backend == "ring" ? "2 (N - 1) / N · gradients · 4, chunk by chunk"
                                                   : "2 (N - 1) / N · gradients · 4: what the library's algorithm sends, not counted on the wire";
  rows.push_back({"communication", "gradients", fmt::format("rank {}", rank), "the other ranks", 0, bytes, text});
  if (setup.type != DeviceType::cpu) {
    rows.push_back({"to", "tensors", "cpu:0", Device{setup.type, rank}.str(), 0, setup.global_batch / ranks * (image_bytes + label_bytes),
                    "batch / N · (784 · 4 + 8)"});
  }
  return rows;
}

std::vector<ByteCount> beside_counted(std::vector<ByteCount> formulas, const std::vector<TransferTotal>& transfers, int64_t steps) {
  for (const TransferTotal& each : transfers) {
    check(each.bytes % steps == 0, "{} {} from {} to {}: {} bytes in {} steps are not equally many in each", each.phase, each.kind, each.from,
          each.to, each.bytes, steps);
    const int64_t counted = each.bytes / steps;
    bool known = false;
    for (ByteCount& row : formulas) {
      if (row.phase != each.phase || row.kind != each.kind || row.from != each.from || row.to != each.to) continue;
      row.counted = counted;
      known = true;
    }
    if (!known) formulas.push_back({each.phase, each.kind, each.from, each.to, counted, 0, "not foreseen"});
  }
  return formulas;
}

}  // namespace miniddp
