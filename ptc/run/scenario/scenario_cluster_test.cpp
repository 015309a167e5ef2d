// The machines of a scenario: known hosts, what overrides them, and every constant of a GPU kind.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

#include "ptc/base/status.h"
#include "ptc/cluster/catalogue.h"
#include "ptc/run/scenario/scenario.h"

namespace scalai::scenario {
namespace {

absl::StatusOr<Scenario> with_cluster(const std::string& cluster) {
  const std::string text = "name: \"c\"\ncluster { " + cluster +
                           " }\njobs { name: \"j\" model: \"gpt3-125m\" global_batch: 8 gpus: 1 steps: 10\n"
                           "  configs { layout: \"tp1\" step_time: \"1s\" } }\n";
  const FileReader no_files = [](const std::string& path) -> absl::StatusOr<std::string> { return missing(path); };
  return parse_scenario(text, "c.textproto", no_files);
}

cluster::Cluster cluster_of(const std::string& cluster) {
  const absl::StatusOr<Scenario> scenario = with_cluster(cluster);
  EXPECT_TRUE(scenario.ok()) << message_of(scenario.status());
  return scenario.ok() ? scenario->cluster : cluster::Cluster{.hosts = {{}}};  // tests look at the first host
}

std::string problems_of(const std::string& cluster) {
  const absl::StatusOr<Scenario> scenario = with_cluster(cluster);
  return scenario.ok() ? "" : message_of(scenario.status());
}

void expect_same(const cluster::Host& a, const cluster::Host& b) {
  EXPECT_EQ(a.gpus, b.gpus);
  EXPECT_EQ(a.gpu, b.gpu);
  EXPECT_EQ(a.gpu_link_bytes_per_s, b.gpu_link_bytes_per_s);
  EXPECT_EQ(a.pcie_bytes_per_s, b.pcie_bytes_per_s);
  EXPECT_EQ(a.nics, b.nics);
  EXPECT_EQ(a.nic_bytes_per_s, b.nic_bytes_per_s);
  EXPECT_EQ(a.kind, b.kind);
  EXPECT_EQ(a.price_per_hour, b.price_per_hour);
}

TEST(KnownHosts, FillInWhatIsNotGiven) {
  for (const std::string& name : cluster::host_kind_names()) {
    SCOPED_TRACE(name);
    const cluster::Cluster cluster = cluster_of("hosts { kind: \"" + name + "\" }");
    ASSERT_EQ(cluster.hosts.size(), 1U);
    expect_same(cluster.hosts[0], cluster::find_host_kind(name)->host);
  }
}

TEST(KnownHosts, WhatIsGivenWins) {
  const cluster::Host host =
      cluster_of(
          "hosts { kind: \"p4d.24xlarge\" gpus: 4 gpu_link: \"1GB/s\" pcie: \"2GB/s\" nics: 2 nic: "
          "\"3GB/s\" price_per_hour: 1.5 }")
          .hosts[0];
  EXPECT_EQ(host.gpus, 4);
  EXPECT_EQ(host.gpu.name, "a100-40g");
  EXPECT_EQ(host.gpu_link_bytes_per_s, 1e9);
  EXPECT_EQ(host.pcie_bytes_per_s, 2e9);
  EXPECT_EQ(host.nics, 2);
  EXPECT_EQ(host.nic_bytes_per_s, 3e9);
  EXPECT_EQ(host.price_per_hour, 1.5);
  EXPECT_EQ(host.kind, "p4d.24xlarge");
}

TEST(KnownHosts, OtherGpusHaveTheirOwnLinks) {
  const cluster::Host host = cluster_of("hosts { kind: \"p4d.24xlarge\" gpu: \"h100-80g\" }").hosts[0];
  EXPECT_EQ(host.gpu_link_bytes_per_s, 450e9);
  EXPECT_EQ(host.pcie_bytes_per_s, 64e9);
  // The kind's own GPU, described anew: the host's slower PCIe stays, the link follows the GPU.
  const cluster::Host anew =
      cluster_of("hosts { kind: \"p4d.24xlarge\" } gpu_kinds { name: \"a100-40g\" link: \"7GB/s\" pcie: \"8GB/s\" }")
          .hosts[0];
  EXPECT_EQ(anew.gpu_link_bytes_per_s, 7e9);
  EXPECT_EQ(anew.pcie_bytes_per_s, 16e9);
}

TEST(KnownHosts, PriceWithoutAKind) {
  EXPECT_EQ(cluster_of("hosts { gpus: 1 gpu: \"t4-16g\" price_per_hour: 0.526 }").hosts[0].price_per_hour, 0.526);
  EXPECT_EQ(cluster_of("hosts { gpus: 1 gpu: \"t4-16g\" }").hosts[0].price_per_hour, 0);
}

TEST(KnownHosts, CardsThatTheSellerLeavesOpenAreAskedFor) {
  EXPECT_EQ(problems_of("hosts { kind: \"dgx-h100\" count: 2 }"), "");
  EXPECT_EQ(problems_of("hosts { kind: \"hgx-h100\" }"), "");
  EXPECT_NE(problems_of("hosts { kind: \"hgx-h100\" count: 2 }").find("\"nic\" is missing"), std::string::npos);
  EXPECT_EQ(problems_of("hosts { kind: \"hgx-h100\" count: 2 nics: 8 nic: \"400Gbps\" }"), "");
}

TEST(KnownHosts, EachCheck) {
  const auto said = [](const std::string& cluster, const std::string& expected) {
    SCOPED_TRACE(cluster);
    const std::string problems = problems_of(cluster);
    EXPECT_NE(problems.find(expected), std::string::npos) << problems;
    EXPECT_NE(problems.find("1 error"), std::string::npos) << problems;
  };
  said("hosts { kind: \"dgx-a100\" count: 2 }", "unknown host kind \"dgx-a100\"");
  said("hosts { kind: \"dgx-a100\" }", "did you mean \"dgx-a100-40g\" or \"dgx-a100-80g\"?");
  said("hosts { kind: \"dgx-h100\" gpu: \"h100\" }", "unknown GPU kind \"h100\"");
  said("hosts { kind: \"dgx-h100\" gpus: 0 }", "\"gpus\" must be at least 1, found 0");
  said("hosts { kind: \"dgx-h100\" gpus: 6 }", "8 network cards cannot be shared evenly by 6 GPUs");
  said("hosts { kind: \"dgx-h100\" nics: 3 }", "3 network cards cannot be shared evenly by 8 GPUs");
  said("hosts { kind: \"dgx-h100\" price_per_hour: -1 }", "\"price_per_hour\" must be greater than 0");
  said("hosts { nic: \"1GB/s\" gpu: \"t4-16g\" }", "\"gpus\" is missing");
}

constexpr const char* kGpu =
    "hosts { gpus: 1 gpu: \"mine\" } gpu_kinds { name: \"mine\" memory: \"8GiB\" peak_tflops: 10.1 memory_bandwidth: "
    "\"1GB/s\" pcie: \"1GB/s\" peak_tflops_fp8: 20.3 peak_tflops_tf32: 5.7 peak_tflops_fp32: 1.9 power_w: 33.5 "
    "multiprocessors: 7 in_switch_reduction: true matrix_efficiency: 0.71 matrix_efficiency_fp8: 0.61 "
    "memory_efficiency: 0.81 link_efficiency: 0.91 network_efficiency: 1 }";

TEST(GpuKinds, EveryConstantIsRead) {
  const cluster::GpuKind gpu = cluster_of(kGpu).hosts[0].gpu;
  EXPECT_EQ(gpu.peak_flops, 10.1 * 1e12);
  EXPECT_EQ(gpu.peak_flops_fp8, 20.3 * 1e12);
  EXPECT_EQ(gpu.peak_flops_tf32, 5.7 * 1e12);
  EXPECT_EQ(gpu.peak_flops_fp32, 1.9 * 1e12);
  EXPECT_EQ(gpu.power_w, 33.5);
  EXPECT_EQ(gpu.multiprocessors, 7);
  EXPECT_TRUE(gpu.in_switch_reduction);
  EXPECT_EQ(gpu.matrix_efficiency, 0.71);
  EXPECT_EQ(gpu.matrix_efficiency_fp8, 0.61);
  EXPECT_EQ(gpu.memory_efficiency, 0.81);
  EXPECT_EQ(gpu.link_efficiency, 0.91);
  EXPECT_EQ(gpu.network_efficiency, 1);
}

TEST(GpuKinds, OverrideOneConstantOfAKnownOne) {
  const cluster::GpuKind gpu =
      cluster_of(
          "hosts { kind: \"dgx-h100\" } gpu_kinds { name: \"h100-80g\" in_switch_reduction: false power_w: 500 }")
          .hosts[0]
          .gpu;
  cluster::GpuKind expected = *cluster::find_gpu_kind("h100-80g");
  expected.in_switch_reduction = false;
  expected.power_w = 500;
  EXPECT_EQ(gpu, expected);
}

TEST(GpuKinds, SharesAndRatesAreChecked) {
  const auto said = [](const std::string& field, const std::string& expected) {
    const std::string problems =
        problems_of("hosts { gpus: 1 gpu: \"t4-16g\" } gpu_kinds { name: \"t4-16g\" " + field + " }");
    EXPECT_NE(problems.find(expected), std::string::npos) << field << "\n" << problems;
  };
  for (const std::string field :
       {"matrix_efficiency", "matrix_efficiency_fp8", "memory_efficiency", "link_efficiency", "network_efficiency"}) {
    said(field + ": 1.01", "\"" + field + "\" is a share of the peak: at most 1, found 1.01");
    said(field + ": 0", "\"" + field + "\" must be greater than 0");
  }
  for (const std::string field : {"peak_tflops_fp8", "peak_tflops_tf32", "peak_tflops_fp32", "power_w"}) {
    said(field + ": -1", "\"" + field + "\" must be greater than 0");
  }
  said("multiprocessors: 0", "\"multiprocessors\" must be at least 1, found 0");
}

TEST(Resolved, GivesTheSameMachines) {
  for (const std::string& text :
       {std::string(kGpu), std::string("hosts { kind: \"p4d.24xlarge\" count: 3 }"),
        std::string("hosts { kind: \"hgx-h200\" gpus: 4 price_per_hour: 31.25 }"),
        std::string("hosts { kind: \"dgx-h100\" count: 2 } hosts { kind: \"dgx-h100\" price_per_hour: 2 } gpu_kinds { "
                    "name: \"h100-80g\" link_efficiency: 0.5 }")}) {
    SCOPED_TRACE(text);
    const absl::StatusOr<Scenario> first = with_cluster(text);
    ASSERT_TRUE(first.ok()) << message_of(first.status());
    const absl::StatusOr<Scenario> second =
        parse_scenario(first->resolved_text, "again",
                       [](const std::string& path) -> absl::StatusOr<std::string> { return missing(path); });
    ASSERT_TRUE(second.ok()) << message_of(second.status()) << first->resolved_text;
    EXPECT_EQ(second->digest, first->digest);
    ASSERT_EQ(second->cluster.hosts.size(), first->cluster.hosts.size());
    for (size_t h = 0; h < first->cluster.hosts.size(); ++h) {
      expect_same(second->cluster.hosts[h], first->cluster.hosts[h]);
    }
  }
}

TEST(Resolved, WritesEveryValueOfAKnownHost) {
  const absl::StatusOr<Scenario> scenario = with_cluster("hosts { kind: \"p4d.24xlarge\" }");
  ASSERT_TRUE(scenario.ok()) << message_of(scenario.status());
  for (const std::string part :
       {"kind: \"p4d.24xlarge\"", "gpus: 8", "gpu: \"a100-40g\"", "gpu_link: \"300000000000B/s\"",
        "pcie: \"16000000000B/s\"", "nics: 4", "nic: \"12500000000B/s\"", "price_per_hour: 21.957642"}) {
    EXPECT_NE(scenario->resolved_text.find(part), std::string::npos) << part << "\n" << scenario->resolved_text;
  }
}

std::string again(const std::string& cluster) {
  const absl::StatusOr<Scenario> scenario = with_cluster(cluster);
  EXPECT_TRUE(scenario.ok()) << message_of(scenario.status());
  if (!scenario.ok()) return "";
  const FileReader no_files = [](const std::string& path) -> absl::StatusOr<std::string> { return missing(path); };
  const auto second = parse_scenario(scenario->resolved_text, "again.textproto", no_files);
  EXPECT_TRUE(second.ok()) << message_of(second.status());
  if (!second.ok()) return "";
  EXPECT_EQ(second->resolved_text, scenario->resolved_text);
  std::string domains;
  for (const cluster::Host& host : second->cluster.hosts) domains += fmt::format("{} ", host.nvlink_domain);
  return domains;
}

TEST(Domains, AreBlocksOfAGroupOfHosts) {
  const std::string hosts = "gpus: 4 gpu: \"h100-80g\" nic: \"400Gbps\" nvlink_hosts: 2 } ";
  EXPECT_EQ(again("hosts { count: 4 " + hosts), "0 0 1 1 ");
  EXPECT_EQ(again("hosts { count: 3 " + hosts + "hosts { count: 2 " + hosts), "0 0 1 2 2 ") << "not 0 0 1 1 2";
  const cluster::Cluster rack = cluster_of("hosts { kind: \"gb200-nvl72\" count: 36 }");
  ASSERT_EQ(rack.hosts.size(), 36U);
  EXPECT_EQ(rack.hosts[17].nvlink_domain, 0);
  EXPECT_EQ(rack.hosts[18].nvlink_domain, 1);
  EXPECT_EQ(rack.rack_hosts, 18) << "a domain is a rack where nothing else is said";
  EXPECT_EQ(cluster_of("hosts { kind: \"gb200-nvl72\" count: 4 nvlink_hosts: 1 }").hosts.back().nvlink_domain, -1);
  const cluster::Cluster part =
      cluster_of("hosts { kind: \"gb200-nvl72\" count: 8 } fabric { kind: DRAGONFLY group_hosts: 8 }");
  EXPECT_EQ(part.hosts.front().nvlink_hosts, 8) << "no more than there are";
  EXPECT_EQ(part.rack_hosts, 8);
  EXPECT_EQ(cluster_of("hosts { kind: \"gb200-nvl72\" }").hosts.back().nvlink_domain, -1) << "one host";
}

TEST(Domains, LieInRacks) {
  const std::string hosts = "hosts { count: 8 gpus: 4 gpu: \"h100-80g\" nic: \"400Gbps\" nvlink_hosts: 4 } ";
  EXPECT_EQ(problems_of(hosts + "rack_hosts: 8"), "");
  const std::string odd = "hosts { count: 2 gpus: 4 gpu: \"h100-80g\" nic: \"400Gbps\" } ";
  EXPECT_NE(problems_of(odd + hosts + "fabric { kind: RAIL group_hosts: 4 }").find("is in another pod, group or unit"),
            std::string::npos);
  EXPECT_NE(problems_of(hosts + "rack_hosts: 2").find("the GPU links of host 2 join it to host 0"), std::string::npos);
  EXPECT_NE(problems_of("hosts { count: 2 gpus: 1 gpu: \"h100-80g\" nic: \"1Gbps\" nvlink_hosts: 0 }")
                .find("\"nvlink_hosts\" must be at least 1, found 0"),
            std::string::npos);
}

TEST(Fabrics, RoundTrip) {
  const std::string hosts = "hosts { count: 8 gpus: 4 gpu: \"h100-80g\" nic: \"400Gbps\" } ";
  for (const std::string fabric :
       {"kind: FAT_TREE leaf_hosts: 2 group_hosts: 4 oversubscription: 2 group_oversubscription: 3",
        "kind: DRAGONFLY group_hosts: 4 group_oversubscription: 3", "kind: DRAGONFLY leaf_hosts: 2 group_hosts: 4",
        "kind: RAIL group_hosts: 4"}) {
    SCOPED_TRACE(fabric);
    again(hosts + "fabric { " + fabric + " }");
    EXPECT_EQ(cluster_of(hosts + "fabric { " + fabric + " }").group_hosts, 4);
  }
}

TEST(Fabrics, EachCheck) {
  const auto expect = [](const std::string& fabric, const std::string& said) {
    const std::string hosts = "hosts { count: 8 gpus: 4 gpu: \"h100-80g\" nic: \"400Gbps\" } ";
    const std::string problems = problems_of(hosts + fabric);
    EXPECT_NE(problems.find(said), std::string::npos) << fabric << "\n" << problems;
  };
  expect("fabric { kind: FAT_TREE leaf_hosts: 2 }", "\"group_hosts\" is missing");
  expect("fabric { kind: FAT_TREE group_hosts: 2 }", "\"leaf_hosts\" is missing");
  expect("fabric { kind: DRAGONFLY leaf_hosts: 2 }", "\"group_hosts\" is missing");
  expect("fabric { kind: LEAF_SPINE leaf_hosts: 2 group_hosts: 4 }", "\"group_hosts\" needs kind: FAT_TREE, DRAGONFLY");
  expect("fabric { kind: RAIL group_oversubscription: 2 }", "\"group_oversubscription\" needs kind: FAT_TREE");
  expect("fabric { kind: DRAGONFLY group_hosts: 4 oversubscription: 2 }", "that of routers needs \"leaf_hosts\"");
  expect("fabric { kind: FAT_TREE leaf_hosts: 3 group_hosts: 4 }",
         "blocks of 3 and of 4 hosts do not lie in one another");
  expect("fabric { kind: DRAGONFLY group_hosts: 4 } rack_hosts: 3", "blocks of 3 and of 4 hosts");
  expect("fabric { kind: FAT_TREE leaf_hosts: 2 group_hosts: 4 } rack_hosts: 2", "the racks of a FAT_TREE fabric are");
  expect("fabric { kind: RAIL oversubscription: 1e-5 }", "\"oversubscription\" must be from 0.001 to 1000000");
  expect("fabric { kind: FAT_TREE leaf_hosts: 2 group_hosts: 4 group_oversubscription: 0 }", "must be greater than 0");
}

}  // namespace
}  // namespace scalai::scenario
