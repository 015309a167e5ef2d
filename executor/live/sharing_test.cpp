#include "executor/live/sharing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <thread>

#include "executor/controller/live_holders.h"
#include "executor/transport/loopback_transport.h"
#include "ptc/base/status.h"
#include "ptc/proto/control.pb.h"

namespace scalai::executor::live {
namespace sharing_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr int64_t kVersion = 9, kBytes = 64;

class Filled final : public Blocks::Source {
 public:
  explicit Filled(std::function<void(std::span<std::byte>)> fill) : fill_(std::move(fill)) {}
  absl::StatusOr<Blocks::From> fetch(int64_t, std::span<std::byte> dst) override {
    fill_(dst);
    return Blocks::From::kHolder;
  }

 private:
  const std::function<void(std::span<std::byte>)> fill_;
};

// Readers of one step, and a controller that says of each block whatever the test wants.
class SharingTest : public ::testing::Test {
 protected:
  struct Reader {
    Reader(SharingTest& test, uint64_t number)
        : transport(test.network_, [this](std::string_view request) { return served.answer(request); }),
          others({.reader = number,
                  .ask = [&test](const proto::CtlRequest& request) { return test.answer(request); },
                  .transport = &transport,
                  .patience_s = test.patience_s_,
                  .avoid_s = 3600}) {
      served.add(kVersion, blocks);
    }
    // Fetches a block whose bytes are all this, as a reader of the step does.
    void fill(int64_t number, char byte) {
      std::vector<std::byte> all(kBytes);
      Filled source([&](std::span<std::byte> dst) { std::fill(dst.begin(), dst.end(), static_cast<std::byte>(byte)); });
      ASSERT_TRUE(blocks->read(number, kBytes, 0, all, source).ok());
    }
    ServedBlocks served;
    transport::LoopbackTransport transport;
    OtherReaders others;
    std::shared_ptr<Blocks> blocks = std::make_shared<Blocks>(2 * kBytes, kBytes);
  };
  void SetUp() override {
    for (uint64_t number = 0; number < 3; ++number) readers_.push_back(std::make_unique<Reader>(*this, number));
  }
  absl::StatusOr<std::string> answer(const proto::CtlRequest& request) {
    asked_.push_back(request.live());
    SCALAI_RETURN_IF_ERROR(broken_);
    proto::LiveSources sources;
    sources.add_blocks();  // the others are at workers
    for (const uint64_t reader : named_) {
      sources.mutable_blocks(0)->add_sources(sources.sources_size());
      proto::LiveSources::Source& one = *sources.add_sources();
      one.set_reader(reader);
      one.set_transport_address(readers_[reader]->transport.address());
    }
    return sources.SerializeAsString();
  }
  // What reader 0 gets of the others, a byte of it; '-': nothing.
  char read(int64_t block, std::vector<int64_t> dropped = {}) {
    std::vector<std::byte> dst(kBytes);
    return get(*readers_[0], kVersion, block, dst, std::move(dropped)) ? static_cast<char>(dst.back()) : '-';
  }
  static bool get(Reader& reader, int64_t version, int64_t block, std::span<std::byte> dst,
                  std::vector<int64_t> dropped = {}) {
    const auto sources = reader.others.ask({.job = "a",
                                            .version = version,
                                            .blocks = {block, block + 1},
                                            .bytes = {std::ssize(dst), 1},
                                            .dropped = std::move(dropped)});
    EXPECT_EQ(sources.ok() ? sources->size() : 1U, 1U);
    return sources.ok() && reader.others.read(version, block, sources->front(), dst);
  }

