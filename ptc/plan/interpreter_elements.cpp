#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "ptc/base/status.h"
#include "ptc/plan/internal/plan_facts.h"
#include "ptc/plan/interpreter.h"

namespace scalai::plan {
namespace {

using collection::Collection;
using collection::LogicalTensor;
using internal::Problems;
using tensor::Box;

using Marks = std::vector<bool>;  // one per element of a tensor, row-major

// Part of every position in [0, extent), straight from the words of the split rules.
std::vector<int64_t> part_of_positions(const tensor::Cut& cut, int64_t extent, int64_t parts) {
  std::vector<int64_t> part;
  const auto in_blocks = [&](int64_t block) {
    for (int64_t position = 0; position < extent; ++position) part.push_back(position / block);
  };
  switch (cut.rule) {
    case tensor::SplitRule::kEven:
    case tensor::SplitRule::kBalanced:  // dealt out one by one, then put in order
      for (int64_t position = 0; position < extent; ++position) part.push_back(position % parts);
      std::sort(part.begin(), part.end());
      break;
    case tensor::SplitRule::kCeil: {
      int64_t block = 1;
      while (block * parts < extent) ++block;
      in_blocks(block);
      break;
    }
    case tensor::SplitRule::kPadded: {
      int64_t block = cut.multiple;
      while (block * parts < extent) block += cut.multiple;
      in_blocks(block);
      break;
    }
    case tensor::SplitRule::kExplicit:
      for (size_t i = 0; i + 1 < cut.bounds.size(); ++i) {
        part.insert(part.end(), static_cast<size_t>(cut.bounds[i + 1] - cut.bounds[i]), static_cast<int64_t>(i));
      }
      break;
    case tensor::SplitRule::kGrouped: in_blocks(std::max<int64_t>(1, extent / std::min(parts, cut.groups))); break;
    case tensor::SplitRule::kBucket:
      for (int64_t position = 0; position < extent; ++position)
        part.push_back((cut.start + position) * parts / cut.bucket);
      break;
  }
  return part;
}

// Position of every element in what is left: its row-major number for a flat cut, else the number of its index along
// the dimension among those left.
std::vector<int64_t> positions_of(const std::vector<int64_t>& left, const tensor::Shape& shape, int dim) {
  std::vector<int64_t> positions(left.size());
  std::iota(positions.begin(), positions.end(), 0);
  if (dim == tensor::Cut::kFlat) return positions;
  const int64_t stride = shape.strides()[static_cast<size_t>(dim)];
  std::vector<int64_t> indices;
  for (const int64_t element : left) indices.push_back(element / stride % shape[dim]);
  std::vector<int64_t> order = indices;
  std::sort(order.begin(), order.end());
  order.erase(std::unique(order.begin(), order.end()), order.end());
  for (size_t i = 0; i < left.size(); ++i) {
    positions[i] = std::lower_bound(order.begin(), order.end(), indices[i]) - order.begin();
  }
  return positions;
}

struct Place {
  int64_t size = 1;
  int64_t coordinate = 0;
};
Place place_on(const collection::Mesh& mesh, int rank, const std::string& names) {
  Place place;
  int64_t stride = 1;
  for (const collection::MeshAxis& axis : mesh.axes()) {
    if (("+" + names + "+").find("+" + axis.name + "+") != std::string::npos) {
      place = {place.size * axis.size, place.coordinate + place.size * (rank / stride % axis.size)};
    }
    stride *= axis.size;
  }
  return place;
}

// The part that a place holds: with more parts than groups, neighbours share a group.
int64_t part_at(const tensor::Cut& cut, const Place& place) {
  const bool shared = cut.rule == tensor::SplitRule::kGrouped && place.size > cut.groups;
  return shared ? place.coordinate / (place.size / cut.groups) : place.coordinate;
}

// The elements of a tensor that a rank holds, from the definition of pins and cuts.
Marks elements_of(const Collection& collection, const LogicalTensor& tensor, int rank) {
  const collection::Mesh& mesh = collection.meshes[static_cast<size_t>(tensor.mesh)];
  Marks marks(static_cast<size_t>(tensor.shape.elements()), false);
  for (const collection::Pin& pin : tensor.pins) {
    const auto at = static_cast<int>(place_on(mesh, rank, pin.axis).coordinate);
    if (std::count(pin.coordinates.begin(), pin.coordinates.end(), at) == 0) return marks;
  }
  std::vector<int64_t> left(marks.size());
  std::iota(left.begin(), left.end(), 0);
  for (const tensor::Cut& cut : tensor.layout.cuts) {
    const Place place = place_on(mesh, rank, cut.axis);
    const std::vector<int64_t> positions = positions_of(left, tensor.shape, cut.dim);
    const int64_t extent = positions.empty() ? 0 : *std::max_element(positions.begin(), positions.end()) + 1;
    const std::vector<int64_t> part = part_of_positions(cut, extent, place.size);
    std::vector<int64_t> mine;
    for (size_t i = 0; i < left.size(); ++i) {
      if (part[static_cast<size_t>(positions[i])] == part_at(cut, place)) mine.push_back(left[i]);
    }
    left = std::move(mine);
  }
  for (const int64_t element : left) marks[static_cast<size_t>(element)] = true;
  return marks;
}

// Row-major numbers of a box's elements.
std::vector<size_t> elements_of(const Box& box, const tensor::Shape& shape) {
  std::vector<size_t> elements = {0};
  for (int dim = 0; dim < shape.rank(); ++dim) {
    std::vector<size_t> longer;
    for (const size_t prefix : elements) {
      for (int64_t i = box.lo[static_cast<size_t>(dim)]; i < box.hi[static_cast<size_t>(dim)]; ++i) {
        longer.push_back(prefix * static_cast<size_t>(shape[dim]) + static_cast<size_t>(i));
      }
    }
    elements = std::move(longer);
  }
  return elements;
}

class ElementInterpreter {
 public:
  ElementInterpreter(const Plan& plan, const InterpreterInput& input)
      : plan_(plan), input_(input), facts_(plan, input, problems_) {}

