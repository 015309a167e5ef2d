// `scalai machines` as its users run it, and a scenario with a machine that it lists.

#include "nlohmann/json.hpp"
#include "tests/end_to_end.h"

namespace machines_command_test {

using nlohmann::json;
using namespace scalai::testing;

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

class MachinesCommand : public EndToEnd {
 protected:
  Outcome machines(const std::string& words) const { return scalai("machines " + words); }
  std::string good(const std::string& words) const {
    const Outcome outcome = machines(words);
    EXPECT_EQ(outcome.code, 0) << words << "\n" << outcome.err;
    EXPECT_EQ(outcome.err, "") << words;
    return outcome.out;
  }
  json parsed(const std::string& words) const { return json::parse(good(words + " --format=json"), nullptr, false); }
};

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

TEST_F(MachinesCommand, ListsGpuKindsHostsAndInstances) {
  const std::string all = good("");
  for (const std::string part : {"h100-80g", "dgx-h100", "p5.48xlarge", "16-bit TFLOPS", "8 x 400 Gbps", "55.040"}) {
    EXPECT_TRUE(has(all, part)) << part << "\n" << all;
  }
  const std::string gpus = good("--what=gpus"), hosts = good("--what=hosts");
  EXPECT_EQ(gpus + "\n" + hosts, all);
  EXPECT_FALSE(has(gpus, "dgx-h100"));
  EXPECT_FALSE(has(hosts, "TFLOPS"));
}

TEST_F(MachinesCommand, CsvIsOneTable) {
  const std::vector<std::string> gpus = lines_of(good("--what=gpus --format=csv"));
  EXPECT_EQ(gpus.front(), "GPU kind,memory GiB,16-bit TFLOPS,FP8,TF32,fp32,memory,link,PCIe,W,SMs");
  EXPECT_EQ(gpus.back(), "mi300x-192g,192,1307.4,2614.9,653.7,163.4,5.30 TB/s,448 GB/s,64.0 GB/s,750,304");
  const std::vector<std::string> hosts = lines_of(good("--what=hosts --format=csv"));
  EXPECT_EQ(hosts.front(), "host or instance,GPUs,GPU kind,link,joins,PCIe,network cards,$/hour");
  EXPECT_EQ(hosts[1], "dgx-1p,8,p100-16g,80.0 GB/s,8,16.0 GB/s,4 x 100 Gbps,-");
  const Outcome both = machines("--format=csv");
  EXPECT_EQ(both.code, 2);
  EXPECT_TRUE(has(both.err, "add --what=gpus or --what=hosts")) << both.err;
}

TEST_F(MachinesCommand, JsonHasEveryConstantInBaseUnits) {
  const json all = parsed("");
  EXPECT_GE(all["gpus"].size(), 20U);
  EXPECT_GE(all["hosts"].size(), 50U);
  for (const json& gpu : all["gpus"]) {
    EXPECT_GT(gpu["memory_bytes"], 1e10) << gpu;
    EXPECT_FALSE(gpu["source"].get<std::string>().empty()) << gpu;
  }
  const json v100 = parsed("v100-16g");
  EXPECT_EQ(v100["peak_flops"], 125e12);
  EXPECT_TRUE(v100["peak_flops_fp8"].is_null()) << "it has none";
  EXPECT_EQ(v100["in_switch_reduction"], false);
  const json instance = parsed("p4d.24xlarge");
  EXPECT_EQ(instance["nics"], 4);
  EXPECT_EQ(instance["nic_bytes_per_s"], 12.5e9);
  EXPECT_EQ(instance["price_per_hour"], 21.957642);
  EXPECT_EQ(instance["gpu"]["name"], "a100-40g");
  EXPECT_TRUE(parsed("hgx-h100")["nic_bytes_per_s"].is_null());
}

TEST_F(MachinesCommand, OneMachineShowsItsSources) {
  const std::string host = good("dgx-h100");
  for (const std::string part :
       {"8 x h100-80g", "8 x 400 Gbps", "989.5 TFLOPS", "DGX H100 data sheet", "H100 data sheet"}) {
    EXPECT_TRUE(has(host, part)) << part << "\n" << host;
  }
  EXPECT_EQ(lines_of(good("h100-80g --format=csv"))[1], "memory,80 GiB,h100-80g");
}

TEST_F(MachinesCommand, UnknownNamesAndWrongWordsAreErrors) {
  const Outcome unknown = machines("dgx-a100");
  EXPECT_EQ(unknown.code, 3);
  EXPECT_EQ(
      unknown.err,
      "scalai machines: error: there is no machine \"dgx-a100\"; did you mean \"dgx-a100-40g\" or \"dgx-a100-80g\"?\n");
  EXPECT_TRUE(has(machines("abacus").err, "\"scalai machines\" lists them"));
  EXPECT_EQ(machines("h100-80g --what=gpus").code, 2);
  EXPECT_EQ(machines("--what=cpus").code, 2);
  EXPECT_EQ(machines("h100-80g a100-40g").code, 2);
}

TEST_F(MachinesCommand, EveryListedMachineCanBeInAScenario) {
  std::string hosts;
  const json all = parsed("");
  for (const json& host : all["hosts"]) {
    hosts += fmt::format("hosts {{ kind: \"{}\" nic: \"1Gbps\" }}\n", host["name"].get<std::string>());
  }
  for (const json& gpu : all["gpus"]) {
    hosts += fmt::format("hosts {{ gpus: 1 gpu: \"{}\" nic: \"1Gbps\" }}\n", gpu["name"].get<std::string>());
  }
  const std::string file = path("all.textproto");
  write_all(file, "name: \"all\" cluster { " + hosts +
                      " } jobs { name: \"a\" model: \"gpt2\" global_batch: 8 gpus: 1 steps: 1 "
                      "configs { layout: \"tp1\" step_time: \"1s\" } }");
  const Outcome checked = scalai("validate " + file);
  EXPECT_EQ(checked.code, 0) << checked.err;
}

}  // namespace machines_command_test
