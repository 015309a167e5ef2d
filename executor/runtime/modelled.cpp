#include "executor/runtime/modelled.h"

#include <algorithm>
#include <map>

#include "ptc/plan/estimate.h"

namespace scalai::executor {

using control::PhaseSeconds;
using plan::Location;

double bulk_seconds(const std::vector<control::BulkFlow>& flows, const plan::Cluster& cluster) {
  std::map<std::pair<Location, bool>, double> busy_s;  // by end and direction
  const auto host_of = [&](const Location& place) {
    return place.kind == Location::Kind::kDevice ? cluster.host_of(DeviceId(place.index)) : HostId(place.index);
  };
  const auto add = [&](const Location& end, const Location& other, bool sends, int64_t bytes) {
    double rate = 0;
    if (end.kind == Location::Kind::kStorage) {
      rate = sends ? cluster.storage_read_bytes_per_s : cluster.storage_write_bytes_per_s;
    } else {
      const plan::Host& host = cluster.hosts[static_cast<size_t>(host_of(end).value)];
      const bool away = other.kind != Location::Kind::kStorage && host_of(end) != host_of(other);
      if (end.kind == Location::Kind::kDevice) {
        rate = host.pcie_bytes_per_s;
      } else if (away) {
        rate = host.nics * host.nic_bytes_per_s;
      }
    }
    if (rate > 0) busy_s[{end, sends}] += static_cast<double>(bytes) / rate;
  };
  for (const control::BulkFlow& flow : flows) {
    add(flow.src, flow.dst, true, flow.bytes);
    add(flow.dst, flow.src, false, flow.bytes);
  }
  double longest_s = 0;
  for (const auto& [end, seconds] : busy_s) longest_s = std::max(longest_s, seconds);
  return longest_s;
}

std::vector<ModelledStage> stages_of(const control::Execute& execute, const plan::Cluster& cluster) {
  using What = ModelledStage::What;
  std::vector<ModelledStage> stages = {
      {What::kStage, &PhaseSeconds::stop, bulk_seconds(execute.stage, cluster)},
      {What::kPlan, &PhaseSeconds::plan, execute.plan_s},
      {What::kRestart, &PhaseSeconds::restart, execute.restart_s},
      {What::kPrepare, &PhaseSeconds::prepare, plan::allocate_seconds(*execute.plan, execute.allocate_bytes_per_s), -1,
       0},
  };
  const std::vector<double> rounds = plan::round_seconds(*execute.plan, cluster);
  for (size_t round = 0; round < rounds.size(); ++round) {
    const int number = static_cast<int>(round);
    const double start_s = rounds[round] > 0 ? execute.transfer_start_s : 0;
    stages.push_back({What::kRound, &PhaseSeconds::transfer, start_s + rounds[round], number, number + 1});
  }
  double verify_s = 0;
  if (execute.verify_bytes_per_s > 0) {
    for (const plan::DeviceMemory& memory : execute.plan->memory)
      verify_s = std::max(verify_s, static_cast<double>(memory.after) / execute.verify_bytes_per_s);
  }
  stages.push_back({What::kVerify, &PhaseSeconds::verify, verify_s});
  stages.push_back({What::kResume, &PhaseSeconds::resume, bulk_seconds(execute.load, cluster) + execute.resume_s});
  return stages;
}

}  // namespace scalai::executor
