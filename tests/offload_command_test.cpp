// `scalai parallelize --offload`: host traffic of a step adds up; cases/offload.case has what it prints.
#include "nlohmann/json.hpp"
#include "tests/end_to_end.h"

namespace scalai::testing {
namespace {

class OffloadCommand : public EndToEnd {
 protected:
  nlohmann::json traffic(const std::string& more) const {
    const Outcome outcome = scalai(
        "parallelize --model=llama3-8b --gpu=h100-80g --global-batch=4 --micro-batches=1 --top=1 --format=json " +
        more);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return nlohmann::json::parse(outcome.out)["offload"];
  }
};

// 8.03 G parameters with 2 B and 12 B of optimizer state: what does not stay goes out and comes back. (The state of the
// embedding, 0.5 G parameters, is updated without being read as parameters.)
TEST_F(OffloadCommand, BoundsAndSchedulesAddUp) {
  const double parameters = 8.03e9, embedding = 0.525e9;
  for (const double kept : {20e9, 60e9, 200e9}) {
    const auto found = traffic(fmt::format("--layout=tp1 --recompute=full --offload={}B", static_cast<int64_t>(kept)));
    EXPECT_EQ(found["device_bytes"], static_cast<int64_t>(kept));
    const auto& stage = found["stages"][0];
    EXPECT_NEAR(stage["state_bytes"].get<double>(), 14 * parameters, 2e8);
    const double least = stage["least_bytes"];
    const double moves = std::max(0.0, 14 * parameters - kept) + std::max(0.0, 14 * parameters - 2 * embedding - kept);
    EXPECT_GE(least, moves - 4e8);
    EXPECT_LE(least, stage["schedule"]["loads"].get<double>() + stage["schedule"]["stores"].get<double>());
  }
  EXPECT_EQ(traffic("--layout=tp1 --recompute=full --offload=300GB")["stages"][0]["least_bytes"], 0);
}

}  // namespace
}  // namespace scalai::testing
