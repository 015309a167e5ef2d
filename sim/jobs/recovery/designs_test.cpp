#include "sim/jobs/recovery/designs.h"

#include <cmath>
#include <set>

#include "gtest/gtest.h"
#include "ptc/base/file.h"
#include "ptc/run/policy/testing/support.h"
#include "sim/jobs/recovery/testing/support.h"

namespace scalai::jobs {
namespace {

using Kind = policy::FleetEvent::Kind;
using testing::host_event;

class Designs : public ::testing::Test {
 protected:
  Designs() { trace_.events = {host_event(100, Kind::kFailed, {1}), host_event(300, Kind::kFailed, {2})}; }

  RecoveryRequest request(const std::string& design) const {
    RecoveryRequest request;
    request.design = design;
    request.samples_per_s = [](int hosts) { return static_cast<double>(hosts); };
    request.change_s = [](const HostChange&) { return 3.0; };
    request.samples_per_step = 4;
    request.availability = &trace_;
    request.hosts = 4;
    return request;
  }

  static std::string problem(const RecoveryRequest& request) {
    const auto setup = make_recovery(request);
    return setup.ok() ? "" : setup.status().ToString();
  }

  policy::Availability trace_;
};

TEST_F(Designs, AreAllThere) {
  std::set<std::string> names;
  for (const RecoveryInfo& info : recovery_designs()) {
    EXPECT_FALSE(info.summary.empty() || info.source.empty()) << info.name;
    names.insert(info.name);
  }
  EXPECT_EQ(names, (std::set<std::string>{"checkpoint-restart", "redundancy", "templates", "proactive", "spare-swap",
                                          "reshard"}));
}

TEST_F(Designs, RunAsAskedFor) {
  for (const RecoveryInfo& info : recovery_designs()) {
    if (info.design == RecoveryDesign::kProactive) continue;
    RecoveryRequest one = request(info.name);
    if (info.name == "redundancy") one.set = {"stages=2"};
    const auto setup = make_recovery(one);
    ASSERT_TRUE(setup.ok()) << setup.status().ToString();
    EXPECT_EQ(setup->design, info.design);
    EXPECT_TRUE(simulate_recovery(*setup).ok()) << info.name;
  }
}

TEST_F(Designs, TakeOptions) {
  RecoveryRequest one = request("spare-swap");
  one.set = {"spares=2",       "batch=16",        "until=10min",    "detect=5s",
             "host-ready=45s", "step-lost=false", "join-horizon=2h"};
  const auto setup = make_recovery(one);
  ASSERT_TRUE(setup.ok()) << setup.status().ToString();
  EXPECT_EQ(setup->spares, 2);
  EXPECT_EQ(setup->samples_per_step, 16);
  EXPECT_EQ(setup->until_s, 600);
  EXPECT_EQ(setup->costs.detect_s, 5);
  EXPECT_EQ(setup->costs.host_ready_s, 45);
  EXPECT_FALSE(setup->costs.step_lost);
  EXPECT_EQ(setup->join_horizon_s, 7200);
}

// The artifact's table: the rows of the design's system and model, nothing added.
TEST_F(Designs, TakeCostsOfASystem) {
  RecoveryRequest one = request("checkpoint-restart");
  one.costs = ::testing::TempDir() + "/designs_system_costs.csv";
  ASSERT_TRUE(write_file(one.costs,
                         "system,model,samples_per_step,local_reconfig_s,checkpoint_s,checkpoint_every_iters,"
                         "global_rendezvous_s\nvaruna,GPT-3-6.7b,1024,701,120,8,\noobleck,GPT-3-6.7b,1024,10,,,\n")
                  .ok());
  one.set = {"model=GPT-3-6.7b"};
  const auto setup = make_recovery(one);
  ASSERT_TRUE(setup.ok()) << setup.status().ToString();
  EXPECT_EQ(name_of_rules(*setup), "steady (one set for all designs)");
  // 8 steps of 1,024 samples, at the rate on all hosts.
  EXPECT_DOUBLE_EQ(setup->checkpoints.every_s, 8 * 1024 / setup->samples_per_s(setup->hosts));
  EXPECT_EQ(setup->costs.change_s({.from = 4, .to = 3, .lost = 1}), 701);
  EXPECT_EQ(setup->checkpoints.write_s, 120);
  EXPECT_EQ(setup->costs.host_ready_s, 0);
  EXPECT_EQ(setup->samples_per_step, 1024);
}

TEST_F(Designs, TakeOwnTables) {
  RecoveryRequest one = request("checkpoint-restart");
  one.costs = ::testing::TempDir() + "/designs_costs.csv";
  ASSERT_TRUE(write_file(one.costs, "cost,seconds\nchange,5\n").ok());
  one.throughputs = ::testing::TempDir() + "/designs_rates.csv";
  ASSERT_TRUE(write_file(one.throughputs, "hosts,samples_per_s\n2,5\n").ok());
  const auto setup = make_recovery(one);
  ASSERT_TRUE(setup.ok()) << setup.status().ToString();
  EXPECT_EQ(setup->costs.change_s({.from = 27, .to = 26, .lost = 1}), 5);
  EXPECT_EQ(setup->costs.host_ready_s, 0);
  EXPECT_EQ(setup->samples_per_s(1), 0);
  EXPECT_NE(setup->throughput_rule.find("it cannot run"), std::string::npos);
  one.set.push_back("beyond=nearest");
  EXPECT_EQ(make_recovery(one)->samples_per_s(1), 5);
}

// Published tables have no rows for every design.
TEST_F(Designs, SayWhoseRowsToTake) {
  RecoveryRequest one = request("reshard");
  one.throughputs = ::testing::TempDir() + "/designs_systems.csv";
  ASSERT_TRUE(write_file(one.throughputs, "system,model,active_nodes,samples_per_s\noobleck,GPT-2,2,5\n").ok());
  one.set = {"model=GPT-2"};
  EXPECT_NE(problem(one).find("table-of="), std::string::npos) << problem(one);
  one.set.push_back("table-of=oobleck");
  EXPECT_EQ(problem(one), "");
  one.checkpoint_period = "1us";
  EXPECT_NE(simulate_recovery(*make_recovery(one)).status().ToString().find("below 1 s"), std::string::npos);
}

// Losses at 100 and 300 of 300 s: one each 150 s.
TEST_F(Designs, YoungDaly) {
  RecoveryRequest one = request("reshard");
  one.checkpoint_period = "young-daly";
  one.checkpoint_write = "3s";
  const auto setup = make_recovery(one);
  ASSERT_TRUE(setup.ok()) << setup.status().ToString();
  EXPECT_NEAR(setup->checkpoints.every_s, std::sqrt(2 * 3 * 150.0), 1e-9);
  one.set = {"mtbf=600s"};
  EXPECT_NEAR(make_recovery(one)->checkpoints.every_s, 60, 1e-9);
  one.checkpoint_period = "10min";
  EXPECT_EQ(make_recovery(one)->checkpoints.every_s, 600);
  EXPECT_EQ(mean_time_between_losses_s(trace_, 600), 300);
  EXPECT_EQ(mean_time_between_losses_s(trace_, 50), policy::kNever);
}

TEST_F(Designs, SayWhatIsWrong) {
  EXPECT_NE(problem(request("template")).find("did you mean \"templates\"?"), std::string::npos);
  EXPECT_NE(problem(request("xyzzy")).find("spare-swap"), std::string::npos);
  RecoveryRequest one = request("reshard");
  one.set = {"spare=2", "until=soon", "batch=-1"};
  one.checkpoint_period = "young-daly";
  const std::string text = problem(one);
  for (const char* part : {"no option \"spare\"", "until", "batch", "young-daly"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << " in " << text;
  }
  RecoveryRequest bare;
  bare.design = "reshard";
  for (const char* part : {"throughput", "what a change of hosts costs", "samples a step"}) {
    EXPECT_NE(problem(bare).find(part), std::string::npos) << part << " in " << problem(bare);
  }
  one.set = {"rules=published"};  // of the validation alone
  EXPECT_NE(problem(one).find("no option \"rules\""), std::string::npos);
  EXPECT_NE(problem(request("proactive")).find("table of layouts"), std::string::npos);
}

TEST_F(Designs, ProactiveReadsParcaesTable) {
  const std::string path = policy::testing::data_path("parcae/strategy_throughput.csv");
  if (path.empty()) GTEST_SKIP() << policy::testing::data_hint("parcae/strategy_throughput.csv");
  RecoveryRequest one = request("proactive");
  one.set = {"model=bert", "look-ahead=8"};
  one.throughputs = path;
  const auto setup = make_recovery(one);
  ASSERT_TRUE(setup.ok()) << setup.status().ToString();
  ASSERT_NE(setup->liveput, nullptr);
  EXPECT_EQ(setup->liveput->best(32), (PipelineLayout{8, 4}));
  const auto result = simulate_recovery(*setup);
  ASSERT_TRUE(result.ok()) << result.status().ToString();
  EXPECT_GT(result->samples, 0);
}

}  // namespace
}  // namespace scalai::jobs
