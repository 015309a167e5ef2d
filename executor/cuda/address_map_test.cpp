#include "executor/cuda/address_map.h"

#include <gtest/gtest.h>

namespace scalai::executor::cuda {
namespace {
const std::byte* at(uintptr_t address) { return reinterpret_cast<const std::byte*>(address); }

TEST(AddressMap, TellsGpusFromHostMemory) {
  AddressMap map;
  EXPECT_EQ(map.gpu_of(at(0)), AddressMap::kHost);
  map.add(at(1000), 100, 0);
  map.add(at(1100), 50, 3);
  map.add(at(500), 100, 1);
  EXPECT_EQ(map.gpu_of(at(499)), AddressMap::kHost);
  EXPECT_EQ(map.gpu_of(at(500)), 1);
  EXPECT_EQ(map.gpu_of(at(599)), 1);
  EXPECT_EQ(map.gpu_of(at(600)), AddressMap::kHost);
  EXPECT_EQ(map.gpu_of(at(1099)), 0);
  EXPECT_EQ(map.gpu_of(at(1100)), 3);
  EXPECT_EQ(map.gpu_of(at(1150)), AddressMap::kHost);
  map.remove(at(1000));
  EXPECT_EQ(map.gpu_of(at(1050)), AddressMap::kHost);
  EXPECT_EQ(map.gpu_of(at(1149)), 3);
  map.add(at(1000), 100, 2);
  EXPECT_EQ(map.gpu_of(at(1000)), 2);
}

TEST(AddressMapDeathTest, RangesDoNotOverlap) {
  AddressMap map;
  map.add(at(1000), 100, 0);
  EXPECT_EXIT(map.add(at(1099), 1, 0), testing::ExitedWithCode(70), "CHECK failed");
  EXPECT_EXIT(map.add(at(999), 2, 0), testing::ExitedWithCode(70), "CHECK failed");
  EXPECT_EXIT(map.add(at(900), 300, 0), testing::ExitedWithCode(70), "CHECK failed");
  EXPECT_EXIT(map.remove(at(1001)), testing::ExitedWithCode(70), "CHECK failed");
}

}  // namespace
}  // namespace scalai::executor::cuda
