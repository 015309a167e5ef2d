#include "labs/validation/model/transfer_rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "labs/validation/model/testing/support.h"
#include "labs/validation/model/validation.h"
#include "ptc/plan/estimate.h"

namespace scalai::step::validation {
namespace transfer_rows_test {

using ::testing::HasSubstr;

// Two layers; its size is in the first test of a move.
ModelShape dense() {
  return transformer_shape({.name = "dense",
                            .layers = 2,
                            .hidden = 64,
                            .heads = 8,
                            .kv_heads = 4,
                            .head_dim = 8,
                            .ffn = 256,
                            .gated = true,
                            .vocab = 1024,
                            .sequence = 64});
}
ModelShape mixture(int layers) {
  ModelShape shape = dense();
  shape.name = "mixture";
  shape.layers = layers;
  shape.ffn = 64;
  shape.experts = 8;
  shape.experts_per_token = 2;
  return transformer_shape(shape);
}

const std::string kHost = "gpu=h100-80g nic_gbps=400 source=s published=1 label=x ";

RowResult result_of(const std::string& cells) {
  OneRow row(kHost + cells);
  RowReader reader = row.reader();
  RowResult result = transfer_result(reader, {{"dense", dense()}, {"mixture", mixture(64)}});
  EXPECT_EQ(row.said(), "");
  EXPECT_EQ(result.problem, "");
  return result;
}

std::string problem_of(const std::string& cells) {
  OneRow row(kHost + cells);
  RowReader reader = row.reader();
  transfer_result(reader, {{"dense", dense()}, {"mixture", mixture(64)}});
  return row.said();
}

TEST(TransferRows, ModelsHaveTheParametersOfTheirShape) {
  for (const ModelShape& shape : {dense(), mixture(3)})
    EXPECT_EQ(model_of(shape, false).parameter_count(), shape.parameters()) << shape.name;
  // Two matrices of attention and three of the block in each layer, or of each of eight experts.
  EXPECT_EQ(model_of(dense(), true).params.size(), model_of(dense(), false).params.size() + 2 * (2 + 3));
  EXPECT_EQ(model_of(mixture(3), true).params.size(), model_of(mixture(3), false).params.size() + 3 * (2 + 24));
}

// 12,288 + 49,152 + 128 parameters of norms a layer, twice; 131,072 of embedding and head, 64 of the last norm; 17
// tensors.
TEST(TransferRows, OneGpuToAnotherIsArithmetic) {
  const double layer = (8 + 2 * 4) * 8 * 64 + 8 * 8 * 64 + 3 * 256 * 64 + 2 * 64;
  const double parameters = 2 * layer + 2 * 1024 * 64 + 64, tensors = 2 * (2 + 2 + 3) + 3;
  EXPECT_EQ(dense().parameters(), parameters);
  const double nic = 400e9 / 8 * 0.9;
  const auto seconds = [&](double bytes, double start_s, double box_s, double peer_s) {
    return start_s + tensors * box_s + peer_s + plan::kMessageLatency_s + bytes / nic;
  };
  const RowResult one = result_of("model=dense from=dp1 to=dp1 start_ms=2 box_us=10 peer_us=500");
  EXPECT_NEAR(one.predicted, seconds(2 * parameters, 2e-3, 10e-6, 500e-6), 1e-9);
  EXPECT_NEAR(one.error, one.predicted - 1, 1e-12) << "1 s is published";
  // The same with what `reshard` costs in our executor: 1 ms, 3 us and 15 us.
  ASSERT_TRUE(one.guessed_error);
  EXPECT_NEAR(*one.guessed_error + 1, seconds(2 * parameters, 1e-3, 3e-6, 15e-6), 1e-9);
  EXPECT_EQ(one.group, "transfers");
  EXPECT_EQ(one.source, "s");
  EXPECT_EQ(one.held_out, PublishedTable::is_held_out("s"));
  // Through host memory: PCIe at 0.82 of 64 GB/s besides.
  const RowResult staged = result_of("model=dense from=dp1 to=dp1 start_ms=2 box_us=10 peer_us=500 through_host=1");
  EXPECT_NEAR(staged.predicted - one.predicted, 2 * parameters / (0.82 * 64e9), 1e-9);
  // Eight receivers on a host: by the one NIC of the sender all the same, and beside it over NVLink.
  const RowResult eight = result_of("model=dense from=dp1 to=dp8 start_ms=0 box_us=0 peer_us=0");
  EXPECT_NEAR(eight.predicted, 2 * parameters / nic + 8 * plan::kMessageLatency_s, 1e-9);
}

// Two GPUs with half of each matrix bring it together (NVLink), then one of them sends.
TEST(TransferRows, MovesFollowOneAnother) {
  const std::string costs = " start_ms=0 box_us=0 peer_us=0";
  const RowResult sent = result_of("model=dense from=dp2 send=dp1 to=dp1" + costs);
  const RowResult both = result_of("model=dense from=tp2 gather=dp2 send=dp1 to=dp1" + costs);
  const RowResult gathered = result_of("model=dense from=tp2 to=dp2 onto=same" + costs);
  EXPECT_NEAR(both.predicted, gathered.predicted + sent.predicted, 1e-9);
  const double halves = 2.0 * (2 * ((8 + 2 * 4) * 8 * 64 + 8 * 8 * 64 + 3 * 256 * 64) + 2 * 1024 * 64) / 2;
  EXPECT_NEAR(gathered.predicted, halves / (0.822 * 450e9) + plan::kMessageLatency_s, 1e-9);
}

// Eight of 64 layers and an eighth of the vocabulary are planned, bytes and boxes taken eight times.
TEST(TransferRows, FewLayersStandForAll) {
  ModelShape eighth = mixture(8);
  eighth.vocab /= 8;
  const Models models = {{"mixture", mixture(64)}, {"eighth", transformer_shape(eighth)}};
  for (const std::string costs : {" start_ms=0 box_us=0 peer_us=0", " start_ms=0 box_us=1e6 peer_us=0"}) {
    const auto seconds = [&](const std::string& model) {
      OneRow row(kHost + "from=dp8,ep8 to=dp8 onto=same model=" + model + costs);
      RowReader reader = row.reader();
      return transfer_result(reader, models).predicted;
    };
    EXPECT_GT(seconds("eighth"), 0);
    EXPECT_NEAR(seconds("mixture"), 8 * seconds("eighth"), 0.01 * seconds("mixture")) << costs;
  }
}

TEST(TransferRows, Problems) {
  EXPECT_THAT(problem_of("model=dense from=dp1 to=tp3"), HasSubstr("tp3 does not divide the 8 attention heads"));
  EXPECT_THAT(problem_of("model=dense from=dp1 to=tq3"), HasSubstr("t.csv:4:"));
  EXPECT_THAT(problem_of("model=sparse from=dp1 to=dp1"), HasSubstr("unknown model \"sparse\""));
  EXPECT_THAT(problem_of("model=dense from=dp1 to=dp1 onto=there"), HasSubstr("unknown place \"there\""));
  EXPECT_THAT(problem_of("model=dense from=dp1 to=dp1 precision=int8"), HasSubstr("unknown precision \"int8\""));
  EXPECT_THAT(problem_of("model=dense from=dp1 send=dp2 to=dp1"), HasSubstr("2 GPUs, but `from` has 1"));
  EXPECT_THAT(problem_of("model=dense from=dp2 gather=dp4 to=dp1"), HasSubstr("4 GPUs, but `from` has 2"));
  EXPECT_THAT(problem_of("model=dense from=dp1 to=dp1 box_us=-1"), HasSubstr("not a number >= 0"));
}

// All problems of a file at once, with their places.
TEST(TransferRows, ProblemsOfAFileHavePlaces) {
  const std::string text =
      "# kind: transfer\n# title: t\n# source: s\n# default: gpu=h100-80g nic_gbps=400 source=s published=1\n"
      "label,model,from,to,onto,via\na,dense,tp2,dpx,,\nb,dense,dp1,dp1,far,\n";
  const auto tables = validate({{"t.csv", text}}, {});
  ASSERT_FALSE(tables.ok());
  const std::string said(tables.status().message());
  EXPECT_THAT(said, HasSubstr("t.csv:5:26: error: tables of this kind have no column \"via\""));
  EXPECT_THAT(said, HasSubstr("t.csv:6:13: error: "));
  EXPECT_THAT(said, HasSubstr("t.csv:6:3: error: unknown model \"dense\""));
  EXPECT_THAT(said, HasSubstr("t.csv:7:17: error: unknown place \"far\""));
}

}  // namespace transfer_rows_test
}  // namespace scalai::step::validation
