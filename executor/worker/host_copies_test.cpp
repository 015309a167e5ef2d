// State that readers see in place: it is of one step, whatever its job does.

#include <gmock/gmock.h>

#include "executor/worker/testing/support.h"
#include "ptc/proto/control.pb.h"

namespace scalai::executor::worker {
namespace host_copies_test {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr state::StateVersion kShown = state::StateVersion::live(1);
constexpr state::VersionKey kKey{kJob, kShown};

class WorkerLive : public ::testing::Test {
 protected:
  void SetUp() override { begin({}); }
  void begin(const SmallClusterOptions& options) {
    cluster_ = std::make_unique<SmallCluster>(options);
    cluster_->create(from_, 10);
    before_.clear();
    for (size_t i = 0; i < from_.tensors.size(); ++i)
      before_.push_back(bytes(Location::device(DeviceId(0)), of_from_, i));
  }
  CommandBody show(bool fleeting = false) const {
    CommandBody body;
    CommandBody::Copy& copy = *body.mutable_copy();
    copy.set_job(kJob);
    copy.set_from_version(of_from_.version.wire());
    copy.set_to_version(kShown.wire());
    copy.set_own_devices(true);
    copy.set_in_place(true);
    copy.set_fleeting(fleeting);
    return body;
  }
  // What g0 has of a tensor, out of a place; empty: that place does not have it.
  std::string bytes(const Location& place, const state::VersionKey& key, size_t index) {
    const TensorId tensor(static_cast<int64_t>(index));
    const tensor::DType dtype = from_.tensors[index].dtype;
    std::string all;
    for (const tensor::Piece& piece : from_.pieces(tensor, LogicalRank(0)).pieces) {
      std::string part(static_cast<size_t>(piece.box.volume() * tensor::size_of(dtype)), '?');
      const state::Target target{piece.box, dtype, reinterpret_cast<std::byte*>(part.data())};
      if (!reader().read(place, key, tensor, piece.box, target).ok()) return "";
      all += part;
    }
    return all;
  }
  // Out of the other host: what readers of a segment see.
  Places& reader() { return const_cast<Places&>(cluster_->worker(1).places()); }
  std::vector<std::string> shown(const Location& place) {
    std::vector<std::string> all;
    for (size_t i = 0; i < from_.tensors.size(); ++i) all.push_back(bytes(place, kKey, i));
    return all;
  }
  std::vector<std::string> nothing() const { return std::vector<std::string>(before_.size()); }

  const Location device_ = Location::device(DeviceId(0)), memory_ = Location::host_memory(HostId(0));
  const state::VersionKey of_from_ = epoch_of_job(4);
  const Collection from_ = at_epoch(plan::grid_collection({.tp = 4}, plan::devices({0, 1, 2, 3})), 4);
  std::unique_ptr<SmallCluster> cluster_;
  std::vector<std::string> before_;
};

TEST_F(WorkerLive, StaysWhereItIsUntilTrainingRewritesIt) {
  EXPECT_EQ(cluster_->ask(0, show()).bytes(), 0);
  EXPECT_EQ(shown(device_), before_);
  EXPECT_EQ(shown(memory_), nothing());
  EXPECT_EQ(cluster_->store(memory_).bytes_held(), 0);
  cluster_->advance(from_, 11);
  EXPECT_EQ(shown(device_), nothing());
  EXPECT_EQ(shown(memory_), before_);
  EXPECT_NE(bytes(device_, of_from_, 0), before_[0]);
  EXPECT_THAT(cluster_->verify(from_, 11), IsEmpty());
  cluster_->advance(from_, 12);
  EXPECT_EQ(shown(memory_), before_) << "later steps change nothing";
}

TEST_F(WorkerLive, OverTheNetworkAsInASegment) {
  begin({.reach = Reach::kNetwork});
  cluster_->ask(0, show());
  EXPECT_EQ(shown(device_), before_);
  cluster_->advance(from_, 11);
  EXPECT_EQ(shown(device_), nothing());
  EXPECT_EQ(shown(memory_), before_);
}

TEST_F(WorkerLive, WhatIsFleetingIsNeverCopied) {
  cluster_->ask(0, show(/*fleeting=*/true));
  EXPECT_EQ(shown(device_), before_);
  cluster_->advance(from_, 11);
  EXPECT_EQ(shown(device_), nothing());
  EXPECT_EQ(shown(memory_), nothing());
  EXPECT_EQ(cluster_->store(memory_).bytes_held(), 0);
}

TEST_F(WorkerLive, WhatNobodyKeepsIsNotCopied) {
  cluster_->ask(0, show());
  CommandBody forget;
  forget.mutable_forget()->set_job(kJob);
  forget.mutable_forget()->set_version(kShown.wire());
  cluster_->ask(0, forget);
  EXPECT_EQ(shown(device_), nothing());
  cluster_->advance(from_, 11);
  EXPECT_EQ(cluster_->store(memory_).bytes_held(), 0);
}

TEST_F(WorkerLive, SurvivesAChangeOfLayout) {
  cluster_->ask(0, show());
  const plan::Case job{.from = from_,
                       .to = at_epoch(plan::grid_collection({.tp = 2, .dp = 2}, plan::devices({0, 1, 2, 3})), 5),
                       .cluster = plan::cluster_of(2, 2)};
  cluster_->change(job.plan(), job.to, 10);
  cluster_->commit(5);
  EXPECT_EQ(shown(memory_), before_);
  EXPECT_EQ(shown(device_), nothing());
  EXPECT_THAT(cluster_->store(device_).versions(), ElementsAre(epoch_of_job(5)));
  cluster_->advance(job.to, 11);
  EXPECT_EQ(shown(memory_), before_);
}

TEST_F(WorkerLive, SurvivesItsDevice) {
  cluster_->ask(0, show());
  cluster_->lose({0});
  EXPECT_EQ(shown(memory_), before_);
}

// Training matters more than its readers.
TEST_F(WorkerLive, WithoutRoomForTheCopyReadersLoseIt) {
  begin({.limit = 1 << 20});
  state::Store& memory = cluster_->store(memory_);
  absl::Status full;
  for (int64_t i = 0; full.ok(); ++i)
    full = memory.add({kJob, kSnapshot}, TensorId(0), tensor::Box({i << 10}, {(i + 1) << 10}), tensor::DType::kF32)
               .status();
  ASSERT_TRUE(absl::IsResourceExhausted(full)) << full;
  cluster_->ask(0, show());
  EXPECT_EQ(shown(device_), before_);
  cluster_->advance(from_, 11);
  EXPECT_EQ(shown(device_), nothing());
  EXPECT_EQ(shown(memory_), nothing());
  EXPECT_THAT(cluster_->verify(from_, 11), IsEmpty());
}

}  // namespace host_copies_test
}  // namespace scalai::executor::worker
