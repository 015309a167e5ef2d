#include "ptc/cost/change/bulk_flows.h"

#include <algorithm>
#include <map>
#include <utility>

#include "ptc/state/collection/rank_parts.h"

namespace scalai::change {
namespace {

// The bytes of one element of all these tensors.
int64_t bytes_an_element(const collection::Collection& collection, const std::vector<TensorId>& tensors) {
  int64_t bytes = 0;
  for (const TensorId id : tensors) bytes += tensor::size_of(collection.tensors[static_cast<size_t>(id.value)].dtype);
  return bytes;
}

// Numbers for ranks: equal ones are data-parallel replicas of each other.
std::vector<int> replica_numbers(const collection::Mesh& mesh, int ranks) {
  std::map<std::vector<int>, int> known;
  std::vector<int> numbers;
  for (int rank = 0; rank < ranks; ++rank) {
    std::vector<int> coordinates;
    for (const collection::MeshAxis& axis : mesh.axes()) {
      if (axis.name != "dp") coordinates.push_back(mesh.coordinate(LogicalRank(rank), axis.name));
    }
    numbers.push_back(known.try_emplace(std::move(coordinates), static_cast<int>(known.size())).first->second);
  }
  return numbers;
}

// Numbers for parts: equal ones have the same boxes.
std::vector<int> content_numbers(const std::vector<collection::RankPart>& parts) {
  std::map<std::vector<tensor::Box>, int> known;
  std::vector<int> numbers;
  for (const collection::RankPart& part : parts) {
    std::vector<tensor::Box> boxes;
    for (const tensor::Piece& piece : part.buffer.pieces) boxes.push_back(piece.box);
    numbers.push_back(known.try_emplace(std::move(boxes), static_cast<int>(known.size())).first->second);
  }
  return numbers;
}

// Calls visit(rank, elements) for the ranks that stage a tensor: of replicas that hold the same, the first living one.
template <class Visit>
void for_each_staging(const std::vector<collection::RankPart>& parts, const std::vector<bool>& lives,
                      const std::vector<int>& replicas, Visit visit) {
  const std::vector<int> contents = content_numbers(parts);
  std::map<std::pair<int, int>, std::pair<LogicalRank, int64_t>> first;  // by replicas and content
  for (size_t i = 0; i < parts.size(); ++i) {
    for (const LogicalRank rank : parts[i].ranks) {
      const auto at = static_cast<size_t>(rank.value);
      if (!lives[at]) continue;
      const std::pair entry{rank, parts[i].buffer.elements};
      const auto [known, fresh] = first.try_emplace({replicas[at], contents[i]}, entry);
      if (!fresh && rank < known->second.first) known->second = entry;
    }
  }
  for (const auto& [which, staging] : first) visit(staging.first, staging.second);
}

plan::Location home_of(DeviceId device, const cluster::Cluster& cluster, HostId hub) {
  return plan::Location::host_memory(hub.valid() ? hub : cluster.host_of(device));
}

}  // namespace

std::vector<int64_t> state_bytes_of_ranks(const collection::Collection& collection) {
  std::vector<int64_t> bytes(static_cast<size_t>(collection.ranks()), 0);
  for (const std::vector<TensorId>& alike : collection::tensors_alike(collection)) {
    const int64_t size = bytes_an_element(collection, alike);
    for (const collection::RankPart& part : rank_parts(collection, alike.front())) {
      for (const LogicalRank rank : part.ranks) bytes[static_cast<size_t>(rank.value)] += part.buffer.elements * size;
    }
  }
  return bytes;
}

std::vector<BulkFlow> stage_flows(const collection::Collection& from, const std::set<DeviceId>& gone,
                                  const cluster::Cluster& cluster, HostId hub, bool every_replica) {
  std::vector<int64_t> bytes(static_cast<size_t>(from.ranks()), 0);
  std::vector<bool> lives;
  for (const DeviceId device : from.device_of_rank) lives.push_back(!gone.contains(device));
  if (every_replica) {
    bytes = state_bytes_of_ranks(from);
  } else {
    const std::vector<int> replicas = replica_numbers(from.meshes.front(), from.ranks());
    for (const std::vector<TensorId>& alike : collection::tensors_alike(from)) {
      const int64_t size = bytes_an_element(from, alike);
      for_each_staging(rank_parts(from, alike.front()), lives, replicas, [&](LogicalRank rank, int64_t elements) {
        bytes[static_cast<size_t>(rank.value)] += elements * size;
      });
    }
  }
  std::map<DeviceId, int64_t> of_device;
  for (size_t rank = 0; rank < bytes.size(); ++rank) {
    if (lives[rank] && bytes[rank] > 0) of_device[from.device_of_rank[rank]] = bytes[rank];
  }
  std::vector<BulkFlow> flows;
  for (const auto& [device, total] : of_device)
    flows.push_back({plan::Location::device(device), home_of(device, cluster, hub), total});
  return flows;
}

HostId target_hub(HostId hub, const collection::Collection& to, const cluster::Cluster& cluster) {
  if (!hub.valid() || to.device_of_rank.empty()) return hub;
  HostId first = cluster.host_of(to.device_of_rank.front());
  for (const DeviceId device : to.device_of_rank) {
    if (cluster.host_of(device) == hub) return hub;
    first = std::min(first, cluster.host_of(device));
  }
  return first;
}

std::vector<BulkFlow> load_flows(const collection::Collection& to, const cluster::Cluster& cluster, HostId hub) {
  const std::vector<int64_t> bytes = state_bytes_of_ranks(to);
  std::map<std::pair<plan::Location, plan::Location>, int64_t> by_ends;
  for (size_t rank = 0; rank < bytes.size(); ++rank) {
    const DeviceId device = to.device_of_rank[rank];
    if (bytes[rank] > 0) by_ends[{home_of(device, cluster, hub), plan::Location::device(device)}] += bytes[rank];
  }
  std::vector<BulkFlow> flows;
  for (const auto& [ends, total] : by_ends) flows.push_back({ends.first, ends.second, total});
  return flows;
}

}  // namespace scalai::change
