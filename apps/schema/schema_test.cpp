#include "apps/schema/schema.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

namespace scalai::apps {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;

TEST(Schema, TextHasFieldsTypesAndComments) {
  const std::string text = schema_text(SchemaOf::kScenario);
  EXPECT_THAT(text, AllOf(HasSubstr("\ncluster: Cluster\n"), HasSubstr("\n  hosts: list of HostGroup\n"),
                          HasSubstr("\n    count: integer\n"), HasSubstr("# the question, one sentence"),
                          HasSubstr("one of STAR, LEAF_SPINE, RAIL, FAT_TREE, DRAGONFLY")));
  EXPECT_THAT(schema_text(SchemaOf::kCluster), AllOf(HasSubstr("fabric: Fabric\n"), Not(HasSubstr("jobs:"))));
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80U) << line;
}

TEST(Schema, ProtoIsTheSource) {
  EXPECT_THAT(schema_proto(SchemaOf::kScenario), AllOf(HasSubstr("message Scenario {"), HasSubstr("message Fabric {")));
  EXPECT_THAT(schema_proto(SchemaOf::kCluster), Not(HasSubstr("message Scenario {")));
}

TEST(Schema, HelpIsFoundByPath) {
  const auto every = field_help("jobs[3].checkpoint.every_steps");
  ASSERT_TRUE(every.has_value());
  EXPECT_EQ(every->path, "jobs.checkpoint.every_steps");
  EXPECT_EQ(every->type, "integer");
  EXPECT_THAT(every->file, HasSubstr("ptc/proto/scenario.proto:"));
  EXPECT_THAT(field_help("jobs.checkpoint")->fields, Contains("every_steps"));
  EXPECT_THAT(field_help("")->fields, Contains("cluster"));
  EXPECT_FALSE(field_help("jobs.nothing").has_value());
  EXPECT_THAT(paths_of("leaf_hosts"), ::testing::ElementsAre("cluster.fabric.leaf_hosts"));
  EXPECT_THAT(paths_of("strategy"), Contains("costs.strategy"));
  EXPECT_EQ(paths_of("strategy").front(), "strategy");
}

}  // namespace
}  // namespace scalai::apps
