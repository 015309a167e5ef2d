#include "ptc/run/policy/policies/shares/program.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string_view>
#include <utility>
#include <vector>

#include "ptc/base/random.h"

namespace scalai::policy {
namespace {

using Sense = Program::Sense;

TEST(Program, SmallLinearProgram) {
  Program program;  // max 3x + 2y, x + y <= 4, x + 3y <= 9, x <= 3: (3, 1), 11
  const int x = program.column({3, 0, 3});
  const int y = program.column({2});
  const std::vector<Term> sum = {{x, 1}, {y, 1}};
  const std::vector<Term> weighted = {{x, 1}, {y, 1}, {y, 2}};  // y twice: 3y
  program.at_most(sum, 4);
  program.at_most(weighted, 9);
  const auto solution = program.solve();
  ASSERT_TRUE(solution.ok()) << solution.status();
  EXPECT_NEAR(solution->objective, 11, 1e-9);
  EXPECT_NEAR(solution->values[0], 3, 1e-9);
  EXPECT_NEAR(solution->values[1], 1, 1e-9);
  EXPECT_NEAR(solution->row_duals[0], 2, 1e-9);
  EXPECT_NEAR(solution->row_duals[1], 0, 1e-9);
  EXPECT_NEAR(solution->reduced_costs[0], 1, 1e-9);
}

TEST(Program, InfeasibleAndUnbounded) {
  Program program;
  const std::vector<Term> x = {{program.column({1}), 1}};
  EXPECT_TRUE(absl::IsOutOfRange(program.solve().status())) << program.solve().status();
  program.at_most(x, 1);
  program.at_least(x, 2);
  EXPECT_TRUE(infeasible(program.solve().status())) << program.solve().status();

  Program integer(Sense::kMinimise);
  const std::vector<Term> both = {{integer.binary(1), 2}, {integer.binary(1), 2}};
  integer.equal(both, 3);
  EXPECT_TRUE(infeasible(integer.solve().status())) << integer.solve().status();
}

// Optimal if and only if primal feasible, dual feasible and complementary: checked on the vertex CLP returns.
void expect_optimal(const Program& program, const std::vector<std::vector<double>>& rows,
                    const std::vector<double>& bounds, const std::vector<double>& objective) {
  const auto solution = program.solve();
  ASSERT_TRUE(solution.ok()) << solution.status();
  double dual_objective = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    double sum = 0;
    for (size_t j = 0; j < objective.size(); ++j) sum += rows[i][j] * solution->values[j];
    EXPECT_LE(sum, bounds[i] + 1e-7);
    EXPECT_GE(solution->row_duals[i], -1e-7);
    EXPECT_NEAR(solution->row_duals[i] * (bounds[i] - sum), 0, 1e-6);
    dual_objective += solution->row_duals[i] * bounds[i];
  }
  for (size_t j = 0; j < objective.size(); ++j) {
    double price = 0;
    for (size_t i = 0; i < rows.size(); ++i) price += solution->row_duals[i] * rows[i][j];
    EXPECT_GE(solution->values[j], -1e-9);
    EXPECT_GE(price, objective[j] - 1e-7);
  }
  EXPECT_NEAR(solution->objective, dual_objective, 1e-6);
}

TEST(Program, RandomLinearProgramsAreOptimalByDuality) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Random random(seed);
    const auto columns = static_cast<size_t>(random.between(1, 12));
    const auto rows = static_cast<size_t>(random.between(1, 10));
    Program program;
    std::vector<double> objective(columns);
    for (double& value : objective) {
      value = random.uniform() * 4 - 1;
      program.column({value});
    }
    std::vector<std::vector<double>> matrix(rows, std::vector<double>(columns));
    std::vector<double> bounds(rows);
    for (size_t i = 0; i < rows; ++i) {
      std::vector<Term> terms;
      for (size_t j = 0; j < columns; ++j) {
        matrix[i][j] = 0.05 + random.uniform();
        terms.push_back({static_cast<int>(j), matrix[i][j]});
      }
      bounds[i] = random.uniform() * 10;
      program.at_most(terms, bounds[i]);
    }
    expect_optimal(program, matrix, bounds, objective);
  }
}

