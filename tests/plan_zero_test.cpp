// `scalai plan` of jobs whose optimizer state ZeRO shares out: what is lost with a host. And plans in which nobody
// passes a box on.

#include "nlohmann/json.hpp"
#include "tests/end_to_end.h"

namespace scalai::testing {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

class PlanZero : public EndToEnd {};

// Ranks that differ in cp share ZeRO's state: of the 64 those of one host have a quarter of stage 0's. 16 of 32 layers,
// 3.49 G elements, and the input embedding of 0.525 G (128,256 rows of 4,096): 12 B each, and a quarter of them.
TEST_F(PlanZero, ContextParallelRanksShareWhatZeroCuts) {
  const Outcome lost =
      scalai("plan --model=llama3-8b --from=tp8,pp2,cp4,zero1 --to=tp8,pp2,cp2,zero1 --fail=8-15 --precision=bf16");
  EXPECT_EQ(lost.code, 3);
  EXPECT_THAT(lost.err, HasSubstr("no living device holds 12.0 GB of state"));
  const Outcome whole = scalai("plan --model=llama3-8b --from=tp8,pp2,cp4,zero1 --to=tp8,pp2,cp2,zero1 --check");
  EXPECT_EQ(whole.code, 0) << whole.err;
  EXPECT_THAT(whole.out, HasSubstr("checked: every element right, exactly once"));
}

// One replica becomes four: with relaying, each host sends it on once; without, the first host sends it three times,
// and what all GPUs of a host want (norms, biases of rows) to each of them.
TEST_F(PlanZero, WithoutRelayTheFirstHostSendsToAllOthers) {
  const std::string words = "plan --model=gpt3-xl --from=tp8 --to=tp8,dp4 --check --format=json";
  const auto hottest = [&](const std::string& more) {
    const Outcome made = scalai(words + more);
    EXPECT_EQ(made.code, 0) << made.err;
    return json::parse(made.out)["hottest_link"];
  };
  const json relayed = hottest(""), direct = hottest(" --no-relay");
  EXPECT_EQ(direct["name"], "h0.nic.up");
  const double times = direct["bytes"].get<double>() / relayed["bytes"].get<double>();
  EXPECT_GE(times, 3);
  EXPECT_LT(times, 3.2);
  const Outcome refused = scalai(words + " --no-relay --strategy=tenplex");
  EXPECT_EQ(refused.code, 3);
  EXPECT_THAT(refused.err, HasSubstr("--no-relay: with --strategy=tenplex nobody passes a box on"));
}

}  // namespace
}  // namespace scalai::testing
