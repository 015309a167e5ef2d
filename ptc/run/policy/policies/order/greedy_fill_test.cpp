#include "ptc/run/policy/policies/order/greedy_fill.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "ptc/base/random.h"

namespace scalai::policy::order {
namespace {

// The same by its definition: everything again from the first job on, after each thing that happens.
class PlainFill {
 public:
  struct Job {
    double key = 0, fall_per_s = 0;
    int gpus = 0;
    bool runs = false;
  };

  explicit PlainFill(FillMode mode) : mode_(mode) {}

  void advance(double seconds) {
    for (auto& [id, job] : jobs) job.key -= job.runs ? job.fall_per_s * seconds : 0;
  }

  void fill() {
    std::vector<std::pair<double, int>> order;
    for (const auto& [id, job] : jobs) order.emplace_back(job.key, id);
    std::sort(order.begin(), order.end());
    int64_t left = capacity;
    if (mode_ != FillMode::kPreemptive) {
      for (const auto& [id, job] : jobs) left -= job.runs ? job.gpus : 0;
    }
    for (const auto& [key, id] : order) {
      Job& job = jobs[id];
      if (mode_ != FillMode::kPreemptive && job.runs) continue;
      job.runs = job.gpus <= left;
      left -= job.runs ? job.gpus : 0;
      if (!job.runs && mode_ == FillMode::kStrict) return;
    }
  }

  std::set<int> running() const {
    std::set<int> ids;
    for (const auto& [id, job] : jobs) {
      if (job.runs) ids.insert(id);
    }
    return ids;
  }

  std::map<int, Job> jobs;
  int64_t capacity = 0;

 private:
  FillMode mode_;
};

enum class Fall { kNone, kOne, kGpus };

// One thing that happens, to both.
void happen(Random& random, Fall fall, bool preemptive, int* next, GreedyFill* fill, PlainFill* plain) {
  const int64_t what = random.below(10);
  const auto any = [&] {
    auto it = plain->jobs.begin();
    std::advance(it, random.below(static_cast<int64_t>(plain->jobs.size())));
    return it->first;
  };
  if (what < 5 || plain->jobs.empty()) {
    const int gpus = static_cast<int>(random.below(3) == 0 ? random.between(1, 9) : int64_t{1} << random.below(4));
    const double key = static_cast<double>(random.below(100));
    const double falls = fall == Fall::kNone ? 0 : fall == Fall::kOne ? 1 : gpus;
    plain->jobs[*next] = {.key = key, .fall_per_s = falls, .gpus = gpus, .runs = false};
    fill->add((*next)++, key, gpus, falls);
  } else if (what < 8) {
    const int id = any();
    plain->jobs.erase(id);
    fill->remove(id);
  } else if (what == 8) {
    plain->capacity = random.below(30);
    fill->set_capacity(plain->capacity);
  } else if (preemptive) {
    const int id = any();
    const double key = static_cast<double>(random.below(100));
    plain->jobs[id].key = key;
    fill->set_key(id, key);
  }
  plain->fill();
  fill->fill_up();
}

class Fills : public ::testing::TestWithParam<std::pair<FillMode, Fall>> {};

TEST_P(Fills, AreWhatAFillFromScratchGives) {
  const auto [mode, fall] = GetParam();
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Random random(seed);
    GreedyFill fill(mode);
    PlainFill plain(mode);
    plain.capacity = 20;
    fill.set_capacity(20);
    std::set<int> known;  // running, as told by take_changed()
    double now_s = 0;
    int next = 0;
    for (int step = 0; step < 200; ++step) {
      const double seconds = static_cast<double>(random.below(4));
      now_s += seconds;
      plain.advance(seconds);
      fill.set_now(now_s);
      happen(random, fall, mode == FillMode::kPreemptive, &next, &fill, &plain);
      for (const int id : fill.take_changed()) {
        if (fill.runs(id)) {
          known.insert(id);
        } else {
          known.erase(id);
        }
      }
      ASSERT_EQ(known, plain.running()) << "step " << step;
      int64_t used = 0;
      for (const int id : known) used += plain.jobs[id].gpus;
      ASSERT_EQ(fill.used(), used) << "step " << step;
      for (const auto& [id, job] : plain.jobs) ASSERT_EQ(fill.key(id), job.key) << "step " << step << " job " << id;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Modes, Fills,
                         ::testing::Values(std::pair(FillMode::kPreemptive, Fall::kNone),
                                           std::pair(FillMode::kPreemptive, Fall::kOne),
                                           std::pair(FillMode::kPreemptive, Fall::kGpus),
                                           std::pair(FillMode::kBackfill, Fall::kNone),
                                           std::pair(FillMode::kStrict, Fall::kNone)));

// A departure that lets in a smaller job behind, which pushes nobody out: the chain ends where all is taken again.
TEST(GreedyFill, ALargeArrivalStopsTheFirstThatNoLongerFits) {
  GreedyFill fill(FillMode::kPreemptive);
  fill.set_capacity(8);
  fill.add(0, 10, 4);
  fill.add(1, 20, 2);
  fill.add(2, 30, 2);
  fill.add(3, 5, 6);  // leaves 2: job 0 does not fit any more, job 1 does, job 2 does not
  EXPECT_TRUE(fill.runs(3));
  EXPECT_FALSE(fill.runs(0));
  EXPECT_TRUE(fill.runs(1));
  EXPECT_FALSE(fill.runs(2));
  fill.remove(3);
  EXPECT_TRUE(fill.runs(0) && fill.runs(1) && fill.runs(2));
}

TEST(GreedyFill, AJobThatIsThereAlreadyMayBeMoreThanThereIsRoomFor) {
  GreedyFill fill(FillMode::kBackfill);
  fill.set_capacity(2);
  fill.add_running(0, 0, 4);
  EXPECT_TRUE(fill.runs(0));
  fill.add(1, 1, 1);
  fill.fill_up();
  EXPECT_FALSE(fill.runs(1));
  fill.remove(0);
  fill.fill_up();
  EXPECT_TRUE(fill.runs(1));
}

}  // namespace
}  // namespace scalai::policy::order
