#include "ptc/cost/change/stages.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <tuple>

#include "ptc/plan/estimate.h"
#include "ptc/state/collection/rank_parts.h"

namespace scalai::change {
namespace {

using plan::Leg;
using plan::Location;
using plan::TransferClass;

// Calls visit(round, leg, bytes) for every leg of every instance; the tensors of an instance are one.
template <class Visit>
void for_each_leg(const plan::Plan& plan, Visit visit) {
  std::map<std::pair<int32_t, TransferClass>, int64_t> element_bytes;  // by tensor set
  for (const plan::Instance& instance : plan.instances()) {
    for (const Leg& leg : plan.patterns().legs(instance.pattern)) {
      const auto [size, fresh] = element_bytes.emplace(std::pair(instance.tensors, leg.transfer_class), 0);
      if (fresh) {
        for (const TensorId id : plan.tensors_of(instance))
          size->second += plan.tensor(id).element_bytes(leg.transfer_class);
      }
      visit(instance.round, leg, size->second * instance.box.volume());
    }
  }
}

HostId host_of(const cluster::Cluster& cluster, Location place) {
  return place.kind == Location::Kind::kDevice ? cluster.host_of(DeviceId(place.index)) : HostId(place.index);
}

Location home_of(const Change& change, Location device) {
  return Location::host_memory(change.hub.valid() ? change.hub : host_of(change.cluster, device));
}

std::vector<FlowRequest> bulk(std::span<const BulkFlow> flows, const cluster::Cluster& cluster) {
  std::vector<FlowRequest> requests;
  for (const BulkFlow& flow : flows) {
    requests.push_back({.src = flow.src,
                        .dst = flow.dst,
                        .bytes = flow.bytes,
                        .transfer_class = class_of(cluster, flow.src, flow.dst)});
  }
  return requests;
}

// The plan by round, one flow per pair of places; and what each device keeps and gets.
struct Moves {
  std::vector<std::vector<FlowRequest>> rounds;
  std::map<Location, int64_t> kept, all;
};

Moves moves_of(const plan::Plan& plan) {
  using Key = std::tuple<TransferClass, Location, Location>;
  Moves moves;
  std::vector<std::map<Key, int64_t>> bytes_of(static_cast<size_t>(plan.rounds()));
  for_each_leg(plan, [&](int32_t round, const Leg& leg, int64_t bytes) {
    const Location dst = Location::device(leg.dst);
    moves.all[dst] += bytes;
    if (leg.transfer_class == TransferClass::kKept) {
      moves.kept[dst] += bytes;
    } else if (leg.transfer_class != TransferClass::kDerived) {
      bytes_of[static_cast<size_t>(round)][{leg.transfer_class, leg.src, dst}] += bytes;
    }
  });
  for (const auto& round : bytes_of) {
    moves.rounds.emplace_back();
    for (const auto& [key, total] : round) {
      const auto& [transfer_class, src, dst] = key;
      moves.rounds.back().push_back({.src = src, .dst = dst, .bytes = total, .transfer_class = transfer_class});
    }
  }
  return moves;
}

// Staged strategies pull into a process on the target's host (or the hub), not into the device.
void redirect_to_processes(const Change& change, std::vector<FlowRequest>& flows) {
  std::map<std::pair<Location, Location>, FlowRequest> merged;
  for (const FlowRequest& flow : flows) {
    FlowRequest pull = flow;
    pull.dst = home_of(change, flow.dst);
    pull.dst_process = true;
    const cluster::Host& host = change.cluster.hosts[static_cast<size_t>(host_of(change.cluster, flow.dst).value)];
    pull.lane = change.cluster.local_index(DeviceId(flow.dst.index)) * host.nics / host.gpus;
    pull.transfer_class = class_of(change.cluster, pull.src, pull.dst);
    const auto [entry, fresh] = merged.emplace(std::pair(pull.src, flow.dst), pull);
    if (!fresh) entry->second.bytes += flow.bytes;
  }
  flows.clear();
  for (const auto& [ends, flow] : merged) flows.push_back(flow);
}

std::vector<FlowRequest> upload_flows(const Change& change, const std::map<Location, int64_t>& all) {
  std::vector<FlowRequest> flows;
  for (const auto& [device, total] : all) {
    const Location memory = home_of(change, device);
    flows.push_back({.src = memory, .dst = memory, .bytes = total, .src_process = true});
  }
  return flows;
}

std::vector<FlowRequest> restore_flows(const Change& change, const std::map<Location, int64_t>& kept) {
  std::vector<FlowRequest> flows;
  for (const auto& [device, total] : kept) {
    flows.push_back({.src = Location::host_memory(host_of(change.cluster, device)),
                     .dst = device,
                     .bytes = total,
                     .src_process = true});
  }
  return flows;
}

// The parts that ranks hold of the tensors of each set: a box of a plan is in one of them.
class Parts {
 public:
  Parts(const plan::Plan& plan, const collection::Collection& collection) {
    for (size_t i = 0; i < collection.tensors.size(); ++i)
      id_of_[collection.tensors[i].name] = TensorId(static_cast<int>(i));
    for (const plan::Instance& instance : plan.instances()) {
      const auto [known, fresh] = boxes_.try_emplace(instance.tensors);
      const auto found = id_of_.find(plan.tensor(plan.tensors_of(instance).front()).name);
      if (!fresh || found == id_of_.end()) continue;
      std::set<tensor::Box> all;
      for (const collection::RankPart& part : collection::rank_parts(collection, found->second)) {
        for (const tensor::Piece& piece : part.buffer.pieces) all.insert(piece.box);
      }
      known->second.assign(all.begin(), all.end());
    }
  }
  // Elements of the part that has the box; else, as a host's memory may have it in several parts, of the largest of
  // them.
  int64_t elements(const plan::Instance& instance) const {
    int64_t largest = 0;
    for (const tensor::Box& part : boxes_.at(instance.tensors)) {
      if (part.contains(instance.box)) return part.volume();
      if (instance.box.contains(part)) largest = std::max(largest, part.volume());
    }
    return largest > 0 ? largest : instance.box.volume();
  }

