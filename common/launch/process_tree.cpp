#include "common/launch/process_tree.h"

#include <dirent.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <thread>

namespace miniddp {

namespace {

// The parent of a process, 0 if it has gone. A zombie counts as gone: it only waits to be reaped.
pid_t parent_of(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string line;
  if (!std::getline(file, line)) return 0;
  // "pid (name) state parent …": the name may hold anything, so look behind its last bracket.
  const size_t bracket = line.rfind(')');
  if (bracket == std::string::npos || bracket + 4 >= line.size() || line[bracket + 2] == 'Z') return 0;
  return static_cast<pid_t>(std::atoi(line.c_str() + bracket + 4));
}

}  // namespace

std::vector<pid_t> descendants() {
  std::multimap<pid_t, pid_t> children;
  const std::unique_ptr<DIR, int (*)(DIR*)> directory(opendir("/proc"), closedir);
  if (!directory) return {};
  while (const dirent* entry = readdir(directory.get())) {
    const pid_t pid = static_cast<pid_t>(std::atoi(entry->d_name));
    if (pid > 0) children.emplace(parent_of(pid), pid);
  }
  std::vector<pid_t> found = {getpid()};
  for (size_t i = 0; i < found.size(); ++i) {
    const auto [first, last] = children.equal_range(found[i]);
    for (auto child = first; child != last; ++child) found.push_back(child->second);
  }
  found.erase(found.begin());
  return found;
}

void kill_descendants() {
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  while (std::chrono::steady_clock::now() < limit) {
    const std::vector<pid_t> left = descendants();
    for (pid_t pid : left) kill(pid, SIGKILL);
    while (waitpid(-1, nullptr, WNOHANG) > 0) {
    }
    if (left.empty()) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

}  // namespace miniddp
