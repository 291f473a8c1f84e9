// The processes below this one, found in /proc.
#pragma once

#include <sys/types.h>

#include <vector>

namespace miniddp {

/// Children, their children and so on. Together with PR_SET_CHILD_SUBREAPER (orphans come to us) none can
/// hide, not even one that has made itself a session of its own.
std::vector<pid_t> descendants();

/// Sends SIGKILL to all descendants, and again until none is left, and reaps them. Bounded: gives up after 5
/// s (a process in uninterruptible sleep cannot be ended by anybody).
void kill_descendants();

}  // namespace miniddp
