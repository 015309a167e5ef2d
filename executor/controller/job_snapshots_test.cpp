#include "executor/controller/job_snapshots.h"

#include <gmock/gmock.h>

#include "executor/controller/job_commands.h"
#include "executor/controller/testing/test_fleet.h"

namespace scalai::executor::controller {
namespace {

namespace fs = std::filesystem;
using control::testing::job_text;
using control::testing::kSmallCluster;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

control::Background checkpoint_of(control::SnapshotId tag, int64_t step) {
  return {.tag = tag, .what = "checkpoint", .flows = {}, .collection = nullptr, .step = step, .copies = {}};
}

// No worker has started: nobody is told.
class JobSnapshotsTest : public ::testing::Test {
 protected:
  std::string made(int64_t step) const {
    const std::string path = store::step_folder(folder_.path(), step);
    fs::create_directories(path);
    return path;
  }

  const testing::Folder folder_;
  const scenario::Scenario scenario_ =
      control::testing::scenario_of(std::string(kSmallCluster) +
                                    job_text("a", "steps: 100 gpus: 1 configs { layout: \"dp1\" step_time: \"1s\" }"))
          .value();
  const ExecOptions options_ = {};
  testing::Fleet fleet_{{.hosts = 4}};
  WorkerPool pool_{scenario_.cluster, fleet_.controller(), fleet_.pool_options()};
  JobCommands commands_{0, scenario_, pool_, options_};
  JobSnapshots snapshots_{commands_, folder_.path()};
};

TEST_F(JobSnapshotsTest, ACheckpointGoesWithTheLastSnapshotOfItsStep) {
  const std::string path = made(20);
  for (const control::SnapshotId tag : {1, 2}) snapshots_.note(checkpoint_of(tag, 20));
  EXPECT_EQ(snapshots_.find(1).folder, path);
  ASSERT_TRUE(snapshots_.forget(1).ok());
  EXPECT_TRUE(fs::exists(path)) << "the step was written again";
  ASSERT_TRUE(snapshots_.forget(2).ok());
  EXPECT_FALSE(fs::exists(path));
  EXPECT_EQ(snapshots_.find(2).folder, "");
  EXPECT_TRUE(snapshots_.forget(2).ok());
}

TEST_F(JobSnapshotsTest, WhatIsNotItsOwnStays) {
  const std::string path = made(20);
  snapshots_.note(checkpoint_of(1, 20));
  snapshots_.leave_files(1);
  ASSERT_TRUE(snapshots_.forget(1).ok());
  EXPECT_TRUE(fs::exists(path));
}

// A copy of the initial state has no files: workers hold it still.
TEST_F(JobSnapshotsTest, FilesThatNobodyCompletesAreCutOff) {
  snapshots_.note_initial({});
  snapshots_.note(checkpoint_of(1, 20), /*complete=*/false);
  snapshots_.note({.tag = 2, .what = "redundancy", .flows = {}, .collection = nullptr, .host_copy = true, .copies = {}},
                  /*complete=*/false);
  snapshots_.note(checkpoint_of(3, 40), /*complete=*/false);
  snapshots_.note_done(3);
  EXPECT_THAT(snapshots_.cut_off(), ElementsAre(1));
  snapshots_.note_forget(1);
  EXPECT_THAT(snapshots_.cut_off(), IsEmpty());
  EXPECT_TRUE(absl::IsNotFound(snapshots_.done(1).status()));
}

}  // namespace
}  // namespace scalai::executor::controller
