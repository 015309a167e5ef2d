#include "apps/common/sim_workers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "ptc/base/status.h"

namespace scalai::apps {
namespace {

std::map<size_t, SimResult> run_all(const std::vector<std::string>& scripts, size_t at_once) {
  std::vector<std::vector<std::string>> runs;
  for (const std::string& script : scripts) runs.push_back({"-c", script});
  std::map<size_t, SimResult> results;
  const absl::Status status = run_processes("/bin/sh", runs, at_once, [&](size_t run, const SimResult& result) {
    EXPECT_TRUE(results.emplace(run, result).second) << run;
    return absl::OkStatus();
  });
  EXPECT_EQ(status, absl::OkStatus());
  return results;
}

TEST(Workers, EachTellsItsOwn) {
  for (const size_t at_once : {1u, 3u, 20u}) {
    const auto results = run_all({"echo one; exit 3", "echo two >&2; echo three >&2; echo out", "kill -9 $$",
                                  "head -c 300000 /dev/zero | tr '\\0' x"},
                                 at_once);
    ASSERT_EQ(results.size(), 4u);
    EXPECT_EQ(results.at(0).exit_code, 3);
    EXPECT_EQ(results.at(0).out, "one\n");
    EXPECT_EQ(results.at(1).error, "three");
    EXPECT_EQ(results.at(1).out, "out\n");
    EXPECT_EQ(results.at(2).exit_code, 70);
    EXPECT_EQ(results.at(3).out.size(), 300000u);
  }
}

TEST(Workers, TheFirstErrorIsTold) {
  const auto results =
      run_all({"printf 'policy: error: x\\nf:1:2: error: no jobs\\nhint: more\\n1 error\\n' >&2; exit 3"}, 1);
  EXPECT_EQ(results.at(0).error, "f:1:2: error: no jobs");
}

TEST(Workers, TheSecondOfTwoMayEndFirst) {
  std::vector<size_t> order;
  const absl::Status status =
      run_processes("/bin/sh", {{"-c", "sleep 0.5"}, {"-c", "true"}}, 2, [&](size_t run, const SimResult&) {
        order.push_back(run);
        return absl::OkStatus();
      });
  EXPECT_EQ(status, absl::OkStatus());
  EXPECT_EQ(order, (std::vector<size_t>{1, 0}));
}

TEST(Workers, AnErrorEndsIt) {
  int told = 0;
  const absl::Status status =
      run_processes("/bin/sh", {{"-c", "true"}, {"-c", "true"}, {"-c", "true"}}, 1, [&](size_t, const SimResult&) {
        ++told;
        return failed("full");
      });
  EXPECT_EQ(message_of(status), "full");
  EXPECT_EQ(told, 1);
  EXPECT_FALSE(
      run_processes("/no/such/program", {{}}, 1, [](size_t, const SimResult&) { return absl::OkStatus(); }).ok());
}

}  // namespace
}  // namespace scalai::apps
