// `scalai parallelize --offload`: host traffic of a step.
#include "nlohmann/json.hpp"
#include "tests/end_to_end.h"

namespace scalai::testing {
namespace {

using ::testing::HasSubstr;

class OffloadCommand : public EndToEnd {
 protected:
  Outcome run(const std::string& more) const {
    return scalai("parallelize --model=llama3-8b --gpu=h100-80g --global-batch=4 --micro-batches=1 --top=1 " + more);
  }
  nlohmann::json traffic(const std::string& more) const {
    const Outcome outcome = run(more + " --format=json");
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

TEST_F(OffloadCommand, ActivationsThatDoNotFitGoOutAndComeBack) {
  const Outcome text = run("--layout=tp8,pp2,zero1 --recompute=none --offload=4GiB");
  EXPECT_EQ(text.code, 0) << text.err;
  EXPECT_THAT(text.out,
              HasSubstr("tp8,pp2,zero1, micro-batches of 1, recompute none: bytes between a GPU and its host"));
  EXPECT_THAT(text.out, HasSubstr("any order at least"));
  EXPECT_THAT(run("--layout=tp8,pp2 --offload=80GiB").out, HasSubstr("0 B (all fits)"));
  const Outcome csv = run("--layout=tp8,pp2,zero1 --recompute=none --offload=4GiB --format=csv");
  EXPECT_EQ(std::count(csv.out.begin(), csv.out.end(), '\n'), 3) << csv.out;
}

TEST_F(OffloadCommand, RefusesWhatItCannotAnswer) {
  const auto refused = [&](const std::string& more, int code, const std::string& part) {
    const Outcome outcome = run(more);
    EXPECT_EQ(outcome.code, code) << more << "\n" << outcome.err;
    EXPECT_EQ(outcome.out, "") << more;
    EXPECT_THAT(outcome.err, HasSubstr(part));
  };
  refused("--gpus=8 --offload=8GiB", 2, "--offload needs --layout");
  refused("--layout=tp8 --offload=0B", 2, "0 bytes on a GPU compute nothing");
  refused("--layout=tp8 --offload=8GiB --from=tp4", 2, "--offload and --from exclude each other");
  refused("--layout=tp8 --offload=1MiB", 3, "on the GPU at once, more than");
  refused("--layout=pp2 --schedule=2bw --offload=60GiB", 3, "not modelled for 2bw");
}

}  // namespace
}  // namespace scalai::testing
