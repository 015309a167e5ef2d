#include "apps/common/report_folders.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace scalai::apps {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::Pair;

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
  EXPECT_THAT(report_folders({at("demo")}),
              ElementsAre(Pair("reshard", at("demo/reshard")), Pair("tenplex", at("demo/tenplex"))));
  report("other/reshard");
  EXPECT_THAT(report_folders({at("demo"), at("other")}),
              ElementsAre(Pair("demo/reshard", at("demo/reshard")), Pair("demo/tenplex", at("demo/tenplex")),
                          Pair("other/reshard", at("other/reshard"))));
}

TEST_F(ReportFolders, AReportStandsForItselfAlsoWithASlash) {
  report("run");
  EXPECT_THAT(report_folders({at("run") + "/"}), ElementsAre(Pair("run", at("run") + "/")));
  EXPECT_THAT(report_folders({at("nothing"), at("sweep.csv")}),
              ElementsAre(Pair("nothing", at("nothing")), Pair("sweep.csv", at("sweep.csv"))));
}

TEST_F(ReportFolders, EqualNamesBecomePaths) {
  report("a/run");
  report("b/run");
  report("c");
  EXPECT_THAT(report_folders({at("a/run"), at("b/run"), at("c")}),
              ElementsAre(Pair(at("a/run"), at("a/run")), Pair(at("b/run"), at("b/run")), Pair("c", at("c"))));
}

}  // namespace
}  // namespace scalai::apps
