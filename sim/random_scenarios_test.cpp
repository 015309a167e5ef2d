// Seeded random scenarios: whatever happens to the jobs, the accounts balance, links are never overfull, and the event
// log leads to the same plans again. A scenario that breaks a rule is printed with its seed.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>

#include "ptc/base/random.h"
#include "ptc/base/testing/share.h"
#include "ptc/report/report.h"
#include "sim/testing/simulation.h"

namespace scalai::sim {
namespace random_scenarios_test {

using control::JobSpan;
using control::RunReport;
using control::testing::job_text;
using scenario::Scenario;

constexpr double kRounding = 1e-6;

constexpr double kNic = 1e6, kGpuLink = 4e6;

// A fabric with two racks, an uplink of it and its switches.
struct Net {
  std::string text, uplink;
  std::vector<std::string> switches;
};
const std::vector<Net>& nets() {
  static const std::vector<Net> kNets = {
      {"fabric { kind: LEAF_SPINE leaf_hosts: 2 oversubscription: 2 }", "leaf0.up", {"leaf0", "leaf1", "spine"}},
      {"fabric { kind: FAT_TREE leaf_hosts: 2 group_hosts: 2 group_oversubscription: 2 }",
       "pod0.up",
       {"leaf1", "pod0", "core"}},
      {"fabric { kind: DRAGONFLY leaf_hosts: 1 group_hosts: 2 group_oversubscription: 2 } rack_hosts: 2",
       "group1.down",
       {"router3", "group0"}},
      {"fabric { kind: RAIL group_hosts: 2 oversubscription: 2 } rack_hosts: 2", "rail1.up", {"rail0", "spine"}}};
  return kNets;
}

// Four hosts of two GPUs, slow enough that a transfer of the tiny model takes seconds.
std::string slow_cluster(const Net& net, bool domains) {
  return fmt::format(R"(
  schema_version: 1
  name: "random"
  until: "200s"
  cluster {{
    name: "slow"
    hosts {{ count: 4 gpus: 2 gpu: "a6000-48g" nics: 1 nic: "1MB/s" pcie: "4MB/s" gpu_link: "4MB/s"
            store_ingest: "2MB/s" nvlink_hosts: {} }}
    {}
    storage {{ read: "2MB/s" write: "1MB/s" }}
  }}
  costs {{ restart: "3s" communicator: "1s" detect: "2s" transfer_start: "10ms" }}
)",
                     domains ? 2 : 1, net.text);
}

class Writer {
 public:
  explicit Writer(uint64_t seed) : random_(seed) {}

  std::string scenario() {
    const bool two = random_.below(3) == 0;
    net_ = nets()[static_cast<size_t>(random_.below(static_cast<int64_t>(nets().size())))];
    std::string text = slow_cluster(net_, random_.below(4) == 0) + job("a", two ? 4 : 8) + (two ? job("b", 4) : "");
    two_jobs_ = two;
    if (random_.below(3) == 0) text += "planner { round_bytes: \"200kB\" }\n";
    for (int64_t n = random_.below(8); n > 0; --n) text += event();
    for (const std::string& what : repairs_) {
      if (random_.below(3) != 0) text += "events { " + when() + " repair { " + what + " } }\n";
    }
    return text;
  }