  double patience_s_ = 60;
  transport::LoopbackNetwork network_;
  std::vector<std::unique_ptr<Reader>> readers_;
  std::vector<uint64_t> named_;
  std::vector<proto::CtlLive> asked_;
  absl::Status broken_;
};

TEST_F(SharingTest, ABlockComesFromTheFirstThatHasIt) {
  readers_[1]->fill(4, 'x');
  readers_[2]->fill(5, 'y');
  EXPECT_EQ(read(4, {1, 2}), '-') << "nobody is named";
  ASSERT_EQ(asked_.size(), 1U);
  EXPECT_EQ(asked_[0].job(), "a");
  EXPECT_EQ(asked_[0].touch().version(), kVersion);
  EXPECT_THAT(asked_[0].touch().blocks(), ElementsAre(4, 5));
  EXPECT_THAT(asked_[0].touch().bytes(), ElementsAre(kBytes, 1));
  EXPECT_THAT(asked_[0].touch().dropped(), ElementsAre(1, 2));
  named_ = {1, 2};
  EXPECT_EQ(read(4), 'x');
  EXPECT_EQ(read(5), 'y') << "the first one does not have it";
  EXPECT_EQ(read(6), '-');
  EXPECT_THAT(asked_.back().touch().unreached(), IsEmpty());
  EXPECT_EQ(readers_[0]->others.bytes_read(), 2 * kBytes);
  EXPECT_EQ(readers_[1]->served.bytes_given(), kBytes);
}

TEST_F(SharingTest, WhatIsNoLongerKeptIsNotGiven) {
  named_ = {1};
  for (const char byte : {'a', 'b', 'c'}) readers_[1]->fill(byte, byte);  // there is room for two
  EXPECT_EQ(read('a'), '-');
  EXPECT_EQ(read('c'), 'c');
  Blocks others(1, 1);
  readers_[1]->served.remove(kVersion, &others);
  EXPECT_EQ(read('c'), 'c') << "those were not served";
  readers_[1]->served.remove(kVersion, readers_[1]->blocks.get());
  EXPECT_EQ(read('c'), '-');
}

TEST_F(SharingTest, AReaderThatIsGoneIsAskedOnce) {
  named_ = {1, 2};
  readers_[1]->fill(4, 'x');
  readers_[2]->fill(4, 'y');
  network_.kill(readers_[1]->transport.address());
  EXPECT_EQ(read(4), 'y');
  EXPECT_EQ(read(4), 'y');
  EXPECT_THAT(asked_.back().touch().unreached(), ElementsAre(1)) << "the controller names others";
}

// Names of the transport, and so its connections, are as few as peers are remembered.
TEST_F(SharingTest, PeersAreForgotten) {
  constexpr uint64_t kMost = 2, kReaders = 6;
  std::set<int64_t> names;
  class Counting final : public transport::PeerTransport {
   public:
    Counting(transport::PeerTransport& inner, std::set<int64_t>& names) : inner_(inner), names_(names) {}
    std::string address() const override { return inner_.address(); }
    absl::Status connect(HostId peer, std::string_view address) override {
      names_.insert(peer.value);
      return inner_.connect(peer, address);
    }
    using transport::PeerTransport::fetch;
    absl::Status fetch(HostId peer, std::string_view request, std::span<const std::span<std::byte>> dst,
                       transport::Deadline deadline) override {
      return inner_.fetch(peer, request, dst, deadline);
    }
    void close() override { inner_.close(); }

   private:
    transport::PeerTransport& inner_;
    std::set<int64_t>& names_;
  } counting(readers_[0]->transport, names);
  OtherReaders others(
      {.reader = 0, .ask = {}, .transport = &counting, .patience_s = 60, .avoid_s = 3600, .most_peers = kMost});
  for (uint64_t number = 3; number < kReaders; ++number) readers_.push_back(std::make_unique<Reader>(*this, number));
  for (int round = 0; round < 2; ++round) {
    for (uint64_t number = 1; number < kReaders; ++number) {
      readers_[number]->fill(4, static_cast<char>('a' + number));
      std::vector<std::byte> dst(kBytes);
      EXPECT_TRUE(others.read(kVersion, 4, {{number, readers_[number]->transport.address()}}, dst)) << number;
      EXPECT_EQ(static_cast<char>(dst.back()), static_cast<char>('a' + number)) << "of the one that was asked";
    }
  }
  EXPECT_EQ(names.size(), kMost);
}

TEST_F(SharingTest, ABlockThatIsBeingFetchedIsWaitedFor) {
  named_ = {1};
  std::atomic<bool> fetching = false, go_on = false;
  std::thread slow([&] {
    std::vector<std::byte> all(kBytes);
    Filled source([&](std::span<std::byte> dst) {
      fetching = true;
      while (!go_on) std::this_thread::yield();
      std::fill(dst.begin(), dst.end(), static_cast<std::byte>('x'));
    });
    (void)readers_[1]->blocks->read(4, kBytes, 0, all, source);
  });
  while (!fetching) std::this_thread::yield();
  Reader hasty(
      *[&] {
        patience_s_ = 0.01;
        return this;
      }(),
      3);
  std::vector<std::byte> dst(kBytes);
  EXPECT_FALSE(get(hasty, kVersion, 4, dst)) << "but not for ever";
  std::thread goes_on([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    go_on = true;
  });
  EXPECT_EQ(read(4), 'x');
  goes_on.join();
  slow.join();
}

TEST_F(SharingTest, AControllerThatDoesNotAnswerIsLeftAlone) {
  named_ = {1};
  readers_[1]->fill(4, 'x');
  broken_ = absl::UnavailableError("gone");
  EXPECT_EQ(read(4), '-');
  broken_ = absl::OkStatus();
  EXPECT_EQ(read(4), '-');
  EXPECT_EQ(asked_.size(), 1U);
}

TEST(LineTo, WhoHasWaitedInVainIsToldAtOnce) {
  const AskController ask = line_to({.address = "127.0.0.1:1", .token = std::string(64, 'a')});
  EXPECT_THAT(std::string(ask({}).status().message()), Not(HasSubstr("a moment ago")));
  const absl::Status again = ask({}).status();
  EXPECT_TRUE(absl::IsUnavailable(again));
  EXPECT_THAT(std::string(again.message()), HasSubstr("did not answer a moment ago"));
}

TEST_F(SharingTest, ABlockOfAnotherSizeOrNoRequestIsRefused) {
  named_ = {1};
  readers_[1]->fill(4, 'x');
  std::vector<std::byte> dst(kBytes / 2);
  EXPECT_FALSE(get(*readers_[0], kVersion, 4, dst));
  EXPECT_EQ(read(4), 'x') << "it is no reason to avoid the reader";
  EXPECT_TRUE(absl::IsInvalidArgument(readers_[1]->served.answer("\xff\xff").status()));
  dst.resize(kBytes);
  EXPECT_FALSE(get(*readers_[0], kVersion + 1, 4, dst)) << "another step";
}

}  // namespace sharing_test
}  // namespace scalai::executor::live
