#include "ptc/plan/internal/difference.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "ptc/base/status.h"

namespace scalai::plan::internal {
namespace {

using collection::LogicalTensor;
using tensor::Box;

class DifferenceBuilder {
 public:
  explicit DifferenceBuilder(const PlannerInput& input)
      : input_(input),
        from_(input.from, input.residency.lost),
        to_(input.to),
        copies_(input.to.tensors.size()),
        storage_only_(input.options.sources == SourceRule::kStorage) {
    SCALAI_CHECK(input.from.tensors.size() == input.to.tensors.size());
  }

  Difference run() {
    find_masters();
    if (!storage_only_) {
      for (const collection::ExtraHolder& extra : input_.residency.extra)
        copies_[static_cast<size_t>(extra.tensor.value)].emplace_back(extra.box, extra.host);
    }
    for (std::vector<TensorId>& group : alike(input_.from, input_.to, own_keys())) add_group(std::move(group));
    result_.old_sets = from_.take_sets();
    result_.new_sets = to_.take_sets();
    result_.old_bytes.resize(static_cast<size_t>(result_.old_sets.size()), 0);
    result_.new_bytes.resize(static_cast<size_t>(result_.new_sets.size()), 0);
    return std::move(result_);
  }

 private:
  const LogicalTensor& new_tensor(TensorId id) const { return input_.to.tensors[static_cast<size_t>(id.value)]; }

  // The fp32 master of a parameter has its name with ".master" behind it, as model::state_tensors() calls it.
  void find_masters() {
    result_.derived_from.assign(input_.to.tensors.size(), TensorId());
    if (!input_.options.derive_params) return;
    std::map<std::string, TensorId> masters;
    for (size_t i = 0; i < input_.to.tensors.size(); ++i) {
      const LogicalTensor& tensor = input_.to.tensors[i];
      if (tensor.kind == model::StateKind::kMaster) masters.emplace(tensor.name, TensorId(static_cast<int64_t>(i)));
    }
    for (size_t i = 0; i < input_.to.tensors.size(); ++i) {
      const LogicalTensor& tensor = input_.to.tensors[i];
      if (tensor.kind != model::StateKind::kParam || !is_floating(tensor.dtype)) continue;
      const auto master = masters.find(tensor.name + ".master");
      if (master == masters.end()) continue;
      const LogicalTensor& wide = new_tensor(master->second);
      const bool derivable = wide.shape == tensor.shape && is_floating(wide.dtype) &&
                             tensor::size_of(wide.dtype) > tensor::size_of(tensor.dtype);
      if (derivable) result_.derived_from[i] = master->second;
    }
  }

  // What else makes tensors differ: their redundant copies, where their masters lie.
  std::vector<std::string> own_keys() const {
    std::vector<std::string> keys(input_.to.tensors.size());
    for (size_t i = 0; i < keys.size(); ++i) {
      const auto add = [&](int64_t number) { keys[i].append(reinterpret_cast<const char*>(&number), sizeof number); };
      add(static_cast<int64_t>(copies_[i].size()));
      for (const auto& [box, host] : copies_[i]) {
        for (size_t dim = 0; dim < static_cast<size_t>(box.rank); ++dim) add(box.lo[dim]), add(box.hi[dim]);
        add(host.value);
      }
      const TensorId master = result_.derived_from[i];
      if (master.valid()) keys[i] += "<" + placement_key(new_tensor(master));
    }
    return keys;
  }

