#include "ptc/run/control/internal/snapshots.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ptc/run/control/testing/parts_fixture.h"

namespace scalai::control {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::Parts;
using testing::sized_job;

class SnapshotsTest : public ::testing::Test {
 protected:
  // On h0 and h1; copies go to h1, h0 and then h2, h3.
  Job& train(int64_t step) { return parts_.train(0, 0, {0, 1, 2, 3}, step); }

  Parts parts_{"until: \"100s\"\n" +
               sized_job("a", "checkpoint { every_steps: 10 } redundancy { copies: 2 every_steps: 4 }")};
  Snapshots snapshots_{parts_.condition, parts_.turn};
};

TEST_F(SnapshotsTest, BeginAtTheStepsTheyAreDue) {
  EXPECT_EQ(snapshots_.start_due(train(3)), 0);
  EXPECT_THAT(parts_.all<Background>(), IsEmpty());
  EXPECT_GT(snapshots_.start_due(train(4)), 0) << "training stalls";
  ASSERT_EQ(parts_.all<Background>().size(), 1u);
  EXPECT_EQ(parts_.all<Background>()[0].what, "redundancy");
  EXPECT_EQ(parts_.all<Background>()[0].step, 4);
  parts_.jobs[0].copies.in_flight.clear();
  snapshots_.start_due(train(20));
  const std::vector<Background> all = parts_.all<Background>();
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[1].what, "checkpoint");
  EXPECT_EQ(all[2].what, "redundancy");
  EXPECT_EQ(all[2].tag, 3);
}

TEST_F(SnapshotsTest, StallForTheLargestPartOverPcie) {
  const Job& job = train(10);
  const std::vector<int64_t> bytes = state_bytes_of_ranks(*job.state.collection);
  const auto largest = static_cast<double>(*std::max_element(bytes.begin(), bytes.end()));
  EXPECT_DOUBLE_EQ(snapshots_.start_due(parts_.jobs[0]), largest / (cluster::kPcieShare * 2e9));
}

TEST_F(SnapshotsTest, ACopyIsLeftOutAndCountedWhileTheOneBeforeItIsUnderWay) {
  Job& job = train(4);
  snapshots_.start_due(job);
  job.state.step = 8;
  EXPECT_EQ(snapshots_.start_due(job), 0);
  EXPECT_EQ(parts_.all<Background>().size(), 1u);
  EXPECT_EQ(job.accounts.record.redundancy->left_out, 1);
  for (const int64_t step : {10, 20, 30}) {
    job.state.step = step;
    snapshots_.start_due(job);
  }
  EXPECT_EQ(job.accounts.record.checkpoints_left_out, 2) << "of steps 20 and 30";
  job.state.step = 31;
  job.copies.asked = true;
  snapshots_.start_due(job);
  EXPECT_TRUE(job.copies.asked) << "what a user asks for waits";
  EXPECT_EQ(job.accounts.record.checkpoints_left_out, 2);
}

TEST_F(SnapshotsTest, OneThatArrivesReplacesTheOneBeforeIt) {
  Job& job = train(10);
  snapshots_.start_due(job);
  EXPECT_TRUE(snapshots_.arrive(job, 1));
  EXPECT_EQ(job.copies.checkpoint->step, 10);
  EXPECT_THAT(parts_.all<Forget>(), IsEmpty());
  EXPECT_EQ(snapshots_.start_due(job), 0) << "this step is there";
  job.state.step = 20;
  snapshots_.start_due(job);
  EXPECT_TRUE(snapshots_.arrive(job, 2));
  ASSERT_EQ(parts_.all<Forget>().size(), 1u);
  EXPECT_EQ(parts_.all<Forget>()[0].snapshot, 1);
  EXPECT_FALSE(snapshots_.arrive(job, 2)) << "not under way";
}

// Out of reach when the job went back to step 8, the copy would later count as a later state than the job has.
TEST_F(SnapshotsTest, CopiesOfStepsThatARollbackTookBackAreForgotten) {
  Job& job = train(10);
  snapshots_.start_due(job);
  snapshots_.arrive(job, 1);
  snapshots_.forget_after(job, 10);
  EXPECT_TRUE(job.copies.checkpoint) << "of this step";
  snapshots_.forget_after(job, 8);
  EXPECT_FALSE(job.copies.checkpoint);
  ASSERT_EQ(parts_.all<Forget>().size(), 1u);
  EXPECT_EQ(parts_.all<Forget>()[0].snapshot, 1);
}

