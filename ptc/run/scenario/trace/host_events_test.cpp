#include <set>

#include "ptc/run/policy/testing/support.h"
#include "ptc/run/scenario/trace/internal/formats.h"
#include "ptc/run/scenario/trace/testing/test_files.h"

namespace scalai::trace {
namespace host_events_test {

using policy::testing::data_hint;
using policy::testing::data_path;
using testing::has;
using Kind = policy::FleetEvent::Kind;
using Up = std::vector<uint8_t>;

using HostEvents = testing::TraceFiles;

const std::string kRows = "0,add,a\n0,add,b\n1000,remove,a\n1000,remove,b\n1000,add,c\n5000,remove,c\n9000,add,d\n";

TEST_F(HostEvents, InstancesTakePlaces) {
  const Imported got = good("bamboo", kRows);
  EXPECT_EQ(got.hosts.hosts, (std::vector<std::string>{"host-0", "host-1"}));
  const policy::Availability& there = got.hosts.availability;
  EXPECT_EQ(there.up, (Up{1, 1}));
  ASSERT_EQ(there.events.size(), 4U);
  EXPECT_EQ(there.events[0].kind, Kind::kTaken);
  EXPECT_EQ(there.events[0].at_s, 1);
  EXPECT_EQ(there.events[0].hosts, (std::vector<HostId>{HostId(0), HostId(1)}));
  EXPECT_EQ(there.events[0].cause, "preemption");
  EXPECT_EQ(there.events[1].kind, Kind::kUp);
  EXPECT_EQ(there.events[1].hosts, (std::vector<HostId>{HostId(0)}));
  EXPECT_EQ(there.events[2].hosts, (std::vector<HostId>{HostId(0)}));
  EXPECT_EQ(there.events[3].at_s, 9);
  EXPECT_EQ(got.summary.span_s, 9);
  EXPECT_EQ(got.summary.sizes, (std::map<int, int64_t>{{0, 4}, {1, 4}, {2, 1}}));
}

TEST_F(HostEvents, OrAreHostsOfTheirOwn) {
  const Imported got = good("oobleck", kRows, {"hosts=names"});
  EXPECT_EQ(got.hosts.hosts, (std::vector<std::string>{"a", "b", "c", "d"}));
  EXPECT_EQ(got.hosts.availability.up, (Up{1, 1, 0, 0}));
  EXPECT_EQ(got.hosts.availability.events[1].hosts, (std::vector<HostId>{HostId(2)}));
}

TEST_F(HostEvents, RemovalsWithNoticeOrAsFailures) {
  const Imported noticed = good("bamboo", kRows, {"notice=2s"});
  const auto& events = noticed.hosts.availability.events;
  ASSERT_EQ(events.size(), 6U);
  EXPECT_EQ(events[0].kind, Kind::kNotice);
  EXPECT_EQ(events[0].at_s, 0);  // 1 s before the trace begins, so at its beginning
  EXPECT_EQ(events[0].until_s, 1);
  EXPECT_EQ(events[3].kind, Kind::kNotice);
  EXPECT_EQ(events[3].at_s, 3);
  EXPECT_EQ(events[3].until_s, 5);
  const Imported failed = good("bamboo", kRows, {"removal=failed", "notice=2s"});
  ASSERT_EQ(failed.hosts.availability.events.size(), 4U);  // a failure has no notice
  EXPECT_EQ(failed.hosts.availability.events[0].kind, Kind::kFailed);
  EXPECT_EQ(failed.hosts.availability.events[0].cause, "failure");
}

TEST_F(HostEvents, AWindowStartsWithWhatIsUpThen) {
  const Imported got = good("bamboo", kRows, {"from=2s", "until=9s"});
  EXPECT_EQ(got.hosts.availability.up, (Up{1, 0}));
  ASSERT_EQ(got.hosts.availability.events.size(), 1U);
  EXPECT_EQ(got.hosts.availability.events[0].at_s, 3);
  EXPECT_EQ(got.summary.span_s, 7);
}

TEST_F(HostEvents, BadRows) {
  const std::string message =
      bad("bamboo", "0,add,a\n5,add,a\n6,remove,b\n4,add,c\n7,grow,d\n8,add,\nx,add,e\n1,2\n-1,add,f\n");
  for (const char* part : {":2: host \"a\" is there already", ":3: host \"b\" is gone already",
                           ":4: time_ms: is earlier", ":5: event: \"grow\"", ":6: node: is empty", ":7: time_ms: \"x\"",
                           ":8: is a row of another form", ":9:", "8 problems"}) {
    EXPECT_TRUE(has(message, part)) << part << "\n" << message;
  }
  EXPECT_TRUE(has(bad("bamboo", ""), "no host is left"));
}

TEST_F(HostEvents, CountsHaveNoIdentities) {
  const Imported got = good("bamboo",
                            "2021-12-10, 13:07:45, 3\n2021-12-10, 13:09:45, 1\n2021-12-10, 13:08:45, 4\n"
                            "2021-12-10, 13:09:45, 2\n");
  EXPECT_EQ(got.hosts.hosts.size(), 4U);
  EXPECT_EQ(got.hosts.availability.up, (Up{1, 1, 1, 0}));
  ASSERT_EQ(got.hosts.availability.events.size(), 2U);
  EXPECT_EQ(got.hosts.availability.events[0].at_s, 60);
  EXPECT_EQ(got.hosts.availability.events[1].hosts,
            (std::vector<HostId>{HostId(3), HostId(2)}));  // the later row holds
  ASSERT_EQ(got.summary.notes.size(), 2U);
  EXPECT_TRUE(has(got.summary.notes[1], "1 rows were earlier"));
  const Imported milliseconds = good("bamboo", "0,2\n30000,1\n60000,1\n");
  EXPECT_EQ(milliseconds.summary.span_s, 60);
  EXPECT_EQ(milliseconds.summary.sizes, (std::map<int, int64_t>{{1, 30}, {2, 30}}));
}

const std::string kHeader = "timestamp_utc,event,instance,num_gpus,gpu_type,zone\n";

TEST_F(HostEvents, PollsOfInstances) {
  const Imported got = good("aws-spot-availability", kHeader +
                                                         "2020-03-01T10:00:00Z,created,i0,1,v100,z\n"
                                                         "2020-03-01T10:00:10Z,alive,i0,1,v100,z\n"
                                                         "2020-03-01T10:00:20Z,create_failed,,,,\n"
                                                         "2020-03-01T10:00:25Z,preempted,i1,,,z\n"
                                                         "2020-03-01T10:00:30Z,preempted,i0,1,v100,z\n"
                                                         "2020-03-01T10:00:40Z,preempted,i0,1,v100,z\n"
                                                         "2020-03-01T10:00:50Z,deleted,i0,,,\n"
                                                         "2020-03-01T10:01:00Z,created,i0,1,v100,z\n");
  EXPECT_EQ(got.hosts.hosts.size(), 1U);
  ASSERT_EQ(got.hosts.availability.events.size(), 2U);
  EXPECT_EQ(got.hosts.availability.events[0].at_s, 30);  // the first of the repeated ones
  EXPECT_EQ(got.hosts.availability.events[1].at_s, 60);
  EXPECT_EQ(got.summary.dropped, (std::map<std::string, int64_t>{{"create_failed: not granted", 1},
                                                                 {"of an instance that was never there", 1}}));
  ASSERT_EQ(got.summary.notes.size(), 1U);
  EXPECT_TRUE(has(got.summary.notes[0], "2 rows say preempted or deleted"));
}

TEST_F(HostEvents, PollsOfSeveralKindsAreNotMixed) {
  const std::string rows = kHeader +
                           "2020-03-01T10:00:00Z,created,i0,1,v100,z\n2020-03-01T10:00:01Z,created,i1,8,k80,z\n"
                           "2020-03-01T10:00:02Z,preempted,i1,8,k80,z\n";
  EXPECT_TRUE(
      has(bad("aws-spot-availability", rows), "has instances of 2 kinds: 1 x v100, 8 x k80\n  hint: choose one"));
  const Imported one = good("aws-spot-availability", rows, {"gpu=k80"});
  EXPECT_EQ(one.summary.dropped.at("of another kind or zone"), 1);
  EXPECT_EQ(one.hosts.availability.events.at(0).at_s, 1);
  const std::string message = bad("aws-spot-availability", kHeader +
                                                               "2020-03-01T10:00:00Z,born,i0,1,v100,z\n"
                                                               "2020-03-01T10:00:00Z,created,i0,0,v100,z\n"
                                                               "2020-02-01T10:00:00Z,created,i0,1,v100,z\n");
  for (const char* part : {":2: event: \"born\"", ":3: num_gpus: \"0\"", ":4: timestamp_utc: is earlier"}) {
    EXPECT_TRUE(has(message, part)) << part << "\n" << message;
  }
}

// POLICIES: 11.37 h, 24.0 of 32 on average, 167 removals in 79 instants.
TEST(PublicHosts, BambooP3) {
  const std::string path = policy::testing::data_path("bamboo/p3-trace.csv");
  if (path.empty()) GTEST_SKIP() << policy::testing::data_hint("bamboo");
  const auto got = import_trace("bamboo", path);
  ASSERT_TRUE(got.ok()) << message_of(got.status());
  EXPECT_EQ(got->summary.rows, 344);
  EXPECT_EQ(got->hosts.hosts.size(), 32U);
  EXPECT_NEAR(got->summary.span_s / 3600, 11.37, 0.005);
  double host_seconds = 0;
  for (const auto& [hosts, seconds] : got->summary.sizes) host_seconds += hosts * static_cast<double>(seconds);
  EXPECT_NEAR(host_seconds / got->summary.span_s, 24.0, 0.05);
  size_t removals = 0;
  std::set<double> instants;
  for (const policy::FleetEvent& event : got->hosts.availability.events) {
    if (event.kind != Kind::kTaken) continue;
    removals += event.hosts.size();
    instants.insert(event.at_s);
  }
  EXPECT_EQ(removals, 167U);
  EXPECT_EQ(instants.size(), 79U);
}

TEST(PublicHosts, OthersAsTheirSourcesSay) {
  struct Case {
    const char *format, *file;
    std::vector<std::string> set;
    int64_t rows;
    size_t hosts;
  };
  for (const Case& one :
       {Case{"bamboo", "bamboo/v100x1-east1c.txt", {}, 1477, 80},
        Case{"bamboo", "bamboo/a100x1-east1b.txt", {}, 268, 64}, Case{"oobleck", "oobleck/traces/6h.csv", {}, 45, 30},
        Case{"oobleck", "oobleck/traces/scale_p3-trace.csv", {}, 299, 30},
        Case{"aws-spot-availability", "aws_spot/availability_aws_2020-03-15.csv", {"gpu=v100", "gpus=8"}, 2464, 2},
        Case{"aws-spot-availability",
             "aws_spot/availability_gcp_2020-03-01.csv",
             {"gpu=nvidia-tesla-v100", "gpus=1"},
             4521,
             2}}) {
    const std::string path = policy::testing::data_path(one.file);
    if (path.empty()) GTEST_SKIP() << policy::testing::data_hint(one.file);
    const auto got = import_trace(one.format, path, one.set);
    ASSERT_TRUE(got.ok()) << message_of(got.status());
    EXPECT_EQ(got->summary.rows, one.rows) << one.file;
    EXPECT_EQ(got->hosts.hosts.size(), one.hosts) << one.file;
  }
  const auto inversions = import_trace("bamboo", policy::testing::data_path("bamboo/v100x1-east1c.txt"));
  ASSERT_TRUE(inversions.ok());
  EXPECT_TRUE(has(inversions->summary.notes.at(1), "15 rows were earlier"));
}

}  // namespace host_events_test
}  // namespace scalai::trace
