#include "labs/bounds/computation_graph.h"

#include <gtest/gtest.h>

namespace scalai::bounds {
namespace {

TEST(ComputationGraph, KnowsRolesOperandsAndSums) {
  ComputationGraph graph;
  const int32_t weights = graph.input(7), unused = graph.input(100), x = graph.computed(2, {});
  const int32_t both[] = {weights, x, x};
  const int32_t y = graph.result(3, both);
  EXPECT_EQ(graph.values(), 4);
  EXPECT_EQ(graph.operations(), 2);
  EXPECT_EQ(graph.operands(y).size(), 2u);
  EXPECT_EQ(graph.users(x).size(), 1u);
  EXPECT_EQ(graph.role(unused), Role::kInput);
  EXPECT_EQ(graph.used_inputs(), 7);
  EXPECT_EQ(graph.results(), 3);
  EXPECT_EQ(graph.least_capacity(), 100);
}

TEST(ComputationGraphDeathTest, OperandsExistAndSizesArePositive) {
  ComputationGraph graph;
  const int32_t later[] = {0};
  EXPECT_EXIT(graph.computed(1, later), ::testing::ExitedWithCode(70), "operand");
  EXPECT_EXIT(graph.input(0), ::testing::ExitedWithCode(70), "size > 0");
}

}  // namespace
}  // namespace scalai::bounds
