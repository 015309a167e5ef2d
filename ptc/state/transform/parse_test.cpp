#include <gmock/gmock.h>

#include "ptc/base/status.h"
#include "ptc/state/transform/transform.h"

namespace scalai::transform {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Step step_of(const std::string& text) {
  const auto steps = parse_steps({&text, 1});
  SCALAI_CHECK(steps.ok(), message_of(steps.status()));
  return steps->front();
}

std::string refusal(const std::string& text) {
  const auto steps = parse_steps({&text, 1});
  return steps.ok() ? "" : message_of(steps.status());
}

TEST(ParseSteps, EveryFormIsRead) {
  EXPECT_EQ(std::get<Function>(step_of("cast(bf16)").what).name, "cast(BF16)");
  EXPECT_EQ(std::get<Function>(step_of(" cast( F32 ) ").what).name, "cast(F32)");
  EXPECT_EQ(std::get<Function>(step_of(" scale(25)").what).name, "scale(25)");
  EXPECT_EQ(std::get<Function>(step_of("         scale(2) ").what).name, "scale(2)");
  EXPECT_EQ(std::get<Function>(step_of("scale(-2.5e-1)").what).name, "scale(-0.25)");
  EXPECT_EQ(std::get<Function>(step_of("quantise(i8)").what).split, Split::kRows);
  const Lora lora = std::get<Lora>(step_of("lora(runs/a, alpha=16)").what);
  EXPECT_EQ(lora.adapter, "runs/a");
  EXPECT_EQ(lora.alpha, 16);
  EXPECT_EQ(std::get<Lora>(step_of("lora(\"a, b=(c)\")").what).adapter, "a, b=(c)");
  EXPECT_EQ(std::get<Lora>(step_of("lora(a)").what).alpha, std::nullopt);
  EXPECT_THAT(std::get<Average>(step_of("average(one, two)").what).others, ElementsAre("one", "two"));
  EXPECT_THAT(step_of("cast(bf16)").tensors, IsEmpty());
  EXPECT_THAT(step_of("scale(2, tensors=a.*, tensors=\"b,c\")").tensors, ElementsAre("a.*", "b,c"));
  EXPECT_EQ(step_of("scale(2)").text, "scale(2)");
}

TEST(ParseSteps, ProblemsNameTheirStep) {
  EXPECT_THAT(refusal("cast"), HasSubstr("cast: is not NAME(…)"));
  EXPECT_THAT(refusal(""), HasSubstr("is not NAME(…)"));
  EXPECT_THAT(refusal("cast(bf16"), HasSubstr("is not NAME(…)"));
  EXPECT_THAT(refusal("cats(bf16)"), HasSubstr("is not one of cast, scale, quantise, lora, average"));
  EXPECT_THAT(refusal("cast()"), HasSubstr("has 0 values; it is cast(DTYPE)"));
  EXPECT_THAT(refusal("cast(bf16, fp32)"), HasSubstr("has 2 values"));
  EXPECT_THAT(refusal("cast(i32)"), HasSubstr("\"i32\" is not fp32, bf16, fp16 or fp64"));
  EXPECT_THAT(refusal("cast(F8_E4M3)"), HasSubstr("is not fp32"));
  EXPECT_THAT(refusal("scale(inf)"), HasSubstr("\"inf\" is not a number"));
  EXPECT_THAT(refusal("scale(2x)"), HasSubstr("\"2x\" is not a number"));
  EXPECT_THAT(refusal("scale(2, alpha=1)"), HasSubstr("has no \"alpha=1\""));
  EXPECT_THAT(refusal("scale(2, tensors=)"), ::testing::Not(HasSubstr("CHECK")));
  EXPECT_THAT(refusal("scale(2,,3)"), HasSubstr("has a value that is empty"));
  EXPECT_THAT(refusal("scale(\"2)"), HasSubstr("a quotation mark has no end"));
  EXPECT_THAT(refusal("quantise(i4)"), HasSubstr("\"i4\" is not i8"));
  EXPECT_THAT(refusal("average()"), HasSubstr("average(PATH, …)"));
  EXPECT_THAT(refusal("lora(a, alpha=x)"), HasSubstr("\"x\" is not a number"));
  EXPECT_THAT(refusal("lora(a, alpha=1, alpha=2)"), HasSubstr("has no \"alpha=2\""));
  const std::vector<std::string> two = {"scale(x)", "cast(bf16)", "nothing(1)"};
  EXPECT_EQ(message_of(parse_steps(two).status()),
            "scale(x): \"x\" is not a number\nnothing(1): is not one of cast, scale, quantise, lora, average");
}

}  // namespace
}  // namespace scalai::transform
