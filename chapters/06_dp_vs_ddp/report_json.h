// The JSON form of the report's structures, field by field.
#pragma once

#include "chapters/06_dp_vs_ddp/report.h"

namespace miniddp {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(FirstDifference, step, what, difference)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Parity, losses, loss, gradients, parameters, first_beyond, first_bits, tolerance, passed)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(PhaseTime, phase, row, ms)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Speed, run_step_ms, step_ms, lowest_step_ms, highest_step_ms, samples_per_second, speedup, ideal_speedup,
                                   efficiency, phases, exposed_ms, hidden_ms)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ByteCount, phase, kind, from, to, counted, formula, formula_text)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Memory, device, peak, parameters, gradients, momentum, buckets, rest)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(TimelineSpan, phase, begin, end, depth)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(TimelineRow, name, spans)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Variant, name, title, kind, devices, threads, parity, speed, bytes, memory, timeline, bucket_bytes)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(BehaviourRow, difference, one, dp, ddp, tests)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ClockOffset, rank, offset_us, round_trip_us)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(NamedTensorSize, name, shape, bytes)

}  // namespace miniddp
