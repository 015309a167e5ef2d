// `scalai exec bench` as a user runs it: workers are processes, the report is JSON, nothing stays behind.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tests/end_to_end.h"

namespace scalai::testing {
namespace {

class ExecBench : public EndToEnd {
 protected:
  void SetUp() override {
    EndToEnd::SetUp();
    fs::create_directory(folder_ / "tmp");
  }
  // Its temporary folders lie in "tmp".
  Outcome bench(const std::string& words) const {
    return shell(fmt::format("TMPDIR='{}' '{}/scalai' exec bench {}", path("tmp"), kPrograms.string(), words));
  }
  bool left_nothing() const { return fs::is_empty(folder_ / "tmp"); }
};

TEST_F(ExecBench, MeasuresAndVerifies) {
  const Outcome run = bench("--cases=row-column --devices=2 --bytes=4MiB --repetitions=2 --format=json");
  ASSERT_EQ(run.code, 0) << run.err;
  const nlohmann::json list = nlohmann::json::parse(run.out).at("measurements");
  ASSERT_EQ(list.size(), 1u);
  const nlohmann::json& one = list[0];
  EXPECT_EQ(one.at("case"), "row-column");
  EXPECT_EQ(one.at("devices"), 2);
  EXPECT_EQ(one.at("state_bytes"), 4 << 20);
  EXPECT_EQ(one.at("moved_bytes"), 2 << 20);
  EXPECT_EQ(one.at("busiest_bytes"), 1 << 20);
  EXPECT_EQ(one.at("errors"), 0);
  EXPECT_EQ(one.at("seconds_each").size(), 2u);
  for (const char* name : {"seconds", "first_s", "prepare_s", "algorithm_bytes_per_s", "bus_bytes_per_s"})
    EXPECT_GT(one.at(name).get<double>(), 0) << name;
  EXPECT_EQ(one.at("yardsticks").at(0).at("name"), "memcpy");
  for (const nlohmann::json& yardstick : one.at("yardsticks")) {
    EXPECT_GT(yardstick.at("seconds").get<double>(), 0) << yardstick;
    EXPECT_GT(yardstick.at("ratio").get<double>(), 0) << yardstick;
  }
  EXPECT_TRUE(left_nothing());
}

}  // namespace
}  // namespace scalai::testing
