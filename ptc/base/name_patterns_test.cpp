#include "ptc/base/name_patterns.h"

#include <gtest/gtest.h>

#include <vector>

namespace scalai {
namespace name_patterns_test {

TEST(NamePatterns, OneOfThemIsEnough) {
  const std::vector<std::string> patterns = {"head.weight", "layers.[2-3].*", "?.bias"};
  for (const char* name : {"head.weight", "layers.2.up.weight", "layers.3.", "b.bias"})
    EXPECT_TRUE(matches_any(name, patterns)) << name;
  for (const char* name : {"", "head.weights", "layers.4.up.weight", "ab.bias"})
    EXPECT_FALSE(matches_any(name, patterns)) << name;
  EXPECT_FALSE(matches_any("head.weight", {}));
}

}  // namespace name_patterns_test
}  // namespace scalai
