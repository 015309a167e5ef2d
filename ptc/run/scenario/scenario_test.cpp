#include "ptc/run/scenario/scenario.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>

#include "ptc/base/file.h"
#include "ptc/base/status.h"

namespace scalai::scenario {
namespace scenario_test {

// A scenario that uses every field, in units nobody would print.
constexpr const char* kWhole = R"(
name: "whole" description: "every field" seed: 18446744073709551615 until: "1h"
cluster {
  name: "mixed"
  hosts { count: 2 gpus: 4 gpu: "a100-80g" nics: 2 nic: "100Gbps" store_serve: "3GiB/s" store_ingest: "2.5GB/s" copy: "2GB/s" }
  hosts { gpus: 4 gpu: "mine" gpu_link: "0.1TB/s" pcie: "12GB/s" nic: "25Gbps" }
  hosts { gpus: 4 gpu: "h100-80g" nic: "0.3Gbps" }
  fabric { kind: LEAF_SPINE leaf_hosts: 2 oversubscription: 1.5 }
  storage { read: "10GB/s" write: "3GB/s" }
  machine_copy: "7GB/s"
  gpu_kinds { name: "mine" memory: "24GiB" peak_tflops: 70.3 memory_bandwidth: "0.7TB/s" pcie: "16GB/s" }
  gpu_kinds { name: "h100-80g" peak_tflops: 800 }
}
jobs {
  name: "big" model: "gpt3-xl" precision: "bf16" optimizer: "sgd" global_batch: 512 micro_batch: 2 sequence: 1024
  devices: [3, 2, 1, 0, 4, 5, 6, 7] steps: 1000
  configs { layout: "dp2,tp4,order=dp-tp-cp-pp" step_time: "1500ms" }
  configs { layout: "pp2-tp2-stages=10:14" }
  checkpoint { every_steps: 100 host_memory_copy: true }
  redundancy { copies: 1 where: OTHER_DEVICE every_steps: 5 }
}
jobs { name: "small" model_config: "models/tiny.json" global_batch: 64 gpus: 2 configs { layout: "dp2" } }
events { at: "10min" fail { hosts: 1 devices: 2 links: ["leaf0.up", "h0.store.serve"] } }
events { at: "0.5h" repair { hosts: [1] devices: 2 links: "leaf0.up" } }
events { at_step { job: "big" step: 7 } resize { job: "big" gpus: 4 } }
events {
  during { job: "small" reconfiguration: 2 after_round: 1 delay: "20ms" }
  degrade { links: "storage.read" devices: 9 factor: 0.1 }
}
events { at: "59min" preempt { hosts: 3 notice: "0.5min" } }
events { at: "0" redeploy { job: "small" devices: [11, 10] } }
strategy: "checkpoint-restart-later"
costs { restart: "90s" detect: "0s" plan: "5ms" communicator: "2us" transfer_start: "3ns" box: "4us" peer: "5us" compile: "6us" verify_rate: "50GB/s" allocate_rate: "2GB/s" }
costs { strategy: "tenplex" stack: "tuned" hang: "1min" restart: "2min" }
planner { round_bytes: "1.5GiB" }
expect { metric: "/jobs/0/downtime_s" at_least: 0.1 at_most: 1e30 }
expect { metric: "/jobs/0/state" strategy: "tenplex" is: "done" }
expect { metric: "/jobs/0/steps" equals: 1000 }
)";

constexpr const char* kTiny = R"({"architectures": ["GPT2LMHeadModel"], "n_embd": 64, "n_layer": 4, "n_head": 4,
                                  "n_positions": 128, "vocab_size": 1000})";

using Files = std::map<std::string, std::string>;

