#include "executor/worker/worker.h"

#include <fmt/format.h>

#include <algorithm>
#include <shared_mutex>

#include "executor/rpc/worker_place.h"
#include "executor/state/copy.h"
#include "executor/worker/device_state.h"
#include "executor/worker/sample_reading.h"
#include "ptc/base/parallel.h"
#include "ptc/base/status.h"
#include "ptc/collection/collection_file.h"
#include "ptc/plan/plan_io.h"
#include "ptc/proto/control.pb.h"

namespace scalai::executor {

using proto::CommandBody;
using proto::ReplyBody;

constexpr size_t kMostMismatches = 20;  // told one by one

struct Worker::Job {
  std::string name, state;  // path of its real state
  std::shared_ptr<const StateSource> content;
  std::map<StateVersion, collection::Collection> collections;  // of the versions on devices
  std::unique_ptr<Execution> execution;
  OpenSamples samples;
};

namespace {

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

// Whether a command only reads other workers' state, and frees nothing that they may read.
bool only_reads(const CommandBody& body) {
  switch (body.what_case()) {
    case CommandBody::kAdvance:
    case CommandBody::kCopy:
    case CommandBody::kRound:
    case CommandBody::kVerify:
    case CommandBody::kWrite:
    case CommandBody::kRead:
    case CommandBody::kJoin: return true;
    default: return false;
  }
}

}  // namespace

class Worker::Handling {
 public:
  explicit Handling(Worker& worker) : worker_(worker), places_(worker.places_) {}

  absl::Status run(const CommandBody& body) {
    const auto what = body.what_case();
    const bool needs_places =
        what != CommandBody::WHAT_NOT_SET && what != CommandBody::kSetup && what != CommandBody::kExit;
    if (needs_places && host_store() == nullptr)
      return absl::FailedPreconditionError("this worker has not been set up yet");
    switch (what) {
      case CommandBody::kSetup: return setup(body.setup());
      case CommandBody::kPeers: return peers(body.peers());
      case CommandBody::kCreate: return create(body.create());
      case CommandBody::kAdvance: return advance(body.advance());
      case CommandBody::kCopy: return copy(body.copy());
      case CommandBody::kPrepare: return prepare(body.prepare());
      case CommandBody::kRound: return round(body.round());
      case CommandBody::kVerify: return verify(body.verify());
      case CommandBody::kCommit: return commit(body.commit());
      case CommandBody::kForget: return forget(body.forget());
      case CommandBody::kFail: return fail(body.fail());
      case CommandBody::kWrite: return write(body.write());
      case CommandBody::kRead: return read(body.read());
      case CommandBody::kJoin: return join(body.join());
      case CommandBody::kExit: last_ = true; return absl::OkStatus();
      case CommandBody::WHAT_NOT_SET: break;
    }
    return invalid("a command that this worker does not know");
  }

  ReplyBody reply;
  bool last() const { return last_; }

 private:
  // Null: this worker has never heard of the job.
  Job* known_job(int32_t index) {
    const auto found = worker_.jobs_.find(index);
    return found == worker_.jobs_.end() ? nullptr : found->second.get();
  }
  // The collection of a version on devices; null: devices do not hold it.
  static const collection::Collection* side_of(const Job* job, StateVersion version) {
    if (job == nullptr) return nullptr;
    const auto found = job->collections.find(version);
    return found == job->collections.end() ? nullptr : &found->second;
  }
  Job& job(int32_t index) {
    std::unique_ptr<Job>& entry = worker_.jobs_[index];
    if (entry == nullptr) entry = std::make_unique<Job>();
    return *entry;
  }
  void note_held(const VersionKey& key, int64_t step) {
    const std::lock_guard lock(worker_.mutex_);
    worker_.held_[key] = step;
  }
  void note_gone(const VersionKey& key) {
    const std::lock_guard lock(worker_.mutex_);
    worker_.held_.erase(key);
  }
  Store& store_of(DeviceId device) { return *places_.own(Location::device(device)); }
  Store* host_store() { return places_.own(Location::host_memory(places_.host())); }
  absl::Status on_devices(const std::function<absl::Status(DeviceId)>& work) {
    const std::vector<DeviceId>& devices = places_.devices();
    return try_parallel_for(worker_.threads_, devices.size(), [&](size_t i) { return work(devices[i]); });
  }

