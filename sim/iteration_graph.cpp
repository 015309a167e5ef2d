#include "sim/internal/iteration_graph.h"

#include <algorithm>
#include <map>
#include <string>
#include <unordered_map>

#include "ptc/base/status.h"
#include "ptc/state/collection/megatron.h"
#include "sim/internal/at.h"

namespace scalai::sim {
namespace {

using collection::Mesh;
using step::ChunkWork;
using step::Communication;
using step::StageWork;
using step::StepParts;

// Which collectives of a job flow inside hosts, and which between them.
using Uses = std::array<std::array<bool, 2>, kTraffics>;

void note(const Communication& communication, Traffic traffic, Uses& uses) {
  if (communication.bytes == 0 || communication.link == Communication::Link::kNone) return;
  uses[at(traffic)][communication.link == Communication::Link::kNetwork ? 1 : 0] = true;
}

Uses uses_of(const IterationJob& job) {
  Uses uses = {};
  for (const StepParts& parts : job.parts) {
    for (const StageWork& stage : parts.stages) {
      for (const std::vector<ChunkWork>* chunks : {&stage.forward, &stage.backward}) {
        for (const ChunkWork& chunk : *chunks) {
          note(chunk.tp, Traffic::kTp, uses);
          note(chunk.cp, Traffic::kCp, uses);
          note(chunk.ep, Traffic::kEp, uses);
          note(chunk.dp, Traffic::kDp, uses);
        }
      }
      note(stage.gradients, Traffic::kDp, uses);
      note(stage.parameters, Traffic::kDp, uses);
      note(stage.embedding, Traffic::kEmbedding, uses);
    }
  }
  return uses;
}

class JobGraph {
 public:
  JobGraph(const change::Platform& platform, const IterationJob& job, int index, IterationGraph& graph)
      : platform_(platform),
        job_(job),
        first_(static_cast<int>(graph.ranks.size())),
        graph_(graph),
        uses_(uses_of(job)),
        dense_(collection::dense_mesh(job.config)) {
    for (int rank = 0; rank < job.config.world(); ++rank) {
      IterationRank added{.job = index, .stage = dense_.coordinate(LogicalRank(rank), "pp")};
      if (!job.parts_of_rank.empty()) added.parts = job.parts_of_rank[at(rank)];
      graph_.ranks.push_back(added);
    }
  }

  void add_messages() {
    if (job_.config.pp == 1) return;
    int stride = 1;
    for (const collection::MeshAxis& axis : dense_.axes()) {
      if (axis.name == "pp") break;
      stride *= axis.size;
    }
    for (int rank = 0; rank < job_.config.world(); ++rank) {
      const int stage = graph_.ranks[at(first_ + rank)].stage, last = job_.config.pp - 1;
      const int next = stage == last ? rank - last * stride : rank + stride;
      graph_.ranks[at(first_ + rank)].next = first_ + next;
      graph_.ranks[at(first_ + next)].previous = first_ + rank;
      connect(rank, next, Traffic::kForward, 0);
      connect(next, rank, Traffic::kBackward, 0);
    }
  }

  void add_groups() {
    const Mesh expert = collection::expert_mesh(job_.config);
    add_groups_over(dense_, {"tp"}, Traffic::kTp);
    add_groups_over(dense_, {"cp"}, Traffic::kCp);
    add_groups_over(expert, {"etp", "ep"}, Traffic::kEp);
    // Gradients of experts are summed over edp. Where both are, in one communication over the dense group.
    if (job_.config.cp * job_.config.dp > 1) {
      add_groups_over(dense_, {"cp", "dp"}, Traffic::kDp);
    } else {
      add_groups_over(expert, {"edp"}, Traffic::kDp);
    }
    add_groups_over(dense_, {"pp"}, Traffic::kEmbedding);
  }

 private:
  void add_groups_over(const Mesh& mesh, const std::vector<std::string>& axes, Traffic traffic) {
    std::map<int, std::vector<int>> groups;  // by the other coordinates
    for (int rank = 0; rank < mesh.size(); ++rank) {
      const int stage = graph_.ranks[at(first_ + rank)].stage;
      // The embedding's two homes: first and last stage.
      if (traffic == Traffic::kEmbedding && stage != 0 && stage != job_.config.pp - 1) continue;
      int others = 0;
      for (const collection::MeshAxis& axis : mesh.axes()) {
        const bool within = std::find(axes.begin(), axes.end(), axis.name) != axes.end();
        if (!within) others = others * axis.size + mesh.coordinate(LogicalRank(rank), axis.name);
      }
      groups[others].push_back(rank);
    }
    for (const auto& [others, ranks] : groups) {
      if (ranks.size() > 1) add_group(ranks, traffic);
    }
  }

