#include "executor/worker/worker.h"

#include <fmt/format.h>

#include <algorithm>
#include <shared_mutex>

#include "executor/rpc/worker_place.h"
#include "executor/worker/internal/handling.h"
#include "ptc/base/parallel.h"
#include "ptc/base/say.h"
#include "ptc/base/screen.h"
#include "ptc/base/status.h"
#include "ptc/base/units.h"
#include "ptc/collection/collection_file.h"
#include "ptc/plan/plan_io.h"
#include "ptc/proto/control.pb.h"

namespace scalai::executor {

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

absl::StatusOr<collection::Collection> collection_of(const std::string& text) {
  SCALAI_ASSIGN_OR_RETURN(collection::CollectionFile file, collection::parse_collection(text, "collection"));
  return std::move(file.collection);
}

absl::StatusOr<VersionKey> key_of(int32_t job, int64_t wire_version) {
  SCALAI_ASSIGN_OR_RETURN(const StateVersion version, StateVersion::from_wire(wire_version));
  return VersionKey{job, version};
}

absl::Status not_held(const VersionKey& key) {
  return absl::NotFoundError(fmt::format("this worker holds no {} of job {}", key.version.str(), key.job));
}

absl::Status Worker::Handling::run(const CommandBody& body) {
  const auto what = body.what_case();
  const bool needs_places =
      what != CommandBody::WHAT_NOT_SET && what != CommandBody::kSetup && what != CommandBody::kExit;
  if (needs_places && host_store() == nullptr)
    return absl::FailedPreconditionError("this worker has not been set up yet");
  leave_in_place_before(body);
  switch (what) {
    case CommandBody::kSetup: return setup(body);
    case CommandBody::kPeers: return peers(body);
    case CommandBody::kCreate: return create(body);
    case CommandBody::kAdvance: return advance(body);
    case CommandBody::kCopy: return copy(body);
    case CommandBody::kPrepare: return prepare(body);
    case CommandBody::kRound: return round(body);
    case CommandBody::kVerify: return verify(body);
    case CommandBody::kCommit: return commit(body);
    case CommandBody::kForget: return forget(body);
    case CommandBody::kFail: return fail(body);
    case CommandBody::kWrite: return write(body);
    case CommandBody::kWritten: return written(body);
    case CommandBody::kRead: return read(body);
    case CommandBody::kJoin: return join(body);
    case CommandBody::kBegin: return begin(body);
    case CommandBody::kDigest: return digest(body);
    case CommandBody::kStandby: return stand_by(body);
    case CommandBody::kExit: last_ = true; return absl::OkStatus();
    case CommandBody::WHAT_NOT_SET: break;
  }
  return invalid("a command that this worker does not know");
}

Worker::Job* Worker::Handling::known_job(int32_t index) {
  const auto found = worker_.jobs_.find(index);
  return found == worker_.jobs_.end() ? nullptr : found->second.get();
}

const collection::Collection* Worker::Handling::side_of(const Job* job, StateVersion version) {
  if (job == nullptr) return nullptr;
  const auto found = job->collections.find(version);
  return found == job->collections.end() ? nullptr : &found->second;
}

Worker::Job& Worker::Handling::job(int32_t index) {
  std::unique_ptr<Job>& entry = worker_.jobs_[index];
  if (entry == nullptr) entry = std::make_unique<Job>();
  return *entry;
}

void Worker::Handling::note_held(const VersionKey& key, int64_t step) {
  const std::lock_guard lock(worker_.mutex_);
  worker_.held_[key] = step;
}

void Worker::Handling::note_gone(const VersionKey& key) {
  const std::lock_guard lock(worker_.mutex_);
  worker_.held_.erase(key);
}

std::optional<int64_t> Worker::Handling::step_of(const VersionKey& key) {
  const std::lock_guard lock(worker_.mutex_);
  const auto found = worker_.held_.find(key);
  return found == worker_.held_.end() ? std::nullopt : std::optional(found->second);
}

absl::Status Worker::Handling::on_devices(const std::function<absl::Status(DeviceId)>& work) {
  const std::vector<DeviceId>& devices = places_.devices();
  return try_parallel_for(worker_.threads_, devices.size(), [&](size_t i) { return work(devices[i]); });
}

absl::Status Worker::Handling::setup(const CommandBody& body) {
  const CommandBody::Setup& setup = body.setup();
  const int cores = static_cast<int>(hardware_threads());
  worker_.threads_ = setup.threads() > 0 ? setup.threads() : std::clamp(cores, 4, 16);
  SCALAI_RETURN_IF_ERROR(places_.setup({setup.gpus_of_host().begin(), setup.gpus_of_host().end()}));
  const std::vector<WorkerPlace> own = places_.addresses();
  for (const WorkerPlace& place : own) *reply.add_places() = pack(place);
  worker_.force_network_ = setup.force_network();
  const std::lock_guard lock(worker_.mutex_);
  worker_.own_places_ = own;
  return absl::OkStatus();
}

absl::Status Worker::Handling::peers(const CommandBody& body) {
  const CommandBody::Peers& peers = body.peers();
  std::vector<WorkerJoined> list;
  for (const proto::Peer& peer : peers.peers()) {
    WorkerJoined& one = list.emplace_back();
    one.host = peer.host();
    one.hello.transport_address = peer.transport_address();
    one.hello.host_name = peer.host_name();
    for (const proto::WorkerPlace& place : peer.places()) one.hello.places.push_back(unpack(place));
  }
  return places_.peers(list, worker_.force_network_);
}

absl::Status Worker::Handling::join(const CommandBody& body) {
  const CommandBody::Join& join = body.join();
  Exchange* const exchange = worker_.exchange_.get();
  if (exchange == nullptr) return missing("this worker was started without NCCL (--transport=nccl)");
  if (!join.unique_id().empty())
    return exchange->join(places_.gpus(), places_.host(), join.unique_id(), join.timeout_s());
  if (exchange->joined(places_.gpus())) return absl::OkStatus();
  SCALAI_ASSIGN_OR_RETURN(*reply.mutable_unique_id(), exchange->make_unique_id());
  return absl::OkStatus();
}

absl::Status Worker::Handling::prepare(const CommandBody& body) {
  const CommandBody::Prepare& prepare = body.prepare();
  SCALAI_ASSIGN_OR_RETURN(const StateVersion to_version, StateVersion::from_wire(prepare.to_version()));
  SCALAI_ASSIGN_OR_RETURN(const StateVersion device_version, StateVersion::from_wire(prepare.device_version()));
  SCALAI_ASSIGN_OR_RETURN(const StateVersion host_version, StateVersion::from_wire(prepare.host_version()));
  SCALAI_ASSIGN_OR_RETURN(plan::Plan plan, plan::parse_plan(prepare.plan()));
  SCALAI_ASSIGN_OR_RETURN(collection::Collection to, collection_of(prepare.to_collection()));
  Job& job = this->job(prepare.job());
  SCALAI_RETURN_IF_ERROR(know(job, prepare.name(), prepare.state(),
                              {prepare.program().command(), prepare.program().folder(), prepare.program().logs()}));
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
                           .exchange = foreign == nullptr ? worker_.exchange_.get() : nullptr,
                           .dense = job.training != nullptr,
                           .threads = worker_.threads_};
  SCALAI_ASSIGN_OR_RETURN(job.execution, Execution::prepare(places_, std::move(plan), to, std::move(options)));
  job.collections[to_version] = std::move(to);
  note_held({prepare.job(), to_version}, prepare.step());
  tell_of_huge_pages();
  return absl::OkStatus();
}