FileReader reader_of(const Files& files) {
  return [files](const std::string& path) -> absl::StatusOr<std::string> {
    const auto file = files.find(path);
    if (file == files.end()) return missing(path + ": no such file");
    return file->second;
  };
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

std::string whole() { return replaced(kWhole, "checkpoint-restart-later", "reshard"); }

absl::StatusOr<Scenario> parse(const std::string& text, const Files& files = {{"dir/models/tiny.json", kTiny}},
                               const std::string& cluster_file = "") {
  return parse_scenario(text, "dir/test.textproto", reader_of(files), {.cluster_file = cluster_file});
}

std::string problems_of(const std::string& text, const Files& files = {{"dir/models/tiny.json", kTiny}}) {
  const absl::StatusOr<Scenario> scenario = parse(text, files);
  EXPECT_TRUE(scenario.ok() || scenario.status().code() == absl::StatusCode::kInvalidArgument);
  return scenario.ok() ? "" : message_of(scenario.status());
}

std::vector<DeviceId> devices(std::initializer_list<int> numbers) {
  std::vector<DeviceId> result;
  for (const int number : numbers) result.emplace_back(number);
  return result;
}

TEST(Scenario, EveryFieldIsResolved) {
  const absl::StatusOr<Scenario> scenario = parse(whole());
  ASSERT_TRUE(scenario.ok()) << message_of(scenario.status());
  EXPECT_EQ(scenario->until_s, 3600);
  EXPECT_EQ(scenario->cluster.device_count(), 16);
  EXPECT_EQ(scenario->cluster.hosts[1].store_serve_bytes_per_s, 3.0 * (1 << 30));
  EXPECT_EQ(scenario->cluster.hosts[1].copy_bytes_per_s, 2e9);
  EXPECT_EQ(scenario->cluster.machine_copy_bytes_per_s, 7e9);
  EXPECT_EQ(scenario->cluster.hosts[2].gpu.link_bytes_per_s, 16e9) << "peers over PCIe";
  EXPECT_EQ(scenario->cluster.hosts[2].gpu_link_bytes_per_s, 100e9);
  EXPECT_EQ(scenario->cluster.hosts[3].gpu.peak_flops, 800e12) << "overridden";
  EXPECT_EQ(scenario->cluster.hosts[3].gpu.link_bytes_per_s, 450e9) << "kept";
  const JobSpec& big = scenario->jobs[0];
  EXPECT_EQ(big.gpus, 8);
  EXPECT_EQ(big.devices, devices({3, 2, 1, 0, 4, 5, 6, 7}));
  EXPECT_EQ(big.recipe.optimizer, model::Optimizer::kSgdMomentum);
  EXPECT_EQ(big.configs[0].step_s, 1.5);
  EXPECT_EQ(big.configs[1].config.stages, (std::vector<int>{10, 14}));
  EXPECT_FALSE(big.redundancy.other_host);
  EXPECT_EQ(scenario->jobs[1].model.name, "tiny");
  EXPECT_EQ(scenario->jobs[1].training.sequence, 128);
  EXPECT_EQ(scenario->jobs[1].training.micro_batch, 1);
  const auto& fail = std::get<Fail>(scenario->events[0].what);
  EXPECT_EQ(fail.devices, devices({4, 5, 6, 7, 2}));
  EXPECT_EQ(fail.links, (std::vector<std::string>{"leaf0.up", "h0.store.serve"}));
  const auto& during = std::get<During>(scenario->events[3].when);
  EXPECT_EQ(during.job, 1);
  EXPECT_EQ(during.delay_s, 0.02);
  EXPECT_EQ(std::get<Preempt>(scenario->events[4].what).notice_s, 30);
  EXPECT_EQ(std::get<Redeploy>(scenario->events[5].what).devices, devices({11, 10}));
  EXPECT_EQ(*scenario->costs[0].communicator_s + *scenario->costs[0].compile_s, 2e-6 + 6e-6);
  EXPECT_FALSE(scenario->costs[1].detect_s.has_value());
  EXPECT_EQ((*scenario->costs[1].stack)->name, "tuned");
  EXPECT_EQ(scenario->costs[1].hang_s, 60);
  EXPECT_EQ(scenario->round_bytes, int64_t{3} << 29);
  EXPECT_EQ(scenario->expectations[1].is, "done");
}

TEST(Scenario, ResolvedTextGivesTheSameScenario) {
  const absl::StatusOr<Scenario> first = parse(whole());
  ASSERT_TRUE(first.ok()) << message_of(first.status());
  const absl::StatusOr<Scenario> second = parse(first->resolved_text);
  ASSERT_TRUE(second.ok()) << message_of(second.status()) << first->resolved_text;
  EXPECT_EQ(second->resolved_text, first->resolved_text);
  EXPECT_EQ(second->digest, first->digest);
  EXPECT_EQ(second->cluster.hosts[2].gpu.peak_flops, first->cluster.hosts[2].gpu.peak_flops);
  EXPECT_EQ(cluster::links_of(second->cluster).size(), cluster::links_of(first->cluster).size());
  EXPECT_NE(first->resolved_text.find("nic: \"12500000000B/s\""), std::string::npos);
  EXPECT_NE(first->resolved_text.find("at: \"1800s\""), std::string::npos);
}

TEST(Scenario, RepairOfAHostRepairsWhatItLost) {
  const std::string text = replaced(whole(), "fail { hosts: 1 devices: 2", "fail { devices: [5, 2]");
  const absl::StatusOr<Scenario> scenario = parse(text);
  ASSERT_TRUE(scenario.ok()) << message_of(scenario.status());
  EXPECT_EQ(std::get<Repair>(scenario->events[1].what).devices, devices({5, 2}));
  EXPECT_EQ(parse(scenario->resolved_text)->digest, scenario->digest);
}

TEST(Scenario, DigestFollowsTheMeaning) {
  const std::string digest = parse(whole())->digest;
  EXPECT_EQ(parse(replaced(whole(), "\"1h\"", "\"60min\" # an hour"))->digest, digest);
  EXPECT_EQ(parse(replaced(whole(), "\"100Gbps\"", "\"12.5GB/s\""))->digest, digest);
  EXPECT_NE(parse(replaced(whole(), "\"1h\"", "\"61min\""))->digest, digest);
  const Files other = {{"dir/models/tiny.json", replaced(kTiny, "1000", "1001")}};
  EXPECT_NE(parse(whole(), other)->digest, digest) << "the model file counts too";
}

constexpr const char* kSmall = R"(name: "small"
cluster { hosts { count: 2 gpus: 2 gpu: "t4-16g" nic: "10Gbps" } }
jobs { name: "j" model: "gpt3-125m" global_batch: 8 gpus: 4 steps: 10 configs { layout: "dp4" } }
)";

