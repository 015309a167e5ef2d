#include "sim/execution.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "ptc/plan/estimate.h"

namespace scalai::sim {
namespace {

using control::Execute;
using control::PhaseSeconds;
using plan::Location;
using plan::TransferClass;

std::vector<FlowRequest> bulk(const std::vector<control::BulkFlow>& flows, const Platform& platform) {
  std::vector<FlowRequest> requests;
  for (const control::BulkFlow& flow : flows) {
    requests.push_back({.src = flow.src,
                        .dst = flow.dst,
                        .bytes = flow.bytes,
                        .transfer_class = class_of(platform, flow.src, flow.dst)});
  }
  return requests;
}

// The plan's operations by round, one flow per pair of places.
std::vector<std::vector<FlowRequest>> rounds_of(const Execute& execute) {
  using Key = std::tuple<TransferClass, Location, Location>;
  std::vector<std::map<Key, int64_t>> bytes(static_cast<size_t>(execute.plan->rounds));
  execute.plan->for_each_operation([&](const plan::Operation& operation) {
    if (operation.transfer_class == TransferClass::kKept || operation.transfer_class == TransferClass::kDerived) return;
    auto& round = bytes[static_cast<size_t>(operation.round)];
    round[{operation.transfer_class, operation.src, Location::device(operation.dst)}] += operation.bytes;
  });
  std::vector<std::vector<FlowRequest>> rounds;
  for (const auto& round : bytes) {
    rounds.emplace_back();
    for (const auto& [key, total] : round) {
      const auto& [transfer_class, src, dst] = key;
      rounds.back().push_back({.src = src, .dst = dst, .bytes = total, .transfer_class = transfer_class});
    }
  }
  return rounds;
}

// Staged strategies pull into a process on the target's host (or the hub), not into the device.
void redirect_to_processes(const Execute& execute, const Platform& platform, std::vector<FlowRequest>& flows) {
  std::map<std::pair<Location, Location>, FlowRequest> merged;
  for (const FlowRequest& flow : flows) {
    const HostId host = execute.hub.valid() ? execute.hub : platform.host_of(flow.dst);
    FlowRequest pull = flow;
    pull.dst = Location::host_memory(host);
    pull.dst_process = true;
    pull.transfer_class = class_of(platform, pull.src, pull.dst);
    const auto [entry, fresh] = merged.emplace(std::pair(pull.src, flow.dst), pull);
    if (!fresh) entry->second.bytes += flow.bytes;
  }
  flows.clear();
  for (const auto& [ends, flow] : merged) flows.push_back(flow);
}

std::vector<FlowRequest> upload_flows(const Execute& execute, const Platform& platform) {
  std::map<Location, int64_t> bytes;  // by new device: one process a rank
  execute.plan->for_each_operation(
      [&](const plan::Operation& operation) { bytes[Location::device(operation.dst)] += operation.bytes; });
  std::vector<FlowRequest> flows;
  for (const auto& [device, total] : bytes) {
    const Location memory = Location::host_memory(execute.hub.valid() ? execute.hub : platform.host_of(device));
    flows.push_back({.src = memory, .dst = memory, .bytes = total, .src_process = true});
  }
  return flows;
}

// Kept state that rolls back is copied from the host's memory over PCIe.
std::vector<FlowRequest> restore_flows(const Execute& execute, const Platform& platform) {
  std::map<Location, int64_t> bytes;
  execute.plan->for_each_operation([&](const plan::Operation& operation) {
    if (operation.transfer_class == TransferClass::kKept) bytes[Location::device(operation.dst)] += operation.bytes;
  });
  std::vector<FlowRequest> flows;
  for (const auto& [device, total] : bytes) {
    flows.push_back(
        {.src = Location::host_memory(platform.host_of(device)), .dst = device, .bytes = total, .src_process = true});
  }
  return flows;
}

double verify_seconds(const Execute& execute) {
  if (execute.verify_bytes_per_s <= 0) return 0;
  std::map<DeviceId, int64_t> received;
  int64_t most = 0;
  execute.plan->for_each_operation([&](const plan::Operation& operation) {
    if (operation.transfer_class != TransferClass::kKept)
      most = std::max(most, received[operation.dst] += operation.bytes);
  });
  return static_cast<double>(most) / execute.verify_bytes_per_s;
}

}  // namespace

TransferClass class_of(const Platform& platform, Location src, Location dst) {
  if (src.kind == Location::Kind::kStorage) return TransferClass::kFromStorage;
  if (src == dst && src.kind == Location::Kind::kDevice) return TransferClass::kSameDevice;
  return platform.host_of(src) == platform.host_of(dst) ? TransferClass::kSameHost : TransferClass::kCrossHost;
}

std::vector<Stage> stages_of(const Execute& execute, const Platform& platform) {
  std::vector<Stage> stages;
  stages.push_back({.phase = &PhaseSeconds::stop, .what = "stage", .flows = bulk(execute.stage, platform)});
  stages.push_back({.phase = &PhaseSeconds::plan, .wait_s = execute.plan_s});
  stages.push_back({.phase = &PhaseSeconds::restart, .wait_s = execute.restart_s});
  const double allocate_s = plan::allocate_seconds(*execute.plan, execute.allocate_bytes_per_s);
  stages.push_back({.phase = &PhaseSeconds::prepare, .wait_s = allocate_s, .mark = 0});
  if (execute.restore) {
    stages.push_back({.phase = &PhaseSeconds::transfer, .what = "restore", .flows = restore_flows(execute, platform)});
  }
  std::vector<std::vector<FlowRequest>> rounds = rounds_of(execute);
  for (size_t r = 0; r < rounds.size(); ++r) {
    if (execute.upload) redirect_to_processes(execute, platform, rounds[r]);
    const double alpha = rounds[r].empty() ? 0 : execute.transfer_start_s;
    const int number = static_cast<int>(r) + 1;
    stages.push_back({.phase = &PhaseSeconds::transfer,
                      .wait_s = alpha,
                      .what = "transfer",
                      .round = number,
                      .flows = std::move(rounds[r]),
                      .mark = number});
  }
  if (execute.upload) {
    stages.push_back({.phase = &PhaseSeconds::transfer, .what = "upload", .flows = upload_flows(execute, platform)});
  }
  stages.push_back({.phase = &PhaseSeconds::verify, .wait_s = verify_seconds(execute)});
  stages.push_back({.phase = &PhaseSeconds::resume,
                    .wait_s = execute.resume_s,
                    .what = "load",
                    .flows = bulk(execute.load, platform)});
  return stages;
}

}  // namespace scalai::sim
