#include "vfs/dataset_tree.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "ptc/base/file.h"
#include "ptc/base/status.h"
#include "ptc/store/datasets/build.h"
#include "ptc/store/datasets/share.h"

namespace scalai::vfs {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int64_t kRecordBytes = 8;
constexpr int64_t kRecords = 20'000;
constexpr int64_t kBatch = 100;

class DatasetTreeTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string folder = fmt::format("{}/vfs-dataset-XXXXXX", ::testing::TempDir());
    ASSERT_NE(::mkdtemp(folder.data()), nullptr);
    folder_ = folder;
    std::ofstream file(folder_ + "/records.bin", std::ios::binary);
    for (int64_t i = 0; i < kRecords; ++i) file << fmt::format("{:08}", i);
    file.close();
    const auto built = datasets::build_index({.format = datasets::Format::kFixed,
                                              .files = {folder_ + "/records.bin"},
                                              .out = folder_ + "/records.index",
                                              .record_bytes = kRecordBytes});
    ASSERT_TRUE(built.ok()) << message_of(built.status());
  }
  void TearDown() override {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

  Dataset dataset(const std::string& name) const {
    const auto index = datasets::Index::open(folder_ + "/records.index");
    EXPECT_TRUE(index.ok()) << message_of(index.status());
    Dataset made;
    made.name = name;
    made.samples = *datasets::Samples::make(*index);
    made.files = std::make_shared<datasets::DataFiles>(*index, open_file_source);
    made.first.index = (*index)->digest();
    made.first.samples = made.samples->count();
    made.first.shuffle = false;
    made.first.global_batch = kBatch;
    return made;
  }

  std::string folder_;
};

// Follows the names from a directory.
absl::StatusOr<Node> walk(std::shared_ptr<Directory> from, const std::vector<std::string>& names) {
  Node node = std::move(from);
  for (const std::string& name : names) {
    SCALAI_ASSIGN_OR_RETURN(node, std::get<std::shared_ptr<Directory>>(node)->find(name));
  }
  return node;
}

std::vector<std::string> names_in(const Node& node) {
  Directory& directory = *std::get<std::shared_ptr<Directory>>(node);
  std::vector<std::string> names;
  for (int64_t i = 0; i < directory.entries(); ++i) names.push_back(directory.entry(i).name);
  return names;
}

std::string text_of(const absl::StatusOr<Node>& node) {
  if (!node.ok()) return message_of(node.status());
  const auto source = std::get<std::shared_ptr<File>>(*node)->open();
  if (!source.ok()) return message_of(source.status());
  const auto text = read_all(**source);
  return text.ok() ? *text : message_of(text.status());
}

TEST_F(DatasetTreeTest, ShowsWhatARankReads) {
  DatasetTree tree({dataset("a")});
  EXPECT_TRUE(names_in(tree.directory()).empty());
  const auto step = walk(tree.directory(), {"dp4", "step-10"});
  ASSERT_TRUE(step.ok()) << message_of(step.status());
  EXPECT_THAT(names_in(*step), ElementsAre("rank_00", "rank_01", "rank_02", "rank_03"));
  const auto rank = walk(tree.directory(), {"dp4", "step-10", "rank_02"});
  ASSERT_TRUE(rank.ok());
  EXPECT_THAT(names_in(*rank), ElementsAre("shard_00000.bin"));
  const std::string text = text_of(walk(tree.directory(), {"dp4", "step-10", "rank_02", "shard_00000.bin"}));
  // 25 samples of each batch: the third run of it.
  ASSERT_EQ(text.size(), static_cast<size_t>((kRecords - 10 * kBatch) / 4 * kRecordBytes));
  EXPECT_EQ(text.substr(0, 16), "0000105000001051");
  EXPECT_EQ(text.substr(25 * 8, 8), "00001150");
  EXPECT_THAT(names_in(tree.directory()), ElementsAre("dp4"));
}

TEST_F(DatasetTreeTest, ListsTheLastStepsOnly) {
  DatasetTree tree({dataset("a")});
  const auto dp = walk(tree.directory(), {"dp4"});
  ASSERT_TRUE(dp.ok());
  Directory& steps = *std::get<std::shared_ptr<Directory>>(*dp);
  for (int i = 0; i < 3000; ++i) ASSERT_TRUE(steps.find(fmt::format("step-{}", i)).ok());
  EXPECT_EQ(steps.entry(steps.listed_from(0)).name, "step-2000");
  EXPECT_EQ(steps.entries(), 3000);
  EXPECT_TRUE(steps.find("step-0").ok()) << "what is not listed is there all the same";
}

