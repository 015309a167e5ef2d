#pragma once
// Folders of runs for the tests of pages: the example report of ptc/report, and files written by hand.

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "ptc/base/file.h"
#include "ptc/report/testing/example_report.h"

namespace scalai::report::testing {

class PageTest : public ::testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  std::string write(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories((folder_ / name).parent_path());
    EXPECT_TRUE(write_file(path(name), text).ok());
    return path(name);
  }
  // The folder of the example report, run with this strategy.
  std::string example(const std::string& name, const std::string& strategy = "reshard") const {
    const scenario::Scenario scenario = example_scenario();
    control::RunReport report = example_report(scenario);
    report.strategy = strategy;
    const Manifest manifest{.command_line = "scalai-sim x <y>",
                            .revision = "abc",
                            .wall_clock_s = 1.5,
                            .started_at = "2026-01-02T03:04:05Z"};
    EXPECT_TRUE(write_report(report, manifest, path(name)).ok());
    return path(name);
  }
  // A run of two jobs under a policy; the second one never starts.
  std::string many_jobs(const std::string& name) const {
    write(name + "/jobs.csv",
          "job,type,entity,gpus,submit_s,end,first_start_s,finish_s,jct_s,queueing_s,executed_s,isolated_s,ftf,"
          "deadline_s,"
          "attained_gpu_s,changing_gpu_s,lost_gpu_s,work,work_done,restarts,preemptions,losses,cost_usd\n"
          "\"a, 1\",,,2,0,finished,10,110,110,10,100,100,1.1,,200,0,0,1,1,0,0,0,\n"
          "b,,,4,50,unfinished,,,,,0,,,,0,0,0,1,0,0,0,0,\n");
    write(name + "/utilization.csv",
          "at_s,up_gpus,training_gpus,changing_gpus,running_jobs,waiting_jobs\n0,4,0,0,0,1\n10,4,2,0,1,0\n110,4,0,0,0,"
          "1\n");
    write(name + "/placements.csv",
          "from_s,to_s,job,what,gpus,hosts\n0,10,\"a, 1\",waits,0,\n10,12,\"a, 1\",changes,2,h0:2\n"
          "12,110,\"a, 1\",trains,2,h0:2\n50,225,b,waits,0,\n");
    write(name + "/jct_cdf.csv", "jct_s,share\n110,1\n");
    write(name + "/costs.csv", "kind,name,gpu_h,cost_usd\ntype,v100-16g,0.25,0.5\njob,\"a, 1\",0.1,0.2\n");
    write(
        name + "/summary.json",
        R"({"schema_version": 1, "version": "0.1.0", "kind": "cluster", "scenario": "two", "scenario_digest": "d", "seed": 7,
"workload": "by hand", "policy": "fifo", "policy_set": [], "throughputs": "given", "changes": "none",
"fleet": {"hosts": 1, "gpus": 4, "types": []}, "end_s": 225.0,
"metrics": {"jobs": 2, "finished": 1, "avg_jct_s": 110.0, "median_jct_s": 110.0, "avg_queueing_s": 10.0, "utilization": 0.22, "cost_usd": 0.5, "avg_ftf": null, "late": 0.25},
"virtual_clusters": [{"name": "vision", "quota_gpus": 3, "jobs": 2, "finished": 1, "avg_jct_s": 110.0, "avg_queueing_s": null, "preemptions": 0, "gpu_h": 0.1, "borrowed_gpu_h": 0.05}],
"notes": ["a note"]})");
    return path(name);
  }
  std::string recovery(const std::string& name) const {
    write(name + "/throughput.csv", "from_s,live_hosts,used_hosts,samples_per_s\n0,4,4,100\n50,3,3,0\n60,3,3,75\n");
    write(
        name + "/summary.json",
        R"({"schema_version": 1, "version": "0.1.0", "kind": "recovery", "scenario": "lose", "scenario_digest": "d", "seed": 1,
"workload": "by hand", "policy": "reshard", "policy_set": [], "throughputs": "given", "changes": "none",
"fleet": {"hosts": 4, "gpus": 32}, "from_s": 0.0, "end_s": 100.0,
"metrics": {"samples_per_s": 80.0, "ettr": 0.9, "host_losses": 1, "restarts": 1, "lost_samples": 0.0, "training_gpu_h": 0.75, "idle_gpu_h": 0.05}, "notes": []})");
    return path(name);
  }

  std::filesystem::path folder_ = std::filesystem::path(::testing::TempDir()) / fmt::format("page_test.{}", ::getpid());
};

}  // namespace scalai::report::testing
