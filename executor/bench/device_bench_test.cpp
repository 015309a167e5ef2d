#include "executor/bench/device_bench.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "executor/bench/copy_work.h"
#include "executor/bench/link_bench.h"
#include "executor/nccl/library.h"
#include "ptc/base/status.h"

namespace scalai::executor::bench {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kLittle = int64_t{1} << 20;

std::vector<CopyWork> works(const std::string& name, const std::string& model) {
  return make_copy_works({.names = {name}, .models = {model}, .bytes = kLittle}).value();
}

TEST(CopyWork, EveryElementOfTheNewPiecesIsCopiedOnce) {
  for (const std::string& name : copy_work_names()) {
    const std::vector<CopyWork> list = works(name, "gpt2");
    // A GPT has no gate; whole buffers have no way back.
    EXPECT_EQ(list.size(), name == "swiglu" ? 0u : name == "contiguous" || name == "unaligned" ? 1u : 2u) << name;
    for (const CopyWork& work : list) {
      SCOPED_TRACE(work.name);
      EXPECT_GE(work.bytes, kLittle);
      std::map<size_t, int64_t> copied;
      int64_t bytes = 0;
      for (const CopyWork::Copy& copy : work.copies) {
        ASSERT_TRUE(work.sources[copy.src].box.contains(copy.part));
        ASSERT_TRUE(work.targets[copy.dst].box.contains(copy.part));
        ASSERT_EQ(work.sources[copy.src].content.key, work.targets[copy.dst].content.key);
        copied[copy.dst] += copy.part.volume();
        bytes += copy.part.volume() * tensor::size_of(work.targets[copy.dst].dtype);
      }
      EXPECT_EQ(bytes, work.bytes);
      for (size_t i = 0; i < work.targets.size(); ++i) EXPECT_EQ(copied[i], work.targets[i].box.volume());
    }
  }
}

TEST(CopyWork, WhatIsNotThereIsRefused) {
  EXPECT_THAT(message_of(make_copy_works({.names = {"diagonal"}}).status()), HasSubstr("no layout \"diagonal\""));
  EXPECT_FALSE(make_copy_works({.names = {"qkv"}, .models = {"gpt-none"}}).ok());
}

TEST(DeviceBench, MeasuresCopiesAndTheirChecks) {
  const std::unique_ptr<device::Backend> backend = device::make_host_backend();
  for (const CopyWork& work : works("row", "gpt2")) {
    const std::vector<Measurement> rows = measure_copies(*backend, work, 2).value();
    ASSERT_EQ(rows.size(), 3u);
    EXPECT_EQ(rows[0].name, work.name + " gpt2");
    EXPECT_EQ(rows[0].errors, 0);
    EXPECT_EQ(rows[0].transfer_s.size(), 2u);
    EXPECT_EQ(rows[0].moved_bytes, work.bytes);
    ASSERT_EQ(rows[0].yardsticks.size(), 1u);
    EXPECT_EQ(rows[0].yardsticks[0].name, "memcpy");
    EXPECT_EQ(rows[1].yardsticks[0].seconds, rows[0].seconds());
    EXPECT_THAT(rows[2].name, HasSubstr("digest"));
  }
}

// A work whose copies leave a hole is an error, not a fast result.
TEST(DeviceBench, AWrongCopyIsCounted) {
  CopyWork work = works("column", "gpt2").front();
  work.copies.pop_back();
  EXPECT_EQ(measure_copies(*device::make_host_backend(), work, 1)->front().errors, 1);
}

TEST(LinkBench, MeasuresEveryWay) {
  const nccl::NcclLibrary nccl = nccl::NcclLibrary::open(FAKE_NCCL_LIBRARY).value();
  const std::unique_ptr<device::Backend> backend = device::make_host_backend({.devices_per_gpu = 1});
  for (const int ranks : {1, 3}) {
    const std::vector<Measurement> rows =
        measure_links(*backend, nccl.api(),
                      {.ranks = ranks, .bytes = kLittle, .chunk_bytes = {64 << 10, 256 << 10}, .repetitions = 2})
            .value();
    ASSERT_EQ(rows.size(), 5u);
    EXPECT_EQ(rows[1].name, "nccl dense, 64 KiB");
    for (const Measurement& row : rows) {
      EXPECT_EQ(row.errors, 0) << row.name;
      EXPECT_EQ(row.transfer_s.size(), 2u);
      EXPECT_EQ(row.devices, ranks);
    }
    EXPECT_EQ(rows[0].state_bytes, ranks * kLittle);
    EXPECT_EQ(rows[4].busiest_bytes, kLittle / 2);
  }
}

}  // namespace
}  // namespace scalai::executor::bench
