// Placements of jobs that ask for parts of GPUs, audited from placements.csv and hosts.csv alone. `./dev soak` plays a
// hundred loads.

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <set>

#include "tests/csv_rows.h"
#include "tests/sched_end_to_end.h"

namespace scalai::testing {
namespace placements_slices_test {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Of fleets whose GPUs are cut in slices: from the column slices alone, by the rules of NVIDIA's guide.
std::vector<std::string> slice_problems(const std::string& placements) {
  const std::map<std::string, std::pair<int, std::set<int>>> rules = {// memory slices, and where they may begin
                                                                      {"1g", {1, {0, 1, 2, 3, 4, 5, 6}}},
                                                                      {"2g", {2, {0, 2, 4}}},
                                                                      {"3g", {4, {0, 4}}},
                                                                      {"4g", {4, {0}}},
                                                                      {"7g", {8, {0}}}};
  std::vector<std::string> problems;
  std::map<std::string, std::map<double, int>> taken;  // by GPU and memory slice: change of jobs on it, by time
  for (const Row& row : rows_of(placements)) {
    double compute = 0;
    for (const std::string& part : split(row.at("slices"), ' ')) {
      const size_t colon = part.find(':'), at = part.find('@');
      const std::string gpu = part.substr(0, colon), profile = part.substr(colon + 1, at - colon - 1);
      const int start = std::stoi(part.substr(at + 1));
      const auto& [memory, starts] = rules.at(profile);
      if (starts.count(start) == 0) problems.push_back(fmt::format("{} begins at {}", profile, start));
      compute += std::stoi(profile);
      for (int k = start; k < start + memory; ++k) {
        ++taken[fmt::format("{}.{}", gpu, k)][number(row, "from_s")];
        --taken[fmt::format("{}.{}", gpu, k)][number(row, "to_s")];
      }
    }
    if (std::abs(compute / 7 - number(row, "gpus")) > 1e-9)
      problems.push_back(fmt::format("{} slices are {} GPUs", compute, row.at("gpus")));
  }
  for (const auto& [slice, changes] : taken) {
    int jobs = 0;
    for (const auto& [at_s, change] : changes) {
      jobs += change;
      if (jobs > 1) problems.push_back(fmt::format("{} has {} jobs at {}", slice, jobs, at_s));
    }
  }
  return problems;
}

TEST(PlacementsOfSlices, ThoseThatAreWrongAreFound) {
  const auto found = [](const std::string& a, const std::string& b) {
    const std::string head = "from_s,to_s,job,what,gpus,hosts,slices\n";
    return fmt::format("{}", fmt::join(slice_problems(head + a + "\n" + b + "\n"), "; "));
  };
  const std::string a = "0,9,a,trains,0.42857142857142855,h0:0.42857142857142855,h0.g0:3g@4";
  EXPECT_EQ(found(a, "0,9,b,trains,0.5714285714285714,h0:0.5714285714285714,h0.g0:4g@0"), "");
  EXPECT_THAT(found(a, "0,9,b,trains,0.14285714285714285,,h0.g0:1g@5"), HasSubstr("h0.g0.5 has 2 jobs at 0"));
  EXPECT_EQ(found(a, "9,12,b,trains,0.14285714285714285,,h0.g0:1g@5"), "");
  EXPECT_THAT(found(a, "0,9,b,trains,0.2857142857142857,,h0.g0:2g@1"), HasSubstr("2g begins at 1"));
  EXPECT_THAT(found(a, "0,9,b,trains,1,,h0.g0:2g@2"), HasSubstr("2 slices are 1 GPUs"));
}

TEST_F(SchedEndToEnd, PartsOfGpusLieWhereTheyMay) {
  const uint64_t first = std::random_device()(), loads = soaking() ? 100 : 3;
  for (uint64_t seed = first; seed < first + loads; ++seed) {
    std::mt19937_64 random(seed);
    std::string jobs = "scalai-trace,1,jobs\nsubmit_s,gpus,duration_s,mig\n";
    constexpr const char* kAsked[] = {"1,{},1g", "0.29,{},", "0.43,{},", "1,{},4g", "1,{},", "2,{},", "5,{},"};
    double at_s = 0;
    for (int k = 0; k < 80; ++k, at_s += static_cast<double>(random() % 300))
      jobs += fmt::format("{},{}\n", at_s, fmt::format(fmt::runtime(kAsked[random() % 7]), 60 + random() % 2000));
    write_all(path("parts.csv"), jobs);
    for (const std::string name : {"fifo", "fifo-backfill", "sjf"}) {
      SCOPED_TRACE(fmt::format("{}, seed {}", name, seed));
      write_all(path("parts.textproto"), fmt::format(R"(name: "parts"
seed: {}
cluster {{ hosts {{ count: 3 kind: "dgx-h100" }} }}
workload {{ file: "parts.csv" }}
availability {{ generator: "poisson" set: "host-mtbf=6h" set: "repair=20min" set: "span=10d" }}
policy {{ name: "{}" }}
changes {{ seconds: "30s" }}
expect {{ metric: "/metrics/finished" equals: 80 }}
)",
                                                     seed, name));
      const Outcome run = sim(fmt::format("{} --out='{}'", path("parts.textproto"), path("out")));
      ASSERT_EQ(run.code, 0) << run.err;
      EXPECT_THAT(slice_problems(read_all(folder_ / "out/placements.csv")), IsEmpty());
      double held = 0;
      for (const Row& row : rows_of(read_all(folder_ / "out/placements.csv")))
        held += number(row, "gpus") * (number(row, "to_s") - number(row, "from_s"));
      double up = 0;
      for (const Row& row : rows_of(read_all(folder_ / "out/hosts.csv")))
        up += number(row, "gpus") * (number(row, "up_to_s") - number(row, "up_from_s"));
      const nlohmann::json metrics = nlohmann::json::parse(read_all(folder_ / "out/summary.json")).at("metrics");
      const double said =
          metrics.at("training_gpu_h").get<double>() + metrics.at("reconfiguration_gpu_h").get<double>();
      EXPECT_NEAR(said * 3600, held, 1e-6 * held);
      EXPECT_NEAR(metrics.at("gpu_h").get<double>() * 3600, up, 1e-6 * up);
      EXPECT_NEAR(metrics.at("free_gpu_h").get<double>() * 3600, up - held, 1e-6 * up);
      EXPECT_TRUE(metrics.at("fragmentation").is_null());
    }
  }
}

}  // namespace placements_slices_test
}  // namespace scalai::testing
