// `scalai exec bench` as a user runs it: workers are processes, the report is JSON, nothing stays behind.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tests/end_to_end.h"

namespace scalai::testing {
namespace {

using ::testing::HasSubstr;

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

TEST_F(ExecBench, ATableHasARowACaseAndYardstick) {
  const Outcome run = bench(fmt::format(
      "--cases=row-column,redeploy --devices=2 --bytes=64KiB --scale-model=1/64 --repetitions=1 --alltoallw=/none "
      "--out='{}'",
      path("logs")));
  ASSERT_EQ(run.code, 0) << run.err;
  EXPECT_EQ(std::count(run.out.begin(), run.out.end(), '\n'), 4) << run.out;
  EXPECT_THAT(run.out, HasSubstr("\nrow-column "));
  EXPECT_THAT(run.out, HasSubstr("\nredeploy "));
  EXPECT_TRUE(fs::exists(folder_ / "logs/worker-1.log"));
}

TEST_F(ExecBench, AYardstickThatFailsIsNamedAndLeftOut) {
  write_all(path("broken"), "#!/bin/sh\necho no network here\nexit 3\n");
  fs::permissions(path("broken"), fs::perms::owner_all);
  write_all(path("mpirun"), "#!/bin/sh\nwhile [ $# -gt 0 ] && [ ! -x \"$1\" ]; do shift; done\nexec \"$@\"\n");
  fs::permissions(path("mpirun"), fs::perms::owner_all);
  const Outcome run = shell(fmt::format(
      "PATH='{0}':\"$PATH\" '{1}/scalai' exec bench --cases=row-column --devices=2 --bytes=64KiB --repetitions=1 "
      "--alltoallw='{0}/broken'",
      folder_.string(), kPrograms.string()));
  ASSERT_EQ(run.code, 0) << run.err;
  EXPECT_THAT(run.err, HasSubstr("MPI_Alltoallw"));
  EXPECT_THAT(run.err, HasSubstr("exit code 3; it printed: no network here"));
  EXPECT_THAT(run.out, HasSubstr("memcpy"));
  EXPECT_THAT(run.out, ::testing::Not(HasSubstr("MPI_Alltoallw")));
}

TEST_F(ExecBench, ABadCommandLineIsTwo) {
  const auto expect_two = [&](const std::string& words, const std::string& part) {
    const Outcome run = bench(words);
    EXPECT_EQ(run.code, 2) << words;
    EXPECT_EQ(run.out, "");
    EXPECT_THAT(run.err, HasSubstr(part));
  };
  expect_two("--cases=rows", "rows");
  expect_two("--devices=3", "3 devices: take a power of two");
  expect_two("--devices=two", "\"two\" is not a number");
  expect_two("--bytes=16B --cases=row-column --devices=8", "too few");
  expect_two("--repetitions=0", "--repetitions is 1 to 10000");
  expect_two("--scale-model=2", "not a part of the whole");
  EXPECT_TRUE(left_nothing());
}

}  // namespace
}  // namespace scalai::testing
