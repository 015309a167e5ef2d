#include "labs/validation/policies/validation.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <set>

#include "gtest/gtest.h"
#include "ptc/run/policy/testing/support.h"

namespace scalai::policy::validation {
namespace {

TEST(Validation, ErrorsAndVerdicts) {
  ReferenceRow row;
  row.reference = 200;
  row.ours = 201;
  row.tolerance = 0.005;
  EXPECT_DOUBLE_EQ(error_of(row), 0.005);
  EXPECT_TRUE(within_tolerance(row));
  row.ours = 198.9;
  EXPECT_FALSE(within_tolerance(row));
  row.reference = 0;
  EXPECT_TRUE(std::isinf(error_of(row)));
  row.ours = 0;
  EXPECT_TRUE(within_tolerance(row));
  row.ours = std::nan("");
  row.reference = 1;
  EXPECT_FALSE(within_tolerance(row));
}

TEST(Validation, PoliciesWithoutARow) {
  const std::vector<std::string> all = policies_without({});
  EXPECT_NE(std::find(all.begin(), all.end(), "fifo"), all.end());
  EXPECT_NE(std::find(all.begin(), all.end(), "checkpoint-restart"), all.end());
  ReferenceRow row;
  row.policy = "fifo";
  EXPECT_EQ(policies_without(std::span(&row, 1)).size(), all.size() - 1);
}

TEST(Validation, SetsByName) {
  EXPECT_EQ(sets_named({})->size(), reference_sets().size());
  const std::vector<std::string> some = {"g12", "G7"};
  const auto chosen = sets_named(some);
  ASSERT_TRUE(chosen.ok());
  ASSERT_EQ(chosen->size(), 2u);
  EXPECT_EQ(chosen->front().name, "G7");  // in their own order
  const std::vector<std::string> wrong = {"G7", "G77"};
  EXPECT_NE(sets_named(wrong).status().ToString().find("\"G77\""), std::string::npos);
}

TEST(Validation, EverySetSaysWhereItsDataComesFrom) {
  std::set<std::string> names;
  for (const ReferenceSet& set : reference_sets()) {
    EXPECT_TRUE(names.insert(set.name).second);
    EXPECT_FALSE(set.summary.empty()) << set.name;
    EXPECT_NE(set.source.find('/'), std::string::npos) << set.name;
  }
  for (const char* name : {"G1", "G2", "G4", "G7", "G9", "G11", "G12", "G16", "G18"}) EXPECT_EQ(names.count(name), 1u);
}

TEST(Validation, MissingDataIsNotFound) {
  for (const ReferenceSet& set : reference_sets()) {
    if (set.name.starts_with("small-")) continue;  // need none
    EXPECT_EQ(set.run("/no/such/folder").status().code(), absl::StatusCode::kNotFound) << set.name;
    EXPECT_EQ(set.run("").status().code(), absl::StatusCode::kNotFound) << set.name;
  }
}

TEST(Validation, FolderOfData) {
  EXPECT_EQ(data_folder("/here"), "/here");
  ::setenv("SCALAI_DATA", "/there", 1);
  EXPECT_EQ(data_folder(""), "/there");
  ::unsetenv("SCALAI_DATA");
}

// Of a set, run once.
const absl::StatusOr<std::vector<ReferenceRow>>& rows_of(const std::string& name) {
  static auto* const known = new std::map<std::string, absl::StatusOr<std::vector<ReferenceRow>>>();
  const auto found = known->find(name);
  if (found != known->end()) return found->second;
  const std::vector<std::string> names = {name};
  return known->emplace(name, sets_named(names)->front().run(policy::testing::data_path(""))).first->second;
}

// All rows within their tolerance. G4 takes a genetic search of minutes; the tests of goodput/ look at its parts.
class Reproduced : public ::testing::TestWithParam<std::string> {};

// Or known not to be; what is reproduced after all is told no more.
TEST_P(Reproduced, WithinTolerance) {
  const auto& rows = rows_of(GetParam());
  if (rows.status().code() == absl::StatusCode::kNotFound) GTEST_SKIP() << rows.status().ToString();
  ASSERT_TRUE(rows.ok()) << rows.status().ToString();
  EXPECT_FALSE(rows->empty());
  for (const ReferenceRow& row : *rows) {
    EXPECT_EQ(row.set, GetParam());
    EXPECT_EQ(within_tolerance(row), row.not_reproduced.empty())
        << row.name << ": " << row.ours << ", reference " << row.reference;
  }
}

INSTANTIATE_TEST_SUITE_P(Sets, Reproduced,
                         ::testing::Values("G1", "G2", "G7", "G9", "G11", "G12", "G16", "G18", "Parcae", "small-orders",
                                           "small-shares", "small-deadlines", "small-markets"));

TEST(Validation, EveryPolicyHasARow) {
  std::vector<ReferenceRow> rows;
  for (const ReferenceSet& set : reference_sets()) {
    if (set.name == "G4") {  // minutes long
      for (const char* policy : {"pollux", "optimus", "tiresias"}) rows.push_back({.policy = policy});
      continue;
    }
    const auto& more = rows_of(set.name);
    if (more.status().code() == absl::StatusCode::kNotFound) GTEST_SKIP() << more.status().ToString();
    rows.insert(rows.end(), more->begin(), more->end());
  }
  EXPECT_EQ(policies_without(rows), std::vector<std::string>{});
}

}  // namespace
}  // namespace scalai::policy::validation
