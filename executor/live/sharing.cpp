#include "executor/live/sharing.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "ptc/base/status.h"
#include "ptc/proto/control.pb.h"

namespace scalai::executor::live {
namespace {

constexpr int64_t kFirstReader = int64_t{1} << 20;  // names of readers for the transport come after those of hosts
constexpr double kFetch_s = 3;                      // one block
constexpr double kLine_s = 5;                       // a controller that hangs costs a reader so much
constexpr double kQuietMost_s = 60;                 // then it is not asked for a while: 5 s, doubling to this
constexpr double kFirstPause_s = 0.001, kLongestPause_s = 0.016;

std::chrono::steady_clock::duration duration(double seconds) {
  return std::chrono::duration_cast<std::chrono::steady_clock::duration>(std::chrono::duration<double>(seconds));
}

}  // namespace

absl::StatusOr<transport::Payload> ServedBlocks::answer(std::string_view request) {
  proto::LiveBlock wanted;
  if (!wanted.ParseFromArray(request.data(), static_cast<int>(request.size())))
    return invalid("a peer sent a malformed request");
  std::shared_ptr<Blocks> blocks;
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = blocks_.find(wanted.version()); found != blocks_.end()) blocks = found->second;
  }
  if (blocks == nullptr) return absl::NotFoundError("this reader keeps no such step");
  Blocks::Found found = blocks->find(wanted.block());
  if (found.coming) return absl::AbortedError("this reader is fetching the block");
  if (found.owner == nullptr) return absl::NotFoundError("this reader does not have the block");
  bytes_given_ += std::ssize(found.bytes);
  return transport::Payload::of({found.bytes}, std::move(found.owner));
}

void ServedBlocks::add(int64_t version, std::shared_ptr<Blocks> blocks) {
  const std::lock_guard lock(mutex_);
  blocks_[version] = std::move(blocks);
}

void ServedBlocks::remove(int64_t version, const Blocks* blocks) {
  const std::lock_guard lock(mutex_);
  const auto found = blocks_.find(version);
  if (found != blocks_.end() && found->second.get() == blocks) blocks_.erase(found);
}

AskController line_to(const rpc::CtlTarget& target) {
  struct Line {
    std::mutex mutex;
    std::unique_ptr<rpc::CtlLine> open;
    transport::Deadline renewed_at, quiet_until;
    double quiet_s = kLine_s;
  };
  rpc::CtlTarget brief = target;
  brief.timeout_s = kLine_s;
  return [brief, line = std::make_shared<Line>()](const proto::CtlRequest& request) -> absl::StatusOr<std::string> {
    const std::lock_guard lock(line->mutex);
    const transport::Deadline now = std::chrono::steady_clock::now();
    if (now < line->quiet_until) return absl::UnavailableError("the controller did not answer a moment ago");
    absl::StatusOr<std::string> answer = absl::UnavailableError("not asked");
    if (line->open == nullptr || now >= line->renewed_at) {
      line->open.reset();
      auto open = rpc::CtlLine::open(brief);
      if (open.ok()) {
        line->open = *std::move(open);
      } else {
        answer = open.status();
      }
      line->renewed_at = now + duration(kLine_s / 2);  // the other half is for the last answer
    }
    if (line->open != nullptr) answer = line->open->ask(request);
    if (answer.ok()) {
      line->quiet_s = kLine_s;
    } else {  // whoever waits here for the line is not to wait for as long again
      line->open.reset();
      line->quiet_until = std::chrono::steady_clock::now() + duration(line->quiet_s);
      line->quiet_s = std::min(2 * line->quiet_s, kQuietMost_s);
    }
    return answer;
  };
}

