#include "common/launch/launch.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "common/core/console.h"
#include "common/core/error.h"
#include "common/launch/process_tree.h"
#include "common/launch/supervisor.h"

namespace miniddp {

namespace {

int run_supervisor(LaunchPlan plan, pid_t front) {
  setpgid(0, 0);  // Ctrl-C reaches the front alone, which passes it on
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  try {
    Supervisor supervisor(std::move(plan));
    if (getppid() != front) return 1;
    return supervisor.run();
  } catch (const std::exception& error) {
    print_errors("error: {}\n", error.what());
    return 1;
  }
}

void announce(const LaunchPlan& plan) {
  const std::string threads = plan.omp_threads > 0 ? fmt::format("{} for each", plan.omp_threads) : fmt::format("{} as you set it", getenv("OMP_NUM_THREADS"));
  print_errors("launch: {} ranks, store at {}:{}, OMP_NUM_THREADS={}\n", plan.options.nproc, plan.options.master_addr, plan.master_port, threads);
}

}  // namespace

int launch(const LaunchOptions& options) {
  LaunchPlan plan = make_plan(options);
  if (options.announce) announce(plan);
  std::fflush(nullptr);

  // Should the supervisor be killed, its orphans come to us.
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  sigset_t set, before;
  sigemptyset(&set);
  for (int signal : {SIGCHLD, SIGINT, SIGTERM, SIGHUP}) sigaddset(&set, signal);
  sigprocmask(SIG_BLOCK, &set, &before);

  const pid_t front = getpid();
  const pid_t supervisor = fork();
  if (supervisor == 0) {
    const int code = run_supervisor(plan, front);
    std::fflush(nullptr);
    _exit(code);
  }
  const int reason = errno;
  if (plan.store_socket >= 0) close(plan.store_socket);
  check(supervisor > 0, "cannot fork: {}", std::strerror(reason));

  int status = 0;
  while (waitpid(supervisor, &status, WNOHANG) == 0) {
    siginfo_t info;
    if (sigwaitinfo(&set, &info) < 0) continue;
    if (info.si_signo != SIGCHLD) kill(supervisor, info.si_signo);
  }
  kill_descendants();
  sigprocmask(SIG_SETMASK, &before, nullptr);
  if (WIFEXITED(status)) return WEXITSTATUS(status);
  print_errors("launch: the supervisor of the ranks was killed by signal {}: all ranks were ended\n",
             WTERMSIG(status));
  return 128 + WTERMSIG(status);
}

}  // namespace miniddp
