#include "ptc/run/policy/policies/shares/kept_shares.h"

#include <gtest/gtest.h>

#include <filesystem>

namespace scalai::policy {
namespace kept_shares_test {

const ShareProblem kProblem{
    .gpus = {4, 2}, .prices = {1, 1}, .jobs = {{.id = JobId(0)}, {.id = JobId(4)}, {.id = JobId(5)}}, .pairs = {{}}};
const Shares kShares{.alone = {{0.1, 1.0 / 3}, {1, 2}, {-0.0, 1e-310}},
                     .paired = {0.25},
                     .objective = 1.0 / 7,
                     .effort = {.programs = 3, .pivots = 41, .retries = 1},
                     .dropped = {JobId(4)}};

TEST(KeptShares, ComeBackAsTheyWere) {
  const std::string bytes = bytes_of(kShares);
  const auto back = shares_of(bytes, kProblem);
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(bytes_of(*back), bytes);
  EXPECT_EQ(back->alone, kShares.alone);
  EXPECT_TRUE(std::signbit(back->alone[2][0]));
  EXPECT_EQ(back->paired, kShares.paired);
  EXPECT_EQ(back->objective, kShares.objective);
  EXPECT_EQ(back->effort.pivots, 41);
  EXPECT_EQ(back->dropped, kShares.dropped);
  for (size_t size = 0; size < bytes.size(); ++size)
    EXPECT_FALSE(shares_of(bytes.substr(0, size), kProblem).ok()) << size;
  EXPECT_FALSE(shares_of(bytes + std::string(8, '\0'), kProblem).ok());
  EXPECT_FALSE(shares_of(std::string(8, '\x7f'), kProblem).ok()) << "more than there is room for";
}

// Rounds index by them.
TEST(KeptShares, AreOfTheProblemsJobs) {
  const auto accepted = [](const auto& change) {
    Shares shares = kShares;
    change(shares);
    return shares_of(bytes_of(shares), kProblem).ok();
  };
  EXPECT_TRUE(accepted([](Shares&) {}));
  EXPECT_FALSE(accepted([](Shares& shares) { shares.alone.pop_back(); }));
  EXPECT_FALSE(accepted([](Shares& shares) { shares.alone.emplace_back(2); }));
  EXPECT_FALSE(accepted([](Shares& shares) { shares.alone[1].pop_back(); }));
  EXPECT_FALSE(accepted([](Shares& shares) { shares.paired.clear(); }));
  EXPECT_FALSE(accepted([](Shares& shares) { shares.dropped = {JobId(3)}; }));
  std::string far = bytes_of(kShares);
  far[far.size() - 4] = 1;  // job 2^32 + 4
  EXPECT_FALSE(shares_of(far, kProblem).ok());
}

TEST(KeptShares, TheDigestIsOfAllThatASolverSees) {
  ShareProblem problem{.gpus = {4, 2}, .prices = {1, 2}, .jobs = {{.id = JobId(0), .rates = {1, 2}}}, .pairs = {{}}};
  const std::string digest = digest_of(problem);
  const auto differs = [&](const auto& change) {
    ShareProblem other = problem;
    change(other);
    return digest_of(other) != digest;
  };
  EXPECT_FALSE(differs([](ShareProblem&) {}));
  EXPECT_TRUE(differs([](ShareProblem& p) { p.gpus[1] = 3; }));
  EXPECT_TRUE(differs([](ShareProblem& p) { p.prices[0] = 3; }));
  EXPECT_TRUE(differs([](ShareProblem& p) { p.jobs[0].id = JobId(1); }));
  EXPECT_TRUE(differs([](ShareProblem& p) { p.jobs[0].gpus = 2; }));
  EXPECT_TRUE(differs([](ShareProblem& p) { p.jobs[0].weight = 2; }));
  EXPECT_TRUE(differs([](ShareProblem& p) { p.jobs[0].rates[0] = 2; }));
  EXPECT_TRUE(differs([](ShareProblem& p) { p.jobs[0].remaining = 2; }));
  EXPECT_TRUE(differs([](ShareProblem& p) { p.jobs[0].age_s = 2; }));
  EXPECT_TRUE(differs([](ShareProblem& p) { p.jobs[0].isolated_s = 2; }));
  EXPECT_TRUE(differs([](ShareProblem& p) { p.jobs[0].time_left_s = 2; }));
  EXPECT_TRUE(differs([](ShareProblem& p) { p.jobs[0].entity = "a"; }));
  EXPECT_TRUE(differs([](ShareProblem& p) { p.jobs[0].count = 2; }));
  EXPECT_TRUE(differs([](ShareProblem& p) { p.pairs[0].second = 1; }));
  EXPECT_TRUE(differs([](ShareProblem& p) { p.pairs[0].second_rate = 1; }));
}

TEST(KeptShares, ASolverIsAskedOnce) {
  std::string folder = (std::filesystem::temp_directory_path() / "scalai-shares-XXXXXX").string();
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  int asked = 0;
  const ShareSolver solver = [&](const ShareProblem&) -> absl::StatusOr<Shares> {
    ++asked;
    return kShares;
  };
  const ShareProblem& problem = kProblem;
  { EXPECT_TRUE(kept(solver, AnswerLog::create(folder + "/s", "x").value().get())(problem).ok()); }
  const auto log = AnswerLog::resume(folder + "/s", "x");
  ASSERT_TRUE(log.ok()) << log.status();
  const ShareSolver again = kept(solver, log->get());
  EXPECT_EQ(bytes_of(again(problem).value()), bytes_of(kShares));
  EXPECT_EQ(asked, 1);
  EXPECT_TRUE(again(problem).ok());
  EXPECT_EQ(asked, 2);
  std::filesystem::remove_all(folder);
}

}  // namespace kept_shares_test
}  // namespace scalai::policy
