// Real training that ends: its last step is in a checkpoint, and no checkpoint that is due is left out.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <thread>

#include "executor/controller/testing/trained.h"
#include "ptc/base/file_descriptor.h"

namespace scalai::executor::controller {
namespace {

using control::testing::kSmallCluster;
using testing::busy;
using testing::digests;
using ::testing::ElementsAre;
using testing::event_times;
using testing::execute;
using testing::expect_replayable;
using testing::Folder;
using testing::kCheckpoints;
using testing::Ran;

class LastCheckpoint : public testing::Trained {
 protected:
  bool kept(int64_t step) const { return std::filesystem::exists(checkpoint_of(step)); }
  std::string checkpoints() const { return folder_.path() + "/checkpoints"; }
};

// Decisions are those of a run without it.
TEST_F(LastCheckpoint, IsOfTheStepAtWhichTheJobEnds) {
  const scenario::Scenario scenario = scenario_of(job(kCheckpoints) + resize(5, 4) + resize(35, 1));
  const Ran ran = train(scenario);
  ASSERT_TRUE(ran.report.ok()) << ran.report.status();
  EXPECT_EQ(ran.report->jobs[0].state, "complete");
  expect_right(41);
  const Folder other;
  const Ran emulated = execute(scenario, "reshard", other.path());
  ASSERT_TRUE(emulated.report.ok()) << emulated.report.status();
  EXPECT_EQ(digests(*ran.report), digests(*emulated.report));
  EXPECT_EQ(event_times(*ran.report), event_times(*emulated.report));
  EXPECT_FALSE(std::filesystem::exists(store::step_folder(other.path() + "/checkpoints/a", 41)))
      << "an emulated step is nobody's work";
  expect_replayable(*ran.report, folder_.path());
}

TEST_F(LastCheckpoint, NeedsNoOthers) {
  const Ran ran = train(scenario_of(job("")));
  ASSERT_TRUE(ran.report.ok()) << ran.report.status();
  expect_right(41);
}

TEST_F(LastCheckpoint, IsLeftOutWhereItIsNotWanted) {
  ExecOptions options;
  options.last_checkpoint = false;
  const Ran ran = train(scenario_of(job(kCheckpoints)), "", {}, options);
  ASSERT_TRUE(ran.report.ok()) << ran.report.status();
  EXPECT_TRUE(kept(40));
  EXPECT_FALSE(kept(41));
}

// Absent means absent, and the run says so.
TEST_F(LastCheckpoint, GoesNowhereWithoutStorage) {
  std::string bare = kSmallCluster;
  const size_t at = bare.find("storage {");
  bare.erase(at, bare.find('}', at) + 1 - at);
  ::testing::internal::CaptureStderr();
  const Ran ran = train(scenario_of(job(""), bare));
  const std::string said = ::testing::internal::GetCapturedStderr();
  ASSERT_TRUE(ran.report.ok()) << ran.report.status();
  EXPECT_FALSE(std::filesystem::exists(checkpoints()));
  EXPECT_THAT(said, ::testing::HasSubstr("the last step of this training will be in no checkpoint"));
}

TEST_F(LastCheckpoint, IsOfTheStepAtWhichTheScenarioEnds) {
  const Ran ran = train(scenario_of("until: \"27.5s\"\n" + job(kCheckpoints)));
  ASSERT_TRUE(ran.report.ok()) << ran.report.status();
  EXPECT_EQ(ran.report->jobs[0].state, "running");
  expect_right(ran.report->jobs[0].steps);
}

// What is there when the scenario ends in the midst of a change is the state before it.
TEST_F(LastCheckpoint, IsOfTheStepBeforeAChangeThatDoesNotEnd) {
  const Ran ran =
      train(scenario_of("until: \"20.5s\"\ncosts { restart: \"2s\" }\n" + job(kCheckpoints) + resize(19, 4)));
  ASSERT_TRUE(ran.report.ok()) << ran.report.status();
  EXPECT_EQ(ran.report->jobs[0].state, "reconfiguring");
  expect_right(19);
}

// What is said meanwhile goes into a file.
class SaidTo {
 public:
  explicit SaidTo(const std::string& path) : before_(::dup(STDERR_FILENO)) {
    const FileDescriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
    ::dup2(file.get(), STDERR_FILENO);
  }
  ~SaidTo() { ::dup2(before_.get(), STDERR_FILENO); }
  SaidTo(const SaidTo&) = delete;
  SaidTo& operator=(const SaidTo&) = delete;

 private:
  const FileDescriptor before_;
};

// The state stays in the workers' memories until the checkpoint is there.
TEST_F(LastCheckpoint, IsTriedUntilItIsWritten) {
  const std::string said = folder_.path() + "/said";
  ASSERT_TRUE(write_file(checkpoints(), "a file in the way").ok());
  std::atomic<bool> over = false;
  std::thread mender([&] {
    while (!over && read_file(said).value_or("").find("is tried again; until it is written") == std::string::npos)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    std::filesystem::remove(checkpoints());
  });
  Ran ran;
  {
    const SaidTo file(said);
    ran = train(scenario_of(job("")));
  }
  EXPECT_TRUE(std::filesystem::is_directory(checkpoints()));
  over = true;
  mender.join();
  ASSERT_TRUE(ran.report.ok()) << ran.report.status();
  EXPECT_EQ(ran.report->jobs[0].state, "complete");
  expect_right(41);
}

// The job goes on from what is left, and its end comes once more.
TEST_F(LastCheckpoint, IsWrittenByTheOthersWhereAHostIsLostOnTheWay) {
  const scenario::Scenario scenario = scenario_of(control::testing::job_text(
      "a",
      "gpus: 4 steps: 41 configs { layout: \"tp4\" step_time: \"1s\" } configs { layout: \"tp2\" step_time: "
      "\"1s\" } checkpoint { every_steps: 10 }"));
  for (const bool after : {false, true}) {
    SCOPED_TRACE(after);
    const Ran ran = train(scenario, "", {.deaths = {{.host = 1, .what = "write", .nth = 5, .after = after}}});
    ASSERT_TRUE(ran.report.ok()) << ran.report.status();
    EXPECT_EQ(ran.deaths, 1);
    EXPECT_EQ(ran.report->jobs[0].state, "complete") << ran.report->jobs[0].failure;
    EXPECT_EQ(ran.report->jobs[0].lost_steps, 1) << "from the checkpoint of step 40";
    expect_right(41);
    std::filesystem::remove_all(checkpoints());
  }
}

// A launched job trains as fast as it can, and writes take as long as they do.
TEST_F(LastCheckpoint, NoneThatIsDueIsLeftOut) {
  const scenario::Scenario scenario = scenario_of(job("checkpoint { every_steps: 5 }"));
  const Ran ran = train(scenario, "", busy(60), {.late_checkpoints = true});
  ASSERT_TRUE(ran.report.ok()) << ran.report.status();
  const auto done = std::count_if(ran.report->events.begin(), ran.report->events.end(), [](const auto& event) {
    return std::holds_alternative<control::BackgroundDone>(event.body);
  });
  EXPECT_EQ(done, 8) << "of steps 5, 10, …, 40";
  EXPECT_EQ(ran.report->jobs[0].checkpoints_left_out, 0);
  expect_right(40);
  expect_right(41);
  expect_replayable(*ran.report, folder_.path());
}

}  // namespace
}  // namespace scalai::executor::controller
