#include "ptc/run/scenario/trace/tables.h"

#include <cmath>

#include "ptc/run/policy/testing/support.h"
#include "ptc/run/scenario/trace/gavel_table.h"
#include "ptc/run/scenario/trace/testing/test_files.h"

namespace scalai::trace {
namespace {

using policy::testing::data_hint;
using policy::testing::data_path;
using testing::has;

class Tables : public testing::TraceFiles {
 protected:
  static policy::Fleet fleet(const std::vector<std::string>& types, int hosts = 2, int gpus = 4) {
    policy::Fleet result;
    for (size_t type = 0; type < types.size(); ++type) {
      result.types.push_back({types[type], 0});
      for (int i = 0; i < hosts; ++i) result.hosts.push_back({policy::GpuType(static_cast<int64_t>(type)), gpus});
    }
    return result;
  }
  static policy::Workload jobs(const std::string& type, int gpus, int64_t batch = 0) {
    policy::Workload workload;
    workload.jobs.push_back(policy::testing::rigid_job("j", 0, gpus, 100));
    workload.jobs[0].type = type;
    workload.jobs[0].batch = batch;
    return workload;
  }
  static std::unique_ptr<policy::Throughput> source(const std::string& format, const std::string& path,
                                                    const policy::Fleet& fleet, const policy::Workload& workload,
                                                    Beyond beyond) {
    auto made = table_throughput(format, path, fleet, workload, beyond);
    EXPECT_TRUE(made.ok()) << message_of(made.status());
    return made.ok() ? *std::move(made) : nullptr;
  }
  static std::string refused(const std::string& format, const std::string& path, const policy::Fleet& fleet,
                             const policy::Workload& workload, Beyond beyond = Beyond::kRefuse) {
    const auto made = table_throughput(format, path, fleet, workload, beyond);
    EXPECT_FALSE(made.ok());
    return message_of(made.status());
  }
  static double rate(const policy::Throughput& source, const policy::Job& job, int gpus, int type = 0) {
    return source.rate(job, policy::GpuType(type), gpus, 0).per_s;
  }
};

TEST_F(Tables, RulesByName) {
  for (const Beyond beyond : {Beyond::kRefuse, Beyond::kNearest, Beyond::kLinear, Beyond::kSqrt}) {
    EXPECT_EQ(*beyond_of(name_of(beyond)), beyond);
  }
  EXPECT_TRUE(has(message_of(beyond_of("guess").status()), "none of refuse, nearest, linear, sqrt"));
}

TEST_F(Tables, DurationsOfTheTrace) {
  const policy::Job job = policy::testing::rigid_job("j", 0, 4, 100);
  const auto refuse = duration_throughput(Beyond::kRefuse), sqrt = duration_throughput(Beyond::kSqrt);
  EXPECT_EQ(rate(*refuse, job, 4), 1);
  EXPECT_EQ(rate(*refuse, job, 2), 0);
  EXPECT_EQ(rate(*refuse, job, 8), 0);
  EXPECT_EQ(rate(*duration_throughput(Beyond::kNearest), job, 8), 1);
  EXPECT_EQ(rate(*duration_throughput(Beyond::kNearest), job, 2), 0);
  EXPECT_EQ(rate(*duration_throughput(Beyond::kLinear), job, 2), 0.5);
  EXPECT_EQ(rate(*sqrt, job, 16), 2);
  policy::Job counted = job;
  counted.work = 500;  // iterations in 100 s
  EXPECT_EQ(rate(*refuse, counted, 4), 5);
  counted.duration_s = -1;
  EXPECT_EQ(rate(*refuse, counted, 4), 1);
  EXPECT_EQ(sqrt->description(), "run times of the trace; other numbers of GPUs: sqrt");
}

constexpr const char* kOwn = "type,gpu,gpus,iterations_per_s\nbert,A,1,10\nbert,A,4,30\nbert,A,8,0\nbert,b,2,5\n";

TEST_F(Tables, RowsBetweenAndBeyond) {
  const std::string path = file(kOwn);
  const policy::Workload workload = jobs("bert", 4);
  const policy::Job& job = workload.jobs[0];
  const policy::Fleet types = fleet({"a", "B-32g"});
  const auto refuse = source("scalai", path, types, workload, Beyond::kRefuse);
  const auto nearest = source("scalai", path, types, workload, Beyond::kNearest);
  const auto linear = source("scalai", path, types, workload, Beyond::kLinear);
  const auto sqrt = source("scalai", path, types, workload, Beyond::kSqrt);
  for (const auto& one : {&refuse, &nearest, &linear, &sqrt}) {
    EXPECT_EQ(rate(**one, job, 1), 10);
    EXPECT_EQ(rate(**one, job, 4), 30);
    EXPECT_EQ(rate(**one, job, 8), 0);  // measured: it cannot run there
    EXPECT_EQ(rate(**one, job, 16), 0);
    EXPECT_EQ(rate(**one, job, 2, 1), 5);
  }
  EXPECT_EQ(rate(*refuse, job, 2), 0);
  EXPECT_EQ(rate(*nearest, job, 2), 10);
  EXPECT_NEAR(rate(*linear, job, 2), 10 + 20.0 / 3, 1e-12);
  EXPECT_EQ(rate(*linear, job, 6), 0);  // towards a row of 0
  EXPECT_EQ(rate(*nearest, job, 4, 1), 5);
  EXPECT_EQ(rate(*linear, job, 4, 1), 10);
  EXPECT_EQ(rate(*sqrt, job, 8, 1), 10);
  EXPECT_EQ(rate(*linear, job, 1, 1), 2.5);
  EXPECT_EQ(rate(*nearest, job, 1, 1), 0);
  EXPECT_EQ(linear->description(), "table scalai (trace.csv), GPUs it has no row for: linear");
}

TEST_F(Tables, JobsThatNoRowCoversAreAllNamed) {
  const std::string path = file(kOwn);
  policy::Workload workload = jobs("bert", 3);
  for (const auto& [type, gpus] : {std::pair{"bert", 3}, {"gpt", 1}, {"bert", 4}, {"bert", 8}}) {
    workload.jobs.push_back(policy::testing::rigid_job("x", 0, gpus, 1));
    workload.jobs.back().type = type;
  }
  const std::string message = refused("scalai", path, fleet({"a"}), workload);
  for (const char* part : {"no rate of \"bert\" on 3 GPUs (2 jobs)", "no rate of \"gpt\" on 1 GPU (1 jobs)",
                           "no rate of \"bert\" on 8 GPUs (1 jobs)", "3 missing\n  hint: beyond"}) {
    EXPECT_TRUE(has(message, part)) << part << "\n" << message;
  }
  EXPECT_FALSE(has(message, "4 GPUs")) << message;
  EXPECT_TRUE(
      has(refused("scalai", path, fleet({"a", "h100"}), workload), "has no GPU type \"h100\"\n  hint: it has A, b"));
}

TEST_F(Tables, BadFiles) {
  const policy::Workload workload = jobs("bert", 4);
  const policy::Fleet types = fleet({"a"});
  EXPECT_TRUE(has(refused("csv", "x", types, workload), "there are gavel, elasticflow, scalai"));
  EXPECT_TRUE(
      has(refused("scalai", file("type,gpu,gpus\n"), types, workload), "iterations_per_s: the header has no such"));
  const std::string message =
      refused("scalai", file("type,gpu,gpus,iterations_per_s\nbert,a,0,1\nbert,a,1,-1\nbert,a,2,1\nbert,a,2,1\n"),
              types, workload);
  for (const char* part : {":2: gpus: \"0\"", ":3: iterations_per_s: \"-1\"", ":5: gpus: this type, GPU and number"}) {
    EXPECT_TRUE(has(message, part)) << part << "\n" << message;
  }
  EXPECT_TRUE(has(refused("scalai", file("type,gpu,gpus,iterations_per_s\n"), types, workload), "has no rows"));
  EXPECT_TRUE(has(refused("elasticflow", folder().string(), types, workload), "global_batch_size"));
  EXPECT_TRUE(has(refused("elasticflow", (folder() / "none").string(), types, workload), "No such file"));
}

TEST_F(Tables, ElasticFlowRowsAreBatchSizes) {
  file("global_batch_size,1,2,4,8\n64,6,8,10,nan\n128,3,5,8,\n", "tables/throughputs_A100/bert.csv");
  file("global_batch_size,1,2\n64,2,3\n", "tables/throughputs_T4/bert.csv");
  const policy::Workload workload = jobs("bert", 2, 128);
  const policy::Fleet types = fleet({"a100", "t4"});
  const auto both = source("elasticflow", (folder() / "tables").string(), types, workload, Beyond::kRefuse);
  EXPECT_EQ(rate(*both, workload.jobs[0], 2), 5);
  EXPECT_EQ(rate(*both, workload.jobs[0], 2, 1), 0);
  EXPECT_EQ(rate(*both, jobs("bert", 2, 64).jobs[0], 2, 1), 3);
  const auto one = source("elasticflow", (folder() / "tables/throughputs_A100/").string(), fleet({"A100"}), workload,
                          Beyond::kRefuse);
  EXPECT_EQ(rate(*one, workload.jobs[0], 4), 8);
  EXPECT_EQ(rate(*one, workload.jobs[0], 8), 0);  // not measured
  EXPECT_TRUE(has(refused("elasticflow", (folder() / "tables").string(), types, jobs("bert", 2, 32)),
                  "no rate of \"bert\" with a batch of 32 on 2 GPUs"));
  file("global_batch_size,1,many\n64,6,x\n", "tables/throughputs_T4/gpt.csv");
  EXPECT_TRUE(
      has(refused("elasticflow", (folder() / "tables").string(), types, workload), "many: is no number of GPUs"));
}

constexpr const char* kGavel = R"j({
  "v100": {"('LM', 2)": {"null": 3.0, "('A3C', 2)": [1.0, 2.0]}, "('LM', 4)": {"null": 5.0, "('A3C', 2)": [9.0, 9.0]},
           "('A3C', 2)": {"null": 2.0}},
  "v100_unconsolidated": {"('LM', 2)": {"null": 1.5}, "('LM', 4)": {"null": 0.0}}})j";

