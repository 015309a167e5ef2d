#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ptc/run/scenario/trace/import.h"
#include "sim/jobs/scenario/testing/support.h"

namespace scalai::scenario {
namespace sched_slices_test {

using ::testing::HasSubstr;
using testing::kHead;

class ScheduleSlices : public testing::ClusterScenarios {
 protected:
  void SetUp() override {
    ClusterScenarios::SetUp();
    write(
        "s/jobs.csv",
        "scalai-trace,1,jobs\nsubmit_s,gpus,duration_s,mig,type\n0,0.14,60,,t\n1,1,60,3g,t\n2,2,60,,t\n3,1,60,7g,t\n");
    write("s/table.csv", "type,gpu,gpus,iterations_per_s\nt,h100-80g,1,14\nt,h100-80g,2,20\n");
  }
  std::string with(const std::string& gpu, const std::string& more = "") const {
    return kHead + "cluster { hosts { count: 2 gpus: 4 gpu: \"" + gpu +
           "\" nic: \"10Gbps\" price_per_hour: 28 } }\nworkload { file: \"jobs.csv\" }\n" + more;
  }
};

TEST_F(ScheduleSlices, CountWhereJobsAskForParts) {
  const auto loaded = load(with("h100-80g"));
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  const testing::Loaded& scenario = **loaded;
  EXPECT_EQ(scenario.many().fleet.per_gpu, 7);
  EXPECT_EQ(scenario.many().fleet.gpus(), 2 * 4 * 7);
  EXPECT_EQ(scenario.many().fleet.types[0].price_per_gpu_hour, 7);
  std::vector<int> gpus;
  for (const policy::Job& job : scenario.many().workload.jobs) gpus.push_back(job.gpus);
  EXPECT_EQ(gpus, (std::vector<int>{1, 3, 14, 7}));
  for (const policy::Job& job : scenario.many().workload.jobs)
    EXPECT_EQ(scenario.parts.throughput->rate(job, policy::GpuType(0), job.gpus, 0).per_s, 1) << "the trace's run time";
}

TEST_F(ScheduleSlices, TablesAreOfWholeGpus) {
  const auto loaded = load(with("h100-80g", "throughputs { file: \"table.csv\" }\n"));
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  std::vector<double> rates;
  for (const policy::Job& job : (*loaded)->many().workload.jobs) {
    rates.push_back((*loaded)->parts.throughput->rate(job, policy::GpuType(0), job.gpus, 0).per_s);
    const policy::Placement placement{.type = policy::GpuType(0), .hosts = {{HostId(0), job.gpus}}};
    EXPECT_EQ((*loaded)->parts.throughput->placed_rate(job, placement, 0).per_s, rates.back());
  }
  EXPECT_EQ(rates, (std::vector<double>{14 / 7.0, 14 * 3 / 7.0, 20, 14}));
  EXPECT_THAT((*loaded)->parts.throughput->description(), HasSubstr("compute slices, of 7"));
}

TEST_F(ScheduleSlices, NeedWhatServesThem) {
  EXPECT_THAT(problems(with("v100-16g")), HasSubstr("2 jobs ask for a part of a GPU, and \"v100-16g\" has none"));
  EXPECT_THAT(problems(kHead + "cluster { hosts { gpus: 4 gpu: \"h100-80g\" nic: \"10Gbps\" } hosts { gpus: 4 gpu: "
                               "\"a100-40g\" nic: \"10Gbps\" } }\nworkload { file: \"jobs.csv\" }\n"),
              HasSubstr("on a cluster of 2 GPU kinds"));
  const auto refuses = [&](const std::string& more, const std::string& text) {
    EXPECT_THAT(problems(with("h100-80g", more)), HasSubstr(text)) << more;
  };
  refuses("policy { name: \"srtf\" }\n", "5:16: error: srtf does not serve jobs that ask for parts of GPUs");
  refuses("policy { name: \"srtf\" }\n", "hint: these do, without elastic and packing: fifo, fifo-backfill, sjf");
  refuses("policy { name: \"sjf\" set: \"elastic=true\" }\n",
          "sjf does not serve jobs that ask for parts of GPUs (so set)");
  refuses("policy { name: \"gavel-max-min\" }\n", "gavel-max-min does not serve");
  refuses("policy { exec: \"cat\" }\n", "policy programs do not serve jobs");
  refuses("changes { preset: \"pollux\" }\n", "presets count whole GPUs");
  refuses("virtual_clusters { quotas { name: \"*\" gpus: 4 } }\n", "quotas count whole GPUs");
  EXPECT_TRUE(load(with("h100-80g", "policy { name: \"sjf\" }\nestimates { uniform: 0.2 }\n")).ok());
}

TEST_F(ScheduleSlices, NobodyElseCountsInThem) {
  write("s/jobs.csv", "scalai-trace,1,jobs\nsubmit_s,gpus,duration_s,mig\n0,1,60,\n1,1,60,7g\n");
  const auto loaded = load(with("h100-80g", "policy { name: \"srtf\" }\n"));
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ((*loaded)->many().fleet.per_gpu, 1);
  EXPECT_EQ((*loaded)->many().fleet.gpus(), 8);
}

TEST_F(ScheduleSlices, InTraces) {
  const auto wrong = [&](const std::string& row, const std::string& text) {
    write("s/wrong.csv", "scalai-trace,1,jobs\nsubmit_s,gpus,duration_s,mig\n" + row + "\n");
    const auto read = trace::import_trace("scalai", folder_ + "/s/wrong.csv", {});
    EXPECT_THAT(message_of(read.status()), HasSubstr(text)) << row;
  };
  wrong("0,1,60,5g", "mig: \"5g\" is no profile of 1g, 2g, 3g, 4g, 7g");
  wrong("0,2,60,3g", "gpus: is 2 with mig 3g: a job has slices of one GPU");
  wrong("0,0.5,60,3g", "mig: is given, and so is a share of a GPU (0.5)");
  wrong("0,0,60,", "gpus: \"0\"");
  wrong("0,1.5,60,", "gpus: \"1.5\"");
  const auto read = trace::import_trace("scalai", folder_ + "/s/jobs.csv", {});
  ASSERT_TRUE(read.ok()) << read.status();
  const std::string text = trace::export_trace(*read);
  write("s/again.csv", text);
  const auto again = trace::import_trace("scalai", folder_ + "/s/again.csv", {});
  ASSERT_TRUE(again.ok()) << again.status() << text;
  EXPECT_EQ(again->summary.checksum, read->summary.checksum);
  EXPECT_EQ(again->workload.jobs[1].slices, 3);
  EXPECT_EQ(again->workload.jobs[3].slices, 0);
}

}  // namespace sched_slices_test
}  // namespace scalai::scenario
