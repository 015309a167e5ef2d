#include "ptc/report/jobs_trace.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "ptc/report/testing/read_trace.h"

namespace scalai::report {
namespace jobs_trace_test {

using policy::FleetEvent;
using policy::GpuType;
using policy::JobId;
using policy::Placement;
using testing::ReadTrace;
using testing::ReadTrack;
using testing::slice_texts;
using Texts = std::vector<std::string>;
using Values = std::vector<std::pair<uint64_t, double>>;

std::string instant_texts(const ReadTrack& track) {
  std::string texts;
  for (const auto& [at, name] : track.instants)
    texts += fmt::format("{}{} {}", texts.empty() ? "" : "; ", static_cast<double>(at) / 1e9, name);
  return texts;
}

Placement on(const std::vector<int>& hosts, int gpus = 2) {
  Placement placement{.type = GpuType(0), .hosts = {}};
  for (const int host : hosts) placement.hosts.push_back({HostId(host), gpus});
  return placement;
}

// Two hosts of two GPUs; host 1 fails at 50 and is back at 70. Job "a" takes both, loses them, and goes on with one.
struct Example {
  Example() {
    fleet.types = {{"v100", 2}};
    fleet.hosts = {{GpuType(0), 2}, {GpuType(0), 2}};
    workload.jobs.resize(3);
    for (int j = 0; j < 3; ++j) {
      policy::Job& job = workload.jobs[static_cast<size_t>(j)];
      job.name = std::string(1, static_cast<char>('a' + j));
      job.submit_s = 10.0 * j;
      job.gpus = 2;
    }
    FleetEvent failed{.at_s = 50, .kind = FleetEvent::Kind::kFailed, .hosts = {HostId(1)}};
    failed.cause = "Faulty GPU";
    FleetEvent price{.at_s = 60, .kind = FleetEvent::Kind::kPrice};
    price.type = GpuType(0);
    price.price = 3;
    const FleetEvent up{.at_s = 70, .kind = FleetEvent::Kind::kUp, .hosts = {HostId(1)}};
    const FleetEvent late{.at_s = 170, .kind = FleetEvent::Kind::kTaken, .hosts = {HostId(0)}};
    availability.events = {failed, price, up, late};
    outcome.end_s = 100;
    outcome.use = {{0, 4, 0, 4, 1, 0}, {5, 4, 4, 0, 1, 0}, {10, 4, 4, 0, 1, 1}, {50, 2, 0, 2, 1, 1}};
  }
  std::string trace(std::string* placements = nullptr) const {
    JobsTrace trace(workload, fleet, availability);
    trace.placed(0, JobId(0), on({0, 1}));
    trace.training(5, JobId(0));
    trace.placed(50, JobId(0), Placement{});  // lost
    trace.placed(50, JobId(0), on({0}));
    trace.training(60, JobId(0));
    trace.placed(80, JobId(1), on({1}, 1));
    trace.ended(90, JobId(0));
    std::string bytes = trace.finish(outcome);
    if (placements != nullptr) *placements = trace.placements_csv();
    return bytes;
  }
  policy::Workload workload;
  policy::Fleet fleet;
  policy::Availability availability;
  policy::Outcome outcome;
};

TEST(JobsTrace, JobsAreSlicesOfTheirOwnAndOnTheirHosts) {
  const Example example;
  const std::string bytes = example.trace();
  EXPECT_EQ(bytes, example.trace());
  const ReadTrace trace(bytes);
  EXPECT_EQ(trace.track("a").group, "jobs");
  EXPECT_EQ(slice_texts(trace.track("a")), (Texts{"changes on 4 GPUs 0-5", "trains on 4 GPUs 5-50",
                                                  "changes on 2 GPUs 50-60", "trains on 2 GPUs 60-90"}));
  EXPECT_EQ(trace.track("a").slices[1].notes, (std::map<std::string, std::string>{{"GPUs", "4"}, {"type", "v100"}}));
  EXPECT_EQ(slice_texts(trace.track("b")), (Texts{"waits 10-80", "changes on 1 GPU 80-100"}));
  EXPECT_EQ(slice_texts(trace.track("c")), Texts{"waits 20-100"});
  EXPECT_EQ(trace.track("h0").group, "hosts");
  EXPECT_EQ(slice_texts(trace.track("h0")), (Texts{"a: changes 0-5", "a 5-50", "a: changes 50-60", "a 60-90"}));
  EXPECT_EQ(slice_texts(trace.track("h1")), (Texts{"a: changes 0-5", "a 5-50", "down 50-70", "b: changes 80-100"}));
}

TEST(JobsTrace, PlacementsAreTheSameStretchesAsRows) {
  const Example example;
  std::string placements;
  (void)example.trace(&placements);
  EXPECT_EQ(placements,
            "from_s,to_s,job,what,gpus,hosts,devices,reason\n0,5,a,changes,4,h0:2 h1:2,h0:0-1 h1:0-1,ready\n"
            "5,50,a,trains,4,h0:2 h1:2,h0:0-1 h1:0-1,host lost\n50,60,a,changes,2,h0:2,h0:0-1,ready\n"
            "10,80,b,waits,0,,,started\n60,90,a,trains,2,h0:2,h0:0-1,completed\n"
            "80,100,b,changes,1,h1:1,h1:0,end of run\n20,100,c,waits,0,,,end of run\n");
}

TEST(JobsTrace, RowsSayWhyAStretchEnded) {
  Example example;
  example.workload.jobs.resize(2);
  example.outcome.jobs = {{.job = JobId(0), .end = policy::JobEnd::kRefused}, {.job = JobId(1)}};
  example.outcome.jobs[1].end = policy::JobEnd::kUnfinished;
  JobsTrace trace(example.workload, example.fleet, example.availability);
  trace.ended(9, JobId(0));
  trace.placed(20, JobId(1), on({1}));
  trace.training(20, JobId(1));
  trace.placed(30, JobId(1), Placement{});
  trace.placed(30, JobId(1), on({0}));  // at one moment
  trace.placed(35, JobId(1), on({0}, 1));
  trace.placed(40, JobId(1), on({0}, 1));
  trace.training(42, JobId(1));
  trace.placed(45, JobId(1), Placement{});
  trace.placed(47, JobId(1), on({1}, 1));
  trace.placed(50, JobId(1), Placement{});
  trace.ended(100, JobId(1));
  (void)trace.finish(example.outcome);
  EXPECT_EQ(trace.placements_csv(),
            "from_s,to_s,job,what,gpus,hosts,devices,reason\n0,9,a,waits,0,,,refused\n10,20,b,waits,0,,,started\n"
            "20,30,b,trains,2,h1:2,h1:0-1,moved\n30,35,b,changes,2,h0:2,h0:0-1,resized\n"
            "35,40,b,changes,1,h0:1,h0:0,changed\n40,42,b,changes,1,h0:1,h0:0,ready\n"
            "42,45,b,trains,1,h0:1,h0:0,preempted\n45,47,b,waits,0,,,started\n47,50,b,changes,1,h1:1,h1:0,host lost\n"
            "50,100,b,waits,0,,,end of run\n");
}

TEST(JobsTrace, HostsAreUpInRows) {
  Example example;
  EXPECT_EQ(hosts_csv(example.fleet, example.availability, 100),
            "host,type,gpus,up_from_s,up_to_s\nh0,v100,2,0,100\nh1,v100,2,0,50\nh1,v100,2,70,100\n");
  example.availability.up = {0, 1};
  EXPECT_EQ(hosts_csv(example.fleet, example.availability, 60), "host,type,gpus,up_from_s,up_to_s\nh1,v100,2,0,50\n");
}

TEST(JobsTrace, TheQueuePricesAndHostsAreCountersAndInstants) {
  const ReadTrace trace(Example().trace());
  EXPECT_EQ(trace.track("waiting jobs").group, "cluster");
  EXPECT_EQ(trace.track("waiting jobs").unit, "jobs");
  EXPECT_EQ(trace.track("waiting jobs").values, (Values{{0, 0}, {10'000'000'000, 1}}));
  EXPECT_EQ(trace.track("GPUs up").values, (Values{{0, 4}, {50'000'000'000, 2}}));
  EXPECT_EQ(trace.track("GPUs training").values, (Values{{0, 0}, {5'000'000'000, 4}, {50'000'000'000, 0}}));
  EXPECT_EQ(trace.track("price of v100").values, (Values{{0, 2}, {60'000'000'000, 3}}));
  EXPECT_EQ(trace.track("arrivals and losses").group, "events");
  EXPECT_EQ(instant_texts(trace.track("arrivals and losses")), "50 h1 failed (Faulty GPU); 70 h1 up");
}

// Beyond the bound the stretches with the most GPU time stay.
TEST(JobsTrace, OfTooManyStretchesTheLargestAreShown) {
  Example example;
  example.availability.events.clear();
  JobsTrace trace(example.workload, example.fleet, example.availability, 500);
  // 3 slices a pair of stretches: one trains on a host for 2 s, one waits for 1 s.
  constexpr int kPairs = 200;
  for (int i = 0; i < kPairs; ++i) {
    trace.placed(3.0 * i, JobId(0), on({0}));
    trace.training(3.0 * i, JobId(0));
    trace.placed(3.0 * i + 2, JobId(0), Placement{});
  }
  example.outcome.end_s = 3.0 * kPairs;
  example.workload.jobs[1].submit_s = example.workload.jobs[2].submit_s = example.outcome.end_s;
  const ReadTrace read(trace.finish(example.outcome));
  size_t trains = 0, waits = 0;
  for (const testing::ReadSlice& slice : read.track("a").slices) (slice.name == "waits" ? waits : trains) += 1;
  EXPECT_EQ(trains, size_t{kPairs});
  EXPECT_LE(2 * trains + waits, 500U);
  EXPECT_EQ(instant_texts(read.track("left out")),
            fmt::format("0 {} stretches with less GPU time", size_t{kPairs} - waits));
}

TEST(RecoveryTrace, HostsPhasesAndChanges) {
  const Example example;
  const policy::RecoveryResult result{.to_s = 100,
                                      .phases = {{.from_s = 0, .live = 2, .used = 2, .samples_per_s = 0},
                                                 {.from_s = 5, .live = 2, .used = 2, .samples_per_s = 8},
                                                 {.from_s = 50, .live = 1, .used = 1, .samples_per_s = 0},
                                                 {.from_s = 60, .live = 1, .used = 1, .samples_per_s = 4},
                                                 {.from_s = 70, .live = 2, .used = 1, .samples_per_s = 4}}};
  const std::string bytes = recovery_trace("llm", 2, example.availability, result);
  EXPECT_EQ(bytes, recovery_trace("llm", 2, example.availability, result));
  const ReadTrace trace(bytes);
  EXPECT_EQ(slice_texts(trace.track("llm")),
            (Texts{"does not train 0-5", "trains on 2 hosts 5-50", "does not train 50-60", "trains on 1 host 60-100"}));
  EXPECT_EQ(instant_texts(trace.track("changes")), "0 0 hosts → 2; 50 2 hosts → 1");
  EXPECT_EQ(instant_texts(trace.track("arrivals and losses")), "50 h1 failed (Faulty GPU); 70 h1 up");
  EXPECT_EQ(trace.track("hosts up").values, (Values{{0, 2}, {50'000'000'000, 1}, {70'000'000'000, 2}}));
  EXPECT_EQ(trace.track("throughput").unit, "samples/s");
  EXPECT_EQ(slice_texts(trace.track("h1")), Texts{"down 50-70"});
  EXPECT_TRUE(trace.track("h0").slices.empty());
}

}  // namespace jobs_trace_test
}  // namespace scalai::report
