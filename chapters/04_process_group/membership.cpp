#include "chapters/04_process_group/membership.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

#include "common/core/error.h"

namespace miniddp {

std::string Membership::join(int rank, int world_size) {
  // BEGIN SOLUTION 04.5 who may join
  std::string refusal;
  if (world_size_ == 0) {
    refusal = "this store takes no members";
  } else if (world_size != world_size_) {
    refusal = fmt::format(
        "world sizes disagree: rank {} was started with WORLD_SIZE {}, but rank 0 with {}; start all ranks "
        "with the same",
        rank, world_size, world_size_);
  } else if (rank < 0 || rank >= world_size_) {
    refusal = fmt::format("RANK {} is out of range: with WORLD_SIZE {} ranks go from 0 to {}", rank,
                          world_size_, world_size_ - 1);
  } else if (ranks_.contains(rank)) {
    refusal = fmt::format("two processes were started with RANK {}; give each a rank of its own from 0 to {}",
                          rank, world_size_ - 1);
  }
  if (refusal.empty()) {
    ranks_[rank] = State::joined;
  } else if (!complete() && !failure_) {
    failure_ = refusal;
  }
  return refusal;
  // END SOLUTION
}

void Membership::leave(int rank) {
  const bool was_complete = complete();
  ranks_[rank] = State::left;
  if (!was_complete) report(fmt::format("rank {} gave up while others were still joining ({})", rank, describe()));
}

void Membership::lose(int rank) {
  ranks_[rank] = State::lost;
  report(fmt::format(
      "rank {} has ended without saying goodbye: it crashed or was killed; look at its output first", rank));
}

void Membership::report(const std::string& what) {
  if (!failure_) failure_ = what;
}

bool Membership::deserted() const {
  for (const auto& [rank, state] : ranks_) {
    if (rank != 0 && state == State::joined) return false;
  }
  return true;
}

std::string Membership::describe() const {
  std::vector<int> here, missing;
  for (int rank = 0; rank < world_size_; ++rank) (ranks_.contains(rank) ? here : missing).push_back(rank);
  return fmt::format("{}/{} ranks joined: {}; missing: {}", here.size(), world_size_,
                     here.empty() ? "none" : fmt::format("{}", fmt::join(here, ", ")),
                     missing.empty() ? "none" : fmt::format("{}", fmt::join(missing, ", ")));
}

std::string Membership::departures() const {
  std::string text;
  for (const auto& [rank, state] : ranks_) {
    if (state == State::left)
      text += fmt::format("{}rank {} has left the group", text.empty() ? "" : ", ", rank);
  }
  if (!text.empty()) text += ": it finished, returned early or failed; look at its output first";
  return text;
}

}  // namespace miniddp
