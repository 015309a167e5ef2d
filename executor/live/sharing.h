#pragma once
// Sharing: what readers of a step have for each other. Each serves the blocks that it keeps; who has which is known to
// the controller (executor/controller/live_holders.h), which every reader asks before it fetches blocks.
//
//   OtherReaders.ask(blocks) ── LiveTouch ──► controller          of another reader:
//                           ◄── LiveSources ─┘
//   OtherReaders.read(block) ── LiveBlock, by the PeerTransport ──► ServedBlocks.answer ──► Blocks.find
//
// All of it may fail at no harm: what no reader gives is read from workers. A version is one step for ever, so a block
// of another reader is never of another step.

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "executor/live/blocks.h"
#include "executor/rpc/ctl.h"
#include "executor/transport/peer_transport.h"

namespace scalai::executor::live {

// The steps whose blocks other readers get. Any thread.
class ServedBlocks {
 public:
  // The transport's handler. Errors: NotFound (the block is not here), Aborted (it is being fetched: ask again),
  // InvalidArgument.
  absl::StatusOr<transport::Payload> answer(std::string_view request);
  void add(int64_t version, std::shared_ptr<Blocks> blocks);
  // If it is still these that are served.
  void remove(int64_t version, const Blocks* blocks);
  int64_t bytes_given() const { return bytes_given_; }

 private:
  std::mutex mutex_;
  std::map<int64_t, std::shared_ptr<Blocks>> blocks_;  // by version
  std::atomic<int64_t> bytes_given_ = 0;
};

using AskController = std::function<absl::StatusOr<std::string>(const proto::CtlRequest& request)>;
// Over one connection after another. Any thread; requests wait for each other.
AskController line_to(const rpc::CtlTarget& target);

// Any thread.
class OtherReaders {
 public:
  struct Options {
    uint64_t reader = 0;  // this one
    AskController ask;    // an answer within seconds, or an error
    transport::PeerTransport* transport = nullptr;
    double patience_s = 1;   // for a block that another reader is fetching
    double avoid_s = 30;     // a reader that does not answer; the controller a sixth of that
    size_t most_peers = 64;  // that are remembered, and connected
  };
  explicit OtherReaders(Options options) : options_(std::move(options)) {}

  struct Source {
    uint64_t reader = 0;
    std::string address;
  };
  using Sources = std::vector<Source>;  // of a block, in the order of asking
  // Tells the controller that this reader has the blocks from now on, and `dropped` no more. Their sources, one after
  // another; those that lack have none. Unavailable: it was not told.
  struct Wanted {
    std::string job;
    int64_t version = 0;
    std::vector<int64_t> blocks, bytes;  // bytes of each
    std::vector<int64_t> dropped;
  };
  absl::StatusOr<std::vector<Sources>> ask(const Wanted& wanted);
  // False: no reader gives the block, `dst` is undefined.
  bool read(int64_t version, int64_t number, const Sources& sources, std::span<std::byte> dst);
  int64_t bytes_read() const { return bytes_read_; }
  int64_t questions() const { return questions_; }  // to the controller

 private:
  using Clock = std::chrono::steady_clock;
  struct Peer {
    HostId host;  // its name for the transport
    bool connected = false;
    Clock::time_point avoid_until = {}, used = {};
  };
  std::optional<HostId> connected(const Source& source);
  HostId free_name();
  bool read_from(const Source& source, const std::string& request, std::span<std::byte> dst);
  void avoid(uint64_t reader);

  const Options options_;
  std::mutex mutex_;  // guards what follows, but for the counters
  std::map<uint64_t, Peer> peers_;
  Clock::time_point quiet_until_ = {};  // the controller did not answer
  std::atomic<int64_t> bytes_read_ = 0, questions_ = 0;
};

}  // namespace scalai::executor::live
