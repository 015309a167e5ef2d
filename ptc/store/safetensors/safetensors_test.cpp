#include "ptc/store/safetensors/safetensors.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ptc/base/file.h"
#include "ptc/store/safetensors/checksum.h"
#include "ptc/store/safetensors/testing/small_disk.h"
#include "ptc/store/safetensors/testing/test_job.h"
#include "ptc/store/safetensors/testing/write_safetensors.h"

namespace scalai::store {
namespace {

using tensor::DType;
using ::testing::HasSubstr;

class SafetensorsTest : public FolderTest {
 protected:
  std::string put(const std::string& json, const std::string& data) const {
    std::string bytes(8, '\0');
    for (size_t i = 0; i < 8; ++i) bytes[i] = static_cast<char>(json.size() >> (8 * i));
    EXPECT_TRUE(write_file(path("f"), bytes + json + data).ok());
    return path("f");
  }
  static std::string refusal(const std::string& file) {
    const absl::StatusOr<SafetensorsFile> opened = SafetensorsFile::open(file);
    return opened.ok() ? "accepted" : message_of(opened.status());
  }
  // Two tensors: "a" F32 [2], then "b" U8 [3].
  absl::Status write_two(const std::string& file) const {
    return write_safetensors(file, {{"b", DType::kU8, {3}}, {"a", DType::kF32, {2}}}, {{"k", "v"}},
                             [](const StoredTensor& stored) -> absl::StatusOr<std::span<const std::byte>> {
                               return bytes_of(stored.name == "a" ? "01234567" : "xyz");
                             });
  }
  static std::string text_of(const SafetensorsFile& file, const std::string& name, int64_t offset, size_t size) {
    std::string text(size, '\0');
    const absl::Status status = file.read(*file.find(name), offset, std::as_writable_bytes(std::span(text)));
    return status.ok() ? text : message_of(status);
  }
};

TEST_F(SafetensorsTest, ReadsBackWhatItWrote) {
  ASSERT_TRUE(write_two(path("f")).ok());
  EXPECT_THAT(*read_file(path("f")), ::testing::EndsWith("}    01234567xyz"));
  const absl::StatusOr<SafetensorsFile> file = SafetensorsFile::open(path("f"));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->header().metadata, (std::map<std::string, std::string>{{"k", "v"}}));
  ASSERT_EQ(file->header().tensors.size(), 2u);
  EXPECT_EQ(file->find("a")->shape, std::vector<int64_t>{2});
  EXPECT_EQ(file->find("b")->dtype, DType::kU8);
  EXPECT_EQ(file->find("c"), nullptr);
  EXPECT_EQ(text_of(*file, "a", 0, 8), "01234567");
  EXPECT_EQ(text_of(*file, "a", 3, 2), "34");
  EXPECT_EQ(text_of(*file, "b", 3, 0), "");
  EXPECT_EQ(text_of(*file, "b", 1, 2), "yz");
  EXPECT_EQ(*file->raw_header() + "01234567xyz", *read_file(path("f")));
}

TEST_F(SafetensorsTest, RefusesFilesThatAreNone) {
  EXPECT_EQ(refusal(path("absent")), path("absent") + ": No such file or directory");
  EXPECT_EQ(refusal(folder_), folder_ + ": is not a regular file");
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  EXPECT_EQ(refusal(path("pipe")), path("pipe") + ": is not a regular file");
  ASSERT_TRUE(write_file(path("f"), "1234567").ok());
  EXPECT_EQ(refusal(path("f")), path("f") + ": not a safetensors file: it has only 7 bytes");
  ASSERT_TRUE(write_file(path("f"), std::string(8, '\0')).ok());
  EXPECT_THAT(refusal(path("f")), HasSubstr("f: the header does not begin"));
  ASSERT_TRUE(write_file(path("f"), std::string("\x01\xE1\xF5\x05\0\0\0\0{}", 10)).ok());
  EXPECT_THAT(refusal(path("f")), HasSubstr("a header of 100000001 bytes; the format allows 100000000"));
  ASSERT_TRUE(write_file(path("f"), std::string("\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF{}", 10)).ok());
  EXPECT_THAT(refusal(path("f")), HasSubstr("a header of 18446744073709551615 bytes"));
  ASSERT_TRUE(write_file(path("f"), std::string("\x03\0\0\0\0\0\0\0{}", 10)).ok());
  EXPECT_THAT(refusal(path("f")), HasSubstr("a header of 3 bytes in a file of 10"));
}

TEST_F(SafetensorsTest, RefusalsNameFileAndTensor) {
  const std::string a = R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})";
  EXPECT_EQ(refusal(put(a, "1234")), "accepted");
  EXPECT_THAT(refusal(put(a, "123")), HasSubstr(path("f") + ": tensor \"a\": its data ends at byte"));
  EXPECT_THAT(refusal(put(a, "12345")), HasSubstr(path("f") + ": the tensors end at byte"));
}

