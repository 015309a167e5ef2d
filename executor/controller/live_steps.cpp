#include "executor/controller/live_steps.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <random>
#include <span>
#include <tuple>
#include <utility>

#include "ptc/base/status.h"
#include "ptc/proto/control.pb.h"

namespace scalai::executor::controller {

using state::StateVersion;

namespace {

constexpr int64_t kMostBlockBytes = int64_t{1} << 30;  // of a touch: far more than readers have
constexpr int64_t kMostBlocks = 1024;                  // of one touch: the same

// No two controllers of a run begin at the same number, so a version stands for one step.
int64_t random_start() {
  std::random_device random;
  return (static_cast<int64_t>(random() & 0x0fff'ffff) << 28) + static_cast<int64_t>(random() & 0x0fff'ffff);
}

}  // namespace

LiveSteps::LiveSteps(LiveLimits limits) : limits_(limits), next_(random_start()) {}
LiveSteps::~LiveSteps() = default;

absl::StatusOr<std::string> LiveSteps::answer(int job, const proto::CtlLive& request,
                                              const std::function<void()>& wake) {
  if (request.digest_bytes() != 0 && request.digest_bytes() < limits_.least_digest_bytes)
    return invalid(
        fmt::format("digests are of {} bytes at least, not {}", limits_.least_digest_bytes, request.digest_bytes()));
  std::unique_lock lock(mutex_);
  if (request.has_touch() && over_) return absl::UnavailableError("the run is over");
  if (request.has_touch()) return sources(request.reader(), request.touch());
  proto::LiveState reply;
  Reader& reader = readers_[request.reader()];
  reader.last_asked = Clock::now();
  reader.keeps.clear();
  for (const int64_t version : request.keeps()) {
    if (shown_.contains(version)) {
      reader.keeps.insert(version);
    } else {
      reply.add_gone(version);
    }
  }
  holders_.note_reader(request.reader(), {.machine = request.host_name(), .address = request.transport_address()},
                       reader.keeps);
  if (over_) return absl::UnavailableError("the run is over");
  if (!request.wants()) return reply.SerializeAsString();
  if (request.version() != 0) {
    const auto kept = shown_.find(request.version());
    if (kept == shown_.end() || kept->second.job != job || kept->second.kind.stats)
      return missing(fmt::format("no reader keeps step number {} of this job", request.version()));
    reader.keeps.insert(request.version());
    return whole(kept->second, reply);
  }
  const auto mine = waiting_.insert(waiting_.end(), Waiting{.job = job,
                                                            .reader = request.reader(),
                                                            .kind = {.optimizer = request.optimizer(),
                                                                     .fleeting = request.fleeting(),
                                                                     .digest_bytes = request.digest_bytes(),
                                                                     .stats = request.stats()},
                                                            .after_step = request.after_step()});
  lock.unlock();
  wake();
  lock.lock();
  served_.wait_for(lock, std::chrono::duration<double>(limits_.patience_s), [&] { return mine->done || over_; });
  const Waiting served = *mine;
  waiting_.erase(mine);
  if (!served.done && !over_) return reply.SerializeAsString();
  SCALAI_RETURN_IF_ERROR(served.version.status());
  const auto found = shown_.find(*served.version);
  if (found == shown_.end()) return reply.SerializeAsString();  // the reader has said since that it keeps others
  return whole(found->second, reply);
}

std::string LiveSteps::whole(const Shown& shown, const proto::LiveState& reply) {
  proto::LiveState full = *shown.state;
  full.set_ready(true);
  *full.mutable_gone() = reply.gone();
  return full.SerializeAsString();
}

std::string LiveSteps::sources(uint64_t reader, const proto::LiveTouch& touch) {
  proto::LiveSources reply;
  const auto found = readers_.find(reader);
  if (found == readers_.end() || !found->second.keeps.contains(touch.version())) return reply.SerializeAsString();
  const auto wrong = [](int64_t bytes) { return bytes < 0 || bytes > kMostBlockBytes; };
  if (touch.blocks_size() != touch.bytes_size() || touch.bytes_size() > kMostBlocks ||
      std::any_of(touch.bytes().begin(), touch.bytes().end(), wrong))
    return reply.SerializeAsString();
  const auto shown = shown_.find(touch.version());
  if (shown != shown_.end()) {
    const auto keeps = [&](const auto& entry) { return entry.second.keeps.contains(touch.version()); };
    holders_.expect(touch.version(), shown->second.state->peers_size(),
                    std::count_if(readers_.begin(), readers_.end(), keeps));
  }
  std::map<uint64_t, int> told;  // where a reader is in the reply
  const auto all = [](const auto& field) { return std::span(field.data(), static_cast<size_t>(field.size())); };
  std::span<const int64_t> dropped = all(touch.dropped());
  for (int i = 0; i < touch.blocks_size(); ++i) {
    proto::LiveSources::Block& block = *reply.add_blocks();
    for (LiveHolders::Source& one : holders_.touch(reader, {touch.version(), touch.blocks(i), touch.bytes(i)},
                                                   std::exchange(dropped, {}), all(touch.unreached()))) {
      const auto [at, is_new] = told.emplace(one.reader, reply.sources_size());
      block.add_sources(at->second);
      if (!is_new) continue;
      proto::LiveSources::Source& source = *reply.add_sources();
      source.set_reader(one.reader);
      source.set_transport_address(std::move(one.address));
    }
  }
  return reply.SerializeAsString();
}

void LiveSteps::end() {
  const std::lock_guard lock(mutex_);
  over_ = true;
  served_.notify_all();
}

bool LiveSteps::waits(int job) const {
  const std::lock_guard lock(mutex_);
  return std::any_of(waiting_.begin(), waiting_.end(), [&](const Waiting& one) { return one.job == job && !one.done; });
}

bool LiveSteps::watched(int job) const {
  const std::lock_guard lock(mutex_);
  const bool kept =
      std::any_of(shown_.begin(), shown_.end(), [&](const auto& entry) { return entry.second.job == job; });
  return kept || std::any_of(waiting_.begin(), waiting_.end(), [&](const Waiting& one) { return one.job == job; });
}

bool LiveSteps::is_kept(int64_t version) const {
  return std::any_of(readers_.begin(), readers_.end(),
                     [&](const auto& entry) { return entry.second.keeps.contains(version); });
}

// Without the lock while it is shown: the run's thread alone adds and takes away.
absl::StatusOr<int64_t> LiveSteps::version_for(const Waiting& waiting, int64_t epoch, int64_t step, const Show& show) {
  size_t of_job = 0;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [version, one] : shown_) {
      if (one.job != waiting.job) continue;
      of_job += !one.kind.stats && is_kept(version) ? 1 : 0;  // statistics take no memory of hosts
      if (one.epoch == epoch && one.step == step && !one.lost && one.kind.serves(waiting.kind)) return version;
    }
    if (!waiting.kind.stats && of_job >= limits_.most)
      return absl::ResourceExhaustedError(fmt::format(
          "readers keep {} steps of this job already\nhint: they are let go when nothing of them is open", of_job));
  }
  const StateVersion version = StateVersion::live(next_++);
  SCALAI_ASSIGN_OR_RETURN(proto::LiveState state, show(version, waiting.kind));
  const std::lock_guard lock(mutex_);
  shown_[version.wire()] = {.job = waiting.job,
                            .epoch = epoch,
                            .step = step,
                            .kind = waiting.kind,
                            .state = std::make_unique<proto::LiveState>(std::move(state))};
  return version.wire();
}

