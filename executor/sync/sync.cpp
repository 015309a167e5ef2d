#include "executor/sync/sync.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <utility>

#include "executor/controller/shown_state.h"
#include "executor/worker/places.h"
#include "ptc/base/json.h"
#include "ptc/base/say.h"
#include "ptc/base/status.h"
#include "ptc/base/utf8.h"
#include "ptc/plan/lowering.h"
#include "ptc/plan/plan_io.h"
#include "ptc/proto/control.pb.h"
#include "ptc/state/collection/collection_file.h"

namespace scalai::executor::sync {

using state::StateVersion;

namespace {

using Clock = std::chrono::steady_clock;
using proto::CommandBody;
using proto::ReplyBody;

constexpr int32_t kJob = 0;  // receivers know one

}  // namespace

int64_t next_due(int64_t first, int64_t held, int64_t every) {
  SCALAI_CHECK(every > 0 && held >= first);
  return first + every * ((held - first) / every + 1);
}

Sync::Sync(const cluster::Cluster& cluster, rpc::ControllerEnd& controller, controller::WorkerPool& pool,
           Options options)
    : cluster_(cluster), controller_(controller), pool_(pool), options_(std::move(options)) {}

std::set<HostId> Sync::receivers() const {
  std::set<HostId> hosts;
  for (int64_t host = options_.first_host; host < std::ssize(cluster_.hosts); ++host) hosts.insert(HostId(host));
  return hosts;
}

bool Sync::is_whole() const { return !holders_.empty() && holders_ == receivers(); }

// Numbers of devices are those of the run at the begin.
absl::Status Sync::check_cluster(const proto::LiveState& state) const {
  const cluster::Cluster now = joint_cluster(state, options_.target.gpus_of_host);
  const auto same = [](const cluster::Host& a, const cluster::Host& b) { return a.gpus == b.gpus; };
  if (state.gpus_of_host_size() == options_.first_host &&
      std::equal(now.hosts.begin(), now.hosts.end(), cluster_.hosts.begin(), cluster_.hosts.end(), same))
    return absl::OkStatus();
  return invalid(fmt::format("{} has another cluster than at the begin: start scalai sync again", options_.place));
}

// All receivers are there. One that was only cut off may have what the others were told to forget.
absl::Status Sync::gather() {
  serve_events(0);
  for (const HostId host : receivers()) {
    if (pool_.living().contains(host)) continue;
    SCALAI_RETURN_IF_ERROR(pool_.revive(host));
    CommandBody shown;
    shown.mutable_forget()->set_job(kJob);
    shown.mutable_forget()->set_live_copies(true);
    SCALAI_RETURN_IF_ERROR(pool_.call("forget", {host}, shown).status());
    if (held_.collection == nullptr) continue;
    CommandBody held;
    held.mutable_commit()->set_job(kJob);
    held.mutable_commit()->set_version(StateVersion::epoch(held_.collection->epoch).wire());
    SCALAI_RETURN_IF_ERROR(pool_.call("commit", {host}, held).status());
  }
  return absl::OkStatus();
}

absl::Status Sync::part() {
  peers_.clear();
  pool_.set_others({});
  return pool_.introduce();
}

absl::StatusOr<Synced> Sync::bring(const live::LiveStep& step) {
  const Clock::time_point began = Clock::now();
  const proto::LiveState& state = step.state();
  SCALAI_RETURN_IF_ERROR(check_cluster(state));
  std::vector<std::string> peers;
  for (const proto::Peer& peer : state.peers()) peers.push_back(peer.SerializeAsString());
  if (peers != peers_) pool_.set_others({state.peers().begin(), state.peers().end()});  // before anybody is introduced
  SCALAI_RETURN_IF_ERROR(gather());
  if (peers != peers_) {
    peers_.clear();
    SCALAI_RETURN_IF_ERROR(pool_.introduce());
    peers_ = peers;
  }
  std::string layout = state.collection();
  for (const std::string& peer : peers) layout += peer;  // the living
  if (plan_ == nullptr || layout != planned_for_) {
    SCALAI_ASSIGN_OR_RETURN(SyncPlan made, plan_sync(step, options_.target));
    if (steps_digest_.empty()) steps_digest_ = made.steps_digest;
    if (made.steps_digest != steps_digest_)
      return absl::FailedPreconditionError(
          "what --transform reads is not what it was at the begin: start scalai sync again");
    plan_ = std::make_shared<const SyncPlan>(std::move(made));
    planned_for_ = std::move(layout);
  }
  Synced synced{.step = state.step(), .planned_bytes = plan_->plan.bytes().moved()};
  synced.least_bytes = plan_->plan.lower_bound().moved();
  for (const plan::DeviceMemory& memory : plan_->plan.memory()) synced.state_bytes += memory.after;
  const StateVersion version = StateVersion::epoch(next_epoch_++);
  if (const absl::Status done = transfer(step, version, synced); !done.ok()) {
    forget(version);
    return done;
  }
  if (!step.is_kept()) {
    forget(version);
    return absl::UnavailableError(fmt::format("step {} was not kept until all of it was read", state.step()));
  }
  auto held = std::make_shared<collection::Collection>(plan_->to);
  held->epoch = next_epoch_ - 1;
  SCALAI_ASSIGN_OR_RETURN(digests_, digests_of(state));
  holders_ = receivers();
  {
    const std::lock_guard lock(mutex_);
    held_ = {.job = state.name(), .model = state.model(), .step = state.step(), .collection = std::move(held)};
  }
  if (const absl::Status freed = commit(version); !freed.ok())
    say("scalai sync: warning: a receiver still has the step before: {}\n", message_of(freed));
  synced.seconds = std::chrono::duration<double>(Clock::now() - began).count();
  return synced;
}

absl::Status Sync::transfer(const live::LiveStep& step, StateVersion version, Synced& synced) {
  const proto::LiveState& state = step.state();
  CommandBody body;
  CommandBody::Prepare& prepare = *body.mutable_prepare();
  prepare.set_job(kJob);
  prepare.set_name(state.name());
  prepare.set_to_version(version.wire());
  const int64_t before =
      held_.collection == nullptr ? version.wire() + 1 : held_.collection->epoch;  // one that nobody has
  prepare.set_device_version(StateVersion::epoch(before).wire());
  prepare.set_host_version(StateVersion::staged().wire());
  prepare.set_step(state.step());
  prepare.set_plan(plan::serialize(plan_->plan));
  prepare.set_to_collection(collection::collection_text(plan_->to, {}));
  proto::Foreign& foreign = *prepare.mutable_foreign();
  foreign.set_hosts(options_.first_host);
  foreign.set_job(state.job());
  foreign.set_version(state.version());
  for (const int32_t number : plan_->numbers) foreign.add_tensors(number);
  if (!plan_->steps.empty()) {
    for (const std::string& text : plan_->steps) foreign.add_transforms(text);
    foreign.set_folder(options_.target.folder);
    foreign.set_transforms_digest(plan_->steps_digest);
    foreign.set_collection(state.collection());
    foreign.set_model(state.model());
  }
  if (state.digest_bytes() > 0) {
    SCALAI_ASSIGN_OR_RETURN(const StepDigests now, digests_of(state));
    SCALAI_RETURN_IF_ERROR(set_changes(*plan_, digests_, now, state.digest_bytes(), foreign));
  }
  const std::set<HostId> hosts = receivers();
  SCALAI_RETURN_IF_ERROR(pool_.call("prepare", hosts, body).status());
  std::map<std::string, int64_t> sent;  // by device of the training run
  for (int32_t round = 0; round < plan_->plan.rounds(); ++round) {
    for (int32_t hop = 0; hop <= plan::last_hop(plan_->plan, round); ++hop) {
      CommandBody next;
      next.mutable_round()->set_job(kJob);
      next.mutable_round()->set_to_version(version.wire());
      next.mutable_round()->set_round(round);
      next.mutable_round()->set_hop(hop);
      if (options_.stopped && options_.stopped()) return absl::CancelledError("it is to end");
      serve();
      SCALAI_ASSIGN_OR_RETURN(const std::vector<ReplyBody> replies, pool_.call("round", hosts, next));
      for (const ReplyBody& reply : replies) {
        for (const proto::TransferRecord& record : reply.transfers()) synced.moved_bytes += record.bytes();
        for (const proto::PlaceBytes& taken : reply.foreign()) sent[taken.place()] += taken.bytes();
      }
    }
  }
  int64_t most = 0;
  for (const auto& [device, bytes] : sent) {
    synced.read_bytes += bytes;
    most = std::max(most, bytes);
  }
  if (synced.read_bytes > 0)
    synced.hottest_sender =
        static_cast<double>(most) * static_cast<double>(sent.size()) / static_cast<double>(synced.read_bytes);
  return absl::OkStatus();
}

// Frees what was before; a receiver that is lost meanwhile has nothing to free.
absl::Status Sync::commit(StateVersion version) {
  CommandBody body;
  body.mutable_commit()->set_job(kJob);
  body.mutable_commit()->set_version(version.wire());
  return pool_.tell("commit", receivers(), body);
}

void Sync::forget(StateVersion version) {
  CommandBody body;
  body.mutable_forget()->set_job(kJob);
  body.mutable_forget()->set_version(version.wire());
  if (const absl::Status told = pool_.tell("forget", receivers(), body); !told.ok())
    say("scalai sync: warning: {}\n", message_of(told));
}

void Sync::serve_events(double timeout_s) {
  for (auto event = controller_.next_event(timeout_s); event; event = controller_.next_event(0)) {
    const auto* lost = std::get_if<rpc::WorkerLost>(&*event);
    if (lost == nullptr || !pool_.is_ours(*lost)) continue;
    const HostId host(lost->host);
    say("scalai sync: lost receiver {}: {}\n", host.value - options_.first_host, printable_text(pool_.why_lost(*lost)));
    pool_.lost(host);
    holders_.erase(host);
  }
}

void Sync::serve() {
  for (const StateVersion version : live_.take_unkept(kJob)) forget(version);
  if (!live_.waits(kJob) || !is_whole()) return;
  controller::ShownState shown{
      .job = kJob, .name = held_.job, .step = held_.step, .model = held_.model, .collection = held_.collection.get()};
  for (const cluster::Host& host : cluster_.hosts) shown.gpus_of_host.push_back(host.gpus);
  const absl::Status served = live_.serve(
      kJob, held_.collection->epoch, held_.step, [&](StateVersion version, const controller::LiveSteps::Kind& kind) {
        absl::StatusOr<proto::LiveState> state = controller::show_state(pool_, receivers(), shown, version, kind);
        if (!state.ok()) forget(version);
        return state;
      });
  if (!served.ok()) say("scalai sync: warning: a reader got nothing: {}\n", message_of(served));
}

void Sync::rest(double seconds) {
  const auto until = Clock::now() + std::chrono::duration<double>(seconds);
  do {
    serve();
    serve_events(std::max(0.0, std::min(0.02, std::chrono::duration<double>(until - Clock::now()).count())));
  } while (Clock::now() < until);
  if (const absl::Status gone = pool_.let_go_of_the_lost(); !gone.ok())
    say("scalai sync: warning: {}\n", message_of(gone));
}

absl::StatusOr<std::string> Sync::answer(const proto::CtlRequest& request) {
  if (request.has_status()) return status();
  if (!request.has_live()) return invalid("these are receivers of another run's weights: ask that one");
  const proto::CtlLive& live = request.live();
  {
    const std::lock_guard lock(mutex_);
    if (!live.job().empty() && held_.step >= 0 && live.job() != held_.job)
      return invalid(fmt::format("there is no job \"{}\"", live.job()));
  }
  if (live.optimizer()) return invalid("receivers have no optimizer's state");
  return live_.answer(kJob, live, [this] { controller_.notify("a reader"); });
}

std::string Sync::status() const {
  const std::lock_guard lock(mutex_);
  nlohmann::json jobs = nlohmann::json::array();
  if (held_.step >= 0) {
    jobs.push_back({{"name", held_.job},
                    {"state", "synced"},
                    {"step", held_.step},
                    {"layout", held_.collection->name},
                    {"gpus", held_.collection->ranks()},
                    {"reconfigurations", held_.collection->epoch}});
  }
  return json_text(nlohmann::json{{"scenario", options_.place}, {"strategy", "sync"}, {"at_s", 0}, {"jobs", jobs}},
                   {.indent = 2});
}

}  // namespace scalai::executor::sync
