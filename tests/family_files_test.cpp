// Naming families as their users write them, with mistakes that the format allows: a field left out, a value of another
// one, a number at the end of a range. Whatever they say, it is refused with words, or works.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/fuzz/family_uses.h"

namespace scalai::store {
namespace {

using ::testing::HasSubstr;

TEST(FamilyFiles, AreRefusedOrWork) {
  const Families families = Families::built_in();
  for (uint64_t seed = 0; seed < 600; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const std::vector<std::string> names = families.names();
    std::string text = families.find(names[seed % names.size()])->text();
    const int64_t changes = random.between(1, 3);
    for (int64_t i = 0; i < changes; ++i) text = family_mutant(text, random);
    const auto family = Family::parse(text, "mutant.textproto");
    if (!family.ok()) {
      EXPECT_NE(message_of(family.status()), "");
      continue;
    }
    if (!family->architectures().empty()) use_family(*family, family_config(family->architectures().front(), random));
  }
}

// Heads of keys and values divide a layout's tp.
TEST(FamilyFiles, HeadsComeWithHeadsOfKeysAndValues) {
  std::string text = Families::built_in().find("llama")->text();
  const std::string field = " max: 4096 field: \"kv_heads\"";
  const size_t at = text.find(field);
  ASSERT_NE(at, std::string::npos);
  text.erase(at, field.size());
  EXPECT_THAT(message_of(Family::parse(text, "own.textproto").status()),
              HasSubstr("own.textproto:11:68: error: no size has the field \"kv_heads\", which comes with \"heads\""));
}

}  // namespace
}  // namespace scalai::store
