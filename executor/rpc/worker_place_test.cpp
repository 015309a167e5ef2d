#include "executor/rpc/worker_place.h"

#include <gtest/gtest.h>

#include <limits>

#include "ptc/proto/control.pb.h"

namespace scalai::executor {
namespace worker_place_test {

void expect_equal(const WorkerPlace& a, const WorkerPlace& b) {
  EXPECT_EQ(a.place, b.place);
  EXPECT_EQ(a.pid, b.pid);
  EXPECT_EQ(a.fd, b.fd);
  EXPECT_EQ(a.address, b.address);
  EXPECT_EQ(a.gpu, b.gpu);
}

TEST(WorkerPlaceMessage, ComesBackWhole) {
  const WorkerPlace mapped{.place = "g3", .pid = 77, .fd = 5, .address = std::string("\0a", 2), .gpu = 0};
  expect_equal(unpack(pack(mapped)), mapped);
  const WorkerPlace opaque{.place = "h1.mem", .pid = 78, .fd = -1, .address = "", .gpu = -1};
  expect_equal(unpack(pack(opaque)), opaque);
}

// Found by live_fuzz: one less than the least number is none.
TEST(WorkerPlaceMessage, ANumberThatNobodyCountsIsNoGpu) {
  proto::WorkerPlace message;
  for (const int32_t gpu : {-1, -7, std::numeric_limits<int32_t>::min()}) {
    message.set_gpu(gpu);
    EXPECT_EQ(unpack(message).gpu, -1) << gpu;
  }
}

TEST(WorkerPlaceMessage, ANumberThatIsMissingIsNoGpu) {
  EXPECT_EQ(unpack(proto::WorkerPlace()).gpu, -1);
  EXPECT_EQ(pack({.place = "g0", .gpu = 4}).gpu(), 5);
}

}  // namespace worker_place_test
}  // namespace scalai::executor