 private:
  std::map<std::string, TensorId> id_of_;
  std::map<int32_t, std::vector<tensor::Box>> boxes_;  // by set of tensors
};

double verify_seconds(const Change& change) {
  const double rate = change.costs.verify_bytes_per_s;
  return rate > 0 ? static_cast<double>(most_received_bytes(change.plan)) / rate : 0;
}

// Of boxes and messages between devices, or of requests to stores.
std::vector<double> messages_of(const Change& change, const StoreWork& work) {
  return change.upload ? work.requests_s : plan::message_seconds(change.plan, change.costs.messages);
}

std::vector<BulkFlow> bulk_of(const std::vector<FlowRequest>& flows) {
  std::vector<BulkFlow> bulk;
  for (const FlowRequest& flow : flows) bulk.push_back({flow.src, flow.dst, flow.bytes});
  return bulk;
}

}  // namespace

TransferClass class_of(const cluster::Cluster& cluster, Location src, Location dst) {
  if (src.kind == Location::Kind::kStorage) return TransferClass::kFromStorage;
  if (src == dst && src.kind == Location::Kind::kDevice) return TransferClass::kSameDevice;
  if (dst.kind == Location::Kind::kStorage) return TransferClass::kCrossHost;
  return host_of(cluster, src) == host_of(cluster, dst) ? TransferClass::kSameHost : TransferClass::kCrossHost;
}

int64_t most_received_bytes(const plan::Plan& plan) {
  std::map<DeviceId, int64_t> received;
  int64_t most = 0;
  for_each_leg(plan, [&](int32_t /*round*/, const Leg& leg, int64_t bytes) {
    if (leg.transfer_class != TransferClass::kKept) most = std::max(most, received[leg.dst] += bytes);
  });
  return most;
}

StoreWork store_work(const Change& change) {
  const plan::Plan& plan = change.plan;
  StoreWork work{.copies_s = std::vector<double>(static_cast<size_t>(plan.rounds()), 0), .requests_s = {}};
  work.requests_s = work.copies_s;
  if (!change.upload || change.from == nullptr || change.to == nullptr) return work;
  const Parts from(plan, *change.from), to(plan, *change.to);
  std::map<std::tuple<int, HostId, bool>, double> copying_s;  // by round: a host's store, serving or taking in
  std::map<std::pair<int, HostId>, double> requests;          // by round and host
  for (const plan::Instance& instance : plan.instances()) {
    const auto box = static_cast<double>(instance.box.volume());
    const auto tensors = static_cast<double>(plan.tensors_of(instance).size());
    const double source = static_cast<double>(from.elements(instance)),
                 target = static_cast<double>(to.elements(instance));
    for (const Leg& leg : plan.patterns().legs(instance.pattern)) {
      const HostId home = host_of(change.cluster, home_of(change, Location::device(leg.dst)));
      requests[{instance.round, home}] += tensors * std::min(1.0, box / target);
      if (leg.src.kind == Location::Kind::kStorage) continue;
      // A box from several parts on one host is asked for part by part.
      requests[{instance.round, host_of(change.cluster, leg.src)}] += tensors * std::max(1.0, box / source);
      double element_bytes = 0;
      for (const TensorId id : plan.tensors_of(instance))
        element_bytes += static_cast<double>(plan.tensor(id).element_bytes(leg.transfer_class));
      const auto add = [&](HostId host, bool serves, double elements) {
        const cluster::Host& one = change.cluster.hosts[static_cast<size_t>(host.value)];
        const StoreRates rates = store_rates(one, change.costs.stores);
        const double rate = serves ? rates.serve_bytes_per_s : rates.ingest_bytes_per_s;
        if (rate > 0) copying_s[{instance.round, host, serves}] += elements * element_bytes / rate;
      };
      if (source > box) add(host_of(change.cluster, leg.src), true, source);
      if (target > std::min(box, source)) add(home, false, box);
    }
  }
  for (const auto& [end, seconds] : copying_s) {
    double& longest = work.copies_s[static_cast<size_t>(std::get<0>(end))];
    longest = std::max(longest, seconds);
  }
  for (const auto& [end, count] : requests) {
    double& longest = work.requests_s[static_cast<size_t>(end.first)];
    longest = std::max(longest, count * change.costs.messages.box_s);
  }
  return work;
}

std::vector<Stage> stages_of(const Change& change) {
  using What = Stage::What;
  const Costs& costs = change.costs;
  Moves moves = moves_of(change.plan);
  std::vector<Stage> stages = {
      {.what = What::kStage,
       .phase = &PhaseSeconds::stop,
       .flows_are = "stage",
       .flows = bulk(change.stage, change.cluster)},
      {.what = What::kPlan, .phase = &PhaseSeconds::plan, .wait_s = costs.plan_s},
      {.what = What::kRestart, .phase = &PhaseSeconds::restart, .wait_s = restart_s(costs, change.groups.ranks)},
      {.what = What::kPrepare,
       .phase = &PhaseSeconds::prepare,
       .wait_s = plan::allocate_seconds(change.plan, costs.allocate_bytes_per_s),
       .mark = 0}};
  if (change.restore) {
    stages.push_back({.what = What::kRestore,
                      .phase = &PhaseSeconds::transfer,
                      .flows_are = "restore",
                      .flows = restore_flows(change, moves.kept)});
  }
  const StoreWork work = store_work(change);
  const std::vector<double> messages_s = messages_of(change, work);
  for (size_t r = 0; r < moves.rounds.size(); ++r) {
    std::vector<FlowRequest>& flows = moves.rounds[r];
    if (change.upload) redirect_to_processes(change, flows);
    stages.push_back({.what = What::kRound,
                      .phase = &PhaseSeconds::transfer,
                      .wait_s = flows.empty() ? 0 : costs.transfer_start_s + messages_s[r] + work.copies_s[r],
                      .flows_are = "transfer",
                      .round = static_cast<int>(r),
                      .flows = std::move(flows),
                      .mark = static_cast<int>(r) + 1});
  }
  if (change.upload) {
    stages.push_back({.what = What::kUpload,
                      .phase = &PhaseSeconds::transfer,
                      .flows_are = "upload",
                      .flows = upload_flows(change, moves.all)});
  }
  stages.push_back({.what = What::kVerify, .phase = &PhaseSeconds::verify, .wait_s = verify_seconds(change)});
  stages.push_back({.what = What::kResume,
                    .phase = &PhaseSeconds::resume,
                    .wait_s = communicator_s(costs, change.groups),
                    .flows_are = "load",
                    .flows = bulk(change.load, change.cluster)});
  if (costs.compile_s > 0)
    stages.push_back({.what = What::kCompile, .phase = &PhaseSeconds::resume, .wait_s = costs.compile_s});
  return stages;
}

PhaseSeconds estimate(const Change& change, double bytes_ratio) {
  const Costs& costs = change.costs;
  const cluster::Cluster& cluster = change.cluster;
  double starts_s = 0, moving_s = 0;
  for (const double seconds : plan::round_seconds(change.plan, cluster)) {
    if (seconds > 0) starts_s += costs.transfer_start_s;
    moving_s += seconds;
  }
  const StoreWork work = store_work(change);
  for (const double seconds : messages_of(change, work)) starts_s += seconds;
  for (const double seconds : work.copies_s) moving_s += seconds;
  if (change.restore || change.upload) {
    const Moves moves = moves_of(change.plan);
    if (change.restore) moving_s += bulk_seconds(bulk_of(restore_flows(change, moves.kept)), cluster);
    if (change.upload) moving_s += bulk_seconds(bulk_of(upload_flows(change, moves.all)), cluster);
  }
  return {.stop = bulk_seconds(change.stage, cluster) * bytes_ratio,
          .plan = costs.plan_s,
          .restart = restart_s(costs, change.groups.ranks),
          .prepare = plan::allocate_seconds(change.plan, costs.allocate_bytes_per_s) * bytes_ratio,
          .transfer = starts_s + moving_s * bytes_ratio,
          .verify = verify_seconds(change) * bytes_ratio,
          .resume = communicator_s(costs, change.groups) + bulk_seconds(change.load, cluster) * bytes_ratio +
                    costs.compile_s};
}

double bulk_seconds(std::span<const BulkFlow> flows, const cluster::Cluster& cluster) {
  std::map<std::pair<Location, bool>, double> busy_s;  // by end and direction
  const auto add = [&](const Location& end, const Location& other, bool sends, int64_t bytes) {
    double rate = 0;
    if (end.kind == Location::Kind::kStorage) {
      rate = sends ? cluster.storage_read_bytes_per_s : cluster.storage_write_bytes_per_s;
    } else {
      const cluster::Host& host = cluster.hosts[static_cast<size_t>(host_of(cluster, end).value)];
      const cluster::Rates rates = cluster::reached(host);
      const bool away = other.kind != Location::Kind::kStorage && host_of(cluster, end) != host_of(cluster, other);
      if (end.kind == Location::Kind::kDevice) {
        rate = rates.pcie_bytes_per_s;
      } else if (away) {
        rate = host.nics * rates.nic_bytes_per_s;
      }
    }
    if (rate > 0) busy_s[{end, sends}] += static_cast<double>(bytes) / rate;
  };
  for (const BulkFlow& flow : flows) {
    add(flow.src, flow.dst, true, flow.bytes);
    add(flow.dst, flow.src, false, flow.bytes);
  }
  double longest_s = 0;
  for (const auto& [end, seconds] : busy_s) longest_s = std::max(longest_s, seconds);
  return longest_s;
}

}  // namespace scalai::change
