#include "ptc/run/policy/testing/support.h"
#include "ptc/run/scenario/trace/internal/formats.h"
#include "ptc/run/scenario/trace/testing/test_files.h"

namespace scalai::trace {
namespace table_jobs_test {

using policy::testing::data_hint;
using policy::testing::data_path;
using testing::has;
using Drops = std::map<std::string, int64_t>;

using TableJobs = testing::TraceFiles;

constexpr const char* kHelios =
    "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue\n";
constexpr const char* kSeren =
    "job_id,user,node_num,gpu_num,cpu_num,type,state,submit_time,start_time,end_time,duration,queue,gpu_time\n";
constexpr const char* kOpenb =
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n";

TEST_F(TableJobs, Philly) {
  const std::string text = "submit_s,duration_s,num_gpus,vc\n100,50,8,a\n40,20,1,b\n300,0,1,a\n400,9,0,a\n";
  const Imported all = good("philly", text);
  EXPECT_EQ(all.summary.rows, 4);
  EXPECT_EQ(all.summary.dropped, (Drops{{"ran for no time", 1}, {"asks for no GPU", 1}}));
  ASSERT_EQ(all.workload.jobs.size(), 2U);
  EXPECT_EQ(all.workload.jobs[0].name, "job-1");
  EXPECT_EQ(all.workload.jobs[0].submit_s, 0);
  EXPECT_EQ(all.workload.jobs[1].submit_s, 60);
  EXPECT_EQ(all.workload.jobs[1].gpus, 8);
  EXPECT_EQ(all.workload.jobs[1].work, 50);
  EXPECT_EQ(all.workload.jobs[1].duration_s, 50);
  EXPECT_EQ(all.workload.jobs[1].entity, "a");
  EXPECT_EQ(all.summary.span_s, 60);
  const Imported one = good("philly", text, {"vc=a"});
  EXPECT_EQ(one.summary.dropped.at("of another virtual cluster"), 1);
  EXPECT_EQ(one.workload.jobs[0].submit_s, 0);  // the clock starts with the first job of the cluster
  EXPECT_EQ(good("philly", text, {"vc=a+b"}).workload.jobs.size(), 2U);
  EXPECT_TRUE(
      has(bad("philly", text, {"vc=c"}), "no job is left of 4 rows\n  dropped 4 rows: of another virtual cluster"));
  const std::string message = bad("philly", "submit_s,duration_s,num_gpus,vc\nx,-1,1.5,\n");
  for (const char* part :
       {":2: submit_s: \"x\"", ":2: duration_s: \"-1\"", ":2: num_gpus: \"1.5\"", ":2: vc: is empty"}) {
    EXPECT_TRUE(has(message, part)) << part << "\n" << message;
  }
}

TEST_F(TableJobs, PolluxAndSia) {
  const Imported got = good("pollux", "name,time,application,num_replicas,batch_size\nbert-0,53.5,bert,6,2048\n");
  ASSERT_EQ(got.workload.jobs.size(), 1U);
  const policy::Job& job = got.workload.jobs[0];
  EXPECT_EQ(job.submit_s, 53.5);  // the file's clock: intervals of the scheduler count from its 0
  EXPECT_EQ(job.type, "bert");
  EXPECT_EQ(job.gpus, 6);
  EXPECT_EQ(job.min_gpus, 1);
  EXPECT_EQ(job.max_gpus, 64);
  EXPECT_EQ(job.batch, 2048);
  EXPECT_EQ(job.work, 1);
  const Imported bare = good("pollux", "name,time,application\nbert-0,5,bert\n", {"elastic-max=16"});
  EXPECT_EQ(bare.workload.jobs[0].gpus, 1);
  EXPECT_EQ(bare.workload.jobs[0].max_gpus, 16);
  EXPECT_EQ(bare.workload.jobs[0].batch, 0);
  const std::string message =
      bad("pollux", "name,time,application,num_replicas,batch_size\na,1,bert,1,8\na,2,bert,1,8\nb,1,bert,0,8\n");
  EXPECT_TRUE(has(message, "trace.csv:3: there is a job \"a\" already")) << message;
  EXPECT_TRUE(has(message, "trace.csv:4: num_replicas")) << message;
}

TEST_F(TableJobs, ElasticFlow) {
  const std::string header = "job_id,submit_time,iteration,model_name,ddl,batch_size,num_gpu,duration\n";
  const Imported got = good("elasticflow", header + "7,3715485,2011,cifar10,3719996,4096,1,5644\n");
  const policy::Job& job = got.workload.jobs.at(0);
  EXPECT_EQ(job.name, "job-7");
  EXPECT_EQ(job.submit_s, 0);
  EXPECT_EQ(job.deadline_s, 3719996 - 3715485);
  EXPECT_EQ(job.work, 2011);
  EXPECT_EQ(job.duration_s, 5644);
  EXPECT_EQ(job.batch, 4096);
  EXPECT_TRUE(
      has(bad("elasticflow", header + "7,100,2011,cifar10,99,4096,1,5644\n"), "ddl: 99 is before the submission"));
}

TEST_F(TableJobs, Helios) {
  const std::string rows =
      "1,u,vcA,1,1,1,COMPLETED,2020-06-09 18:41:01,2020-06-09 18:41:11,2020-06-09 18:42:11,60,10\n"
      "2,u,vcB,4,16,1,FAILED,2020-06-09 18:40:01,2020-06-09 18:40:01,2020-06-09 18:45:01,99,0\n"
      "3,u,vcA,0,1,1,COMPLETED,2020-06-09 18:41:01,2020-06-09 18:41:11,2020-06-09 18:42:11,60,10\n"
      "4,u,vcA,2,1,1,CANCELLED,2020-06-09 18:41:01,None,None,,\n"
      "5,u,vcA,2,1,1,CANCELLED,2020-06-09 18:41:01,2020-06-09 18:41:01,2020-06-09 18:41:01,0,0\n";
  const Imported got = good("helios", kHelios + rows);
  EXPECT_EQ(got.summary.dropped, (Drops{{"asks for no GPU", 1}, {"never started", 1}, {"ran for no time", 1}}));
  ASSERT_EQ(got.workload.jobs.size(), 2U);
  EXPECT_EQ(got.workload.jobs[0].name, "2");
  EXPECT_EQ(got.workload.jobs[0].work, 300);
  EXPECT_EQ(got.workload.jobs[1].submit_s, 60);
  EXPECT_EQ(got.workload.jobs[1].entity, "vcA");
  ASSERT_EQ(got.summary.notes.size(), 1U);
  EXPECT_TRUE(has(got.summary.notes[0], "1 jobs with another `duration`"));
  EXPECT_EQ(good("helios", kHelios + rows, {"state=completed"}).workload.jobs.size(), 1U);
  EXPECT_EQ(good("helios", kHelios + rows, {"vc=vcB", "state=completed+failed"}).workload.jobs.at(0).gpus, 4);
  const std::string message =
      bad("helios",
          kHelios + std::string("1,u,v,1,1,1,FAILED,2020-06-09 18:41:01,2020-06-09 18:40:01,2020-06-09 18:42:11,1,1\n"
                                "2,u,v,1,1,1,FAILED,2020-06-09 18:41:01,2020-06-09 18:41:01,2020-06-09 18:40:11,1,1\n"
                                "3,u,v,1,1,1,FAILED,yesterday,2020-06-09 18:41:01,2020-06-09 18:40:11,1,1\n"));
  for (const char* part : {":2: start_time: is before submit_time", ":3: end_time: is before start_time",
                           ":4: submit_time: \"yesterday\" is not a date and time"}) {
    EXPECT_TRUE(has(message, part)) << part << "\n" << message;
  }
}

TEST_F(TableJobs, Acme) {
  const Imported seren = good(
      "acme", std::string(kSeren) +
                  "5778432,u5907,1,8,128,Other,FAILED,2023-03-01 00:18:22+08:00,2023-03-01 00:18:54+08:00,2023-03-01 "
                  "00:20:51+08:00,117,32,936.0\n");
  EXPECT_EQ(seren.workload.jobs.at(0).work, 117);
  EXPECT_EQ(seren.workload.jobs.at(0).type, "Other");
  EXPECT_EQ(seren.workload.jobs.at(0).entity, "u5907");
  EXPECT_TRUE(seren.summary.notes.empty());
  // Kalos counts its durations from the submission: 18 s of which 10 s are queueing.
  const Imported kalos =
      good("acme",
           "job_id,user,node_num,gpu_num,cpu_num,mem_per_pod_GB,shared_mem_per_pod,type,state,submit_time,start_time,"
           "end_time,fail_time,stop_time,duration,queue,gpu_time\n"
           "dlc,uf794,8,64,960,1000,100.0,Other,FAILED,2023-05-17 11:00:58+00:00,2023-05-17 11:01:08+00:00,2023-05-17 "
           "11:01:16+00:00,2023-05-17 11:01:16+00:00,,18,10.0,1152.0\n");
  EXPECT_EQ(kalos.workload.jobs.at(0).work, 8);
  EXPECT_EQ(kalos.workload.jobs.at(0).gpus, 64);
  EXPECT_EQ(kalos.summary.notes.size(), 1U);
  const Imported derived =
      good("acme", "submit_s,duration_s,num_nodes,gpus_per_node,num_gpus,kind\n0,104,8,8,64,other_or_sft\n");
  EXPECT_EQ(derived.workload.jobs.at(0).type, "other_or_sft");
  EXPECT_EQ(derived.workload.jobs.at(0).work, 104);
  EXPECT_TRUE(has(bad("acme", "submit_s,duration\n1,2\n"), "duration_s: the header has no such column"));
}

TEST_F(TableJobs, Openb) {
  const Imported got = good("openb", std::string(kOpenb) +
                                         "p0,12000,16384,1,1000,,LS,Running,5,12537496,7\n"
                                         "p1,6000,12288,1,460,,LS,Running,427061,12902960,427061\n"
                                         "p2,20000,65536,0,0,,LS,Running,2759674,12902960,2759676\n"
                                         "p3,11908,47104,1,1000,,BE,Pending,10001278,10001403,\n"
                                         "p4,88000,327680,8,1000,G2|T4,Burstable,Succeeded,9437497,10769854,9437497\n");
  EXPECT_EQ(got.summary.dropped,
            (Drops{{"asks for a part of a GPU", 1}, {"asks for no GPU", 1}, {"never started", 1}}));
  ASSERT_EQ(got.workload.jobs.size(), 2U);
  EXPECT_EQ(got.workload.jobs[0].work, 12537489);
  EXPECT_EQ(got.workload.jobs[1].gpus, 8);
  ASSERT_EQ(got.summary.notes.size(), 1U);
  EXPECT_TRUE(has(got.summary.notes[0], "1 jobs name GPU types"));
  EXPECT_TRUE(
      has(bad("openb", std::string(kOpenb) + "p,1,1,1,1000,,LS,Running,10,5,7\n"), ":2: scheduled_time: is before"));
  EXPECT_TRUE(has(bad("openb", std::string(kOpenb) + "p,1,1,1,1001,,LS,Running,1,5,7\n"), ":2: gpu_milli"));
}

TEST(PublicJobs, CountsAsTheirSourcesSay) {
  struct Case {
    const char *format, *file;
    size_t jobs;
    double span_s;
  };
  for (const Case& one : {Case{"philly", "philly/philly_jobs.csv", 80390, 9408690},
                          Case{"pollux", "pollux/workloads/workload-6.csv", 160, 28136},
                          Case{"elasticflow", "elasticflow/elasticVpollux_e.csv", 195, 172045},
                          Case{"acme", "acme/kalos_completed_jobs.csv", 319, 7779474}}) {
    const std::string path = policy::testing::data_path(one.file);
    if (path.empty()) GTEST_SKIP() << policy::testing::data_hint(one.file);
    const auto got = import_trace(one.format, path);
    ASSERT_TRUE(got.ok()) << message_of(got.status());
    EXPECT_EQ(got->workload.jobs.size(), one.jobs) << one.file;
    EXPECT_EQ(got->summary.rows, static_cast<int64_t>(one.jobs)) << one.file;
    EXPECT_EQ(got->summary.span_s, one.span_s) << one.file;
  }
}

TEST(PublicJobs, PhillyBusyVirtualCluster) {
  const std::string path = policy::testing::data_path("philly/philly_jobs.csv");
  if (path.empty()) GTEST_SKIP() << policy::testing::data_hint("philly");
  const auto got = import_trace("philly", path, {"vc=e13805", "gpus-max=32"});
  ASSERT_TRUE(got.ok()) << message_of(got.status());
  EXPECT_EQ(got->workload.jobs.size(), 374U);  // philly/reference_simple_policies.csv
  EXPECT_EQ(got->summary.checksum, "52eec4bfb92974f16cc216bdfea05154");
}

}  // namespace table_jobs_test
}  // namespace scalai::trace
