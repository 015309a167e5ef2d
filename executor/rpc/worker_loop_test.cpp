#include "executor/rpc/internal/worker_loop.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ptc/base/status.h"
#include "ptc/proto/control.pb.h"

namespace scalai::executor::rpc::internal {
namespace worker_loop_test {

using ::testing::HasSubstr;

// Nobody is there.
class DeafDialer final : public Dialer {
 public:
  explicit DeafDialer(int& dials) : dials_(dials) {}
  absl::StatusOr<std::shared_ptr<Wire>> dial(const proto::Hello&) override {
    ++dials_;
    return absl::UnavailableError("connection refused");
  }

 private:
  int& dials_;
};

// Pauses grow from 25 ms at least: at most 7 fit into the time, however fast the machine is.
TEST(WorkerLoop, AsksLessAndLessOften) {
  int dials = 0;
  const auto joined =
      WorkerLoop::connect({.address = "here:1", .connect_timeout_s = 1}, std::make_unique<DeafDialer>(dials));
  EXPECT_TRUE(absl::IsUnavailable(joined.status()));
  EXPECT_THAT(message_of(joined.status()), HasSubstr("no controller at here:1 within 1 s: connection refused"));
  EXPECT_GE(dials, 2);
  EXPECT_LE(dials, 8);
}

}  // namespace worker_loop_test
}  // namespace scalai::executor::rpc::internal
