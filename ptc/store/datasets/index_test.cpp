#include "ptc/store/datasets/index.h"

#include <gmock/gmock.h>

#include <chrono>
#include <functional>

#include "ptc/base/file.h"
#include "ptc/base/status.h"
#include "ptc/store/datasets/build.h"
#include "ptc/store/datasets/data_files.h"
#include "ptc/store/datasets/internal/index_columns.h"
#include "ptc/store/datasets/internal/index_format.h"
#include "ptc/store/datasets/internal/index_writer.h"
#include "ptc/store/datasets/testing/test_data.h"

namespace scalai::datasets {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// An index of two small TFRecord files: documents at 0 and 19 of a, and 0 of b; an empty file between them.
class IndexFile : public testing::Test {
 protected:
  IndexFile() {
    folder_.write("a", test::record_bytes("one") + test::record_bytes("three"));
    folder_.write("empty", "");
    folder_.write("b", test::record_bytes("seven77"));
    const auto built = build_index({.format = Format::kTfRecord,
                                    .files = {folder_.path("a"), folder_.path("empty"), folder_.path("b")},
                                    .out = path()});
    EXPECT_TRUE(built.ok()) << built.status();
    bytes_ = folder_.read("x.index");
  }
  std::string path() const { return folder_.path("x.index"); }
  void rewrite(const std::string& bytes) const { folder_.write("x.index", bytes); }
  std::string refusal() const {
    const auto index = Index::open(path());
    EXPECT_FALSE(index.ok());
    return message_of(index.status());
  }
  int64_t header_bytes() const { return parse_sizes(bytes_)->header_bytes; }
  // With an altered header whose checksum fits.
  void rewrite_header(const std::function<void(IndexHeader&)>& alter) const {
    IndexHeader header = parse_header(bytes_.substr(0, static_cast<size_t>(header_bytes()))).value();
    alter(header);
    rewrite(encode_header(header) + bytes_.substr(static_cast<size_t>(header_bytes())));
  }
  // With the column as rewrite_row left it and checksums that fit.
  void repair() const {
    IndexHeader header = parse_header(bytes_.substr(0, static_cast<size_t>(header_bytes()))).value();
    const std::string column = folder_.read("x.index").substr(static_cast<size_t>(header_bytes()), 4 * 8);
    header.checksums = {checksum_of(block_sums_of(column))};
    rewrite(encode_header(header) + column + block_sums_of(column));
  }
  // With another number in a row of the column.
  void rewrite_row(int row, int64_t value) const {
    std::string bytes = bytes_;
    test::put(bytes, static_cast<size_t>(header_bytes() + 8 * row), test::little_endian(value));
    rewrite(bytes);
  }

