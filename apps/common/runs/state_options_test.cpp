#include "apps/common/runs/state_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "executor/cuda/topology.h"
#include "ptc/base/status.h"

namespace scalai::apps {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

absl::StatusOr<StateOptions> read(const std::vector<std::string>& words) {
  const CommandSpec spec{.name = "x", .options = state_option_specs()};
  SCALAI_ASSIGN_OR_RETURN(const Arguments arguments, parse_arguments(spec, words));
  return read_state_options(arguments);
}

TEST(StateOptions, TravelAsWords) {
  EXPECT_THAT(words_of(*read({})), ElementsAre("--transport=shared-memory", "--backend=host"));
  const std::vector<std::string> words = {"--transport=nccl",    "--backend=cuda",       "--devices-per-gpu=8",
                                          "--nccl=/x.so",        "--memory=3221225473B", "--host-overflow=7000B",
                                          "--huge-pages=require"};
  EXPECT_EQ(words_of(*read(words)), words);
  EXPECT_EQ(words_of(*read(words_of(*read(words)))), words);
}

TEST(StateOptions, WhatDoesNotGoTogetherIsRefused) {
  EXPECT_THAT(message_of(read({"--nccl=/x.so"}).status()), HasSubstr("without --transport=nccl"));
  EXPECT_THAT(message_of(read({"--devices-per-gpu=0"}).status()), HasSubstr("1 to 1024"));
  EXPECT_FALSE(read({"--backend=opencl"}).ok());
  EXPECT_THAT(message_of(read({"--host-overflow=1GiB"}).status()), HasSubstr("without --backend=cuda"));
  EXPECT_THAT(message_of(read({"--memory=0B"}).status()), HasSubstr("more than 0"));
}

TEST(StateOptions, MemoryOfDevices) {
  EXPECT_EQ(read({})->device_limit(), executor::state::SegmentOptions().limit);
  EXPECT_EQ(read({"--memory=2GiB"})->device_limit(), int64_t{2} << 30);
  EXPECT_EQ(read({"--backend=cuda", "--host-overflow=1GiB"})->host_overflow, int64_t{1} << 30);
}

TEST(StateOptions, WhatIsAskedForMustBeHere) {
  EXPECT_TRUE(check_here({}, {1000}).ok());
  EXPECT_TRUE(absl::IsNotFound(check_here({.transport = "nccl", .nccl = "/no/such.so"}, {1})));
  const bool has_pages = executor::state::huge_page_support().page_bytes > 0;
  const absl::Status pages = check_here({.huge_pages = "require"}, {1});
  EXPECT_EQ(pages.ok(), has_pages);
  EXPECT_TRUE(has_pages || absl::IsNotFound(pages)) << pages;
  const auto report = executor::cuda::gpu_report();
  const absl::Status on_gpus = check_here({.backend = "cuda", .devices_per_gpu = 2}, {2, 1});
  if (!report.ok()) {
    EXPECT_EQ(on_gpus, report.status());
    EXPECT_TRUE(absl::IsNotFound(make_backend({.backend = "cuda"}).status()));
  } else {
    EXPECT_EQ(on_gpus.ok(), report->gpus.size() > 1) << on_gpus;
  }
}

TEST(StateOptions, DevicesInHostMemoryAreHiddenWhereNcclCarries) {
  EXPECT_EQ((*make_backend({}))->gpu_of_device(5), -1);
  EXPECT_EQ((*make_backend({.transport = "nccl", .devices_per_gpu = 4}))->gpu_of_device(5), 1);
  EXPECT_FALSE(open_nccl({}).value().has_value());
}

}  // namespace
}  // namespace scalai::apps
