#include <gmock/gmock.h>

#include <chrono>

#include "ptc/base/random.h"
#include "ptc/base/status.h"
#include "ptc/store/datasets/build.h"
#include "ptc/store/datasets/testing/test_data.h"

namespace scalai::datasets {
namespace {

using testing::HasSubstr;

class Megatron : public testing::Test {
 protected:
  // Sequences of 5, 3 and 2 tokens of 2 bytes in documents of 2 and 1.
  Megatron() : idx_(test::idx_bytes(8, 2, {5, 3, 2}, {2, 1})) { write(idx_, 20); }
  void write(const std::string& idx, size_t bin_bytes) const {
    folder_.write("d.idx", idx);
    folder_.write("d.bin", std::string(bin_bytes, 'x'));
  }
  absl::StatusOr<BuildSummary> build() const {
    return build_index({.files = {folder_.path("d")}, .out = folder_.path("index")});
  }
  std::string refusal(const std::string& idx, size_t bin_bytes = 20) const {
    write(idx, bin_bytes);
    const auto built = build();
    EXPECT_FALSE(built.ok());
    EXPECT_EQ(exit_code_of(built.status()), 3);
    EXPECT_THAT(message_of(built.status()), HasSubstr(folder_.path("d.")));
    return message_of(built.status());
  }
  std::string with(size_t at, const std::string& bytes) const {
    std::string idx = idx_;
    test::put(idx, at, bytes);
    return idx;
  }
  test::TempFolder folder_;
  std::string idx_;
};

TEST_F(Megatron, TheThreeNamesOfADatasetAreOne) {
  const std::string digest = build()->digest;
  for (const char* name : {"d.bin", "d.idx"}) {
    EXPECT_EQ(build_index({.files = {folder_.path(name)}, .out = folder_.path("index")})->digest, digest);
  }
  EXPECT_EQ(build()->tokens, 10);
  EXPECT_EQ(build()->documents, 2);
  const auto index = Index::open(folder_.path("index")).value();
  EXPECT_EQ(index->dtype_code(), 8);
  EXPECT_EQ(index->token_bytes(), 2);
  EXPECT_EQ(index->sequences(), 3);
  EXPECT_EQ(index->files()[0].location, folder_.path("d.bin"));
  EXPECT_EQ(
      build_index({.files = {folder_.path("d"), folder_.path("d.idx")}, .out = folder_.path("x")}).status().code(),
      absl::StatusCode::kInvalidArgument);
}

TEST_F(Megatron, MalformedIdxAreRefused) {
  EXPECT_THAT(refusal(""), HasSubstr("too short"));
  EXPECT_THAT(refusal(with(0, "N")), HasSubstr("does not begin with \"MMIDIDX\""));
  EXPECT_THAT(refusal(with(9, "\2")), HasSubstr("has version 2"));
  EXPECT_THAT(refusal(with(17, std::string(1, '\0'))), HasSubstr("no dtype code 0"));
  EXPECT_THAT(refusal(with(17, "\x9")), HasSubstr("no dtype code 9"));
  EXPECT_THAT(refusal(with(18, std::string(8, '\xff'))), HasSubstr("sequences"));
  EXPECT_THAT(refusal(with(26, std::string(8, '\0'))), HasSubstr("doc_idx of 0"));
  EXPECT_THAT(refusal(idx_.substr(0, idx_.size() - 1)), HasSubstr("it was cut"));
  EXPECT_THAT(refusal(idx_ + "abc"), HasSubstr("multimodal"));
  EXPECT_THAT(refusal(with(34 + 4, test::little_endian(int32_t{-1}))), HasSubstr("sequence 1 has -1 tokens"));
  EXPECT_THAT(refusal(with(46, test::little_endian(int64_t{2}))),
              HasSubstr("sequence 0 begins at byte 2 and not at 0"));
  EXPECT_THAT(refusal(with(46 + 8, test::little_endian(int64_t{12}))),
              HasSubstr("sequence 1 begins at byte 12 and not at 10"));
  EXPECT_THAT(refusal(with(70, test::little_endian(int64_t{1}))), HasSubstr("doc_idx[0] is 1"));
  EXPECT_THAT(refusal(with(78, test::little_endian(int64_t{-1}))), HasSubstr("doc_idx[1] is -1"));
  EXPECT_THAT(refusal(with(78, test::little_endian(int64_t{4}))), HasSubstr("doc_idx[1] is 4"));
  EXPECT_THAT(refusal(with(86, test::little_endian(int64_t{1}))), HasSubstr("doc_idx[2] is 1"));
  EXPECT_THAT(refusal(with(86, test::little_endian(int64_t{2}))), HasSubstr("doc_idx ends with 2"));
  EXPECT_THAT(refusal(idx_, 18), HasSubstr("sequence 2 ends at byte 20, and"));
  EXPECT_THAT(refusal(idx_, 22), HasSubstr("they do not belong together"));
  EXPECT_THAT(refusal(idx_, 21), HasSubstr("no multiple of the 2 bytes of a token"));
}

TEST_F(Megatron, EveryCutOfTheIdxIsRefused) {
  for (size_t size = 0; size < idx_.size(); ++size) EXPECT_NE(refusal(idx_.substr(0, size)), "");
}

TEST_F(Megatron, FilesOfOneDatasetHaveOneDtype) {
  folder_.write("e.idx", test::idx_bytes(4, 4, {1}, {1}));
  folder_.write("e.bin", "abcd");
  const auto built = build_index({.files = {folder_.path("d"), folder_.path("e")}, .out = folder_.path("index")});
  EXPECT_THAT(message_of(built.status()), HasSubstr("e.idx: has dtype code 4, and the files before have 8"));
  std::filesystem::remove(folder_.path("e.idx"));
  EXPECT_EQ(exit_code_of(build_index({.files = {folder_.path("e")}, .out = folder_.path("index")}).status()), 4);
}

// The .bin is not read again, so only its time tells.
TEST_F(Megatron, ABinThatIsWrittenMeanwhileIsNoticed) {
  BuildRequest request{.files = {folder_.path("d")}, .out = folder_.path("index")};
  request.opener = [&](const std::string& path) {
    if (path.ends_with(".idx")) {
      std::filesystem::last_write_time(folder_.path("d.bin"),
                                       std::filesystem::file_time_type{} + std::chrono::hours(1));
    }
    return open_file_source(path);
  };
  EXPECT_THAT(message_of(build_index(request).status()), HasSubstr("d.bin: was changed while it was indexed"));
  EXPECT_FALSE(std::filesystem::exists(folder_.path("index")));
}

// Random datasets over several files, documents of no to several sequences, sequences of no token to many: each
// document where a walk over the lists has it.
TEST_F(Megatron, DocumentsOfRandomDatasets) {
  Random random(17);
  for (int round = 0; round < 40; ++round) {
    SCOPED_TRACE(round);
    struct Expected {
      Extent extent;
      std::vector<int32_t> lengths;
    };
    std::vector<Expected> expected;
    std::vector<std::string> files;
    for (int file = 0; file < static_cast<int>(random.between(1, 4)); ++file) {
      std::vector<int32_t> lengths;
      std::vector<int64_t> documents;
      int64_t offset = 0;
      for (int64_t d = random.below(12); d > 0; --d) {
        Expected document{.extent = {file, offset, 0}, .lengths = {}};
        for (int64_t s = random.below(4); s > 0; --s) {
          document.lengths.push_back(static_cast<int32_t>(random.below(9)));
          document.extent.bytes += 4 * document.lengths.back();
        }
        offset += document.extent.bytes;
        lengths.insert(lengths.end(), document.lengths.begin(), document.lengths.end());
        documents.push_back(static_cast<int64_t>(document.lengths.size()));
        expected.push_back(document);
      }
      files.push_back(folder_.path("f" + std::to_string(file)));
      folder_.write("f" + std::to_string(file) + ".idx", test::idx_bytes(4, 4, lengths, documents));
      folder_.write("f" + std::to_string(file) + ".bin", std::string(static_cast<size_t>(offset), 'x'));
    }
    const auto built = build_index({.files = files, .out = folder_.path("index")});
    if (expected.empty()) {
      EXPECT_THAT(message_of(built.status()), HasSubstr("there is no document"));
      continue;
    }
    ASSERT_TRUE(built.ok()) << built.status();
    const auto index = Index::open(folder_.path("index")).value();
    EXPECT_TRUE(index->verify().ok()) << index->verify();
    ASSERT_EQ(index->documents(), static_cast<int64_t>(expected.size()));
    for (size_t i = 0; i < expected.size(); ++i) {
      const Extent extent = index->document(static_cast<int64_t>(i)).value();
      EXPECT_EQ(extent.bytes, expected[i].extent.bytes);
      if (extent.bytes > 0) {
        EXPECT_EQ(extent, expected[i].extent);
      }
      std::vector<int32_t> lengths;
      ASSERT_TRUE(index->sequence_lengths(static_cast<int64_t>(i), lengths).ok());
      EXPECT_EQ(lengths, expected[i].lengths);
    }
  }
}

}  // namespace
}  // namespace scalai::datasets
