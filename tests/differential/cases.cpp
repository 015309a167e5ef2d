#include "tests/differential/cases.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

#include "ptc/base/random.h"
#include "ptc/state/collection/collection_file.h"

namespace scalai::differential {
namespace {

using collection::Collection;
using collection::LogicalTensor;
using collection::Mesh;
using tensor::Cut;
using tensor::DType;
using tensor::SplitRule;

constexpr int kMostRanks = 12;
constexpr int64_t kMostExtent = 97;

class Draw {
 public:
  explicit Draw(uint64_t seed) : random_(seed) {}
  int64_t between(int64_t lo, int64_t hi) { return random_.between(lo, hi); }
  bool chance(int64_t one, int64_t in) { return random_.below(in) < one; }
  template <class T>
  T pick(const std::vector<T>& from) {
    return from[static_cast<size_t>(random_.below(static_cast<int64_t>(from.size())))];
  }
  template <class T>
  void shuffle(std::vector<T>& list) {
    for (size_t i = list.size(); i > 1; --i) std::swap(list[i - 1], list[static_cast<size_t>(random_.below(i))]);
  }
  // Few small numbers as often as many large ones.
  int64_t up_to(int64_t most) {
    int64_t bits = 0;
    while ((int64_t{1} << bits) < most) ++bits;
    return std::min(most, between(0, int64_t{1} << between(0, bits)));
  }

 private:
  Random random_;
};

// --- tensors ---------------------------------------------------------------------------------------------------------

// What both sides agree on. `groups` of equal size along dimension `grouped` belong together (query groups, halves).
struct Tensor {
  std::string name;
  tensor::Shape shape;
  model::StateKind kind = model::StateKind::kParam;
  DType from_dtype = DType::kF32, to_dtype = DType::kF32;
  int grouped = -1;
  int64_t groups = 1;
  bool as_before = false;  // lies as the tensor before it does
};

class TensorDraw {
 public:
  TensorDraw(Draw& draw, bool same_types) : draw_(draw), same_types_(same_types) {}

  std::vector<Tensor> run() {
    const auto count = static_cast<size_t>(draw_.between(1, 4));
    while (tensors_.size() < count) {
      switch (draw_.between(0, 9)) {
        case 0: attention(); break;
        case 1: fused_attention(); break;
        case 2: gate_and_up(); break;
        case 3:
        case 4: with_master(); break;
        case 5: again(); break;
        default: add({.shape = shape(kMostElements / 5)});
      }
    }
    tensors_.resize(count);
    return tensors_;
  }

 private:
  void add(Tensor tensor, const std::string& suffix = "") {
    tensor.name = fmt::format("t{}{}", tensors_.size(), suffix);
    tensor.from_dtype = tensor.to_dtype = draw_.pick<DType>(
        {DType::kF32, DType::kBF16, DType::kF16, DType::kF64, DType::kF8E4M3, DType::kI64, DType::kU8});
    if (!same_types_ && draw_.chance(1, 8)) change_type(tensor);
    tensors_.push_back(std::move(tensor));
  }

  void change_type(Tensor& tensor) {
    const std::vector<DType> floating = {DType::kF32, DType::kBF16, DType::kF16, DType::kF64, DType::kF8E5M2};
    tensor.from_dtype = draw_.pick(floating);
    tensor.to_dtype = draw_.pick(floating);
  }

  tensor::Shape shape(int64_t most) {
    int64_t room = std::max<int64_t>(1, draw_.up_to(most));
    std::vector<int64_t> extents;
    for (int64_t rank = draw_.between(0, 4); rank > 0; --rank) {
      const int64_t limit = std::min(room, kMostExtent);
      int64_t extent = rank == 1 && draw_.chance(1, 2) ? limit : draw_.between(1, limit);
      const int64_t round = draw_.pick<int64_t>({1, 2, 4, 8, 12, 24});  // extents that many axes divide
      if (extent >= round) extent -= extent % round;
      if (draw_.chance(1, 60)) extent = 0;
      extents.push_back(extent);
      room /= std::max<int64_t>(1, extent);
    }
    draw_.shuffle(extents);
    return tensor::Shape(extents);
  }

