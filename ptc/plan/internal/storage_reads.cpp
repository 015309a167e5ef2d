#include "ptc/plan/internal/storage_reads.h"

#include <limits>
#include <map>
#include <utility>

#include "ptc/plan/internal/round_load.h"

namespace scalai::plan::internal {

std::vector<StorageReads> storage_reads(const PlannerOptions& options, const cluster::Cluster& cluster) {
  if (!options.in_place || !options.relay || options.sources != SourceRule::kNearest)
    return {StorageReads::kEachDevice};
  if (cluster.storage_read_bytes_per_s <= 0) return {StorageReads::kOnce};
  return {StorageReads::kOnce, StorageReads::kEachHost, StorageReads::kEachDevice};
}

void StorageReading::add(const tensor::Box& box, const std::vector<TensorId>& tensors, int32_t set,
                         const std::vector<DeviceId>& devices) {
  if (devices.size() == 1 || ways_.front() == StorageReads::kEachDevice)
    return drafts_.add(box, set, read_directly(devices));
  unheld_.push_back({box, &tensors, set, devices, by_host(devices, input_.cluster)});
}

StorageReads StorageReading::emit() {
  const Found found = ways_.size() == 1 ? read_all(chosen_) : fastest();
  for (const Instance& one : found) drafts_.add(one.box, one.tensors, one.pattern);
  return chosen_;
}

StorageReading::Found StorageReading::fastest() {
  if (unheld_.empty()) return {};
  RoundLoad others(input_.cluster);
  for (const Instance& one : drafts_.instances())
    others.add(plan_, drafts_.tensors_of(one.tensors), one.box, drafts_.legs(one.pattern));
  const FanOut::Loads before = fan_out_.loads();
  Found best;
  double shortest_s = std::numeric_limits<double>::infinity();
  for (const StorageReads way : ways_) {
    if (least_seconds(way) >= shortest_s) continue;
    fan_out_.reset(before);
    Found found = read_all(way);
    RoundLoad load = others;
    for (const Instance& one : found)
      load.add(plan_, drafts_.tensors_of(one.tensors), one.box, drafts_.legs(one.pattern));
    const double seconds = load.seconds();
    if (seconds >= shortest_s) continue;
    shortest_s = seconds;
    chosen_ = way;
    best = std::move(found);
  }
  return best;
}

// Of these boxes alone, for reading.
double StorageReading::least_seconds(StorageReads reads) const {
  double bytes = 0;
  for (const Unheld& unheld : unheld_) {
    const size_t hosts = unheld.by_host.groups.size();
    const size_t times = reads == StorageReads::kOnce       ? 1
                         : reads == StorageReads::kEachHost ? hosts
                                                            : unheld.devices.size();
    const TensorInfo& tensor = plan_.tensor(unheld.tensors->front());
    bytes += static_cast<double>(times * unheld.tensors->size()) * static_cast<double>(unheld.box.volume()) *
             static_cast<double>(tensor.element_bytes(TransferClass::kFromStorage));
  }
  return bytes / input_.cluster.storage_read_bytes_per_s;
}

StorageReading::Found StorageReading::read_all(StorageReads reads) {
  Found found;
  for (const Unheld& unheld : unheld_) read(unheld, reads, found);
  return found;
}

void StorageReading::read(const Unheld& unheld, StorageReads reads, Found& found) {
  const auto add = [&](int32_t set, int32_t pattern) {
    found.push_back({.round = 0, .pattern = pattern, .tensors = set, .box = unheld.box});
  };
  if (reads == StorageReads::kEachDevice) return add(unheld.set, read_directly(unheld.devices));
  // Each tensor may take another way, so that replicas share the reading and the sending.
  const int64_t bytes =
      unheld.box.volume() * plan_.tensor(unheld.tensors->front()).element_bytes(TransferClass::kCrossHost);
  std::map<int32_t, std::vector<TensorId>> by_pattern;
  for (const TensorId id : *unheld.tensors)
    by_pattern[drafts_.pattern(fan_out_.read(unheld.by_host, reads, bytes))].push_back(id);
  for (const auto& [pattern, tensors] : by_pattern) add(drafts_.tensors(tensors), pattern);
}

int32_t StorageReading::read_directly(const std::vector<DeviceId>& devices) {
  std::vector<Leg> legs;
  for (const DeviceId device : devices)
    legs.push_back(
        {.transfer_class = TransferClass::kFromStorage, .hop = 0, .src = Location::storage(), .dst = device});
  return drafts_.pattern(legs);
}

}  // namespace scalai::plan::internal
