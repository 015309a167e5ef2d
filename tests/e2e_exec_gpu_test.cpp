// `scalai exec` as on GPUs, where there is none: devices that nobody maps, and a library that stands in for NCCL.

#include <nlohmann/json.hpp>
#include <thread>

#include "tests/exec_end_to_end.h"

namespace scalai::testing {
namespace {

using ::testing::HasSubstr;

const std::string kNccl = fmt::format("--transport=nccl --nccl='{}'", FAKE_NCCL_LIBRARY);

class ExecGpu : public Exec {
 protected:
  // Simulated and executed, with as many bytes checked as there are.
  void expect_as_simulated(const std::string& scenario, const std::string& words) {
    const std::string narrow = "--scale-model=1/32 --strategy=reshard";
    const Outcome simulated = scalai(fmt::format("sim {} {} --out='{}'", scenario_file(scenario), narrow, path("sim")));
    ASSERT_EQ(simulated.code, 0) << simulated.err;
    const Outcome run = exec(scenario_file(scenario), narrow + " " + words);
    ASSERT_EQ(run.code, 0) << run.err;
    EXPECT_THAT(run.err, HasSubstr("verified "));
    EXPECT_TRUE(files_of(folder_ / "exec/plans") == files_of(folder_ / "sim/plans"));
    expect_replayable();
  }
};

// Ranks come and go with their hosts' workers, which are killed.
TEST_F(ExecGpu, NcclCarriesWhatPlansMoveThroughFailures) { expect_as_simulated("failure-gpt3-2.7b", kNccl); }

TEST_F(ExecGpu, DevicesMayShareAGpu) { expect_as_simulated("scale-out-pp-gpt3-1.3b", kNccl + " --devices-per-gpu=4"); }

TEST_F(ExecGpu, ARankThatIsKilledIsAnEventLikeAnyOther) {
  Outcome run;
  std::thread controller([&] { run = exec(replicated_scenario(), "--scale-model=1/16 --time-scale=50ms " + kNccl); });
  const pid_t victim = worker(1);
  EXPECT_TRUE(eventually([&] { return fs::exists(folder_ / "exec/checkpoints"); })) << "training has begun";
  if (victim > 0) kill(victim, SIGKILL);
  controller.join();
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_THAT(run.err, HasSubstr("lost the worker of h1"));
  expect_replayable();
}

// One process for all hosts, as on one NIC. A host that fails drops what it holds and comes back with nothing.
TEST_F(ExecGpu, AProcessMayBeTheWorkerOfSeveralHosts) {
  Outcome run;
  std::thread controller(
      [&] { run = exec(scenario_file("failure-gpt3-2.7b"), "--scale-model=1/32 --strategy=reshard --no-workers"); });
  EXPECT_TRUE(eventually([&] { return !read_all(folder_ / "exec/address").empty(); }));
  const std::string words = fmt::format("exec worker --controller={} --host=3,1,0,2 --token-file='{}'",
                                        read_all(folder_ / "exec/address"), path("exec/token"));
  const Outcome worker = scalai(words);
  controller.join();
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_EQ(worker.code, 0) << worker.err;
  EXPECT_THAT(run.err, HasSubstr("verified "));
  expect_replayable();
}

TEST_F(ExecGpu, WithoutAGpuCudaIsRefused) {
  if (fs::exists("/dev/nvidia0")) GTEST_SKIP() << "there is a GPU";
  const Outcome run = exec(scenario_file("identity"), "--scale-model=1/32 --backend=cuda --devices-per-gpu=8");
  EXPECT_EQ(run.code, 4);
  EXPECT_THAT(run.err, HasSubstr("GPU"));
}

}  // namespace
}  // namespace scalai::testing
