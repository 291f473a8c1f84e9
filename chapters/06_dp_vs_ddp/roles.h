// The parts that a comparison is made of: each is played by processes of its own, so that none disturbs the other's memory or threads. The
// program starts itself again for each, through the launcher.
#pragma once

#include <string>
#include <vector>

#include "chapters/06_dp_vs_ddp/options.h"

namespace miniddp {

struct Role {
  std::string name;
  std::string title;  // for messages
  int processes = 1;
};

/// Those that measure training, in the order in which they must run: the first writes what the others are compared with.
std::vector<Role> training_roles(const CompareOptions& options);

/// CPU threads that one of the compared devices has.
int threads_of_device(const CompareOptions& options);

/// Starts the processes of a role and waits for them. Returns the launcher's exit code. `arguments`: the program's own, without its name.
/// A role that is expected to fail is not talked about. Forks: to be called before the process has threads.
int start_role(const Role& role, const CompareOptions& options, const std::vector<std::string>& arguments, bool expected_to_fail = false);

/// Plays the role that options.role names, and writes the part file. Throws UsageError for an unknown name.
void play_role(const CompareOptions& options);

}  // namespace miniddp
