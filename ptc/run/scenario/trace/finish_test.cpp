#include "ptc/run/scenario/trace/internal/finish.h"

#include "gtest/gtest.h"
#include "ptc/base/status.h"
#include "ptc/run/scenario/trace/internal/rate_files.h"
#include "ptc/run/scenario/trace/internal/reading.h"

namespace scalai::trace {
namespace {

Reading reading_with(const std::vector<TraceOption>& options, TraceContent content,
                     const std::vector<std::string>& set = {}) {
  Reading reading;
  reading.content = content;
  reading.source = "f.csv";
  reading.summary.format = "test";
  reading.options = OptionValues::parse("test", options, set, reading.problems);
  return reading;
}

TEST(Finish, TimesCountFromTheFirstJobAndDeadlinesWithThem) {
  Reading reading = reading_with(with_job_options({}, "first"), TraceContent::kJobs);
  for (const double at_s : {1000.0, 400.0}) {
    policy::Job job = duration_job(std::to_string(at_s), at_s, 1, 5);
    job.deadline_s = at_s + 100;
    EXPECT_TRUE(reading.add({"f.csv", 1}, job));
  }
  const Window window = read_window(reading);
  const auto got = finish(std::move(reading), window);
  ASSERT_TRUE(got.ok()) << message_of(got.status());
  EXPECT_EQ(got->workload.jobs[0].submit_s, 0);
  EXPECT_EQ(got->workload.jobs[0].deadline_s, 100);
  EXPECT_EQ(got->workload.jobs[1].submit_s, 600);
  EXPECT_EQ(got->summary.span_s, 600);
}

// 3 jobs of 100 s on 2 GPUs each are 600 GPU-s; half of 4 GPUs gives that in 300 s, where the trace takes 1,000.
// Deadlines stay as far behind.
TEST(Finish, LoadMovesSubmissionsTogether) {
  Reading reading = reading_with(with_job_options({}, "first"), TraceContent::kJobs, {"load=0.5", "load-gpus=4"});
  for (const double at_s : {0.0, 200.0, 1000.0}) {
    policy::Job job = duration_job(std::to_string(at_s), at_s, 2, 100);
    job.deadline_s = at_s + 700;
    EXPECT_TRUE(reading.add({"f.csv", 1}, job));
  }
  const Window window = read_window(reading);
  const auto got = finish(std::move(reading), window);
  ASSERT_TRUE(got.ok()) << message_of(got.status());
  const std::vector<policy::Job>& jobs = got->workload.jobs;
  EXPECT_EQ(jobs[0].submit_s, 0);
  EXPECT_NEAR(jobs[1].submit_s, 60, 1e-9);
  EXPECT_NEAR(jobs[2].submit_s, 300, 1e-9);
  for (const policy::Job& job : jobs) EXPECT_NEAR(job.deadline_s - job.submit_s, 700, 1e-9);
  EXPECT_NEAR(got->summary.span_s, 300, 1e-9);
  ASSERT_EQ(got->summary.notes.size(), 1u);
  EXPECT_EQ(got->summary.notes[0],
            "submissions are 0.3 times as far apart as in the trace: a load of 0.5 on 4 GPUs, before it was 0.15");
}

TEST(Finish, LoadIsRefusedWhereItMeansNothing) {
  const auto message = [](const std::vector<policy::Job>& jobs) {
    Reading reading = reading_with(with_job_options({}, "first"), TraceContent::kJobs, {"load=0.5", "load-gpus=4"});
    for (const policy::Job& job : jobs) EXPECT_TRUE(reading.add({"f.csv", 1}, job));
    const Window window = read_window(reading);
    return message_of(finish(std::move(reading), window).status());
  };
  EXPECT_EQ(message({duration_job("a", 5, 1, 10), duration_job("b", 5, 1, 10)}),
            "f.csv: load needs jobs that are submitted at two times at least");
  policy::Job unknown = duration_job("b", 9, 1, 10);
  unknown.duration_s = -1;
  EXPECT_EQ(message({duration_job("a", 5, 1, 10), unknown}),
            "f.csv: load needs the duration of every job, which 1 job does not have");
  for (const std::vector<std::string>& set :
       {std::vector<std::string>{"load=0.5"}, {"load-gpus=4"}, {"load=1e-300", "load-gpus=4"}}) {
    Reading alone = reading_with(with_job_options({}, "first"), TraceContent::kJobs, set);
    read_window(alone);
    EXPECT_EQ(alone.problems.count(), 1) << set[0];
  }
}

TEST(Finish, ANoticeThatIsPendingWhenTheWindowOpensIsKept) {
  Reading reading = reading_with(with_host_options({}, "names"), TraceContent::kHosts, {"from=100s", "notice=30s"});
  reading.origin = 0;
  for (const char* name : {"a", "b"}) reading.change({"f.csv", 1}, 0, true, name);
  reading.change({"f.csv", 2}, 90, false, "a");
  reading.change({"f.csv", 3}, 120, false, "b");
  const Window window = read_window(reading);
  const auto got = finish(std::move(reading), window);
  ASSERT_TRUE(got.ok()) << message_of(got.status());
  EXPECT_EQ(got->hosts.availability.up, (std::vector<uint8_t>{0, 1}));
  const auto& events = got->hosts.availability.events;
  ASSERT_EQ(events.size(), 2U);
  EXPECT_EQ(events[0].kind, policy::FleetEvent::Kind::kNotice);
  EXPECT_EQ(events[0].at_s, 0);
  EXPECT_EQ(events[0].until_s, 20);
  EXPECT_EQ(events[1].at_s, 20);
}

// Notice is 120 s: a is told at 1000, when it comes, behind that; b, there from 0, at 940; c, gone at once, never.
TEST(Finish, NobodyHearsOfAHostBeforeItComes) {
  Reading reading = reading_with(with_host_options({}, "names"), TraceContent::kHosts, {"notice=120s"});
  reading.origin = 0;
  reading.change({"f.csv", 1}, 0, true, "b");
  for (const char* name : {"a", "c"}) reading.change({"f.csv", 2}, 1000, true, name);
  reading.change({"f.csv", 3}, 1000, false, "c");
  for (const char* name : {"a", "b"}) reading.change({"f.csv", 4}, 1060, false, name);
  const Window window = read_window(reading);
  const auto got = finish(std::move(reading), window);
  ASSERT_TRUE(got.ok()) << message_of(got.status());
  std::vector<std::string> told;
  bool a_came = false;
  for (const policy::FleetEvent& event : got->hosts.availability.events) {
    for (const HostId host : event.hosts) {
      const std::string& name = got->hosts.hosts[static_cast<size_t>(host.value)];
      a_came = a_came || (event.kind == policy::FleetEvent::Kind::kUp && name == "a");
      if (event.kind != policy::FleetEvent::Kind::kNotice) continue;
      EXPECT_EQ(event.until_s, 1060);
      EXPECT_TRUE(a_came || name != "a");
      told.push_back(name + " " + std::to_string(static_cast<int>(event.at_s)));
    }
  }
  EXPECT_EQ(told, (std::vector<std::string>{"b 940", "a 1000"}));
}

TEST(Finish, PlacesAreTakenFromTheLowest) {
  Reading reading = reading_with(with_host_options({}, "slots"), TraceContent::kHosts);
  reading.origin = 0;
  for (const char* name : {"a", "b", "c"}) reading.change({"f.csv", 1}, 0, true, name);
  reading.change({"f.csv", 2}, 10, false, "b");
  reading.change({"f.csv", 3}, 10, false, "a");
  reading.change({"f.csv", 4}, 20, true, "d");
  reading.change({"f.csv", 5}, 30, true, "e");
  const Window window = read_window(reading);
  const auto got = finish(std::move(reading), window);
  ASSERT_TRUE(got.ok());
  const auto& events = got->hosts.availability.events;
  ASSERT_EQ(events.size(), 3U);
  EXPECT_EQ(events[0].hosts, (std::vector<HostId>{HostId(1), HostId(0)}));
  EXPECT_EQ(events[1].hosts, (std::vector<HostId>{HostId(0)}));
  EXPECT_EQ(events[2].hosts, (std::vector<HostId>{HostId(1)}));
  EXPECT_EQ(got->hosts.hosts.size(), 3U);
}

// A cluster of two hosts under a trace of three: what happens to the third is left out, and so are events of it alone.
TEST(Finish, TheFirstHostsOfMore) {
  Reading reading = reading_with(with_host_options({}, "slots"), TraceContent::kHosts, {"most-hosts=2"});
  reading.origin = 0;
  for (const char* name : {"a", "b", "c"}) reading.change({"f.csv", 1}, 0, true, name);
  reading.change({"f.csv", 2}, 10, false, "c");
  for (const char* name : {"a", "b"}) reading.change({"f.csv", 3}, 20, false, name);
  const Window window = read_window(reading);
  const auto got = finish(std::move(reading), window);
  ASSERT_TRUE(got.ok()) << message_of(got.status());
  EXPECT_EQ(got->hosts.hosts.size(), 2U);
  EXPECT_EQ(got->hosts.availability.up.size(), 2U);
  ASSERT_EQ(got->hosts.availability.events.size(), 1U);
  EXPECT_EQ(got->hosts.availability.events[0].at_s, 20);
  EXPECT_EQ(got->hosts.availability.events[0].hosts.size(), 2U);
  ASSERT_EQ(got->summary.notes.size(), 1U);
  EXPECT_EQ(got->summary.notes[0], "hosts beyond the first 2 of 3 are left out");
}

TEST(Options, ListsAndKinds) {
  Problems problems;
  const std::vector<TraceOption> options{{"a", "", ""}, {"b", "7", ""}, {"c", "1min", ""}};
  const OptionValues values = OptionValues::parse("test", options, {"a=x+ y +z"}, problems);
  EXPECT_EQ(values.list("a"), (std::vector<std::string>{"x", "y", "z"}));
  EXPECT_EQ(values.count("b", 0, 10, problems), 7);
  EXPECT_EQ(values.seconds("c", problems), 60);
  EXPECT_TRUE(values.given("a") && values.has("b") && !values.has("d"));
  EXPECT_TRUE(problems.empty());
  EXPECT_EQ(values.number("b", 8, 9, problems), 8);
  EXPECT_EQ(values.choice("a", {"p", "q"}, problems), "p");
  EXPECT_EQ(problems.count(), 2);
}

TEST(RateFiles, UnknownFormat) { EXPECT_EQ(exit_code_of(read_rates("csv", "x").status()), 3); }

}  // namespace
}  // namespace scalai::trace