TEST_F(DatasetTreeTest, FindsNoOtherNames) {
  DatasetTree tree({dataset("a")});
  for (const char* name : {"dp", "dp04", "dp-1", "dp4x", "xdp4", ".git", "step-0", "current"}) {
    const absl::Status found = tree.directory()->find(name).status();
    EXPECT_EQ(found.code(), absl::StatusCode::kNotFound) << name;
    EXPECT_EQ(message_of(found), "") << name;
  }
  EXPECT_THAT(message_of(tree.directory()->find("dp0").status()), HasSubstr("dp=0: from 1 to"));
  EXPECT_THAT(message_of(tree.directory()->find("dp1000001").status()), HasSubstr("from 1 to 1000000"));
  for (const char* name : {"step-", "step-01", "step--1", "4", "rank_00"}) {
    EXPECT_EQ(walk(tree.directory(), {"dp4", name}).status().code(), absl::StatusCode::kNotFound) << name;
  }
  EXPECT_THAT(message_of(walk(tree.directory(), {"dp4", "step-9007199254740993"}).status()), HasSubstr("steps from 0"));
  for (const char* name : {"rank_04", "rank_2", "rank_002", "rank_", "02", "rank_02x"}) {
    EXPECT_EQ(walk(tree.directory(), {"dp4", "step-0", name}).status().code(), absl::StatusCode::kNotFound) << name;
  }
}

TEST_F(DatasetTreeTest, CurrentFollowsTheJob) {
  DatasetTree tree({dataset("a"), dataset("b")});
  EXPECT_THAT(names_in(tree.directory()), ElementsAre("a", "b"));
  EXPECT_EQ(tree.current(), "");
  EXPECT_FALSE(walk(tree.directory(), {"a", "current"}).ok());
  ASSERT_TRUE(tree.repartition(4, 0).ok());
  const auto link = walk(tree.directory(), {"b", "current"});
  ASSERT_TRUE(link.ok());
  EXPECT_EQ(std::get<std::shared_ptr<Link>>(*link)->target(), "dp4/step-0");
  EXPECT_EQ(tree.repartition(0, 7).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(tree.repartition(4, -1).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(tree.current(), "dp4/step-0");
  ASSERT_TRUE(tree.repartition(6, 1234).ok());
  EXPECT_EQ(std::get<std::shared_ptr<Link>>(*link)->target(), "dp6/step-1234");
  EXPECT_THAT(names_in(*walk(tree.directory(), {"a"})), ElementsAre("current"));
}

TEST_F(DatasetTreeTest, ReadAheadChangesNoByte) {
  const datasets::ReadAheadOptions options = {.threads = 2, .memory_bytes = 1 << 20, .first_window = 4096};
  Dataset ahead = dataset("a");
  ahead.read_ahead = std::make_shared<datasets::ReadAhead>(options);
  DatasetTree with({ahead}), without({dataset("a")});
  const std::vector<std::string> path = {"dp3", "step-5", "rank_01", "shard_00000.bin"};
  EXPECT_EQ(text_of(walk(with.directory(), path)), text_of(walk(without.directory(), path)));
}

TEST_F(DatasetTreeTest, AChangedSourceIsAnError) {
  DatasetTree tree({dataset("a")});
  const std::vector<std::string> path = {"dp1", "step-0", "rank_00", "shard_00000.bin"};
  const auto file = walk(tree.directory(), path);
  ASSERT_TRUE(file.ok());
  const auto source = std::get<std::shared_ptr<File>>(*file)->open();
  ASSERT_TRUE(source.ok());
  std::filesystem::resize_file(folder_ + "/records.bin", 1000);
  const auto text = read_all(**source);
  ASSERT_FALSE(text.ok());
  EXPECT_THAT(message_of(text.status()), HasSubstr("records.bin"));
}

TEST(DatasetNames, AreFileNamesWithoutEnding) {
  EXPECT_THAT(dataset_names({"/data/pile.index", "c4.index", ".hidden", "a/b/plain"}),
              ElementsAre("pile", "c4", ".hidden", "plain"));
  EXPECT_THAT(dataset_names({"x/pile.index", "y/pile.index", "z/pile.idx"}), ElementsAre("pile", "pile-2", "pile-3"));
}

}  // namespace
}  // namespace scalai::vfs
