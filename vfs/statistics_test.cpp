#include "vfs/statistics.h"

#include <gtest/gtest.h>

namespace scalai::vfs {
namespace {

TEST(Statistics, AreOneLine) {
  Statistics statistics;
  statistics.lookups = 12;
  statistics.opens = 3;
  statistics.reads = 40;
  statistics.bytes = 41'943'040;
  EXPECT_EQ(statistics.str(), "12 look-ups, 3 files opened, 40 reads of 41.9 MB, 0 errors");
}

}  // namespace
}  // namespace scalai::vfs
