#include "sim/jobs/planned/training_traffic.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "ptc/cost/step/hardware.h"
#include "ptc/cost/step/step_time.h"
#include "ptc/state/collection/megatron.h"

namespace scalai::jobs {
namespace {

using collection::Mesh;
using step::ChunkWork;
using step::Communication;
using step::StageWork;

// Of one rank and step, over the network.
struct Sent {
  double bytes = 0, seconds = 0;
  void add(const Communication& what, double times) {
    if (what.link != Communication::Link::kNetwork) return;
    bytes += what.bytes * times;
    seconds += what.seconds * times;
  }
};

struct StageSends {
  Sent tp, cp, ep, dp, embedding;
  Sent message;  // one message, one way
};

StageSends sends_of(const StageWork& stage, int micro_batches) {
  StageSends sends;
  for (const std::vector<ChunkWork>* chunks : {&stage.forward, &stage.backward}) {
    for (const ChunkWork& chunk : *chunks) {
      sends.tp.add(chunk.tp, micro_batches);
      sends.cp.add(chunk.cp, micro_batches);
      sends.ep.add(chunk.ep, micro_batches);
      sends.dp.add(chunk.dp, micro_batches);
    }
  }
  sends.dp.add(stage.gradients, 1);
  sends.dp.add(stage.parameters, 1);
  sends.embedding.add(stage.embedding, 1);
  sends.message.add(stage.send, 1);
  return sends;
}

class TrafficBuilder {
 public:
  TrafficBuilder(const Configuration& configuration, const std::vector<DeviceId>& devices,
                 const cluster::Cluster& cluster)
      : config_(configuration.config), dense_(collection::dense_mesh(config_)) {
    std::map<HostId, int32_t> numbers;
    for (const DeviceId device : devices) {
      const HostId host = cluster.host_of(device);
      const auto [number, fresh] = numbers.emplace(host, static_cast<int32_t>(numbers.size()));
      if (fresh) hosts_.push_back(host);
      places_.push_back({.host = number->second, .gpu = cluster.local_index(device)});
      domains_.push_back(cluster.domain_of(host));
    }
    const step::Math math = configuration.training.precision.math;
    parts_ = step::step_parts({configuration.model->shape, config_, configuration.training},
                              step::hardware_of(cluster, config_, devices, {}, math));
    for (const StageWork& stage : parts_.stages) stages_.push_back(sends_of(stage, parts_.micro_batches));
  }

  JobTraffic build(const Configuration& configuration) {
    const Mesh expert = collection::expert_mesh(config_);
    add_rings(dense_, {"tp"}, &StageSends::tp);
    add_rings(dense_, {"cp"}, &StageSends::cp);
    add_rings(expert, {"etp", "ep"}, &StageSends::ep);
    if (config_.cp * config_.dp > 1) {
      add_rings(dense_, {"cp", "dp"}, &StageSends::dp);
    } else {
      add_rings(expert, {"edp"}, &StageSends::dp);
    }
    add_rings(dense_, {"pp"}, &StageSends::embedding);
    add_messages();
    auto traffic = std::make_shared<TrainingTraffic>();
    for (const auto& [ends, sent] : flows_) {
      traffic->flows.push_back({.src = ends.first,
                                .dst = ends.second,
                                .bytes = sent.bytes,
                                .bytes_per_s = sent.seconds > 0 ? sent.bytes / sent.seconds : 0});
    }
    if (traffic->flows.empty()) return {};
    traffic->step_s = configuration.step_s;
    traffic->exposed_s = std::min(exposed_s(configuration.time), configuration.step_s);
    return {.traffic = std::move(traffic), .hosts = std::move(hosts_)};
  }

 private:
  int stage_of(size_t rank) const { return dense_.coordinate(LogicalRank(static_cast<int64_t>(rank)), "pp"); }
  const StageSends& sends(size_t rank) const { return stages_[static_cast<size_t>(stage_of(rank))]; }

  bool any(Sent StageSends::*what) const {
    return std::any_of(stages_.begin(), stages_.end(), [&](const StageSends& s) { return (s.*what).bytes > 0; });
  }

