#include "labs/near/stages.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "labs/near/worker.h"
#include "ptc/base/file_descriptor.h"
#include "ptc/base/random.h"

namespace scalai::near {
namespace stages_test {

using ::testing::HasSubstr;

class StagesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ::signal(SIGPIPE, SIG_IGN);
    std::string path = (std::filesystem::temp_directory_path() / "scalai-near-XXXXXX").string();
    ASSERT_NE(::mkdtemp(path.data()), nullptr);
    folder_ = path;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  void write(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories(std::filesystem::path(folder_ + "/" + name).parent_path());
    std::ofstream(folder_ + "/" + name, std::ios::binary) << text;
  }
  PartEnd run(PartWork work) {
    work.folder = folder_;
    out_.clear();
    return run_part(work, {.output =
                               [&](std::string_view bytes) {
                                 out_ += bytes;
                                 return true;
                               },
                           .beat = [] { return true; },
                           .scratch = folder_});
  }
  std::string folder_, out_;
};

TEST_F(StagesTest, JoinsCommandsWithoutAShell) {
  write("a b", "2\n1\n$(touch x)\n");
  const PartEnd end = run({.stages = {{{"cat", "a b"}}, {{"sort"}}, {{"sed", "s/$/;`x`/"}}}});
  EXPECT_EQ(end.problem, "");
  EXPECT_EQ(out_, "$(touch x);`x`\n1;`x`\n2;`x`\n");
  EXPECT_EQ(end.output_bytes, std::ssize(out_));
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/x"));
}

TEST_F(StagesTest, SaysHowEachStageEnded) {
  write("a", "x");
  const PartEnd end = run(
      {.stages = {
           {{"cat", "a", "nosuch"}}, {{"grep", "y"}}, {{"no-such-program"}}, {{"sh", "-c", "kill -9 $$"}}, {{"./a"}}}});
  ASSERT_EQ(end.stages.size(), 5U);
  EXPECT_EQ(end.stages[4].status, kNotExecutable);
  EXPECT_EQ(end.stages[0].status, 1);
  EXPECT_EQ(end.stages[1].status, 1);
  EXPECT_EQ(end.stages[2].status, kNotStarted);
  EXPECT_EQ(end.stages[3].signal, SIGKILL);
  EXPECT_FALSE(end.stages[1].whole) << "x has no end of its line";
  EXPECT_TRUE(end.stages[2].whole);
  EXPECT_THAT(end.errors, HasSubstr("nosuch"));
  EXPECT_THAT(end.errors, HasSubstr("cannot start no-such-program"));
}

TEST_F(StagesTest, AStageThatHasEnoughEndsThoseBefore) {
  const PartEnd end = run({.stages = {{{"yes"}}, {{"head", "-n", "2"}}}});
  EXPECT_EQ(out_, "y\ny\n");
  EXPECT_EQ(end.stages[0].signal, SIGPIPE);
  EXPECT_EQ(end.stages[1].status, 0);
}

TEST_F(StagesTest, SeesZeroBytes) {
  write("a", std::string("x\0\n", 3));
  EXPECT_TRUE(run({.stages = {{{"cat", "a"}}, {{"cat"}}}}).stages[1].nul);
  EXPECT_TRUE(run({.stages = {{{"cat"}}}, .ranges = {{"a", 0, 3, true}}}).stages[0].nul);
}

TEST_F(StagesTest, ItsCallerEndsIt) {
  const PartWork work{.folder = folder_, .stages = {{{"sleep", "100"}}}, .ranges = {}, .environment = {}};
  const PartEnd end = run_part(
      work, {.output = [](std::string_view) { return true; }, .beat = [] { return false; }, .scratch = folder_});
  EXPECT_EQ(end.problem, "ended by its caller");
}

TEST_F(StagesTest, AScriptComesAlong) {
  const PartEnd end =
      run({.stages = {{.words = {"sh", "/nowhere/s.sh", "w"}, .script = 1, .script_text = "echo got $1\n"}}});
  EXPECT_EQ(end.problem, "");
  EXPECT_EQ(out_, "got w\n");
}

// Each record is in exactly one range, wherever the file is cut.
TEST_F(StagesTest, RangesAreCutAtRecords) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Random random(seed);
    std::string text;
    for (int64_t i = random.below(40); i > 0; --i)
      text += random.below(4) == 0 ? '\n' : static_cast<char>('a' + random.below(26));
    write("f", text);
    std::string all;
    const auto size = std::ssize(text);
    for (int64_t at = 0; at < size || size == 0;) {
      const int64_t end = std::min(size, at + random.between(1, 9));
      EXPECT_EQ(run({.ranges = {{"f", at, end, true}}}).problem, "");
      EXPECT_TRUE(out_.empty() || out_.back() == '\n' || all.size() + out_.size() == text.size());
      all += out_;
      at = end;
      if (size == 0) break;
    }
    EXPECT_EQ(all, text);
  }
}