TEST_F(SnapshotsTest, ALossOfASourceGivesUpTheCopy) {
  Job& job = train(10);
  snapshots_.start_due(job);
  parts_.lose({3});
  snapshots_.lose(job, {DeviceId(3)});
  EXPECT_THAT(job.state.gone, ElementsAre(DeviceId(3)));
  EXPECT_THAT(job.copies.in_flight, IsEmpty());
  EXPECT_EQ(parts_.all<Forget>().size(), 1u);
}

TEST_F(SnapshotsTest, ALossOfAnotherHostGivesUpWhatItWasToKeep) {
  Job& job = parts_.train(0, 1, {0, 1}, 4);  // copies are for h1 and h2
  snapshots_.start_due(job);
  parts_.lose({4});
  snapshots_.lose(job, {DeviceId(4)});
  EXPECT_EQ(job.copies.in_flight.size(), 1u) << "half of h2 lives, and its memory";
  parts_.lose({5});
  snapshots_.lose(job, {DeviceId(5)});
  EXPECT_THAT(job.copies.in_flight, IsEmpty());
}

// h2's devices die one by one: one before the copy is made, while it is made, or after; the host's memory goes with the
// last.
TEST_F(SnapshotsTest, AHostThatDiesInPartsKeepsNothing) {
  const auto on_h2 = [](const Holding& holding) {
    const auto copies = list_of(holding.copies);
    return std::count_if(copies.begin(), copies.end(),
                         [](const collection::ExtraHolder& extra) { return extra.host == HostId(2); });
  };
  for (const std::string when : {"before", "under way", "after"}) {
    Parts parts("until: \"100s\"\n" + sized_job("a", "redundancy { copies: 2 every_steps: 4 }"));
    Snapshots snapshots(parts.condition, parts.turn);
    const auto lose = [&](int device) {
      parts.lose({device});
      snapshots.lose(parts.jobs[0], {DeviceId(device)});
    };
    Job& job = parts.train(0, 1, {0, 1}, 4);
    if (when == "before") lose(4);
    snapshots.start_due(job);
    if (when == "under way") lose(4);
    ASSERT_TRUE(snapshots.arrive(job, 1)) << when;
    if (when == "after") lose(4);
    EXPECT_GT(on_h2(*job.copies.redundant), 0) << when;
    lose(5);
    EXPECT_EQ(on_h2(*job.copies.redundant), 0) << when;
    EXPECT_FALSE(list_of(job.copies.redundant->copies).empty()) << when << ": h1 has its share";
  }
}

// Copies of one state are one list; what a lost host had is planned anew.
TEST_F(SnapshotsTest, CopiesOfOneStateAreWorkedOutOnce) {
  Parts parts("until: \"100s\"\n" + sized_job("a", "redundancy { copies: 1 every_steps: 4 }"));
  Snapshots snapshots(parts.condition, parts.turn);
  Job& job = parts.train(0, 1, {0, 1}, 4);
  const auto copies_at = [&](int64_t step, int64_t tag) {
    job.state.step = step;
    snapshots.start_due(job);
    EXPECT_TRUE(snapshots.arrive(job, tag)) << step;
    return job.copies.redundant->copies;
  };
  const SharedCopies first = copies_at(4, 1);
  ASSERT_FALSE(list_of(first).empty());
  EXPECT_EQ(copies_at(8, 2), first);
  const HostId taken = first->front().host;
  for (const DeviceId device : parts.condition.cluster().devices_of(taken)) {
    parts.lose({device.value});
    snapshots.lose(job, {device});
  }
  for (const collection::ExtraHolder& extra : *copies_at(12, 3)) EXPECT_NE(extra.host, taken);
  job.state.collection = std::make_shared<collection::Collection>(*job.state.collection);  // another epoch
  const SharedCopies third = copies_at(16, 4);
  EXPECT_NE(third, first);
  EXPECT_EQ(third->size(), first->size());
}

TEST_F(SnapshotsTest, AStrangersLossGivesUpNothing) {
  Job& job = train(10);
  snapshots_.start_due(job);
  parts_.lose({6, 7});
  snapshots_.lose(job, {DeviceId(6), DeviceId(7)});
  EXPECT_EQ(job.copies.in_flight.size(), 1u);
}

TEST_F(SnapshotsTest, TheLastOneIsACheckpoint) {
  Job& job = train(7);
  snapshots_.start_last(job);
  EXPECT_EQ(job.mode, Mode::kStopping);
  EXPECT_EQ(job.copies.last, 1);
  EXPECT_EQ(parts_.all<Background>()[0].what, "checkpoint");
}

}  // namespace
}  // namespace scalai::control
