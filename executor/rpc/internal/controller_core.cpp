#include "executor/rpc/internal/controller_core.h"

#include <fmt/format.h>

#include <algorithm>

#include "executor/state/state_version.h"
#include "ptc/base/status.h"
#include "ptc/base/version.h"
#include "ptc/proto/control.pb.h"

namespace scalai::executor::rpc::internal {

Clock::duration seconds(double value) {
  constexpr double kDay = 86400;
  return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(std::clamp(value, 0.0, kDay)));
}

absl::Status status_of(const Refusal& refusal) {
  return refusal.retry ? absl::UnavailableError(refusal.reason)
                       : absl::FailedPreconditionError("the controller refused this worker: " + refusal.reason);
}

absl::Status ControllerCore::check(const ControllerOptions& options) {
  constexpr int64_t kLargest = (int64_t{1} << 31) - (1 << 20);  // Protobuf's limit, less what is around a body
  if (options.run_id.empty()) return invalid("the controller's run id is empty");
  if (options.epoch < 1) return invalid(fmt::format("a controller's epoch is at least 1, not {}", options.epoch));
  if (!(options.heartbeat_s > 0) || options.missed_heartbeats < 1) {
    return invalid("heartbeats need an interval above 0 and at least one that may be missed");
  }
  if (options.max_message_bytes < 1 || options.max_message_bytes > kLargest) {
    return invalid(fmt::format("max_message_bytes is {}, not from 1 to {}", options.max_message_bytes, kLargest));
  }
  return absl::OkStatus();
}

std::optional<int32_t> ControllerCore::free_host() const {
  const auto in_run = [&](int32_t host) { return options_.hosts == 0 || host < options_.hosts; };
  // One that was never used first: the worker of a used one may come back.
  int32_t fresh = options_.first_host;
  while (used_hosts_.count(fresh) != 0) ++fresh;
  if (in_run(fresh)) return fresh;
  for (const int32_t host : used_hosts_) {
    if (members_.count(host) == 0) return host;
  }
  return std::nullopt;
}

std::optional<Refusal> ControllerCore::refusal_of(const proto::Hello& hello) const {
  if (hello.protocol_version() != kProtocolVersion || hello.build_version() != kVersion) {
    return Refusal{fmt::format("the worker is version {} (protocol {}), the controller {} (protocol {})",
                               hello.build_version(), hello.protocol_version(), kVersion, kProtocolVersion)};
  }
  for (const proto::HeldState& held : hello.held()) {
    if (const auto version = state::StateVersion::from_wire(held.version()); !version.ok())
      return Refusal{message_of(version.status())};
  }
  if (!hello.run_id().empty() && hello.run_id() != options_.run_id) {
    return Refusal{fmt::format("the worker belongs to run '{}', this is '{}'", hello.run_id(), options_.run_id)};
  }
  if (hello.controller_epoch() > options_.epoch) {
    return Refusal{fmt::format("the worker has served controller epoch {}, this one is older: {}",
                               hello.controller_epoch(), options_.epoch)};
  }
  const bool too_low = hello.host() != -1 && hello.host() < options_.first_host;
  if (too_low || (options_.hosts > 0 && hello.host() >= options_.hosts)) {
    return Refusal{fmt::format("there is no host {}: this run has {}{}", hello.host(),
                               options_.hosts - options_.first_host,
                               options_.first_host > 0 ? fmt::format(", from {} on", options_.first_host) : "")};
  }
  const auto member = members_.find(hello.host());
  if (member != members_.end() && member->second.hello->instance() != hello.instance()) {
    const proto::Hello& other = *member->second.hello;
    return Refusal{fmt::format("host {} has a worker: process {} on {}", hello.host(), other.pid(), other.host_name()),
                   true};
  }
  if (hello.host() == -1 && !free_host().has_value()) {
    return Refusal{fmt::format("all {} hosts have a worker", options_.hosts - options_.first_host), true};
  }
  return std::nullopt;
}

std::optional<Refusal> ControllerCore::join(const proto::Hello& hello, const std::shared_ptr<Link>& link) {
  const Lock lock(mutex_);
  if (std::optional<Refusal> refusal = refusal_of(hello)) return refusal;
  const int32_t host = hello.host() == -1 ? free_host().value() : hello.host();
  if (members_.count(host) != 0) remove(host, "its worker connected again", false);
  proto::Welcome welcome;
  welcome.set_run_id(options_.run_id);
  welcome.set_host(host);
  welcome.set_controller_epoch(options_.epoch);
  welcome.set_heartbeat_s(options_.heartbeat_s);
  welcome.set_missed_heartbeats(options_.missed_heartbeats);
  welcome.set_max_message_bytes(options_.max_message_bytes);
  link->welcome(welcome);
  Member& member = members_[host];
  member = {std::make_shared<const proto::Hello>(hello), link, ++last_session_};
  used_hosts_.insert(host);
  events_.push_back(WorkerJoined{.host = host, .hello = member.hello, .session = member.session});
  if (dismissed_.has_value()) link->goodbye(*dismissed_);
  changed_.notify_all();
  return std::nullopt;
}

