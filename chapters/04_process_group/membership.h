// Who belongs to the run, kept by rank 0's store server.
#pragma once

#include <map>
#include <optional>
#include <string>

namespace miniddp {

/// PyTorch leaves a wrong RANK or WORLD_SIZE to a time-out; here rank 0's own world size is published and
/// everybody who joins is compared with it at once.
class Membership {
 public:
  /// world_size 0: a bare store that nobody may join.
  explicit Membership(int world_size) : world_size_(world_size) {}

  /// Returns why the rank is refused, or "" if it has joined. A refusal while others are still waiting ends
  /// the whole rendezvous: with a rank numbered twice, another is missing for ever.
  std::string join(int rank, int world_size);
  /// A rank said goodbye.
  void leave(int rank);
  /// A rank's connection ended without a goodbye: its process died.
  void lose(int rank);
  /// A rank's own account of a failure that concerns all.
  void report(const std::string& what);

  int world_size() const { return world_size_; }
  bool complete() const { return static_cast<int>(ranks_.size()) == world_size_; }
  /// True if no rank but rank 0, the host, is still there.
  bool deserted() const;
  /// The first failure: a refused rank, a lost rank or a report. Everybody is told this one, so that all
  /// ranks name the same cause.
  const std::optional<std::string>& failure() const { return failure_; }
  /// "1/2 ranks joined: 0; missing: 1".
  std::string describe() const;
  /// "rank 1 has left the group"; "" if nobody has.
  std::string departures() const;

 private:
  enum class State { joined, left, lost };

  int world_size_;
  std::map<int, State> ranks_;
  std::optional<std::string> failure_;
};

}  // namespace miniddp
