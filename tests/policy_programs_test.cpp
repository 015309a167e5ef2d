// The policy programs of the tree against the built-in policies that they equal: every job ends at the same time.
// Programs that name hosts and ask for rates.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "tests/sched_end_to_end.h"

namespace scalai::testing {
namespace policy_programs_test {

using ::testing::HasSubstr;

// Rates of two kinds of jobs, alone and in pairs, on two types of GPUs.
constexpr const char* kPairs = R"json({
"v100": {"('bert', 1)": {"null": 8.0, "('bert', 1)": [4.5, 4.5], "('resnet', 1)": [7.0, 6.0]},
         "('resnet', 1)": {"null": 9.0, "('bert', 1)": [6.0, 7.0], "('resnet', 1)": [8.0, 8.0]}},
"k80": {"('bert', 1)": {"null": 2.0, "('bert', 1)": [1.0, 1.0], "('resnet', 1)": [1.9, 1.0]},
        "('resnet', 1)": {"null": 3.0, "('bert', 1)": [1.0, 1.9], "('resnet', 1)": [2.8, 2.8]}}})json";

class PolicyPrograms : public SchedEndToEnd {
 protected:
  // The jobs that a policy leaves behind: name, times, changes.
  std::string jobs_under(const std::string& file, const std::string& policy) const {
    const Outcome run = sim(fmt::format("{} {} --out={}", file, policy, path("out")));
    EXPECT_EQ(run.code, 0) << run.err;
    const std::string jobs = read_all(folder_ / "out/jobs.csv");
    fs::remove_all(folder_ / "out");
    return jobs;
  }
  std::string under_program(const std::string& file, const std::string& program) const {
    const std::string command = fmt::format("python3 {}/{}", (kScenarios / "policies").string(), program);
    return jobs_under(file, fmt::format("--set=policy.name= '--set=policy.exec={}'", command));
  }
  std::string under(const std::string& file, const std::string& policy) const {
    return jobs_under(file, "--set=policy.name=" + policy);
  }

  // 60 jobs of one GPU on three GPUs of two types, with a table that has pairs.
  std::string pairs() const {
    std::string jobs = "scalai-trace,1,jobs\nsubmit_s,gpus,work,type\n";
    for (int k = 0; k < 60; ++k) {
      jobs += fmt::format("{},1,{},{}\n", 37 * k, 200 + (k * 7919) % 1500, k % 3 == 0 ? "bert" : "resnet");
    }
    write_all(path("jobs.csv"), jobs);
    write_all(path("pairs.json"), kPairs);
    write_all(path("pairs.textproto"), R"(schema_version: 1
name: "pairs"
seed: 1
cluster { hosts { count: 1 gpus: 2 gpu: "v100-16g" nic: "10Gbps" } hosts { count: 1 gpus: 1 gpu: "k80-12g" nic: "10Gbps" } }
workload { file: "jobs.csv" }
throughputs { source: "table" format: "gavel" file: "pairs.json" }
policy { name: "fifo-backfill" }
changes { seconds: "10s" }
)");
    return path("pairs.textproto");
  }
};

TEST_F(PolicyPrograms, TheTemplateIsFifoWithBackfill) {
  const std::string jobs = under_program(scenario(), "template.py");
  EXPECT_EQ(jobs, under(scenario(), "fifo-backfill"));
  EXPECT_NE(jobs, under(scenario(), "fifo")) << "else this would say nothing";
}

TEST_F(PolicyPrograms, ShortestFirstIsSrtf) {
  const std::string hosts =
      "availability { generator: \"poisson\" set: \"host-mtbf=6h\" set: \"repair=1h\" set: \"span=20d\" }\n";
  const std::string jobs = under_program(scenario(hosts), "shortest_first.py");
  EXPECT_EQ(jobs, under(scenario(hosts), "srtf"));
  EXPECT_NE(jobs, under(scenario(hosts), "sjf")) << "it takes GPUs away";
}

