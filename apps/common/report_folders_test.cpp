#include "apps/common/report_folders.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace scalai::apps {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;

// As gtest compares it: a label and folders of reports.
std::vector<std::pair<std::string, std::vector<std::string>>> found(const std::vector<std::string>& arguments) {
  std::vector<std::pair<std::string, std::vector<std::string>>> result;
  for (ReportFolder& one : report_folders(arguments)) result.emplace_back(one.label, one.folders);
  return result;
}

::testing::Matcher<const std::pair<std::string, std::vector<std::string>>&> is(
    const std::string& label, const std::vector<std::string>& folders) {
  return ::testing::Pair(label, folders);
}

class ReportFolders : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string path = (fs::temp_directory_path() / "scalai-folders-XXXXXX").string();
    ASSERT_NE(mkdtemp(path.data()), nullptr);
    root_ = path;
  }
  void TearDown() override { fs::remove_all(root_); }
  std::string report(const std::string& name) const {
    fs::create_directories(root_ / name);
    std::ofstream(root_ / name / "summary.json") << "{}";
    return (root_ / name).string();
  }
  std::string at(const std::string& name) const { return (root_ / name).string(); }
  fs::path root_;
};

TEST_F(ReportFolders, AFolderOfStrategiesIsAllOfThemByName) {
  report("demo/tenplex");
  report("demo/reshard");
  EXPECT_THAT(found({at("demo")}),
              ElementsAre(is("reshard", {at("demo/reshard")}), is("tenplex", {at("demo/tenplex")})));
  report("other/reshard");
  EXPECT_THAT(found({at("demo"), at("other")}),
              ElementsAre(is("demo/reshard", {at("demo/reshard")}), is("demo/tenplex", {at("demo/tenplex")}),
                          is("other/reshard", {at("other/reshard")})));
}

TEST_F(ReportFolders, AReportStandsForItselfAlsoWithASlash) {
  report("run");
  EXPECT_THAT(found({at("run") + "/"}), ElementsAre(is("run", {at("run") + "/"})));
  EXPECT_THAT(found({at("nothing"), at("sweep.csv")}),
              ElementsAre(is("nothing", {at("nothing")}), is("sweep.csv", {at("sweep.csv")})));
}

// "seed-10" comes after "seed-9"; a folder that holds seeds and other runs is no run itself.
TEST_F(ReportFolders, SeedsAreOneRun) {
  for (const char* name : {"vary/srtf/seed-9", "vary/srtf/seed-10", "vary/fifo"}) report(name);
  const std::vector<std::string> seeds = {at("vary/srtf/seed-9"), at("vary/srtf/seed-10")};
  EXPECT_THAT(found({at("vary")}), ElementsAre(is("fifo", {at("vary/fifo")}), is("srtf", seeds)));
  EXPECT_THAT(found({at("vary/srtf")}), ElementsAre(is("srtf", seeds)));
  report("vary/srtf/other");
  EXPECT_THAT(found({at("vary/srtf")}),
              ElementsAre(is("other", {at("vary/srtf/other")}), is("seed-10", {at("vary/srtf/seed-10")}),
                          is("seed-9", {at("vary/srtf/seed-9")})));
}

TEST_F(ReportFolders, EqualNamesBecomePaths) {
  report("a/run");
  report("b/run");
  report("c");
  EXPECT_THAT(found({at("a/run"), at("b/run"), at("c")}),
              ElementsAre(is(at("a/run"), {at("a/run")}), is(at("b/run"), {at("b/run")}), is("c", {at("c")})));
}

}  // namespace
}  // namespace scalai::apps
