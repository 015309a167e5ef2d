#include "ptc/plan/interpreter.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <span>

#include "ptc/plan/internal/plan_facts.h"

namespace scalai::plan {
namespace {

using collection::Collection;
using internal::Problems;
using tensor::Box;

std::optional<Box> common_part(const Box& a, const Box& b) {
  Box common = a;
  for (size_t dim = 0; dim < static_cast<size_t>(a.rank); ++dim) {
    common.lo[dim] = std::max(a.lo[dim], b.lo[dim]);
    common.hi[dim] = std::min(a.hi[dim], b.hi[dim]);
    if (common.lo[dim] >= common.hi[dim]) return std::nullopt;
  }
  return common;
}

int64_t elements_in(const Box& box) {
  int64_t count = 1;
  for (int dim = 0; dim < box.rank; ++dim) count *= box.extent(dim);
  return count;
}

// Elements of `box` in none of `covers`, which may overlap: take out the first that has a part, and go on with what is
// left around it.
int64_t uncovered(Box box, std::span<const Box> covers) {
  std::optional<Box> hit;
  while (!covers.empty() && !(hit = common_part(box, covers.front()))) covers = covers.subspan(1);
  if (covers.empty()) return elements_in(box);
  covers = covers.subspan(1);
  int64_t count = 0;
  for (size_t dim = 0; dim < static_cast<size_t>(box.rank); ++dim) {
    Box below = box;
    Box above = box;
    below.hi[dim] = hit->lo[dim];
    above.lo[dim] = hit->hi[dim];
    if (below.lo[dim] < below.hi[dim]) count += uncovered(below, covers);
    if (above.lo[dim] < above.hi[dim]) count += uncovered(above, covers);
    box.lo[dim] = hit->lo[dim];
    box.hi[dim] = hit->hi[dim];
  }
  return count;
}

// Elements of `box` in `parts`, which are disjoint.
int64_t covered(const Box& box, const std::vector<Box>& parts) {
  int64_t count = 0;
  for (const Box& part : parts) {
    if (const auto common = common_part(box, part)) count += elements_in(*common);
  }
  return count;
}

// Two boxes of a sorted list that share elements.
std::optional<std::pair<Box, Box>> overlap_in(const std::vector<Box>& sorted) {
  for (size_t i = 0; i < sorted.size(); ++i) {
    for (size_t j = i + 1; j < sorted.size() && (sorted[i].rank == 0 || sorted[j].lo[0] < sorted[i].hi[0]); ++j) {
      if (common_part(sorted[i], sorted[j])) return std::pair(sorted[i], sorted[j]);
    }
  }
  return std::nullopt;
}

void sort_unique(std::vector<Box>& boxes) {
  std::sort(boxes.begin(), boxes.end());
  boxes.erase(std::unique(boxes.begin(), boxes.end()), boxes.end());
}

bool has(const std::vector<Box>& boxes, const Box& box) {
  return std::find(boxes.begin(), boxes.end(), box) != boxes.end();
}

class BoxInterpreter {
 public:
  BoxInterpreter(const Plan& plan, const InterpreterInput& input)
      : plan_(plan), input_(input), facts_(plan, input, problems_) {}

  absl::Status run() {
    if (!problems_.none()) return problems_.status();
    const size_t tensors = plan_.tensors.size();
    const auto operations = internal::by_tensor(plan_.operations, tensors);
    const auto missing = internal::by_tensor(plan_.missing, tensors);
    const auto extra = internal::by_tensor(input_.residency.extra, tensors);
    for (size_t i = 0; i < tensors && !problems_.full(); ++i) {
      tensor_ = TensorId(static_cast<int64_t>(i));
      load_tensor(missing[i], extra[i]);
      check_missing();
      check_operations(operations[i]);
      check_destinations(operations[i]);
    }
    return problems_.status();
  }

 private:
  // Who holds what of the tensor, by device and by host.
  void load_tensor(const std::vector<size_t>& missing, const std::vector<size_t>& extra) {
    held_ = boxes_by_device(input_.from);
    for (const DeviceId lost : input_.residency.lost) {
      if (lost.valid() && static_cast<size_t>(lost.value) < held_.size())
        held_[static_cast<size_t>(lost.value)].clear();
    }
    needed_ = boxes_by_device(input_.to);
    memory_.assign(input_.cluster.hosts.size(), {});
    anywhere_.clear();
    for (const size_t i : extra) {
      const collection::ExtraHolder& holder = input_.residency.extra[i];
      memory_[static_cast<size_t>(holder.host.value)].push_back(holder.box);
      anywhere_.push_back(holder.box);
    }
    for (size_t device = 0; device < held_.size(); ++device) {
      anywhere_.insert(anywhere_.end(), held_[device].begin(), held_[device].end());
      if (held_[device].empty()) continue;
      for (size_t host = 0; host < memory_.size(); ++host) {
        const bool staged = internal::staged_in(plan_, input_.cluster, DeviceId(static_cast<int64_t>(device)),
                                                HostId(static_cast<int64_t>(host)));
        if (staged) memory_[host].insert(memory_[host].end(), held_[device].begin(), held_[device].end());
      }
    }
    for (std::vector<Box>& boxes : memory_) sort_unique(boxes);
    sort_unique(anywhere_);
    missing_.clear();
    for (const size_t i : missing) missing_.push_back(plan_.missing[i].box);
    std::sort(missing_.begin(), missing_.end());
  }