void ControllerCore::remove(int32_t host, const std::string& reason, bool clean) {
  const auto member = members_.find(host);
  SCALAI_CHECK(member != members_.end());
  member->second.link->close(reason, clean);
  events_.push_back(WorkerLost{.host = host, .reason = reason, .clean = clean, .session = member->second.session});
  members_.erase(member);
  if (!clean) ++losses_[host];
  for (const auto& [other, left] : members_) left.link->departed(host);
  std::vector<std::pair<int64_t, std::string>> unanswered;
  for (const auto& [id, pending] : pending_) {
    if (pending.host == host && !pending.result.has_value()) unanswered.emplace_back(id, pending.what);
  }
  for (const auto& [id, what] : unanswered) {
    complete(id,
             absl::UnavailableError(fmt::format("host {} was lost before it answered '{}': {}", host, what, reason)));
  }
  changed_.notify_all();
}

void ControllerCore::lost(const Link* link, const std::string& reason, bool clean) {
  const Lock lock(mutex_);
  for (const auto& [host, member] : members_) {
    if (member.link.get() != link) continue;
    remove(host, reason, clean);
    return;
  }
}

void ControllerCore::cut(int32_t host, const std::string& reason) {
  const Lock lock(mutex_);
  if (members_.count(host) != 0) remove(host, reason, false);
}

void ControllerCore::dismiss(const std::string& reason, double timeout_s) {
  Lock lock(mutex_);
  dismissed_ = reason;
  for (const auto& [host, member] : members_) member.link->goodbye(reason);
  const TimePoint until = now() + seconds(timeout_s);
  while (!members_.empty() && now() < until) wait(lock, until);
}

std::vector<WorkerJoined> ControllerCore::workers() const {
  const Lock lock(mutex_);
  std::vector<WorkerJoined> joined;
  for (const auto& [host, member] : members_)
    joined.push_back({.host = host, .hello = member.hello, .session = member.session});
  return joined;
}

std::optional<Event> ControllerCore::next_event(double timeout_s) {
  Lock lock(mutex_);
  const TimePoint until = now() + seconds(timeout_s);
  while (true) {
    expire();
    if (!events_.empty()) break;
    if (now() >= until) return std::nullopt;
    wait(lock, next_deadline(until));
  }
  Event event = std::move(events_.front());
  events_.pop_front();
  return event;
}

void ControllerCore::notify(std::string text) {
  const Lock lock(mutex_);
  events_.push_back(Note{std::move(text)});
  changed_.notify_all();
}

int64_t ControllerCore::begin(int32_t host, Command command, double deadline_s, bool awaited) {
  SCALAI_CHECK(command.id >= 0 && command.id < next_id_, "a repeated command has an id that was given out");
  SCALAI_CHECK(pending_.count(command.id) == 0, "a command is repeated while it still waits for its outcome");
  command.id = command.id == 0 ? next_id_++ : command.id;
  command.controller_epoch = options_.epoch;
  command.deadline_s = deadline_s;
  const int64_t id = command.id;
  pending_[id] = Pending{.host = host,
                         .what = command.what,
                         .deadline_s = deadline_s,
                         .deadline = now() + seconds(deadline_s),
                         .awaited = awaited};
  const auto member = members_.find(host);
  if (static_cast<int64_t>(command.body.size()) > options_.max_message_bytes) {
    complete(id,
             absl::ResourceExhaustedError(fmt::format("'{}' for host {} has {} bytes; the limit is {}", command.what,
                                                      host, command.body.size(), options_.max_message_bytes)));
  } else if (member == members_.end()) {
    complete(id, absl::UnavailableError(fmt::format("host {} is not connected: '{}'", host, command.what)));
  } else {
    member->second.link->deliver(command);
  }
  return id;
}

void ControllerCore::complete(int64_t id, absl::StatusOr<Reply> result) {
  const auto found = pending_.find(id);
  SCALAI_CHECK(found != pending_.end());
  if (found->second.awaited) {
    found->second.result = std::move(result);
  } else {
    events_.push_back(CommandDone{.id = id, .host = found->second.host, .reply = std::move(result)});
    pending_.erase(found);
  }
  changed_.notify_all();
}