// What has most and stays serves the others, so it comes first.
absl::Status LiveSteps::serve(int job, int64_t epoch, int64_t step, const Show& show) {
  absl::Status result;
  const auto next = [&]() -> std::optional<Waiting> {
    const std::lock_guard lock(mutex_);
    std::optional<Waiting> best;
    const auto rank = [](const Kind& kind) { return std::tuple(kind.optimizer, !kind.fleeting, kind.digest_bytes); };
    for (const Waiting& one : waiting_) {
      if (one.job != job || one.done || one.after_step >= step) continue;
      if (!best || rank(one.kind) > rank(best->kind)) best = one;
    }
    return best;
  };
  while (const std::optional<Waiting> wish = next()) {
    const absl::StatusOr<int64_t> version = version_for(*wish, epoch, step, show);
    result.Update(version.status());
    const std::lock_guard lock(mutex_);
    for (Waiting& one : waiting_) {
      if (one.job != job || one.done || one.after_step >= step || one.kind != wish->kind) continue;
      one.done = true;
      one.version = version;
      if (version.ok()) readers_[one.reader].keeps.insert(*version);
    }
    served_.notify_all();
  }
  return result;
}

void LiveSteps::lose_fleeting(int job) {
  const std::lock_guard lock(mutex_);
  for (auto& [version, one] : shown_) one.lost = one.lost || (one.job == job && one.kind.fleeting);
}

std::vector<StateVersion> LiveSteps::take_unkept(int job) {
  const std::lock_guard lock(mutex_);
  const auto oldest = Clock::now() - std::chrono::duration<double>(limits_.forget_after_s);
  std::erase_if(readers_, [&](const auto& entry) {
    if (entry.second.last_asked >= oldest) return false;
    holders_.remove(entry.first);
    return true;
  });
  std::vector<StateVersion> unkept;
  std::erase_if(shown_, [&](const auto& entry) {
    if (entry.second.job != job || is_kept(entry.first)) return false;
    const auto version = StateVersion::from_wire(entry.first);
    SCALAI_CHECK(version.ok());
    unkept.push_back(*version);
    holders_.forget(entry.first);
    return true;
  });
  return unkept;
}

}  // namespace scalai::executor::controller