TEST_F(Tables, GavelPairsAndPlaces) {
  const std::string path = file(kGavel, "t.json");
  const policy::Workload workload = jobs("LM", 2), other = jobs("A3C", 2);
  const policy::Job &lm = workload.jobs[0], &a3c = other.jobs[0];
  const auto made = source("gavel", path, fleet({"v100-16g"}), workload, Beyond::kRefuse);
  EXPECT_EQ(rate(*made, lm, 2), 3);
  EXPECT_EQ(made->shared_rate(lm, a3c, policy::GpuType(0), 2), (std::pair<double, double>(1, 2)));
  EXPECT_EQ(made->shared_rate(a3c, lm, policy::GpuType(0), 2),
            (std::pair<double, double>(0, 0)));  // the table lacks the mirror
  EXPECT_EQ(made->shared_rate(lm, a3c, policy::GpuType(0), 4), (std::pair<double, double>(0, 0)));
  const auto placed = [&](std::vector<policy::HostShare> hosts) {
    return made->placed_rate(lm, policy::Placement{policy::GpuType(0), std::move(hosts)}, 0).per_s;
  };
  EXPECT_EQ(placed({{HostId(0), 2}}), 3);
  EXPECT_EQ(placed({{HostId(0), 1}, {HostId(1), 1}}), 1.5);
  EXPECT_EQ(placed({{HostId(0), 2}, {HostId(1), 2}}), 5);  // not measured so: as on one host
  EXPECT_TRUE(has(made->description(), "on more hosts than needed: its unconsolidated rates"));
  // Hosts of one GPU: two of them is what two GPUs need.
  const auto pool = source("gavel", path, fleet({"v100"}, 8, 1), workload, Beyond::kRefuse);
  EXPECT_EQ(pool->placed_rate(lm, policy::Placement{policy::GpuType(0), {{HostId(0), 1}, {HostId(5), 1}}}, 0).per_s, 3);
}

