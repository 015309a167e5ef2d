#include "ptc/run/policy/policies/shares/pop.h"

#include <fmt/core.h>

#include <fstream>
#include <set>

#include "ptc/base/status.h"
#include "ptc/run/policy/policies/shares/testing/support.h"
#include "ptc/run/policy/testing/support.h"
#include "ptc/run/scenario/trace/tables.h"

namespace scalai::policy {
namespace {

using testing::expect_allowed;
using testing::random_problem;

TEST(Pop, PartsTogetherAreAllowedAndNeverBetter) {
  int split_runs = 0;
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Random random(seed);
    ShareProblem problem = random_problem(random, static_cast<int>(random.between(4, 10)), 3, random.below(2) == 0);
    for (int& gpus : problem.gpus) gpus *= 4;
    const PopOptions options{.groups = static_cast<int>(random.between(1, 4)),
                             .split = random.below(2) == 0 ? PopOptions::Split::kModulo : PopOptions::Split::kRandom,
                             .seed = seed};
    const auto parts = pop_shares(problem, options, max_min_shares);
    ASSERT_TRUE(parts.ok()) << parts.status();
    expect_allowed(problem, parts->shares);
    const auto exact = max_min_shares(problem);
    ASSERT_TRUE(exact.ok());
    if (options.groups == 1) {
      EXPECT_EQ(parts->shares.alone, exact->alone);
    }
    // No shares are better for the worst job than the exact ones.
    const std::vector<double> rates = throughputs(problem, parts->shares);
    const std::vector<double> scale = normalisers(problem);
    double worst = kNever;
    for (size_t m = 0; m < rates.size(); ++m) {
      worst = problem.jobs[m].runs() ? std::min(worst, rates[m] * scale[m]) : worst;
    }
    EXPECT_LE(worst, exact->objective * (1 + 1e-6));
    split_runs += options.groups > 1 ? 1 : 0;
  }
  EXPECT_GT(split_runs, 10);
}

TEST(Pop, GroupsAreByNumberOrDrawn) {
  Random random(1);
  ShareProblem problem = random_problem(random, 11, 2, false);
  problem.gpus = {9, 8};
  const auto modulo = split(problem, {.groups = 3});
  ASSERT_TRUE(modulo.ok()) << modulo.status();
  EXPECT_EQ((*modulo)[1].jobs, (std::vector<int>{1, 4, 7, 10}));
  EXPECT_EQ((*modulo)[0].problem.gpus, (std::vector<int>{3, 2}));
  const auto drawn = split(problem, {.groups = 3, .split = PopOptions::Split::kRandom, .seed = 5});
  const auto again = split(problem, {.groups = 3, .split = PopOptions::Split::kRandom, .seed = 5});
  const auto other = split(problem, {.groups = 3, .split = PopOptions::Split::kRandom, .seed = 6});
  ASSERT_TRUE(drawn.ok() && again.ok() && other.ok());
  std::set<int> all;
  bool differs = false;
  for (size_t g = 0; g < 3; ++g) {
    EXPECT_EQ((*drawn)[g].jobs, (*again)[g].jobs);
    differs = differs || (*drawn)[g].jobs != (*other)[g].jobs;
    EXPECT_GE((*drawn)[g].jobs.size(), 3U);
    all.insert((*drawn)[g].jobs.begin(), (*drawn)[g].jobs.end());
  }
  EXPECT_TRUE(differs);
  EXPECT_EQ(all.size(), 11U);
}

TEST(Pop, ALargeJobIsRefusedByName) {
  ShareProblem problem;
  problem.gpus = {8, 4};
  problem.jobs = {{.id = JobId(0), .gpus = 1, .rates = {1, 1}}, {.id = JobId(7), .gpus = 4, .rates = {1, 0}}};
  EXPECT_TRUE(split(problem, {.groups = 2}).ok());
  const auto parts = split(problem, {.groups = 4});
  ASSERT_TRUE(absl::IsInvalidArgument(parts.status()));
  EXPECT_NE(message_of(parts.status()).find("job 7 asks for 4 GPUs"), std::string::npos) << parts.status();
}

// --- POP's tables (SOSP'21 artifact), G18 ----------------------------------------------------------------------------

std::vector<std::vector<std::string>> csv(const std::string& path) {
  std::ifstream in(path);
  std::vector<std::vector<std::string>> rows;
  for (std::string line; std::getline(in, line);) {
    std::vector<std::string>& row = rows.emplace_back();
    for (size_t begin = 0; begin <= line.size();) {
      const size_t end = std::min(line.find(',', begin), line.size());
      row.push_back(line.substr(begin, end - begin));
      begin = end + 1;
    }
  }
  if (!rows.empty()) {
    rows.erase(rows.begin());  // names
  }
  return rows;
}

// The first n jobs of POP's list on n/4 GPUs of each type.
absl::StatusOr<ShareProblem> pop_problem(int n, bool packing) {
  Workload workload;
  for (const std::vector<std::string>& row : csv(testing::data_path("pop/lp_2048_jobs_throughputs.csv"))) {
    if (static_cast<int>(workload.jobs.size()) < n) {
      Job& job = workload.jobs.emplace_back();
      job.name = row[0];
      job.type = row[1];
    }
  }
  Fleet fleet;
  for (const char* name : {"v100", "p100", "k80"}) {
    const GpuType type(static_cast<int64_t>(fleet.types.size()));
    fleet.types.push_back({name, 0});
    fleet.hosts.push_back({type, n / 4});
  }
  SCALAI_ASSIGN_OR_RETURN(const std::unique_ptr<Throughput> table,
                          table_throughput("gavel", testing::data_path("gavel/simulation_throughputs.json"), fleet,
                                           workload, trace::Beyond::kRefuse));
  return share_problem(workload.jobs, fleet, *table, packing);
}

// As POP's files normalise: by N_j / jobs.
double in_their_terms(const ShareProblem& problem, double objective) {
  double total = 0;
  for (int gpus : problem.gpus) total += gpus;
  return objective * static_cast<double>(problem.jobs.size()) / total;
}

TEST(Pop, OptimaOfTheAuthorsProblems) {
  const std::string reference = testing::data_path("pop/lp_reference_optima.csv");
  if (reference.empty() || testing::data_path("gavel/simulation_throughputs.json").empty()) {
    GTEST_SKIP() << testing::data_hint("pop and gavel");
  }
  int rows = 0;
  for (const std::vector<std::string>& row : csv(reference)) {
    const int jobs = std::stoi(row[0]);
    const bool packing = row[1] == "1";
    const int groups = std::stoi(row[2]);
    SCOPED_TRACE(fmt::format("{} jobs, packed {}, group {} of {}", jobs, packing, row[3], groups));
    const auto problem = pop_problem(jobs, packing);
    ASSERT_TRUE(problem.ok()) << problem.status();
    const auto parts = split(*problem, {.groups = groups});
    ASSERT_TRUE(parts.ok()) << parts.status();
    const ShareProblem& part = (*parts)[static_cast<size_t>(std::stoi(row[3]))].problem;
    const auto shares = max_min_shares(part);
    ASSERT_TRUE(shares.ok()) << shares.status();
    EXPECT_NEAR(in_their_terms(part, shares->objective), std::stod(row[4]), 1e-6 * std::stod(row[4]));
    ++rows;
  }
  EXPECT_EQ(rows, 12);
}

// The worst job of POP against the worst job of the exact solution: as in the authors' own columns.
TEST(Pop, QualityOfTheAuthorsSample) {
  const std::string table = testing::data_path("pop/lp_32_jobs_throughputs.csv");
  if (table.empty() || testing::data_path("gavel/simulation_throughputs.json").empty()) {
    GTEST_SKIP() << testing::data_hint("pop and gavel");
  }
  const auto problem = pop_problem(32, true);
  ASSERT_TRUE(problem.ok()) << problem.status();
  const auto exact = max_min_shares(*problem);
  ASSERT_TRUE(exact.ok()) << exact.status();
  const std::vector<std::vector<std::string>> rows = csv(table);
  ASSERT_EQ(rows.size(), 32U);
  const int groups_of_column[] = {2, 4, 8};
  for (size_t c = 0; c < 3; ++c) {
    SCOPED_TRACE(fmt::format("k = {}", groups_of_column[c]));
    const auto parts = pop_shares(*problem, {.groups = groups_of_column[c]}, max_min_shares);
    ASSERT_TRUE(parts.ok()) << parts.status();
    double theirs = kNever;
    double theirs_exact = kNever;
    const std::vector<double> scale = normalisers(*problem);
    for (size_t m = 0; m < rows.size(); ++m) {
      theirs = std::min(theirs, std::stod(rows[m][3 + c]) * scale[m]);
      theirs_exact = std::min(theirs_exact, std::stod(rows[m][2]) * scale[m]);
    }
    EXPECT_NEAR(parts->shares.objective / exact->objective, theirs / theirs_exact, 1e-3);
  }
}

TEST(Pop, TwoThousandJobsWithoutPairs) {
  if (testing::data_path("pop/lp_2048_jobs_throughputs.csv").empty() ||
      testing::data_path("gavel/simulation_throughputs.json").empty()) {
    GTEST_SKIP() << testing::data_hint("pop and gavel");
  }
  const auto problem = pop_problem(2048, false);
  ASSERT_TRUE(problem.ok()) << problem.status();
  const auto exact = max_min_shares(*problem);
  ASSERT_TRUE(exact.ok()) << exact.status();
  expect_allowed(*problem, *exact);
  const auto parts = pop_shares(*problem, {.groups = 8}, max_min_shares);
  ASSERT_TRUE(parts.ok()) << parts.status();
  expect_allowed(*problem, parts->shares);
  EXPECT_GT(parts->shares.objective, 0.97 * exact->objective);
  EXPECT_LE(parts->shares.objective, exact->objective * (1 + 1e-6));
}

}  // namespace
}  // namespace scalai::policy
