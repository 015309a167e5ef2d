#include "executor/rpc/internal/front.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "executor/rpc/internal/party.h"
#include "executor/rpc/testing/test_rig.h"

namespace scalai::executor::rpc::internal {
namespace {

using ::testing::ElementsAre;
using testing::eventually;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A front, and the server behind it, which keeps what it gets until that is closed.
class FrontTest : public ::testing::Test {
 protected:
  void start(size_t most, double patience_s = 600) {
    Listening listening = listen_on("127.0.0.1:0").value();
    port_ = listening.port;
    front_ = std::make_unique<Front>(std::move(listening), Front::Options{.most = most,
                                                                          .patience_s = patience_s,
                                                                          .hand_over = [this](int fd) { take(fd); },
                                                                          .log =
                                                                              [this](const std::string& line) {
                                                                                const std::lock_guard lock(mutex_);
                                                                                log_.push_back(line);
                                                                              }});
    ASSERT_TRUE(front_->start().ok());
  }
  void TearDown() override {
    if (front_ != nullptr) front_->stop();
  }
  size_t taken() {
    const std::lock_guard lock(mutex_);
    return taken_.size();
  }
  FileDescriptor connect() const {
    FileDescriptor one(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_TRUE(connect(one.get()));
    return one;
  }
  bool connect(int fd) const {
    sockaddr_in there{};
    there.sin_family = AF_INET;
    there.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    there.sin_port = htons(static_cast<uint16_t>(port_));
    return ::connect(fd, reinterpret_cast<const sockaddr*>(&there), sizeof(there)) == 0;
  }
  // One after the other, so that the order in which they are accepted is known.
  std::vector<FileDescriptor> connect_each(size_t count) {
    std::vector<FileDescriptor> all;
    for (size_t i = 0; i < count; ++i) {
      const size_t before = taken();
      all.push_back(connect());
      EXPECT_TRUE(eventually([&] { return taken() == before + 1; }));
    }
    return all;
  }
  // Whether the front has closed it.
  static bool is_closed(const FileDescriptor& one) {
    pollfd asked{.fd = one.get(), .events = POLLRDHUP, .revents = 0};
    return ::poll(&asked, 1, 0) == 1;
  }
  static std::ptrdiff_t open_of(const std::vector<FileDescriptor>& all) {
    return std::count_if(all.begin(), all.end(), [](const FileDescriptor& one) { return !is_closed(one); });
  }
  // What gRPC calls the caller at our end.
  static std::string name_of(const FileDescriptor& one) {
    sockaddr_in own{};
    socklen_t length = sizeof(own);
    ::getsockname(one.get(), reinterpret_cast<sockaddr*>(&own), &length);
    return fmt::format("ipv4:127.0.0.1:{}", ntohs(own.sin_port));
  }

  std::unique_ptr<Front> front_;
  std::mutex mutex_;
  std::vector<std::string> log_;
  int port_ = 0;

 private:
  void take(int fd) {
    const std::lock_guard lock(mutex_);
    taken_.emplace_back(fd);
  }
  std::vector<FileDescriptor> taken_;
};

TEST_F(FrontTest, TheOldestOfTooManyAreClosed) {
  start(8);
  const std::vector<FileDescriptor> all = connect_each(10);
  EXPECT_TRUE(eventually([&] { return open_of(all) == 4; })) << "half of what all may have";
  for (size_t i = 0; i < all.size(); ++i) EXPECT_EQ(is_closed(all[i]), i < 6) << i;
  EXPECT_THAT(log_, ElementsAre(HasSubstr("holds 4 connections without a proof of the token"))) << "told once";
}

TEST_F(FrontTest, WhoHasProvenStays) {
  start(4);
  std::vector<FileDescriptor> proven = connect_each(1);
  front_->admit(peer_of(name_of(proven[0])));
  proven.push_back(std::move(connect_each(1).front()));
  front_->admit(peer_of(name_of(proven[1])));
  const std::vector<FileDescriptor> others = connect_each(6);
  EXPECT_TRUE(eventually([&] { return open_of(others) == 2; }));
  EXPECT_EQ(open_of(proven), 2);
}

TEST_F(FrontTest, WhoProvesNothingGoesInTime) {
  start(40, 0.05);
  const std::vector<FileDescriptor> all = connect_each(3);
  EXPECT_TRUE(eventually([&] { return open_of(all) == 0; }));
  EXPECT_THAT(log_, IsEmpty());
}

// Without a word from it its place is free at once.
TEST_F(FrontTest, WhoLeavesMakesRoom) {
  start(40);
  const std::vector<FileDescriptor> first = connect_each(1);
  for (int i = 0; i < 60; ++i) {
    const std::vector<FileDescriptor> leaves = connect_each(1);
    ASSERT_EQ(::shutdown(leaves[0].get(), SHUT_RDWR), 0);
  }
  EXPECT_EQ(open_of(first), 1);
}

// On loopback users are parties, as the kernel knows them: the many connections of one cost another one nothing.
TEST_F(FrontTest, AnotherUserIsNotCrowdedOut) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can be two users";
  start(8);
  const std::vector<FileDescriptor> ours = connect_each(2);
  const pid_t other = ::fork();
  if (other == 0) {
    if (::setuid(65534) != 0) ::_exit(1);
    for (int i = 0; i < 40; ++i) {
      if (!connect(::socket(AF_INET, SOCK_STREAM, 0))) ::_exit(2);
    }
    ::pause();
  }
  EXPECT_TRUE(eventually([&] { return taken() == 42; }));
  EXPECT_EQ(open_of(ours), 2);
  ::kill(other, SIGKILL);
  int status = 0;
  ::waitpid(other, &status, 0);
  EXPECT_TRUE(WIFSIGNALED(status)) << "it could not connect: " << status;
  EXPECT_THAT(log_, ElementsAre(HasSubstr("user 65534 holds 4 connections")));
}

// gRPC's own listener never accepts again.
TEST_F(FrontTest, AcceptsAgainWhenThereAreDescriptors) {
  start(8);
  const FileDescriptor comes(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{.rlim_cur = static_cast<rlim_t>(comes.get()) + 1, .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  EXPECT_TRUE(connect(comes.get())) << "into the backlog";
  EXPECT_TRUE(eventually([&] {
    const std::lock_guard lock(mutex_);
    return log_.size() == 1;
  }));
  EXPECT_EQ(taken(), 0U);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_TRUE(eventually([&] { return taken() == 1; }));
  EXPECT_THAT(log_, ElementsAre(HasSubstr("Too many open files")));
}

TEST(PeerOf, ReadsGrpcsNames) {
  EXPECT_EQ(peer_of("ipv4:10.0.0.7:4711"), "10.0.0.7:4711");
  EXPECT_EQ(peer_of("ipv6:%5B::1%5D:80"), "::1:80");
  EXPECT_EQ(peer_of("ipv6:[fe80::1%25eth0]:80"), "fe80::1:80");
  EXPECT_EQ(peer_of("ipv6:%5Bfe80::1%25eth0%5D:80"), "fe80::1:80");
}

}  // namespace
}  // namespace scalai::executor::rpc::internal