TEST(Scenario, DefaultsAreWrittenOut) {
  const absl::StatusOr<Scenario> scenario = parse(kSmall);
  ASSERT_TRUE(scenario.ok()) << message_of(scenario.status());
  EXPECT_EQ(scenario->strategy, "reshard");
  EXPECT_EQ(scenario->jobs[0].recipe.param, tensor::DType::kF16);
  EXPECT_EQ(scenario->jobs[0].training.micro_batch, 1);
  EXPECT_EQ(scenario->jobs[0].training.sequence, scenario->jobs[0].model.sequence);
  EXPECT_EQ(scenario->jobs[0].redundancy.every_steps, 1);
  EXPECT_FALSE(scenario->until_s.has_value());
  for (const std::string text :
       {"schema_version: 1", "precision: \"fp16\"", "optimizer: \"adam\"", "micro_batch: 1", "strategy: \"reshard\""}) {
    EXPECT_NE(scenario->resolved_text.find(text), std::string::npos) << text;
  }
}

// A job's checkpoints lie in a folder of its name.
TEST(Scenario, JobNamesAreNamesOfFolders) {
  for (const std::string name : {"../../x", "a/", "/a", ".", "..", ".hidden"}) {
    const std::string problems = problems_of(replaced(kSmall, "name: \"j\"", fmt::format("name: \"{}\"", name)));
    EXPECT_NE(problems.find(fmt::format("a job cannot be called \"{}\"", name)), std::string::npos) << problems;
  }
  EXPECT_TRUE(parse(replaced(kSmall, "name: \"j\"", "name: \"a.b c\"")).ok());
}

