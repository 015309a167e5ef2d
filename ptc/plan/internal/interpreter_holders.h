#pragma once
// Who holds which part of a tensor on one side of a change, for the interpreter. Ranks with the same coordinates on the
// axes that cut a tensor hold the same part; they are put together once for all tensors with the same axes and pins, so
// that asking costs no more than the different parts. The collection and the cluster outlive it.

#include <map>
#include <set>
#include <string>
#include <vector>

#include "ptc/cluster/cluster.h"
#include "ptc/state/collection/collection.h"

namespace scalai::plan::internal {

class Holders {
 public:
  // Devices in `lost` hold nothing.
  Holders(const collection::Collection& collection, std::set<DeviceId> lost, const cluster::Cluster& cluster)
      : collection_(collection), lost_(std::move(lost)), cluster_(cluster) {}

  struct Group {
    std::vector<DeviceId> devices;  // not empty
    std::vector<HostId> hosts;      // of the devices: sorted, each once
  };
  struct Part {
    tensor::Box box;
    int32_t group = 0;
  };
  // Each device is in at most one group, and a group may have several parts.
  std::vector<Part> parts_of(TensorId tensor);
  const Group& group(int32_t index) const { return groups_[static_cast<size_t>(index)]; }

 private:
  struct Class {                                  // of ranks
    std::vector<tensor::AxisPosition> positions;  // on the axis of each cut
    int32_t group = 0;
  };
  const std::vector<Class>& classes_of(const collection::LogicalTensor& tensor);
  std::vector<Class> make_classes(const collection::LogicalTensor& tensor);
  // By rank.
  const std::vector<int>& coordinates(int mesh, const std::string& axis);
  int32_t add_group(std::vector<DeviceId> devices);

  const collection::Collection& collection_;
  const std::set<DeviceId> lost_;
  const cluster::Cluster& cluster_;
  std::vector<Group> groups_;
  std::map<std::string, std::vector<Class>> classes_;  // by mesh, axes of the cuts and pins
  std::map<std::pair<int, std::string>, std::vector<int>> coordinates_;
};

}  // namespace scalai::plan::internal