TEST_F(StagesTest, AFileThatIsGoneIsAProblem) {
  EXPECT_THAT(run({.ranges = {{"nosuch", 0, 1, false}}}).problem, HasSubstr("nosuch: No such file"));
  write("a", "xy");
  EXPECT_THAT(run({.ranges = {{"a", 0, 9, false}}}).problem, HasSubstr("has become shorter"));
  EXPECT_THAT(run({.stages = {{{"cat"}}}, .ranges = {{"nosuch", 0, 1, true}}}).problem,
              HasSubstr("nosuch: No such file"));
}

TEST_F(StagesTest, AFolderIsListed) {
  write("b/c", "x\n");
  write("a", "x");
  write(".hidden", "x");
  write("e", "");
  write("m", "\xef\xbb\xbf{}");
  std::filesystem::create_symlink("nowhere", folder_ + "/broken");
  std::filesystem::create_symlink("a", folder_ + "/link");
  const Listed listed = list_folder(folder_);
  EXPECT_EQ(listed.problem, "");
  ASSERT_EQ(listed.files.size(), 5U);
  EXPECT_EQ(listed.files[0].name, "a");
  EXPECT_FALSE(listed.files[0].ends_whole);
  EXPECT_EQ(listed.files[1].name, "b/c");
  EXPECT_TRUE(listed.files[1].ends_whole);
  EXPECT_EQ(listed.files[2].name, "e");
  EXPECT_TRUE(listed.files[2].ends_whole);
  EXPECT_FALSE(listed.files[2].has_mark);
  EXPECT_EQ(listed.files[3].name, "link");
  EXPECT_TRUE(listed.files[4].has_mark);
  EXPECT_THAT(list_folder(folder_ + "/nosuch").problem, HasSubstr("nosuch"));
  std::filesystem::create_directory_symlink(folder_, folder_ + "/loop");
  EXPECT_EQ(list_folder(folder_).files.size(), 5U);
}

// A folder below that may not be read is left out, as by patterns of sh; the folder itself is an error.
TEST_F(StagesTest, AClosedFolderIsLeftOut) {
  constexpr uid_t kNobody = 65534;
  write("a", "x");
  write("closed/b", "x");
  std::filesystem::permissions(folder_, std::filesystem::perms::all);
  std::filesystem::permissions(folder_ + "/closed", std::filesystem::perms::none);
  const bool root = ::geteuid() == 0;  // which reads everything
  if (root) {
    ASSERT_EQ(::seteuid(kNobody), 0);
  }
  const Listed listed = list_folder(folder_), closed = list_folder(folder_ + "/closed");
  if (root) {
    ASSERT_EQ(::seteuid(0), 0);
  }
  std::filesystem::permissions(folder_ + "/closed", std::filesystem::perms::owner_all);
  EXPECT_EQ(listed.problem, "");
  ASSERT_EQ(listed.files.size(), 1U);
  EXPECT_EQ(listed.files[0].name, "a");
  EXPECT_THAT(closed.problem, HasSubstr("Permission denied"));
}

}  // namespace stages_test
}  // namespace scalai::near
