#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ptc/base/status.h"
#include "ptc/state/model/catalogue.h"

namespace scalai::model {
namespace {

using ::testing::HasSubstr;

// Without the closing brace.
constexpr std::string_view kResnet = R"({
  "architectures": ["ResNetForImageClassification"], "downsample_in_first_stage": false, "embedding_size": 64,
  "num_channels": 3)";

std::string resnet(const std::string& more) { return std::string(kResnet) + ", " + more + "}"; }

std::string error_of(const std::string& more) { return message_of(resnet_of_config(resnet(more), "test").status()); }

TEST(ResnetConfig, EqualsTheCatalogue) {
  const auto ours = resnet_of_config(resnet(R"("depths": [3, 4, 6, 3], "hidden_sizes": [256, 512, 1024, 2048],
                                              "layer_type": "bottleneck", "num_labels": 1000)"),
                                     "test");
  ASSERT_TRUE(ours.ok()) << message_of(ours.status());
  const Model theirs = find_model("resnet-50").value();
  EXPECT_EQ(ours->layers, theirs.layers);
  ASSERT_EQ(ours->params.size(), theirs.params.size());
  for (size_t i = 0; i < theirs.params.size(); ++i) {
    EXPECT_EQ(ours->params[i].name, theirs.params[i].name);
    EXPECT_EQ(ours->params[i].shape, theirs.params[i].shape) << theirs.params[i].name;
  }
}

TEST(ResnetConfig, BuildsBasicBlocks) {
  const auto model = resnet_of_config(resnet(R"("depths": [2, 2, 2, 2], "hidden_sizes": [64, 128, 256, 512],
                                               "layer_type": "basic", "id2label": {"0": "cat", "1": "dog"})"),
                                      "test");
  ASSERT_TRUE(model.ok()) << message_of(model.status());
  // torchvision's ResNet-18 has 11,689,512 parameters with 1000 classes of 512 weights and a bias.
  EXPECT_EQ(model->parameter_count(), 11'689'512 - 998 * 513);
  EXPECT_EQ(model->layers, 8);
}

TEST(ResnetConfig, RefusesWhatDoesNotFit) {
  const std::string sizes = R"("hidden_sizes": [256, 512], "num_labels": 10, )";
  EXPECT_EQ(error_of(sizes + R"("depths": [3])"), "/depths: 1 stages, but 2 in /hidden_sizes");
  EXPECT_THAT(error_of(sizes + R"("depths": 7)"), HasSubstr("/depths: not such a list"));
  EXPECT_THAT(error_of(sizes + R"("depths": [3, -4])"), HasSubstr("/depths/1: -4 is not a whole number"));
  EXPECT_THAT(error_of(sizes + R"("depths": [3, 4], "layer_type": "inverted")"), HasSubstr("use bottleneck or basic"));
  EXPECT_EQ(error_of(R"("hidden_sizes": [256, 510], "num_labels": 10, "depths": [3, 4])"),
            "/hidden_sizes/1: not a multiple of 4, which a bottleneck block needs");
  EXPECT_THAT(message_of(resnet_of_config("[1, 2]", "").status()), HasSubstr("one JSON object"));
}

}  // namespace
}  // namespace scalai::model