  test::TempFolder folder_;
  std::string bytes_;
};

TEST_F(IndexFile, SaysWhereDocumentsLie) {
  const auto index = Index::open(path());
  ASSERT_TRUE(index.ok()) << index.status();
  EXPECT_EQ((*index)->format(), Format::kTfRecord);
  EXPECT_EQ((*index)->documents(), 3);
  EXPECT_EQ((*index)->bytes(), 19 + 21 + 23);
  EXPECT_EQ((*index)->document(0).value(), (Extent{0, 0, 19}));
  EXPECT_EQ((*index)->document(1).value(), (Extent{0, 19, 21}));
  EXPECT_EQ((*index)->document(2).value(), (Extent{2, 0, 23}));
  EXPECT_EQ((*index)->files()[2].location, folder_.path("b"));
  EXPECT_EQ((*index)->files()[2].bytes, 23);
  EXPECT_EQ((*index)->record_bytes() + (*index)->tokens() + (*index)->sequences() + (*index)->token_bytes(), 0);
  EXPECT_TRUE((*index)->verify().ok()) << (*index)->verify();
}

TEST_F(IndexFile, RangesAreCutWhereFilesMeet) {
  const auto index = Index::open(path()).value();
  std::vector<Extent> extents;
  index->extents_of(10, 40, extents);
  EXPECT_THAT(extents, ElementsAre(Extent{0, 10, 30}, Extent{2, 0, 10}));
  extents.clear();
  index->extents_of(40, 0, extents);
  index->extents_of(63, 0, extents);
  EXPECT_THAT(extents, ElementsAre());
  index->extents_of(0, 63, extents);
  EXPECT_THAT(extents, ElementsAre(Extent{0, 0, 40}, Extent{2, 0, 23}));
}

TEST_F(IndexFile, EveryCutIsRefused) {
  for (size_t size = 0; size < bytes_.size(); ++size) {
    rewrite(bytes_.substr(0, size));
    const std::string message = refusal();
    EXPECT_THAT(message, HasSubstr(path()));
    EXPECT_THAT(message,
                testing::AnyOf(HasSubstr("it was cut"), HasSubstr("was cut in its header"), HasSubstr("is no index")))
        << size;
  }
  rewrite(bytes_ + "x");
  EXPECT_THAT(refusal(), HasSubstr("says that it has"));
}

// The header's and the table's bytes are covered by checksums at opening; the columns' at the first look-up.
TEST_F(IndexFile, EveryFlippedBitIsFound) {
  for (size_t at = 0; at < bytes_.size(); ++at) {
    std::string bytes = bytes_;
    bytes[at] = static_cast<char>(bytes[at] ^ (1 << (at % 8)));
    rewrite(bytes);
    const auto index = Index::open(path());
    if (static_cast<int64_t>(at) < header_bytes() || at >= bytes_.size() - kBlockSumBytes) {
      EXPECT_FALSE(index.ok()) << at;
      EXPECT_EQ(exit_code_of(index.status()), 3);
    } else {
      ASSERT_TRUE(index.ok()) << index.status();
      const std::string expected = path() + ": the checksum of block 0 of column 0 does not fit";
      EXPECT_THAT(message_of((*index)->verify()), HasSubstr(expected));
      for (int64_t i = 0; i < 3; ++i) EXPECT_THAT(message_of((*index)->document(i).status()), HasSubstr(expected));
    }
  }
}

TEST_F(IndexFile, OtherSchemasAreRefusedWithBothVersions) {
  std::string bytes = bytes_;
  bytes[8] = 1;
  rewrite(bytes);
  EXPECT_THAT(refusal(), HasSubstr("has schema version 1, and this program reads 2"));
  rewrite("SCALAIDY" + bytes_.substr(8));
  EXPECT_THAT(refusal(), HasSubstr("is no index"));
}

TEST_F(IndexFile, NumbersThatDoNotFitEachOtherAreRefused) {
  const std::string cut = "it was cut or is damaged";  // what another number of documents makes of the file's size
  const std::vector<std::pair<std::string, std::function<void(IndexHeader&)>>> cases = {
      {"record bytes", [](IndexHeader& header) { header.record_bytes = 3; }},
      {"dtype code", [](IndexHeader& header) { header.dtype_code = 4; }},
      {"dtype code", [](IndexHeader& header) { header.dtype_code = 9; }},
      {"sequences", [](IndexHeader& header) { header.sequences = 1; }},
      {"tokens", [](IndexHeader& header) { header.tokens = 1; }},
      {"documents", [](IndexHeader& header) { header.files[0].bytes = 0; }},
      {"sizes of data files", [](IndexHeader& header) { header.files[0].bytes = -1; }},
      {"sizes of data files", [](IndexHeader& header) { header.files[0].bytes = kMostDataBytes; }},
      {cut, [](IndexHeader& header) { header.documents = 2; }},
      {cut, [](IndexHeader& header) { header.documents = 4; }},
      {cut, [](IndexHeader& header) { header.documents = -1; }}};
  for (const auto& [message, alter] : cases) {
    rewrite_header(alter);
    EXPECT_THAT(refusal(), HasSubstr(message));
  }
}

// The same for formats whose numbers are others, on headers alone.
TEST(IndexFormat, NumbersThatDoNotFitEachOtherAreRefused) {
  const DataFile file{.location = "f", .bytes = 1024, .modified_ns = 0, .edges = std::string(32, '0')};
  const std::string sum(32, '0');
  const IndexHeader fixed{.format = Format::kFixed, .documents = 64, .record_bytes = 16, .files = {file}};
  const IndexHeader tar{.format = Format::kTar, .documents = 2, .files = {file}, .checksums = {sum}};
  const IndexHeader megatron{.format = Format::kMegatron,
                             .documents = 3,
                             .dtype_code = 4,
                             .sequences = 5,
                             .tokens = 256,
                             .files = {file},
                             .checksums = {sum, sum}};
  for (const IndexHeader& header : {fixed, tar, megatron}) {
    EXPECT_TRUE(parse_header(encode_header(header)).ok()) << parse_header(encode_header(header)).status();
  }
  const std::vector<std::tuple<std::string, IndexHeader, std::function<void(IndexHeader&)>>> cases = {
      {"there is no format 9", tar, [](IndexHeader& header) { header.format = static_cast<Format>(9); }},
      {"record bytes", fixed, [](IndexHeader& header) { header.record_bytes = 0; }},
      {"record bytes", tar, [](IndexHeader& header) { header.record_bytes = 1; }},
      {"documents", fixed, [](IndexHeader& header) { header.documents = 63; }},
      {"no multiple", fixed, [](IndexHeader& header) { header.files[0].bytes = 1023; }},
      {"no multiple", megatron, [](IndexHeader& header) { header.files[0].bytes = 1022; }},
      {"tokens", megatron, [](IndexHeader& header) { header.tokens = 255; }},
      {"dtype code", megatron, [](IndexHeader& header) { header.dtype_code = 0; }},
      {"sequences", megatron, [](IndexHeader& header) { header.sequences = -1; }},
      {"documents", megatron, [](IndexHeader& header) { header.documents = 0; }},
      {"documents", tar, [](IndexHeader& header) { header.documents = 3; }},
      {"location", tar, [](IndexHeader& header) { header.files[0].location = ""; }},
      {"no data files", tar, [](IndexHeader& header) { header.files.clear(); }}};
  for (const auto& [message, from, alter] : cases) {
    IndexHeader header = from;
    alter(header);
    EXPECT_THAT(message_of(parse_header(encode_header(header)).status()), HasSubstr(message));
  }
}

TEST_F(IndexFile, RowsThatPointNowhereAreErrorsAndNotCrashes) {
  for (const int64_t value : {int64_t{-1}, int64_t{41}, int64_t{64}, INT64_MAX, INT64_MIN}) {
    rewrite_row(1, value);
    repair();
    const auto index = Index::open(path()).value();
    const bool any_wrong = !index->document(0).ok() || !index->document(1).ok();
    EXPECT_TRUE(any_wrong) << value;
    if (!index->document(0).ok()) {
      EXPECT_THAT(message_of(index->document(0).status()), HasSubstr("the index is damaged at document 0"));
    }
  }
}

TEST_F(IndexFile, VerifyFindsRowsOutOfOrderBehindAFittingChecksum) {
  for (const auto& [row, value] : std::vector<std::pair<int, int64_t>>{{0, 1}, {1, 3}, {1, 38}, {2, 41}, {3, 62}}) {
    rewrite_row(row, value);
    repair();
    const auto index = Index::open(path());
    ASSERT_TRUE(index.ok()) << index.status();
    EXPECT_THAT(message_of((*index)->verify()), HasSubstr("the index is damaged")) << row;
  }
}

TEST_F(IndexFile, WhatCannotBeOpenedIsMissing) {
  EXPECT_EQ(exit_code_of(Index::open(folder_.path("none")).status()), 4);
  EXPECT_EQ(exit_code_of(Index::open(folder_.path()).status()), 4);
}

TEST_F(IndexFile, LookupsOutsideAreBugs) {
  const auto index = Index::open(path()).value();
  EXPECT_EXIT((void)index->document(3), testing::ExitedWithCode(70), "i < documents");
  EXPECT_EXIT((void)index->document(-1), testing::ExitedWithCode(70), "i >= 0");
  std::vector<Extent> extents;
  EXPECT_EXIT(index->extents_of(60, 4, extents), testing::ExitedWithCode(70), "bytes <= this->bytes");
}

// An index that was replaced while one holds the old one.
TEST_F(IndexFile, AnOpenIndexStaysWholeWhenItIsBuiltAnew) {
  const auto index = Index::open(path()).value();
  ASSERT_TRUE(build_index({.format = Format::kTfRecord, .files = {folder_.path("b")}, .out = path()}).ok());
  EXPECT_EQ(index->document(1).value(), (Extent{0, 19, 21}));
  EXPECT_EQ(Index::open(path()).value()->documents(), 1);
}

// Overwritten or cut in place it ends nobody's process, and gives nobody other documents.
TEST_F(IndexFile, OneThatIsCutOrOverwrittenInPlaceIsAnError) {
  const auto cut = Index::open(path()).value();
  std::filesystem::resize_file(path(), static_cast<uintmax_t>(header_bytes()));
  EXPECT_THAT(message_of(cut->document(1).status()), HasSubstr("was cut to"));
  rewrite(bytes_);
  const auto overwritten = Index::open(path()).value();
  rewrite_row(1, 20);
  EXPECT_FALSE(overwritten->document(1).ok());
  EXPECT_FALSE(overwritten->verify().ok());
}

// Rows in more blocks than are kept, in order and at random.
class LargeIndex : public testing::Test {
 protected:
  static constexpr int64_t kRowsABlock = kBlockBytes / 8, kDocuments = 20 * kRowsABlock + 5;
  LargeIndex() {
    header_.files = {{.location = "/f", .bytes = 16 * kDocuments, .modified_ns = 1, .edges = std::string(32, '0')}};
    IndexWriter writer = IndexWriter::create(path(), header_).value();
    for (int64_t i = 0; i <= kDocuments; ++i) EXPECT_TRUE(writer.add(0, 16 * i).ok());
    EXPECT_EQ(writer.row(0, 5).value(), 80);
    EXPECT_TRUE(writer.finish(header_).ok());
  }
  std::string path() const { return folder_.path("large.index"); }

