// DistributedSampler: cases 22-30, and thousands of combinations recorded from PyTorch.
#include "chapters/05_distributed_data_parallel/distributed_sampler.h"

#include <zlib.h>

#include <algorithm>
#include <fstream>
#include <set>

#include "tests/support/catch.h"

using namespace miniddp;
using Indices = std::vector<int64_t>;
using Ranks = std::vector<Indices>;

namespace {

Ranks deal(int64_t n, int world, bool shuffle, bool drop_last, int64_t seed = 0, int64_t epoch = 0) {
  Ranks ranks;
  for (int rank = 0; rank < world; ++rank) {
    ranks.push_back(DistributedSampler(n, world, rank, {.shuffle = shuffle, .seed = seed, .drop_last = drop_last}).order(epoch));
  }
  return ranks;
}

Indices first(const Indices& all, size_t count) { return {all.begin(), all.begin() + static_cast<long>(count)}; }

}  // namespace

TEST_CASE("case 22: 11 samples on 4 ranks, in order") {
  CHECK(deal(11, 4, false, false) == Ranks{{0, 4, 8}, {1, 5, 9}, {2, 6, 10}, {3, 7, 0}});
  CHECK(deal(11, 4, false, true) == Ranks{{0, 4}, {1, 5}, {2, 6}, {3, 7}});
  const DistributedSampler padded(11, 4, 0), cut(11, 4, 0, {.drop_last = true});
  CHECK(padded.size() == 3);
  CHECK(padded.total_size() == 12);
  CHECK(cut.size() == 2);
  CHECK(cut.total_size() == 8);
}

TEST_CASE("case 23: shuffled, padded, three epochs") {
  CHECK(deal(11, 4, true, false, 0, 0) == Ranks{{10, 5, 9}, {0, 8, 7}, {4, 2, 6}, {3, 1, 10}});
  CHECK(deal(11, 4, true, false, 0, 1) == Ranks{{0, 7, 1}, {10, 6, 9}, {2, 4, 5}, {3, 8, 0}});
  CHECK(deal(11, 4, true, false, 0, 2) == Ranks{{3, 1, 7}, {8, 4, 6}, {10, 5, 9}, {0, 2, 3}});
}

TEST_CASE("case 24: shuffled, cut, three epochs") {
  CHECK(deal(11, 4, true, true, 0, 0) == Ranks{{10, 5}, {0, 8}, {4, 2}, {3, 1}});
  CHECK(deal(11, 4, true, true, 0, 1) == Ranks{{0, 7}, {10, 6}, {2, 4}, {3, 8}});
  CHECK(deal(11, 4, true, true, 0, 2) == Ranks{{3, 1}, {8, 4}, {10, 5}, {0, 2}});
}

TEST_CASE("case 25: fewer samples than ranks") {
  CHECK(deal(1, 4, false, false) == Ranks{{0}, {0}, {0}, {0}});
  CHECK(deal(1, 4, false, true) == Ranks(4));
  CHECK(deal(2, 4, false, false) == Ranks{{0}, {1}, {0}, {1}});
  CHECK(deal(3, 8, false, false) == Ranks{{0}, {1}, {2}, {0}, {1}, {2}, {0}, {1}});
  CHECK(deal(5, 2, false, false) == Ranks{{0, 2, 4}, {1, 3, 0}});
  CHECK(deal(5, 2, false, true) == Ranks{{0, 2}, {1, 3}});
}

TEST_CASE("case 26: MNIST's 60000 samples on 2 ranks") {
  const Ranks zero = deal(60000, 2, true, false, 0, 0), one = deal(60000, 2, true, false, 0, 1);
  CHECK(first(zero[0], 6) == Indices{36044, 57327, 21567, 9481, 26145, 36531});
  CHECK(first(zero[1], 6) == Indices{10678, 55074, 15479, 43095, 7479, 9597});
  CHECK(first(one[0], 6) == Indices{35845, 33254, 11299, 58355, 35815, 57358});
  CHECK(first(one[1], 6) == Indices{27522, 23645, 16178, 27002, 26559, 33583});
  CHECK(zero[0].size() == 30000);
}

