#include "ptc/run/policy/policies/goodput/kept_answers.h"

#include <gtest/gtest.h>

namespace scalai::policy {
namespace kept_answers_test {

TEST(KeptAnswers, AllocationsComeBackWithTheRandomNumbers) {
  const FoundAllocation found{.front = {{0, 3, 0, 255, 0, 0}, {0, 0, 0, 0, 0, 0}},
                              .means = {1.0 / 3, -0.0},
                              .utilisations = {0.5, 1e-310},
                              .best = 1};
  Random random(7), other(8);
  const std::string bytes = bytes_of(found, random);
  const auto back = allocation_of(bytes, 6, &other);
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->front, found.front);
  EXPECT_EQ(back->means, found.means);
  EXPECT_EQ(back->utilisations, found.utilisations);
  EXPECT_EQ(back->best, 1u);
  EXPECT_EQ(other.next(), random.next());
  for (size_t size = 0; size < bytes.size(); ++size)
    EXPECT_FALSE(allocation_of(bytes.substr(0, size), 6, &other).ok()) << size;
  EXPECT_FALSE(allocation_of(bytes + std::string(8, '\0'), 6, &other).ok());
  EXPECT_FALSE(allocation_of(bytes, 3, &other).ok()) << "a place outside";
}

TEST(KeptAnswers, ChoicesComeBack) {
  const std::vector<SiaJob> jobs = {{.choices = {{GpuType(0), 1, 1}, {GpuType(0), 2, 1.5}}}, {}, {.choices = {{}}}};
  const SiaSolution solution{.chosen = {1, -1, 0}, .found = false, .gap = 1.0 / 3};
  const std::string bytes = bytes_of(solution);
  const auto back = solution_of(bytes, jobs);
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->chosen, solution.chosen);
  EXPECT_EQ(back->found, false);
  EXPECT_EQ(back->gap, solution.gap);
  for (size_t size = 0; size < bytes.size(); ++size)
    EXPECT_FALSE(solution_of(bytes.substr(0, size), jobs).ok()) << size;
  EXPECT_FALSE(solution_of(bytes_of({.chosen = {2, -1, 0}}), jobs).ok()) << "no such choice";
  std::string far = bytes;
  far.replace(16, 8, "\xff\xff\xff\xff\xff\xff\xff\x7f");
  EXPECT_FALSE(solution_of(far, jobs).ok()) << "the last number there is";
}

TEST(KeptAnswers, TheDigestIsOfTheQuestion) {
  const AllocationProblem problem{
      .jobs = {{.least = 1, .most = 4, .changed = 1}}, .capacity = {4}, .type = {0}, .base = {2}, .speedup = {}};
  Random random(1);
  const std::string digest = digest_of(problem, random);
  const auto differs = [&](const auto& change) {
    AllocationProblem other = problem;
    change(other);
    return digest_of(other, random) != digest;
  };
  EXPECT_FALSE(differs([](AllocationProblem&) {}));
  EXPECT_TRUE(differs([](AllocationProblem& p) { p.jobs[0].least = 2; }));
  EXPECT_TRUE(differs([](AllocationProblem& p) { p.jobs[0].most = 2; }));
  EXPECT_TRUE(differs([](AllocationProblem& p) { p.jobs[0].changed = 0.5; }));
  EXPECT_TRUE(differs([](AllocationProblem& p) { p.capacity[0] = 2; }));
  EXPECT_TRUE(differs([](AllocationProblem& p) { p.type[0] = 2; }));
  EXPECT_TRUE(differs([](AllocationProblem& p) { p.base[0] = 3; }));
  EXPECT_TRUE(differs([](AllocationProblem& p) { p.exponent = -2; }));
  random.next();
  EXPECT_NE(digest_of(problem, random), digest);

  std::vector<SiaJob> jobs = {{.choices = {{GpuType(0), 1, 1}}}};
  const std::string other = digest_of(jobs, std::vector<int>{4});
  EXPECT_NE(digest_of(jobs, std::vector<int>{3}), other);
  jobs[0].choices[0].utility = 2;
  EXPECT_NE(digest_of(jobs, std::vector<int>{4}), other);
}

}  // namespace kept_answers_test
}  // namespace scalai::policy
