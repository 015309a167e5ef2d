#include <fmt/format.h>
#include <sys/resource.h>

#include "ptc/run/scenario/trace/internal/formats.h"
#include "ptc/run/scenario/trace/testing/test_files.h"

namespace scalai::trace {
namespace {

using testing::has;
using Drops = std::map<std::string, int64_t>;

class PhillyJson : public testing::TraceFiles {
 protected:
  static std::string attempt(const std::string& start, const std::string& end, const std::string& servers) {
    return fmt::format(R"({{"start_time": {}, "end_time": {}, "detail": [{}]}})", start, end, servers);
  }
  static std::string job(const std::string& id, const std::string& attempts, const std::string& vc = "ee9e8c") {
    return fmt::format(
        R"({{"status": "Pass", "vc": "{}", "jobid": "{}", "attempts": [{}], "submitted_time": "2017-10-07 01:11:39", "user": "u"}})",
        vc, id, attempts);
  }
};

constexpr const char* kTwoServers = R"({"ip": "m47", "gpus": ["gpu0", "gpu1"]}, {"ip": "m48", "gpus": ["gpu3"]})";
constexpr const char* kOneGpu = R"({"ip": "m47", "gpus": ["gpu0"]})";

TEST_F(PhillyJson, RunTimesGoFromTheFirstStartToTheLastEnd) {
  const std::string text = "[" +
                           job("j1", attempt("\"2017-10-07 01:12:09\"", "\"2017-10-07 01:13:09\"", kTwoServers) + "," +
                                         attempt("\"2017-10-07 01:20:09\"", "\"2017-10-07 01:22:09\"", kOneGpu)) +
                           "]";
  const Imported span = good("philly-json", text);
  ASSERT_EQ(span.workload.jobs.size(), 1U);
  EXPECT_EQ(span.workload.jobs[0].name, "j1");
  EXPECT_EQ(span.workload.jobs[0].gpus, 3);
  EXPECT_EQ(span.workload.jobs[0].work, 600);
  EXPECT_EQ(span.workload.jobs[0].entity, "ee9e8c");
  EXPECT_EQ(good("philly-json", text, {"run=attempts"}).workload.jobs.at(0).work, 180);
}

TEST_F(PhillyJson, WhatDidNotRunIsDropped) {
  const Imported got =
      good("philly-json", "[" + job("j1", "") + "," + job("j2", attempt("null", "null", kOneGpu)) + "," +
                              job("j3", attempt("\"2017-10-07 01:12:09\"", "\"None\"", kOneGpu)) + "," +
                              job("j4", attempt("\"2017-10-07 01:12:09\"", "\"2017-10-07 01:12:09\"", kOneGpu)) + "," +
                              job("j5", attempt("\"2017-10-07 01:12:09\"", "\"2017-10-07 01:12:19\"", "")) + "," +
                              job("j6", attempt("\"2017-10-07 01:12:09\"", "\"2017-10-07 01:12:19\"", kOneGpu)) + "]");
  EXPECT_EQ(got.summary.rows, 6);
  EXPECT_EQ(got.summary.dropped, (Drops{{"never started", 1},
                                        {"start not recorded", 1},
                                        {"has no end: still running, or not recorded", 1},
                                        {"ran for no time", 1},
                                        {"asks for no GPU", 1}}));
  EXPECT_EQ(got.workload.jobs.at(0).name, "j6");
}

TEST_F(PhillyJson, BadRecordsAreNamedByPointer) {
  const std::string good_attempt = attempt("\"2017-10-07 01:12:09\"", "\"2017-10-07 01:12:19\"", kOneGpu);
  const std::string message =
      bad("philly-json", "[" + job("j0", good_attempt) + ", 5, null, " + job("", good_attempt) + "," +
                             job("j0", good_attempt) + "," +
                             job("j5", attempt("\"soon\"", "\"2017-10-07 01:12:19\"", kOneGpu)) + "," +
                             job("j6", attempt("\"2017-10-07 01:12:09\"", "\"2017-10-07 01:11:19\"", kOneGpu)) + "," +
                             job("j7", attempt("1507338729", "\"2017-10-07 01:11:19\"", kOneGpu)) + "]");
  for (const char* part :
       {"trace.csv:/1: is no object", "trace.csv:/2: is no object", "trace.csv:/3: jobid: is missing",
        "trace.csv:/4: there is a job \"j0\" already", "trace.csv:/5: attempts/0/start_time: \"soon\" is not a date",
        "trace.csv:/6: attempts/0/end_time: is before the first start", "trace.csv:/7: start_time: is not a text"}) {
    EXPECT_TRUE(has(message, part)) << part << "\n" << message;
  }
}

TEST_F(PhillyJson, OtherDocuments) {
  EXPECT_TRUE(has(bad("philly-json", "{}"), "trace.csv: is no array of jobs"));
  EXPECT_TRUE(has(bad("philly-json", "3"), "is no array of jobs"));
  EXPECT_TRUE(has(bad("philly-json", "[" + job("j", "") + ","), "is no JSON document (byte"));
  EXPECT_TRUE(has(bad("philly-json", ""), "is no JSON document"));
  EXPECT_TRUE(has(bad("philly-json", std::string(100, '[')), "is nested too deeply"));
  EXPECT_TRUE(has(bad("philly-json", "[]"), "no job is left of 0 rows"));
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST_F(PhillyJson, IsStreamed) {
  // 24 MB of attempts that are of no use: a document in memory would take several times as much.
  const std::string filler = attempt("\"2017-10-07 01:12:09\"", "\"2017-10-07 01:12:19\"", kTwoServers);
  std::string attempts = filler;
  for (int i = 0; i < 100; ++i) attempts += "," + filler;
  const std::string path = file("");
  {
    std::ofstream out(path, std::ios::binary);
    for (int i = 0; i < 1500; ++i) out << (i == 0 ? "[" : ",") << job(fmt::format("j{}", i), attempts);
    out << "]";
  }
  ASSERT_GT(std::filesystem::file_size(path), size_t{20} << 20);
  struct rusage before {
  }, after{};
  getrusage(RUSAGE_SELF, &before);
  const auto got = import_trace("philly-json", path);
  getrusage(RUSAGE_SELF, &after);
  ASSERT_TRUE(got.ok()) << message_of(got.status());
  EXPECT_EQ(got->workload.jobs.size(), 1500U);
  EXPECT_LT(after.ru_maxrss - before.ru_maxrss, 8 << 10) << "kB more than before";
}
#endif

}  // namespace
}  // namespace scalai::trace
