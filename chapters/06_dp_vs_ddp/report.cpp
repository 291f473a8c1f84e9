#include "chapters/06_dp_vs_ddp/report_json.h"

#include "common/core/error.h"

namespace miniddp {

// The exported functions below are made of these two.
namespace detail_report {
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Report, format, model, device, backend, machine, cores, devices, global_batch, steps, runs, parity_steps,
                                   seed, tensors, variants, clocks, behaviour, simulation)
}

void to_json(nlohmann::json& json, const Report& report) { detail_report::to_json(json, report); }
void from_json(const nlohmann::json& json, Report& report) { detail_report::from_json(json, report); }

const Variant& Report::variant(const std::string& name) const {
  for (const Variant& each : variants) {
    if (each.name == name) return each;
  }
  throw Error("the report has no variant {}", name);
}

int64_t Report::parameter_bytes() const {
  int64_t total = 0;
  for (const NamedTensorSize& each : tensors) total += each.bytes;
  return total;
}

}  // namespace miniddp
