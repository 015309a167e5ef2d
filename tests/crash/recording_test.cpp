#include "tests/crash/recording.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "ptc/base/file.h"
#include "ptc/base/status.h"

namespace scalai::crash {
namespace {

using ::testing::HasSubstr;

std::string record(Kind kind, const std::string& path, const std::string& data) {
  RecordHeader header{.kind = kind, .inode = 5, .offset = 7};
  header.path_bytes = static_cast<uint32_t>(path.size());
  header.data_bytes = data.size();
  std::string text(sizeof header, '\0');
  std::memcpy(text.data(), &header, sizeof header);
  return text + path + data;
}

TEST(Recording, GivesOperationsBack) {
  const std::string file = testing::TempDir() + "scalai-recording";
  const std::string first = record(Kind::kMakeFile, "a/b", "");
  const std::string text = first + record(Kind::kWrite, "a/b", "xyz");
  ASSERT_TRUE(write_file(file, text).ok());
  const auto operations = read_recording(file);
  ASSERT_TRUE(operations.ok()) << operations.status();
  ASSERT_EQ(operations->size(), 2u);
  EXPECT_EQ(operations->at(0).str(), "create a/b");
  EXPECT_EQ(operations->at(1).str(), "write a/b [7, 10)");
  EXPECT_EQ(operations->at(1).data, "xyz");
  EXPECT_EQ(operations->at(1).inode, 5u);
  // Cut at any byte it is refused, or ends with whole operations.
  for (size_t length = 1; length < text.size(); ++length) {
    ASSERT_TRUE(write_file(file, text.substr(0, length)).ok());
    EXPECT_EQ(read_recording(file).ok(), length == first.size()) << length;
  }
  ASSERT_TRUE(write_file(file, text + record(Kind::kUnknown, "c", "a strange call")).ok());
  EXPECT_THAT(message_of(read_recording(file).status()), HasSubstr("c: a strange call"));
}

}  // namespace
}  // namespace scalai::crash