  absl::Status run() {
    if (!problems_.none()) return problems_.status();
    const size_t tensors = plan_.tensors.size();
    const auto operations = internal::by_tensor(plan_.operations, tensors);
    const auto missing = internal::by_tensor(plan_.missing, tensors);
    const auto extra = internal::by_tensor(input_.residency.extra, tensors);
    for (size_t i = 0; i < tensors && !problems_.full(); ++i) {
      tensor_ = TensorId(static_cast<int64_t>(i));
      shape_ = plan_.tensors[i].shape;
      load_tensor(missing[i], extra[i]);
      std::vector<size_t> order = operations[i];
      std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
        const Operation& first = plan_.operations[a];
        const Operation& second = plan_.operations[b];
        return std::pair(first.round, first.hop) < std::pair(second.round, second.hop);
      });
      for (const size_t operation : order) move_elements(operation);
      check_result();
    }
    return problems_.status();
  }

 private:
  Marks none() const { return Marks(static_cast<size_t>(shape_.elements()), false); }

  void mark(Marks& marks, const Box& box) const {
    for (const size_t element : elements_of(box, shape_)) marks[element] = true;
  }

  static void unite(Marks& all, const Marks& more) {
    for (size_t i = 0; i < all.size(); ++i) all[i] = all[i] || more[i];
  }

  void load_tensor(const std::vector<size_t>& missing, const std::vector<size_t>& extra) {
    const auto devices = static_cast<size_t>(input_.cluster.device_count());
    held_ = marks_by_device(input_.from);
    for (size_t device = 0; device < devices; ++device) {
      if (input_.residency.lost.count(DeviceId(static_cast<int64_t>(device))) != 0) held_[device] = none();
    }
    needed_ = marks_by_device(input_.to);
    written_.assign(devices, none());
    step_.assign(devices, std::vector<std::pair<int32_t, int32_t>>(static_cast<size_t>(shape_.elements())));
    memory_.assign(input_.cluster.hosts.size(), none());
    for (const size_t i : extra) {
      mark(memory_[static_cast<size_t>(input_.residency.extra[i].host.value)], input_.residency.extra[i].box);
    }
    for (size_t device = 0; device < devices; ++device) {
      for (size_t host = 0; host < memory_.size(); ++host) {
        const bool staged = internal::staged_in(plan_, input_.cluster, DeviceId(static_cast<int64_t>(device)),
                                                HostId(static_cast<int64_t>(host)));
        if (staged) unite(memory_[host], held_[device]);
      }
    }
    missing_ = none();
    for (const size_t i : missing) mark(missing_, plan_.missing[i].box);
  }