  test::TempFolder folder_;
  IndexHeader header_{.format = Format::kTfRecord, .documents = kDocuments};
};

TEST_F(LargeIndex, IsReadInOrderAndAtRandom) {
  const auto index = Index::open(path()).value();
  EXPECT_TRUE(index->verify().ok()) << index->verify();
  for (int64_t k = 0; k < 20'000; ++k) {
    const int64_t i = k * 7919 % kDocuments;
    ASSERT_EQ(index->document(i).value(), (Extent{0, 16 * i, 16})) << i;
  }
  for (int64_t i = kRowsABlock - 3; i < kRowsABlock + 100; ++i) {
    ASSERT_EQ(index->document(i).value(), (Extent{0, 16 * i, 16})) << i;
  }
}

// The row of document 5 of block 12 over that of document 6: lies inside the file, in order even.
TEST_F(LargeIndex, ARowOverAnotherIsAnErrorInItsBlockAlone) {
  std::string bytes = folder_.read("large.index");
  const auto row = static_cast<size_t>(column_offset(header_, 0) + 8 * (12 * kRowsABlock + 5));
  bytes.replace(row + 8, 8, bytes.substr(row, 8));
  folder_.write("large.index", bytes);
  const auto index = Index::open(path()).value();
  for (const int64_t i : {12 * kRowsABlock + 6, 12 * kRowsABlock + 100, 12 * kRowsABlock - 1}) {
    EXPECT_THAT(message_of(index->document(i).status()), HasSubstr("checksum of block 12 of column 0")) << i;
  }
  EXPECT_EQ(index->document(12 * kRowsABlock - 2).value().bytes, 16);
  EXPECT_EQ(index->document(13 * kRowsABlock).value().bytes, 16);
  EXPECT_FALSE(index->verify().ok());
}

// A sparse file of 10^8 rows: opening it must read none of them. The bar is 10 ms; ten times that still tells it from
// anything that touches rows (0.8 GB take longer).
TEST(Index, OpeningDoesNotDependOnTheNumberOfDocuments) {
  const test::TempFolder folder;
  IndexHeader header{.format = Format::kTfRecord, .documents = 100'000'000};
  header.files = {{.location = "/none", .bytes = 4'000'000'000, .modified_ns = 1, .edges = std::string(32, '0')}};
  const std::string full = block_sum_of(std::string(kBlockBytes, '\0'));
  const std::string last = block_sum_of(std::string(static_cast<size_t>(8 * 100'000'001 % kBlockBytes), '\0'));
  std::string sums;
  for (int64_t i = 1; i < blocks_of(header, 0); ++i) sums += full;
  sums += last;
  header.checksums = {checksum_of(sums)};
  folder.write("big.index", encode_header(header));
  std::filesystem::resize_file(folder.path("big.index"), static_cast<uintmax_t>(sums_offset(header, 0)));
  std::ofstream(folder.path("big.index"), std::ios::binary | std::ios::app) << sums;
  double best_s = 1;
  for (int i = 0; i < 5; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    const auto index = Index::open(folder.path("big.index"));
    best_s = std::min(best_s, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    ASSERT_TRUE(index.ok()) << index.status();
    EXPECT_EQ((*index)->documents(), 100'000'000);
    EXPECT_EQ((*index)->document(99'999'999).value(), (Extent{0, 0, 0}));
  }
  EXPECT_LT(best_s, 0.1);
}

TEST(IndexFormat, HeadersReadBack) {
  IndexHeader header{.format = Format::kMegatron, .documents = 5, .dtype_code = 8, .sequences = 9, .tokens = 300};
  header.files = {{.location = "dir/a b.bin", .bytes = 400, .modified_ns = 123, .edges = std::string(32, '1')},
                  {.location = "https://x/y.bin", .bytes = 200, .modified_ns = 0, .edges = std::string(32, '2')}};
  header.checksums = {std::string(32, '3'), std::string(32, '4')};
  const std::string bytes = encode_header(header);
  EXPECT_EQ(static_cast<int64_t>(bytes.size()), header_bytes_of(header));
  const auto back = parse_header(bytes);
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(*back, header);
  // The digest does not see where the files lie and when they were written.
  IndexHeader moved = header;
  moved.files[0].location = "/elsewhere";
  moved.files[0].modified_ns = 5;
  EXPECT_EQ(moved.digest(), header.digest());
  for (const auto& alter : std::vector<std::function<void(IndexHeader&)>>{
           [](IndexHeader& h) { h.files[0].bytes += 2; }, [](IndexHeader& h) { h.files[1].edges[0] = 'f'; },
           [](IndexHeader& h) { h.checksums[1][0] = 'f'; }, [](IndexHeader& h) { h.dtype_code = 3; },
           [](IndexHeader& h) { h.documents = 6; }, [](IndexHeader& h) { std::swap(h.files[0], h.files[1]); }}) {
    IndexHeader other = header;
    alter(other);
    EXPECT_NE(other.digest(), header.digest());
  }
}

TEST(IndexFormat, FormatsHaveNames) {
  EXPECT_EQ(name_of(Format::kMegatron), "megatron");
  EXPECT_EQ(name_of(Format::kTfRecord), "tfrecord");
  EXPECT_EQ(name_of(Format::kTar), "tar");
  EXPECT_EQ(name_of(Format::kFixed), "fixed");
}

}  // namespace
}  // namespace scalai::datasets
