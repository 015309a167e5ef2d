#include "ptc/state/collection/layout_name.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "ptc/base/status.h"

namespace scalai::collection {
namespace {

ParallelConfig parsed(const std::string& text) {
  const absl::StatusOr<ParallelConfig> config = parse_layout(text);
  EXPECT_TRUE(config.ok()) << text << ": " << config.status();
  return config.value_or(ParallelConfig{});
}

TEST(LayoutName, FieldsInAnyOrderWithEitherSeparator) {
  const ParallelConfig config = parsed("pp4,tp8,zero1,dp2,vpp2,ep4,etp2");
  EXPECT_EQ(config, (ParallelConfig{.tp = 8, .pp = 4, .dp = 2, .ep = 4, .etp = 2, .vpp = 2, .zero = 1}));
  EXPECT_EQ(parsed("tp8-pp4-dp2"), parsed("tp8,pp4,dp2"));
  EXPECT_EQ(parsed("tp8,pp4-dp2"), parsed("tp8,pp4,dp2"));
  EXPECT_EQ(config.world(), 64);
  EXPECT_EQ(config.edp(), 2);
}

TEST(LayoutName, OrderAndStages) {
  const ParallelConfig config = parsed("tp2,pp2,order=tp-pp-dp-cp,dp2,stages=3:5");
  EXPECT_EQ(config.order, (std::vector<std::string>{"tp", "pp", "dp", "cp"}));
  EXPECT_EQ(config.stages, (std::vector<int>{3, 5}));
  EXPECT_EQ(canonical(config), "tp2,pp2,dp2,order=tp-pp-dp-cp,stages=3:5");
  EXPECT_EQ(canonical(config, '-'), "tp2-pp2-dp2-stages=3:5-order=tp-pp-dp-cp");
}

TEST(LayoutName, FieldsAloneNeedNotFitWhatIsLeftOpen) {
  const LayoutFields fields = parse_layout_fields("ep4,tp1").value();
  EXPECT_EQ(fields.config.ep, 4);
  EXPECT_EQ(fields.named, (std::set<std::string, std::less<>>{"ep", "tp"}));
  EXPECT_FALSE(parse_layout("ep4,tp1").ok());
  EXPECT_FALSE(parse_layout_fields("ep4,ep2").ok());
  EXPECT_FALSE(parse_layout_fields("stages=3:5").ok());  // pp is one of those that say how many
}

TEST(LayoutName, CanonicalLeavesOutDefaults) {
  EXPECT_EQ(canonical(parsed("zero0,tp1,dp4,order=tp-cp-dp-pp,cp1")), "dp4");
  EXPECT_EQ(canonical(ParallelConfig{}), "tp1");
}

struct Refused {
  std::string text;
  int position;
  int length;
  std::string message;  // how it starts
  std::string hint;     // how it starts
};

TEST(LayoutName, RefusalsPointAtTheProblem) {
  const std::vector<Refused> cases = {
      {"", 1, 1, "the layout is empty", "write for example"},
      {"tp", 3, 1, "expected a number after \"tp\"", "write it like \"tp2\""},
      {"tp0", 3, 1, "\"tp\" must be 1 to 16777216", ""},
      {"tp4,pp99999999999999999999", 7, 20, "\"pp\" must be", ""},
      {"tp4,dq2", 5, 2, "unknown field \"dq\"", "did you mean \"dp\"?"},
      {"tp4,xyzzy2", 5, 5, "unknown field \"xyzzy\"", "the fields are tp, pp"},
      {"tp4,tp2", 5, 2, "\"tp\" is given twice", ""},
      {"tp4,", 4, 1, "nothing follows the last \",\"", ""},
      {"tp4,,dp2", 5, 1, "expected a field, found \",\"", ""},
      {"tp4 dp2", 4, 1, "unexpected \" \"", "a layout has no blanks"},
      {"tp4, dp2", 5, 1, "expected a field, found \" \"", "a layout has no blanks"},
      {"tp4;dp2", 4, 1, "unexpected \";\"", "fields are separated"},
      {"4tp", 1, 1, "expected a field, found \"4\"", "the fields are"},
      {"tp-4", 3, 1, "expected a number", ""},
      {"zero4", 5, 1, "\"zero\" must be 0 to 3, found 4", ""},
      {"TP4", 1, 2, "unknown field \"TP\"", ""},
      {"tp4,grö2", 5, 2, "unknown field \"gr\"", ""},
      {"ü", 1, 1, "expected a field, found \"ü\"", ""},
      {"order", 6, 1, "expected \"=\" after \"order\"", "write it like"},
      {"order=tp-pp", 1, 11, "\"order=\" must name", ""},
      {"order=tp-pp-tp-dp", 13, 2, "axis \"tp\" is given twice", ""},
      {"order=tp-xp-cp-dp", 10, 2, "\"xp\" is not an axis", ""},
      {"order=tp-cp-dp-pp-zero1", 19, 5, "nothing may follow \"order=\"", "put order= last"},
      {"stages=", 8, 1, "expected a number after \"stages\"", "write it like \"stages=12:12:11:11\""},
      {"pp2,stages=0:4", 12, 1, "\"stages\" must be 1 to", ""},
      {"pp2,vpp2,stages=6:6", 10, 10, "\"stages\" has 2 entries, pp x vpp = 4", ""},
      {"tp4,ep3", 5, 3, "etp x ep = 3 must divide the 4 ranks", ""},
      {"tp4,etp8", 5, 4, "etp x ep = 8 must divide the 4 ranks", ""},
      {"tp4096,pp4096,dp2", 1, 17, "the layout needs more than 16777216 devices", ""},
  };
  for (const Refused& refused : cases) {
    SCOPED_TRACE(refused.text);
    LayoutProblem problem;
    const absl::StatusOr<ParallelConfig> config = parse_layout(refused.text, &problem);
    ASSERT_FALSE(config.ok());
    EXPECT_EQ(problem.position, refused.position);
    EXPECT_EQ(problem.length, refused.length);
    EXPECT_TRUE(problem.message.starts_with(refused.message)) << problem.message;
    EXPECT_TRUE(problem.hint.starts_with(refused.hint)) << problem.hint;
    EXPECT_NE(
        message_of(config.status()).find("at character " + std::to_string(refused.position) + ": " + refused.message),
        std::string::npos)
        << config.status();
  }
}

TEST(LayoutName, BalancedStagesGiveTheFirstOnesMore) {
  EXPECT_EQ(layers_per_stage(parsed("pp4"), 11), (std::vector<int>{3, 3, 3, 2}));
  EXPECT_EQ(layers_per_stage(parsed("pp2,vpp2"), 8), (std::vector<int>{2, 2, 2, 2}));
  EXPECT_EQ(layers_per_stage(parsed("pp2,stages=1:9"), 10), (std::vector<int>{1, 9}));
  // The ends count as a layer each where that divides: Llama 3 405B has 126 layers (arXiv 2407.21783, 3.3.2).
  std::vector<int> llama(16, 8);
  llama.front() = llama.back() = 7;
  EXPECT_EQ(layers_per_stage(parsed("pp16"), 126), llama);
  EXPECT_EQ(layers_per_stage(parsed("pp4"), 10), (std::vector<int>{2, 3, 3, 2}));
  EXPECT_EQ(layers_per_stage(parsed("pp3,vpp2"), 4), (std::vector<int>{0, 1, 1, 1, 1, 0}));
  EXPECT_EQ(layers_per_stage(parsed("pp3,vpp2"), 5), (std::vector<int>{1, 1, 1, 1, 1, 0}));
  EXPECT_EQ(most_virtual_stages(parsed("pp3,vpp2"), 4), 6);
  EXPECT_EQ(most_virtual_stages(parsed("pp3"), 4), 4);
  EXPECT_DEATH(layers_per_stage(parsed("pp2,stages=1:8"), 10), "stages sum to 9");
}

TEST(LayoutName, AllSmallLayoutsRoundTrip) {
  int count = 0;
  for (int bits = 0; bits < 1 << 12; ++bits) {
    const auto size = [&](int shift) { return 1 << ((bits >> shift) & 1); };
    ParallelConfig config{
        .tp = size(0), .pp = size(1), .dp = size(2), .cp = size(3), .vpp = size(4) + 2 * ((bits >> 5) & 1)};
    config.zero = (bits >> 6) & 3;
    config.ep = size(8);
    config.etp = size(9);
    if (config.tp * config.cp * config.dp % (config.ep * config.etp) != 0) continue;
    if (((bits >> 10) & 1) != 0) config.order = {"pp", "dp", "tp", "cp"};
    if (((bits >> 11) & 1) != 0)
      config.stages.assign(static_cast<size_t>(config.pp) * static_cast<size_t>(config.vpp), 3);
    ++count;
    for (const char separator : {',', '-'})
      ASSERT_EQ(parsed(canonical(config, separator)), config) << canonical(config, separator);
  }
  EXPECT_GT(count, 2000);
}

TEST(LayoutName, RandomPiecesNeverCrash) {
  constexpr unsigned kSeed = 20260101;
  SCOPED_TRACE(kSeed);
  std::mt19937 random(kSeed);
  const std::vector<std::string> pieces = {
      "tp", "pp", "dp", "ep", "zero", "order=", "stages=",  "1",    "2", "4",
      "0",  ",",  "-",  ":",  "=",    " ",      "\xC3\xBC", "\xFF", "x", "tp-cp-dp-pp"};
  int accepted = 0;
  for (int round = 0; round < 50000; ++round) {
    std::string text;
    for (size_t n = random() % 8; n > 0; --n) text += pieces[random() % pieces.size()];
    LayoutProblem problem;
    const absl::StatusOr<ParallelConfig> config = parse_layout(text, &problem);
    accepted += config.ok() ? 1 : 0;
    if (config.ok()) {
      ASSERT_EQ(parsed(canonical(*config)), *config) << text;
    } else {
      ASSERT_LE(problem.position, static_cast<int>(text.size()) + 1) << text;
    }
  }
  EXPECT_GT(accepted, 100);
}

}  // namespace
}  // namespace scalai::collection
