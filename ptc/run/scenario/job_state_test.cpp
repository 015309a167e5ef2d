#include "ptc/run/scenario/job_state.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "ptc/base/status.h"

namespace scalai::scenario {
namespace job_state_test {

using ::testing::HasSubstr;

std::string collection_file(int ranks, const std::string& tensors) {
  return fmt::format(R"(schema_version: 1 meshes {{ axes {{ name: "tp" size: {} }} }} devices: "0-{}" {})", ranks,
                     ranks - 1, tensors);
}
const std::string kWeight = R"(tensors { name: "weight" dtype: "F32" shape: [12, 8] cuts { axis: "tp" dim: 0 } } )";
const std::string kStep = R"(tensors { name: "step" dtype: "F32" kind: SCALAR } )";

absl::StatusOr<Scenario> read(const std::string& job, const std::map<std::string, std::string>& files) {
  const std::string text =
      "name: \"mine\" until: \"10min\" cluster { hosts { count: 2 gpus: 2 gpu: \"a100-80g\" nic: \"25Gbps\" } }\n"
      "jobs { name: \"gpt\" global_batch: 8 gpus: 4 " +
      job + " }";
  return parse_scenario(text, "folder/mine.textproto", [&](const std::string& path) -> absl::StatusOr<std::string> {
    const auto found = files.find(path);
    if (found == files.end()) return missing(path + " is not there");
    return found->second;
  });
}
const std::string kFour = R"(configs { layout: "tp4" step_time: "1s" collection: "four.textproto" } )";
const std::string kTwo = R"(configs { layout: "tp2" step_time: "2s" collection: "two.textproto" } )";

TEST(JobState, ConfigurationsNameTheirCollections) {
  const auto scenario = read(kFour + kTwo, {{"folder/four.textproto", collection_file(4, kWeight + kStep)},
                                            {"folder/two.textproto", collection_file(2, kStep + kWeight)}});
  ASSERT_TRUE(scenario.ok()) << scenario.status();
  const JobSpec& job = scenario->jobs[0];
  EXPECT_EQ(state_bytes(job), 12 * 8 * 4 + 4);
  ASSERT_EQ(job.configs.size(), 2);
  const auto two = collection_of(job, job.configs[1].config, {DeviceId(3), DeviceId(1)});
  ASSERT_TRUE(two.ok()) << two.status();
  EXPECT_EQ(two->name, "tp2");
  EXPECT_EQ(two->device_of_rank, (std::vector<DeviceId>{DeviceId(3), DeviceId(1)}));
  // In the order of the first configuration, which a tensor's number counts in.
  EXPECT_EQ(two->tensors[0].name, "weight");
  EXPECT_EQ(two->tensors[1].name, "step");
  EXPECT_EQ(two->pieces(TensorId(0), LogicalRank(1)).pieces[0].box, tensor::Box({6, 0}, {12, 8}));
  EXPECT_THAT(message_of(collection_of(job, job.configs[1].config, {DeviceId(3)}).status()),
              HasSubstr("tp2 needs 2 devices"));
  EXPECT_THAT(scenario->resolved_text, HasSubstr("collection: \"two.textproto\""));
  EXPECT_THAT(scenario->resolved_text, HasSubstr("# two.textproto: digest "));
}

// A report's scenario is read again where those files are not: by `scalai replay`, and by a run that is gone on with.
TEST(JobState, AResolvedScenarioHasItsFiles) {
  const auto again = [](const absl::StatusOr<Scenario>& scenario) {
    EXPECT_TRUE(scenario.ok()) << scenario.status();
    return parse_scenario(scenario->resolved_text, "elsewhere/again.textproto",
                          [](const std::string& path) -> absl::StatusOr<std::string> { return missing(path); });
  };
  const auto listed = read(kFour + kTwo, {{"folder/four.textproto", collection_file(4, kWeight + kStep)},
                                          {"folder/two.textproto", collection_file(2, kStep + kWeight)}});
  const auto same = again(listed);
  ASSERT_TRUE(same.ok()) << same.status();
  EXPECT_EQ(same->jobs[0].configs[1].collection->tensors, listed->jobs[0].configs[1].collection->tensors);
  const auto modelled = read("model_config: \"tiny.json\" configs { layout: \"tp4\" }",
                             {{"folder/tiny.json", R"({"architectures": ["GPT2LMHeadModel"], "n_embd": 64, "n_layer": 4,
                               "n_head": 4, "n_positions": 128, "vocab_size": 1000})"}});
  const auto still = again(modelled);
  ASSERT_TRUE(still.ok()) << still.status();
  EXPECT_EQ(still->jobs[0].model.params.size(), modelled->jobs[0].model.params.size());
  EXPECT_EQ(still->resolved_text, modelled->resolved_text);
}

TEST(JobState, OfAModelFollowsItsRules) {
  const auto scenario = read("model: \"gpt3-125m\" configs { layout: \"tp4\" }", {});
  ASSERT_TRUE(scenario.ok()) << scenario.status();
  const JobSpec& job = scenario->jobs[0];
  EXPECT_EQ(state_bytes(job), model::state_bytes(job.model, job.recipe, false));
  const std::vector<DeviceId> devices = {DeviceId(0), DeviceId(1), DeviceId(2), DeviceId(3)};
  const auto built = collection_of(job, job.configs[0].config, devices);
  ASSERT_TRUE(built.ok()) << built.status();
  EXPECT_EQ(built->name, "tp4");
}

TEST(JobState, WrongCollectionsAreNamed) {
  const std::map<std::string, std::string> files = {
      {"folder/four.textproto", collection_file(4, kWeight)},
      {"folder/two.textproto", collection_file(2, kWeight + kStep)},
      {"folder/less.textproto", collection_file(4, R"(tensors { name: "bias" dtype: "F32" shape: [4] })")},
      {"folder/other.textproto",
       collection_file(4, R"(tensors { name: "weight" dtype: "BF16" shape: [12, 8] cuts { axis: "tp" dim: 0 } })")},
      {"folder/broken.textproto", "schema_version: 1 nonsense: 2"}};
  const auto problem_of = [&](const std::string& job) { return message_of(read(job, files).status()); };
  EXPECT_THAT(problem_of(kFour + kTwo),
              HasSubstr("\"two.textproto\" is not the state of the first config: the first has no "
                        "tensor \"step\""));
  const auto second = [&](const std::string& file) {
    return problem_of(R"(configs { layout: "tp2" step_time: "1s" collection: "two.textproto" } )"
                      R"(configs { layout: "tp4" step_time: "1s" collection: ")" +
                      file + R"(" })");
  };
  EXPECT_THAT(second("less.textproto"), HasSubstr("it has no tensor \"weight\""));
  EXPECT_THAT(second("other.textproto"),
              HasSubstr("tensor \"weight\" is BF16 [12, 8] in it, F32 [12, 8] in the first"));
  EXPECT_THAT(second("absent.textproto"), HasSubstr("folder/absent.textproto is not there"));
  EXPECT_THAT(second("broken.textproto"), HasSubstr("folder/broken.textproto:1:19: error"));
  EXPECT_THAT(second("two.textproto"), HasSubstr("\"two.textproto\" has 2 ranks, the layout 4"));
  EXPECT_THAT(problem_of(kFour + R"(configs { layout: "tp2" step_time: "2s" })"), HasSubstr("all need theirs"));
  EXPECT_THAT(problem_of(R"(configs { layout: "tp4" collection: "four.textproto" })"),
              HasSubstr("without a model no step time"));
  EXPECT_THAT(problem_of("model: \"gpt3-125m\" " + kFour), HasSubstr("exclude each other"));
}

}  // namespace job_state_test
}  // namespace scalai::scenario
