#include "chapters/06_dp_vs_ddp/compare.h"

#include <signal.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <iterator>

#include "chapters/06_dp_vs_ddp/behaviour.h"
#include "chapters/06_dp_vs_ddp/roles.h"
#include "common/core/console.h"
#include "common/core/error.h"

namespace miniddp {
namespace {

/// A folder that is removed with the object.
class ScratchFolder {
 public:
  explicit ScratchFolder(const std::filesystem::path& parent) {
    std::error_code code;
    std::filesystem::create_directories(parent, code);
    std::string name = (parent / "parts.XXXXXX").string();
    check(!code && mkdtemp(name.data()) != nullptr, "cannot make a folder in {}: {}; choose another with --output", parent.string(),
          code ? code.message() : std::strerror(errno));
    path_ = std::filesystem::absolute(name);
  }
  ~ScratchFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

pthread_t starter;

/// Libraries may have threads from the beginning (OpenBLAS does), which would take a signal that the starting thread holds back.
void pass_to_starter(int signal) {
  if (pthread_equal(pthread_self(), starter) == 0) pthread_kill(starter, signal);
}

/// Signals that ask for the end wait until a part runs: the launcher takes them, ends the part, and the folder is removed as usual.
class HeldSignals {
 public:
  HeldSignals() {
    starter = pthread_self();
    sigset_t set;
    sigemptyset(&set);
    for (const int signal : signals) sigaddset(&set, signal);
    pthread_sigmask(SIG_BLOCK, &set, &mask_before_);
    struct sigaction action {};
    action.sa_handler = pass_to_starter;
    action.sa_flags = SA_RESTART;
    for (size_t i = 0; i < std::size(signals); ++i) sigaction(signals[i], &action, &before_[i]);
  }
  ~HeldSignals() {
    for (size_t i = 0; i < std::size(signals); ++i) sigaction(signals[i], &before_[i], nullptr);
    pthread_sigmask(SIG_SETMASK, &mask_before_, nullptr);
  }
  HeldSignals(const HeldSignals&) = delete;
  HeldSignals& operator=(const HeldSignals&) = delete;

 private:
  static constexpr int signals[] = {SIGINT, SIGTERM, SIGHUP};
  sigset_t mask_before_;
  struct sigaction before_[std::size(signals)];
};

std::string how_it_ended(int code, const CompareOptions& options) {
  if (code == 124) return fmt::format("was not done after {} s (--timeout)", options.timeout);
  if (code > 128) return fmt::format("was killed by signal {}", code - 128);
  return fmt::format("failed with exit code {}", code);
}

void run_role(const Role& role, const CompareOptions& options, const std::vector<std::string>& arguments) {
  if (!options.quiet) print_errors("compare: {}\n", role.title);
  const int code = start_role(role, options, arguments);
  check(code == 0, "the comparison needs {}, which {}: see above", role.title, how_it_ended(code, options));
}

}  // namespace

Comparison compare(const CompareOptions& original, const std::vector<std::string>& arguments) {
  const HeldSignals held;
  const ScratchFolder scratch(original.output);
  CompareOptions options = original;
  options.parts = scratch.path();

  std::vector<RoleParts> parts;
  for (const Role& role : training_roles(options)) {
    run_role(role, options, arguments);
    parts.push_back({role.name, role.title, {}});
    for (int rank = 0; rank < role.processes; ++rank) parts.back().ranks.push_back(read_part(part_path(options.parts, role.name, rank)));
  }

  std::map<std::string, int> exit_codes;
  if (!options.quiet) print_errors("compare: behaviour\n");
  for (const BehaviourRole& each : behaviour_roles()) {
    const int code = start_role(each.role, options, arguments, each.dies);
    exit_codes[each.role.name] = code;
    check((code == 0) != each.dies, "the comparison needs {}, which {}", each.role.title, how_it_ended(code, options));
  }

  Comparison result{assemble(options, parts), assemble_trace(options, parts)};
  result.report.behaviour = behaviour_rows(options.parts, exit_codes);
  return result;
}

}  // namespace miniddp
