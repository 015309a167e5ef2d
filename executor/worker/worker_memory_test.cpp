// What a worker does with its devices' memory around a change.

#include <gmock/gmock.h>

#include <atomic>

#include "executor/device/testing/forwarding_backend.h"
#include "executor/worker/testing/support.h"
#include "executor/worker/worker.h"
#include "ptc/base/status.h"
#include "ptc/proto/control.pb.h"

namespace scalai::executor::worker {

using state::Segment;

namespace {

// Memory of devices that counts what it is told after a change.
class CountedMemory final : public Segment {
 public:
  CountedMemory(Segment segment, std::atomic<int>& settled, std::atomic<int>& let_go)
      : Segment(std::move(segment)), settled_(settled), let_go_(let_go) {}
  absl::Status settle() override {
    ++settled_;
    return absl::ResourceExhaustedError("no room yet");
  }
  absl::Status reserve(int64_t bytes) override {
    let_go_ += bytes == 0 ? 1 : 0;
    return Segment::reserve(bytes);
  }

 private:
  std::atomic<int>& settled_;
  std::atomic<int>& let_go_;
};

// What overflowed goes back, and what was reserved is let go; that it does not fit yet is no error.
TEST(Worker, ACommitUsesTheMemoryThatItFrees) {
  std::atomic<int> settled = 0, let_go = 0;
  class Counting final : public device::ForwardingBackend {
   public:
    Counting(std::atomic<int>& settled, std::atomic<int>& let_go) : settled_(settled), let_go_(let_go) {}
    absl::StatusOr<std::unique_ptr<state::Memory>> memory_of_device(int,
                                                                    const state::SegmentOptions& options) override {
      SCALAI_ASSIGN_OR_RETURN(Segment segment, Segment::create(options));
      return std::make_unique<CountedMemory>(std::move(segment), settled_, let_go_);
    }

   private:
    std::atomic<int>& settled_;
    std::atomic<int>& let_go_;
  };
  Worker worker({.host = HostId(0),
                 .segments = {.capacity = int64_t{1} << 24},
                 .backend = std::make_shared<Counting>(settled, let_go)});
  CommandBody setup, commit;
  setup.mutable_setup()->add_gpus_of_host(2);
  commit.mutable_commit()->set_job(kJob);
  commit.mutable_commit()->set_version(1);
  ASSERT_OK(worker.handle({.what = "setup", .body = setup.SerializeAsString()}).status);
  EXPECT_EQ(settled, 0);
  ASSERT_OK(worker.handle({.what = "commit", .body = commit.SerializeAsString()}).status);
  EXPECT_GE(settled, 2);
  EXPECT_EQ(let_go, 2);
}

}  // namespace
}  // namespace scalai::executor::worker
