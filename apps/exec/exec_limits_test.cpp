#include "apps/exec/exec_limits.h"

#include <gmock/gmock.h>
#include <sys/resource.h>

#include "ptc/run/control/testing/control_fixture.h"

namespace scalai::apps {
namespace {

using control::testing::job_text;
using control::testing::kSmallCluster;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

scenario::Scenario scenario_with(const std::string& more) {
  return control::testing::scenario_of(std::string(kSmallCluster) + "until: \"1s\"\n" +
                                       job_text("a",
                                                "gpus: 2 configs { layout: \"tp2\" } configs { layout: "
                                                "\"tp2,dp2\" } " +
                                                    more))
      .value();
}

TEST(ExecLimits, TheLargestConfigurationCountsTwiceAndCopiesCountToo) {
  const Needs plain = needs_of(scenario_with(""), false);
  EXPECT_GT(plain.memory, 2 * 2 * 1'000'000) << "two replicas of some megabytes, old and new";
  EXPECT_EQ(plain.disk, 0);
  const Needs saved = needs_of(scenario_with("checkpoint { every_steps: 5 host_memory_copy: true }"), false);
  EXPECT_EQ(saved.memory, 2 * plain.memory);
  EXPECT_EQ(saved.disk, plain.memory);
  EXPECT_EQ(saved.open_files, 2 * (8 + 4) + 64);
}

TEST(ExecLimits, AJobThatChoosesMayGrowByItsResizes) {
  const auto choosing = [](const std::string& more) {
    return control::testing::scenario_of(std::string(kSmallCluster) + "until: \"1h\"\n" +
                                         job_text("a", "gpus: 2 parallel: choose search { pins: \"tp2,pp1,cp1\" } ") +
                                         more)
        .value();
  };
  const Needs small = needs_of(choosing(""), false);
  EXPECT_GT(small.memory, 1'000'000);
  EXPECT_EQ(needs_of(choosing("events { at: \"1s\" resize { gpus: 8 } }"), false).memory, 4 * small.memory);
}

TEST(ExecLimits, EveryShortageIsALineOfItsOwn) {
  const Needs needs{.memory = 3'000'000'000, .disk = 2'000'000'000, .open_files = 500, .locked_memory = true};
  EXPECT_THAT(shortages(needs, {.memory = 4'000'000'000, .disk = 4'000'000'000, .open_files = 500}, "out"), IsEmpty());
  EXPECT_THAT(shortages(needs, {.memory = 1, .disk = 1'000'000, .open_files = 499, .locked_memory = false}, "out"),
              ElementsAre(HasSubstr("need up to 3.00 GB of memory, this machine has 1 B left"),
                          HasSubstr("need up to 2.00 GB of disk, out has 1.00 MB left"),
                          HasSubstr("opens up to 500 files, the limit is 499"), HasSubstr("ulimit -l")));
}

TEST(ExecLimits, OpenFilesAreRaisedAsFarAsTheyMayBe) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit few = before;
  few.rlim_cur = 128;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  const Limits limits = limits_of("/");
  rlimit now{};
  getrlimit(RLIMIT_NOFILE, &now);
  EXPECT_EQ(now.rlim_cur, before.rlim_max);
  EXPECT_GT(limits.disk, 0);
  EXPECT_GT(limits.memory, 0);
  setrlimit(RLIMIT_NOFILE, &before);
}

}  // namespace
}  // namespace scalai::apps
