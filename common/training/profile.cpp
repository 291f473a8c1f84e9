#include "common/training/profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <vector>

namespace miniddp {
namespace {

// The texts, each once, in order of appearance.
template <class Items, class Name>
std::vector<std::string> names_of(const Items& items, Name name) {
  std::vector<std::string> names;
  for (const auto& item : items) {
    if (std::find(names.begin(), names.end(), name(item)) == names.end()) names.push_back(name(item));
  }
  return names;
}

// One line for each phase, one column for each row of the picture.
std::string time_table(const Profile& profile) {
  const auto phases = names_of(profile.phases, [](const PhaseTotal& each) { return each.phase; });
  auto rows = names_of(profile.phases, [](const PhaseTotal& each) { return each.row; });
  std::sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) { return std::pair(a.size(), a) < std::pair(b.size(), b); });
  const double per_step = 1e6 * static_cast<double>(profile.steps);
  std::map<std::pair<std::string, std::string>, double> times;
  std::map<std::string, double> busy;
  for (const PhaseTotal& each : profile.phases) {
    times[{each.phase, each.row}] = static_cast<double>(each.nanoseconds) / per_step;
    busy[each.row] += static_cast<double>(each.nanoseconds) / per_step;
  }
  const auto width = [](const std::string& row) { return std::max<size_t>(row.size() + 2, 10); };
  std::string text = fmt::format("{:<18}", "ms a step");
  for (const auto& row : rows) text += fmt::format("{:>{}}", row, width(row));
  text += "\n";
  for (const auto& phase : phases) {
    text += fmt::format("  {:<16}", phase);
    for (const auto& row : rows) {
      const auto found = times.find({phase, row});
      text += found == times.end() ? fmt::format("{:>{}}", "-", width(row)) : fmt::format("{:>{}.3f}", found->second, width(row));
    }
    text += "\n";
  }
  text += fmt::format("  {:<16}", "idle");
  const double step = static_cast<double>(profile.nanoseconds) / per_step;
  for (const auto& row : rows) text += fmt::format("{:>{}.3f}", std::max(0.0, step - busy[row]), width(row));
  return text + "\n";
}

// DistributedDataParallel's all-reduces run on a lane of their own; what the device still waited for is its phase "communication".
std::string hidden_communication(const Profile& profile) {
  const int64_t all = profile.time("all-reduce"), waited = profile.time("communication");
  if (all == 0) return "";
  const double share = std::max(0.0, 1 - static_cast<double>(waited) / static_cast<double>(all));
  return fmt::format("\n{:.0f}% of the all-reduces' time is hidden behind backward; the rest is waited for (communication)\n", 100 * share);
}

}  // namespace

std::string profile_table(const Profile& profile) {
  if (profile.steps == 0) return "Profile: no training step was recorded.\n";
  const double steps = static_cast<double>(profile.steps);
  std::string text = fmt::format("Profile of {} steps of {:.3f} ms\n\n", profile.steps, static_cast<double>(profile.nanoseconds) / 1e6 / steps);
  text += time_table(profile);
  text += hidden_communication(profile);
  text += "\nbytes a step\n";
  if (profile.transfers.empty()) text += "  nothing was moved between devices\n";
  for (const TransferTotal& each : profile.transfers) {
    text += fmt::format("  {:<16}{:<20}{} -> {}{:>14.0f}\n", each.phase, each.kind, each.from, each.to,
                        static_cast<double>(each.bytes) / steps);
  }
  text += "\npeak memory, MiB\n";
  for (const auto& [device, peak] : profile.peak_bytes) {
    text += fmt::format("  {:<16}{:>12.3f}\n", device, static_cast<double>(peak) / (1024 * 1024));
  }
  return text;
}

std::string trace_json(const Profile& profile, int rank) {
  auto rows = names_of(profile.spans, [](const SpanRecord& each) { return each.row; });
  std::sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) { return std::pair(a.size(), a) < std::pair(b.size(), b); });
  nlohmann::json events = nlohmann::json::array();
  events.push_back({{"ph", "M"}, {"name", "process_name"}, {"pid", rank}, {"args", {{"name", fmt::format("rank {}", rank)}}}});
  std::map<std::string, size_t> number;
  for (size_t i = 0; i < rows.size(); ++i) {
    number[rows[i]] = i;
    events.push_back({{"ph", "M"}, {"name", "thread_name"}, {"pid", rank}, {"tid", i}, {"args", {{"name", rows[i]}}}});
    events.push_back({{"ph", "M"}, {"name", "thread_sort_index"}, {"pid", rank}, {"tid", i}, {"args", {{"sort_index", i}}}});
  }
  for (const SpanRecord& span : profile.spans) {
    // Microseconds; the fraction keeps the nanoseconds.
    events.push_back({{"ph", "X"},
                      {"name", span.phase},
                      {"cat", "miniddp"},
                      {"pid", rank},
                      {"tid", number[span.row]},
                      {"ts", static_cast<double>(span.begin) / 1000},
                      {"dur", static_cast<double>(span.end - span.begin) / 1000}});
  }
  const nlohmann::json trace = {
      {"traceEvents", events}, {"displayTimeUnit", "ms"}, {"otherData", {{"spans_left_out", profile.spans_dropped}}}};
  return trace.dump() + "\n";
}

std::filesystem::path trace_path(const std::filesystem::path& path, int rank) {
  if (rank == 0) return path;
  std::filesystem::path own = path;
  return own.replace_extension(fmt::format(".rank{}{}", rank, path.extension().string()));
}

}  // namespace miniddp
