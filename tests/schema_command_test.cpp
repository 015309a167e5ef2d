// `scalai init`, `explain` and `schema` as their users run them.

#include "nlohmann/json.hpp"
#include "tests/end_to_end.h"

namespace schema_command_test {

using namespace scalai::testing;

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

class SchemaCommand : public EndToEnd {};

TEST_F(SchemaCommand, InitWritesWhatValidateTakes) {
  for (const std::string name : {"elastic", "failure", "spot", "many-jobs", "training"}) {
    const Outcome made = scalai(fmt::format("init '{}' --template={}", path(name + ".textproto"), name));
    ASSERT_EQ(made.code, 0) << made.err;
    EXPECT_TRUE(has(made.err, "next: scalai sim")) << made.err;
    const Outcome judged = scalai(fmt::format("validate '{}'", path(name + ".textproto")));
    EXPECT_EQ(judged.code, 0) << name << "\n" << judged.err;
  }
  EXPECT_EQ(scalai("init --template=spot").out, scalai("init - --template=spot").out);
}

TEST_F(SchemaCommand, InitWritesNothingElse) {
  write_all(path("mine.textproto"), "keep");
  const Outcome there = scalai(fmt::format("init '{}'", path("mine.textproto")));
  EXPECT_EQ(there.code, 2);
  EXPECT_TRUE(has(there.err, "exists; --force writes over it")) << there.err;
  EXPECT_EQ(scalai(fmt::format("init '{}' --force --model=llama3-405b --gpus=8", path("mine.textproto"))).code, 3)
      << "it fits no 8 GPUs";
  EXPECT_EQ(scalai(fmt::format("init '{}' --force --model=gpt9", path("mine.textproto"))).code, 3);
  EXPECT_EQ(scalai(fmt::format("init '{}' --force --gpus=1000000", path("mine.textproto"))).code, 2);
  EXPECT_EQ(scalai(fmt::format("init '{}' --force --gpu=abacus", path("mine.textproto"))).code, 2);
  EXPECT_EQ(scalai::testing::read_all(path("mine.textproto")), "keep");
  EXPECT_EQ(scalai(fmt::format("init '{}'", path("none/a.textproto"))).code, 4);
  EXPECT_EQ(scalai(fmt::format("init '{}' --force", path("mine.textproto"))).code, 0);
  EXPECT_TRUE(has(scalai::testing::read_all(path("mine.textproto")), "schema_version: 1"));
}

TEST_F(SchemaCommand, ExplainKnowsFieldsMetricsAndTerms) {
  EXPECT_TRUE(has(scalai("explain jobs.checkpoint").out, "field jobs.checkpoint: Checkpoint"));
  const auto json = nlohmann::json::parse(scalai("explain downtime_s --format=json").out);
  EXPECT_EQ(json.at(0).at("kind"), "metric");
  EXPECT_EQ(json.at(0).at("about"), "s");
  const Outcome unknown = scalai("explain chekpoint");
  EXPECT_EQ(unknown.code, 3);
  EXPECT_TRUE(has(unknown.err, "did you mean checkpoint")) << unknown.err;
}

TEST_F(SchemaCommand, SchemaHasThreeForms) {
  EXPECT_TRUE(has(scalai("schema").out, "cluster: Cluster\n"));
  EXPECT_TRUE(has(scalai("schema --format=proto").out, "message Scenario {"));
  EXPECT_EQ(nlohmann::json::parse(scalai("schema --of=cluster --format=json-schema").out).at("title"),
            "Scalai cluster");
  EXPECT_EQ(scalai("schema > /dev/full").code, 5);
}

}  // namespace schema_command_test
