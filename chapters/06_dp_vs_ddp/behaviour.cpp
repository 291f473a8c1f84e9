#include "chapters/06_dp_vs_ddp/behaviour.h"

#include <fmt/format.h>

#include "chapters/06_dp_vs_ddp/part.h"
#include "common/kernels/kernels.h"

namespace miniddp {
namespace {

const std::string in_one_process = "behaviour_dp", in_ranks = "behaviour_ddp", thrown = "thrown_ddp", killed_replica = "killed_dp", killed_rank = "killed_ddp";

// "message\nmilliseconds"
std::string message_of(const std::string& text) { return text.substr(0, text.rfind('\n')); }
std::string milliseconds_of(const std::string& text) { return text.substr(text.rfind('\n') + 1); }

std::string ended_by(int exit_code) {
  return exit_code > 128 ? fmt::format("signal {}", exit_code - 128) : fmt::format("exit code {}", exit_code);
}

}  // namespace

std::vector<BehaviourRole> behaviour_roles() {
  return {{{in_one_process, "behaviour of one device and of DP", 1}},
          {{in_ranks, "behaviour of DDP", 2}},
          {{thrown, "DDP with a rank that throws", 2}},
          {{killed_replica, "DP with a killed worker", 1}, true},
          {{killed_rank, "DDP with a killed worker", 2}, true}};
}

bool play_behaviour(const CompareOptions& options, int rank) {
  const std::string& role = options.role;
  if (role != in_one_process && role != in_ranks && role != thrown && role != killed_replica && role != killed_rank) return false;
  set_threads_per_device(1);
  Part part;
  if (role == in_one_process) {
    for (const bool parallel : {false, true}) {
      for (const auto& [name, text] : find_in_one_process(parallel)) part.behaviour[(parallel ? "dp " : "one ") + name] = text;
    }
  } else if (role == in_ranks) {
    part.behaviour = find_as_rank();
  } else if (role == thrown) {
    part.behaviour = find_as_thrower();
  } else if (role == killed_replica) {
    die_in_a_replica();
  } else {
    part.behaviour = find_as_survivor();
  }
  write_part(part_path(options.parts, role, rank), part);
  return true;
}

std::vector<BehaviourRow> behaviour_rows(const std::filesystem::path& parts, const std::map<std::string, int>& exit_codes) {
  const Findings single = read_part(part_path(parts, in_one_process, 0)).behaviour;
  const Findings rank0 = read_part(part_path(parts, in_ranks, 0)).behaviour, rank1 = read_part(part_path(parts, in_ranks, 1)).behaviour;
  const Findings threw = read_part(part_path(parts, thrown, 1)).behaviour, noticed = read_part(part_path(parts, thrown, 0)).behaviour;
  const Findings survivor = read_part(part_path(parts, killed_rank, 0)).behaviour;
  const auto one = [&](const std::string& name) { return single.at("one " + name); };
  const auto dp = [&](const std::string& name) { return single.at("dp " + name); };
  const auto both = [&](const std::string& name) {
    if (rank0.at(name) == rank1.at(name)) return rank0.at(name) + " on both ranks";
    return fmt::format("rank 0: {}; rank 1: {}", rank0.at(name), rank1.at(name));
  };
  const auto same_mask = [](const std::string& answer) { return fmt::format("both halves of the batch get one mask: {}", answer); };

  std::vector<BehaviourRow> rows;
  rows.push_back({"Gradients are summed (DP) or averaged (DDP): gradient of the summed loss of w·x, w = 1, batch 1, 2, 3, 4", one("gradients"),
                  dp("gradients"), both("gradients") + " (the mean of 3 and 7)",
                  {"conformance:data parallel, case 42: gradients of the replicas add up to the single device's",
                   "conformance:case 64: sum losses come out smaller by the number of ranks, uneven shards weigh differently"}});
  rows.push_back({"Uneven last batch: gradient of the mean loss, batch 1, 2, 3", one("uneven"), dp("uneven") + " (one mean over the gathered batch)",
                  both("uneven") + " (the mean of the ranks' means)",
                  {"parity:parity, D5: 7 losses of 1 and 6 of 2 make 1.461538 and not 1.5",
                   "conformance:case 64: sum losses come out smaller by the number of ranks, uneven shards weigh differently"}});
  rows.push_back({"BatchNorm: running mean after a batch 0, 2, 10, 12 (momentum 0.1)", one("batch_norm"), dp("batch_norm") + " (the first chunk's)",
                  both("batch_norm"),
                  {"conformance:data parallel, case 46: BatchNorm normalises each chunk, running statistics are replica 0's",
                   "conformance:case 73: SyncBatchNorm has the statistics of the whole batch, and its gradients"}});
  rows.push_back({"Buffers: a buffer that sums its inputs, after three steps with 1, 2, 3, 4", one("buffers"),
                  dp("buffers") + " (replica 0's; the others' are lost)", both("buffers") + " at the next forward",
                  {"conformance:data parallel, case 45: what replicas write is lost, but for replica 0's buffers",
                   "conformance:case 67: buffers become rank 0's at the start of forward, unless that is switched off"}});
  rows.push_back({"Dropout masks, after manual_seed(1)", same_mask(one("dropout")), same_mask(dp("dropout")),
                  fmt::format("{}; seeded with the rank added: {}", same_mask(rank0.at("dropout")), rank0.at("dropout_seeded")),
                  {"conformance:data parallel, D15: devices draw from their own generators: equal seeds, equal masks at first",
                   "comparison:compare: what the table says of DDP is what two processes do"}});
  rows.push_back({"Random state: another manual_seed gives another order of the samples", one("random"), dp("random"),
                  rank0.at("random") + " (DistributedSampler has a seed of its own)",
                  {"conformance:case 15: the base seed is drawn at once, the sampler's with the first batch",
                   "conformance:case 29: the same epoch twice is the same order, and only the sum of seed and epoch counts"}});
  rows.push_back({"Names in the state_dict", one("state_dict"), dp("state_dict"), rank0.at("state_dict"),
                  {"conformance:data parallel: names begin with module., and load without it",
                   "conformance:case 74: names in the state_dict, and loading without the wrapper"}});
  rows.push_back({"An exception in one worker", one("exception"), dp("exception"),
                  fmt::format("rank 1 throws \"{}\"; rank 0 notices after {} ms: \"{}\"", threw.at("exception"),
                              milliseconds_of(noticed.at("exception")), message_of(noticed.at("exception"))),
                  {"conformance:data parallel, D8: an error in a replica names it, and leaves no thread behind",
                   "fault:fault: a rank that throws, and one that returns early, are named by the others"}});
  rows.push_back({"A worker is killed (SIGKILL)", "has no other worker",
                  fmt::format("a worker is a thread: the whole program ends ({})", ended_by(exit_codes.at(killed_replica))),
                  fmt::format("rank 0 notices after {} ms: \"{}\"; the launcher ends the rest ({})", milliseconds_of(survivor.at("killed")),
                              message_of(survivor.at("killed")), ended_by(exit_codes.at(killed_rank))),
                  {"comparison:compare: a killed worker ends DP, and is noticed by DDP",
                   "fault:fault: kill -9 of any rank in the middle of training, every survivor names it within 2 s"}});
  rows.push_back({"The loss that is printed: losses 1, 2, 3, 4", one("loss"), dp("loss"), both("loss"),
                  {"parity:parity, case 93: Mini on 2, 3 and 4 devices",
                   "conformance:case 94: 2 and 4 ranks with contiguous shards of D64 have the losses of the whole batch"}});
  rows.push_back({"Evaluation of 11 samples", one("evaluation"), dp("evaluation"), rank0.at("evaluation"),
                  {"conformance:P5: evaluation counts every sample exactly once, whatever the number of ranks",
                   "distributed:P6: metrics are summed over the ranks before they are divided"}});
  return rows;
}

}  // namespace miniddp
