#include "ptc/run/scenario/internal/scenario_dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "ptc/base/file.h"
#include "ptc/base/status.h"
#include "ptc/run/scenario/testing/scenarios.h"
#include "ptc/store/datasets/build.h"
#include "ptc/store/datasets/index.h"

namespace scalai::scenario {
namespace {

using ::testing::HasSubstr;
using testing::job_text;
using testing::kSmallCluster;

std::string with(const std::string& dataset) {
  return kSmallCluster +
         job_text("a", "steps: 5 gpus: 2 configs { layout: \"dp2\" step_time: \"1s\" } dataset { " + dataset + " }");
}

absl::StatusOr<Scenario> parse(const std::string& text, const std::string& file = "test.textproto") {
  const auto read = [](const std::string&) -> absl::StatusOr<std::string> { return std::string(testing::kTinyModel); };
  return parse_scenario(text, file, read);
}

std::string problems(const std::string& dataset) { return message_of(parse(with(dataset)).status()); }

TEST(ScenarioDataset, SamplesWithoutContent) {
  const auto scenario = parse(with("samples: 1000"));
  ASSERT_TRUE(scenario.ok()) << scenario.status();
  const DatasetSpec& dataset = scenario->jobs[0].dataset.value();
  EXPECT_EQ(dataset.state, (datasets::State{.samples = 1000, .seed = 1, .global_batch = 8}));  // the scenario's seed
  EXPECT_EQ(dataset.index, "");
  EXPECT_EQ(dataset.index_path, "");
}

TEST(ScenarioDataset, EveryFieldComesBackFromTheResolvedText) {
  const auto scenario = parse(with("samples: 1000 seed: 0 shuffle: false drop_last: true"));
  ASSERT_TRUE(scenario.ok()) << scenario.status();
  const DatasetSpec& dataset = scenario->jobs[0].dataset.value();
  EXPECT_EQ(dataset.state.seed, 0u);
  EXPECT_FALSE(dataset.state.shuffle);
  EXPECT_TRUE(dataset.state.drop_last);
  const auto again = parse(scenario->resolved_text);
  ASSERT_TRUE(again.ok()) << again.status() << scenario->resolved_text;
  EXPECT_EQ(again->jobs[0].dataset->state, dataset.state);
  EXPECT_EQ(again->resolved_text, scenario->resolved_text);
  EXPECT_EQ(again->digest, scenario->digest);
}

TEST(ScenarioDataset, AJobWithoutOneIsAsBefore) {
  const auto scenario =
      parse(kSmallCluster + job_text("a", "steps: 5 gpus: 2 configs { layout: \"dp2\" step_time: \"1s\" }"));
  ASSERT_TRUE(scenario.ok());
  EXPECT_FALSE(scenario->jobs[0].dataset.has_value());
  EXPECT_THAT(scenario->resolved_text, ::testing::Not(HasSubstr("dataset")));
}

TEST(ScenarioDataset, ABatchNeedNotBeDivisibleByDp) {
  const std::string three = "steps: 5 gpus: 3 configs { layout: \"dp3\" step_time: \"1s\" } ";
  EXPECT_THAT(message_of(parse(kSmallCluster + job_text("a", three)).status()), HasSubstr("no multiple of dp"));
  EXPECT_TRUE(parse(kSmallCluster + job_text("a", three + "dataset { samples: 10 }")).ok());
}

TEST(ScenarioDataset, AllProblemsAtOnceWithHints) {
  EXPECT_THAT(problems(""), HasSubstr("\"samples\" is missing"));
  EXPECT_THAT(problems(""), HasSubstr("hint: say how many there are, or name an index file"));
  EXPECT_THAT(problems("samples: 0"), HasSubstr("\"samples\" must be at least 1, found 0"));
  EXPECT_THAT(problems("samples: 1000 sequence: 16"), HasSubstr("these samples have no content"));
  EXPECT_THAT(problems("samples: 7 drop_last: true"), HasSubstr("less than one batch of 8: nothing would be read"));
  EXPECT_THAT(problems("samples: 10 index_digest: \"ab\""), HasSubstr("a digest without an index"));
  EXPECT_THAT(problems("samples: 4611686018427387904"), HasSubstr("/samples: must be from"));
  const std::string several = problems("samples: -1 sequence: -2 shufle: true");
  EXPECT_THAT(several, HasSubstr("\"samples\" must be at least 1"));
  EXPECT_THAT(several, HasSubstr("\"sequence\" must be at least 0"));
  EXPECT_THAT(several, HasSubstr("shufle"));
}

// A bad batch is one problem, not two.
TEST(ScenarioDataset, ABadBatchIsReportedWhereItStands) {
  std::string text = with("samples: 10");
  text.replace(text.find("global_batch: 8"), 15, "global_batch: 0");
  const std::string found = message_of(parse(text).status());
  EXPECT_THAT(found, HasSubstr("\"global_batch\" must be at least 1"));
  EXPECT_THAT(found, HasSubstr("1 error\n"));
}

// ---- an index -------------------------------------------------------------------------------------------------------

class ScenarioIndex : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string path = (std::filesystem::temp_directory_path() / "scalai-dataset-XXXXXX").string();
    ASSERT_NE(mkdtemp(path.data()), nullptr);
    folder_ = path;
    ASSERT_TRUE(write_file(folder_ + "/records", std::string(50, 'x')).ok());
    const auto built = datasets::build_index({.format = datasets::Format::kFixed,
                                              .files = {folder_ + "/records"},
                                              .out = folder_ + "/my.index",
                                              .record_bytes = 5});
    ASSERT_TRUE(built.ok()) << built.status();
  }
  void TearDown() override {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  absl::StatusOr<Scenario> parse_here(const std::string& dataset) {
    return parse(with(dataset), folder_ + "/s.textproto");
  }
  std::string folder_;
};

TEST_F(ScenarioIndex, KnowsItsSamplesAndIsFoundBesideTheScenario) {
  const auto scenario = parse_here("index: \"my.index\"");
  ASSERT_TRUE(scenario.ok()) << scenario.status();
  const DatasetSpec& dataset = scenario->jobs[0].dataset.value();
  EXPECT_EQ(dataset.state.samples, 10);
  EXPECT_EQ(dataset.state.index, datasets::Index::open(folder_ + "/my.index").value()->digest());
  EXPECT_EQ(dataset.index, "my.index");
  EXPECT_EQ(dataset.index_path, folder_ + "/my.index");
}

TEST_F(ScenarioIndex, TheResolvedTextDoesWithoutTheFile) {
  const auto scenario = parse_here("index: \"my.index\"");
  ASSERT_TRUE(scenario.ok()) << scenario.status();
  const auto again = parse(scenario->resolved_text, "/nowhere/s.textproto");
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->jobs[0].dataset->state, scenario->jobs[0].dataset->state);
  EXPECT_EQ(again->resolved_text, scenario->resolved_text);
}

