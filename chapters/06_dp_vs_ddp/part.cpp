#include "chapters/06_dp_vs_ddp/part.h"

#include "chapters/06_dp_vs_ddp/report_json.h"
#include "common/core/error.h"
#include "common/core/file.h"

namespace miniddp {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(TransferTotal, phase, kind, from, to, transfers, bytes)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(SpanRecord, phase, row, begin, end)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(RunPart, step_ms, phases, exposed_ms, hidden_ms, transfers)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(VariantPart, name, rank, parity, runs, spans, memory, reduced_elements)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Part, device, machine, threads, tensors, variants, clocks, behaviour)

std::filesystem::path part_path(const std::filesystem::path& folder, const std::string& role, int rank) {
  return folder / fmt::format("{}.rank{}.json", role, rank);
}

void write_part(const std::filesystem::path& path, const Part& part) { write_file(path, nlohmann::json(part).dump()); }

Part read_part(const std::filesystem::path& path) {
  const std::string text = read_file(path, "a part of the comparison");
  try {
    return nlohmann::json::parse(text).get<Part>();
  } catch (const nlohmann::json::exception& error) {
    throw DataError("{}: not a part of a comparison: {}", path.string(), error.what());
  }
}

}  // namespace miniddp
