#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ptc/base/status.h"
#include "ptc/store/naming/family.h"
#include "ptc/store/naming/testing/arrange.h"

namespace scalai::store {
namespace {

using testing::HasSubstr;

TEST(FamilyModelFile, ReadsWhatItWrites) {
  const ModelFile file{.family = "llama", .name = "tiny \"one\"", .sizes = sizes_of({.tied = true})};
  const std::string text = model_file_text(file);
  const auto read = parse_model_file(text, "model.textproto");
  ASSERT_TRUE(read.ok()) << message_of(read.status()) << text;
  EXPECT_EQ(*read, file);
  EXPECT_THAT(text, HasSubstr("schema_version: 1\nfamily: \"llama\"\n"));
}

TEST(FamilyModelFile, NamesAllProblems) {
  const std::string text = message_of(parse_model_file(R"(schema_version: 3
sizes { name: "a" value: 1 }
sizes { name: "a" value: 2 }
sizes { name: "b" }
switches { value: true }
)",
                                                       "m.textproto")
                                          .status());
  for (const char* expected : {":1:17: error: schema version 3 is not known here", "\"family\" is missing",
                               ":3:15: error: \"a\" is given twice", "\"value\" is missing", "\"name\" is missing"})
    EXPECT_THAT(text, HasSubstr(expected));
}

}  // namespace
}  // namespace scalai::store