 private:
  std::string pick(const std::vector<std::string>& choices) {
    return choices[static_cast<size_t>(random_.below(static_cast<int64_t>(choices.size())))];
  }
  std::string layout(int gpus) {
    const std::map<int, std::vector<std::string>> layouts = {
        {1, {"tp1"}},
        {2, {"tp2", "pp2", "dp2", "dp2,zero1", "pp2,stages=3:1"}},
        {4, {"tp2,pp2", "tp4", "pp2,dp2", "tp2,dp2,zero1", "dp4", "pp4", "tp2,dp2,order=dp-tp-cp-pp", "dp4,zero3"}},
        {6, {"tp2,pp3", "pp3,dp2,stages=2:1:1"}},
        {8, {"tp2,pp2,dp2", "tp4,dp2", "dp8,zero1", "pp4,dp2", "tp2,pp4", "pp2,dp4,zero1"}}};
    return pick(layouts.at(gpus));
  }
  std::string job(const std::string& name, int most) {
    std::vector<int> sizes;
    for (const int gpus : {1, 2, 4, 6, 8}) {
      if (gpus <= most && random_.below(4) != 0) sizes.push_back(gpus);
    }
    if (sizes.empty()) sizes.push_back(2);
    std::string text =
        "gpus: " + std::to_string(sizes[static_cast<size_t>(random_.below(static_cast<int64_t>(sizes.size())))]);
    for (const int gpus : sizes) {
      const bool model = random_.below(8) == 0;  // the analytic model's steps are tiny: too many events
      const double step_s = model ? 0.1 : static_cast<double>(random_.between(5, 40)) / 10;
      text += fmt::format(" configs {{ layout: \"{}\" step_time: \"{}s\" }}", layout(gpus), step_s);
    }
    smallest_[name] = sizes.front();
    if (random_.below(2) == 0) {
      text += fmt::format(" checkpoint {{ every_steps: {} host_memory_copy: {} }}", random_.between(1, 20),
                          random_.below(2) == 0 ? "true" : "false");
    }
    if (random_.below(3) == 0) {
      text += fmt::format(" redundancy {{ copies: {} where: {} every_steps: {} }}", random_.between(1, 2),
                          pick({"OTHER_HOST", "OTHER_DEVICE"}), random_.between(1, 10));
    }
    if (random_.below(4) == 0) text += fmt::format(" steps: {}", random_.between(100, 150));
    return job_text(name, text);
  }
  std::string any_job() { return two_jobs_ && random_.below(2) == 0 ? "b" : "a"; }
  std::string when() {
    const int64_t kind = random_.below(6);
    if (kind == 0) return fmt::format("at_step {{ job: \"{}\" step: {} }}", any_job(), random_.between(1, 60));
    if (kind <= 2) {
      return fmt::format("during {{ job: \"{}\" reconfiguration: {} after_round: {} delay: \"{}ms\" }}", any_job(),
                         random_.between(1, 3), random_.below(2), random_.below(4) * 700);
    }
    return fmt::format("at: \"{}ms\"", random_.between(0, 180) * 1000 + random_.below(2) * random_.below(1000));
  }
  std::string places(bool devices_only = false) {
    const int64_t kind = devices_only ? 4 : random_.below(5);
    if (kind == 0) return fmt::format("racks: {}", random_.below(2));
    if (kind <= 2) return fmt::format("hosts: {}", random_.below(4));
    std::set<int64_t> devices;
    for (int64_t n = random_.between(1, 3); n > 0; --n) devices.insert(random_.below(8));
    return fmt::format("devices: [{}]", fmt::join(devices, ", "));
  }
  std::string link() {
    return fmt::format("links: \"{}\"", pick({"h0.nic0.up", "h1.nic0.down", net_.uplink, "storage.read",
                                              "h2.g0.pcie.down", "storage.write", "h0.g0.up"}));
  }
  std::string leave() {
    const int64_t kind = random_.below(3);
    if (kind == 0) return "";
    return kind == 1 ? " leave: true" : fmt::format(" leave: true expected: \"{}s\"", random_.between(1, 90));
  }
  std::string event() {
    const int64_t kind = random_.below(7);
    const std::string name = any_job();
    std::string what;
    if (kind <= 1) what = fmt::format("resize {{ job: \"{}\" gpus: {} }}", name, random_.between(smallest_[name], 8));
    if (kind == 2 || kind == 3) {
      const std::string lost = random_.below(4) != 0   ? places()
                               : random_.below(3) == 0 ? "switches: \"" + pick(net_.switches) + "\""
                                                       : link();
      repairs_.push_back(lost);
      const bool of_links = lost.starts_with("links") || lost.starts_with("switches");
      what = "fail { " + lost + (of_links ? leave() : "") + " }";
    }
    if (kind == 4)
      what = fmt::format("degrade {{ {} factor: {} }}", random_.below(2) == 0 ? link() : places(true),
                         pick({"0.5", "0.9", "1"}));
    if (kind == 5) {
      const std::string lost = places();
      repairs_.push_back(lost);
      what = fmt::format("preempt {{ {} notice: \"{}s\" }}", lost, random_.between(1, 30));
    }
    if (kind == 6)
      what = fmt::format("redeploy {{ job: \"{}\" devices: [{}] }}", name, fmt::join(shuffled(smallest_[name]), ", "));
    return "events { " + when() + " " + what + " }\n";
  }
  std::vector<int> shuffled(int count) {
    std::vector<int> all = {0, 1, 2, 3, 4, 5, 6, 7};
    for (size_t i = 0; i < all.size(); ++i)
      std::swap(all[i], all[i + static_cast<size_t>(random_.below(static_cast<int64_t>(all.size() - i)))]);
    all.resize(static_cast<size_t>(count));
    return all;
  }

