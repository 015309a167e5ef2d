#include "labs/validation/model/model_rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "labs/validation/model/testing/support.h"

namespace scalai::step::validation {
namespace {

using ::testing::HasSubstr;

constexpr const char* kTrillion = "model=m layers=128 hidden=25600 heads=160 vocab=51200 sequence=2048 ";

RowResult result_of(const std::string& cells) {
  OneRow row(cells);
  RowReader reader = row.reader();
  const ModelShape model = read_model(reader);
  const RowResult result = model_result(reader, model);
  EXPECT_TRUE(row.ok()) << row.said();
  return result;
}

TEST(ModelRows, ATrillionParameters) {
  const RowResult result = result_of(std::string(kTrillion) + "params=1008.0");
  EXPECT_EQ(result.label, "m");
  EXPECT_EQ(result.unit, "B");
  EXPECT_TRUE(result.exact);
  EXPECT_NEAR(result.predicted, 1008.0, 0.05);
  EXPECT_NEAR(result.error, result.predicted / 1008.0 - 1, 1e-12);
  EXPECT_FALSE(result_of(std::string(kTrillion) + "params=1008.2").exact);
}

TEST(ModelRows, MillionsAndCutDigits) {
  const std::string llama =
      "model=m layers=80 hidden=8192 heads=64 ffn=22016 gated=1 biases=0 positions=0 tied=0 vocab=32000 sequence=2048 ";
  EXPECT_TRUE(result_of(llama + "params=65285.660672 unit=M").exact);
  EXPECT_FALSE(result_of(llama + "params=65.2").exact);
  EXPECT_TRUE(result_of(llama + "params=65.2 cut=1").exact);
}

TEST(ModelRows, NothingPrintedPredictsNothing) { EXPECT_EQ(result_of(kTrillion).published_text, ""); }

TEST(ModelRows, Problems) {
  OneRow row("model=m layers=0 hidden=x vocab=51200 sequence=2048 unit=K params=3 top_k=2");
  RowReader reader = row.reader();
  model_result(reader, read_model(reader));
  EXPECT_THAT(row.said(), HasSubstr("\"x\" is not a count"));
  EXPECT_THAT(row.said(), HasSubstr("no \"heads\""));
  EXPECT_THAT(row.said(), HasSubstr("parameters are in M or B"));
  OneRow experts(std::string(kTrillion) + "experts=2 top_k=4");
  RowReader more = experts.reader();
  read_model(more);
  EXPECT_THAT(experts.said(), HasSubstr("more than there are experts"));
  OneRow none("model=m layers=0 hidden=64 heads=2 vocab=51200 sequence=2048");
  RowReader zero = none.reader();
  read_model(zero);
  EXPECT_THAT(none.said(), HasSubstr("must be more than 0"));
}

}  // namespace
}  // namespace scalai::step::validation