TEST_CASE("case 27: 60000 samples on 7 ranks, the last one") {
  const DistributedSampler padded(60000, 7, 6, {.shuffle = false}), cut(60000, 7, 6, {.shuffle = false, .drop_last = true});
  CHECK(padded.size() == 8572);
  CHECK(padded.total_size() == 60004);
  CHECK(padded.order(0).back() == 3);
  CHECK(cut.size() == 8571);
  CHECK(cut.total_size() == 59997);
  CHECK(cut.order(0).back() == 59996);
}

TEST_CASE("case 28: ranks out of range") {
  using Catch::Matchers::ContainsSubstring;
  CHECK_THROWS_WITH(DistributedSampler(10, 4, 4), ContainsSubstring("Invalid rank 4, rank should be in the interval [0, 3]"));
  CHECK_THROWS_WITH(DistributedSampler(10, 4, -1), ContainsSubstring("Invalid rank -1"));
}

TEST_CASE("case 29: the same epoch twice is the same order, and only the sum of seed and epoch counts") {
  CHECK(deal(11, 4, true, false, 0, 3) == deal(11, 4, true, false, 0, 3));
  CHECK(deal(11, 4, true, false, 0, 3) != deal(11, 4, true, false, 0, 4));
  CHECK(deal(11, 4, true, false, 5, 0) == deal(11, 4, true, false, 3, 2));
}

TEST_CASE("case 30: padded shares cover everything, cut ones have no duplicates, all ranks get equally many") {
  for (int world : {2, 3, 4, 7}) {
    for (int64_t n : {int64_t{100 + world + 1}, std::max<int64_t>(world / 2 - 1, 1)}) {
      for (bool drop_last : {false, true}) {
        std::multiset<int64_t> all;
        const Ranks ranks = deal(n, world, true, drop_last);
        for (const Indices& rank : ranks) {
          CHECK(rank.size() == ranks[0].size());
          all.insert(rank.begin(), rank.end());
        }
        const std::set<int64_t> distinct(all.begin(), all.end());
        if (drop_last) {
          CHECK(distinct.size() == all.size());
        } else {
          CHECK(distinct.size() == static_cast<size_t>(n));
        }
      }
    }
  }
}

TEST_CASE("P5: evaluation counts every sample exactly once, whatever the number of ranks") {
  for (int world : {1, 3, 7, 8}) {
    for (int64_t n : {0, 3, 10000}) {
      Indices all;
      for (int rank = 0; rank < world; ++rank) {
        const UnpaddedSampler sampler(n, world, rank);
        const Indices mine = sampler.order(0, Generator(0));
        CHECK(static_cast<int64_t>(mine.size()) == sampler.size());
        all.insert(all.end(), mine.begin(), mine.end());
      }
      std::sort(all.begin(), all.end());
      Indices expected(static_cast<size_t>(n));
      for (size_t i = 0; i < expected.size(); ++i) expected[i] = static_cast<int64_t>(i);
      CHECK(all == expected);
    }
  }
}

TEST_CASE("DistributedSampler equals PyTorch's over thousands of recorded combinations") {
  // Each row: n world rank shuffle drop_last seed epoch length crc32 (of the indices as little-endian int64).
  std::ifstream file(MINIDDP_SOURCE_DIR "/tests/parity/recorded/distributed_sampler.txt");
  REQUIRE(file.good());
  int64_t n, seed, epoch, length, combinations = 0, wrong = 0;
  int world, rank, shuffle, drop_last;
  uint32_t crc;
  while (file >> n >> world >> rank >> shuffle >> drop_last >> seed >> epoch >> length >> crc) {
    const DistributedSampler sampler(n, world, rank, {.shuffle = shuffle != 0, .seed = seed, .drop_last = drop_last != 0});
    const Indices order = sampler.order(epoch);
    const auto found = crc32(0, reinterpret_cast<const Bytef*>(order.data()), static_cast<uInt>(order.size() * sizeof(int64_t)));
    const bool equal = static_cast<int64_t>(order.size()) == length && sampler.size() == length && found == crc;
    if (!equal && wrong++ == 0) UNSCOPED_INFO("first difference: n " << n << " world " << world << " rank " << rank << " epoch " << epoch);
    ++combinations;
  }
  CHECK(wrong == 0);
  CHECK(combinations >= 5000);
}