  // Queries, keys and values as three tensors; there are fewer key and value heads.
  void attention() {
    const int64_t groups = draw_.pick<int64_t>({1, 2, 3, 4, 6}), queries = draw_.between(1, 3);
    const int64_t head = draw_.between(1, 4), hidden = draw_.between(1, 20);
    add({.shape = {groups * queries * head, hidden}, .grouped = 0, .groups = groups * queries}, ".query");
    add({.shape = {groups * head, hidden}, .grouped = 0, .groups = groups}, ".key");
    add({.shape = {groups * head, hidden}, .grouped = 0, .groups = groups}, ".value");
  }

  // The same in one tensor, group by group.
  void fused_attention() {
    const int64_t groups = draw_.pick<int64_t>({1, 2, 3, 4, 6}), queries = draw_.between(1, 3);
    const int64_t head = draw_.between(1, 3);
    add({.shape = {groups * (queries + 2) * head, draw_.between(1, 20)}, .grouped = 0, .groups = groups}, ".qkv");
  }

  // Gate and up projection: one tensor of two halves, or two tensors.
  void gate_and_up() {
    const int64_t ffn = draw_.between(1, 48), hidden = draw_.between(1, 20);
    if (draw_.chance(1, 2)) return add({.shape = {2, ffn, hidden}, .grouped = 0, .groups = 2}, ".gate_up");
    if (draw_.chance(1, 2)) return add({.shape = {2 * ffn, hidden}, .grouped = 0, .groups = 2}, ".gate_up");
    add({.shape = {ffn, hidden}}, ".gate");
    add({.shape = {ffn, hidden}}, ".up");
  }

  void with_master() {
    const tensor::Shape common = shape(kMostElements / 8);
    const std::string name = fmt::format("t{}", tensors_.size());
    add({.shape = common});
    tensors_.back().from_dtype = tensors_.back().to_dtype =
        draw_.pick<DType>({DType::kBF16, DType::kF16, DType::kF8E4M3});
    if (!same_types_ && draw_.chance(1, 4)) tensors_.back().from_dtype = DType::kF32;
    add({.shape = common, .kind = model::StateKind::kMaster});
    tensors_.back().name = name + ".master";
    tensors_.back().from_dtype = tensors_.back().to_dtype = DType::kF32;
  }

  // Tensors alike are planned as one.
  void again() {
    if (tensors_.empty() || tensors_.back().kind != model::StateKind::kParam) return;
    Tensor tensor = tensors_.back();
    if (4 * tensor.shape.elements() > kMostElements) return;
    tensor.name = fmt::format("t{}", tensors_.size());
    tensor.as_before = true;
    tensors_.push_back(tensor);
  }

  Draw& draw_;
  const bool same_types_;
  std::vector<Tensor> tensors_;
};

// --- layouts ---------------------------------------------------------------------------------------------------------

// One tensor's cuts and pins over a mesh.
class LayoutDraw {
 public:
  LayoutDraw(Draw& draw, const Mesh& mesh, const Tensor& what, LogicalTensor& tensor)
      : draw_(draw), mesh_(mesh), what_(what), tensor_(tensor) {
    for (int dim = 0; dim < what.shape.rank(); ++dim) extents_.push_back(what.shape[dim]);
  }

  void run() {
    std::vector<std::string> axes = axes_as_one();
    const bool flat = draw_.chance(1, 4);
    for (size_t i = 0; i < axes.size(); ++i) {
      if (flat && i + 1 == axes.size()) {
        cut(axes[i], Cut::kFlat);
      } else if (!extents_.empty() && draw_.chance(2, 3)) {
        const int dim = what_.grouped >= 0 && draw_.chance(1, 2) ? what_.grouped : any_dimension();
        cut(axes[i], dim);
      } else if (draw_.chance(1, 4)) {
        pin(axes[i]);
      }
    }
  }

 private:
  int any_dimension() { return static_cast<int>(draw_.between(0, static_cast<int64_t>(extents_.size()) - 1)); }

  // The mesh's axes in any order, now and then two or three of them as one.
  std::vector<std::string> axes_as_one() {
    std::vector<std::string> names;
    for (const collection::MeshAxis& axis : mesh_.axes()) names.push_back(axis.name);
    draw_.shuffle(names);
    while (names.size() > 1 && draw_.chance(1, 5)) {
      names[names.size() - 2] += "+" + names.back();
      names.pop_back();
    }
    draw_.shuffle(names);
    return names;
  }