TEST(Scenario, UnknownStacksAndLinksThatHangAreRefused) {
  const std::string odd = R"(costs { stack: "stock-2024" } events { at: "1s" fail { links: "x" hangs: true } })";
  for (const char* part : {"did you mean \"stock-2025\"?", "a link does not hang"})
    EXPECT_NE(problems_of(kSmall + odd).find(part), std::string::npos) << part;
}

TEST(Scenario, AnEndThatIsNeverReachedIsRefused) {
  const std::string problems = problems_of(std::string(kSmall) + "until: \"1e20h\"\n");
  EXPECT_NE(problems.find("it is out of range"), std::string::npos) << problems;
  EXPECT_TRUE(parse(std::string(kSmall) + "until: \"1000000h\"\n").ok());
}

TEST(Scenario, RacksAreReadAndWrittenOut) {
  const std::string text = replaced(kSmall, "} }\n", "} rack_hosts: 2 }\n");
  const absl::StatusOr<Scenario> scenario = parse(text);
  ASSERT_TRUE(scenario.ok()) << message_of(scenario.status());
  EXPECT_EQ(scenario->cluster.rack_hosts, 2);
  EXPECT_EQ(parse(scenario->resolved_text)->cluster.rack_hosts, 2);
  EXPECT_NE(scenario->digest, parse(kSmall)->digest);
  EXPECT_NE(problems_of(replaced(text, "rack_hosts: 2", "rack_hosts: -1")).find(":2:"), std::string::npos);
}

TEST(Scenario, JsonAndTextAreTheSame) {
  const std::string json =
      R"({"name": "small", "cluster": {"hosts": [{"count": 2, "gpus": 2, "gpu": "t4-16g", "nic": "10Gbps"}]},
    "jobs": [{"name": "j", "model": "gpt3-125m", "globalBatch": 8, "gpus": 4, "steps": "10",
              "configs": [{"layout": "dp4"}]}]})";
  const absl::StatusOr<Scenario> scenario = parse(json);
  ASSERT_TRUE(scenario.ok()) << message_of(scenario.status());
  EXPECT_EQ(scenario->digest, parse(kSmall)->digest);
}

constexpr const char* kCluster = "hosts { count: 4 gpus: 2 gpu: \"t4-16g\" nic: \"10Gbps\" }";

TEST(Scenario, ClusterFromAFile) {
  const std::string text = replaced(kSmall, "cluster { hosts { count: 2 gpus: 2 gpu: \"t4-16g\" nic: \"10Gbps\" } }",
                                    "cluster_file: \"c.textproto\"");
  EXPECT_EQ(parse(text, {{"dir/c.textproto", kCluster}})->cluster.device_count(), 8);
  EXPECT_NE(problems_of(text, {}).find("dir/test.textproto:2:15: error: dir/c.textproto: no such file"),
            std::string::npos);
  const std::string problems = problems_of(text, {{"dir/c.textproto", "hosts { gpus: 2 gpu: \"t4\" }\nhost { }"}});
  EXPECT_NE(problems.find("dir/c.textproto:1:22: error: unknown GPU kind \"t4\""), std::string::npos) << problems;
  EXPECT_NE(problems.find("dir/c.textproto:2:1: error: unknown field \"host\""), std::string::npos) << problems;
}

TEST(Scenario, ClusterFileOfTheCommandLineWins) {
  EXPECT_EQ(parse(kSmall, {{"elsewhere.textproto", kCluster}}, "elsewhere.textproto")->cluster.device_count(), 8);
  EXPECT_EQ(parse(kSmall, {}, "elsewhere.textproto").status().code(), absl::StatusCode::kNotFound);
}

