// The fake through its C interface: what it refuses, where the communicators above rely on NCCL's refusing it.

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstring>
#include <thread>

#include "executor/nccl/testing/support.h"

namespace scalai::executor::nccl {
namespace {

class FakeNcclTest : public ::testing::Test {
 protected:
  const NcclApi& api_ = fake_nccl().api();

  NcclComm* begin(const NcclUniqueId& id, int rank, int size) const {
    NcclConfig config;
    NcclComm* comm = nullptr;
    EXPECT_EQ(api_.comm_init_rank_config(&comm, size, id, rank, &config), NcclResult::kInProgress);
    return comm;
  }
  NcclResult settled(NcclComm* comm) const {
    NcclResult state = NcclResult::kInProgress;
    for (const Deadline deadline = soon_enough(); std::chrono::steady_clock::now() < deadline;) {
      EXPECT_EQ(api_.comm_get_async_error(comm, &state), NcclResult::kSuccess);
      if (state != NcclResult::kInProgress) break;
      std::this_thread::sleep_for(milliseconds(1));
    }
    return state;
  }
  NcclResult recv(NcclComm* comm, void* into, size_t bytes, int peer) const {
    return api_.recv(into, bytes, NcclDataType::kUint8, peer, comm, nullptr);
  }
  NcclResult send(NcclComm* comm, const void* from, size_t bytes, int peer) const {
    return api_.send(from, bytes, NcclDataType::kUint8, peer, comm, nullptr);
  }
};

TEST_F(FakeNcclTest, RefusesWhatIsNoConfiguration) {
  const NcclUniqueId id = *make_unique_id(api_);
  NcclComm* comm = nullptr;
  const auto result = [&](const NcclConfig& config, int rank = 0) {
    NcclConfig copy = config;
    return api_.comm_init_rank_config(&comm, 1, id, rank, &copy);
  };
  NcclConfig bad;
  bad.magic = 1;
  EXPECT_EQ(result(bad), NcclResult::kInvalidArgument);
  bad = {};
  bad.size = 8;
  EXPECT_EQ(result(bad), NcclResult::kInvalidArgument);
  bad = {};
  bad.blocking = 1;
  EXPECT_EQ(result(bad), NcclResult::kInvalidArgument);
  EXPECT_EQ(result({}, 1), NcclResult::kInvalidArgument);
  EXPECT_EQ(comm, nullptr);
}

TEST_F(FakeNcclTest, OperationsOfAPairMatchInOrderAlsoAcrossGroups) {
  const NcclUniqueId id = *make_unique_id(api_);
  NcclComm* const a = begin(id, 0, 2);
  NcclComm* const b = begin(id, 1, 2);
  ASSERT_EQ(settled(a), NcclResult::kSuccess);
  ASSERT_EQ(settled(b), NcclResult::kSuccess);
  for (char c = 'a'; c < 'd'; ++c) {
    EXPECT_EQ(send(a, &c, 1, 1), NcclResult::kInProgress);
    EXPECT_EQ(settled(a), NcclResult::kSuccess) << "small ones are buffered";
  }
  std::string got = "...";
  EXPECT_EQ(api_.group_start(), NcclResult::kSuccess);
  for (char& c : got) EXPECT_EQ(recv(b, &c, 1, 0), NcclResult::kSuccess);
  EXPECT_EQ(api_.group_end(), NcclResult::kInProgress);
  EXPECT_EQ(settled(b), NcclResult::kSuccess);
  EXPECT_EQ(got, "abc");
  api_.comm_abort(a);
  const Deadline deadline = soon_enough();
  while (settled(b) == NcclResult::kSuccess && std::chrono::steady_clock::now() < deadline) continue;
  EXPECT_EQ(settled(b), NcclResult::kRemoteError);
  api_.comm_abort(b);
}

TEST_F(FakeNcclTest, NothingStartsBeforeTheLastIsDone) {
  const NcclUniqueId id = *make_unique_id(api_);
  NcclComm* const a = begin(id, 0, 2);
  char byte = 0;
  EXPECT_EQ(recv(a, &byte, 1, 1), NcclResult::kInvalidArgument) << "still joining";
  NcclComm* const b = begin(id, 1, 2);
  ASSERT_EQ(settled(a), NcclResult::kSuccess);
  EXPECT_EQ(recv(a, &byte, 1, 1), NcclResult::kInProgress);
  EXPECT_EQ(recv(a, &byte, 1, 1), NcclResult::kInvalidArgument);
  EXPECT_EQ(api_.comm_finalize(a), NcclResult::kInvalidArgument);
  EXPECT_EQ(recv(a, &byte, 1, 2), NcclResult::kInvalidArgument) << "no such peer";
  EXPECT_EQ(api_.group_end(), NcclResult::kInvalidUsage) << "outside of a group";
  api_.comm_abort(a);
  api_.comm_abort(b);
}

TEST_F(FakeNcclTest, ACommunicatorThatWasGivenBackEndsTheProcess) {
  NcclComm* const comm = begin(*make_unique_id(api_), 0, 1);
  api_.comm_abort(comm);
  NcclResult state = NcclResult::kSuccess;
  EXPECT_DEATH(api_.comm_get_async_error(comm, &state), "does not exist");
  EXPECT_DEATH(api_.comm_abort(comm), "does not exist");
}

}  // namespace
}  // namespace scalai::executor::nccl