  void connect(size_t from, size_t to, const Sent& sent, double times = 1) {
    if (domains_[from] == domains_[to] || sent.bytes == 0) return;
    Sent& flow = flows_[{places_[from], places_[to]}];
    flow.bytes += sent.bytes * times;
    flow.seconds += sent.seconds * times;
  }

  // In each group: from every rank to the one in its place on the next host.
  void add_rings(const Mesh& mesh, const std::vector<std::string>& axes, Sent StageSends::*what) {
    if (!any(what)) return;
    std::map<int, std::vector<size_t>> groups;  // by the other coordinates
    for (size_t rank = 0; rank < places_.size(); ++rank) {
      // A tied embedding's two homes are the first and the last stage.
      const bool between = stage_of(rank) != 0 && stage_of(rank) != config_.pp - 1;
      if (what == &StageSends::embedding && between) continue;
      int others = 0;
      for (const collection::MeshAxis& axis : mesh.axes()) {
        const bool within = std::find(axes.begin(), axes.end(), axis.name) != axes.end();
        if (!within) others = others * axis.size + mesh.coordinate(LogicalRank(static_cast<int64_t>(rank)), axis.name);
      }
      groups[others].push_back(rank);
    }
    for (const auto& [others, ranks] : groups) add_ring(ranks, what);
  }

  void add_ring(const std::vector<size_t>& ranks, Sent StageSends::*what) {
    std::vector<std::vector<size_t>> hosts;  // or NVLink domains, in the order of their first ranks
    std::map<int64_t, size_t> position;
    for (const size_t rank : ranks) {
      const auto [found, fresh] = position.emplace(domains_[rank], hosts.size());
      if (fresh) hosts.emplace_back();
      hosts[found->second].push_back(rank);
    }
    if (hosts.size() < 2) return;
    for (size_t h = 0; h < hosts.size(); ++h) {
      const std::vector<size_t>& next = hosts[(h + 1) % hosts.size()];
      for (size_t i = 0; i < std::min(hosts[h].size(), next.size()); ++i)
        connect(hosts[h][i], next[i], sends(hosts[h][i]).*what);
    }
  }

  // A micro-batch goes to the next stage once a chunk, from the last one back to the first for the next chunk.
  void add_messages() {
    if (config_.pp == 1) return;
    size_t stride = 1;
    for (const collection::MeshAxis& axis : dense_.axes()) {
      if (axis.name == "pp") break;
      stride *= static_cast<size_t>(axis.size);
    }
    const auto last = static_cast<size_t>(config_.pp - 1);
    for (size_t rank = 0; rank < places_.size(); ++rank) {
      const auto stage = static_cast<size_t>(stage_of(rank));
      const size_t next = stage == last ? rank - last * stride : rank + stride;
      const int chunks = stage == last ? config_.vpp - 1 : config_.vpp;
      const double times = static_cast<double>(chunks) * parts_.micro_batches;
      connect(rank, next, sends(rank).message, times);
      connect(next, rank, sends(rank).message, times);
    }
  }

  double exposed_s(const step::StepTime& time) const {
    double seconds = 0;
    if (any(&StageSends::tp)) seconds += time.tp_s;
    if (any(&StageSends::cp)) seconds += time.cp_s;
    if (any(&StageSends::ep)) seconds += time.ep_s;
    if (any(&StageSends::dp) || any(&StageSends::embedding)) seconds += time.gradients_s;
    if (any(&StageSends::message)) seconds += time.pipeline_s;
    return seconds;
  }

  const collection::ParallelConfig& config_;
  const Mesh dense_;
  std::vector<HostId> hosts_;
  std::vector<Place> places_;  // by rank
  std::vector<int64_t> domains_;
  step::StepParts parts_;
  std::vector<StageSends> stages_;
  std::map<std::pair<Place, Place>, Sent> flows_;
};

}  // namespace

JobTraffic training_traffic(const Configuration& configuration, const std::vector<DeviceId>& devices,
                            const cluster::Cluster& cluster) {
  const auto domain = [&](DeviceId device) { return cluster.domain_of(cluster.host_of(device)); };
  const bool one = std::all_of(devices.begin(), devices.end(),
                               [&](DeviceId device) { return domain(device) == domain(devices.front()); });
  if (one) return {};
  return TrafficBuilder(configuration, devices, cluster).build(configuration);
}

}  // namespace scalai::jobs