TEST_F(SafetensorsTest, ACutFileIsAnErrorThatNamesFileAndTensor) {
  ASSERT_TRUE(write_two(path("f")).ok());
  const absl::StatusOr<SafetensorsFile> file = SafetensorsFile::open(path("f"));
  ASSERT_TRUE(file.ok());
  ASSERT_EQ(::truncate(path("f").c_str(), file->header().file_bytes - 2), 0);
  EXPECT_THAT(text_of(*file, "b", 0, 3), AllOf(HasSubstr(path("f") + ": was cut to"), HasSubstr("tensor \"b\"")));
  // Its own bytes are still there, but nobody knows what else happened.
  EXPECT_THAT(text_of(*file, "a", 0, 8), AllOf(HasSubstr(": was cut to"), HasSubstr("tensor \"a\"")));
  EXPECT_THAT(message_of(file->raw_header().status()), HasSubstr(path("f") + ": was cut to"));
}

TEST_F(SafetensorsTest, AChangedFileIsAnError) {
  ASSERT_TRUE(write_two(path("f")).ok());
  const absl::StatusOr<SafetensorsFile> file = SafetensorsFile::open(path("f"));
  ASSERT_TRUE(file.ok());
  damage(path("f"), file->find("a")->offset);
  const timespec times[2] = {{0, UTIME_NOW}, {1, 0}};  // a clock tick may be longer than this test
  ASSERT_EQ(::utimensat(AT_FDCWD, path("f").c_str(), times, 0), 0);
  EXPECT_THAT(text_of(*file, "b", 0, 3), AllOf(HasSubstr(": was changed while in use"), HasSubstr("tensor \"b\"")));
}

TEST_F(SafetensorsTest, AFailedWriteLeavesNoFile) {
  const absl::Status status = write_safetensors(path("f"), {{"a", DType::kU8, {1}}}, {},
                                                [](const StoredTensor&) -> absl::StatusOr<std::span<const std::byte>> {
                                                  return absl::UnavailableError("the source is gone");
                                                });
  EXPECT_EQ(message_of(status), "the source is gone");
  EXPECT_FALSE(std::filesystem::exists(path("f")));
  EXPECT_EQ(write_two(path("no/such/f")).code(), absl::StatusCode::kNotFound);
}

TEST_F(SafetensorsTest, AFullDiskIsResourceExhausted) {
  const SmallDisk result = on_small_disk(64 << 10, [](const std::string& folder) {
    const std::string bytes(100 << 10, 'x');
    const absl::Status status = write_safetensors(
        folder + "/f", {{"a", DType::kU8, {100 << 10}}}, {},
        [&](const StoredTensor&) -> absl::StatusOr<std::span<const std::byte>> { return bytes_of(bytes); });
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
    EXPECT_THAT(message_of(status), HasSubstr(folder + "/f: no room for"));
    EXPECT_FALSE(std::filesystem::exists(folder + "/f"));
  });
  if (result == SmallDisk::kUnavailable) GTEST_SKIP() << "this user may not mount a small tmpfs here";
  EXPECT_EQ(result, SmallDisk::kPassed);
}

}  // namespace
}  // namespace scalai::store
