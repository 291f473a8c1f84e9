#include "chapters/tour/mistakes.h"

#include <utility>

namespace miniddp {
namespace {

const std::vector<std::pair<std::string, std::string>> mistakes{
    {"no-all-reduce", "every process keeps its own gradients"},
    {"sum", "gradients are summed and not divided by the number of processes"},
    {"no-broadcast", "every process begins with weights of its own"},
    {"drop-bucket", "the gradients of the fully connected layers are forgotten"},
    {"same-samples", "all processes take the same samples"},
    {"crash", "the last process is killed in step 3"},
};

}  // namespace

std::vector<std::string> mistake_names() {
  std::vector<std::string> names;
  for (const auto& mistake : mistakes) names.push_back(mistake.first);
  return names;
}

std::string mistakes_help() {
  std::string help = "Stage 04 makes a mistake, which must be noticed:";
  for (const auto& [name, what] : mistakes) help += (name == mistakes[0].first ? " " : "; ") + name + ": " + what;
  return help;
}

}  // namespace miniddp