  void pin(const std::string& axis) {
    if (axis.find('+') != std::string::npos) return;
    std::vector<int> at;
    for (int i = 0; i < mesh_.axis_size(axis); ++i) {
      if (draw_.chance(1, 2)) at.push_back(i);
    }
    if (!at.empty()) tensor_.pins.push_back({axis, at});
  }

  void cut(const std::string& axis, int dim) {
    Cut cut{.axis = axis, .dim = dim};
    const int64_t parts = mesh_.axis_size(axis);
    const int64_t extent = dim == Cut::kFlat
                               ? std::accumulate(extents_.begin(), extents_.end(), int64_t{1}, std::multiplies<>())
                               : extents_[static_cast<size_t>(dim)];
    choose_rule(cut, extent, parts);
    tensor_.layout.cuts.push_back(cut);
    if (dim == Cut::kFlat) return;
    uniform_ = uniform_ && (extent % parts == 0) && cut.rule != SplitRule::kExplicit &&
               cut.rule != SplitRule::kBucket && cut.rule != SplitRule::kPadded;
    int64_t& left = extents_[static_cast<size_t>(dim)];
    if (cut.rule == SplitRule::kGrouped) left /= std::min(parts, cut.groups);
    if (cut.rule == SplitRule::kEven || cut.rule == SplitRule::kBalanced || cut.rule == SplitRule::kCeil) {
      left = (left + parts - 1) / parts;
    }
  }

  // Some rules need parts of equal size before them; `extent` is that of the largest part.
  void choose_rule(Cut& cut, int64_t extent, int64_t parts) {
    std::vector<SplitRule> rules = {SplitRule::kBalanced, SplitRule::kCeil, SplitRule::kPadded, SplitRule::kBucket};
    if (uniform_) rules.insert(rules.end(), {SplitRule::kExplicit, SplitRule::kGrouped});
    if (uniform_ && extent % parts == 0) rules.insert(rules.end(), 3, SplitRule::kEven);
    cut.rule = draw_.pick(rules);
    if (cut.rule == SplitRule::kPadded) cut.multiple = draw_.pick<int64_t>({1, 1, 2, 4, 8, 128});
    if (cut.rule == SplitRule::kExplicit) cut.bounds = bounds(cut.dim, extent, parts);
    if (cut.rule == SplitRule::kGrouped) cut.groups = groups(cut.dim, extent, parts);
    if (cut.rule == SplitRule::kBucket) {
      cut.start = draw_.up_to(64);
      const int64_t used = cut.start + extent + draw_.up_to(64);
      cut.bucket = std::max<int64_t>(1, (used + parts - 1) / parts) * parts;
    }
  }

  // Anywhere, or between groups.
  std::vector<int64_t> bounds(int dim, int64_t extent, int64_t parts) {
    const bool whole_groups = dim == what_.grouped && extent % what_.groups == 0;
    const int64_t unit = whole_groups ? extent / what_.groups : 1;
    std::vector<int64_t> bounds = {0, extent};
    for (int64_t i = 1; i < parts; ++i) bounds.push_back(unit * draw_.between(0, unit == 0 ? 0 : extent / unit));
    std::sort(bounds.begin(), bounds.end());
    return bounds;
  }

  int64_t groups(int dim, int64_t extent, int64_t parts) {
    if (dim == what_.grouped && draw_.chance(1, 2)) return what_.groups;  // if it does not fit, validate() says so
    std::vector<int64_t> fit = {1};
    for (int64_t groups = 2; groups <= extent; ++groups) {
      if (extent % groups == 0 && (groups % parts == 0 || parts % groups == 0)) fit.push_back(groups);
    }
    return draw_.pick(fit);
  }