  Random random_;
  Net net_;
  bool two_jobs_ = false;
  std::map<std::string, int> smallest_;
  std::vector<std::string> repairs_;
};

void expect_balanced_accounts(const RunReport& report) {
  for (size_t j = 0; j < report.jobs.size(); ++j) {
    const control::JobRecord& job = report.jobs[j];
    EXPECT_NEAR(job.wall_s, job.training_s - job.downtime.run_again_s + job.downtime_s, kRounding) << job.name;
    EXPECT_NEAR(job.downtime.total(), job.downtime_s, kRounding) << job.name << ": the causes add up";
    EXPECT_EQ(job.downtime.run_again_s > 0, job.lost_steps > 0) << job.name;
    EXPECT_GE(job.downtime_s, -kRounding) << job.name;
    EXPECT_EQ(job.samples, job.steps * 8) << job.name;
    EXPECT_GE(job.steps, 0) << job.name;
    EXPECT_GE(job.lost_steps, 0) << job.name;
    EXPECT_LE(job.gpu_hours, 8 * report.end_s / 3600 + kRounding) << job.name;
    EXPECT_EQ(job.failure.empty(), job.state != "failed" && job.state != "waiting") << job.name;
    double resumed_s = 0;
    for (size_t k = 0; k < job.reconfigurations.size(); ++k) {
      const control::ReconfigurationRecord& record = job.reconfigurations[k];
      EXPECT_EQ(record.index, static_cast<int>(k) + 1);
      EXPECT_GE(record.rolled_back_steps, 0);
      if (!record.completed) continue;
      EXPECT_GE(record.resumed_s - record.phases.total(), resumed_s - kRounding) << job.name << ": pauses overlap";
      EXPECT_LE(record.at_s, record.resumed_s + kRounding);
      EXPECT_TRUE(record.plan->feasible());
      resumed_s = record.resumed_s;
    }
  }
}

void expect_separate_spans(const RunReport& report) {
  std::map<int, std::vector<JobSpan>> spans;
  for (const JobSpan& span : report.spans) spans[span.job].push_back(span);
  for (auto& [job, list] : spans) {
    std::stable_sort(list.begin(), list.end(),
                     [](const JobSpan& a, const JobSpan& b) { return a.start_s < b.start_s; });
    double end_s = 0, train_s = 0;
    for (const JobSpan& span : list) {
      EXPECT_LE(span.start_s, span.end_s + kRounding) << span.what;
      EXPECT_GE(span.start_s, end_s - kRounding) << "job " << job << ": " << span.what;
      EXPECT_LE(span.end_s, report.end_s + kRounding);
      end_s = span.end_s;
      if (span.what == "train") train_s += span.end_s - span.start_s;
    }
    EXPECT_GE(train_s, report.jobs[static_cast<size_t>(job)].training_s - kRounding) << "job " << job;
  }
}

void expect_sound_transfers(const RunReport& report, const Scenario& scenario) {
  const bool domains = scenario.cluster.hosts.front().nvlink_domain >= 0;
  const control::Recorder& recorder = report.recorder;
  for (const control::LinkSample& sample : recorder.link_samples) {
    const cluster::NamedLink& link = recorder.links[static_cast<size_t>(sample.link)];
    ASSERT_LE(sample.bytes_per_s, link.bandwidth_bytes_per_s * (1 + kRounding)) << link.name << " at " << sample.at_s;
    ASSERT_GE(sample.bytes_per_s, 0) << link.name;
  }
  for (const control::TransferRecord& transfer : recorder.transfers) {
    EXPECT_LE(transfer.start_s, transfer.end_s);
    EXPECT_GT(transfer.bytes, 0);
    if (transfer.status == "done" && transfer.transfer_class == plan::TransferClass::kCrossHost) {
      EXPECT_LE(static_cast<double>(transfer.bytes),
                (transfer.end_s - transfer.start_s) * (domains ? kGpuLink : kNic) * (1 + kRounding) + 1);
    }
  }
}

// What a staged strategy pulls out of a host's memory has been put there.
void expect_staged(const control::Command& command) {
  const auto* execute = std::get_if<control::Execute>(&command);
  if (execute == nullptr || !execute->upload || execute->stage.empty()) return;
  std::set<plan::Location> stores;
  for (const control::BulkFlow& flow : execute->stage) stores.insert(flow.dst);
  for (const plan::Operation& operation : execute->plan->operations()) {
    if (operation.src.kind != plan::Location::Kind::kHostMemory) continue;
    ASSERT_TRUE(stores.contains(operation.src)) << operation.src.str() << " holds nothing";
  }
}

void expect_replayable(const Scenario& scenario, const scenario::Strategy& strategy, const RunReport& report) {
  const step::AnalyticStepTime step_time;
  control::Control control(scenario, strategy, step_time);
  for (const control::Event& event : report.events) control.step(event);
  ASSERT_EQ(control.plans().size(), report.plans.size());
  for (size_t i = 0; i < report.plans.size(); ++i) EXPECT_EQ(control.plans()[i].digest(), report.plans[i].digest());
}

// More of them: SCALAI_RANDOM_SCENARIOS=10000.
int64_t scenario_count() {
  const char* text = std::getenv("SCALAI_RANDOM_SCENARIOS");
  return text != nullptr ? std::atoll(text) : soaking() ? 600 : 240;
}

TEST(RandomScenarios, KeepTheirInvariants) {
  const std::vector<std::string> names = scenario::strategy_names();
  std::map<std::string, int> states;
  for (int64_t seed = 1; seed <= scenario_count(); ++seed) {
    const std::string text = Writer(static_cast<uint64_t>(seed)).scenario();
    const std::string& name = names[static_cast<size_t>(seed) % names.size()];
    SCOPED_TRACE(fmt::format("seed {}, strategy {}\n{}", seed, name, text));
    const absl::StatusOr<Scenario> scenario = control::testing::scenario_of(text);
    ASSERT_TRUE(scenario.ok()) << message_of(scenario.status());
    const scenario::Strategy strategy = scenario::find_strategy(name, scenario->costs).value();
    const RunReport report = testing::simulate(*scenario, strategy, expect_staged);
    expect_balanced_accounts(report);
    expect_separate_spans(report);
    expect_sound_transfers(report, *scenario);
    expect_replayable(*scenario, strategy, report);
    if (seed % 4 == 0) {
      EXPECT_EQ(report::summary_json(report), report::summary_json(testing::simulate(*scenario, strategy)));
    }
    for (const control::JobRecord& job : report.jobs) ++states[job.state];
    if (::testing::Test::HasFailure()) return;
  }
  // The generator reaches every end that a job can have.
  EXPECT_TRUE(scenario_count() < 200 || states.size() >= 4) << fmt::format("{} states", states.size());
}

}  // namespace random_scenarios_test
}  // namespace scalai::sim