TEST_F(PolicyPrograms, ShortestFirstOfSeveralTypesTakesTheFastest) {
  const std::string file = pairs();
  const std::string jobs = under_program(file, "shortest_first.py");
  EXPECT_EQ(jobs, under(file, "srtf --set=policy.set.types=fastest"));
  EXPECT_NE(jobs, under(file, "sjf --set=policy.set.types=fastest"));
}

TEST_F(PolicyPrograms, ElasticIsOptimus) {
  if (with_data("policies optimus").code != 0) GTEST_SKIP() << "labs/policies is not built (SCALAI_LABS=OFF)";
  std::string text = read_all(scenario());
  const std::string rigid = "throughputs { source: \"duration\" }";
  text.replace(
      text.find(rigid), rigid.size(),
      "throughputs { source: \"duration\" beyond: \"sqrt\" set: \"elastic-min=0.25\" set: \"elastic-max=4\" }");
  write_all(path("elastic.textproto"), text);
  const std::string jobs = under_program(path("elastic.textproto"), "elastic.py");
  EXPECT_EQ(jobs, under(path("elastic.textproto"), "optimus"));
  EXPECT_NE(jobs, under(path("elastic.textproto"), "fifo-backfill"));
}

TEST_F(PolicyPrograms, PackedIsFifoWithPacking) {
  const std::string file = pairs();
  const std::string jobs = under_program(file, "packed.py 1.4");
  EXPECT_EQ(jobs, under(file, "fifo-backfill --set=policy.set.packing=1.4"));
  EXPECT_NE(jobs, under(file, "fifo-backfill")) << "jobs do share GPUs";
}

// It puts each job on one host that it chooses, the last one first; Scalai would take the first.
TEST_F(PolicyPrograms, HostsThatAreNamedAreTaken) {
  fs::copy_file(kScenarios / "policies/scalai_policy.py", path("scalai_policy.py"));
  write_all(path("last.py"), R"py(from scalai_policy import grant, serve
def decide(state):
    free = [u - h for u, h in zip(state.usable, state.held)]
    grants = []
    for job in state.jobs.values():
        host = next((h for h in reversed(range(len(free))) if free[h] >= job.gpus), None)
        if job.has or host is None:
            continue
        whole, spread = state.rates({"job": job.job, "hosts": [{"host": host, "gpus": job.gpus}]},
                                    {"job": job.job, "type": state.hosts[host]["type"], "gpus": job.gpus})
        cost, = state.change_costs({"job": job.job, "gpus": job.gpus})
        assert whole == spread > 0 and cost >= 0, (whole, spread, cost)
        free[host] -= job.gpus
        grants.append(grant(job, job.gpus, hosts={host: job.gpus}))
    return grants
serve(decide, "last")
)py");
  const std::string file = scenario();
  const Outcome run = sim(
      file + " --set=workload.set.jobs=3 --set=policy.name= '--set=policy.exec=python3 last.py' --out=" + path("out"));
  ASSERT_EQ(run.code, 0) << run.err;
  std::istringstream rows(read_all(folder_ / "out/placements.csv"));
  std::string row;
  std::getline(rows, row);
  ASSERT_TRUE(std::getline(rows, row));
  EXPECT_THAT(row, HasSubstr(",h3:"));
}

// What a broken rule looks like to the user: the message has the program, the time, the grant and the answer.
TEST_F(PolicyPrograms, ABrokenRuleIsShownWithItsLine) {
  write_all(path("wrong.py"), R"(import json, sys
for line in sys.stdin:
    q = json.loads(line)
    print(json.dumps({"scalai_policy": 1} if q["ask"] == "hello" else
                     {"grants": [{"job": q["jobs"][0]["job"], "gpus": q["jobs"][0]["gpus"], "beside": "none"}]}), flush=True)
)");
  const Outcome run = sim(scenario() + " --set=policy.name= '--set=policy.exec=python3 wrong.py'");
  EXPECT_EQ(run.code, 5);
  EXPECT_THAT(run.err, HasSubstr("grants[0] names \"none\", which is no job that is here"));
  EXPECT_THAT(run.err, HasSubstr("\"beside\": \"none\"}]}"));
}

}  // namespace policy_programs_test
}  // namespace scalai::testing
