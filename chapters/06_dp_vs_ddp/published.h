// Published figures beside what the model says about them.
#pragma once

#include <string>
#include <vector>

namespace miniddp {

struct PublishedCheck {
  std::string what, source;
  double published = 0;
  double lowest = 0, highest = 0;  // what the model says, under the assumptions in `assumed`
  std::string unit, assumed;
};

std::vector<PublishedCheck> published_checks();

}  // namespace miniddp
