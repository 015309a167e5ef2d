// Rates, times and counts that no cluster and no training has: each is refused with its place, none is computed with.

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "ptc/base/status.h"
#include "ptc/run/scenario/scenario.h"

namespace scalai::scenario {
namespace ranges_test {

using ::testing::HasSubstr;
using ::testing::StartsWith;

struct Given {
  std::string nic = "10Gbps", cluster = "", job = "", step = "1s", event = "", until = "100s";
};

std::string problems_of(const Given& given) {
  const std::string text = fmt::format(
      "schema_version: 1\nname: \"s\"\nuntil: \"{}\"\n"
      "cluster {{ hosts {{ count: 2 gpus: 2 gpu: \"t4-16g\"\n nic: \"{}\" }} storage {{ read: \"1GB/s\" }} {} }}\n"
      "jobs {{ name: \"j\" model: \"gpt3-125m\" global_batch: 8 gpus: 4 {} configs {{ layout: \"dp4\"\n step_time: "
      "\"{}\" }} }}\n{}",
      given.until, given.nic, given.cluster, given.job, given.step, given.event);
  const auto read = [](const std::string& path) -> absl::StatusOr<std::string> { return missing(path); };
  const absl::StatusOr<Scenario> scenario = parse_scenario(text, "s.textproto", read);
  EXPECT_TRUE(scenario.ok() || exit_code_of(scenario.status()) == 3) << scenario.status();
  return scenario.ok() ? "" : message_of(scenario.status());
}

TEST(Ranges, NothingIsSaidOfSensibleNumbers) { EXPECT_EQ(problems_of({}), ""); }

TEST(Ranges, RatesThatNoLinkHas) {
  EXPECT_THAT(problems_of({.nic = "1e-320Gbps"}),
              StartsWith("s.textproto:5:7: error: \"1e-320Gbps\" is not a bandwidth: it is out of range"));
  EXPECT_THAT(problems_of({.nic = "1e300GB/s"}), StartsWith("s.textproto:5:7: error: "));
  EXPECT_THAT(problems_of({.cluster = "fabric { kind: STAR oversubscription: 1e-320 }"}),
              HasSubstr("oversubscription"));
  EXPECT_THAT(problems_of({.cluster = "gpu_kinds { name: \"t4-16g\" peak_tflops: 1e-320 }"}), HasSubstr("peak_tflops"));
  EXPECT_THAT(problems_of({.cluster = "gpu_kinds { name: \"t4-16g\" link_efficiency: 1e-300 }"}),
              HasSubstr("link_efficiency"));
  EXPECT_THAT(problems_of({.event = "events { at: \"1s\" degrade { devices: 0 factor: 1e-320 } }"}),
              HasSubstr("\"factor\" must be at least 1e-06"));
}

TEST(Ranges, TimesThatNoClockTells) {
  EXPECT_THAT(problems_of({.step = "1ns"}), StartsWith("s.textproto:7:13: error: a step takes at least 1.00 us"));
  EXPECT_THAT(problems_of({.step = "1e-320s"}), StartsWith("s.textproto:7:13: error: "));
  EXPECT_EQ(problems_of({.step = "1us"}), "");
  EXPECT_THAT(problems_of({.event = "events { at: \"1e-320s\" fail { hosts: 0 } }"}), HasSubstr("out of range"));
  EXPECT_THAT(problems_of({.event = "costs { detect: \"1e300s\" }"}), HasSubstr("out of range"));
}

TEST(Ranges, MoreCopiesThanAnybodyKeepsTrackOf) {
  EXPECT_THAT(problems_of({.job = "checkpoint { every_steps: 1 }", .step = "1us"}),
              HasSubstr("job \"j\" would make 1e+08 checkpoints, one every 1 step; at most 5000000"));
  EXPECT_THAT(problems_of({.job = "redundancy { copies: 1 }", .step = "1us"}), HasSubstr("1e+08 copies"));
  EXPECT_THAT(
      problems_of({.job = "steps: 100000000000 checkpoint { every_steps: 10 }", .step = "1s", .until = "1e10s"}),
      HasSubstr("1e+09 checkpoints, one every 10 steps"));
  EXPECT_EQ(problems_of({.job = "checkpoint { every_steps: 100 }", .step = "1us"}), "");
  EXPECT_EQ(problems_of({.job = "steps: 1000 checkpoint { every_steps: 1 }", .step = "1us"}), "");
  EXPECT_EQ(problems_of({.job = "redundancy { copies: 0 }", .step = "1us"}), "");
}

}  // namespace ranges_test
}  // namespace scalai::scenario
