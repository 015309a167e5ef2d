#include "sim/jobs/scenario/engine_parts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "ptc/base/status.h"
#include "ptc/report/report.h"
#include "ptc/run/scenario/scenario_set.h"
#include "ptc/run/scenario/strategy.h"
#include "ptc/run/scenario/trace/generate.h"
#include "ptc/run/scenario/trace/import.h"
#include "sim/jobs/planned/planned.h"
#include "sim/jobs/scenario/testing/support.h"

namespace scalai::scenario {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

using testing::ClusterScenarios;
using testing::kCluster;
using testing::kHead;
using testing::kWorkload;

TEST_F(ClusterScenarios, PartsAndDefaults) {
  const auto loaded = load(kHead + "until: \"2h\"\n" + kCluster + kWorkload);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  const testing::Loaded& scenario = **loaded;
  EXPECT_EQ(scenario.seed, 3u);
  EXPECT_EQ(scenario.parts.options.until_s, 7200);
  ASSERT_EQ(scenario.many().fleet.types.size(), 1u);
  EXPECT_EQ(scenario.many().fleet.types[0].name, "v100-16g");
  EXPECT_EQ(scenario.many().fleet.types[0].price_per_gpu_hour, 3);
  EXPECT_EQ(scenario.many().fleet.gpus(), 8);
  EXPECT_EQ(scenario.many().workload.jobs.size(), 5u);
  EXPECT_EQ(scenario.policy->name, "fifo");
  EXPECT_EQ(scenario.parts.changes.seconds, 0.0);
  EXPECT_TRUE(make_policy(scenario).ok());
  EXPECT_TRUE(make_changes(scenario, scenario.parts).ok());
  EXPECT_THAT(scenario.resolved_text, HasSubstr("name: \"fifo\""));
}

TEST(ChangeStrategy, DefaultsAreThoseOfReshard) {
  const change::Costs own = jobs::ChangeStrategy{}.costs, preset = find_strategy("reshard", {})->costs;
  EXPECT_EQ(own.plan_s, preset.plan_s);
  EXPECT_EQ(own.verify_bytes_per_s, preset.verify_bytes_per_s);
  EXPECT_EQ(own.transfer_start_s, preset.transfer_start_s);
  EXPECT_EQ(own.messages.box_s, preset.messages.box_s);
  EXPECT_EQ(own.messages.peer_s, preset.messages.peer_s);
}

// The resolved text is a scenario that loads to the same one.
TEST_F(ClusterScenarios, ResolvedTextsRoundTrip) {
  const auto first = load(kHead + kCluster + kWorkload + "policy { name: \"srtf\" }\nchanges { seconds: \"30s\" }\n");
  ASSERT_TRUE(first.ok()) << first.status();
  const auto second = load((*first)->resolved_text);
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ((*first)->resolved_text, (*second)->resolved_text);
  EXPECT_EQ((*first)->digest, (*second)->digest);
  const auto other = load(kHead + kCluster + kWorkload + "policy { name: \"srtf\" }\nchanges { seconds: \"31s\" }\n");
  EXPECT_NE((*first)->digest, (*other)->digest);
}

TEST_F(ClusterScenarios, FilesCountFromTheScenario) {
  write("s/hosts.csv", "0,add,n1\n0,add,n2\n60000,remove,n2\n");
  const auto loaded = load(kHead + kCluster + kWorkload +
                           "availability { file: \"hosts.csv\" format: \"bamboo\" set: \"removal=failed\" }\n");
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  ASSERT_EQ((*loaded)->many().availability.events.size(), 1u);
  EXPECT_EQ((*loaded)->many().availability.events[0].kind, policy::FleetEvent::Kind::kFailed);
  EXPECT_EQ((*loaded)->many().availability.events[0].hosts, std::vector<HostId>{HostId(1)});
  ASSERT_EQ((*loaded)->many().files.size(), 1u);
  const std::string digest = (*loaded)->digest;
  write("s/hosts.csv", "0,add,n1\n0,add,n2\n61000,remove,n2\n");
  EXPECT_NE((*load(kHead + kCluster + kWorkload +
                   "availability { file: \"hosts.csv\" format: \"bamboo\" set: \"removal=failed\" }\n"))
                ->digest,
            digest)
      << "what was read is part of it";
}

// Our own form says in its file what it holds.
TEST_F(ClusterScenarios, OurOwnFormHoldsHostsAndPricesToo) {
  const auto keep = [&](const std::string& name, absl::StatusOr<trace::Imported> made) {
    ASSERT_TRUE(made.ok()) << made.status();
    write("s/" + name, trace::export_trace(*made));
  };
  keep("hosts.csv", trace::generate("poisson", {"mtbf=1h"}, 1, 2, 4));
  keep("jobs.csv", trace::generate("philly-like", {"jobs=5"}, 1));
  trace::Imported prices;
  prices.prices.points = {{0, "a", "x", 4}, {3600, "a", "x", 8}};
  keep("prices.csv", prices);
  const std::string all = kHead + kCluster + "workload { file: \"jobs.csv\" }\n";
  for (const std::string format : {"", "format: \"scalai\""}) {
    const auto loaded = load(all + "availability { file: \"hosts.csv\" " + format + " }\n" +
                             "prices { file: \"prices.csv\" " + format + " set: \"v100-16g=a/x\" }\n");
    ASSERT_TRUE(loaded.ok()) << loaded.status();
    EXPECT_EQ((*loaded)->many().workload.jobs.size(), 5u);
    EXPECT_GT((*loaded)->many().availability.events.size(), 1u);
    EXPECT_EQ((*loaded)->many().fleet.types[0].price_per_gpu_hour, 1);
  }
  EXPECT_THAT(problems(all + "availability { file: \"jobs.csv\" }\n"),
              HasSubstr("x.textproto:5:22: error: the trace has jobs, not hosts that come and go"));
  EXPECT_THAT(problems(kHead + kCluster + "workload { file: \"prices.csv\" }\n"),
              HasSubstr("the trace has prices, not jobs"));
}

TEST_F(ClusterScenarios, TablesArePartOfTheDigest) {
  trace::Imported jobs;
  jobs.workload.jobs.resize(1);
  jobs.workload.jobs[0].name = "j";
  jobs.workload.jobs[0].type = "a";
  write("s/jobs.csv", trace::export_trace(jobs));
  const std::string text = kHead + kCluster + "workload { file: \"jobs.csv\" }\n" +
                           "throughputs { source: \"table\" file: \"t.csv\" beyond: \"linear\" }\n";
  const auto table = [&](int rate) {
    write("s/t.csv", "type,gpu,gpus,iterations_per_s\na,v100-16g,1," + std::to_string(rate) + "\n");
    const auto loaded = load(text);
    EXPECT_TRUE(loaded.ok()) << loaded.status();
    return loaded.ok() ? (*loaded)->digest : "";
  };
  const std::string first = table(1);
  const std::string files = digest_of_files(text, folder_ + "/s/x.textproto").value();
  EXPECT_NE(table(2), first);
  EXPECT_NE(digest_of_files(text, folder_ + "/s/x.textproto").value(), files);
  EXPECT_EQ(table(1), first);
  EXPECT_EQ(digest_of_files(text, folder_ + "/s/x.textproto").value(), files);
}

TEST_F(ClusterScenarios, TheFolderOfPublicData) {
  const std::string text =
      kHead + kCluster + "workload { file: \"${SCALAI_DATA}/philly/jobs.csv\" format: \"philly\" }\n";
  EXPECT_THAT(problems(text, 4),
              AllOf(HasSubstr("/s/../data/philly/jobs.csv: no such file"), HasSubstr("github.com/msr-fiddle")));
  std::filesystem::create_directories(folder_ + "/data/philly");
  write("data/philly/jobs.csv", "submit_s,duration_s,num_gpus,vc\n0,100,2,a\n50,10,4,b\n");
  const auto loaded = load(text);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ((*loaded)->many().workload.jobs.size(), 2u);
  setenv("SCALAI_DATA", (folder_ + "/elsewhere").c_str(), 1);
  EXPECT_THAT(problems(text, 4), HasSubstr("/elsewhere/philly/jobs.csv"));
  unsetenv("SCALAI_DATA");
}

TEST_F(ClusterScenarios, AMissingFileAmongOtherProblemsIsThree) {
  EXPECT_THAT(
      problems(kHead + kCluster + "workload { file: \"none.csv\" format: \"philly\" }\npolicy { name: \"srft\" }\n"),
      AllOf(HasSubstr("no such file"), HasSubstr("did you mean \"srtf\"")));
}

TEST_F(ClusterScenarios, ProblemsStandAtTheirPlace) {
  const std::string base = kHead + kCluster;
  const auto expect = [&](const std::string& more, const std::string& text) {
    EXPECT_THAT(problems(base + more), HasSubstr(text)) << more;
  };
  expect("workload { }\n", "neither \"file\" nor \"generator\"");
  expect("workload { generator: \"poisson\" }\n", "generator \"poisson\" has no jobs");
  expect("workload { generator: \"filly-like\" }\n", "x.textproto:4:23: error: unknown generator \"filly-like\"");
  expect("workload { file: \"a\" format: \"gavle\" }\n", "did you mean \"gavel\"");
  expect("workload { file: \"a\" generator: \"philly-like\" }\n", "exclude each other");
  expect(kWorkload + "policy { name: \"tiresias\" set: \"treshold=2\" }\n", ":5:32: error:");
  expect(kWorkload + "policy { exec: \"x\" name: \"fifo\" }\n", "\"name\" and \"exec\" exclude each other");
  expect(kWorkload + "policy { name: \"fifo\" timeout: \"1s\" }\n", "only a program");
  expect(kWorkload + "changes { preset: \"polux\" }\n", "did you mean \"pollux\"");
  expect(kWorkload + "changes { preset: \"pollux\" seconds: \"1s\" }\n", "exclude each other");
  expect(kWorkload + "changes { strategy: \"reshard\" }\n", "plans need jobs with a model");
  expect(kWorkload + "changes { seconds: \"1s\" set: \"strat=2s\" }\n", "did you mean \"start\"");
  expect(kWorkload + "changes { set: \"checkpoint-every=young-daly\" }\n", "needs hosts that fail");
  expect(kWorkload + "throughputs { source: \"duration\" beyond: \"cubic\" }\n", "unknown rule \"cubic\"");
  expect(kWorkload + "throughputs { source: \"duration\" set: \"elastic-max=2\" }\n",
         "on other numbers of GPUs than the trace's no speed is known");
  expect(kWorkload + "throughputs { source: \"duration\" file: \"x\" }\n", "\"file\" has no meaning");
  expect(kWorkload + "throughputs { source: \"table\" }\n", "\"file\" is missing");
  expect(kWorkload + "throughputs { source: \"analytic\" set: \"model=lama3-8b\" }\n", "llama3-8b");
  expect(kWorkload + "throughputs { set: \"elastic-min=-1\" }\n", "a number above 0");
  expect(kWorkload + "throughputs { set: \"elastic-min=7\" }\n", "0 to 1; found 7");
  expect(kWorkload + "throughputs { set: \"elastic-max=1e300\" }\n", "1 to 1000000; found 1e300");
  expect(kWorkload + "throughputs { source: \"analytic\" set: \"model=gpt2\" set: \"sequence=4294967297\" }\n",
         "\"sequence\" is at most 2147483647");
  expect(kWorkload + "throughputs { source: \"analytic\" set: \"model=gpt2\" set: \"micro-batch=4294967297\" }\n",
         "\"micro-batch\" is at most 2147483647");
  expect(kWorkload + "compute: SIMULATED\n", "\"compute\" has no meaning with \"workload\"");
  expect("recovery { design: \"reshard\" }\navailability { generator: \"poisson\" set: \"mtbf=1h\" }\nprices { }\n",
         "x.textproto:6:1: error: \"prices\" has no meaning with \"recovery\"");
  expect(kWorkload + "events { at: \"1s\" }\n", "\"events\" has no meaning with \"workload\"");
  expect(kWorkload + "recovery { design: \"reshard\" }\n", "exclude each other");
  expect(kWorkload + "availability { generator: \"poisson\" set: \"mtbf=often\" }\n", "x.textproto:5:");
  expect(kWorkload + "prices { file: \"p\" format: \"aws-spot\" }\n", "no GPU type gets its price");
  expect(kWorkload + "expect { metric: \"finished\" equals: 1 }\n", "must be a JSON pointer");
  expect("recovery { design: \"template\" }\n", "did you mean \"templates\"");
  expect("recovery { design: \"templates\" }\n", "\"availability\" is missing");
}

TEST_F(ClusterScenarios, ProblemsOfAClusterFileAreListedUnderItsName) {
  write("s/c.textproto", "hosts { gpus: 0 gpu: \"v100-16g\" nic: \"10Gbps\" }\n");
  EXPECT_THAT(problems(kHead + "cluster_file: \"c.textproto\"\n" + kWorkload + "policy { name: \"srft\" }\n"),
              AllOf(HasSubstr("x.textproto:5:16: error: unknown policy"),
                    HasSubstr("/s/c.textproto:1:15: error: \"gpus\" must be at least 1")));
}

TEST_F(ClusterScenarios, TwoPricesOfOneKindAreRefused) {
  const std::string cluster =
      "cluster { hosts { gpus: 1 gpu: \"v100-16g\" nic: \"10Gbps\" price_per_hour: 3 }\n"
      "hosts { gpus: 1 gpu: \"v100-16g\" nic: \"10Gbps\" price_per_hour: 1 } }\n";
  EXPECT_THAT(problems(kHead + cluster + kWorkload),
              AllOf(HasSubstr("have two prices (3 and 1"), HasSubstr("v100-16g-spot")));
}

TEST_F(ClusterScenarios, PricesByMarket) {
  write("s/p.csv",
        "timestamp_utc,availability_zone,instance_type,usd_per_hour\n"
        "2020-01-01T00:00:00Z,us-east-1a,p3.8xlarge,4\n"
        "2020-01-01T00:10:00Z,us-east-1b,p3.8xlarge,400\n"
        "2020-01-01T01:00:00Z,us-east-1a,p3.8xlarge,8\n");
  const std::string prices =
      "prices { file: \"p.csv\" format: \"aws-spot\" set: \"v100-16g=us-east-1a/p3.8xlarge\" }\n";
  const auto loaded = load(kHead + kCluster + kWorkload + prices);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ((*loaded)->many().fleet.types[0].price_per_gpu_hour, 1);
  ASSERT_EQ((*loaded)->many().availability.events.size(), 1u);
  EXPECT_EQ((*loaded)->many().availability.events[0].at_s, 3600);
  EXPECT_EQ((*loaded)->many().availability.events[0].price, 2);
  EXPECT_THAT(problems(kHead + kCluster + kWorkload +
                       "prices { file: \"p.csv\" format: \"aws-spot\" set: \"v100-16g=us-east-1c/p3.8xlarge\" }\n"),
              HasSubstr("no price of p3.8xlarge in us-east-1c"));
}

// Prices that go on after the last failure do not make failures rarer.
TEST_F(ClusterScenarios, YoungAndDalysPeriodIsByLosses) {
  write("s/hosts.csv", "0,add,n1\n0,add,n2\n600000,remove,n2\n1200000,add,n2\n3600000,remove,n1\n");
  write("s/p.csv",
        "timestamp_utc,availability_zone,instance_type,usd_per_hour\n2020-01-01T00:00:00Z,a,x,4\n"
        "2020-01-03T00:00:00Z,a,x,8\n");
  const std::string text = kHead + kCluster + kWorkload + "availability { file: \"hosts.csv\" format: \"bamboo\" }\n" +
                           "changes { seconds: \"1s\" set: \"checkpoint-every=young-daly\" "
                           "set: \"checkpoint-write=10s\" }\n";
  const std::string prices = "prices { file: \"p.csv\" format: \"aws-spot\" set: \"v100-16g=a/x\" }\n";
  const auto until = load(text + "until: \"2h\"\n"), priced = load(text + "until: \"2h\"\n" + prices);
  ASSERT_TRUE(until.ok()) << until.status();
  ASSERT_TRUE(priced.ok()) << priced.status();
  EXPECT_DOUBLE_EQ((*until)->parts.options.checkpoints.every_s, std::sqrt(2 * 10 * 7200 / 2.0));
  EXPECT_EQ((*priced)->parts.options.checkpoints.every_s, (*until)->parts.options.checkpoints.every_s);
}

TEST_F(ClusterScenarios, SayWhatTheyAssumeOfHostsThatFail) {
  write("s/hosts.csv", "0,add,n1\n0,add,n2\n600000,remove,n2\n1200000,add,n2\n");
  const std::string hosts = "availability { file: \"hosts.csv\" format: \"bamboo\" }\n";
  const auto loaded = [&](const std::string& text) { return load(kHead + kCluster + kWorkload + text).value(); };
  const auto silent = loaded(hosts);
  EXPECT_EQ(silent->parts.options.checkpoints.every_s, 1800);
  EXPECT_THAT(silent->many().notes, ::testing::Contains(HasSubstr("a checkpoint, which it writes after every 30 min")));
  for (const auto& [time, seconds] : std::vector<std::pair<std::string, double>>{{"10min", 600}, {"0s", 0}}) {
    const auto said = loaded(hosts + "changes { seconds: \"1s\" set: \"checkpoint-every=" + time + "\" }\n");
    EXPECT_EQ(said->parts.options.checkpoints.every_s, seconds);
    EXPECT_THAT(said->many().notes, ::testing::Not(::testing::Contains(HasSubstr("assumed"))));
  }
  const auto steady = loaded("");
  EXPECT_EQ(steady->parts.options.checkpoints.every_s, 0);
  EXPECT_THAT(steady->many().notes, ::testing::Not(::testing::Contains(HasSubstr("assumed"))));
}

TEST_F(ClusterScenarios, ElasticJobs) {
  const auto loaded =
      load(kHead + kCluster + kWorkload +
           "throughputs { source: \"duration\" beyond: \"linear\" set: \"elastic-min=0.5\" set: \"elastic-max=2\" }\n");
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  for (const policy::Job& job : (*loaded)->many().workload.jobs) {
    EXPECT_EQ(job.min_gpus, (job.gpus + 1) / 2);
    EXPECT_EQ(job.max_gpus, 2 * job.gpus);
  }
}

// A job's work is what its model does in its run time on what it asked for; changes come from plans.
TEST_F(ClusterScenarios, JobsWithAModel) {
  write("s/jobs.csv", "submit_s,duration_s,num_gpus,vc\n0,1000,4,a\n");
  const std::string text =
      kHead +
      "cluster { hosts { count: 2 gpus: 4 gpu: \"a100-40g\" nic: \"100Gbps\" } storage { read: \"1GB/s\" } }\n"
      "workload { file: \"jobs.csv\" format: \"philly\" }\n";
  const auto loaded = load(text + "throughputs { source: \"analytic\" set: \"model=gpt2\" }\n");
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  const testing::Loaded& scenario = **loaded;
  const policy::Job& job = scenario.many().workload.jobs[0];
  const double rate = scenario.parts.throughput->rate(job, policy::GpuType(0), 4, 0).per_s;
  EXPECT_GT(rate, 0);
  EXPECT_NEAR(job.work, 1000 * rate, 0.5);
  EXPECT_EQ(scenario.parts.changes.strategy, "reshard");
  EXPECT_TRUE(make_changes(scenario, scenario.parts).ok());
  EXPECT_THAT(problems(text + "throughputs { source: \"analytic\" }\n"), HasSubstr("model"));
  EXPECT_THAT(problems(text + "throughputs { source: \"analytic\" set: \"model=llama3-405b\" }\n"),
              HasSubstr("1 job of type"));
}

TEST_F(ClusterScenarios, ARecoveryRunFromTables) {
  write("s/hosts.csv", "0,add,n1\n0,add,n2\n600000,remove,n2\n1200000,add,n2\n3600000,remove,n1\n");
  write("s/speed.csv", "hosts,samples_per_s\n1,10\n2,20\n");
  write("s/costs.csv", "cost,seconds\nchange,30\n");
  const auto loaded =
      load(kHead + kCluster +
           "availability { file: \"hosts.csv\" format: \"bamboo\" }\n"
           "recovery { design: \"reshard\" throughputs: \"speed.csv\" costs: \"costs.csv\" set: \"batch=10\" }\n");
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  ASSERT_TRUE((*loaded)->parts.recovery.has_value());
  EXPECT_EQ((*loaded)->parts.recovery_setup.hosts, 2);
  EXPECT_EQ((*loaded)->parts.recovery_setup.usd_per_host_hour, 12);
  const auto result = jobs::simulate_recovery((*loaded)->parts.recovery_setup);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_GT(result->samples, 0);
  EXPECT_LE(result->samples, 20 * 3600);
  EXPECT_THAT(
      problems(kHead + kCluster +
               "availability { file: \"hosts.csv\" format: \"bamboo\" }\n"
               "recovery { design: \"reshard\" throughputs: \"speed.csv\" costs: \"costs.csv\" set: \"bach=10\" }\n"),
      HasSubstr("bach"));
}

// Storage that is absent is none, not one without a limit. Costs of one's own need none.
TEST_F(ClusterScenarios, CheckpointsNeedStorage) {
  write("s/jobs.csv", "submit_s,duration_s,num_gpus,vc\n0,1000,4,a\n");
  write("s/hosts.csv", "0,add,n1\n0,add,n2\n3600000,remove,n2\n");
  write("s/costs.csv", "cost,seconds\nchange,30\n");
  const std::string hosts = "cluster { hosts { count: 2 gpus: 4 gpu: \"a100-40g\" nic: \"100Gbps\" } ";
  const std::string jobs =
      "}\nworkload { file: \"jobs.csv\" format: \"philly\" }\nthroughputs { source: \"analytic\" set: \"model=gpt2\" "
      "}\n";
  const std::string job =
      "}\njobs { name: \"llm\" model: \"gpt3-xl\" global_batch: 64 }\nuntil: \"3h\"\n"
      "availability { file: \"hosts.csv\" format: \"bamboo\" }\n";
  const std::string storage = "storage { read: \"1GB/s\" } ";
  const auto needs = [&](const std::string& rest, const std::string& problem) {
    EXPECT_THAT(problems(kHead + hosts + rest), AllOf(HasSubstr(problem), HasSubstr("hint: add storage { read:")));
    const auto loaded = load(kHead + hosts + storage + rest);
    EXPECT_TRUE(loaded.ok()) << loaded.status();
  };
  needs(jobs + "changes { strategy: \"checkpoint-restart\" }\n",
        ":6:21: error: strategy \"checkpoint-restart\" needs a cluster with \"storage\"");
  needs(jobs + "changes { set: \"checkpoint-every=10min\" }\n",
        ":6:16: error: jobs write checkpoints, and the cluster has no storage");
  for (const std::string design : {"checkpoint-restart", "redundancy", "templates", "spare-swap", "reshard"}) {
    needs(job + "recovery { design: \"" + design + "\" }\n",
          ":7:20: error: design \"" + design + "\" reads checkpoints");
  }
  for (const std::string& rest : {jobs + "changes { strategy: \"reshard\" }\n",
                                  jobs + "changes { seconds: \"9s\" set: \"checkpoint-every=1h\" }\n",
                                  job + "recovery { design: \"reshard\" costs: \"costs.csv\" }\n"}) {
    const auto loaded = load(kHead + hosts + rest);
    EXPECT_TRUE(loaded.ok()) << loaded.status();
  }
}

// Three of four hosts fail and nothing fits the last one: its shards alone are no state, and the work since the last
// checkpoint is lost as with one host; the start after that reads storage.
TEST_F(ClusterScenarios, ALossThatLeavesTooFewHostsLosesTheState) {
  const std::string head =
      kHead +
      "cluster { hosts { count: 4 gpus: 4 gpu: \"a100-40g\" nic: \"100Gbps\" } "
      "storage { read: \"1GB/s\" write: \"1GB/s\" } }\n"
      "jobs { name: \"llm\" model: \"gpt3-xl\" global_batch: 64 search { pins: \"tp4,pp1,zero1\" } "
      "}\nuntil: \"3h\"\n"
      "availability { file: \"hosts.csv\" format: \"bamboo\" set: \"removal=failed\" }\n"
      "recovery { design: \"reshard\" checkpoint_period: \"30min\" checkpoint_write: \"1s\" "
      "set: \"min-hosts=2\" }\n";
  const std::string up = "0,add,n1\n0,add,n2\n0,add,n3\n0,add,n4\n";
  const auto lost = [&](const std::string& events) {
    write("s/hosts.csv", up + events);
    const auto loaded = load(head);
    EXPECT_TRUE(loaded.ok()) << loaded.status();
    if (!loaded.ok()) return policy::RecoveryResult();
    return jobs::simulate_recovery((*loaded)->parts.recovery_setup).value();
  };
  const policy::RecoveryResult one = lost("3000000,remove,n2\n3600000,add,n2\n");
  const policy::RecoveryResult three =
      lost("3000000,remove,n2\n3000000,remove,n3\n3000000,remove,n4\n3600000,add,n2\n");
  EXPECT_GT(one.lost_samples, 1000);
  EXPECT_NEAR(three.lost_samples, one.lost_samples, 64);
}

// A loss is noticed after the stack's 15 s, or after what the option `detect` says: not after both.
TEST_F(ClusterScenarios, TheOptionDetectReplacesTheStacksDetection) {
  write("s/hosts.csv", "0,add,n1\n0,add,n2\n3000000,remove,n2\n");
  const std::string text =
      kHead + "until: \"3h\" jobs { name: \"llm\" model: \"gpt3-xl\" global_batch: 64 }\n" +
      "cluster { hosts { count: 2 gpus: 4 gpu: \"a100-40g\" nic: \"9Gbps\" } storage { read: \"1GB/s\" } }\n" +
      "availability { file: \"hosts.csv\" format: \"bamboo\" set: \"removal=failed\" }\n" +
      "recovery { design: \"checkpoint-restart\" }\n";
  const auto paused_gpu_s = [&](const LoadOptions& options) {
    return jobs::simulate_recovery((*load(text, options))->parts.recovery_setup)->changing_gpu_h * 3600;
  };
  EXPECT_NEAR(paused_gpu_s({.settings = {"recovery.set.detect=60s"}}), paused_gpu_s({}) + 4 * (60 - 15), 1e-6);
}

TEST_F(ClusterScenarios, SettingsReplaceValuesAndDropExpectations) {
  const std::string text = kHead + kCluster + kWorkload + "expect { metric: \"/metrics/finished\" equals: 1 }\n";
  EXPECT_EQ((*load(text))->expectations.size(), 1u);
  const auto changed = load(text, {.settings = {"seed=9", "workload.set.jobs=7"}});
  ASSERT_TRUE(changed.ok()) << changed.status();
  EXPECT_EQ((*changed)->seed, 9u);
  EXPECT_EQ((*changed)->many().workload.jobs.size(), 7u);
  EXPECT_TRUE((*changed)->expectations.empty());
  EXPECT_THAT(message_of(load(text, {.settings = {"policy.name=nobody"}}).status()),
              HasSubstr("x.textproto: error: --set=policy.name=nobody: unknown policy"));
}

// `round` is Gavel's and not SRTF's; what nobody knows is a mistake.
TEST_F(ClusterScenarios, ParametersOfTheFilesOwnPolicyAreLeftOutOfAnother) {
  const std::string text = kHead + kCluster + kWorkload + "policy { name: \"gavel-max-min\" set: \"round=60s\" }\n";
  const auto other = load(text, {.settings = {"policy.name=srtf"}});
  ASSERT_TRUE(other.ok()) << other.status();
  EXPECT_TRUE((*other)->policy->set.empty());
  ASSERT_EQ((*other)->many().left_out.size(), 1u);
  EXPECT_THAT((*other)->many().left_out.front(), HasSubstr("\"round=60s\" is left out: srtf has no such parameter"));
  const auto own = load(text, {.settings = {"policy.name=gavel-max-min"}});
  ASSERT_TRUE(own.ok()) << own.status();
  EXPECT_EQ((*own)->policy->set.size(), 1u);
  EXPECT_TRUE((*own)->many().left_out.empty());
  EXPECT_FALSE(load(text, {.settings = {"policy.name=srtf", "policy.set.rond=1s"}}).ok());
  const std::string wrong = kHead + kCluster + kWorkload + "policy { name: \"srtf\" set: \"round=60s\" }\n";
  EXPECT_THAT(message_of(load(wrong).status()), HasSubstr("round")) << "the file's own is judged as ever";
}

TEST_F(ClusterScenarios, ParametersOfTheFilesOwnDesignAreLeftOutOfAnother) {
  write("s/hosts.csv", "0,add,n1\n0,add,n2\n3600000,remove,n2\n");
  const std::string text = kHead +
                           "cluster { hosts { count: 2 gpus: 4 gpu: \"v100-16g\" nic: \"10Gbps\" } "
                           "storage { read: \"1GB/s\" } }\n"
                           "jobs { name: \"llm\" model: \"gpt3-xl\" global_batch: 64 }\nuntil: \"3h\"\n"
                           "availability { file: \"hosts.csv\" format: \"bamboo\" }\n"
                           "recovery { design: \"redundancy\" set: \"stages=1\" set: \"min-hosts=1\" }\n";
  const auto other = load(text, {.settings = {"recovery.design=reshard"}});
  ASSERT_TRUE(other.ok()) << other.status();
  EXPECT_EQ((*other)->policy->set, std::vector<std::string>{"min-hosts=1"});
  EXPECT_THAT((*other)->many().left_out.front(), HasSubstr("reshard has no such parameter"));
}

TEST_F(ClusterScenarios, ExpectationsOfASummary) {
  const auto loaded = load(kHead + kCluster + kWorkload + "expect { metric: \"/metrics/a\" at_most: 1 }\n");
  ASSERT_TRUE(loaded.ok());
  EXPECT_EQ(report::failed_expectations(**loaded, "reshard", "{\"metrics\":{\"a\":1}}"), "");
  EXPECT_THAT(report::failed_expectations(**loaded, "reshard", "{\"metrics\":{\"a\":2}}"),
              HasSubstr("/metrics/a is 2"));
}

}  // namespace
}  // namespace scalai::scenario
