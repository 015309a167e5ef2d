#include "ptc/run/policy/testing/support.h"
#include "ptc/run/scenario/trace/internal/formats.h"
#include "ptc/run/scenario/trace/testing/test_files.h"

namespace scalai::trace {
namespace {

using policy::testing::data_hint;
using policy::testing::data_path;
using testing::has;
using Kind = policy::FleetEvent::Kind;
using Up = std::vector<uint8_t>;

using DocumentHosts = testing::TraceFiles;

TEST_F(DocumentHosts, SkyPilotTicks) {
  const Imported got = good("skypilot", R"({"metadata": {"gap_seconds": 600, "zone": "a"}, "data": [1, 0, 0, 2]})");
  EXPECT_EQ(got.hosts.hosts, (std::vector<std::string>{"trace/0", "trace/1"}));
  EXPECT_EQ(got.hosts.availability.up, (Up{1, 0}));
  ASSERT_EQ(got.hosts.availability.events.size(), 2U);
  EXPECT_EQ(got.hosts.availability.events[0].at_s, 600);
  EXPECT_EQ(got.hosts.availability.events[1].at_s, 1800);
  EXPECT_EQ(got.summary.span_s, 2400);  // the last tick lasts as long as the others
  EXPECT_EQ(got.summary.rows, 4);
}

TEST_F(DocumentHosts, SkyPilotZonesTogether) {
  const std::string a = file(R"({"metadata": {"gap_seconds": 10}, "data": [1, 0]})", "us-a.json");
  const std::string b = file(R"({"metadata": {"gap_seconds": 4}, "data": [0, 1, 0]})", "us-b.json");
  const auto got = import_traces("skypilot", {a, b});
  ASSERT_TRUE(got.ok()) << message_of(got.status());
  EXPECT_EQ(got->hosts.hosts, (std::vector<std::string>{"us-a/0", "us-b/0"}));
  const auto& events = got->hosts.availability.events;
  ASSERT_EQ(events.size(), 3U);
  EXPECT_EQ(events[0].at_s, 4);
  EXPECT_EQ(events[1].at_s, 8);
  EXPECT_EQ(events[2].at_s, 10);
  EXPECT_EQ(got->summary.span_s, 20);
}

TEST_F(DocumentHosts, BadSkyPilotDocuments) {
  EXPECT_TRUE(has(bad("skypilot", "{"), ":1:2: this is not JSON"));
  EXPECT_TRUE(has(bad("skypilot", R"({"data": [1]})"), "/metadata: gap_seconds: is missing"));
  EXPECT_TRUE(has(bad("skypilot", R"({"metadata": {"gap_seconds": 0}, "data": [1]})"), "\"0\" is no time between"));
  EXPECT_TRUE(has(bad("skypilot", R"({"metadata": {"gap_seconds": 1}, "data": []})"), "data: is no array"));
  const std::string message = bad("skypilot", R"({"metadata": {"gap_seconds": 1}, "data": [1, -1, 0.5, "1", null]})");
  EXPECT_TRUE(has(message, "/data/1: \"-1\" is no count") && has(message, "4 problems")) << message;
}

TEST_F(DocumentHosts, DeepDocumentsAreRefused) {
  const std::string deep = std::string(1'000'000, '[') + std::string(1'000'000, ']');
  EXPECT_TRUE(has(bad("skypilot", R"({"metadata": {"gap_seconds": 1}, "data": [)" + deep + "]}"), "nested more than"));
  const std::string line = std::string(100'000, '[') + std::string(100'000, ']');
  EXPECT_TRUE(has(bad("parcae", R"([0, "add", {"nodes": [)" + line + R"(], "duration": 1}])"), "nested more than"));
}

TEST_F(DocumentHosts, ParcaeReplay) {
  const Imported got = good("parcae",
                            "[0, \"add\", {\"nodes\": [\"node-0\", \"node-1\"], \"duration\": 60000}]\n"
                            "[60000, \"no-op\", {\"nodes\": [], \"duration\": 60000, \"liveput\": [8, 4]}]\n"
                            "[120000, \"remove\", {\"nodes\": [\"node-0\"], \"duration\": 60000}]\n"
                            "[180000, \"migration\", {\"nodes\": [], \"duration\": 60000}]\n");
  EXPECT_EQ(got.hosts.availability.up, (Up{1, 1}));
  ASSERT_EQ(got.hosts.availability.events.size(), 1U);
  EXPECT_EQ(got.hosts.availability.events[0].at_s, 120);
  EXPECT_EQ(got.summary.span_s, 240);
  const Imported counts = good("parcae", "0,1\n1000,3\n60000,2\n");
  EXPECT_EQ(counts.hosts.hosts.size(), 3U);
  EXPECT_EQ(counts.summary.rows, 3);
}

TEST_F(DocumentHosts, BadParcaeRows) {
  const std::string message = bad("parcae",
                                  "[0, \"add\", {\"nodes\": [\"a\"], \"duration\": 1}]\n"
                                  "[5, \"add\", {\"nodes\": [\"a\"], \"duration\": 1}]\n"
                                  "[4, \"add\", {\"nodes\": [], \"duration\": 1}]\n"
                                  "[9, \"grow\", {\"nodes\": [], \"duration\": 1}]\n"
                                  "[9, \"no-op\", {\"nodes\": [\"a\"], \"duration\": 1}]\n"
                                  "[9, \"add\", {\"nodes\": [7]}]\n"
                                  "[9, \"add\"]\nx\n");
  for (const char* part : {":2: host \"a\" is there already", ":3: time_ms: is earlier", ":4: event: \"grow\"",
                           ":5: nodes: an event no-op has nodes", ":6: duration", ":6: nodes: \"7\" is no name",
                           ":7: is no [time_ms", ":8: line 1, column 1: this is not JSON"}) {
    EXPECT_TRUE(has(message, part)) << part << "\n" << message;
  }
  EXPECT_TRUE(has(bad("parcae", "0,1\n5,x\n[0]\n"), ":2: instances: \"x\""));
}

TEST_F(DocumentHosts, TenplexSchedulesInMinutes) {
  const Imported got =
      good("tenplex",
           R"([{"time": 35, "size": 4}, {"time": 35, "size": 2}, {"time": 13, "size": 4}, {"time": 0, "size": 0}])");
  EXPECT_EQ(got.hosts.hosts.size(), 4U);
  ASSERT_EQ(got.hosts.availability.events.size(), 2U);
  EXPECT_EQ(got.hosts.availability.events[0].at_s, 2100);
  EXPECT_EQ(got.hosts.availability.events[0].hosts.size(), 2U);
  EXPECT_EQ(got.hosts.availability.events[1].at_s, 4200);
  EXPECT_EQ(got.summary.span_s, 83 * 60);
  EXPECT_EQ(good("tenplex", R"([{"time": 5, "size": 4}])", {"unit=1s"}).summary.span_s, 5);
}

TEST_F(DocumentHosts, TenplexSchedulesInSteps) {
  const std::string text =
      R"([{"step": 0, "para_conf": {"size": 16, "pp_size": 2, "mp_size": 4}}, {"step": 50, "size": 8}, {"step": 60, "size": 0}])";
  EXPECT_TRUE(has(bad("tenplex", text), "step: the schedule counts steps"));
  const Imported got = good("tenplex", text, {"step=2s"});
  ASSERT_EQ(got.hosts.availability.events.size(), 1U);
  EXPECT_EQ(got.hosts.availability.events[0].at_s, 100);
  EXPECT_EQ(got.summary.span_s, 120);
  EXPECT_TRUE(has(bad("tenplex", R"([{"step": 35, "size": 16}])", {"step=1s"}), "/0: step: the first entry is not at"));
  EXPECT_TRUE(has(bad("tenplex", R"([{"step": 0, "size": 16}, {"step": 0, "size": 1}])", {"step=1s"}),
                  "/1: step: is not after"));
  EXPECT_TRUE(has(bad("tenplex", R"([{"time": 1, "size": 0}, {"time": 1, "size": 2}])"), "/1: follows the end"));
  EXPECT_TRUE(has(bad("tenplex", R"([{"time": -1, "size": 1.5}, 3])"), "/0: size: is missing or no number of GPUs"));
  EXPECT_TRUE(has(bad("tenplex", R"({"jobs": []})"), "is no array of"));
}

std::string fault(const std::string& server, double days, bool starts, const std::string& name) {
  return R"({"node_id": ")" + server + R"(", "event_time": )" + std::to_string(days) + R"(, "event_type": "fault_)" +
         (starts ? "start" : "end") + R"(", "fault_type": {"Level": "Hardware Failure", "Class": ")" + name + "\"}}";
}

// Server a has two faults at once, from day 1 to 2 and 1.5 to 3: it is back on day 3.
TEST_F(DocumentHosts, FaultsOfAServerMayOverlap) {
  const std::string text = "[" + fault("a", 1, true, "GPU") + "," + fault("b", 1, true, "NIC") + "," +
                           fault("a", 1.5, true, "Fan") + "," + fault("a", 2, false, "GPU") + "," +
                           fault("a", 3, false, "Fan") + "," + fault("b", 4, false, "NIC") + "]";
  const Imported got = good("infinitehbd", text, {"servers=3"});
  EXPECT_EQ(got.hosts.hosts, (std::vector<std::string>{"a", "b", "server-2"}));
  EXPECT_EQ(got.hosts.availability.up, (Up{1, 1, 1}));
  EXPECT_EQ(got.summary.span_s, 4 * 86400);
  const auto& events = got.hosts.availability.events;
  ASSERT_EQ(events.size(), 4U);
  EXPECT_TRUE(events[0].kind == Kind::kFailed && events[0].cause == "GPU" && events[1].cause == "NIC");
  EXPECT_TRUE(events[2].kind == Kind::kUp && events[2].at_s == 3 * 86400);
  EXPECT_EQ(good("infinitehbd", text, {"without=GPU+Fan"}).hosts.availability.events.size(), 2U);
}

TEST_F(DocumentHosts, BadFaults) {
  const std::string message = bad("infinitehbd", "[" + fault("a", 2, true, "GPU") + "," + fault("a", 1, true, "GPU") +
                                                     R"(,{"node_id": 7, "event_type": "fault"}, 3])");
  for (const char* part : {"/1: event_time: is no time in days", "/2: node_id: is missing",
                           "/2: fault_type: has no Class", "/2: event_type: \"fault\" is neither", "/3: node_id"}) {
    EXPECT_TRUE(has(message, part)) << part << "\n" << message;
  }
  EXPECT_TRUE(has(bad("infinitehbd", "{}"), "is no array of events"));
  EXPECT_TRUE(has(bad("infinitehbd", "[" + fault("a", 2, false, "GPU") + "]"), "/0: a fault ends that has not begun"));
  const std::string two = "[" + fault("a", 2, true, "GPU") + "," + fault("b", 2, true, "GPU") + "]";
  EXPECT_TRUE(has(bad("infinitehbd", two, {"servers=1", "without=NIC"}), "2 servers have faults"));
  EXPECT_TRUE(has(bad("infinitehbd", two, {"without=NIC"}), "no fault is of class \"NIC\""));
}

// 584 faults, two of which begin while another one of their server lasts.
TEST(PublicDocumentHosts, FaultsOfInfiniteHbd) {
  const std::string path = policy::testing::data_path("infinitehbd/fault_trace.json");
  if (path.empty()) GTEST_SKIP() << policy::testing::data_hint("infinitehbd");
  const auto got = import_trace("infinitehbd", path);
  ASSERT_TRUE(got.ok()) << message_of(got.status());
  EXPECT_EQ(got->hosts.hosts.size(), 400U);
  EXPECT_EQ(got->summary.rows, 2 * 584);
  std::map<std::string, int> failed;
  int all = 0;
  for (const policy::FleetEvent& event : got->hosts.availability.events) {
    if (event.kind != Kind::kFailed) continue;
    failed[event.cause] += static_cast<int>(event.hosts.size());
    all += static_cast<int>(event.hosts.size());
  }
  EXPECT_EQ(all, 582);
  EXPECT_EQ(failed["Parameter Plane Cable"], 40);
  EXPECT_NEAR(got->summary.span_s / 86400, 348.98, 0.01);
}

// Means of the segments as SOURCE.txt states them.
TEST(PublicDocumentHosts, ParcaeSegments) {
  for (const auto& [name, mean] : {std::pair{"gpt-1.5b_hh_55_65", 27.5}, {"bert_hl_15_25", 29.6}}) {
    const std::string path = policy::testing::data_path(std::string("parcae/replay/") + name + ".jsonl");
    if (path.empty()) GTEST_SKIP() << policy::testing::data_hint("parcae");
    const auto got = import_trace("parcae", path);
    ASSERT_TRUE(got.ok()) << message_of(got.status());
    EXPECT_EQ(got->summary.rows, 60);
    EXPECT_EQ(got->summary.span_s, 3600);
    double host_seconds = 0;
    for (const auto& [hosts, seconds] : got->summary.sizes) host_seconds += hosts * static_cast<double>(seconds);
    EXPECT_NEAR(host_seconds / 3600, mean, 0.05) << name;
  }
}

// Parcae's counts and Bamboo's rows are of the same instances.
TEST(PublicDocumentHosts, ParcaeCountsAreBamboos) {
  const std::string counts = policy::testing::data_path("parcae/p3_counts.csv"),
                    rows = policy::testing::data_path("bamboo/p3-trace.csv");
  if (counts.empty() || rows.empty()) GTEST_SKIP() << policy::testing::data_hint("parcae and bamboo");
  const auto a = import_trace("parcae", counts), b = import_trace("bamboo", rows);
  ASSERT_TRUE(a.ok() && b.ok());
  EXPECT_EQ(a->summary.sizes, b->summary.sizes);
}

}  // namespace
}  // namespace scalai::trace
