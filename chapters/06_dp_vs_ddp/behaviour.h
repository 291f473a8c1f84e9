// How DataParallel and DistributedDataParallel differ, measured live on two devices and two processes.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "chapters/06_dp_vs_ddp/options.h"
#include "chapters/06_dp_vs_ddp/report.h"
#include "chapters/06_dp_vs_ddp/roles.h"

namespace miniddp {

/// What was found, by the short name of a difference ("gradients", "dropout").
using Findings = std::map<std::string, std::string>;

/// On one device (a module as it is) or, with `parallel`, in DataParallel on cpu:0 and cpu:1.
Findings find_in_one_process(bool parallel);
/// In DistributedDataParallel, as this rank of two.
Findings find_as_rank();

/// Ends the process by SIGKILL, from within the thread of a DataParallel replica.
void die_in_a_replica();
/// In DistributedDataParallel, as one of two ranks of which rank 1 throws: what it throws, and what rank 0 notices.
Findings find_as_thrower();
/// The same with a rank 1 that kills itself.
Findings find_as_survivor();

/// Roles that a comparison starts for the table. Those that `dies` names end by SIGKILL, as they should.
struct BehaviourRole {
  Role role;
  bool dies = false;
};
std::vector<BehaviourRole> behaviour_roles();

/// Plays the role if it is one of these. False: it is not.
bool play_behaviour(const CompareOptions& options, int rank);

/// The table, from the parts in the folder and the exit codes of the roles that died.
std::vector<BehaviourRow> behaviour_rows(const std::filesystem::path& parts, const std::map<std::string, int>& exit_codes);

}  // namespace miniddp
