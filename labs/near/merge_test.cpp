#include "labs/near/merge.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>

#include "ptc/base/random.h"
#include "ptc/base/status.h"

namespace scalai::near {
namespace merge_test {

class MergeTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string path = (std::filesystem::temp_directory_path() / "scalai-near-XXXXXX").string();
    ASSERT_NE(::mkdtemp(path.data()), nullptr);
    folder_ = path;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::vector<std::string> write(const std::vector<std::string>& texts) const {
    std::vector<std::string> paths;
    for (const std::string& text : texts) {
      paths.push_back(folder_ + "/" + std::to_string(paths.size()));
      std::ofstream(paths.back(), std::ios::binary) << text;
    }
    return paths;
  }
  Sink sink() {
    out_.clear();
    return [this](std::string_view bytes) {
      out_ += bytes;
      return absl::OkStatus();
    };
  }
  std::string folder_, out_;
};

TEST_F(MergeTest, SumsAreAsWideAsThoseOfAStream) {
  ASSERT_TRUE(sum_columns(write({"3\n", "0\n", "40\n"}), 1, sink()).ok());
  EXPECT_EQ(out_, "43\n");
  ASSERT_TRUE(sum_columns(write({"      1       2\n", "      3 9999999\n"}), 2, sink()).ok());
  EXPECT_EQ(out_, "      4 10000001\n");
}

TEST_F(MergeTest, ColumnsAreAsWideAsThoseOfAllFiles) {
  const auto paths = write({"1 2 a\n3 4 b c\n4 6 total\n", "5 60 d\n"});
  ASSERT_TRUE(align_columns({{paths[0], 2}, {paths[1], 1}}, 2, 123, sink()).ok());
  EXPECT_EQ(out_, "  1   2 a\n  3   4 b c\n  5  60 d\n  9  66 total\n");
}

TEST_F(MergeTest, OutputsThatAreNoneAreFound) {
  for (const char* text : {"", "x\n", "1\n2\n", "1 2\n", "-1\n"}) {
    EXPECT_TRUE(absl::IsFailedPrecondition(sum_columns(write({text}), 1, sink()))) << text;
    EXPECT_EQ(out_, "");
  }
  for (const char* text : {"", "1 2 a\n", "1 2 a\n2 3 b\n", "1 2 a\n2 3 b\n3 5 total\nmore\n"})
    EXPECT_TRUE(absl::IsFailedPrecondition(align_columns({{write({text})[0], 2}}, 2, 9, sink()))) << text;
  for (const char* text : {"x\n", "      1\n", "      1 a\n???\n"})
    EXPECT_TRUE(absl::IsFailedPrecondition(add_counts(write({text}), false, sink()))) << text;
  EXPECT_TRUE(absl::IsFailedPrecondition(add_counts(write({"      1 b\n      1 a\n"}), true, sink())));
  EXPECT_EQ(out_, "");
}

// Against the counts of the whole, for random lines cut anywhere.
TEST_F(MergeTest, CountsAreThoseOfTheWhole) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Random random(seed);
    const bool sorted = random.below(2) == 0;
    std::vector<std::vector<std::string>> parts(static_cast<size_t>(random.between(1, 5)));
    std::vector<std::string> all;
    for (auto& part : parts) {
      for (int64_t i = random.below(12); i > 0; --i)
        part.push_back(std::string(static_cast<size_t>(random.below(2)), ' ') +
                       static_cast<char>("ab\xff"[random.below(3)]));
      if (sorted) std::sort(part.begin(), part.end());
      all.insert(all.end(), part.begin(), part.end());
    }
    if (sorted) std::sort(all.begin(), all.end());
    const auto counted = [](const std::vector<std::string>& lines) {
      std::string text;
      for (size_t i = 0, j = 0; i < lines.size(); i = j) {
        for (j = i; j < lines.size() && lines[j] == lines[i];) ++j;
        const std::string count = std::to_string(j - i);
        text += std::string(7 - count.size(), ' ') + count + " " + lines[i] + "\n";
      }
      return text;
    };
    std::vector<std::string> texts;
    for (const auto& part : parts) texts.push_back(counted(part));
    ASSERT_TRUE(add_counts(write(texts), sorted, sink()).ok());
    EXPECT_EQ(out_, counted(all));
  }
}

// No command counts so far, and no line of numbers is so long: the part's host made it up.
TEST_F(MergeTest, NumbersBeyondAllNumbersAreFound) {
  const std::string most = "9223372036854775807";
  EXPECT_TRUE(absl::IsFailedPrecondition(sum_columns(write({most + "\n", "1\n"}), 1, sink())));
  EXPECT_EQ(out_, "");
  const auto columns = write({most + " a\n", "1 b\n"});
  EXPECT_TRUE(absl::IsFailedPrecondition(align_columns({{columns[0], 1}, {columns[1], 1}}, 1, 5, sink())));
  EXPECT_EQ(out_, "");
  for (const bool sorted : {false, true}) {
    EXPECT_TRUE(absl::IsFailedPrecondition(add_counts(write({most + " a\n", "1 a\n"}), sorted, sink())));
    EXPECT_EQ(out_, "");
  }
  const std::string long_line = "1" + std::string(size_t{200} << 10, ' ');
  EXPECT_TRUE(absl::IsFailedPrecondition(sum_columns(write({long_line}), 1, sink())));
  EXPECT_TRUE(absl::IsFailedPrecondition(align_columns({{write({long_line + "a\n"})[0], 1}}, 1, 5, sink())));
}

TEST_F(MergeTest, ConcatenatesBytes) {
  const std::string binary("a\0b\n\xff", 5);
  ASSERT_TRUE(concatenate(write({binary, "", "z"}), sink()).ok());
  EXPECT_EQ(out_, binary + "z");
  EXPECT_FALSE(concatenate({folder_ + "/nosuch"}, sink()).ok());
}

// As where a process may open no more files: never an empty part.
TEST_F(MergeTest, PartsThatCannotBeOpenedAreErrors) {
  const std::vector<std::string> paths = {write({"      1 a\n"}).front(), folder_ + "/nosuch"};
  for (const bool sorted : {false, true}) EXPECT_TRUE(absl::IsAborted(add_counts(paths, sorted, sink()))) << sorted;
  EXPECT_TRUE(absl::IsAborted(sum_columns({folder_ + "/nosuch"}, 1, sink())));
  EXPECT_TRUE(absl::IsAborted(align_columns({{folder_ + "/nosuch", 1}}, 1, 5, sink())));
}

}  // namespace merge_test
}  // namespace scalai::near
