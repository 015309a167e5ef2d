// `scalai doctor`: what it prints depends on the machine, its form and its exit codes do not.

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "tests/end_to_end.h"

namespace scalai::testing {
namespace {

using ::testing::HasSubstr;

class Doctor : public EndToEnd {};

TEST_F(Doctor, PrintsATableAndJson) {
  const Outcome table = scalai("doctor");
  EXPECT_EQ(table.code, 0) << table.err;
  EXPECT_EQ(table.err, "");
  for (const char* area : {"machine", "limits", "cuda", "nccl", "ucx", "fuse", "libraries"}) {
    EXPECT_THAT(table.out, HasSubstr(std::string("\n") + area + " "));
  }
  const Outcome json = scalai("exec doctor --format=json");
  EXPECT_EQ(json.code, 0) << json.err;
  EXPECT_GT(nlohmann::json::parse(json.out).at("findings").size(), 7u);
}

TEST_F(Doctor, ExitsWith4WhenWhatIsRequiredIsMissing) {
  const Outcome missing = scalai("doctor --nccl=/nowhere/libnccl.so.2 --require=nccl");
  EXPECT_EQ(missing.code, 4);
  EXPECT_THAT(missing.err, HasSubstr("required and missing: nccl: "));
  EXPECT_THAT(missing.out, HasSubstr("what follows"));  // the table is there all the same
  const Outcome unknown = scalai("doctor --require=simgrid");
  EXPECT_EQ(unknown.code, 2);
  EXPECT_EQ(unknown.out, "");
}

TEST_F(Doctor, IsExplainedLikeOtherCommands) {
  for (const char* words : {"doctor --help", "help doctor", "exec doctor --help"}) {
    const Outcome help = scalai(words);
    EXPECT_EQ(help.code, 0) << words;
    EXPECT_THAT(help.out, HasSubstr("Usage: scalai doctor")) << words;
  }
  EXPECT_THAT(scalai("man doctor").out, HasSubstr(".TH"));
  EXPECT_THAT(scalai("--help").out, HasSubstr("  doctor "));
}

}  // namespace
}  // namespace scalai::testing
