#include "ptc/cost/step/model_shape.h"

#include <gtest/gtest.h>

#include "ptc/state/model/catalogue.h"

namespace scalai::step {
namespace model_shape_test {

TEST(ModelShape, CountsWhatTheTensorsCount) {
  for (const std::string& name : model::catalogue_names()) {
    const model::Model model = model::find_model(name).value();
    const ModelShape shape = shape_of(model);
    EXPECT_EQ(shape.parameters(), model.parameter_count()) << name;
    EXPECT_EQ(shape.active_parameters(), model.active_parameter_count()) << name;
  }
}

TEST(ModelShape, OnlyBertAttendsBothWays) {
  for (const std::string& name : model::catalogue_names()) {
    const model::Model model = model::find_model(name).value();
    EXPECT_EQ(shape_of(model).causal, model.family != "bert") << name;
  }
  EXPECT_FALSE(shape_of(model::find_model("bert-large").value()).causal);
}

TEST(ModelShape, WrittenByHandCountsTheSame) {
  for (const std::string name : {"gpt3-175b", "llama3-70b", "mixtral-8x7b"}) {
    const ModelShape known = shape_of(model::find_model(name).value());
    ModelShape sizes = known;
    sizes.layer_cut_params = sizes.layer_replicated_params = sizes.layer_expert_params = -1;
    sizes.embedding_params = sizes.first_params = sizes.last_params = sizes.head_params = -1;
    const ModelShape made = transformer_shape(sizes);
    EXPECT_EQ(made.layer_cut_params, known.layer_cut_params) << name;
    EXPECT_EQ(made.layer_replicated_params, known.layer_replicated_params) << name;
    EXPECT_EQ(made.layer_expert_params, known.layer_expert_params) << name;
    EXPECT_EQ(made.embedding_params, known.embedding_params) << name;
    EXPECT_EQ(made.head_params, known.head_params) << name;
    EXPECT_EQ(made.parameters(), known.parameters()) << name;
  }
}

}  // namespace model_shape_test
}  // namespace scalai::step
