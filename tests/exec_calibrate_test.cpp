// `scalai exec calibrate` as people run it: measures with real workers, and what it writes is a cluster for the
// simulator.

#include <nlohmann/json.hpp>

#include "tests/exec_end_to_end.h"

namespace scalai::testing {
namespace {

using ::testing::HasSubstr;

class Calibrate : public Exec {
 protected:
  Outcome calibrate(const std::string& words) const {
    return scalai(fmt::format("exec calibrate --bytes=1MiB --repetitions=1 {}", words));
  }
  // On four devices.
  std::string scenario() const {
    const std::string file = path("scenario.textproto");
    write_all(file, R"(schema_version: 1
name: "calibrated"
until: "100s"
cluster { name: "any" hosts { count: 2 gpus: 2 gpu: "a100-40g" nic: "100Gbps" } }
jobs { name: "a" model: "gpt2" global_batch: 8 gpus: 2 configs { layout: "tp2" step_time: "1s" }
       configs { layout: "tp4" step_time: "1s" } }
events { at: "50s" resize { gpus: 4 } }
)");
    return file;
  }
};

TEST_F(Calibrate, WritesAClusterThatSimulatorAndExecutorTake) {
  const std::string cluster = path("machine.textproto");
  const Outcome done = calibrate(fmt::format("--hosts=2 --gpus=2 --out='{}'", cluster));
  ASSERT_EQ(done.code, 0) << done.err;
  for (const char* row :
       {"one pair of hosts", "all hosts together", "inside a host", "inside two devices", "storage, read"})
    EXPECT_THAT(done.out, HasSubstr(row));
  EXPECT_THAT(done.out, HasSubstr("costs { transfer_start: \""));
  EXPECT_THAT(read_all(cluster), HasSubstr("# command: scalai exec calibrate --out="));
  const std::string words = fmt::format("--cluster='{}' --scale-model=1/4", cluster);
  const Outcome simulated = scalai(fmt::format("sim '{}' {} --out='{}'", scenario(), words, path("sim")));
  ASSERT_EQ(simulated.code, 0) << simulated.err;
  const Outcome executed = exec(scenario(), words);
  ASSERT_EQ(executed.code, 0) << executed.err;
  const Outcome compared = scalai(fmt::format("compare '{}' '{}'", path("sim"), path("exec")));
  ASSERT_EQ(compared.code, 0) << compared.err;
  EXPECT_THAT(compared.out, HasSubstr("median error of transfer: "));
  EXPECT_THAT(compared.out, HasSubstr(" % over 1 transfer\n"));
  const Outcome json = scalai(fmt::format("compare '{}' '{}' --format=json", path("sim"), path("exec")));
  const nlohmann::json change = nlohmann::json::parse(json.out).at("prediction").at("reconfigurations").at(0);
  EXPECT_TRUE(change.at("same_plan"));
  for (const nlohmann::json& phase : change.at("phases")) {
    if (phase.at("phase") != "transfer") continue;
    EXPECT_GT(phase.at("predicted_s"), 0);
    EXPECT_GT(phase.at("measured_s"), 0);
  }
}

TEST_F(Calibrate, OverUcxItSaysHowRowsTravel) {
  const std::string cluster = path("machine.textproto");
  const Outcome done = calibrate(fmt::format("--hosts=2 --gpus=1 --transport=ucx --out='{}'", cluster));
  if (done.code == 4) GTEST_SKIP() << done.err;
  ASSERT_EQ(done.code, 0) << done.err;
  EXPECT_THAT(done.out, HasSubstr("rows over UCX: gathered is not slower than packed "));
  EXPECT_THAT(done.out, HasSubstr("(Scalai: from 16.4 kB)"));
  EXPECT_THAT(read_all(cluster),
              HasSubstr("# Measured: row bytes, bytes, seconds packed, gathered, in place\n#   64, "));
}

}  // namespace
}  // namespace scalai::testing
