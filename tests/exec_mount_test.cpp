// `scalai exec --mount`: dataset/current of a mounted dataset is where the job reads.

#include <gmock/gmock.h>

#include <atomic>

#include "tests/fs_end_to_end.h"

namespace scalai::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr int64_t kRecords = 3000;

class ExecMount : public FsEndToEnd {
 protected:
  void SetUp() override {
    FsEndToEnd::SetUp();
    if (IsSkipped()) return;
    ASSERT_TRUE(make_dataset("pile", kRecords));
  }
  // dp 4, then 2 from step 4 on, then another place from step 8 on.
  std::string scenario(const std::string& more = "") const {
    write_all(path("job.textproto"), R"(schema_version: 1
name: "mounted"
cluster { name: "two" hosts { count: 2 gpus: 4 gpu: "a100-40g" nic: "100Gbps" } storage { read: "1GB/s" write: "1GB/s" } }
jobs { name: "a" model: "gpt2" global_batch: 60 gpus: 4 steps: 12 checkpoint { every_steps: 3 }
       configs { layout: "dp4" step_time: "1s" } configs { layout: "dp2" step_time: "1s" }
       dataset { index: "pile.index" } }
)" + more + R"(
events { at_step { job: "a" step: 4 } resize { job: "a" gpus: 2 } }
events { at_step { job: "a" step: 8 } fail { hosts: [0] } }
)");
    return path("job.textproto");
  }
  std::string mount_options() const { return fmt::format("--dataset={} --global-batch=60", path("pile.index")); }
  std::string current() const {
    std::error_code error;
    return fs::read_symlink(path("m/dataset/current"), error).string();
  }
  Outcome exec(const std::string& words) const {
    return scalai(fmt::format("exec '{}' --scale-model=1/16 {}", scenario(), words));
  }
};

TEST_F(ExecMount, CurrentFollowsTheJob) {
  ASSERT_EQ(mount("m", mount_options() + " --dp=8 --step=100").code, 0);
  std::atomic<bool> over = false;
  std::vector<std::string> seen;
  std::thread watcher([&] {
    while (!over) {
      const std::string now = current();
      if (seen.empty() || seen.back() != now) seen.push_back(now);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  });
  const Outcome run = exec(fmt::format("--mount={} --out={} --time-scale=20ms", path("m"), path("exec")));
  over = true;
  watcher.join();
  ASSERT_EQ(run.code, 0) << run.err;
  EXPECT_THAT(run.err, Not(HasSubstr("dataset/current")));
  // The host that is lost had the only replicas: back to the checkpoint of step 6.
  EXPECT_THAT(seen, ElementsAre("dp8/step-100", "dp4/step-0", "dp2/step-4", "dp2/step-6")) << run.out;
  EXPECT_EQ(current(), "dp2/step-6");
  EXPECT_EQ(unmount("m").code, 0);
}

TEST_F(ExecMount, ARunDoesNotNeedIt) {
  fs::create_directory(path("empty"));
  const Outcome run = exec(fmt::format("--mount=a={} --out={}", path("empty"), path("exec")));
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_THAT(run.err, AllOf(HasSubstr("dataset/current stays"), HasSubstr(path("empty"))));
}

// A server that is stopped answers nobody.
TEST_F(ExecMount, ARunDoesNotWaitForAServerThatHangs) {
  const pid_t server = start("m", mount_options() + " --dp=8");
  ASSERT_TRUE(wait_for_mount("m"));
  ::kill(server, SIGSTOP);
  const Outcome run = exec(fmt::format("--mount={} --out={}", path("m"), path("exec")));
  ::kill(server, SIGCONT);
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_THAT(run.err, HasSubstr("no answer within 5 s"));
  EXPECT_EQ(end(server, SIGTERM), 0);
}

TEST_F(ExecMount, OfSeveralJobsOneIsNamed) {
  std::string text = scenario(R"(jobs { name: "b" model: "gpt2" global_batch: 60 gpus: 2 steps: 2
                                         configs { layout: "dp2" step_time: "1s" } })");
  const Outcome run = scalai(fmt::format("exec '{}' --mount={} --out={}", text, path("m"), path("exec")));
  EXPECT_EQ(run.code, 3);
  EXPECT_THAT(run.err, HasSubstr("of which of the 2 jobs? (JOB=DIR)"));
  const Outcome twice = scalai(fmt::format("exec '{}' --mount=b={},b=/x --out={}", text, path("m"), path("exec")));
  EXPECT_EQ(twice.code, 3);
  EXPECT_THAT(twice.err, HasSubstr("two mounts of job b"));
}

}  // namespace
}  // namespace scalai::testing
