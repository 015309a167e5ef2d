#include "executor/controller/job_commands.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>

#include "executor/controller/exec_runtime.h"
#include "executor/controller/shown_state.h"
#include "executor/worker/places.h"
#include "ptc/base/status.h"
#include "ptc/plan/lowering.h"
#include "ptc/plan/plan_io.h"
#include "ptc/proto/control.pb.h"
#include "ptc/state/collection/collection_file.h"
#include "ptc/store/naming/family.h"

namespace scalai::executor::controller {

using state::StateVersion;

using collection::Collection;
using plan::Location;
using proto::CommandBody;
using proto::ReplyBody;

namespace {

// Whether a staged strategy has copied the source state into hosts' memories before the plan.
bool is_staged(const control::Execute& execute) {
  return execute.upload && (execute.snapshot == control::kLiveState || execute.restore);
}

// The version that the plan reads in hosts' memories. A live state that is not staged is on devices only: nobody reads
// the version then, and the command keeps the number that it always had.
StateVersion host_version_of(const control::Execute& execute) {
  if (is_staged(execute)) return StateVersion::staged();
  return execute.snapshot == control::kLiveState ? StateVersion::initial() : version_of(execute.snapshot);
}

std::string text_of(const Collection& collection) { return collection::collection_text(collection, {}); }

// So that a checkpoint says whose state it is; empty: a model without a family (ptc/store/naming/families).
std::string model_text(const model::Model& model) {
  const auto family = store::Families::built_in().of_model(model);
  if (!family.ok()) return "";
  const auto sizes = family->sizes_of_model(model);
  return sizes.ok() ? store::model_file_text({family->name(), model.name, *sizes}) : "";
}

std::vector<std::string> parts_of(const std::vector<ReplyBody>& replies) {
  std::vector<std::string> parts;
  for (const ReplyBody& reply : replies) parts.insert(parts.end(), reply.parts().begin(), reply.parts().end());
  return parts;
}

// Redundant copies, which are in the host's own memory already, are among what is staged there.
void stage_extra(const control::Execute& execute, HostId host, const std::vector<DeviceId>& own,
                 CommandBody::Copy& copy) {
  CommandBody::Copy::From* from = nullptr;
  for (const collection::ExtraHolder& extra : execute.extra) {
    if (extra.host != host || own.empty()) continue;
    if (from == nullptr) {
      from = copy.add_from();
      from->set_place(Location::device(own.front()).str());
    }
    worker::set_box(extra.box, extra.tensor, execute.from->tensors[static_cast<size_t>(extra.tensor.value)].dtype,
                    *from->add_boxes());
  }
}

}  // namespace

StateVersion version_of(control::SnapshotId snapshot) {
  return snapshot == control::kInitialState ? StateVersion::initial() : StateVersion::snapshot(snapshot);
}

std::vector<DeviceId> living(const Collection& side, const std::set<DeviceId>& gone) {
  std::vector<DeviceId> devices;
  for (const DeviceId device : side.device_of_rank) {
    if (!gone.contains(device)) devices.push_back(device);
  }
  return devices;
}

template <class Body>
void JobCommands::set_job(Body& body) const {
  body.set_job(job_);
  body.set_name(name());
  body.set_state(state_path());
  const auto found = options_.programs.find(job_);
  if (found == options_.programs.end()) return;
  body.mutable_program()->set_command(found->second.command);
  body.mutable_program()->set_folder(found->second.folder);
  body.mutable_program()->set_logs(found->second.logs);
}

absl::Status JobCommands::create(const Collection& side, int64_t step) {
  CommandBody body;
  CommandBody::Create& create = *body.mutable_create();
  set_job(create);
  create.set_version(StateVersion::epoch(side.epoch).wire());
  create.set_step(step);
  create.set_collection(text_of(side));
  return pool_.call("create", pool_.living_hosts_of(side.device_of_rank), body).status();
}

absl::StatusOr<std::vector<ReplyBody>> JobCommands::advance(const Collection& side, int64_t step,
                                                            const std::set<DeviceId>& gone) {
  CommandBody body;
  body.mutable_advance()->set_job(job_);
  body.mutable_advance()->set_version(StateVersion::epoch(side.epoch).wire());
  body.mutable_advance()->set_step(step);
  return pool_.call("advance", pool_.living_hosts_of(living(side, gone)), body);
}

absl::Status JobCommands::stand_by(const std::set<HostId>& hosts) {
  CommandBody body;
  CommandBody::Standby& standby = *body.mutable_standby();
  set_job(standby);
  return pool_.tell("standby", hosts, body);
}

absl::Status JobCommands::stage(const control::Execute& execute) {
  if (!is_staged(execute)) return absl::OkStatus();
  const bool live = execute.snapshot == control::kLiveState;
  const StateVersion from_version = live ? StateVersion::epoch(execute.from->epoch) : version_of(execute.snapshot);
  WorkerPool::Calls calls;
  for (const HostId host : pool_.living()) {
    CommandBody body;
    CommandBody::Copy& copy = *body.mutable_copy();
    copy.set_job(job_);
    copy.set_from_version(from_version.wire());
    copy.set_to_version(StateVersion::staged().wire());
    copy.set_from_host_memory(!live);
    for (int rank = 0; rank < execute.from->ranks(); ++rank) {
      const DeviceId device = execute.from->device_of_rank[static_cast<size_t>(rank)];
      const HostId home = execute.hub.valid() ? execute.hub : scenario_.cluster.host_of(device);
      if (home != host || execute.gone.contains(device)) continue;
      CommandBody::Copy::From& from = *copy.add_from();
      from.set_place(Location::device(device).str());
      for (size_t i = 0; i < execute.from->tensors.size(); ++i) {
        const TensorId tensor(static_cast<int64_t>(i));
        for (const tensor::Piece& piece : execute.from->pieces(tensor, LogicalRank(rank)).pieces)
          worker::set_box(piece.box, tensor, execute.from->tensors[i].dtype, *from.add_boxes());
      }
    }
    if (!live) stage_extra(execute, host, scenario_.cluster.devices_of(host), copy);
    if (copy.from_size() > 0) calls.emplace_back(host, std::move(body));
  }
  return pool_.call("stage", calls).status();
}

absl::Status JobCommands::prepare(const control::Execute& execute, const std::string& checkpoint) {
  CommandBody body;
  CommandBody::Prepare& prepare = *body.mutable_prepare();
  set_job(prepare);
  prepare.set_to_version(StateVersion::epoch(execute.epoch).wire());
  prepare.set_device_version(StateVersion::epoch(execute.from->epoch).wire());
  prepare.set_host_version(host_version_of(execute).wire());
  prepare.set_restore(execute.snapshot != control::kLiveState);
  prepare.set_step(execute.step);
  prepare.set_plan(plan::serialize(*execute.plan));
  prepare.set_to_collection(text_of(*execute.to));
  prepare.set_checkpoint(checkpoint);
  std::vector<DeviceId> devices = execute.plan->dst_devices();
  devices.insert(devices.end(), execute.plan->src_devices().begin(), execute.plan->src_devices().end());
  return pool_.call("prepare", pool_.living_hosts_of(devices), body).status();
}

absl::Status JobCommands::round(const control::Execute& execute, int round, double start_s,
                                std::vector<control::TransferRecord>& transfers) {
  const int32_t last_hop = std::max(0, plan::last_hop(*execute.plan, round));  // a round without instances frees, too
  std::vector<DeviceId> devices = execute.plan->dst_devices();
  if (pool_.holders_send())
    devices.insert(devices.end(), execute.plan->src_devices().begin(), execute.plan->src_devices().end());
  const auto began = std::chrono::steady_clock::now();
  for (int32_t hop = 0; hop <= last_hop; ++hop) {
    CommandBody body;
    body.mutable_round()->set_job(job_);
    body.mutable_round()->set_to_version(StateVersion::epoch(execute.epoch).wire());
    body.mutable_round()->set_round(round);
    body.mutable_round()->set_hop(hop);
    const double hop_s = start_s + std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
    SCALAI_ASSIGN_OR_RETURN(const std::vector<ReplyBody> replies,
                            pool_.call("round", pool_.living_hosts_of(devices), body));
    for (const ReplyBody& reply : replies) {
      for (const proto::TransferRecord& record : reply.transfers()) {
        transfers.push_back({.job = job_,
                             .reconfiguration = execute.reconfiguration,
                             .phase = "transfer",
                             .round = round + 1,
                             .src = worker::parse_place(record.src()).value_or(Location::storage()),
                             .dst = worker::parse_place(record.dst()).value_or(Location::storage()),
                             .transfer_class = static_cast<plan::TransferClass>(record.transfer_class()),
                             .bytes = record.bytes(),
                             .start_s = hop_s + record.start_s(),
                             .end_s = hop_s + record.end_s()});
      }
    }
  }
  std::stable_sort(transfers.begin(), transfers.end(), [](const auto& a, const auto& b) { return a.end_s < b.end_s; });
  return absl::OkStatus();
}

absl::Status JobCommands::verify(const control::Execute& execute, std::atomic<int64_t>& bytes) {
  if (options_.verify == VerifyMode::kNone) return absl::OkStatus();
  CommandBody body;
  CommandBody::Verify& verify = *body.mutable_verify();
  verify.set_job(job_);
  verify.set_version(StateVersion::epoch(execute.epoch).wire());
  verify.set_step(execute.step);
  verify.set_mode(options_.verify == VerifyMode::kFull ? proto::VERIFY_FULL : proto::VERIFY_SAMPLE);
  SCALAI_ASSIGN_OR_RETURN(const std::vector<ReplyBody> replies,
                          pool_.call("verify", pool_.living_hosts_of(execute.plan->dst_devices()), body));
  int64_t wrong = 0;
  std::string first;
  for (const ReplyBody& reply : replies) {
    bytes += reply.bytes();
    wrong += reply.mismatch_count();
    for (const std::string& line : reply.mismatches()) first += "\n  " + line;
  }
  if (wrong == 0) return absl::OkStatus();
  return absl::DataLossError(fmt::format("job {}, epoch {}: {} pieces differ from their expected content at step {}:{}",
                                         name(), execute.epoch, wrong, execute.step, first));
}

absl::Status JobCommands::commit(int64_t epoch) {
  CommandBody body;
  body.mutable_commit()->set_job(job_);
  body.mutable_commit()->set_version(StateVersion::epoch(epoch).wire());
  return pool_.tell("commit", pool_.living(), body);
}

absl::Status JobCommands::forget(StateVersion version) {
  CommandBody body;
  body.mutable_forget()->set_job(job_);
  body.mutable_forget()->set_version(version.wire());
  return pool_.tell("forget", pool_.living(), body);
}

absl::Status JobCommands::forget_live() {
  CommandBody body;
  body.mutable_forget()->set_job(job_);
  body.mutable_forget()->set_live_copies(true);
  return pool_.tell("forget", pool_.living(), body);
}

absl::Status JobCommands::copy_to_hosts(const Collection& side, StateVersion version,
                                        std::span<const collection::ExtraHolder> copies) {
  std::map<HostId, std::map<DeviceId, std::vector<const collection::ExtraHolder*>>> wanted;
  for (const collection::ExtraHolder& copy : copies) {
    for (int rank = 0; rank < side.ranks(); ++rank) {
      const std::vector<tensor::Piece> pieces = side.pieces(copy.tensor, LogicalRank(rank)).pieces;
      const bool holds = std::any_of(pieces.begin(), pieces.end(),
                                     [&](const tensor::Piece& piece) { return piece.box.contains(copy.box); });
      if (!holds) continue;
      wanted[copy.host][side.device_of_rank[static_cast<size_t>(rank)]].push_back(&copy);
      break;
    }
  }
  std::set<HostId> hosts = pool_.living_hosts_of(side.device_of_rank);
  for (const auto& [host, from] : wanted) {
    if (pool_.living().contains(host)) hosts.insert(host);
  }
  WorkerPool::Calls calls;
  for (const HostId host : hosts) {
    CommandBody body;
    CommandBody::Copy& copy = *body.mutable_copy();
    copy.set_job(job_);
    copy.set_from_version(StateVersion::epoch(side.epoch).wire());
    copy.set_to_version(version.wire());
    copy.set_own_devices(true);
    for (const auto& [device, list] : wanted[host]) {
      CommandBody::Copy::From& from = *copy.add_from();
      from.set_place(Location::device(device).str());
      for (const collection::ExtraHolder* one : list)
        worker::set_box(one->box, one->tensor, side.tensors[static_cast<size_t>(one->tensor.value)].dtype,
                        *from.add_boxes());
    }
    calls.emplace_back(host, std::move(body));
  }
  return pool_.call("copy", calls).status();
}

absl::StatusOr<proto::LiveState> JobCommands::show_live(const Collection& side, int64_t step, StateVersion version,
                                                        const LiveSteps::Kind& kind) {
  ShownState shown{.job = job_, .name = name(), .step = step, .model = model_text(spec().model), .collection = &side};
  for (const cluster::Host& host : scenario_.cluster.hosts) shown.gpus_of_host.push_back(host.gpus);
  absl::StatusOr<proto::LiveState> live =
      show_state(pool_, pool_.living_hosts_of(side.device_of_rank), shown, version, kind);
  if (!live.ok()) SCALAI_RETURN_IF_ERROR(forget(version));
  return live;
}

absl::Status JobCommands::write(Files& files, const Collection& side, int64_t step, bool in_background) {
  std::map<HostId, CommandBody> bodies;
  for (int rank = 0; rank < side.ranks(); ++rank) {
    if (!files.writer.has_file(LogicalRank(rank))) continue;
    CommandBody::Write& write =
        *bodies[scenario_.cluster.host_of(side.device_of_rank[static_cast<size_t>(rank)])].mutable_write();
    write.add_ranks(rank);
  }
  WorkerPool::Calls calls;
  for (auto& [host, body] : bodies) {
    CommandBody::Write& write = *body.mutable_write();
    write.set_job(job_);
    write.set_name(name());
    write.set_version(StateVersion::epoch(side.epoch).wire());
    write.set_step(step);
    write.set_folder(files.writer.temporary());
    write.set_in_background(in_background);
    write.set_tag(files.tag);
    if (in_background) files.hosts.insert(host);
    calls.emplace_back(host, std::move(body));
  }
  const std::string model = model_text(spec().model);
  if (!model.empty()) SCALAI_RETURN_IF_ERROR(files.writer.add_file(std::string(store::kModelFileName), model));
  SCALAI_ASSIGN_OR_RETURN(const std::vector<ReplyBody> replies, pool_.call("write", calls));
  return in_background ? absl::OkStatus() : files.writer.finish(parts_of(replies));
}

absl::StatusOr<bool> JobCommands::complete(Files& files) {
  CommandBody body;
  body.mutable_written()->set_job(job_);
  body.mutable_written()->set_folder(files.writer.temporary());
  body.mutable_written()->set_tag(files.tag);
  SCALAI_ASSIGN_OR_RETURN(const std::vector<ReplyBody> replies, pool_.call("written", files.hosts, body));
  if (std::any_of(replies.begin(), replies.end(), [](const ReplyBody& reply) { return reply.busy(); })) return false;
  SCALAI_RETURN_IF_ERROR(files.writer.finish(parts_of(replies)));
  return true;
}

std::string JobCommands::state_path() const {
  const auto found = options_.states.find(job_);
  return found == options_.states.end() ? "" : found->second;
}

}  // namespace scalai::executor::controller