  // A ring in each host (or NVLink domain), and one through the hosts for each place in them.
  void add_group(const std::vector<int>& ranks, Traffic traffic) {
    std::vector<std::vector<int>> hosts;  // in the order of their first ranks
    std::map<int64_t, size_t> position;
    for (const int rank : ranks) {
      const int64_t domain = platform_.domain_of(job_.devices[at(rank)]);
      const auto [found, is_new] = position.try_emplace(domain, hosts.size());
      if (is_new) hosts.emplace_back();
      hosts[found->second].push_back(rank);
      graph_.ranks[at(first_ + rank)].group[at(traffic)] = static_cast<int>(graph_.group_members.size());
    }
    graph_.group_members.push_back(static_cast<int>(ranks.size()));
    size_t fewest = ranks.size();
    for (const std::vector<int>& members : hosts) fewest = std::min(fewest, members.size());
    for (size_t h = 0; h < hosts.size(); ++h) {
      add_ring(hosts[h], hosts[(h + 1) % hosts.size()], hosts.size() > 1, fewest, traffic);
    }
  }

  // What members on one host send: to each other, and to those of the next. Between uneven hosts as many rings cross as
  // the smaller one has members; together they carry what as many as the group has on its smallest host would. In an
  // all-to-all each sends its own.
  void add_ring(const std::vector<int>& here, const std::vector<int>& there, bool crosses, size_t fewest,
                Traffic traffic) {
    const size_t rings = traffic == Traffic::kEp ? here.size() : std::min(here.size(), there.size());
    const double share = traffic == Traffic::kEp ? 1 : static_cast<double>(fewest) / static_cast<double>(rings);
    for (size_t i = 0; i < here.size(); ++i) {
      const int near = here[(i + 1) % here.size()];
      const int far = crosses ? there[i % there.size()] : near;
      connect(here[i], here.size() > 1 ? near : far, traffic, 0);
      if (!crosses || i < rings) connect(here[i], far, traffic, 1, crosses ? share : 1);
    }
  }

  void connect(int from, int to, Traffic traffic, int to_other_host, double share = 1) {
    const bool message = traffic == Traffic::kForward || traffic == Traffic::kBackward;
    if (!message && !uses_[at(traffic)][at(to_other_host)]) return;
    const auto [src, dst] =
        platform_.route(plan::Location::device(job_.devices[at(from)]), plan::Location::device(job_.devices[at(to)]));
    graph_.ranks[at(first_ + from)].flows[at(traffic)][at(to_other_host)] = {.src = src, .dst = dst, .share = share};
  }