absl::Status Worker::Handling::round(const CommandBody& body) {
  const CommandBody::Round& round = body.round();
  SCALAI_ASSIGN_OR_RETURN(const StateVersion to_version, StateVersion::from_wire(round.to_version()));
  const Job* job = known_job(round.job());
  if (job == nullptr || job->execution == nullptr || job->execution->to_version() != to_version)
    return absl::FailedPreconditionError(
        fmt::format("no plan of job {} to {} was prepared", round.job(), to_version.str()));
  const absl::StatusOr<std::vector<Moved>> moved = job->execution->run(round.round(), round.hop());
  if (!moved.ok()) {  // perhaps before its exchange: others would wait long for what this worker does not send
    if (worker_.exchange_ != nullptr) worker_.exchange_->abort();
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

absl::Status Worker::Handling::commit(const CommandBody& body) {
  const CommandBody::Commit& commit = body.commit();
  SCALAI_ASSIGN_OR_RETURN(const VersionKey kept, key_of(commit.job(), commit.version()));
  Job& job = this->job(kept.job);
  const auto is_gone = [&](const VersionKey& key) {
    const bool shown = job.received && key.version.is_live();
    return key.job == kept.job && key.version != kept.version && !shown;
  };
  job.execution.reset();
  for (const DeviceId device : places_.devices()) {
    for (const VersionKey& key : store_of(device).versions()) {
      if (is_gone(key)) store_of(device).drop(key);
    }
  }
  use_freed_memory();
  host_store()->drop({kept.job, StateVersion::staged()});
  std::erase_if(job.collections, [&](const auto& entry) { return entry.first != kept.version; });
  if (job.training != nullptr) {
    const absl::Status left = job.training->keep(side_of(&job, kept.version));
    if (!left.ok()) say("worker: warning: {}\n", message_of(left));
  }
  const std::lock_guard lock(worker_.mutex_);
  std::erase_if(worker_.held_, [&](const auto& entry) { return is_gone(entry.first); });
  return absl::OkStatus();
}

void Worker::Handling::tell_of_huge_pages() {
  if (!verbose() || huge_page_support().page_bytes == 0) return;
  int64_t huge = 0, used = 0;
  for (const DeviceId device : places_.devices()) {
    huge += store_of(device).bytes_on_huge_pages();
    used += store_of(device).bytes_in_use();
  }
  say("worker: {} of {} of state are on huge pages\n", format_bytes(huge), format_bytes(used));
}

void Worker::Handling::use_freed_memory() {
  const bool planned = std::any_of(worker_.jobs_.begin(), worker_.jobs_.end(),
                                   [](const auto& entry) { return entry.second->execution != nullptr; });
  for (const DeviceId device : places_.devices()) {
    (void)store_of(device).settle();
    if (!planned) (void)store_of(device).reserve(0);
  }
  for (const DeviceId device : places_.devices()) (void)store_of(device).settle();
}

absl::Status Worker::Handling::forget(const CommandBody& body) {
  const CommandBody::Forget& forget = body.forget();
  if (forget.live_copies()) {
    if (Job* const known = known_job(forget.job()); known != nullptr) known->in_place.clear();
    for (Store* store : places_.stores()) {
      for (const VersionKey& one : store->versions()) {
        if (one.job == forget.job() && one.version.is_live()) store->drop(one);
      }
    }
    return absl::OkStatus();
  }
  SCALAI_ASSIGN_OR_RETURN(const VersionKey key, key_of(forget.job(), forget.version()));
  Job& job = this->job(key.job);
  if (job.execution != nullptr && job.execution->to_version() == key.version) job.execution.reset();
  show_no_more(key);
  for (Store* store : places_.stores()) store->drop(key);
  use_freed_memory();
  job.collections.erase(key.version);
  note_gone(key);
  return absl::OkStatus();
}

absl::Status Worker::Handling::fail(const CommandBody& body) {
  const CommandBody::Fail& fail = body.fail();
  for (const std::string& name : fail.places()) {
    const std::optional<Location> place = parse_place(name);
    if (!place || places_.own(*place) == nullptr) return invalid(fmt::format("{} is not a place of this worker", name));
    for (const auto& [index, job] : worker_.jobs_) {
      if (job->training != nullptr && place->kind == Location::Kind::kDevice)
        job->training->lose(DeviceId(place->index));
    }
    SCALAI_RETURN_IF_ERROR(places_.fail(*place));
  }
  return absl::OkStatus();
}

Worker::Worker(Options options)
    : backend_(options.backend ? options.backend : make_host_backend()),
      locals_(options.locals ? options.locals : std::make_shared<LocalStores>()),
      network_(options.network),
      places_({.host = options.host,
               .segments = options.segments,
               .device_limit = options.device_limit,
               .backend = backend_.get(),
               .hosts_here = options.hosts_here,
               .transport = options.transport,
               .locals = locals_}) {
  if (options.nccl)
    exchange_ = std::make_unique<Exchange>(Exchange::Options{.api = *options.nccl, .backend = backend_.get()});
}
Worker::~Worker() = default;

void Worker::introduce(Hello& hello) const {
  const std::lock_guard lock(mutex_);
  hello.places = own_places_;
  hello.held.clear();
  for (const auto& [key, step] : held_) hello.held.push_back({key.job, key.version, step});
}

Reply Worker::handle(const Command& command) {
  CommandBody body;
  Reply reply;
  if (!body.ParseFromString(command.body)) {
    reply.status = invalid("a command that cannot be read");
    return reply;
  }
  ReplyBody filled;
  Handling handling(*this, filled);
  {
    // While others of this process may be read nothing is freed, and the other way round.
    std::shared_lock reading(locals_->in_use(), std::defer_lock);
    std::unique_lock changing(locals_->in_use(), std::defer_lock);
    if (only_reads(body)) {
      reading.lock();
    } else {
      changing.lock();
    }
    reply.status = handling.run(body);
  }
  reply.body = filled.SerializeAsString();
  reply.last = handling.last();
  return reply;
}

}  // namespace scalai::executor
