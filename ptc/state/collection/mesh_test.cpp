#include "ptc/state/collection/mesh.h"

#include <gtest/gtest.h>

namespace scalai::collection {
namespace {

TEST(Mesh, FirstAxisIsFastest) {
  const Mesh mesh({{"tp", 2}, {"dp", 3}, {"pp", 4}});
  EXPECT_EQ(mesh.size(), 24);
  int rank = 0;
  for (int pp = 0; pp < 4; ++pp) {
    for (int dp = 0; dp < 3; ++dp) {
      for (int tp = 0; tp < 2; ++tp, ++rank) {
        EXPECT_EQ(mesh.coordinate(LogicalRank(rank), "tp"), tp) << "rank " << rank;
        EXPECT_EQ(mesh.coordinate(LogicalRank(rank), "dp"), dp) << "rank " << rank;
        EXPECT_EQ(mesh.coordinate(LogicalRank(rank), "pp"), pp) << "rank " << rank;
      }
    }
  }
}

TEST(Mesh, AnAxisItDoesNotHaveHasSizeOne) {
  const Mesh mesh({{"tp", 2}});
  EXPECT_EQ(mesh.axis_size("ep"), 1);
  EXPECT_EQ(mesh.coordinate(LogicalRank(1), "ep"), 0);
  EXPECT_EQ(Mesh().size(), 1);
}

TEST(Mesh, SeveralAxesAreTheirProductInTheOrderOfTheMesh) {
  const Mesh mesh({{"tp", 2}, {"cp", 3}, {"dp", 4}, {"pp", 2}});
  for (const std::string name : {"cp+dp", "dp+cp", "dp+ep+cp"}) {
    EXPECT_EQ(mesh.axis_size(name), 12) << name;
    for (int rank = 0; rank < mesh.size(); ++rank)
      EXPECT_EQ(mesh.coordinate(LogicalRank(rank), name), rank / 2 % 12) << name << " rank " << rank;
  }
  EXPECT_EQ(mesh.axis_size("tp+pp"), 4);
  EXPECT_EQ(mesh.coordinate(LogicalRank(47), "pp+tp"), 3);
  EXPECT_EQ(mesh.coordinate(LogicalRank(46), "pp+tp"), 2);
}

TEST(Mesh, LookupGivesSizeAndCoordinate) {
  const Mesh mesh({{"tp", 2}, {"pp", 3}});
  const tensor::AxisPosition at = mesh.lookup(LogicalRank(5))("pp");
  EXPECT_EQ(at.size, 3);
  EXPECT_EQ(at.coordinate, 2);
}

TEST(Mesh, ChecksNamesAndSizes) {
  EXPECT_EXIT(Mesh({{"tp", 2}, {"tp", 2}}), testing::ExitedWithCode(70), "CHECK failed");
  EXPECT_EXIT(Mesh({{"a+b", 2}}), testing::ExitedWithCode(70), "CHECK failed");
  EXPECT_EXIT(Mesh({{"tp", 0}}), testing::ExitedWithCode(70), "CHECK failed");
}

}  // namespace
}  // namespace scalai::collection
