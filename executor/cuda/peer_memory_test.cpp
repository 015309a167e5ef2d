#include "executor/cuda/peer_memory.h"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstdlib>
#include <cstring>

#include "executor/state/testing/support.h"
#include "ptc/base/file_descriptor.h"

namespace scalai::executor::cuda {

using state::value_or_die;

namespace {
using ::testing::HasSubstr;

constexpr int64_t kPart = 1 << 16;

// The stand-in (testing/fake_driver.cpp) is what the name of the driver's library means from then on.
class PeerMemoryTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_NE(::dlopen(FAKE_CUDA_DRIVER, RTLD_NOW), nullptr) << ::dlerror(); }
  void TearDown() override { ::unsetenv("SCALAI_TEST_DRIVER"); }

  static FileDescriptor part() {
    FileDescriptor made(::memfd_create("part", MFD_CLOEXEC));
    SCALAI_CHECK(::ftruncate(made.get(), kPart) == 0);
    return made;
  }
  static std::string content(const FileDescriptor& part, size_t bytes) {
    std::string text(bytes, '?');
    SCALAI_CHECK(::pread(part.get(), text.data(), bytes, 0) == static_cast<ssize_t>(bytes));
    return text;
  }
};

TEST_F(PeerMemoryTest, PartsAreWrittenWhereTheyAre) {
  const FileDescriptor first = part(), third = part();
  const auto memory = value_or_die(PeerMemory::reserve(2, 5 * kPart, 9 * kPart));
  {
    const FileDescriptor sent(::dup(first.get()));  // as it comes over a socket
    ASSERT_OK(memory->map(5 * kPart, kPart, sent.get()));
  }
  ASSERT_OK(memory->map(7 * kPart, kPart, third.get()));
  EXPECT_FALSE(memory->on_gpu());
  EXPECT_EQ(memory->gpu(), 2);
  std::memcpy(value_or_die(memory->data(5 * kPart, 5)), "first", 5);
  std::memcpy(value_or_die(memory->data(7 * kPart, 5)), "third", 5);
  EXPECT_EQ(content(first, 5), "first");
  EXPECT_EQ(content(third, 5), "third");
  const auto hole = memory->data(6 * kPart - 1, 2);
  EXPECT_EQ(hole.status().code(), absl::StatusCode::kInvalidArgument);
  const FileDescriptor second = part();
  ASSERT_OK(memory->map(6 * kPart, kPart, second.get()));
  std::memcpy(value_or_die(memory->data(6 * kPart - 1, kPart + 2)), "<second", 7);
  EXPECT_EQ(content(second, 6), "second");
}

TEST_F(PeerMemoryTest, WhatDoesNotFitIsRefused) {
  const FileDescriptor one = part();
  const auto memory = value_or_die(PeerMemory::reserve(0, kPart, 3 * kPart));
  ASSERT_OK(memory->map(kPart, kPart, one.get()));
  for (const int64_t offset : {int64_t{0}, int64_t{1}, kPart, kPart + kPart / 2, 3 * kPart - 1})
    EXPECT_EQ(memory->map(static_cast<uint64_t>(offset), kPart, one.get()).code(), absl::StatusCode::kInvalidArgument)
        << offset;
  EXPECT_EQ(memory->map(2 * kPart, 0, one.get()).code(), absl::StatusCode::kInvalidArgument);
  const absl::Status closed = memory->map(2 * kPart, kPart, 9999);
  EXPECT_THAT(message_of(closed), HasSubstr("taking over memory of the worker: an error of the stand-in"));
  EXPECT_OK(memory->map(2 * kPart, kPart, one.get()));
  EXPECT_EQ(PeerMemory::reserve(0, 5, 5).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(message_of(PeerMemory::reserve(99, 0, kPart).status()), HasSubstr("looking for GPU 99: no such device"));
}

TEST_F(PeerMemoryTest, NothingIsMappedAfterAnError) {
  const FileDescriptor one = part();
  const auto memory = value_or_die(PeerMemory::reserve(0, 0, kPart));
  ::setenv("SCALAI_TEST_DRIVER", "full", 1);
  EXPECT_EQ(memory->map(0, kPart, one.get()).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_FALSE(memory->data(0, 1).ok());
  ::unsetenv("SCALAI_TEST_DRIVER");
  ASSERT_OK(memory->map(0, kPart, one.get()));
  EXPECT_OK(memory->data(0, kPart).status());
}

}  // namespace
}  // namespace scalai::executor::cuda
