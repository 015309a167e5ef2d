#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "apps/schema/schema.h"

namespace scalai::apps {
namespace {

using ::testing::SizeIs;

// Every reference leads somewhere, every object is closed, and what excludes each other is said.
TEST(JsonSchema, IsWhole) {
  for (const SchemaOf what : {SchemaOf::kScenario, SchemaOf::kCluster}) {
    const nlohmann::json schema = nlohmann::json::parse(json_schema(what));
    EXPECT_EQ(schema.at("$schema"), "https://json-schema.org/draft/2020-12/schema");
    const auto& known = schema.at("$defs");
    for (const auto& [name, definition] : known.items()) {
      EXPECT_EQ(definition.at("additionalProperties"), false) << name;
      for (const auto& [field, property] : definition.at("properties").items()) {
        const auto& value = property.contains("items") ? property.at("items") : property;
        if (!value.contains("$ref")) continue;
        const std::string target = value.at("$ref").get<std::string>().substr(8);
        EXPECT_TRUE(known.contains(target)) << name << "." << field << " -> " << target;
      }
    }
  }
  const nlohmann::json scenario = nlohmann::json::parse(json_schema(SchemaOf::kScenario));
  const auto& event = scenario.at("$defs").at("ScenarioEvent");
  EXPECT_THAT(event.at("allOf"), SizeIs(6 * 5 / 2)) << "six kinds, at most one";
  EXPECT_EQ(scenario.at("$defs").at("Scenario").at("properties").at("jobs").at("type"), "array");
}

}  // namespace
}  // namespace scalai::apps
