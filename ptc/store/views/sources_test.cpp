#include "ptc/store/views/internal/sources.h"

#include <gmock/gmock.h>

#include "ptc/base/status.h"
#include "ptc/store/safetensors/testing/memory_source.h"
#include "ptc/store/views/testing/test_model.h"

namespace scalai::store::internal {
namespace sources_test {

using ::testing::HasSubstr;

class SourcesTest : public FolderTest {};

TEST_F(SourcesTest, AFileIsOpenedOnceAndAskedInTheEnd) {
  write_text(path("a"), "old");
  write_text(path("b"), "other");
  Sources sources{SourceOpener()};
  const auto first = sources.open(path("a"));
  ASSERT_TRUE(first.ok());
  ASSERT_TRUE(sources.open(path("b")).ok());
  EXPECT_TRUE(absl::IsNotFound(sources.open(path("c")).status()));
  EXPECT_TRUE(sources.confirm().ok());
  EXPECT_TRUE(sources.have_versions());
  write_text(path("new"), "new");
  std::filesystem::rename(path("new"), path("a"));
  EXPECT_EQ(sources.open(path("a"))->get(), first->get());
  EXPECT_EQ(*read_all(**sources.open(path("a"))), "old");
  const absl::Status status = sources.confirm();
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_EQ(message_of(status), path("a") + ": was replaced by another file while in use");
}

TEST_F(SourcesTest, WhatHasNoVersionIsKnown) {
  Sources sources([](const std::string& location) -> absl::StatusOr<ByteSourcePtr> {
    return std::make_shared<MemorySource>(location, "text");
  });
  EXPECT_TRUE(sources.have_versions());
  ASSERT_TRUE(sources.open("x").ok());
  EXPECT_FALSE(sources.have_versions());
  EXPECT_TRUE(sources.confirm().ok());
}

}  // namespace sources_test
}  // namespace scalai::store::internal
