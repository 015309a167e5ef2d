#include "ptc/store/datasets/reader.h"

#include <gmock/gmock.h>

#include "ptc/base/status.h"
#include "ptc/store/datasets/build.h"
#include "ptc/store/datasets/testing/test_data.h"

namespace scalai::datasets {
namespace {

using testing::HasSubstr;

class Reading : public testing::Test {
 protected:
  std::shared_ptr<const Samples> samples(BuildRequest request, int64_t sequence = 0) const {
    request.out = folder_.path("index");
    const auto built = build_index(request);
    EXPECT_TRUE(built.ok()) << built.status();
    return Samples::make(Index::open(request.out).value(), sequence).value();
  }
  test::TempFolder folder_;
};

TEST_F(Reading, WindowsComeFromSeveralFiles) {
  for (const auto& [name, first, tokens] : {std::tuple("a", 0, 7), std::tuple("b", 7, 2), std::tuple("c", 9, 12)}) {
    folder_.write(std::string(name) + ".bin", test::tokens_bytes(first, tokens));
    folder_.write(std::string(name) + ".idx", test::idx_bytes(4, 4, {tokens}, {1}));
  }
  const Reader reader(samples({.files = {folder_.path("a"), folder_.path("b"), folder_.path("c")}}, 5),
                      open_file_source);
  ASSERT_EQ(reader.samples().count(), 4);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(reader.read(i).value(), test::tokens_bytes(5 * i, 6)) << i;
}

TEST_F(Reading, DocumentsAsTheyLie) {
  folder_.write("f", "aabbccdd");
  const Reader fixed(samples({.format = Format::kFixed, .files = {folder_.path("f")}, .record_bytes = 2}),
                     open_file_source);
  EXPECT_EQ(fixed.read(3).value(), "dd");
  const std::string record = test::record_bytes("payload");
  folder_.write("r", test::record_bytes("") + record);
  const Reader records(samples({.format = Format::kTfRecord, .files = {folder_.path("r")}}), open_file_source,
                       {.check_crc = true});
  EXPECT_EQ(records.read(1).value(), record);
  EXPECT_EQ(payload_of_record(record), "payload");
  EXPECT_EQ(payload_of_record(records.read(0).value()), "");
  const std::string first = test::tar_member("x.txt", "hello") + test::tar_member("x.cls", "1");
  folder_.write("t", first + test::tar_member("y.txt", "") + test::tar_end());
  const Reader tar(samples({.format = Format::kTar, .files = {folder_.path("t")}}), open_file_source);
  EXPECT_EQ(tar.read(0).value(), first);
}

// Damage that leaves size, time and edges as they were: only the checksums tell.
TEST_F(Reading, ChecksumsAreHeldAgainstTheBytesWhenAsked) {
  const std::string edge = test::record_bytes(std::string(70'000, 'e'));
  const std::string bytes = edge + test::record_bytes("first") + test::record_bytes("second") + edge;
  const std::string path = folder_.write("r", bytes);
  const auto all = samples({.format = Format::kTfRecord, .files = {path}});
  const auto time = std::filesystem::last_write_time(path);
  for (const auto& [at, message] :
       std::vector<std::pair<size_t, std::string>>{{21, "its length is not the one indexed"},
                                                   {29, "the checksum of its length does not fit"},
                                                   {35, "the checksum of its data does not fit"},
                                                   {42, "the checksum of its data does not fit"}}) {
    std::string damaged = bytes;
    damaged[edge.size() + at] = static_cast<char>(damaged[edge.size() + at] ^ 1);
    folder_.write("r", damaged);
    std::filesystem::last_write_time(path, time);
    EXPECT_TRUE(Reader(all, open_file_source).read(2).ok());
    const Reader checking(all, open_file_source, {.check_crc = true});
    EXPECT_TRUE(checking.read(1).ok());
    EXPECT_EQ(message_of(checking.read(2).status()), path + ": record at byte 70037 (document 2): " + message);
    EXPECT_EQ(exit_code_of(checking.read(2).status()), 3);
  }
}

TEST_F(Reading, ErrorsNameFileAndSample) {
  const std::string path = folder_.write("f", "aabbccdd");
  const auto all = samples({.format = Format::kFixed, .files = {path}, .record_bytes = 2});
  const Reader open(all, open_file_source);
  ASSERT_TRUE(open.read(0).ok());
  std::filesystem::resize_file(path, 5);
  EXPECT_THAT(message_of(open.read(3).status()),
              HasSubstr(path + ": was cut to 5 of its 8 bytes while in use (document 3)"));
  EXPECT_THAT(message_of(Reader(all, open_file_source).read(2).status()), HasSubstr("had 8 when it was indexed"));
  std::filesystem::remove(path);
  const absl::Status gone = Reader(all, open_file_source).read(1).status();
  EXPECT_THAT(message_of(gone), HasSubstr("(document 1)"));
  EXPECT_EQ(exit_code_of(gone), 4);
}

}  // namespace
}  // namespace scalai::datasets