TEST(Scenario, AMemoryCapNeedsSomethingThatCoversAFailure) {
  const std::string text = std::string(kSmall) + "planner { memory_cap: \"1MB\" }\n";
  EXPECT_NE(problems_of(text).find("job \"j\" has nothing that covers a failure meanwhile"), std::string::npos)
      << problems_of(text);
  const std::string covered = replaced(text, "jobs {", "jobs { redundancy { copies: 1 } ");
  const auto scenario = parse(covered);
  ASSERT_TRUE(scenario.ok()) << scenario.status();
  EXPECT_EQ(scenario->memory_cap, 1'000'000);
  EXPECT_EQ(parse(scenario->resolved_text)->memory_cap, 1'000'000);
  EXPECT_LT(parse(covered + "scale_model: \"1/8\"")->memory_cap, 100'000) << "in proportion to the state";
  EXPECT_EQ(parse(kSmall)->memory_cap, -1);
  const std::string both = replaced(covered, "planner {", "planner { round_bytes: \"1MB\" ");
  EXPECT_NE(problems_of(both).find("the cap makes rounds of its own"), std::string::npos) << problems_of(both);
}

TEST(Scenario, CheckpointsNeedStorage) {
  const std::string text = replaced(kSmall, "jobs {", "jobs { checkpoint { every_steps: 5 } ");
  const std::string problems = problems_of(text);
  EXPECT_NE(problems.find("error: job \"j\" writes checkpoints, and the cluster has no storage"), std::string::npos)
      << problems;
  EXPECT_NE(problems.find("hint: add storage { read: \"10GB/s\" } to the cluster"), std::string::npos) << problems;
  EXPECT_EQ(problems_of(replaced(text, "every_steps: 5", "every_steps: 0")), "");
}

TEST(Scenario, ScaledModelsKeepTheStructure) {
  const Scenario given = parse(whole()).value();
  const Scenario part = parse(whole() + "scale_model: \"0.125\"").value();
  EXPECT_EQ(part.scale_model, (model::Fraction{1, 8}));
  EXPECT_EQ(part.jobs[0].model.hidden, given.jobs[0].model.hidden / 8);
  EXPECT_EQ(part.jobs[0].model.params.size(), given.jobs[0].model.params.size());
  EXPECT_EQ(part.jobs[1].model.vocab, 125) << "of a config.json too";
  EXPECT_EQ(part.jobs[0].configs[0].step_s, 1.5) << "of the real model";
  const double rounds = static_cast<double>(given.round_bytes) / static_cast<double>(part.round_bytes);
  EXPECT_GT(rounds, 50) << "rounds shrink with the state";
  EXPECT_LT(rounds, 65);
  EXPECT_EQ(part.expectations.size(), 3U) << "they are the scenario's own";
}

TEST(Scenario, ScaledResolvedTextGivesTheSameScenario) {
  const Scenario part = parse(whole() + "scale_model: \"2/16\"").value();
  EXPECT_NE(part.resolved_text.find("scale_model: \"1/8\""), std::string::npos);
  const Scenario again = parse(part.resolved_text).value();
  EXPECT_EQ(again.resolved_text.substr(again.resolved_text.find("schema_version")),
            part.resolved_text.substr(part.resolved_text.find("schema_version")));
  EXPECT_EQ(again.round_bytes, part.round_bytes);
  EXPECT_EQ(again.jobs[0].model.hidden, part.jobs[0].model.hidden);
  EXPECT_NE(part.digest, parse(whole())->digest);
  EXPECT_EQ(parse(whole() + "scale_model: \"1\"")->digest, parse(whole())->digest);
}

TEST(Scenario, ScaleOfTheCommandLineWins) {
  const Files files = {{"dir/models/tiny.json", kTiny}};
  const auto scaled_by = [&](const std::string& more, const model::Fraction& scale) {
    return parse_scenario(whole() + more, "dir/test.textproto", reader_of(files), {.scale_model = scale}).value();
  };
  EXPECT_EQ(scaled_by("", {1, 8}).jobs[0].model.hidden, 256);
  EXPECT_EQ(scaled_by("scale_model: \"1/2\"", {1, 8}).jobs[0].model.hidden, 256);
  EXPECT_EQ(scaled_by("scale_model: \"1/2\"", {}).jobs[0].model.hidden, 2048);
  EXPECT_TRUE(scaled_by("", {1, 8}).expectations.empty()) << "they were written for the real model";
  EXPECT_EQ(scaled_by("scale_model: \"0.125\"", {1, 8}).expectations.size(), 3U);
  EXPECT_EQ(scaled_by("", {}).expectations.size(), 3U);
}

TEST(Scenario, LoadsRelativeToItsFolder) {
  const std::filesystem::path folder = std::filesystem::path(::testing::TempDir()) / "scenario_test";
  std::filesystem::create_directories(folder / "models");
  ASSERT_TRUE(write_file((folder / "models/tiny.json").string(), kTiny).ok());
  ASSERT_TRUE(write_file((folder / "whole.textproto").string(), whole()).ok());
  const absl::StatusOr<Scenario> scenario = load((folder / "whole.textproto").string());
  ASSERT_TRUE(scenario.ok()) << message_of(scenario.status());
  EXPECT_EQ(scenario->digest, parse(whole())->digest);
  EXPECT_EQ(load((folder / "absent.textproto").string()).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(load(folder.string()).status().code(), absl::StatusCode::kNotFound);
  std::filesystem::remove_all(folder);
}

// One change to a good scenario, and what is then said about it ("" = nothing).
struct Change {
  std::string from;
  std::string to;
  std::string said;
};

void expect_said(const std::string& base, const std::vector<Change>& changes) {
  for (const Change& change : changes) {
    SCOPED_TRACE(change.from + " => " + change.to);
    const std::string problems = problems_of(replaced(base, change.from, change.to));
    if (change.said.empty())
      EXPECT_EQ(problems, "");
    else
      EXPECT_NE(problems.find("error: " + change.said), std::string::npos) << problems;
  }
}

TEST(Scenario, EachCheckOfCluster) {
  expect_said(kSmall, {{"count: 2", "count: 300000", "the cluster has more than 262144 GPUs"},
                       {"nic: \"10Gbps\"", "", "\"nic\" is missing"},
                       {"count: 2 gpus: 2", "count: 1 gpus: 4", ""},
                       {"10Gbps", "0", "a bandwidth of 0"},
                       {"gpus: 2 gpu: \"t4-16g\"", "gpus: 2", "\"gpu\" is missing"},
                       {"} }\n", "} fabric { kind: LEAF_SPINE } }\n", "\"leaf_hosts\" is missing"},
                       {"} }\n", "} fabric { backbone: \"1GB/s\" kind: RAIL } }\n", "\"backbone\" needs kind: STAR"},
                       {"} }\n", "} fabric { kind: RAIL oversubscription: -1 } }\n",
                        "\"oversubscription\" must be greater than 0"},
                       {"} }\n", "} rack_hosts: 0 }\n", "\"rack_hosts\" must be at least 1, found 0"},
                       {"} }\n", "} rack_hosts: 1 fabric { kind: LEAF_SPINE leaf_hosts: 1 } }\n",
                        "the racks of a LEAF_SPINE fabric are its leaves"},
                       {"} }\n", "} storage { write: \"1GB/s\" } }\n", "\"read\" is missing"},
                       {"} }\n", "} schema_version: 3 }\n", "schema version 3"},
                       {"} }\n", "} gpu_kinds { name: \"a\" memory: \"1GB\" } gpu_kinds { name: \"a\" } }\n",
                        "GPU kind \"a\" is described twice"},
                       {"} }\n", "} gpu_kinds { name: \"t4-16g\" peak_tflops: 1e300 } }\n", "\"peak_tflops\" must be"},
                       {"cluster { hosts { count: 2 gpus: 2 gpu: \"t4-16g\" nic: \"10Gbps\" } }", "cluster { }",
                        "\"hosts\" is missing"}});
}

TEST(Scenario, EachCheckOfJobs) {
  expect_said(
      kSmall,
      {{"\"small\"", "\"a\\nb\"", "\"name\" contains control characters"},
       {"model: \"gpt3-125m\"", "", "\"model\" is missing"},
       {"model: \"gpt3-125m\"", "model: \"gpt2\" model_config: \"x\"", "\"model\" and \"model_config\" exclude"},
       {"model: \"gpt3-125m\"", "model_config: \"x.json\"", "dir/x.json: no such file"},
       {"global_batch: 8", "global_batch: 8 micro_batch: -1", "\"micro_batch\" must be at least 1"},
       {"global_batch: 8", "global_batch: 8 sequence: 4096", "a sequence of 4096 is longer than"},
       {"gpus: 4 steps", "gpus: 5 steps", "job \"j\" wants 5 GPUs"},
       {"gpus: 4 steps", "gpus: 3 steps", "job \"j\" starts on 3 GPUs, but has no config for 3"},
       {"gpus: 4 steps", "devices: [0, 1, 1, 2] steps", "device 1 is listed twice"},
       {"gpus: 4 steps", "devices: [0, 1, 4, 2] steps", "there is no device 4"},
       {"gpus: 4 steps", "gpus: 3 devices: [0, 1, 3, 2] steps", "\"gpus\" is 3, but 4 devices are listed"},
       {"gpus: 4 steps", "gpus: 4 devices: [0, 1, 3, 2] steps", ""},
       {"steps: 10", "steps: -1", "\"steps\" must be at least 0"},
       {"steps: 10", "", "this job never ends"},
       {"\"dp4\"", "\"dp4\" step_time: \"0s\"", "a step takes longer than 0"},
       {"\"dp4\"", "\"dp4,zero3\"", ""},
       {"\"dp4\"", "\"dp4,vpp13\"", "13 pipeline stages"},
       {"\"dp4\"", "\"cp4\"", ""},
       {"steps: 10", "steps: 10 sequence: 6 configs { layout: \"cp4,dp2\" }", "cp = 4 does not divide the sequence"},
       {"steps: 10", "steps: 10 redundancy { copies: 2 }", "\"copies\" is 2: that takes 3 hosts, the cluster has 2"},
       {"steps: 10", "steps: 10 redundancy { copies: 1 every_steps: 0 }", "\"every_steps\" must be at least 1"},
       {"steps: 10", "steps: 10 checkpoint { host_memory_copy: true }", "a copy in host memory needs checkpoints"}});
}

TEST(Scenario, ScalesThatAreNoPartAreRefused) {
  for (const std::string scale : {"2", "0", "1/0", "-1/8", "x", "", "8/1"}) {
    const std::string problems = problems_of(fmt::format("scale_model: \"{}\"\n{}", scale, kSmall));
    EXPECT_NE(problems.find(fmt::format("dir/test.textproto:1:14: error: \"{}\" is not a part of the whole", scale)),
              std::string::npos)
        << problems;
  }
}

TEST(Scenario, StateThatFitsNoGpuIsRefused) {
  expect_said(kSmall,
              {{"gpt3-125m", "gpt3-13b", "the state of gpt3-13b takes at least"}, {"gpt3-125m", "gpt3-350m", ""}});
}

TEST(Scenario, EachCheckOfModelsWithExpertsAndGroups) {
  // Room for any state: what is looked at here is how it is cut.
  const std::string roomy =
      replaced(kSmall, "} }\n",
               "} gpu_kinds { name: \"t4-16g\" memory: \"4TiB\" peak_tflops: 65 memory_bandwidth: \"320GB/s\" } }\n");
  const std::string llama = replaced(roomy, "gpt3-125m", "llama3-70b");
  expect_said(llama, {{"\"dp4\"", "\"tp4\"", ""}, {"count: 2 gpus: 2", "count: 2 gpus: 8", ""}});
  const std::string wide =
      replaced(replaced(llama, "count: 2 gpus: 2", "count: 4 gpus: 8"), "gpus: 4 steps", "gpus: 16 steps");
  expect_said(wide, {{"\"dp4\"", "\"tp16\"", ""}, {"\"dp4\"", "\"tp16,ep2\"", "ep = 2 needs a model with experts"}});
  const std::string mixtral = replaced(roomy, "gpt3-125m", "mixtral-8x7b");
  expect_said(mixtral, {{"\"dp4\"", "\"dp4,ep4\"", ""},
                        {"gpus: 4 steps: 10 configs { layout: \"dp4\"",
                         "gpus: 3 steps: 10 configs { layout: \"cp3,ep3\"", "ep = 3 does not divide the 8 experts"}});
  const std::string resnet = replaced(kSmall, "gpt3-125m", "resnet-50");
  expect_said(resnet, {{"\"dp4\"", "\"dp4\"", ""},
                       {"\"dp4\"", "\"tp2,dp2\"", "tp = 2: resnet-50 cannot be cut by tensor parallelism"}});
}

TEST(Scenario, EachCheckOfEvents) {
  const std::string base = std::string(kSmall) + "events { at: \"1s\" EVENT }\n";
  const auto event = [&](const std::string& what) { return replaced(base, "EVENT", what); };
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"resize { gpus: 0 }", "\"gpus\" must be at least 1"},
      {"resize { }", "\"gpus\" is missing"},
      {"resize { gpus: 3 }", "job \"j\" has no config for 3 GPUs or fewer"},
      {"resize { gpus: 4 }", ""},
      {"resize { job: \"k\" gpus: 4 }", "unknown job \"k\""},
      {"redeploy { hosts: [0, 1] }", ""},
      {"redeploy { hosts: [1, 0] devices: 0 }", "device 0 is named twice here"},
      {"redeploy { hosts: [0, 0] }", "host 0 is listed twice"},
      {"redeploy { }", "\"redeploy\" names nothing"},
      {"redeploy { hosts: 1 }", "job \"j\" has no config for 2 GPUs"},
      {"fail { links: [\"h0.nic0.up\", \"h0.nic0.up\"] }", "link \"h0.nic0.up\" is named twice here"},
      {"degrade { devices: 1 }", "\"factor\" is missing"},
      {"degrade { devices: 1 factor: 0 }", "\"factor\" must be greater than 0"},
      {"degrade { devices: 1 factor: 1 }", ""},
      {"degrade { factor: 0.5 }", "\"degrade\" names nothing"},
      {"preempt { devices: 1 notice: \"0s\" }", "a preemption needs a notice > 0"},
      {"repair { devices: 1 }", "device 1 is repaired but never failed"},
      {"fail { hosts: 1 } } events { at: \"2s\" repair { devices: 3 }", ""},
      {"preempt { hosts: 1 notice: \"1s\" } } events { at: \"2s\" repair { hosts: 1 }", ""},
      {"fail { devices: 1 } } events { at_step { } fail { devices: 0 }", "\"step\" is missing"},
  };
  for (const auto& [what, said] : cases) {
    SCOPED_TRACE(what);
    const std::string problems = problems_of(event(what));
    if (said.empty())
      EXPECT_EQ(problems, "");
    else
      EXPECT_NE(problems.find("error: " + said), std::string::npos) << problems;
  }
}

