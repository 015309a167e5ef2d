#include <fstream>
#include <iterator>
#include <sstream>

#include "ptc/run/policy/testing/support.h"
#include "ptc/run/scenario/trace/generate.h"
#include "ptc/run/scenario/trace/internal/formats.h"
#include "ptc/run/scenario/trace/testing/test_files.h"

namespace scalai::trace {
namespace own_form_test {

using policy::testing::data_path;
using testing::has;
using Kind = policy::FleetEvent::Kind;

using OwnForm = testing::TraceFiles;

TEST_F(OwnForm, JobsComeBackBitByBit) {
  Imported made;
  made.workload.name = "odd, \"names\"";
  policy::Job job;
  job.name = "a, \"b\"";
  job.type = "ResNet-18 (batch size 16)";
  job.submit_s = 0.1 + 0.2;
  job.gpus = 4;
  job.max_gpus = 64;
  job.work = 1e15 / 3;
  job.weight = 1e-3 / 7;
  job.deadline_s = 12345.678901234567;
  job.batch = 512;
  made.workload.jobs.push_back(job);
  policy::Job plain;
  plain.name = "c";
  plain.submit_s = 0.5;
  plain.duration_s = 0;
  plain.entity = "vc 1";
  made.workload.jobs.push_back(plain);
  const std::string text = export_trace(made);
  const Imported got = good("scalai", text);
  EXPECT_EQ(got.workload.name, made.workload.name);
  ASSERT_EQ(got.workload.jobs.size(), 2U);
  EXPECT_EQ(got.workload.jobs[0].name, job.name);
  EXPECT_EQ(got.workload.jobs[0].submit_s, job.submit_s);
  EXPECT_EQ(got.workload.jobs[0].work, job.work);
  EXPECT_EQ(got.workload.jobs[0].duration_s, -1);
  EXPECT_EQ(got.workload.jobs[0].weight, job.weight);
  EXPECT_EQ(got.workload.jobs[0].deadline_s, job.deadline_s);
  EXPECT_EQ(got.workload.jobs[1].deadline_s, policy::kNever);
  EXPECT_EQ(got.workload.jobs[1].duration_s, 0);
  EXPECT_EQ(got.workload.jobs[1].entity, "vc 1");
  EXPECT_EQ(export_trace(got), text);
}

TEST_F(OwnForm, HostsAndTheirEventsToo) {
  Imported made;
  made.hosts.hosts = {"a", "b, c", "d"};
  made.hosts.availability.up = {1, 0, 1};
  made.hosts.availability.events = {
      {.at_s = 0, .kind = Kind::kNotice, .hosts = {HostId(2), HostId(0)}, .until_s = 0.1 + 0.2},
      {.at_s = 0, .kind = Kind::kPrice, .type = policy::GpuType(1), .price = 1.0 / 3},
      {.at_s = 0.1 + 0.2, .kind = Kind::kTaken, .hosts = {HostId(2), HostId(0)}, .cause = "preemption"},
      {.at_s = 7, .kind = Kind::kUp, .hosts = {HostId(0), HostId(1), HostId(2)}},
      {.at_s = 8, .kind = Kind::kFailed, .hosts = {HostId(1)}, .cause = "Faulty, GPU"},
  };
  made.summary.span_s = 12.5;
  const std::string text = export_trace(made);
  const Imported got = good("scalai", text);
  EXPECT_EQ(export_trace(got), text);
  ASSERT_EQ(got.hosts.availability.events.size(), 5U);
  EXPECT_EQ(got.hosts.availability.events[0].hosts, (std::vector<HostId>{HostId(2), HostId(0)}));
  EXPECT_EQ(got.hosts.availability.events[1].type, policy::GpuType(1));
  EXPECT_EQ(got.hosts.availability.events[3].hosts.size(), 3U);
  EXPECT_EQ(got.hosts.availability.events[4].cause, "Faulty, GPU");
  EXPECT_EQ(got.summary.span_s, 12.5);
  const Imported later = good("scalai", text, {"from=7.5s"});
  EXPECT_EQ(later.hosts.availability.up, (std::vector<uint8_t>{1, 1, 1}));
  EXPECT_EQ(later.hosts.availability.events.back().at_s, 0.5);
}

TEST_F(OwnForm, WhatIsImportedIsTheSameWhenReadAgain) {
  for (const auto& [format, name] : {std::pair{"gavel", "gavel/traces/physical_max_min_fairness.trace"},
                                     {"philly", "philly/philly_jobs.csv"},
                                     {"elasticflow", "elasticflow/elasticVpollux_e.csv"},
                                     {"bamboo", "bamboo/p3-trace.csv"},
                                     {"parcae", "parcae/replay/bert_hh_55_65.jsonl"},
                                     {"aws-spot", "aws_spot/aws_spot_prices_2019-12_2020-03.csv"}}) {
    const std::string path = policy::testing::data_path(name);
    if (path.empty()) continue;
    const auto first = import_trace(format, path);
    ASSERT_TRUE(first.ok());
    const std::string text = export_trace(*first);
    const Imported again = good("scalai", text);
    EXPECT_EQ(again.summary.checksum, first->summary.checksum) << name;
    EXPECT_EQ(again.summary.span_s, first->summary.span_s) << name;
    EXPECT_EQ(again.summary.sizes, first->summary.sizes) << name;
    EXPECT_EQ(export_trace(again), text) << name;
  }
  for (const char* name : {"philly-like", "gavel-continuous"}) {
    const auto made = generate(name, {"jobs=200"}, 3);
    ASSERT_TRUE(made.ok());
    EXPECT_EQ(good("scalai", export_trace(*made)).summary.checksum, made->summary.checksum) << name;
  }
  const auto failures = generate("weibull", {"host-mtbf=20d", "repair=0s"}, 3, 64, 8);
  ASSERT_TRUE(failures.ok());
  EXPECT_EQ(good("scalai", export_trace(*failures)).summary.checksum, failures->summary.checksum);
}

// Each column that need not be there: without it, and with empty cells, a file says the same as with the default.
TEST_F(OwnForm, ColumnsOfJobsHaveDefaults) {
  const std::string whole =
      "scalai-trace,1,jobs,x,\nname,type,submit_s,gpus,min_gpus,max_gpus,work,duration_s,weight,deadline_s,entity,"
      "batch\n"
      "job-0,,5,4,4,4,60,60,1,,,0\njob-1,,7,1,1,1,9,9,1,,,0\n";
  EXPECT_EQ(export_trace(good("scalai", whole)), whole);
  EXPECT_EQ(export_trace(good("scalai", "scalai-trace,1,jobs,x\nsubmit_s,gpus,duration_s\n5,4,60\n7,1,9\n")), whole);
  EXPECT_EQ(
      export_trace(good("scalai",
                        "scalai-trace,1,jobs,x,\nduration_s,name,type,submit_s,gpus,min_gpus,max_gpus,work,weight,"
                        "deadline_s,entity,batch\n60,,,5,4,,,,,,,\n9,,,7,1,,,,,,,\n")),
      whole);
  const Imported by_work = good("scalai", "scalai-trace,1,jobs\nsubmit_s,gpus,work,max_gpus\n5,4,60,8\n");
  EXPECT_EQ(by_work.workload.jobs[0].duration_s, -1) << "not known";
  EXPECT_EQ(by_work.workload.jobs[0].work, 60);
  EXPECT_EQ(by_work.workload.jobs[0].max_gpus, 8);
}

TEST_F(OwnForm, ColumnsThatAreNeededAreNamed) {
  EXPECT_TRUE(
      has(bad("scalai", "scalai-trace,1,jobs\ngpus,work\n1,1\n"), ":2: submit_s: the header has no such column"));
  EXPECT_TRUE(
      has(bad("scalai", "scalai-trace,1,jobs\nsubmit_s,work\n1,1\n"), ":2: gpus: the header has no such column"));
  EXPECT_TRUE(
      has(bad("scalai", "scalai-trace,1,jobs\nsubmit_s,gpus\n1,1\n"), ":3: duration_s: is not given, nor is work"));
  EXPECT_TRUE(has(bad("scalai", "scalai-trace,1,jobs\nsubmit_s,gpus,duration_s\n1,1,0\n"), ":3: duration_s: is 0"));
  EXPECT_TRUE(has(bad("scalai", "scalai-trace,1,jobs\nsubmit_s,gpus,work,min_gpu\n1,1,1,1\n"),
                  ":2: min_gpu: is no column of this form"));
  const Imported more = good("scalai", "scalai-trace,1,jobs\nsubmit_s,gpus,work,status\n1,1,1,Pass\n");
  ASSERT_EQ(more.summary.notes.size(), 1U);
  EXPECT_EQ(more.summary.notes[0], "column \"status\" is not read");
}

TEST_F(OwnForm, ColumnsOfHostsHaveDefaults) {
  const std::string whole =
      "scalai-trace,1,hosts,,10\nrecord,at_s,what,hosts,until_s,type,price,text\nhost,0,up,0,0,,0,host-0\n"
      "host,0,down,1,0,,0,host-1\nevent,1,failed,0,0,,0,\nevent,2,up,0-1,0,,0,\n";
  EXPECT_EQ(export_trace(good("scalai", whole)), whole);
  const std::string few = "scalai-trace,1,hosts,,10\nrecord,at_s,what,hosts\nhost,0,up,0\nhost,,down,1\n";
  EXPECT_EQ(export_trace(good("scalai", few + "event,1,failed,0\nevent,2,up,0-1\n")), whole);
  EXPECT_TRUE(has(bad("scalai", few + "event,1,notice,0\n"), ":5: until_s: is not given"));
  EXPECT_TRUE(has(bad("scalai", few + "event,1,price,\n"), ":5: type: is not given"));
  EXPECT_TRUE(
      has(bad("scalai", "scalai-trace,1,hosts,,10\nrecord,at_s,what\n"), "hosts: the header has no such column"));
}

TEST_F(OwnForm, EveryColumnIsDocumented) {
  std::ifstream file(SCALAI_SOURCE_DIR "/docs/traces.md");
  const std::string page{std::istreambuf_iterator<char>(file), {}};
  Imported jobs, hosts, prices;
  hosts.hosts.hosts = {"a"};
  prices.prices.points = {{}};
  for (const Imported& one : {jobs, hosts, prices}) {
    std::istringstream lines(export_trace(one));
    std::string line;
    std::getline(lines, line);
    std::getline(lines, line);
    std::istringstream columns(line);
    for (std::string column; std::getline(columns, column, ',');)
      EXPECT_TRUE(has(page, "\n| `" + column + "` |")) << column;
  }
}

TEST_F(OwnForm, BadFiles) {
  EXPECT_TRUE(has(bad("scalai", "job_id,time\n"), "is no trace of ours"));
  EXPECT_TRUE(has(bad("scalai", ""), "is no trace of ours"));
  EXPECT_TRUE(has(bad("scalai", "scalai-trace,2,jobs,x,\n"), "has version \"2\", this program reads version 1"));
  EXPECT_TRUE(has(bad("scalai", "scalai-trace,1,gpus,x,\n"), "\"gpus\" is none of jobs, hosts, prices"));
  const std::string jobs =
      "scalai-trace,1,jobs,x,\nname,type,submit_s,gpus,min_gpus,max_gpus,work,duration_s,weight,deadline_s,entity,"
      "batch\n";
  EXPECT_TRUE(has(bad("scalai", jobs + "a,,0,2,3,4,1,,1,,,0\n"), ":3: gpus: is not within min_gpus to max_gpus"));
  EXPECT_TRUE(has(bad("scalai", jobs + "a,,-1,2,1,4,1,,1,,,0\n"), "before time 0"));
  EXPECT_TRUE(has(bad("scalai", jobs + "a,,0,2,1,4,0,,1,,,0\n"), ":3: work: \"0\""));
  const std::string hosts = "scalai-trace,1,hosts,,10\nrecord,at_s,what,hosts,until_s,type,price,text\n";
  const std::string two = hosts + "host,0,up,0,0,,0,a\nhost,0,down,1,0,,0,b\n";
  for (const std::string row :
       {"event,1,taken,2,0,,0,", "event,1,taken,0-9,0,,0,", "event,1,taken,,0,,0,", "event,1,taken,0+0,0,,0,",
        "event,1,taken,1-0,0,,0,", "event,1,taken,0+,0,,0,", "event,1,price,0,0,0,1,", "event,1,taken,-1,0,,0,"}) {
    EXPECT_TRUE(has(bad("scalai", two + row + "\n"), ":5: hosts: ")) << row;
  }
  EXPECT_TRUE(has(bad("scalai", two + "event,1,eaten,0,0,,0,\n"), ":5: what: \"eaten\" is none of up, notice"));
  EXPECT_TRUE(has(bad("scalai", two + "event,2,taken,0,0,,0,\nevent,1,up,0,0,,0,\n"), ":6: at_s: is earlier"));
  EXPECT_TRUE(has(bad("scalai", two + "host,0,up,2,0,,0,a\n"), ":5: hosts: host \"a\" is not host 2"));
  EXPECT_TRUE(has(bad("scalai", two + "guest,0,up,2,0,,0,a\n"), ":5: record: \"guest\""));
}

}  // namespace own_form_test
}  // namespace scalai::trace
