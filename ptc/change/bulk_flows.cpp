#include "ptc/change/bulk_flows.h"

#include <algorithm>
#include <map>
#include <utility>

namespace scalai::change {
namespace {

// Tensors that lie alike: layers of a stage, states of an optimizer.
struct Alike {
  TensorId first;
  int64_t bytes_an_element = 0;  // of all of them
};

std::vector<Alike> alike_tensors(const collection::Collection& collection) {
  const auto same = [](const collection::LogicalTensor& a, const collection::LogicalTensor& b) {
    return a.shape == b.shape && a.mesh == b.mesh && a.pins == b.pins && a.layout == b.layout;
  };
  std::vector<Alike> found;
  for (size_t i = 0; i < collection.tensors.size(); ++i) {
    const collection::LogicalTensor& tensor = collection.tensors[i];
    auto known = std::find_if(found.begin(), found.end(), [&](const Alike& alike) {
      return same(collection.tensors[static_cast<size_t>(alike.first.value)], tensor);
    });
    if (known == found.end())
      known = found.insert(found.end(), {.first = TensorId(static_cast<int64_t>(i)), .bytes_an_element = 0});
    known->bytes_an_element += tensor::size_of(tensor.dtype);
  }
  return found;
}

// The same for ranks that are data-parallel replicas of each other and hold the same of a tensor.
using Replica = std::pair<std::vector<int>, std::vector<tensor::Box>>;

Replica replica_of(const collection::Mesh& mesh, LogicalRank rank, const tensor::LocalBuffer& buffer) {
  Replica replica;
  for (const collection::MeshAxis& axis : mesh.axes()) {
    if (axis.name != "dp") replica.first.push_back(mesh.coordinate(rank, axis.name));
  }
  for (const tensor::Piece& piece : buffer.pieces) replica.second.push_back(piece.box);
  return replica;
}

plan::Location home_of(DeviceId device, const cluster::Cluster& cluster, HostId hub) {
  return plan::Location::host_memory(hub.valid() ? hub : cluster.host_of(device));
}

}  // namespace

std::vector<int64_t> state_bytes_of_ranks(const collection::Collection& collection) {
  std::vector<int64_t> bytes(static_cast<size_t>(collection.ranks()), 0);
  for (const Alike& alike : alike_tensors(collection)) {
    for (int rank = 0; rank < collection.ranks(); ++rank)
      bytes[static_cast<size_t>(rank)] +=
          collection.pieces(alike.first, LogicalRank(rank)).elements * alike.bytes_an_element;
  }
  return bytes;
}

std::vector<BulkFlow> stage_flows(const collection::Collection& from, const std::set<DeviceId>& gone,
                                  const cluster::Cluster& cluster, HostId hub, bool every_replica) {
  std::map<DeviceId, int64_t> bytes;
  for (const Alike& alike : alike_tensors(from)) {
    std::set<Replica> staged;
    for (int rank = 0; rank < from.ranks(); ++rank) {
      const DeviceId device = from.device_of_rank[static_cast<size_t>(rank)];
      if (gone.contains(device)) continue;
      const tensor::LocalBuffer buffer = from.pieces(alike.first, LogicalRank(rank));
      if (every_replica || staged.insert(replica_of(from.meshes.front(), LogicalRank(rank), buffer)).second)
        bytes[device] += buffer.elements * alike.bytes_an_element;
    }
  }
  std::vector<BulkFlow> flows;
  for (const auto& [device, total] : bytes) {
    if (total > 0) flows.push_back({plan::Location::device(device), home_of(device, cluster, hub), total});
  }
  return flows;
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