  std::vector<Marks> marks_by_device(const Collection& collection) const {
    std::vector<Marks> marks(static_cast<size_t>(input_.cluster.device_count()), none());
    const LogicalTensor& tensor = collection.tensors[static_cast<size_t>(tensor_.value)];
    for (int rank = 0; rank < collection.ranks(); ++rank) {
      const DeviceId device = collection.device_of_rank[static_cast<size_t>(rank)];
      marks[static_cast<size_t>(device.value)] = elements_of(collection, tensor, rank);
    }
    return marks;
  }

  void move_elements(size_t index) {
    const Operation& operation = plan_.operations[index];
    const auto dst = static_cast<size_t>(operation.dst.value);
    for (const size_t element : elements_of(operation.box, shape_)) {
      const auto wrong = [&](std::string_view why) {
        problems_.add(fmt::format("{}: element {}: {}", facts_.name_of_operation(index), element, why));
      };
      if (!readable(operation, element)) return wrong("the source does not hold it");
      if (!needed_[dst][element]) return wrong("the new collection does not place it there");
      if (written_[dst][element]) return wrong("it is written twice");
      written_[dst][element] = true;
      step_[dst][element] = std::pair(operation.round, operation.hop);
    }
  }

  // Hop 0 reads the old epoch; later hops read what came to the source on an earlier one.
  bool readable(const Operation& operation, size_t element) const {
    const Location& src = operation.src;
    if (operation.hop > 0) {
      const auto at = static_cast<size_t>(src.index);
      return src.kind == Location::Kind::kDevice && written_[at][element] &&
             step_[at][element] < std::pair(operation.round, operation.hop);
    }
    switch (src.kind) {
      case Location::Kind::kDevice: return held_[static_cast<size_t>(src.index)][element];
      case Location::Kind::kHostMemory: return memory_[static_cast<size_t>(src.index)][element];
      case Location::Kind::kStorage: return input_.residency.storage;
    }
    return false;
  }

  // Every needed element is written or missing; missing is exactly what is needed and nowhere to be read.
  void check_result() {
    Marks anywhere = input_.residency.storage ? Marks(missing_.size(), true) : none();
    for (const Marks& marks : held_) unite(anywhere, marks);
    for (const Marks& marks : memory_) unite(anywhere, marks);
    Marks needed = none();
    for (const Marks& marks : needed_) unite(needed, marks);
    for (size_t element = 0; element < missing_.size(); ++element) {
      const auto wrong = [&](const std::string& why) {
        problems_.add(fmt::format("tensor \"{}\" element {}: {}",
                                  plan_.tensors[static_cast<size_t>(tensor_.value)].name, element, why));
      };
      if (missing_[element] != (needed[element] && !anywhere[element]))
        wrong("wrongly named, or not named, as missing");
      for (size_t device = 0; device < needed_.size(); ++device) {
        if (!needed_[device][element] || missing_[element] || written_[device][element]) continue;
        wrong(fmt::format("not present on g{}", device));
      }
    }
  }

  const Plan& plan_;
  const InterpreterInput& input_;
  Problems problems_;
  internal::PlanFacts facts_;
  TensorId tensor_;
  tensor::Shape shape_;
  std::vector<Marks> held_, needed_, written_;                  // by device
  std::vector<std::vector<std::pair<int32_t, int32_t>>> step_;  // by device: (round, hop) of each write
  std::vector<Marks> memory_;                                   // by host: what its memory may be read for
  Marks missing_;
};

}  // namespace

absl::Status interpret_elements(const Plan& plan, const InterpreterInput& input) {
  int64_t elements = 0;
  for (const LogicalTensor& tensor : input.to.tensors) elements += tensor.shape.elements();
  SCALAI_CHECK(elements <= int64_t{1} << 20, fmt::format("{} elements", elements));
  return ElementInterpreter(plan, input).run();
}

}  // namespace scalai::plan
