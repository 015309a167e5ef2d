#include "ptc/store/views/internal/torch_ranks.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "ptc/base/status.h"
#include "ptc/store/torch/testing/torch_writer.h"

namespace scalai::store::internal {
namespace torch_ranks_test {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

class TorchRanks : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "torch_ranks." + testing::UnitTest::GetInstance()->current_test_info()->name();
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  void add(const std::string& rank, const std::string& tensor = "model.w") const {
    fs::create_directories(folder_ + "/" + rank);
    std::ofstream(folder_ + "/" + rank + "/model_optim_rng.pt", std::ios::binary)
        << torch_file({{.name = tensor, .shape = {1}, .strides = {1}}}, {{"0", "abcd"}});
  }
  auto read() const { return torch_ranks(Folder(folder_, options_)); }

  std::string folder_;
  OpenOptions options_;
};

TEST_F(TorchRanks, AreInTheOrderOfTheLayout) {
  EXPECT_EQ(read().value(), std::nullopt);
  for (const char* rank : {"mp_rank_01_001", "mp_rank_00_000", "mp_rank_01_000", "mp_rank_00_001"}) add(rank);
  const auto ranks = read();
  ASSERT_TRUE(ranks.ok() && *ranks) << message_of(ranks.status());
  EXPECT_EQ((*ranks)->layout, "tp2,pp2");
  EXPECT_EQ((*ranks)->iteration, 7);
  EXPECT_THAT((*ranks)->files, ElementsAre("mp_rank_00_000/model_optim_rng.pt", "mp_rank_01_000/model_optim_rng.pt",
                                           "mp_rank_00_001/model_optim_rng.pt", "mp_rank_01_001/model_optim_rng.pt"));
}

TEST_F(TorchRanks, ExpertsAndChunksAreSeen) {
  for (const char* rank : {"mp_rank_00_000_000", "mp_rank_00_000_001"}) add(rank, "model1.w");
  const auto ranks = read();
  ASSERT_TRUE(ranks.ok() && *ranks) << message_of(ranks.status());
  EXPECT_EQ((*ranks)->layout, "tp1,pp1,dp2,ep2,vpp2");
}

TEST_F(TorchRanks, MissingRanksAreCountedBeforeTheyAreNamed) {
  for (const char* rank : {"mp_rank_262143", "mp_rank_00_262143", "mp_rank_00_000_262143"}) add(rank);
  EXPECT_THAT(message_of(read().status()), HasSubstr("3 ranks are there, tp262144,pp262144,ep262144 has "));
}

TEST_F(TorchRanks, IterationsMayBeMany) {
  EXPECT_EQ(iteration_of("dist/iter_3000000"), 3'000'000);
  std::ofstream(folder_ + "/latest_checkpointed_iteration.txt") << "3000000";
  EXPECT_EQ(newest_iteration(Folder(folder_, options_)).value(), "iter_3000000/");
}

TEST_F(TorchRanks, TheNewestIterationCounts) {
  add("iter_0000007/mp_rank_00");
  add("iter_0000090/mp_rank_00");
  std::ofstream(folder_ + "/latest_checkpointed_iteration.txt") << "90\n";
  EXPECT_THAT((*read().value()).files, ElementsAre("iter_0000090/mp_rank_00/model_optim_rng.pt"));
  std::ofstream(folder_ + "/latest_checkpointed_iteration.txt") << "soon";
  EXPECT_THAT(message_of(read().status()), HasSubstr("latest_checkpointed_iteration.txt: neither a number"));
}

TEST_F(TorchRanks, MissingRanksAreNamed) {
  for (const char* rank : {"mp_rank_00_000", "mp_rank_01_001"}) add(rank);
  EXPECT_THAT(message_of(read().status()), AllOf(HasSubstr("the rank with tp 1, pp 0, ep 0 is missing"),
                                                 HasSubstr("the rank with tp 0, pp 1, ep 0 is missing")));
  for (const char* rank : {"mp_rank_01_000", "mp_rank_00_001", "mp_rank_0_000"}) add(rank);
  EXPECT_THAT(message_of(read().status()), HasSubstr("are the same rank"));
}

TEST_F(TorchRanks, OtherNamesAreNone) {
  for (const char* name : {"mp_rank_", "mp_rank_x", "mp_rank_00_000_000_000", "mp_rank_-1", "mp_rank_99999999999"})
    add(name);
  EXPECT_EQ(read().value(), std::nullopt);
}

}  // namespace torch_ranks_test
}  // namespace scalai::store::internal
