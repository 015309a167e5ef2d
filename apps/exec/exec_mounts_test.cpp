#include "apps/exec/exec_mounts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>
#include <vector>

#include "ptc/base/status.h"

namespace scalai::apps {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// What servers hear and the user is told. Shared: threads may outlive the test.
struct Received {
  std::mutex mutex;
  std::vector<std::string> requests, warnings;
  std::atomic<bool> hangs = false;

  std::vector<std::string> all_requests() {
    const std::lock_guard lock(mutex);
    return requests;
  }
  std::vector<std::string> all_warnings() {
    const std::lock_guard lock(mutex);
    return warnings;
  }
};

FollowOptions options(const std::shared_ptr<Received>& received) {
  return {.ask = [received](const std::string& directory, const std::string& request) -> absl::StatusOr<std::string> {
            while (received->hangs) std::this_thread::sleep_for(std::chrono::milliseconds(1));
            const std::lock_guard lock(received->mutex);
            received->requests.push_back(directory + ": " + request);
            if (directory == "/none") return missing("/none: nothing is mounted there");
            return "dp1/step-1";
          },
          .warn =
              [received](const std::string& line) {
                const std::lock_guard lock(received->mutex);
                received->warnings.push_back(line);
              },
          .patience_s = 0.05};
}

TEST(FollowedMounts, EachJobHasItsOwn) {
  const auto received = std::make_shared<Received>();
  FollowedMounts mounts({{0, "/a"}, {2, "/c"}}, options(received));
  mounts.follow(0, 4, 0);
  mounts.follow(1, 5, 1);  // has none
  mounts.follow(2, 6, 123);
  EXPECT_THAT(received->all_requests(), ElementsAre("/a: repartition dp=4 step=0", "/c: repartition dp=6 step=123"));
  EXPECT_THAT(received->all_warnings(), IsEmpty());
}

TEST(FollowedMounts, ARefusalIsAWarning) {
  const auto received = std::make_shared<Received>();
  FollowedMounts mounts({{0, "/none"}}, options(received));
  mounts.follow(0, 4, 0);
  EXPECT_THAT(received->all_warnings(), ElementsAre(HasSubstr("dataset/current stays: /none: nothing is mounted")));
}

TEST(FollowedMounts, AServerThatHangsHoldsNobodyUp) {
  const auto received = std::make_shared<Received>();
  {
    FollowedMounts mounts({{0, "/a"}}, options(received));
    received->hangs = true;
    mounts.follow(0, 4, 0);
    EXPECT_THAT(received->all_warnings(), ElementsAre(HasSubstr("/a: no answer within")));
    mounts.follow(0, 5, 10);
    mounts.follow(0, 6, 20);
    EXPECT_EQ(received->all_warnings().size(), 1u);
  }
  received->hangs = false;
  for (int i = 0; i < 5000 && received->all_requests().size() < 2; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_THAT(received->all_requests(), ElementsAre("/a: repartition dp=4 step=0", "/a: repartition dp=6 step=20"));
}

}  // namespace
}  // namespace scalai::apps