  void add_group(std::vector<TensorId> tensors) {
    const auto first = static_cast<size_t>(tensors.front().value);
    const std::vector<HeldBox> old = from_.spread_of(tensors.front());
    const std::vector<HeldBox> needed = to_.spread_of(tensors.front());
    const auto count = static_cast<int64_t>(tensors.size());
    add_bytes(old, tensor::size_of(input_.from.tensors[first].dtype) * count, result_.old_bytes);
    add_bytes(needed, tensor::size_of(input_.to.tensors[first].dtype) * count, result_.new_bytes);
    copy_parts_ = copies_[first].empty() ? std::vector<HeldBox>() : copy_parts_of(copies_[first]);
    const TensorId master = result_.derived_from[first];
    master_parts_ = master.valid() ? to_.spread_of(master) : std::vector<HeldBox>();
    const BoxIndex copy_index(copy_parts_), master_index(master_parts_);
    copy_index_ = &copy_index;
    master_index_ = &master_index;

    const std::vector<HeldBox> none;
    const std::vector<HeldBox>& held = storage_only_ ? none : old;
    const BoxIndex index(held);
    group_ = &result_.groups.emplace_back(GroupDifference{std::move(tensors), {}});
    for (const HeldBox& piece : needed) {
      std::vector<Box> covered;
      int64_t left = piece.box.volume();
      index.overlaps(piece.box, [&](size_t i, const Box& common) {
        add({.box = common, .holders = held[i].set, .wanting = piece.set, .whole = held[i].box == piece.box});
        covered.push_back(common);
        left -= common.volume();
      });
      if (left == 0) continue;
      for (const Box& box : subtract(piece.box, covered)) add({.box = box, .wanting = piece.set});
    }
  }

  static void add_bytes(const std::vector<HeldBox>& boxes, int64_t element_bytes, std::vector<int64_t>& by_set) {
    for (const HeldBox& held : boxes) {
      if (static_cast<size_t>(held.set) >= by_set.size()) by_set.resize(static_cast<size_t>(held.set) + 1, 0);
      by_set[static_cast<size_t>(held.set)] += held.box.volume() * element_bytes;
    }
  }

  // Redundant copies may overlap in any way; the parts do not, and each knows all hosts that have it.
  std::vector<HeldBox> copy_parts_of(const std::vector<std::pair<Box, HostId>>& copies) {
    std::vector<HeldBox> result;
    for (auto& [part, hosts] : cells_of(copies)) {
      std::sort(hosts.begin(), hosts.end());
      hosts.erase(std::unique(hosts.begin(), hosts.end()), hosts.end());
      const auto number = static_cast<int32_t>(result_.copy_hosts.size());
      const auto [known, fresh] = copy_hosts_.try_emplace(hosts, number);
      result.push_back({part, known->second});
      if (fresh) result_.copy_hosts.push_back(std::move(hosts));
    }
    std::sort(result.begin(), result.end(), [](const HeldBox& a, const HeldBox& b) { return a.box < b.box; });
    return result;
  }

  using CopiedCells = std::vector<std::pair<Box, std::vector<HostId>>>;

  // Copies of boxes that are equal or disjoint, as redundancy makes them: the boxes, in order of appearance. Nothing
  // for others.
  static std::optional<CopiedCells> boxes_of(const std::vector<std::pair<Box, HostId>>& copies) {
    CopiedCells cells;
    std::map<Box, size_t> known;
    for (const auto& [box, host] : copies) {
      const auto [entry, fresh] = known.try_emplace(box, cells.size());
      if (fresh) cells.push_back({box, {}});
      cells[entry->second].second.push_back(host);
    }
    std::vector<HeldBox> boxes;
    for (const auto& [box, cell] : known) boxes.push_back({box, 0});
    const BoxIndex index(boxes);
    size_t overlaps = 0;  // of each with itself at least
    for (const HeldBox& one : boxes) index.overlaps(one.box, [&](size_t, const Box&) { ++overlaps; });
    if (overlaps != boxes.size()) return std::nullopt;
    return cells;
  }

