#include "ptc/store/datasets/build.h"

#include <gmock/gmock.h>
#include <sys/resource.h>

#include <csignal>

#include "ptc/base/status.h"
#include "ptc/store/datasets/testing/test_data.h"

namespace scalai::datasets {
namespace {

using testing::HasSubstr;
using testing::UnorderedElementsAre;

class Build : public testing::Test {
 protected:
  BuildRequest fixed(int64_t record_bytes = 4) const {
    return {.format = Format::kFixed,
            .files = {folder_.path("a"), folder_.path("b")},
            .out = folder_.path("index"),
            .record_bytes = record_bytes};
  }
  std::string refusal(const BuildRequest& request) const {
    const auto built = build_index(request);
    EXPECT_FALSE(built.ok());
    return message_of(built.status());
  }
  Build() {
    folder_.write("a", std::string(40, 'a'));
    folder_.write("b", std::string(20, 'b'));
  }
  test::TempFolder folder_;
};

TEST_F(Build, FixedRecordsInTheOrderGiven) {
  double last = -1;
  BuildRequest request = fixed();
  request.progress = [&](double fraction, std::string_view) { last = fraction; };
  const auto built = build_index(request);
  ASSERT_TRUE(built.ok()) << built.status();
  EXPECT_EQ(built->documents, 15);
  EXPECT_EQ(built->bytes, 60);
  EXPECT_EQ(built->index_bytes, static_cast<int64_t>(std::filesystem::file_size(folder_.path("index"))));
  const auto index = Index::open(folder_.path("index")).value();
  EXPECT_EQ(index->digest(), built->digest);
  EXPECT_EQ(index->document(9).value(), (Extent{0, 36, 4}));
  EXPECT_EQ(index->document(10).value(), (Extent{1, 0, 4}));
  EXPECT_TRUE(index->verify().ok());
  EXPECT_THAT(folder_.names(), UnorderedElementsAre("a", "b", "index")) << "nothing else is left";
  EXPECT_LE(last, 1);
}

TEST_F(Build, TheDigestTellsOrderAndContent) {
  const std::string first = build_index(fixed())->digest;
  EXPECT_EQ(build_index(fixed())->digest, first);
  BuildRequest other = fixed();
  std::swap(other.files[0], other.files[1]);
  EXPECT_NE(build_index(other)->digest, first);
  EXPECT_NE(build_index(fixed(5))->digest, first);
  folder_.write("a", std::string(39, 'a') + "A");
  EXPECT_NE(build_index(fixed())->digest, first);
  folder_.write("a", std::string(40, 'a'));
  EXPECT_EQ(build_index(fixed())->digest, first) << "times do not count";
}

TEST_F(Build, RequestsThatCannotBeAreRefused) {
  EXPECT_THAT(refusal(fixed(0)), HasSubstr("need their bytes"));
  EXPECT_THAT(refusal(fixed(7)), HasSubstr("a: its 40 bytes are 5 records of 7 bytes and 5 more"));
  BuildRequest request = fixed();
  request.format = Format::kTfRecord;
  EXPECT_THAT(refusal(request), HasSubstr("a tfrecord dataset has no fixed record size"));
  request = fixed();
  request.files[1] = folder_.path("./a");
  EXPECT_THAT(refusal(request), HasSubstr("is given twice"));
  request = fixed();
  request.out = folder_.path("b");
  EXPECT_THAT(refusal(request), HasSubstr("b: is a data file"));
  request = fixed();
  request.files = {};
  EXPECT_THAT(refusal(request), HasSubstr("no data files"));
  request.files = {folder_.write("empty", "")};
  EXPECT_THAT(refusal(request), HasSubstr("there is no document in it"));
  request.files = {folder_.path("none")};
  EXPECT_EQ(exit_code_of(build_index(request).status()), 4);
  request.files = {folder_.path()};
  EXPECT_EQ(exit_code_of(build_index(request).status()), 4);
  request = fixed();
  request.out = folder_.path("no/folder/index");
  EXPECT_EQ(exit_code_of(build_index(request).status()), 4);
  EXPECT_EQ(folder_.read("b"), std::string(20, 'b'));
}

TEST_F(Build, AnErrorLeavesTheOldIndexAndNothingElse) {
  ASSERT_TRUE(build_index(fixed()).ok());
  const std::string before = folder_.read("index");
  EXPECT_FALSE(build_index(fixed(7)).ok());
  BuildRequest request = fixed(0);
  request.format = Format::kTfRecord;
  EXPECT_FALSE(build_index(request).ok());
  request.format = Format::kTar;
  EXPECT_FALSE(build_index(request).ok());
  EXPECT_EQ(folder_.read("index"), before);
  EXPECT_THAT(folder_.names(), UnorderedElementsAre("a", "b", "index"));
}

TEST_F(Build, AFileThatChangesMeanwhileIsNoticed) {
  folder_.write("r", test::record_bytes("one"));
  BuildRequest request{.format = Format::kTfRecord, .files = {folder_.path("r")}, .out = folder_.path("index")};
  int opened = 0;
  request.opener = [&](const std::string& path) {
    if (++opened == 2) folder_.write("r", test::record_bytes("longer"));
    return open_file_source(path);
  };
  EXPECT_THAT(refusal(request), HasSubstr("r: was changed while it was indexed"));
  opened = 0;
  folder_.write("r", test::record_bytes("one"));
  request.opener = [&](const std::string& path) {
    auto source = open_file_source(path);
    if (++opened == 2)
      std::filesystem::last_write_time(path, std::filesystem::file_time_type{} + std::chrono::hours(1));
    return source;
  };
  EXPECT_THAT(refusal(request), HasSubstr("r: was changed"));
}

// A limit on the size of files stands for a full disk.
TEST_F(Build, AFullDiskLeavesNothing) {
  std::string records;
  for (int i = 0; i < 3000; ++i) records += test::record_bytes("");
  folder_.write("r", records);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{8192, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const auto built =
      build_index({.format = Format::kTfRecord, .files = {folder_.path("r")}, .out = folder_.path("index")});
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, old_handler);
  EXPECT_EQ(built.status().code(), absl::StatusCode::kResourceExhausted) << built.status();
  EXPECT_THAT(folder_.names(), UnorderedElementsAre("a", "b", "r"));
}

}  // namespace
}  // namespace scalai::datasets