  std::vector<std::vector<Box>> boxes_by_device(const Collection& collection) const {
    std::vector<std::vector<Box>> boxes(static_cast<size_t>(input_.cluster.device_count()));
    for (int rank = 0; rank < collection.ranks(); ++rank) {
      const DeviceId device = collection.device_of_rank[static_cast<size_t>(rank)];
      for (const tensor::Piece& piece : collection.pieces(tensor_, LogicalRank(rank)).pieces) {
        boxes[static_cast<size_t>(device.value)].push_back(piece.box);
      }
    }
    return boxes;
  }

  void check_missing() {
    const auto wrong = [&](const Box& box, std::string_view why) {
      problems_.add(fmt::format("tensor {}: {}", facts_.name_of_box(tensor_, box), why));
    };
    std::vector<Box> needed;
    for (const std::vector<Box>& boxes : needed_) needed.insert(needed.end(), boxes.begin(), boxes.end());
    sort_unique(needed);
    for (const Box& box : missing_) {
      if (input_.residency.storage) wrong(box, "named as missing, but storage has it");
      if (uncovered(box, anywhere_) != elements_in(box)) wrong(box, "named as missing, but a survivor holds a part");
      if (uncovered(box, needed) != 0) wrong(box, "named as missing, but nobody needs it");
    }
    if (const auto twice = overlap_in(missing_)) wrong(twice->second, "named as missing twice");
    if (input_.residency.storage) return;
    for (const Box& box : needed) {
      const bool held = std::binary_search(anywhere_.begin(), anywhere_.end(), box);
      if (!held && uncovered(box, anywhere_) != covered(box, missing_)) {
        wrong(box, "what no survivor holds of it is not what is named as missing");
      }
    }
  }

  void check_operations(const std::vector<size_t>& operations) {
    std::vector<std::vector<size_t>> arrivals(needed_.size());  // by device
    for (const size_t i : operations) arrivals[static_cast<size_t>(plan_.operations[i].dst.value)].push_back(i);
    for (const size_t i : operations) {
      const Operation& operation = plan_.operations[i];
      const auto wrong = [&](std::string_view why) {
        problems_.add(fmt::format("{}: {}", facts_.name_of_operation(i), why));
      };
      const std::vector<Box>& needed = needed_[static_cast<size_t>(operation.dst.value)];
      if (operation.hop > 0) {
        if (!passed_on(operation, arrivals)) wrong("the source has not received it on an earlier hop");
      } else if (!source_holds(operation)) {
        wrong("the source does not hold it in the old epoch");
      }
      if (uncovered(operation.box, needed) != 0) wrong("the new collection does not place it there");
      if (operation.transfer_class != TransferClass::kKept) continue;
      const bool same =
          has(needed, operation.box) && has(held_[static_cast<size_t>(operation.dst.value)], operation.box);
      if (!same) wrong("kept, but not the same box before and after");
    }
  }

  // Whether operations of an earlier (round, hop) have brought the whole box to the source.
  bool passed_on(const Operation& operation, const std::vector<std::vector<size_t>>& arrivals) const {
    if (operation.src.kind != Location::Kind::kDevice) return false;
    std::vector<Box> received;
    for (const size_t i : arrivals[static_cast<size_t>(operation.src.index)]) {
      const Operation& other = plan_.operations[i];
      if (std::pair(other.round, other.hop) < std::pair(operation.round, operation.hop)) received.push_back(other.box);
    }
    return uncovered(operation.box, received) == 0;
  }

  bool source_holds(const Operation& operation) const {
    const auto at = static_cast<size_t>(operation.src.index);
    switch (operation.src.kind) {
      case Location::Kind::kDevice: return uncovered(operation.box, held_[at]) == 0;
      case Location::Kind::kHostMemory: return uncovered(operation.box, memory_[at]) == 0;
      case Location::Kind::kStorage: return input_.residency.storage;
    }
    return false;
  }

  // Every element of every new box written once or missing. What is written lies inside the new boxes, so that counting
  // proves it as soon as nothing is written twice.
  void check_destinations(const std::vector<size_t>& operations) {
    std::vector<std::vector<Box>> written(needed_.size());
    for (const size_t i : operations) {
      written[static_cast<size_t>(plan_.operations[i].dst.value)].push_back(plan_.operations[i].box);
    }
    for (size_t device = 0; device < needed_.size(); ++device) {
      std::sort(written[device].begin(), written[device].end());
      if (const auto twice = overlap_in(written[device])) {
        problems_.add(fmt::format("tensor {} and {} are both written on g{}", facts_.name_of_box(tensor_, twice->first),
                                  twice->second.str(), device));
      }
      for (const Box& box : needed_[device]) {
        if (covered(box, written[device]) + covered(box, missing_) == elements_in(box)) continue;
        problems_.add(fmt::format("tensor {} is not complete on g{}", facts_.name_of_box(tensor_, box), device));
      }
    }
  }

  const Plan& plan_;
  const InterpreterInput& input_;
  Problems problems_;
  internal::PlanFacts facts_;
  TensorId tensor_;
  std::vector<std::vector<Box>> held_, needed_;  // by device: old boxes of the living, new boxes
  std::vector<std::vector<Box>> memory_;         // by host: what its memory may be read for
  std::vector<Box> anywhere_, missing_;
};

}  // namespace

absl::Status interpret(const Plan& plan, const InterpreterInput& input) { return BoxInterpreter(plan, input).run(); }

}  // namespace scalai::plan