  const change::Platform& platform_;
  const IterationJob& job_;
  int first_;
  IterationGraph& graph_;
  Uses uses_;
  Mesh dense_;
};

// Distinct links of the way.
std::vector<int> links_of(const change::NetworkSpec& network, FlowEnds ends) {
  std::vector<int> links = network.endpoints[at(ends.src)].up;
  const std::vector<int>& down = network.endpoints[at(ends.dst)].down;
  links.insert(links.end(), down.begin(), down.end());
  std::sort(links.begin(), links.end());
  links.erase(std::unique(links.begin(), links.end()), links.end());
  return links;
}

// All flows that ranks may start, with their links one after the other.
struct Flows {
  struct One {
    int rank = 0;
    int kind = 0;  // traffic, inside or between hosts
    double share = 1;
    size_t first_link = 0, end_link = 0;
  };
  std::vector<One> all;
  std::vector<int> links;
};

Flows flows_of(const IterationGraph& graph, const change::NetworkSpec& network) {
  Flows flows;
  for (size_t rank = 0; rank < graph.ranks.size(); ++rank) {
    for (int kind = 0; kind < 2 * kTraffics; ++kind) {
      const FlowEnds ends = graph.ranks[rank].flows[at(kind / 2)][at(kind % 2)];
      if (ends.src < 0) continue;
      const std::vector<int> links = links_of(network, ends);
      const size_t first = flows.links.size();
      flows.links.insert(flows.links.end(), links.begin(), links.end());
      flows.all.push_back({.rank = static_cast<int>(rank),
                           .kind = kind,
                           .share = ends.share,
                           .first_link = first,
                           .end_link = flows.links.size()});
    }
  }
  return flows;
}

// A 64-bit mix (the finaliser of SplitMix64) of two words. Sums of mixes stand for multisets.
uint64_t mix(uint64_t a, uint64_t b) {
  uint64_t z = a * 0x9e3779b97f4a7c15u + b + 0x632be59bd9b4e019u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

uint64_t bits_of(double value) {
  uint64_t bits = 0;
  static_assert(sizeof bits == sizeof value);
  std::copy_n(reinterpret_cast<const unsigned char*>(&value), sizeof value, reinterpret_cast<unsigned char*>(&bits));
  return bits;
}

size_t distinct(std::vector<uint64_t> colours) {
  std::sort(colours.begin(), colours.end());
  return static_cast<size_t>(std::unique(colours.begin(), colours.end()) - colours.begin());
}

// Numbers colours in the order of their first rank or link.
int number(const std::vector<uint64_t>& colours, const std::vector<bool>& counts, std::vector<int>& classes) {
  std::unordered_map<uint64_t, int> known;
  classes.assign(colours.size(), -1);
  for (size_t i = 0; i < colours.size(); ++i) {
    if (counts[i]) classes[i] = known.try_emplace(colours[i], static_cast<int>(known.size())).first->second;
  }
  return static_cast<int>(known.size());
}

class Refinement {
 public:
  Refinement(const IterationGraph& graph, const change::NetworkSpec& network)
      : graph_(graph), flows_(flows_of(graph, network)), crossed_(network.links.size(), false) {
    for (const IterationRank& rank : graph.ranks) {
      ranks_.push_back(mix(mix(static_cast<uint64_t>(rank.job), static_cast<uint64_t>(rank.stage)),
                           static_cast<uint64_t>(rank.parts)));
    }
    for (const int link : flows_.links) crossed_[at(link)] = true;
    for (const change::LinkSpec& link : network.links) links_.push_back(bits_of(link.bandwidth_bytes_per_s));
  }

  Symmetry run() {
    for (size_t before = 0, now = classes(); now > before; now = classes()) {
      before = now;
      round();
    }
    Symmetry result;
    result.rank_classes = number(ranks_, std::vector<bool>(ranks_.size(), true), result.class_of_rank);
    result.link_classes = number(links_, crossed_, result.class_of_link);
    return result;
  }

 private:
  size_t classes() const { return distinct(ranks_) + distinct(links_); }

  void round() {
    std::vector<uint64_t> links(links_.size()), ranks(ranks_.size()), groups(graph_.group_members.size(), 0);
    for (size_t link = 0; link < links_.size(); ++link) links[link] = mix(links_[link], 1);
    for (size_t r = 0; r < ranks_.size(); ++r) {
      for (const int group : graph_.ranks[r].group) {
        if (group >= 0) groups[at(group)] += mix(ranks_[r], 2);
      }
      const auto colour_of = [&](int rank) { return rank < 0 ? 0 : ranks_[at(rank)]; };
      ranks[r] = mix(mix(ranks_[r], colour_of(graph_.ranks[r].next)), colour_of(graph_.ranks[r].previous));
    }
    for (const Flows::One& flow : flows_.all) {
      uint64_t way = 0;
      const uint64_t kind = mix(bits_of(flow.share), static_cast<uint64_t>(flow.kind));
      const uint64_t sender = mix(ranks_[at(flow.rank)], kind + 16);
      for (size_t i = flow.first_link; i < flow.end_link; ++i) {
        const int link = flows_.links[i];
        way += mix(links_[at(link)], 3);
        links[at(link)] += sender;
      }
      ranks[at(flow.rank)] += mix(way, kind + 32);
    }
    for (size_t r = 0; r < ranks.size(); ++r) {
      for (size_t kind = 0; kind < at(kTraffics); ++kind) {
        const int group = graph_.ranks[r].group[kind];
        if (group >= 0) ranks[r] += mix(groups[at(group)], kind + 48);
      }
    }
    // A class never takes in another: what differed once goes on differing.
    for (size_t r = 0; r < ranks.size(); ++r) ranks_[r] = mix(ranks[r], ranks_[r]);
    for (size_t link = 0; link < links.size(); ++link) links_[link] = mix(links[link], links_[link]);
  }

  const IterationGraph& graph_;
  Flows flows_;
  std::vector<bool> crossed_;
  std::vector<uint64_t> ranks_, links_;  // colours
};

std::vector<int> first_of_class(const std::vector<int>& classes, int count) {
  std::vector<int> first(at(count), -1);
  for (size_t i = classes.size(); i-- > 0;) {
    if (classes[i] >= 0) first[at(classes[i])] = static_cast<int>(i);
  }
  return first;
}

// Groups of the same kind over the same classes of ranks are one; its members are classes.
void fold_groups(const IterationGraph& graph, const Symmetry& symmetry, const std::vector<int>& first,
                 IterationGraph& folded) {
  for (size_t kind = 0; kind < at(kTraffics); ++kind) {
    std::map<int, std::vector<int>> classes_in;  // by group
    for (size_t rank = 0; rank < graph.ranks.size(); ++rank) {
      const int group = graph.ranks[rank].group[kind];
      if (group >= 0) classes_in[group].push_back(symmetry.class_of_rank[rank]);
    }
    std::map<std::vector<int>, int> known;
    for (auto& [group, classes] : classes_in) {
      std::sort(classes.begin(), classes.end());
      classes.erase(std::unique(classes.begin(), classes.end()), classes.end());
      const auto [found, is_new] = known.try_emplace(classes, static_cast<int>(folded.group_members.size()));
      if (!is_new) continue;
      folded.group_members.push_back(static_cast<int>(classes.size()));
      for (const int member : classes) folded.ranks[at(member)].group[kind] = found->second;
    }
  }
  SCALAI_CHECK(folded.ranks.size() == first.size());
}

// Endpoints of the folded flows, with how many of the class cross each link of a class: those on its first link.
void fold_flows(const IterationGraph& graph, const change::NetworkSpec& network, const Symmetry& symmetry,
                FoldedIteration& folded) {
  const std::vector<int> first_link = first_of_class(symmetry.class_of_link, symmetry.link_classes);
  for (const int link : first_link) folded.network.links.push_back(network.links[at(link)]);
  std::map<std::pair<int, int>, std::map<int, int64_t>> weights;  // by class of ranks and kind: on each class of links
  std::map<std::pair<int, int>, double> shares;                   // likewise
  const Flows flows = flows_of(graph, network);
  for (const Flows::One& flow : flows.all) {
    std::map<int, int64_t>& on = weights[{symmetry.class_of_rank[at(flow.rank)], flow.kind}];
    shares[{symmetry.class_of_rank[at(flow.rank)], flow.kind}] = flow.share;
    for (size_t i = flow.first_link; i < flow.end_link; ++i) {
      const int link = flows.links[i], link_class = symmetry.class_of_link[at(link)];
      if (first_link[at(link_class)] == link) ++on[link_class];
    }
  }
  folded.network.endpoints.push_back({.name = "end", .up = {}, .down = {}});
  for (const auto& [key, on] : weights) {
    const int src = static_cast<int>(folded.network.endpoints.size());
    change::EndpointSpec endpoint{
        .name = std::to_string(key.first) + "." + std::to_string(key.second), .up = {}, .down = {}};
    for (const auto& [link, weight] : on) {
      endpoint.up.push_back(link);
      endpoint.up_weights.push_back(weight);
    }
    folded.network.endpoints.push_back(std::move(endpoint));
    folded.graph.ranks[at(key.first)].flows[at(key.second / 2)][at(key.second % 2)] = {
        .src = src, .dst = 0, .share = shares.at(key)};
  }
}

}  // namespace

IterationGraph graph_of(const change::Platform& platform, std::span<const IterationJob> jobs) {
  IterationGraph graph;
  for (size_t j = 0; j < jobs.size(); ++j) {
    JobGraph job(platform, jobs[j], static_cast<int>(j), graph);
    job.add_messages();
    job.add_groups();
  }
  return graph;
}

Symmetry symmetry_of(const IterationGraph& graph, const change::NetworkSpec& network) {
  return Refinement(graph, network).run();
}

FoldedIteration fold(const IterationGraph& graph, const change::NetworkSpec& network, const Symmetry& symmetry) {
  FoldedIteration folded;
  const std::vector<int> first = first_of_class(symmetry.class_of_rank, symmetry.rank_classes);
  for (const int rank : first) {
    const IterationRank& whole = graph.ranks[at(rank)];
    const auto class_of = [&](int other) { return other < 0 ? -1 : symmetry.class_of_rank[at(other)]; };
    folded.graph.ranks.push_back({.job = whole.job,
                                  .stage = whole.stage,
                                  .parts = whole.parts,
                                  .next = class_of(whole.next),
                                  .previous = class_of(whole.previous)});
  }
  fold_groups(graph, symmetry, first, folded.graph);
  fold_flows(graph, network, symmetry, folded);
  return folded;
}

}  // namespace scalai::sim