TEST(Program, WarmStartFindsTheSameOptimum) {
  Random random(7);
  Program program;
  std::vector<Term> terms;
  for (int j = 0; j < 40; ++j) terms.push_back({program.column({random.uniform(), 0, 1}), 0.1 + random.uniform()});
  const int row = program.at_most(terms, 6);
  const auto cold = program.solve();
  ASSERT_TRUE(cold.ok());
  program.set_row_bounds(row, -kUnbounded, 6.05);
  const auto warm = program.solve(&cold->basis);
  const auto again = program.solve();
  ASSERT_TRUE(warm.ok() && again.ok());
  EXPECT_NEAR(warm->objective, again->objective, 1e-9);
  EXPECT_LE(warm->effort.pivots, again->effort.pivots);
  const Basis other = {{1}, {}};  // of another program: ignored
  EXPECT_TRUE(program.solve(&other).ok());
}

// Multiple choice under several knapsacks, as Sia's: against trying everything.
TEST(Program, IntegerProgramsAgainstEnumeration) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Random random(seed);
    const auto jobs = static_cast<size_t>(random.between(1, 6));
    constexpr size_t kChoices = 3;
    const bool maximise = random.below(2) == 0;
    Program program(maximise ? Sense::kMaximise : Sense::kMinimise);
    std::vector<double> gain(jobs * kChoices);
    std::vector<double> weight(jobs * kChoices);
    std::vector<Term> knapsack;
    for (size_t m = 0; m < jobs; ++m) {
      std::vector<Term> one;
      for (size_t c = 0; c < kChoices; ++c) {
        gain[m * kChoices + c] = std::round(random.uniform() * 100) / 100 - (maximise ? 0 : 0.7);
        weight[m * kChoices + c] = static_cast<double>(random.between(1, 8));
        const int column = program.binary(gain[m * kChoices + c]);
        one.push_back({column, 1});
        knapsack.push_back({column, weight[m * kChoices + c]});
      }
      program.at_most(one, 1);
    }
    const auto capacity = static_cast<double>(random.between(1, 14));
    program.at_most(knapsack, capacity);

    double best = 0;
    auto states = static_cast<size_t>(std::pow(kChoices + 1, jobs));
    for (size_t state = 0; state < states; ++state) {
      double total = 0;
      double load = 0;
      size_t rest = state;
      for (size_t m = 0; m < jobs; ++m, rest /= kChoices + 1) {
        if (const size_t choice = rest % (kChoices + 1); choice < kChoices) {
          total += gain[m * kChoices + choice];
          load += weight[m * kChoices + choice];
        }
      }
      if (load <= capacity) best = maximise ? std::max(best, total) : std::min(best, total);
    }
    const auto solution = program.solve();
    ASSERT_TRUE(solution.ok()) << solution.status();
    EXPECT_NEAR(solution->objective, best, 1e-7);
    const auto again = program.solve();
    EXPECT_EQ(solution->values, again->values);
  }
}