void ControllerCore::replied(const Link* link, Reply reply) {
  const Lock lock(mutex_);
  const auto found = pending_.find(reply.id);
  // Late: its deadline has passed, or its caller is gone.
  if (found == pending_.end() || found->second.result.has_value()) return;
  const auto member = members_.find(found->second.host);
  if (reply.controller_epoch != options_.epoch || member == members_.end() || member->second.link.get() != link) return;
  const int64_t id = reply.id;
  complete(id, std::move(reply));
}

void ControllerCore::worked(const Link* link, uint64_t work_done) {
  const Lock lock(mutex_);
  for (auto& [host, member] : members_) {
    if (member.link.get() != link || std::exchange(member.work_done, work_done) == work_done) continue;
    for (auto& [id, pending] : pending_) {
      if (pending.host == host) pending.deadline = now() + seconds(pending.deadline_s);
    }
  }
}

void ControllerCore::expire() {
  std::vector<int64_t> late;
  for (const auto& [id, pending] : pending_) {
    if (!pending.result.has_value() && pending.deadline <= now()) late.push_back(id);
  }
  for (const int64_t id : late) {
    const Pending& pending = pending_.at(id);
    complete(id, absl::DeadlineExceededError(fmt::format("host {} did not answer '{}' within {} s", pending.host,
                                                         pending.what, pending.deadline_s)));
  }
}

TimePoint ControllerCore::next_deadline(TimePoint at_latest) const {
  for (const auto& [id, pending] : pending_) {
    if (!pending.result.has_value()) at_latest = std::min(at_latest, pending.deadline);
  }
  return at_latest;
}

int64_t ControllerCore::send(int32_t host, Command command, double deadline_s) {
  const Lock lock(mutex_);
  return begin(host, std::move(command), deadline_s, false);
}

int64_t ControllerCore::unclean_losses(const std::vector<Call>& calls) const {
  std::set<int32_t> hosts;
  for (const Call& call : calls) hosts.insert(call.host);
  int64_t count = 0;
  for (const auto& [host, losses] : losses_) count += hosts.count(host) != 0 ? losses : 0;
  return count;
}

std::optional<std::vector<absl::StatusOr<Reply>>> ControllerCore::absent(const std::vector<Call>& calls) const {
  std::vector<absl::StatusOr<Reply>> outcomes;
  bool any = false;
  for (const Call& call : calls) {
    const bool here = members_.count(call.host) != 0;
    any = any || !here;
    outcomes.emplace_back(
        here ? absl::CancelledError(fmt::format("not sent to host {}: another one is not connected", call.host))
             : absl::UnavailableError(fmt::format("host {} is not connected: '{}'", call.host, call.command.what)));
  }
  if (!any) return std::nullopt;
  return outcomes;
}

// False: some are unanswered, because a worker of these calls was lost.
bool ControllerCore::wait_for(Lock& lock, const std::vector<int64_t>& ids, const std::vector<Call>& calls) {
  const int64_t losses_before = unclean_losses(calls);
  while (true) {
    expire();
    bool all = true;
    bool failed = false;
    for (const int64_t id : ids) {
      const std::optional<absl::StatusOr<Reply>>& result = pending_.at(id).result;
      all = all && result.has_value();
      failed = failed || (result.has_value() && absl::IsUnavailable(result->status()));
    }
    if (all) return true;
    if (failed || unclean_losses(calls) != losses_before) return false;
    wait(lock, next_deadline(TimePoint::max()));
  }
}

std::vector<absl::StatusOr<Reply>> ControllerCore::take(const std::vector<int64_t>& ids,
                                                        const std::string& why_cancelled) {
  std::vector<absl::StatusOr<Reply>> outcomes;
  for (const int64_t id : ids) {
    Pending& pending = pending_.at(id);
    if (!pending.result.has_value()) {
      pending.result =
          absl::CancelledError(fmt::format("host {}: '{}': {}", pending.host, pending.what, why_cancelled));
    }
    outcomes.push_back(*std::move(pending.result));
    pending_.erase(id);
  }
  return outcomes;
}

std::vector<absl::StatusOr<Reply>> ControllerCore::call_all(std::vector<Call> calls, double deadline_s) {
  Lock lock(mutex_);
  if (auto outcomes = absent(calls)) return *std::move(outcomes);
  std::vector<int64_t> ids;
  for (Call& call : calls) ids.push_back(begin(call.host, std::move(call.command), deadline_s, true));
  wait_for(lock, ids, calls);
  return take(ids, "not waited for, another worker was lost");
}

}  // namespace scalai::executor::rpc::internal