TEST_F(ScenarioIndex, ATextInAnotherFolderLeadsBackToTheFile) {
  const auto scenario = parse_here("index: \"my.index\"");
  ASSERT_TRUE(scenario.ok()) << scenario.status();
  EXPECT_EQ(scenario->folder, folder_);
  std::filesystem::create_directories(folder_ + "/runs/1");
  std::filesystem::create_directory_symlink(folder_ + "/runs", folder_ + "/elsewhere");
  for (const std::string target : {"/runs/1", "/elsewhere/1", "/runs", ""}) {
    const std::string text = text_in_folder(scenario->resolved_text, scenario->folder, folder_ + target);
    const auto again = parse(text, folder_ + target + "/s.textproto");
    ASSERT_TRUE(again.ok()) << again.status() << text;
    std::error_code unknown;
    EXPECT_TRUE(std::filesystem::equivalent(again->jobs[0].dataset->index_path, folder_ + "/my.index", unknown))
        << again->jobs[0].dataset->index_path;
    EXPECT_EQ(again->resolved_text, scenario->resolved_text);
    EXPECT_EQ(again->digest, scenario->digest);
    EXPECT_EQ(text_in_folder(text, again->folder, folder_ + "/runs/1"),
              text_in_folder(scenario->resolved_text, scenario->folder, folder_ + "/runs/1"))
        << "one folder takes the place of another";
  }
  EXPECT_THAT(text_in_folder(scenario->resolved_text, scenario->folder, folder_ + "/elsewhere/1"),
              HasSubstr("\nfolder: \"../..\"\n"));
}

TEST(ScenarioDataset, AScenarioThatNamesNoFilesHasNoFolder) {
  const auto scenario = parse(with("samples: 1000"), "/tmp/s.textproto");
  ASSERT_TRUE(scenario.ok()) << scenario.status();
  EXPECT_EQ(scenario->folder, "");
  EXPECT_EQ(text_in_folder(scenario->resolved_text, scenario->folder, "/tmp/run"), scenario->resolved_text);
}

TEST_F(ScenarioIndex, ProblemsOfTheFileStandWhereItIsNamed) {
  EXPECT_THAT(message_of(parse_here("index: \"none.index\"").status()), HasSubstr("none.index"));
  EXPECT_THAT(message_of(parse_here("index: \"records\"").status()), HasSubstr("index: \"records\""));
  EXPECT_THAT(message_of(parse_here("index: \"my.index\" samples: 10").status()), HasSubstr("exclude each other"));
  EXPECT_THAT(message_of(parse_here("index: \"my.index\" sequence: 8").status()), HasSubstr("sequence: 8"));
}

}  // namespace
}  // namespace scalai::scenario