// Max-min of jobs on 8, 16 and 24 GPUs of three types. With its own matrix, Debian's CLP fails an assertion on this
// program (`elValue`: a number of 5e-324 times an element is 0). A letter is the kind of a job.
struct Kind {
  double rates[3];  // by type; 0: it cannot run there
  int gpus;
};
constexpr Kind kKinds[] = {{{4.65951760769172, 2.4439926387334547, 0.8174990382804572}, 2},
                           {{8.43746442976539, 5.222807742215509, 1.705640028601197}, 4},
                           {{3.4538443945317288, 3.4886946387046534, 0.5229221093529881}, 2},
                           {{7.13456794094693, 7.121010074361754, 0.87447063677652}, 4},
                           {{3.8611589323317648, 3.459057580734252, 0.40690863539990996}, 2},
                           {{9.244709566086183, 5.9935856690806775, 0.9227063652508212}, 4},
                           {{4.791735410749232, 2.420998694460416, 0.7887557334433122}, 2},
                           {{5.776846049104184, 6.3592217606239085, 1.8349034765493337}, 4},
                           {{6.062512258585606, 6.647926080013017, 1.5472118604627865}, 4},
                           {{7.2684077336920225, 5.756198093427793, 1.7397320264841303}, 4},
                           {{5.075326781133152, 3.4623366094334234, 0}, 2},
                           {{7.673704036995221, 5.6414218193626855, 1.6811507747598045}, 4},
                           {{4.592248438320105, 2.517107813343874, 0.791178644997383}, 2},
                           {{2.3087414396146224, 1.497963379793754, 0.2317772669326233}, 1},
                           {{1.7943138387339328, 1.4186526368514556, 0.4561269625210521}, 1},
                           {{3.0597444939006975, 3.1192964793918874, 0.9005541824385094}, 2},
                           {{2.175913935091732, 1.6314268384361508, 0.18707746267865555}, 1},
                           {{1.9098768041404701, 1.4308900713681607, 0.40944768437440254}, 1},
                           {{1.5130509523507878, 1.5913582197329823, 0.43474420272774933}, 1},
                           {{2.2947621438874757, 1.3677741124934029, 0.3232298770419066}, 1},
                           {{2.2476821693671183, 1.2684899875381657, 0.40511261851885}, 1}};
constexpr std::string_view kJobs =
    "abcdefffghijhggjdddieklfhabcdefffghijhggjddgcdieklfhabcdefmffghijhggjddgcdineklfhnabcdefmloffghijhgg"
    "jdcdgcdineklfhnabcdefomloffghijmhggjdcdgcdineklfnhnabcdefpomlooffghijmhggjdcdgcdionekqlfnhnabcdnefpo"
    "mqloooffghijmhggjdcdgcdionekqlfnnhnoabqqcdnefpomqloooffghijmhggjdcdgcdniroonekqlfnnhnoabqqcdnefsponm"
    "qloqotofoekqofrnhnorabqqefpqou";

// Each entry stands for `count` equal jobs with equal shares.
Program max_min(const std::vector<std::pair<const Kind*, double>>& jobs) {
  Program program;
  std::vector<std::vector<Term>> times, rates, used(3);
  for (const auto& [kind, count] : jobs) {
    std::vector<Term>& time = times.emplace_back();
    std::vector<Term>& rate = rates.emplace_back();
    for (size_t type = 0; type < 3; ++type) {
      if (kind->rates[type] == 0) continue;
      const int column = program.column({});
      time.push_back({column, 1});
      rate.push_back({column, kind->rates[type]});
      used[type].push_back({column, kind->gpus * count});
    }
  }
  const int least = program.column({1});
  for (const std::vector<Term>& terms : times) program.at_most(terms, 1);
  for (size_t type = 0; type < 3; ++type) program.at_most(used[type], 8.0 * static_cast<double>(type + 1));
  for (std::vector<Term>& terms : rates) {
    terms.push_back({least, -1});
    program.at_least(terms, 0);
  }
  return program;
}

TEST(Program, NumbersThatUnderflowDoNotEndTheProcess) {
  std::vector<std::pair<const Kind*, double>> each, by_kind;
  for (const Kind& kind : kKinds) by_kind.emplace_back(&kind, 0);
  for (const char letter : kJobs) {
    each.emplace_back(&kKinds[letter - 'a'], 1);
    ++by_kind[static_cast<size_t>(letter - 'a')].second;
  }
  const Program program = max_min(each);
  const auto solution = program.solve();
  const auto again = program.solve();
  const auto of_kinds = max_min(by_kind).solve();
  ASSERT_TRUE(solution.ok() && again.ok() && of_kinds.ok()) << solution.status();
  EXPECT_NEAR(solution->objective, of_kinds->objective, 1e-7);
  EXPECT_EQ(solution->effort.retries, 0);
  EXPECT_EQ(solution->values, again->values);
}

TEST(Program, ProgramWithoutColumnsIsRefused) { EXPECT_TRUE(absl::IsInvalidArgument(Program().solve().status())); }

}  // namespace
}  // namespace scalai::policy