TEST_F(Tables, PublicGavelTable) {
  const std::string path = policy::testing::data_path("gavel/simulation_throughputs.json");
  if (path.empty()) GTEST_SKIP() << policy::testing::data_hint("gavel");
  const auto trace = import_trace("gavel", data_path("gavel/traces/physical_max_min_fairness.trace"));
  ASSERT_TRUE(trace.ok());
  const policy::Fleet types = fleet({"v100", "p100", "k80"});
  const auto made = source("gavel", path, types, trace->workload, Beyond::kRefuse);
  EXPECT_NEAR(rate(*made, jobs("ResNet-18 (batch size 16)", 1).jobs[0], 1, 2), 4.795294551566172, 0);
  EXPECT_EQ(made->shared_rate(jobs("ResNet-18 (batch size 16)", 1).jobs[0],
                              jobs("ResNet-18 (batch size 32)", 1).jobs[0], policy::GpuType(2), 1),
            (std::pair<double, double>(2.539979567443098, 3.1201925448827033)));
  EXPECT_EQ(rate(*made, jobs("ResNet-50 (batch size 128)", 2).jobs[0], 2, 2), 0);
  // The Philly jobs of Gavel ask for up to 24 GPUs, the table ends at 8.
  const auto philly = import_trace("gavel", data_path("gavel/traces/philly_vc_e13805_seed0.trace"));
  ASSERT_TRUE(philly.ok());
  EXPECT_TRUE(has(refused("gavel", path, types, philly->workload), "on 12 GPUs"));
  EXPECT_NE(source("gavel", path, types, philly->workload, Beyond::kLinear), nullptr);
}

TEST_F(Tables, PublicElasticFlowTables) {
  const std::string path = policy::testing::data_path("elasticflow");
  if (path.empty()) GTEST_SKIP() << policy::testing::data_hint("elasticflow");
  const auto trace = import_trace("elasticflow", path + "/elasticVpollux_e.csv");
  ASSERT_TRUE(trace.ok());
  const auto made = source("elasticflow", path, fleet({"t4"}), trace->workload, Beyond::kRefuse);
  EXPECT_EQ(rate(*made, jobs("bert", 8, 384).jobs[0], 8), 0.19352567710981528);
}

}  // namespace
}  // namespace scalai::trace
