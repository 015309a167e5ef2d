#include <gmock/gmock.h>

#include "ptc/base/random.h"
#include "ptc/base/status.h"
#include "ptc/store/datasets/build.h"
#include "ptc/store/datasets/reader.h"
#include "ptc/store/datasets/testing/test_data.h"

namespace scalai::datasets {
namespace {

using testing::HasSubstr;

class TfRecord : public testing::Test {
 protected:
  absl::StatusOr<BuildSummary> build(const std::string& bytes) const {
    return build_index(
        {.format = Format::kTfRecord, .files = {folder_.write("r", bytes)}, .out = folder_.path("index")});
  }
  std::string refusal(const std::string& bytes) const {
    const auto built = build(bytes);
    EXPECT_FALSE(built.ok());
    EXPECT_EQ(exit_code_of(built.status()), 3);
    return message_of(built.status());
  }
  test::TempFolder folder_;
};

// Records from empty to larger than the reading buffer.
TEST_F(TfRecord, RecordsOfAnySizeAreFound) {
  Random random(8);
  std::vector<std::string> payloads;
  std::string bytes;
  for (const int64_t size : {0, 1, 7, 100, 1'048'560, 3'000'000, 5, 0}) {
    std::string payload;
    while (static_cast<int64_t>(payload.size()) < size) payload += static_cast<char>(random.next());
    bytes += test::record_bytes(payload);
    payloads.push_back(payload);
  }
  const auto built = build(bytes);
  ASSERT_TRUE(built.ok()) << built.status();
  EXPECT_EQ(built->documents, static_cast<int64_t>(payloads.size()));
  const Reader reader(Samples::make(Index::open(folder_.path("index")).value()).value(), open_file_source,
                      {.check_crc = true});
  for (size_t i = 0; i < payloads.size(); ++i) {
    const auto record = reader.read(static_cast<int64_t>(i));
    ASSERT_TRUE(record.ok()) << record.status();
    EXPECT_EQ(payload_of_record(*record), payloads[i]);
  }
  EXPECT_TRUE(reader.samples().index().verify().ok());
}

TEST_F(TfRecord, EveryFlippedBitIsFoundAndNamed) {
  const std::string good = test::record_bytes("first") + test::record_bytes("second");
  for (size_t at = 0; at < good.size(); ++at) {
    std::string bytes = good;
    bytes[at] = static_cast<char>(bytes[at] ^ (1 << (at % 8)));
    const std::string record = at < 21 ? "r: record 0 at byte 0: " : "r: record 1 at byte 21: ";
    EXPECT_THAT(refusal(bytes), HasSubstr(record + "the checksum of its ")) << at;
  }
}

TEST_F(TfRecord, EveryCutIsFoundAndNamed) {
  const std::string good = test::record_bytes("first") + test::record_bytes("second");
  for (size_t size = 1; size < good.size(); ++size) {
    if (size == 21) continue;  // one whole record
    EXPECT_THAT(refusal(good.substr(0, size)), HasSubstr(size < 21 ? "record 0 at byte 0" : "record 1 at byte 21"))
        << size;
    EXPECT_THAT(refusal(good.substr(0, size)), HasSubstr("the file was cut"));
  }
}

TEST_F(TfRecord, CompressedAndOtherFilesAreNoRecords) {
  EXPECT_THAT(refusal(std::string("\x1f\x8b\x08\x00", 4) + std::string(100, 'z')), HasSubstr("gzip"));
  EXPECT_THAT(refusal(std::string(100, 'z')), HasSubstr("no TFRecord file"));
  // A length beyond anything, with a checksum that fits.
  const std::string length = test::little_endian(~uint64_t{0});
  EXPECT_THAT(refusal(length + test::little_endian(test::slow_masked_crc(length)) + std::string(20, 'x')),
              HasSubstr("its data have 18446744073709551615 bytes, and 16 are left"));
}

}  // namespace
}  // namespace scalai::datasets
