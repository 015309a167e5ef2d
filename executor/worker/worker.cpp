#include "executor/worker/worker.h"

#include <fmt/format.h>

#include <algorithm>
#include <shared_mutex>

#include "executor/worker/internal/device_work.h"
#include "executor/worker/internal/file_work.h"
#include "executor/worker/internal/holdings.h"
#include "executor/worker/internal/host_copies.h"
#include "ptc/base/say.h"
#include "ptc/base/screen.h"
#include "ptc/base/status.h"
#include "ptc/base/units.h"
#include "ptc/plan/plan_io.h"
#include "ptc/proto/control.pb.h"

namespace scalai::executor::worker {

using state::StateVersion;
using state::VersionKey;

namespace {

// Whether a command only reads other workers' state, and frees nothing that they may read.
bool only_reads(const CommandBody& body) {
  switch (body.what_case()) {
    case CommandBody::kAdvance:
    case CommandBody::kCopy:
    case CommandBody::kRound:
    case CommandBody::kVerify:
    case CommandBody::kWrite:
    case CommandBody::kWritten:
    case CommandBody::kRead:
    case CommandBody::kBegin:
    case CommandBody::kDigest:
    case CommandBody::kJoin: return true;
    default: return false;
  }
}

}  // namespace

// The commands by kind; those on the life of places and versions are done here.
class Worker::Commands {
 public:
  Commands(const Options& options, device::Backend& backend, Places& places)
      : places_(places), holdings_(places, options.network) {
    if (options.nccl)
      exchange_ = std::make_unique<Exchange>(Exchange::Options{.api = *options.nccl, .backend = &backend});
  }
  absl::Status run(const CommandBody& body, ReplyBody& reply);
  void introduce(proto::Hello& hello) const { holdings_.introduce(hello); }

 private:
  absl::Status setup(const CommandBody::Setup& setup, ReplyBody& reply);
  absl::Status peers(const CommandBody::Peers& peers);
  absl::Status join(const CommandBody::Join& join, ReplyBody& reply);
  absl::Status prepare(const CommandBody::Prepare& prepare);
  absl::Status round(const CommandBody::Round& round, ReplyBody& reply);
  absl::Status commit(const CommandBody::Commit& commit);
  absl::Status forget(const CommandBody::Forget& forget);
  absl::Status fail(const CommandBody::Fail& fail);
  void tell_of_huge_pages();
  // State that overflowed to the host goes to its device, first into what that one has in reserve, then into what
  // others on the card have given back. Neither can undo a commit: what is not moved is right where it is, and the next
  // commit tries again. What another job's plan has reserved stays.
  void use_freed_memory();