  Draw& draw_;
  const Mesh& mesh_;
  const Tensor& what_;
  LogicalTensor& tensor_;
  std::vector<int64_t> extents_;  // of the largest part so far
  bool uniform_ = true;           // all parts so far are of one size
};

// --- sides -----------------------------------------------------------------------------------------------------------

Mesh draw_mesh(Draw& draw, int64_t ranks, const std::vector<std::string>& names) {
  std::vector<std::string> left = names;
  draw.shuffle(left);
  std::vector<collection::MeshAxis> axes;
  for (int64_t more = draw.between(0, 2); more >= 0; --more) {
    std::vector<int64_t> divisors;
    for (int64_t size = 1; size <= ranks; ++size) {
      if (ranks % size == 0 && (more > 0 || size == ranks)) divisors.push_back(size);
    }
    axes.push_back({left.back(), static_cast<int>(draw.pick(divisors))});
    left.pop_back();
    ranks /= axes.back().size;
  }
  draw.shuffle(axes);
  return Mesh(axes);
}

Collection draw_side(Draw& draw, const std::vector<Tensor>& tensors, std::vector<DeviceId> devices, bool old_side) {
  Collection side{.name = old_side ? "from" : "to", .epoch = old_side ? 4 : 5};
  side.device_of_rank = std::move(devices);
  side.meshes.push_back(draw_mesh(draw, side.ranks(), {"tp", "cp", "dp", "pp"}));
  if (draw.chance(1, 3)) side.meshes.push_back(draw_mesh(draw, side.ranks(), {"etp", "ep", "edp", "pp"}));
  for (const Tensor& what : tensors) {
    LogicalTensor tensor{.shape = what.shape};
    if (what.as_before) {
      tensor = side.tensors.back();
    } else {
      tensor.mesh = static_cast<int>(draw.between(0, static_cast<int64_t>(side.meshes.size()) - 1));
      LayoutDraw(draw, side.meshes[static_cast<size_t>(tensor.mesh)], what, tensor).run();
    }
    tensor.name = what.name;
    tensor.kind = what.kind;
    tensor.dtype = old_side ? what.from_dtype : what.to_dtype;
    side.tensors.push_back(std::move(tensor));
  }
  return side;
}

cluster::Cluster draw_cluster(Draw& draw) {
  cluster::Cluster cluster{.name = "random"};
  const int64_t gpus = draw.between(1, 4);
  const bool mixed = draw.chance(1, 3);
  int first = 0;
  for (int64_t hosts = draw.between(1, 6); hosts > 0; --hosts) {
    cluster.hosts.push_back({.first_device = first, .gpus = static_cast<int>(mixed ? draw.between(1, 4) : gpus)});
    first += cluster.hosts.back().gpus;
  }
  if (draw.chance(1, 3)) cluster.rack_hosts = static_cast<int>(draw.between(1, 3));
  if (draw.chance(1, 3)) {
    cluster.fabric = cluster::FabricKind::kLeafSpine;
    cluster.leaf_hosts = static_cast<int>(draw.between(1, 3));
    if (draw.chance(1, 2)) {
      cluster.fabric = cluster::FabricKind::kFatTree;
      cluster.group_hosts = cluster.leaf_hosts * 2;
    }
  }
  if (draw.chance(1, 3)) {
    const int64_t each = draw.between(2, 3);
    for (size_t h = 0; h < cluster.hosts.size(); ++h)
      cluster.hosts[h].nvlink_domain = static_cast<int>(h) / static_cast<int>(each);
  }
  return cluster;
}

// In order from the first, or any.
std::vector<DeviceId> draw_devices(Draw& draw, std::vector<DeviceId> candidates) {
  const auto most = std::min<int64_t>(kMostRanks, static_cast<int64_t>(candidates.size()));
  if (draw.chance(1, 2)) draw.shuffle(candidates);
  const int64_t ranks = std::max(draw.between(1, most), draw.between(1, most));
  candidates.resize(static_cast<size_t>(ranks));
  return candidates;
}

// --- what survives, and how to plan ----------------------------------------------------------------------------------

void draw_copies(Draw& draw, DifferentialCase& drawn) {
  for (int64_t copies = draw.between(1, 8); copies > 0; --copies) {
    const auto t = draw.between(0, static_cast<int64_t>(drawn.to.tensors.size()) - 1);
    const tensor::Shape& shape = drawn.to.tensors[static_cast<size_t>(t)].shape;
    tensor::Box box = tensor::Box::whole(shape);
    if (box.empty()) continue;
    for (size_t dim = 0; dim < static_cast<size_t>(shape.rank()) && !draw.chance(1, 4); ++dim) {
      box.lo[dim] = draw.between(0, box.hi[dim] - 1);
      box.hi[dim] = draw.between(box.lo[dim] + 1, box.hi[dim]);
    }
    const auto hosts = static_cast<int64_t>(drawn.cluster.hosts.size());
    drawn.residency.extra.push_back({TensorId(t), box, HostId(draw.between(0, hosts - 1))});
  }
}

int64_t bytes_of(const Collection& side) {
  return std::accumulate(side.tensors.begin(), side.tensors.end(), int64_t{0},
                         [](int64_t sum, const LogicalTensor& tensor) { return sum + tensor.bytes(); });
}

void draw_options(Draw& draw, DifferentialCase& drawn) {
  plan::PlannerOptions& options = drawn.options;
  const auto hosts = static_cast<int64_t>(drawn.cluster.hosts.size());
  switch (draw.between(0, 9)) {
    case 0: options.sources = plan::SourceRule::kFirstReplica; break;
    case 1:
      options.in_place = false;
      options.sources = draw.pick<plan::SourceRule>({plan::SourceRule::kFirstReplica, plan::SourceRule::kNearest});
      break;
    case 2:
      options.name = "central";
      options.in_place = false;
      options.hub = HostId(draw.between(0, hosts - 1));
      break;
    case 3:
      if (drawn.residency.storage) options.sources = plan::SourceRule::kStorage;
      break;
    default: break;
  }
  if (draw.chance(1, 5)) options.round_bytes = 1 + draw.up_to(2000);
  if (options.in_place && options.sources != plan::SourceRule::kStorage && draw.chance(1, 4)) {
    options.memory_cap = draw.up_to(std::max(bytes_of(drawn.from), bytes_of(drawn.to)));
  }
  options.derive_params = draw.chance(1, 2);
  options.relay = !draw.chance(1, 8);
}

DifferentialCase draw_case(uint64_t seed, bool round_trip) {
  Draw draw(seed);
  DifferentialCase drawn{.seed = seed};
  while (true) {
    ++drawn.drawn;
    drawn.cluster = draw_cluster(draw);
    drawn.residency.lost.clear();
    std::vector<DeviceId> devices;
    for (int i = 0; i < drawn.cluster.device_count(); ++i) devices.push_back(DeviceId(i));
    const std::vector<Tensor> tensors = TensorDraw(draw, round_trip).run();
    drawn.from = draw_side(draw, tensors, draw_devices(draw, devices), true);
    const int64_t losses = round_trip || draw.chance(3, 4) ? 0 : draw.between(1, 4);
    for (const DeviceId device : drawn.from.device_of_rank) {
      if (devices.size() > 1 && draw.chance(losses, 8)) {
        drawn.residency.lost.insert(device);
        std::erase(devices, device);
      }
    }
    drawn.to = draw_side(draw, tensors, draw_devices(draw, devices), false);
    if (drawn.elements() <= kMostElements && validate(drawn.from).ok() && validate(drawn.to).ok()) break;
  }
  drawn.residency.storage = !round_trip && draw.chance(1, drawn.residency.lost.empty() ? 8 : 2);
  if (draw.chance(1, 4)) draw_copies(draw, drawn);
  draw_options(draw, drawn);
  return drawn;
}

}  // namespace

int64_t DifferentialCase::elements() const {
  int64_t elements = 0;
  for (const LogicalTensor& tensor : to.tensors) elements += tensor.shape.elements();
  return elements;
}

std::string DifferentialCase::str() const {
  std::vector<int> gpus;
  std::vector<int> domains;
  for (const cluster::Host& host : cluster.hosts) {
    gpus.push_back(host.gpus);
    domains.push_back(host.nvlink_domain);
  }
  std::string text = fmt::format(
      "seed {}\ncluster: hosts of {} GPUs, {} racks of {} hosts, groups of {}, NVLink domains {}\n", seed,
      fmt::join(gpus, ", "), cluster.leaf_hosts > 0 ? "leaf" : "set",
      cluster.leaf_hosts > 0 ? cluster.leaf_hosts : cluster.rack_hosts, cluster.group_hosts, fmt::join(domains, ", "));
  text += fmt::format(
      "options: in_place {}, sources {}, hub {}, round_bytes {}, memory_cap {}, derive_params {}, relay {}\n",
      options.in_place, static_cast<int>(options.sources), options.hub.value, options.round_bytes, options.memory_cap,
      options.derive_params, options.relay);
  return text + "--- from\n" + collection_text(from, residency) + "--- to\n" + collection_text(to, {});
}

DifferentialCase make_case(uint64_t seed) { return draw_case(seed, false); }
DifferentialCase make_round_trip(uint64_t seed) { return draw_case(seed, true); }

uint64_t seed_of_case(uint64_t run_seed, uint64_t number) {
  // Short numbers, so that they are easy to pass on.
  return Random(run_seed ^ Random(number).next()).next() >> 16;
}

}  // namespace scalai::differential