  static CopiedCells cells_of(const std::vector<std::pair<Box, HostId>>& copies) {
    if (std::optional<CopiedCells> boxes = boxes_of(copies)) return *std::move(boxes);
    CopiedCells parts;
    for (const auto& [box, host] : copies) {
      CopiedCells finer;
      std::vector<Box> known;
      for (auto& [part, hosts] : parts) {
        known.push_back(part);
        for (const Box& rest : subtract(part, box)) finer.emplace_back(rest, hosts);
        const auto common = intersect(part, box);
        if (!common) continue;
        finer.emplace_back(*common, hosts);
        finer.back().second.push_back(host);
      }
      for (const Box& rest : subtract(box, known)) finer.emplace_back(rest, std::vector<HostId>{host});
      parts = std::move(finer);
    }
    return parts;
  }

  void add(const Overlap& overlap) {
    if (copy_parts_.empty() && master_parts_.empty()) {
      group_->overlaps.push_back(overlap);
      return;
    }
    std::vector<Overlap> parts = {overlap};
    if (!copy_parts_.empty()) parts = cut(parts, *copy_index_, copy_parts_, &Overlap::copies);
    if (!master_parts_.empty() && may_derive(overlap))
      parts = cut(parts, *master_index_, master_parts_, &Overlap::masters);
    const bool plain = parts.size() == 1 && parts.front().copies < 0 && parts.front().masters < 0;
    if (!plain && overlap.holders >= 0) {
      group_->overlaps.push_back(overlap);
      group_->overlaps.back().side = Overlap::Side::kLocal;
      for (Overlap& part : parts) part.side = Overlap::Side::kRemote;
    }
    group_->overlaps.insert(group_->overlaps.end(), parts.begin(), parts.end());
  }

  // Whether anyone who wants the box and does not hold it will have a part of its master.
  bool may_derive(const Overlap& overlap) const {
    std::set<DeviceId> lacking(to_.sets()[overlap.wanting].begin(), to_.sets()[overlap.wanting].end());
    if (overlap.holders >= 0) {
      for (const DeviceId device : from_.sets()[overlap.holders]) lacking.erase(device);
    }
    bool found = false;
    master_index_->overlaps(overlap.box, [&](size_t i, const Box&) {
      const std::vector<DeviceId>& devices = to_.sets()[master_parts_[i].set];
      found = found || std::any_of(devices.begin(), devices.end(), [&](DeviceId d) { return lacking.contains(d); });
    });
    return found;
  }

  // Each part along the boxes of a list; what lies in one of them gets its set.
  static std::vector<Overlap> cut(const std::vector<Overlap>& parts, const BoxIndex& index,
                                  const std::vector<HeldBox>& list, int32_t Overlap::*set) {
    std::vector<Overlap> finer;
    for (const Overlap& part : parts) {
      std::vector<Box> covered;
      index.overlaps(part.box, [&](size_t i, const Box& common) {
        finer.push_back(part);
        finer.back().box = common;
        finer.back().*set = list[i].set;
        covered.push_back(common);
      });
      for (const Box& rest : subtract(part.box, covered)) {
        finer.push_back(part);
        finer.back().box = rest;
      }
    }
    return finer;
  }

  const PlannerInput& input_;
  Side from_, to_;
  std::vector<std::vector<std::pair<Box, HostId>>> copies_;  // by tensor
  const bool storage_only_;
  std::map<std::vector<HostId>, int32_t> copy_hosts_;  // numbers of result_.copy_hosts
  Difference result_;
  GroupDifference* group_ = nullptr;
  std::vector<HeldBox> copy_parts_, master_parts_;  // of the group at hand
  const BoxIndex* copy_index_ = nullptr;
  const BoxIndex* master_index_ = nullptr;
};

}  // namespace

bool is_floating(tensor::DType dtype) {
  using tensor::DType;
  switch (dtype) {
    case DType::kF8E4M3:
    case DType::kF8E5M2:
    case DType::kF16:
    case DType::kBF16:
    case DType::kF32:
    case DType::kF64: return true;
    default: return false;
  }
}

Difference difference_of(const PlannerInput& input) { return DifferenceBuilder(input).run(); }

}  // namespace scalai::plan::internal
