#include "executor/rpc/internal/handshake.h"

#include <gtest/gtest.h>

#include <set>

namespace scalai::executor::rpc::internal {
namespace {

TEST(ChallengesTest, EachCountsOnce) {
  Challenges challenges("key of one process");
  std::set<std::string> all;
  for (int i = 0; i < 100; ++i) all.insert(challenges.next());
  EXPECT_EQ(all.size(), 100U);
  for (const std::string& one : all) EXPECT_TRUE(challenges.redeem(one));
  for (const std::string& one : all) EXPECT_FALSE(challenges.redeem(one));
}

TEST(ChallengesTest, OnlyOursCount) {
  Challenges ours("key of one process");
  Challenges others("key of another one");
  const std::string challenge = ours.next();
  EXPECT_FALSE(ours.redeem(others.next()));
  EXPECT_FALSE(ours.redeem(""));
  for (size_t i = 0; i < challenge.size(); ++i) {
    std::string changed = challenge;
    changed[i] = static_cast<char>(changed[i] ^ 1);
    EXPECT_FALSE(ours.redeem(changed)) << i;
    EXPECT_FALSE(ours.redeem(challenge.substr(0, i))) << i;
  }
  EXPECT_FALSE(ours.redeem(challenge + "x"));
  EXPECT_TRUE(ours.redeem(challenge));
}

TEST(ChallengesTest, OldOnesDoNotCount) {
  Challenges challenges("key of one process");
  const std::string first = challenges.next();
  const std::string second = challenges.next();
  for (uint64_t i = 1; i < Challenges::kWindow; ++i) challenges.next();
  EXPECT_FALSE(challenges.redeem(first));
  EXPECT_TRUE(challenges.redeem(second));
}

TEST(HandshakeTest, AProofIsOfOneRoleExchangeAndToken) {
  const Exchange exchange{.role = "worker", .challenge = "c", .nonce = "n"};
  std::set<std::string> proofs = {proof_of_asker("token", exchange), proof_of_asker("token2", exchange),
                                  proof_of_controller("token", exchange, "run"),
                                  proof_of_controller("token", exchange, "run2")};
  for (const Exchange& other :
       {Exchange{"ctl", "c", "n"}, Exchange{"worker", "c2", "n"}, Exchange{"worker", "c", "n2"}}) {
    proofs.insert(proof_of_asker("token", other));
    proofs.insert(proof_of_controller("token", other, "run"));
  }
  EXPECT_EQ(proofs.size(), 10U);
}

}  // namespace
}  // namespace scalai::executor::rpc::internal
