#include "executor/worker/testing/support.h"

#include <algorithm>
#include <thread>

#include "executor/nccl/library.h"
#include "ptc/base/status.h"
#include "ptc/plan/lowering.h"
#include "ptc/plan/plan_io.h"
#include "ptc/proto/control.pb.h"
#include "ptc/state/collection/collection_file.h"

namespace scalai::executor::worker {

using state::StateVersion;

std::string text_of(const Collection& side) { return collection::collection_text(side, {}); }

CommandBody prepare_body(const plan::Plan& plan, const Collection& to, int64_t step) {
  CommandBody body;
  CommandBody::Prepare& prepare = *body.mutable_prepare();
  prepare.set_job(kJob);
  prepare.set_name("job");
  prepare.set_to_version(StateVersion::epoch(to.epoch).wire());
  prepare.set_device_version(StateVersion::epoch(plan.from_epoch()).wire());
  prepare.set_host_version(kSnapshot.wire());
  prepare.set_step(step);
  prepare.set_plan(plan::serialize(plan));
  prepare.set_to_collection(text_of(to));
  return body;
}

CommandBody round_body(int64_t to_epoch, int32_t round, int32_t hop) {
  CommandBody body;
  body.mutable_round()->set_job(kJob);
  body.mutable_round()->set_to_version(StateVersion::epoch(to_epoch).wire());
  body.mutable_round()->set_round(round);
  body.mutable_round()->set_hop(hop);
  return body;
}

const nccl::NcclLibrary& fake_nccl() {
  static const nccl::NcclLibrary library = nccl::NcclLibrary::open(FAKE_NCCL_LIBRARY).value();
  return library;
}

SmallCluster::SmallCluster(const SmallClusterOptions& options) : options_(options) {
  const bool one_process = options.reach == Reach::kOneProcess;
  if (has_nccl() || one_process)
    backend_ =
        device::make_host_backend({.devices_per_gpu = options.reach == Reach::kNcclOnePerDevice ? 1 : options.gpus});
  if (one_process) locals_ = std::make_shared<LocalStores>();
  workers_.resize(static_cast<size_t>(options.hosts));
  std::vector<HostId> all;
  for (int host = 0; host < options.hosts; ++host) all.push_back(HostId(host));
  for (int host = 0; host < options.hosts; ++host) {
    const auto at = static_cast<size_t>(host);
    transports_.push_back(
        std::make_unique<transport::LoopbackTransport>(network_, [this, at](std::string_view request) {
          ++fetches_;
          return workers_[at]->places().answer(request);
        }));
    workers_[at] = std::make_unique<Worker>(
        Worker::Options{.host = HostId(host),
                        .segments = {.capacity = int64_t{1} << 32, .limit = options.limit, .leave_free = 0},
                        .backend = backend_,
                        .hosts_here = one_process ? all : std::vector<HostId>{},
                        .locals = locals_,
                        .transport = one_process ? nullptr : transports_.back().get(),
                        .nccl = has_nccl() ? std::optional(fake_nccl().api()) : std::nullopt});
  }
  introduce();
}

SmallCluster::~SmallCluster() {
  for (const auto& transport : transports_) transport->close();
}

void SmallCluster::introduce() {
  CommandBody setup, peers;
  for (int host = 0; host < options_.hosts; ++host) setup.mutable_setup()->add_gpus_of_host(options_.gpus);
  setup.mutable_setup()->set_threads(2);
  setup.mutable_setup()->set_force_network(options_.reach == Reach::kNetwork);
  for (int host = 0; host < options_.hosts; ++host) {
    proto::Peer& peer = *peers.mutable_peers()->add_peers();
    peer.set_host(host);
    *peer.mutable_places() = ask(host, setup).places();
    peer.set_transport_address(transports_[static_cast<size_t>(host)]->address());
  }
  ask_all(peers);
  if (!has_nccl()) return;
  CommandBody join;
  join.mutable_join();
  const ReplyBody first = ask(0, join);
  if (first.unique_id().empty()) return;
  join.mutable_join()->set_unique_id(first.unique_id());
  join.mutable_join()->set_timeout_s(20);
  ask_all(join);
}

absl::StatusOr<ReplyBody> SmallCluster::call(int host, const CommandBody& body) {
  const rpc::Reply reply =
      workers_[static_cast<size_t>(host)]->handle({.what = "test", .body = body.SerializeAsString()});
  if (!reply.status.ok()) return reply.status;
  ReplyBody parsed;
  SCALAI_CHECK(parsed.ParseFromString(reply.body));
  return parsed;
}

ReplyBody SmallCluster::ask(int host, const CommandBody& body) {
  const absl::StatusOr<ReplyBody> reply = call(host, body);
  EXPECT_EQ(message_of(reply.status()), "") << body.ShortDebugString().substr(0, 60);
  if (!reply.ok()) return {};
  if (options_.twice) {
    const absl::StatusOr<ReplyBody> again = call(host, body);
    EXPECT_EQ(message_of(again.status()), "") << "second time: " << body.ShortDebugString().substr(0, 60);
    if (again.ok()) {
      EXPECT_EQ(timeless(*again), timeless(*reply));
    }
  }
  return *reply;
}

std::vector<ReplyBody> SmallCluster::ask_all(const CommandBody& body) {
  std::vector<ReplyBody> replies(static_cast<size_t>(options_.hosts));
  std::vector<std::thread> threads;
  for (int host = 0; host < options_.hosts; ++host)
    threads.emplace_back([&, host] { replies[static_cast<size_t>(host)] = ask(host, body); });
  for (std::thread& thread : threads) thread.join();
  return replies;
}

void SmallCluster::create(const Collection& side, int64_t step) {
  CommandBody body;
  CommandBody::Create& create = *body.mutable_create();
  create.set_job(kJob);
  create.set_name("job");
  create.set_version(StateVersion::epoch(side.epoch).wire());
  create.set_step(step);
  create.set_collection(text_of(side));
  ask_all(body);
}

void SmallCluster::advance(const Collection& side, int64_t step) {
  CommandBody body;
  body.mutable_advance()->set_job(kJob);
  body.mutable_advance()->set_version(StateVersion::epoch(side.epoch).wire());
  body.mutable_advance()->set_step(step);
  ask_all(body);
}

plan::ClassBytes SmallCluster::run_rounds(const plan::Plan& plan, int64_t to_epoch) {
  plan::ClassBytes bytes;
  for (int32_t round = 0; round < plan.rounds(); ++round) {
    for (int32_t hop = 0; hop <= std::max(0, plan::last_hop(plan, round)); ++hop) {
      for (const ReplyBody& reply : ask_all(round_body(to_epoch, round, hop))) {
        for (const proto::TransferRecord& record : reply.transfers())
          bytes.of(static_cast<plan::TransferClass>(record.transfer_class())) += record.bytes();
      }
    }
  }
  return bytes;
}

plan::ClassBytes SmallCluster::change(const plan::Plan& plan, const Collection& to, int64_t step) {
  ask_all(prepare_body(plan, to, step));
  return run_rounds(plan, to.epoch);
}

std::vector<std::string> SmallCluster::verify(const Collection& side, int64_t step) {
  CommandBody body;
  body.mutable_verify()->set_job(kJob);
  body.mutable_verify()->set_version(StateVersion::epoch(side.epoch).wire());
  body.mutable_verify()->set_step(step);
  std::vector<std::string> lines;
  int64_t bytes = 0, wrong = 0;
  for (const ReplyBody& reply : ask_all(body)) {
    lines.insert(lines.end(), reply.mismatches().begin(), reply.mismatches().end());
    wrong += reply.mismatch_count();
    bytes += reply.bytes();
  }
  EXPECT_EQ(std::min<int64_t>(wrong, 20), static_cast<int64_t>(std::min<size_t>(lines.size(), 20)));
  if (wrong == 0) {
    EXPECT_EQ(bytes, bytes_of(side));
  }
  return lines;
}

void SmallCluster::commit(int64_t epoch) {
  CommandBody body;
  body.mutable_commit()->set_job(kJob);
  body.mutable_commit()->set_version(StateVersion::epoch(epoch).wire());
  ask_all(body);
}

void SmallCluster::forget(int64_t epoch) {
  CommandBody body;
  body.mutable_forget()->set_job(kJob);
  body.mutable_forget()->set_version(StateVersion::epoch(epoch).wire());
  ask_all(body);
}

void SmallCluster::stage(const Collection& from, HostId hub, StateVersion to, const std::set<DeviceId>& lost) {
  for (int host = 0; host < options_.hosts; ++host) {
    CommandBody body;
    CommandBody::Copy& copy = *body.mutable_copy();
    copy.set_job(kJob);
    copy.set_from_version(StateVersion::epoch(from.epoch).wire());
    copy.set_to_version(to.wire());
    for (int rank = 0; rank < from.ranks(); ++rank) {
      const DeviceId device = from.device_of_rank[static_cast<size_t>(rank)];
      const HostId home = hub.valid() ? hub : HostId(device.value / options_.gpus);
      if (home != HostId(host) || lost.contains(device)) continue;
      CommandBody::Copy::From& one = *copy.add_from();
      one.set_place(Location::device(device).str());
      for (size_t i = 0; i < from.tensors.size(); ++i) {
        for (const tensor::Piece& piece : from.pieces(TensorId(static_cast<int64_t>(i)), LogicalRank(rank)).pieces)
          set_box(piece.box, TensorId(static_cast<int64_t>(i)), from.tensors[i].dtype, *one.add_boxes());
      }
    }
    if (copy.from_size() > 0) ask(host, body);
  }
}

void SmallCluster::snapshot(const Collection& from, StateVersion to) {
  CommandBody body;
  CommandBody::Copy& copy = *body.mutable_copy();
  copy.set_job(kJob);
  copy.set_from_version(StateVersion::epoch(from.epoch).wire());
  copy.set_to_version(to.wire());
  copy.set_own_devices(true);
  ask_all(body);
}

void SmallCluster::lose(const std::vector<int>& devices) {
  for (const int device : devices) {
    CommandBody body;
    body.mutable_fail()->add_places(Location::device(DeviceId(device)).str());
    ask(device / options_.gpus, body);
  }
  introduce();
}

state::Store& SmallCluster::store(const Location& place) {
  for (const auto& worker : workers_) {
    if (state::Store* store = worker->places().own(place)) return *store;
  }
  check_failed(__FILE__, __LINE__, "a place of the cluster", place.str());
}

int64_t SmallCluster::bytes_of(const Collection& side) {
  int64_t bytes = 0;
  for (int rank = 0; rank < side.ranks(); ++rank) {
    for (size_t i = 0; i < side.tensors.size(); ++i) {
      for (const tensor::Piece& piece : side.pieces(TensorId(static_cast<int64_t>(i)), LogicalRank(rank)).pieces)
        bytes += packed_bytes_of(piece.box, side.tensors[i].dtype);
    }
  }
  return bytes;
}

std::string SmallCluster::timeless(ReplyBody reply) {
  for (proto::TransferRecord& record : *reply.mutable_transfers()) {
    record.clear_start_s();
    record.clear_end_s();
  }
  return reply.ShortDebugString();
}

}  // namespace scalai::executor::worker
