#include "ptc/cluster/catalogue.h"

#include <gtest/gtest.h>

#include <set>

namespace scalai::cluster {
namespace {

bool is_tpu(const std::string& name) { return name.starts_with("tpu"); }

TEST(GpuTable, EveryNameIsFoundAndComplete) {
  const std::vector<std::string> names = gpu_kind_names();
  EXPECT_EQ(names.size(), 32U);
  EXPECT_EQ(std::set<std::string>(names.begin(), names.end()).size(), names.size());
  for (const std::string& name : names) {
    SCOPED_TRACE(name);
    const GpuKind* kind = find_gpu_kind(name);
    ASSERT_NE(kind, nullptr);
    EXPECT_EQ(kind->name, name);
    EXPECT_GT(gpu_kind_source(name).size(), 10U);
    // The name ends in the memory size in GB; the sheets' GB lies between 10^9 and 2^30, or a little less where the
    // driver keeps some.
    const double gigabytes = std::stod(name.substr(name.rfind('-') + 1));
    EXPECT_GE(static_cast<double>(kind->memory_bytes), gigabytes * 1e9);
    EXPECT_LE(static_cast<double>(kind->memory_bytes), gigabytes * 1073741824.0);
    EXPECT_GT(kind->peak_flops, 1e12);
    EXPECT_GT(kind->memory_bandwidth_bytes_per_s, kind->link_bytes_per_s);
    EXPECT_GE(kind->link_bytes_per_s, kind->pcie_bytes_per_s);
    if (is_tpu(name)) continue;  // nobody publishes their power
    EXPECT_GE(kind->power_w, 70);
    EXPECT_LE(kind->power_w, 1400);
  }
  EXPECT_EQ(find_gpu_kind("a100"), nullptr);
  EXPECT_EQ(gpu_kind_source("a100"), "");
  EXPECT_EQ(find_gpu_kind("a6000-48g")->link_bytes_per_s, 56.25e9);
  EXPECT_EQ(find_gpu_kind("a6000-48g")->pcie_bytes_per_s, 32e9);
}

// A matrix unit takes twice the time for each doubling of its inputs' width, and never longer than the vector unit.
TEST(GpuTable, RatesBelongTogether) {
  for (const std::string& name : gpu_kind_names()) {
    SCOPED_TRACE(name);
    const GpuKind& kind = *find_gpu_kind(name);
    if (kind.peak_flops_fp8 > 0) {
      EXPECT_NEAR(kind.peak_flops_fp8 / kind.peak_flops, 2, 0.03);
    }
    if (kind.peak_flops_tf32 > 0) {
      EXPECT_NEAR(kind.peak_flops / kind.peak_flops_tf32, 2, 0.03);
    }
    EXPECT_EQ(kind.peak_flops_fp32 > 0, !is_tpu(name)) << "nor their vector units";
    EXPECT_LE(kind.peak_flops_fp32, kind.peak_flops);
    // Reduction in the switch came with Hopper's NVLink, as FP8 did.
    if (kind.in_switch_reduction) {
      EXPECT_GT(kind.peak_flops_fp8, 0);
      EXPECT_GT(kind.link_bytes_per_s, kind.pcie_bytes_per_s);
    }
  }
}

// One row by its published numbers, every field: the sheet of the H100 (SXM5).
TEST(GpuTable, H100IsTheDataSheets) {
  const GpuKind h100 = *find_gpu_kind("h100-80g");
  EXPECT_EQ(h100.memory_bytes, int64_t{80} << 30);
  EXPECT_EQ(h100.peak_flops, 989.5e12);
  EXPECT_EQ(h100.peak_flops_fp8, 1979e12);
  EXPECT_EQ(h100.peak_flops_tf32, 494.5e12);
  EXPECT_EQ(h100.peak_flops_fp32, 67e12);
  EXPECT_EQ(h100.memory_bandwidth_bytes_per_s, 3.35e12);
  EXPECT_EQ(h100.link_bytes_per_s, 450e9);
  EXPECT_EQ(h100.pcie_bytes_per_s, 64e9);
  EXPECT_EQ(h100.power_w, 700);
  EXPECT_EQ(h100.multiprocessors, 132);
  EXPECT_TRUE(h100.in_switch_reduction);
}

TEST(HostTable, EveryNameIsFoundAndFitsAScenario) {
  const std::vector<std::string> names = host_kind_names();
  EXPECT_EQ(names.size(), 91U);
  EXPECT_EQ(std::set<std::string>(names.begin(), names.end()).size(), names.size());
  for (const std::string& name : names) {
    SCOPED_TRACE(name);
    const HostKind* kind = find_host_kind(name);
    ASSERT_NE(kind, nullptr);
    EXPECT_EQ(kind->name, name);
    EXPECT_EQ(kind->host.kind, name);
    EXPECT_GT(kind->source.size(), 10U);
    EXPECT_EQ(kind->host.first_device, 0);
    EXPECT_GE(kind->host.gpus, 1);
    EXPECT_EQ(kind->host.gpus % kind->host.nics, 0) << "cards are shared evenly";
    EXPECT_EQ(kind->host.gpu, *find_gpu_kind(kind->host.gpu.name));
    EXPECT_EQ(kind->host.gpu_link_bytes_per_s, kind->host.gpu.link_bytes_per_s);
    EXPECT_EQ(kind->host.pcie_bytes_per_s > 0, !is_tpu(kind->host.gpu.name)) << "nor their ways to the host";
    // A price names its list and year.
    if (kind->host.price_per_hour > 0) {
      EXPECT_NE(kind->source.find("20"), std::string::npos);
    }
  }
  EXPECT_EQ(find_host_kind("dgx"), nullptr);
}

TEST(HostTable, KnownHosts) {
  const Host& dgx = find_host_kind("dgx-h100")->host;
  EXPECT_EQ(dgx.gpus, 8);
  EXPECT_EQ(dgx.nics, 8);
  EXPECT_EQ(dgx.nic_bytes_per_s, 50e9);
  EXPECT_EQ(dgx.price_per_hour, 0);
  const Host& p4d = find_host_kind("p4d.24xlarge")->host;
  EXPECT_EQ(p4d.gpu.name, "a100-40g");
  EXPECT_EQ(p4d.nics * p4d.nic_bytes_per_s, 400e9 / 8);
  EXPECT_EQ(p4d.pcie_bytes_per_s, 16e9) << "its processors have PCIe 3";
  EXPECT_EQ(p4d.price_per_hour, 21.957642);
  // 32 NICs of 100 Gbps, 16 of 200 Gbps: one a GPU of their joint rate.
  for (const std::string name : {"p5.48xlarge", "p5en.48xlarge"}) {
    const Host& host = find_host_kind(name)->host;
    EXPECT_EQ(host.nics * host.nic_bytes_per_s, 3200e9 / 8) << name;
  }
  EXPECT_EQ(find_host_kind("hgx-h100")->host.nic_bytes_per_s, 0);
  EXPECT_EQ(find_host_kind("dgx-2")->host.gpus, 16);
  EXPECT_EQ(dgx.nvlink_hosts, 1);
  const Host& tray = find_host_kind("gb200-nvl72")->host;
  EXPECT_EQ(tray.gpus, 4) << "a tray fails by itself";
  EXPECT_EQ(joined(tray).gpus, 72);
  EXPECT_EQ(joined(tray).nics * tray.nic_bytes_per_s, 28.8e12 / 8);
}

TEST(HintForUnknown, NamesWhatMayBeMeant) {
  const std::vector<std::string> gpus = gpu_kind_names(), hosts = host_kind_names();
  EXPECT_EQ(machine_names().size(), gpus.size() + hosts.size());
  EXPECT_EQ(machine_names().front(), gpus.front());
  EXPECT_EQ(machine_names().back(), hosts.back());
  EXPECT_EQ(hint_for_unknown("t4", gpus), "did you mean \"t4-16g\"?");
  EXPECT_EQ(hint_for_unknown("v100", gpus), "did you mean \"v100-16g\" or \"v100-32g\" or \"v100-pcie-16g\"?");
  EXPECT_EQ(hint_for_unknown("h100-8g", gpus), "did you mean \"h100-80g\"?");
  EXPECT_EQ(hint_for_unknown("dgx-a100", hosts), "did you mean \"dgx-a100-40g\" or \"dgx-a100-80g\"?");
  EXPECT_EQ(hint_for_unknown("p4d", hosts), "did you mean \"p4d.24xlarge\"?");
  EXPECT_EQ(hint_for_unknown("abacus", hosts), "\"scalai machines\" lists them");
  EXPECT_EQ(hint_for_unknown("", hosts), "\"scalai machines\" lists them");
}

}  // namespace
}  // namespace scalai::cluster