  absl::Status setup(const CommandBody::Setup& setup) {
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

  absl::Status peers(const CommandBody::Peers& peers) {
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

  absl::Status join(const CommandBody::Join& join) {
    Exchange* const exchange = worker_.exchange_.get();
    if (exchange == nullptr) return missing("this worker was started without NCCL (--transport=nccl)");
    if (!join.unique_id().empty())
      return exchange->join(places_.gpus(), places_.host(), join.unique_id(), join.timeout_s());
    if (exchange->joined(places_.gpus())) return absl::OkStatus();
    SCALAI_ASSIGN_OR_RETURN(*reply.mutable_unique_id(), exchange->make_unique_id());
    return absl::OkStatus();
  }

  absl::Status create(const CommandBody::Create& create) {
    SCALAI_ASSIGN_OR_RETURN(const VersionKey key, key_of(create.job(), create.version()));
    SCALAI_ASSIGN_OR_RETURN(const collection::Collection side, collection_of(create.collection()));
    Job& job = this->job(create.job());
    SCALAI_RETURN_IF_ERROR(know(job, create.name(), create.state()));
    SCALAI_RETURN_IF_ERROR(job.content->match(side).status());
    const auto make = [&](DeviceId device) -> absl::Status {
      Store& store = store_of(device);
      store.drop(key);
      const std::optional<LogicalRank> rank = rank_of(side, device);
      if (!rank) return absl::OkStatus();
      for (size_t i = 0; i < side.tensors.size(); ++i) {
        const TensorId tensor(static_cast<int64_t>(i));
        for (const tensor::Piece& piece : side.pieces(tensor, *rank).pieces)
          SCALAI_RETURN_IF_ERROR(store.add(key, tensor, piece.box, side.tensors[i].dtype).status());
      }
      if (store.pieces(key).empty()) return absl::OkStatus();
      SCALAI_RETURN_IF_ERROR(
          fill_version(places_.backend(), store, key, *job.content, side, create.step(), /*real=*/true));
      return store.publish(key);
    };
    SCALAI_RETURN_IF_ERROR(on_devices(make));
    job.collections[key.version] = side;
    note_held(key, create.step());
    return absl::OkStatus();
  }

  // The job's name and where its real state lies come with every command that makes state.
  static absl::Status know(Job& job, const std::string& name, const std::string& state) {
    if (job.content != nullptr && job.name == name && job.state == state) return absl::OkStatus();
    SCALAI_ASSIGN_OR_RETURN(job.content, StateSource::open(name, state));
    job.name = name;
    job.state = state;
    return absl::OkStatus();
  }

  absl::Status advance(const CommandBody::Advance& advance) {
    SCALAI_ASSIGN_OR_RETURN(const VersionKey key, key_of(advance.job(), advance.version()));
    const Job* job = known_job(key.job);
    const collection::Collection* side = side_of(job, key.version);
    if (side == nullptr) return not_held(key);
    SCALAI_RETURN_IF_ERROR(on_devices([&](DeviceId device) {
      Store& store = store_of(device);
      store.begin_rewrite();
      const absl::Status filled =
          fill_version(places_.backend(), store, key, *job->content, *side, advance.step(), /*real=*/false);
      store.end_rewrite();
      return filled;
    }));
    note_held(key, advance.step());
    return absl::OkStatus();
  }

  absl::Status copy(const CommandBody::Copy& copy) {
    Store& store = *host_store();
    SCALAI_ASSIGN_OR_RETURN(const VersionKey from, key_of(copy.job(), copy.from_version()));
    SCALAI_ASSIGN_OR_RETURN(const VersionKey to, key_of(copy.job(), copy.to_version()));
    if (from == to) return invalid(fmt::format("{} cannot be copied onto itself", from.str()));
    store.drop(to);
    std::vector<BoxCopy> batch;
    if (copy.own_devices()) {
      for (const DeviceId device : places_.devices()) {
        for (const auto& [tensor, pieces] : store_of(device).pieces(from)) {
          for (const Piece& piece : pieces)
            SCALAI_RETURN_IF_ERROR(
                copy_box_in(Location::device(device), from, to, tensor, piece.part, piece.dtype, batch));
        }
      }
    }
    for (const CommandBody::Copy::From& source : copy.from()) {
      const std::optional<Location> place = parse_place(source.place());
      if (!place || !places_.in_cluster(*place))
        return invalid(fmt::format("\"{}\" is no place of the cluster", source.place()));
      const Location src = copy.from_host_memory() ? Location::host_memory(places_.host_of(*place)) : *place;
      for (const proto::TensorBox& one : source.boxes()) {
        SCALAI_ASSIGN_OR_RETURN(const Box box, box_of(one));
        SCALAI_ASSIGN_OR_RETURN(const DType dtype, dtype_of(one));
        SCALAI_RETURN_IF_ERROR(copy_box_in(src, from, to, TensorId(one.tensor()), box, dtype, batch));
      }
    }
    SCALAI_RETURN_IF_ERROR(places_.backend().copy(batch));
    if (store.pieces(to).empty()) return absl::OkStatus();
    return store.publish(to);
  }

  // What of the box is not there yet.
  absl::Status copy_box_in(const Location& src, const VersionKey& from, const VersionKey& to, TensorId tensor,
                           const Box& box, DType dtype, std::vector<BoxCopy>& batch) {
    Store& store = *host_store();
    std::vector<Box> there;
    for (const Piece& piece : store.find(to, tensor, box)) there.push_back(piece.part);
    for (const Box& part : subtract(box, there)) {
      SCALAI_ASSIGN_OR_RETURN(const Target target, store.add(to, tensor, part, dtype));
      SCALAI_RETURN_IF_ERROR(places_.gather(src, from, tensor, part, target, batch));
      reply.set_bytes(reply.bytes() + packed_bytes(part, dtype));
    }
    return absl::OkStatus();
  }

  absl::Status prepare(const CommandBody::Prepare& prepare) {
    SCALAI_ASSIGN_OR_RETURN(const StateVersion to_version, StateVersion::from_wire(prepare.to_version()));
    SCALAI_ASSIGN_OR_RETURN(const StateVersion device_version, StateVersion::from_wire(prepare.device_version()));
    SCALAI_ASSIGN_OR_RETURN(const StateVersion host_version, StateVersion::from_wire(prepare.host_version()));
    SCALAI_ASSIGN_OR_RETURN(plan::Plan plan, plan::parse_plan(prepare.plan()));
    SCALAI_ASSIGN_OR_RETURN(collection::Collection to, collection_of(prepare.to_collection()));
    Job& job = this->job(prepare.job());
    SCALAI_RETURN_IF_ERROR(know(job, prepare.name(), prepare.state()));
    job.execution.reset();
    if (to_version != device_version) job.collections.erase(to_version);
    ExecutionOptions options{.job = prepare.job(),
                             .content = job.content,
                             .to_version = to_version,
                             .device_version = device_version,
                             .host_version = host_version,
                             .restore = prepare.restore(),
                             .step = prepare.step(),
                             .checkpoint = prepare.checkpoint(),
                             .exchange = worker_.exchange_.get(),
                             .threads = worker_.threads_};
    SCALAI_ASSIGN_OR_RETURN(job.execution, Execution::prepare(places_, std::move(plan), to, std::move(options)));
    job.collections[to_version] = std::move(to);
    note_held({prepare.job(), to_version}, prepare.step());
    return absl::OkStatus();
  }

  absl::Status round(const CommandBody::Round& round) {
    SCALAI_ASSIGN_OR_RETURN(const StateVersion to_version, StateVersion::from_wire(round.to_version()));
    const Job* job = known_job(round.job());
    if (job == nullptr || job->execution == nullptr || job->execution->to_version() != to_version)
      return absl::FailedPreconditionError(
          fmt::format("no plan of job {} to {} was prepared", round.job(), to_version.str()));
    SCALAI_ASSIGN_OR_RETURN(const std::vector<Moved> moved, job->execution->run(round.round(), round.hop()));
    for (const Moved& one : moved) {
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
    return absl::OkStatus();
  }

  absl::Status verify(const CommandBody::Verify& verify) {
    SCALAI_ASSIGN_OR_RETURN(const VersionKey key, key_of(verify.job(), verify.version()));
    const Job* job = known_job(key.job);
    const collection::Collection* side = side_of(job, key.version);
    if (side == nullptr) return not_held(key);
    const std::vector<DeviceId>& devices = places_.devices();
    std::vector<Checked> checked(devices.size());
    SCALAI_RETURN_IF_ERROR(try_parallel_for(worker_.threads_, devices.size(), [&](size_t i) -> absl::Status {
      const CheckDepth depth = verify.mode() == proto::VERIFY_NONE     ? CheckDepth::kThere
                               : verify.mode() == proto::VERIFY_SAMPLE ? CheckDepth::kSample
                                                                       : CheckDepth::kFull;
      SCALAI_ASSIGN_OR_RETURN(checked[i],
                              check_version(places_, devices[i], key, *job->content, *side, verify.step(), depth));
      return absl::OkStatus();
    }));
    for (const Checked& one : checked) {
      reply.set_bytes(reply.bytes() + one.bytes);
      reply.set_mismatch_count(reply.mismatch_count() + static_cast<int64_t>(one.wrong.size()));
      for (const std::string& line : one.wrong) {
        if (static_cast<size_t>(reply.mismatches_size()) < kMostMismatches) reply.add_mismatches(line);
      }
    }
    return absl::OkStatus();
  }

  absl::Status commit(const CommandBody::Commit& commit) {
    SCALAI_ASSIGN_OR_RETURN(const VersionKey kept, key_of(commit.job(), commit.version()));
    const auto is_gone = [&](const VersionKey& key) { return key.job == kept.job && key.version != kept.version; };
    Job& job = this->job(kept.job);
    job.execution.reset();
    for (const DeviceId device : places_.devices()) {
      for (const VersionKey& key : store_of(device).versions()) {
        if (is_gone(key)) store_of(device).drop(key);
      }
    }
    use_freed_memory();
    host_store()->drop({kept.job, StateVersion::staged()});
    std::erase_if(job.collections, [&](const auto& entry) { return entry.first != kept.version; });
    const std::lock_guard lock(worker_.mutex_);
    std::erase_if(worker_.held_, [&](const auto& entry) { return is_gone(entry.first); });
    return absl::OkStatus();
  }

  // State that overflowed to the host goes to its device, first into what that one has in reserve, then into what others on
  // the card have given back. Neither can undo a commit: what is not moved is right where it is, and the next commit
  // tries again. What another job's plan has reserved stays.
  void use_freed_memory() {
    const bool planned = std::any_of(worker_.jobs_.begin(), worker_.jobs_.end(),
                                     [](const auto& entry) { return entry.second->execution != nullptr; });
    for (const DeviceId device : places_.devices()) {
      (void)store_of(device).settle();
      if (!planned) (void)store_of(device).reserve(0);
    }
    for (const DeviceId device : places_.devices()) (void)store_of(device).settle();
  }

  absl::Status forget(const CommandBody::Forget& forget) {
    SCALAI_ASSIGN_OR_RETURN(const VersionKey key, key_of(forget.job(), forget.version()));
    Job& job = this->job(key.job);
    if (job.execution != nullptr && job.execution->to_version() == key.version) job.execution.reset();
    for (Store* store : places_.stores()) store->drop(key);
    use_freed_memory();
    job.collections.erase(key.version);
    note_gone(key);
    return absl::OkStatus();
  }

  absl::Status fail(const CommandBody::Fail& fail) {
    for (const std::string& name : fail.places()) {
      const std::optional<Location> place = parse_place(name);
      if (!place || places_.own(*place) == nullptr)
        return invalid(fmt::format("{} is not a place of this worker", name));
      SCALAI_RETURN_IF_ERROR(places_.fail(*place));
    }
    return absl::OkStatus();
  }

  absl::Status write(const CommandBody::Write& write) {
    SCALAI_ASSIGN_OR_RETURN(const VersionKey key, key_of(write.job(), write.version()));
    const collection::Collection* held = side_of(known_job(key.job), key.version);
    if (held == nullptr) return not_held(key);
    const collection::Collection& side = *held;
    SCALAI_ASSIGN_OR_RETURN(const checkpoint::Writer writer,
                            checkpoint::Writer::join(write.folder(), side, {write.name(), write.step()}));
    std::vector<std::byte> bytes;
    for (const int rank : write.ranks()) {
      if (rank < 0 || rank >= side.ranks()) return invalid(fmt::format("there is no rank {}", rank));
      const Location place = Location::device(side.device_of_rank[static_cast<size_t>(rank)]);
      const auto provide = [&](TensorId tensor, const Box& box) -> absl::StatusOr<std::span<const std::byte>> {
        const DType dtype = side.tensors[static_cast<size_t>(tensor.value)].dtype;
        bytes.resize(static_cast<size_t>(packed_bytes(box, dtype)));
        SCALAI_RETURN_IF_ERROR(places_.read(place, key, tensor, box, {box, dtype, bytes.data()}));
        return std::span<const std::byte>(bytes);
      };
      SCALAI_ASSIGN_OR_RETURN(std::string part, writer.write_rank(LogicalRank(rank), provide));
      reply.add_parts(std::move(part));
      reply.set_bytes(reply.bytes() + writer.state_bytes(LogicalRank(rank)));
    }
    return absl::OkStatus();
  }

  absl::Status read(const CommandBody::Read& read) {
    Job& job = this->job(read.job());
    SCALAI_ASSIGN_OR_RETURN(const SampleReading* samples, job.samples.of(read.dataset(), read.index()));
    const std::vector<int> ranks(read.ranks().begin(), read.ranks().end());
    SCALAI_ASSIGN_OR_RETURN(const std::vector<SampleReading::Account> accounts,
                            samples->read(read.from_step(), read.until_step(), read.dp(), ranks, worker_.threads_));
    for (size_t i = 0; i < accounts.size(); ++i) {
      proto::SampleAccount& out = *reply.add_accounts();
      out.set_rank(ranks[i]);
      out.set_samples(accounts[i].read.samples);
      out.set_sum_low(accounts[i].read.sum_low);
      out.set_sum_high(accounts[i].read.sum_high);
      out.set_bytes(accounts[i].bytes);
    }
    return absl::OkStatus();
  }

  Worker& worker_;
  Places& places_;
  bool last_ = false;
};

Worker::Worker(Options options)
    : backend_(options.backend ? options.backend : make_host_backend()),
      locals_(options.locals ? options.locals : std::make_shared<LocalStores>()),
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
  Handling handling(*this);
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
  reply.body = handling.reply.SerializeAsString();
  reply.last = handling.last();
  return reply;
}

}  // namespace scalai::executor