absl::StatusOr<std::vector<OtherReaders::Sources>> OtherReaders::ask(const Wanted& wanted) {
  proto::CtlRequest request;
  request.mutable_live()->set_job(wanted.job);
  request.mutable_live()->set_reader(options_.reader);
  proto::LiveTouch& touch = *request.mutable_live()->mutable_touch();
  touch.set_version(wanted.version);
  *touch.mutable_blocks() = {wanted.blocks.begin(), wanted.blocks.end()};
  *touch.mutable_bytes() = {wanted.bytes.begin(), wanted.bytes.end()};
  *touch.mutable_dropped() = {wanted.dropped.begin(), wanted.dropped.end()};
  {
    const std::lock_guard lock(mutex_);
    const Clock::time_point now = Clock::now();
    if (now < quiet_until_) return absl::UnavailableError("the controller did not answer a moment ago");
    for (const auto& [reader, peer] : peers_) {
      if (now < peer.avoid_until) touch.add_unreached(reader);
    }
  }
  ++questions_;
  const absl::StatusOr<std::string> answer = options_.ask(request);
  proto::LiveSources told;
  if (!answer.ok() || !told.ParseFromString(*answer)) {
    const std::lock_guard lock(mutex_);
    quiet_until_ = Clock::now() + duration(options_.avoid_s / 6);
    return absl::UnavailableError("the controller does not answer");
  }
  std::vector<Sources> blocks;
  for (const proto::LiveSources::Block& block : told.blocks()) {
    Sources& sources = blocks.emplace_back();
    for (const int32_t at : block.sources()) {
      if (at < 0 || at >= told.sources_size()) continue;
      sources.push_back({told.sources(at).reader(), told.sources(at).transport_address()});
    }
  }
  return blocks;
}

// A name for the transport; its connection to whoever had it is replaced then.
HostId OtherReaders::free_name() {
  if (peers_.size() < options_.most_peers) return HostId(kFirstReader + std::ssize(peers_));
  const auto oldest = std::min_element(peers_.begin(), peers_.end(),
                                       [](const auto& a, const auto& b) { return a.second.used < b.second.used; });
  const HostId name = oldest->second.host;
  peers_.erase(oldest);
  return name;
}

std::optional<HostId> OtherReaders::connected(const Source& source) {
  const std::lock_guard lock(mutex_);
  if (!peers_.contains(source.reader)) {
    const HostId name = free_name();
    peers_[source.reader] = {.host = name};
  }
  Peer& peer = peers_.at(source.reader);
  peer.used = Clock::now();
  if (!peer.connected && !options_.transport->connect(peer.host, source.address).ok()) {
    peer.avoid_until = Clock::now() + duration(options_.avoid_s);
    return std::nullopt;
  }
  peer.connected = true;
  return peer.host;
}

void OtherReaders::avoid(uint64_t reader) {
  const std::lock_guard lock(mutex_);
  const auto found = peers_.find(reader);
  if (found == peers_.end()) return;  // others were asked since
  found->second.connected = false;
  found->second.avoid_until = Clock::now() + duration(options_.avoid_s);
}

bool OtherReaders::read_from(const Source& source, const std::string& request, std::span<std::byte> dst) {
  const std::optional<HostId> host = connected(source);
  if (!host) return false;
  const Clock::time_point until = Clock::now() + duration(options_.patience_s);
  for (double pause_s = kFirstPause_s;; pause_s = std::min(2 * pause_s, kLongestPause_s)) {
    const absl::Status read = options_.transport->fetch(*host, request, dst, Clock::now() + duration(kFetch_s));
    if (read.ok()) return true;
    if (absl::IsUnavailable(read) || absl::IsDeadlineExceeded(read)) avoid(source.reader);
    if (!absl::IsAborted(read) || Clock::now() >= until) return false;
    std::this_thread::sleep_for(std::chrono::duration<double>(pause_s));
  }
}

bool OtherReaders::read(int64_t version, int64_t number, const Sources& sources, std::span<std::byte> dst) {
  proto::LiveBlock wanted;
  wanted.set_version(version);
  wanted.set_block(number);
  const std::string request = wanted.SerializeAsString();
  for (const Source& source : sources) {
    if (!read_from(source, request, dst)) continue;
    bytes_read_ += std::ssize(dst);
    return true;
  }
  return false;
}

}  // namespace scalai::executor::live
