#include "ptc/cost/step/recompute.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ptc/base/status.h"

namespace scalai::step {
namespace recompute_test {

using ::testing::HasSubstr;

TEST(Recompute, NamesAreReadBack) {
  for (const char* name : {"none", "selective", "layernorm", "layernorm+moe_act", "core_attn+mlp", "moe", "op", "full",
                           "full-first-3", "full-every-2"}) {
    const auto found = find_recompute(name);
    ASSERT_TRUE(found.ok()) << name;
    EXPECT_EQ(name_of(*found), name);
  }
}

TEST(Recompute, OneThingHasOneName) {
  EXPECT_EQ(find_recompute("moe_act+layernorm").value(), find_recompute("layernorm+moe_act").value());
  EXPECT_EQ(find_recompute("core_attn").value(), Recompute::kSelective);
  EXPECT_EQ(find_recompute("full-every-1").value(), Recompute::kFull);
}

TEST(Recompute, WhatIsNoNameIsRefusedWithThoseThatAre) {
  for (const char* name : {"", "half", "full-first-", "full-first-0", "full-first-2x", "full-every--1", "layernorm+",
                           "layernorm+layernorm", "layernorm+full", "full-first-99999999999"}) {
    EXPECT_FALSE(find_recompute(name).ok()) << name;
  }
  EXPECT_THAT(message_of(find_recompute("half").status()),
              HasSubstr("none, selective, full, full-first-N, full-every-N, op, core_attn"));
}

TEST(Recompute, WholeLayersOfAChunk) {
  EXPECT_EQ(Recompute::kNone.whole_layers(8), 0);
  EXPECT_EQ(Recompute::kSelective.whole_layers(8), 0);
  EXPECT_EQ(Recompute::kFull.whole_layers(8), 8);
  EXPECT_EQ(find_recompute("full-first-3").value().whole_layers(8), 3);
  EXPECT_EQ(find_recompute("full-first-3").value().whole_layers(2), 2);
  EXPECT_EQ(find_recompute("full-every-3").value().whole_layers(8), 2);
  EXPECT_EQ(find_recompute("op").value().whole_layers(8), 0);
}

TEST(Recompute, LessComesFirst) {
  EXPECT_LT(Recompute::kNone, Recompute::kSelective);
  EXPECT_LT(Recompute::kSelective, find_recompute("op").value());
  EXPECT_LT(find_recompute("op").value(), Recompute::kFull);
}

}  // namespace recompute_test
}  // namespace scalai::step
