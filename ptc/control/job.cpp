#include "ptc/control/internal/job.h"

#include <algorithm>
#include <cmath>

#include "ptc/base/status.h"

namespace scalai::control {
namespace {

// Times are sums of products of doubles: a boundary missed by this share of a step counts as reached.
constexpr double kBoundaryTolerance = 1e-9;

void add_flow(std::map<std::pair<plan::Location, plan::Location>, int64_t>& flows, plan::Location src,
              plan::Location dst, int64_t bytes) {
  if (bytes > 0) flows[{src, dst}] += bytes;
}

std::vector<BulkFlow> as_list(const std::map<std::pair<plan::Location, plan::Location>, int64_t>& flows) {
  std::vector<BulkFlow> list;
  for (const auto& [ends, bytes] : flows) list.push_back({ends.first, ends.second, bytes});
  return list;
}

}  // namespace

int64_t Training::steps_done_at(double at_s) const {
  if (step_s <= 0 || at_s <= start_s) return from_step;
  const double steps = std::floor((at_s - start_s) / step_s + kBoundaryTolerance);
  return std::min(until_step, from_step + static_cast<int64_t>(std::min(steps, 9e15)));
}

int64_t Training::next_boundary_after(double at_s) const {
  if (step_s <= 0 || at_s <= start_s) return from_step;
  const double steps = std::ceil((at_s - start_s) / step_s - kBoundaryTolerance);
  return std::min(until_step, from_step + static_cast<int64_t>(std::min(steps, 9e15)));
}

std::optional<std::vector<collection::ExtraHolder>> Job::initial_copies() const {
  const auto is_initial = [](const std::optional<Holding>& copy) { return copy && copy->snapshot == kInitialState; };
  if (is_initial(copies.redundant)) return copies.redundant->copies;
  if (is_initial(copies.checkpoint) && spec->checkpoint.host_memory_copy) return std::vector<collection::ExtraHolder>();
  return std::nullopt;
}

void account(const Job& job, int64_t steps, double at_s, TimeAccount& time) {
  if (!job.submitted || job.over()) return;
  if (job.moves()) {
    if (job.copies.last) return time.stood_for_copy(at_s);  // the run is to end: nothing but that copy is waited for
    return time.trained(job.training, steps, at_s);
  }
  return job.mode == Mode::kWaiting ? time.waited(at_s) : time.changed(at_s);
}

std::vector<BulkFlow> checkpoint_flows(const collection::Collection& collection) {
  std::map<std::pair<plan::Location, plan::Location>, int64_t> flows;
  for (size_t i = 0; i < collection.tensors.size(); ++i) {
    const int64_t size = tensor::size_of(collection.tensors[i].dtype);
    std::set<tensor::Box> written;
    for (int rank = 0; rank < collection.ranks(); ++rank) {
      const plan::Location device = plan::Location::device(collection.device_of_rank[static_cast<size_t>(rank)]);
      for (const tensor::Piece& piece :
           collection.pieces(TensorId(static_cast<int64_t>(i)), LogicalRank(rank)).pieces) {
        if (written.insert(piece.box).second) {
          add_flow(flows, device, plan::Location::storage(), piece.box.volume() * size);
        }
      }
    }
  }
  return as_list(flows);
}

namespace {

// One redundant copy: who sends which box to whose memory.
struct Copy {
  TensorId tensor;
  tensor::Box box;
  DeviceId from;
  HostId to;
};

// Hosts in the order in which copies go to them: home, the job's others in a ring, then the rest of the cluster.
std::vector<HostId> hosts_after(HostId home, const std::vector<HostId>& of_job, const cluster::Cluster& cluster,
                                const std::set<HostId>& down) {
  const auto at = std::lower_bound(of_job.begin(), of_job.end(), home);
  std::vector<HostId> ring(at, of_job.end());
  ring.insert(ring.end(), of_job.begin(), at);
  for (size_t host = 0; host < cluster.hosts.size(); ++host) {
    const HostId id(static_cast<int64_t>(host));
    if (!std::binary_search(of_job.begin(), of_job.end(), id) && down.count(id) == 0) ring.push_back(id);
  }
  return ring;
}

std::vector<Copy> copies_of(const collection::Collection& collection, const cluster::Cluster& cluster,
                            const scenario::RedundancyPolicy& policy, const std::set<HostId>& down) {
  std::vector<HostId> hosts;  // of the job, ascending
  for (const DeviceId device : collection.device_of_rank) hosts.push_back(cluster.host_of(device));
  std::sort(hosts.begin(), hosts.end());
  hosts.erase(std::unique(hosts.begin(), hosts.end()), hosts.end());
  std::vector<Copy> copies;
  for (size_t i = 0; i < collection.tensors.size(); ++i) {
    const TensorId id(static_cast<int64_t>(i));
    std::map<tensor::Box, std::vector<DeviceId>> holders;
    for (int rank = 0; rank < collection.ranks(); ++rank) {
      for (const tensor::Piece& piece : collection.pieces(id, LogicalRank(rank)).pieces) {
        holders[piece.box].push_back(collection.device_of_rank[static_cast<size_t>(rank)]);
      }
    }
    for (const auto& entry : holders) {
      const tensor::Box& box = entry.first;
      const std::vector<DeviceId>& devices = entry.second;
      const HostId home = cluster.host_of(devices.front());
      const bool replicated = std::any_of(devices.begin(), devices.end(), [&](DeviceId device) {
        return policy.other_host ? cluster.host_of(device) != home : device != devices.front();
      });
      if (replicated) continue;
      const std::vector<HostId> ring = hosts_after(home, hosts, cluster, down);
      const size_t first = policy.other_host ? 1 : 0;
      const size_t last = std::min(ring.size(), first + static_cast<size_t>(policy.copies));
      for (size_t host = first; host < last; ++host) copies.push_back({id, box, devices.front(), ring[host]});
    }
  }
  return copies;
}

}  // namespace

std::vector<collection::ExtraHolder> redundant_copies(const collection::Collection& collection,
                                                      const cluster::Cluster& cluster,
                                                      const scenario::RedundancyPolicy& policy,
                                                      const std::set<HostId>& down) {
  std::vector<collection::ExtraHolder> holders;
  for (const Copy& copy : copies_of(collection, cluster, policy, down))
    holders.push_back({copy.tensor, copy.box, copy.to});
  return holders;
}

std::vector<BulkFlow> redundancy_flows(const collection::Collection& collection, const cluster::Cluster& cluster,
                                       const scenario::RedundancyPolicy& policy, const std::set<HostId>& down) {
  std::map<std::pair<plan::Location, plan::Location>, int64_t> flows;
  for (const Copy& copy : copies_of(collection, cluster, policy, down)) {
    const int64_t size = tensor::size_of(collection.tensors[static_cast<size_t>(copy.tensor.value)].dtype);
    add_flow(flows, plan::Location::device(copy.from), plan::Location::host_memory(copy.to), copy.box.volume() * size);
  }
  return as_list(flows);
}

}  // namespace scalai::control