TEST(Scenario, RestartingNeedsStorageAndCheckpoints) {
  const std::string text = std::string(kSmall) + "strategy: \"checkpoint-restart\"\n";
  EXPECT_NE(problems_of(text).find("needs a cluster with \"storage\""), std::string::npos);
  EXPECT_NE(problems_of(text).find("writes no checkpoints"), std::string::npos);
  const std::string stored = replaced(text, "} }\n", "} storage { read: \"1GB/s\" } }\n");
  EXPECT_EQ(problems_of(replaced(stored, "steps: 10", "steps: 10 checkpoint { every_steps: 5 }")), "");
}

// A field with a problem of its own is not judged again, nor called missing.
TEST(Scenario, OneProblemIsSaidOnce) {
  for (const Change& change : std::vector<Change>{{"gpus: 4 steps", "gpus: \"4\" steps", ""},
                                                  {"gpus: 4 steps", "gpsu: 4 steps", ""},
                                                  {"global_batch: 8", "global_batch: 1e400", ""},
                                                  {"\"dp4\"", "4", ""},
                                                  {"gpt3-125m", "gpt3-125", ""},
                                                  {"t4-16g", "t4-16", ""},
                                                  {"cluster {", "clustr {", ""},
                                                  {"jobs {", "job {", ""},
                                                  {"\"small\"", "small", ""},
                                                  {"steps: 10", "steps: ten", ""}}) {
    SCOPED_TRACE(change.to);
    const std::string problems = problems_of(replaced(kSmall, change.from, change.to));
    EXPECT_TRUE(problems.ends_with("\n1 error\n")) << problems;
  }
}

}  // namespace scenario_test
}  // namespace scalai::scenario