  Places& places_;
  std::unique_ptr<Exchange> exchange_;
  bool force_network_ = false;
  Holdings holdings_;
  HostCopies copies_{holdings_};
  DeviceWork devices_{holdings_, copies_};
  FileWork files_{holdings_};
};

absl::Status Worker::Commands::run(const CommandBody& body, ReplyBody& reply) {
  const auto what = body.what_case();
  const bool needs_places =
      what != CommandBody::WHAT_NOT_SET && what != CommandBody::kSetup && what != CommandBody::kExit;
  if (needs_places && holdings_.host_store() == nullptr)
    return absl::FailedPreconditionError("this worker has not been set up yet");
  copies_.before(body);
  switch (what) {
    case CommandBody::kSetup: return setup(body.setup(), reply);
    case CommandBody::kPeers: return peers(body.peers());
    case CommandBody::kCreate: return devices_.create(body);
    case CommandBody::kAdvance: return devices_.advance(body, reply);
    case CommandBody::kCopy: return copies_.copy(body, reply);
    case CommandBody::kPrepare: return prepare(body.prepare());
    case CommandBody::kRound: return round(body.round(), reply);
    case CommandBody::kVerify: return devices_.verify(body, reply);
    case CommandBody::kCommit: return commit(body.commit());
    case CommandBody::kForget: return forget(body.forget());
    case CommandBody::kFail: return fail(body.fail());
    case CommandBody::kWrite: return files_.write(body, reply);
    case CommandBody::kWritten: return files_.written(body, reply);
    case CommandBody::kRead: return files_.read(body, reply);
    case CommandBody::kJoin: return join(body.join(), reply);
    case CommandBody::kBegin: return devices_.begin(body, reply);
    case CommandBody::kDigest: return devices_.digest(body, reply);
    case CommandBody::kStandby: return devices_.stand_by(body);
    case CommandBody::kExit: return absl::OkStatus();
    case CommandBody::WHAT_NOT_SET: break;
  }
  return invalid("a command that this worker does not know");
}

absl::Status Worker::Commands::setup(const CommandBody::Setup& setup, ReplyBody& reply) {
  SCALAI_ASSIGN_OR_RETURN(const std::vector<proto::WorkerPlace> own,
                          holdings_.setup({setup.gpus_of_host().begin(), setup.gpus_of_host().end()}, setup.threads()));
  *reply.mutable_places() = {own.begin(), own.end()};
  force_network_ = setup.force_network();
  return absl::OkStatus();
}

absl::Status Worker::Commands::peers(const CommandBody::Peers& peers) {
  return places_.peers({peers.peers().begin(), peers.peers().end()}, force_network_);
}

absl::Status Worker::Commands::join(const CommandBody::Join& join, ReplyBody& reply) {
  if (exchange_ == nullptr) return missing("this worker was started without NCCL (--transport=nccl)");
  if (!join.unique_id().empty())
    return exchange_->join(places_.gpus(), places_.host(), join.unique_id(), join.timeout_s());
  if (exchange_->joined(places_.gpus())) return absl::OkStatus();
  SCALAI_ASSIGN_OR_RETURN(*reply.mutable_unique_id(), exchange_->make_unique_id());
  return absl::OkStatus();
}

absl::Status Worker::Commands::prepare(const CommandBody::Prepare& prepare) {
  SCALAI_ASSIGN_OR_RETURN(const StateVersion to_version, StateVersion::from_wire(prepare.to_version()));
  SCALAI_ASSIGN_OR_RETURN(const StateVersion device_version, StateVersion::from_wire(prepare.device_version()));
  SCALAI_ASSIGN_OR_RETURN(const StateVersion host_version, StateVersion::from_wire(prepare.host_version()));
  SCALAI_ASSIGN_OR_RETURN(plan::Plan plan, plan::parse_plan(prepare.plan()));
  SCALAI_ASSIGN_OR_RETURN(collection::Collection to, collection_of(prepare.to_collection()));
  SCALAI_ASSIGN_OR_RETURN(WorkerJob* const known, holdings_.know(prepare));
  WorkerJob& job = *known;
  if (job.training != nullptr) SCALAI_RETURN_IF_ERROR(job.training->start(to));
  job.execution.reset();
  if (to_version != device_version) job.collections.erase(to_version);
  std::shared_ptr<const ForeignStep> foreign;
  if (prepare.has_foreign()) {
    SCALAI_ASSIGN_OR_RETURN(ForeignStep step, ForeignStep::make(prepare.foreign(), plan.tensors()));
    foreign = std::make_shared<const ForeignStep>(std::move(step));
  }
  job.received = foreign != nullptr;
  ExecutionOptions options{.job = prepare.job(),
                           .content = job.content,
                           .to_version = to_version,
                           .device_version = device_version,
                           .host_version = host_version,
                           .restore = prepare.restore(),
                           .step = prepare.step(),
                           .checkpoint = prepare.checkpoint(),
                           .foreign = foreign,
                           .exchange = foreign == nullptr ? exchange_.get() : nullptr,
                           .dense = job.training != nullptr,
                           .threads = holdings_.threads()};
  SCALAI_ASSIGN_OR_RETURN(job.execution, Execution::prepare(places_, std::move(plan), to, std::move(options)));
  job.collections[to_version] = std::move(to);
  holdings_.note({prepare.job(), to_version}, prepare.step());
  tell_of_huge_pages();
  return absl::OkStatus();
}

absl::Status Worker::Commands::round(const CommandBody::Round& round, ReplyBody& reply) {
  SCALAI_ASSIGN_OR_RETURN(const StateVersion to_version, StateVersion::from_wire(round.to_version()));
  const WorkerJob* job = holdings_.find(round.job());
  if (job == nullptr || job->execution == nullptr || job->execution->to_version() != to_version)
    return absl::FailedPreconditionError(
        fmt::format("no plan of job {} to {} was prepared", round.job(), to_version.str()));
  const absl::StatusOr<std::vector<Moved>> moved = job->execution->run(round.round(), round.hop());
  if (!moved.ok()) {  // perhaps before its exchange: others would wait long for what this worker does not send
    if (exchange_ != nullptr) exchange_->abort();
    return moved.status();
  }
  ForeignStep::Taken taken;
  for (const Moved& one : *moved) {
    for (const auto& [place, bytes] : one.taken) taken[place] += bytes;
    proto::TransferRecord& out = *reply.add_transfers();
    out.set_src(one.src.str());
    out.set_dst(Location::device(one.dst).str());
    out.set_transfer_class(static_cast<int>(one.transfer_class));
    out.set_bytes(one.bytes);
    out.set_start_s(one.start_s);
    out.set_end_s(one.end_s);
    out.set_round(round.round());
    out.set_hop(round.hop());
  }
  for (const auto& [place, bytes] : taken) {
    proto::PlaceBytes& out = *reply.add_foreign();
    out.set_place(place.str());
    out.set_bytes(bytes);
  }
  return absl::OkStatus();
}

absl::Status Worker::Commands::commit(const CommandBody::Commit& commit) {
  SCALAI_ASSIGN_OR_RETURN(const VersionKey kept, key_of(commit.job(), commit.version()));
  WorkerJob& job = holdings_.job(kept.job);
  const auto is_gone = [&](const VersionKey& key) {
    const bool shown = job.received && key.version.is_live();
    return key.job == kept.job && key.version != kept.version && !shown;
  };
  job.execution.reset();
  for (const DeviceId device : places_.devices()) {
    for (const VersionKey& key : holdings_.store(device).versions()) {
      if (is_gone(key)) holdings_.store(device).drop(key);
    }
  }
  use_freed_memory();
  holdings_.host_store()->drop({kept.job, StateVersion::staged()});
  std::erase_if(job.collections, [&](const auto& entry) { return entry.first != kept.version; });
  if (job.training != nullptr) {
    const absl::Status left = job.training->keep(holdings_.side_of(kept));
    if (!left.ok()) say("worker: warning: {}\n", message_of(left));
  }
  holdings_.note_gone(is_gone);
  return absl::OkStatus();
}

void Worker::Commands::tell_of_huge_pages() {
  if (!verbose() || state::huge_page_support().page_bytes == 0) return;
  int64_t huge = 0, used = 0;
  for (const DeviceId device : places_.devices()) {
    huge += holdings_.store(device).bytes_on_huge_pages();
    used += holdings_.store(device).bytes_in_use();
  }
  say("worker: {} of {} of state are on huge pages\n", format_bytes(huge), format_bytes(used));
}

void Worker::Commands::use_freed_memory() {
  const bool planned = std::any_of(holdings_.jobs().begin(), holdings_.jobs().end(),
                                   [](const auto& entry) { return entry.second->execution != nullptr; });
  for (const DeviceId device : places_.devices()) {
    (void)holdings_.store(device).settle();
    if (!planned) (void)holdings_.store(device).reserve(0);
  }
  for (const DeviceId device : places_.devices()) (void)holdings_.store(device).settle();
}

absl::Status Worker::Commands::forget(const CommandBody::Forget& forget) {
  if (forget.live_copies()) {
    copies_.forget_all(forget.job());
    for (state::Store* store : places_.stores()) {
      for (const VersionKey& one : store->versions()) {
        if (one.job == forget.job() && one.version.is_live()) store->drop(one);
      }
    }
    return absl::OkStatus();
  }
  SCALAI_ASSIGN_OR_RETURN(const VersionKey key, key_of(forget.job(), forget.version()));
  WorkerJob& job = holdings_.job(key.job);
  if (job.execution != nullptr && job.execution->to_version() == key.version) job.execution.reset();
  copies_.forget(key);
  for (state::Store* store : places_.stores()) store->drop(key);
  use_freed_memory();
  job.collections.erase(key.version);
  holdings_.note_gone([&](const VersionKey& one) { return one == key; });
  return absl::OkStatus();
}

absl::Status Worker::Commands::fail(const CommandBody::Fail& fail) {
  for (const std::string& name : fail.places()) {
    const std::optional<Location> place = parse_place(name);
    if (!place || places_.own(*place) == nullptr) return invalid(fmt::format("{} is not a place of this worker", name));
    for (const auto& [index, job] : holdings_.jobs()) {
      if (job->training != nullptr && place->kind == Location::Kind::kDevice)
        job->training->lose(DeviceId(place->index));
    }
    SCALAI_RETURN_IF_ERROR(places_.fail(*place));
  }
  return absl::OkStatus();
}

Worker::Worker(const Options& options)
    : backend_(options.backend ? options.backend : device::make_host_backend()),
      locals_(options.locals ? options.locals : std::make_shared<LocalStores>()),
      places_({.host = options.host,
               .segments = options.segments,
               .device_limit = options.device_limit,
               .backend = backend_.get(),
               .hosts_here = options.hosts_here,
               .transport = options.transport,
               .locals = locals_}),
      commands_(std::make_unique<Commands>(options, *backend_, places_)) {}
Worker::~Worker() = default;

void Worker::introduce(proto::Hello& hello) const { commands_->introduce(hello); }

rpc::Reply Worker::handle(const rpc::Command& command) {
  CommandBody body;
  rpc::Reply reply;
  if (!body.ParseFromString(command.body)) {
    reply.status = invalid("a command that cannot be read");
    return reply;
  }
  ReplyBody filled;
  {
    // While others of this process may be read nothing is freed, and the other way round.
    std::shared_lock reading(locals_->in_use(), std::defer_lock);
    std::unique_lock changing(locals_->in_use(), std::defer_lock);
    if (only_reads(body)) {
      reading.lock();
    } else {
      changing.lock();
    }
    reply.status = commands_->run(body, filled);
  }
  reply.body = filled.SerializeAsString();
  reply.last = body.has_exit();
  return reply;
}

}  // namespace scalai::executor::worker
