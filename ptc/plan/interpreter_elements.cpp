#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

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

// A leg of an instance, or (no leg) one of its frees.
struct Step {
  size_t instance = 0;
  const Leg* leg = nullptr;
  DeviceId freed;
};

class ElementInterpreter {
 public:
  ElementInterpreter(const Plan& plan, const InterpreterInput& input)
      : plan_(plan),
        input_(input),
        facts_(plan, input, problems_),
        ledgers_(static_cast<size_t>(input.cluster.device_count())),
        before_(ledgers_.size(), 0),
        after_(ledgers_.size(), 0) {}

  absl::Status run() {
    if (!problems_.none()) return problems_.status();
    const size_t tensors = plan_.tensors().size();
    const auto instances = internal::instances_by_tensor(plan_);
    const auto missing = internal::by_tensor(plan_.missing(), tensors);
    const auto extra = internal::by_tensor(input_.residency.extra, tensors);
    for (const TensorId id : masters_first()) {
      if (problems_.full()) break;
      const auto i = static_cast<size_t>(id.value);
      tensor_ = id;
      shape_ = plan_.tensors()[i].shape;
      load_tensor(missing[i], extra[i]);
      check_missing();
      for (const Step& step : steps_of(instances[i])) step.leg != nullptr ? move_elements(step) : free_elements(step);
      check_result();
    }
    for (const DeviceMemory& memory : plan_.memory()) {
      const auto at = static_cast<size_t>(memory.device.value);
      facts_.check_memory(memory.device, before_[at], after_[at], ledgers_[at].peak_extra(before_[at], after_[at]));
    }
    return problems_.status();
  }

 private:
  using Time = std::pair<int32_t, int32_t>;  // round and hop
  // By device, of one tensor: which elements are written, and when.
  struct Written {
    std::vector<Marks> marks;
    std::vector<std::vector<Time>> times;
  };

  std::vector<TensorId> masters_first() {
    std::vector<TensorId> order;
    for (const TensorInfo& tensor : plan_.tensors()) {
      if (tensor.derived_from.valid()) masters_[tensor.derived_from];
    }
    for (const bool master : {true, false}) {
      for (size_t i = 0; i < plan_.tensors().size(); ++i) {
        const TensorId id(static_cast<int64_t>(i));
        if ((masters_.count(id) != 0) == master) order.push_back(id);
      }
    }
    return order;
  }

  // In time; what a round frees goes at its end.
  std::vector<Step> steps_of(const std::vector<int32_t>& instances) const {
    std::vector<Step> steps;
    for (const int32_t instance : instances) {
      const auto at = static_cast<size_t>(instance);
      const int32_t pattern = plan_.instances()[at].pattern;
      for (const Leg& leg : plan_.patterns().legs(pattern)) steps.push_back({at, &leg, DeviceId()});
      for (const DeviceId device : plan_.patterns().frees(pattern)) steps.push_back({at, nullptr, device});
    }
    const auto key = [&](const Step& step) {
      return std::tuple(plan_.instances()[step.instance].round, step.leg == nullptr,
                        step.leg == nullptr ? 0 : step.leg->hop);
    };
    std::stable_sort(steps.begin(), steps.end(), [&](const Step& a, const Step& b) { return key(a) < key(b); });
    return steps;
  }

  const Box& box_of(const Step& step) const { return plan_.instances()[step.instance].box; }
  Time time_of(const Step& step) const { return {plan_.instances()[step.instance].round, step.leg->hop}; }

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
    kept_.assign(devices, none());
    written_.marks.assign(devices, none());
    written_.times.assign(devices, std::vector<Time>(static_cast<size_t>(shape_.elements())));
    memory_.assign(input_.cluster.hosts.size(), none());
    for (const size_t i : extra) {
      mark(memory_[static_cast<size_t>(input_.residency.extra[i].host.value)], input_.residency.extra[i].box);
    }
    for (size_t device = 0; device < devices; ++device) {
      const HostId own = input_.cluster.host_of(DeviceId(static_cast<int64_t>(device)));
      for (size_t host = 0; host < memory_.size(); ++host) {
        if (internal::staged_in(plan_, {&own, 1}, HostId(static_cast<int64_t>(host))))
          unite(memory_[host], held_[device]);
      }
      before_[device] += std::count(held_[device].begin(), held_[device].end(), true) * facts_.old_bytes(tensor_);
      after_[device] += std::count(needed_[device].begin(), needed_[device].end(), true) * facts_.new_bytes(tensor_);
    }
    missing_ = none();
    for (const size_t i : missing) mark(missing_, plan_.missing()[i].box);
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

  void move_elements(const Step& step) {
    const auto dst = static_cast<size_t>(step.leg->dst.value);
    const bool keeps = step.leg->transfer_class == TransferClass::kKept;
    for (const size_t element : elements_of(box_of(step), shape_)) {
      const auto wrong = [&](std::string_view why) {
        problems_.add(
            fmt::format("{}: element {}: {}", facts_.name_of_leg(step.instance, tensor_, *step.leg), element, why));
      };
      if (!readable(step, element)) return wrong("the source does not hold it");
      if (!needed_[dst][element]) return wrong("the new collection does not place it there");
      if (written_.marks[dst][element]) return wrong("it is written twice");
      written_.marks[dst][element] = true;
      written_.times[dst][element] = time_of(step);
      kept_[dst][element] = keeps;
    }
    const int64_t bytes = static_cast<int64_t>(elements_of(box_of(step), shape_).size()) * facts_.new_bytes(tensor_);
    if (!keeps) ledgers_[dst].brings(time_of(step).first, bytes);
  }

  // Hop 0 reads the old epoch; later hops read what came to the source before, derived ones what came of the master.
  bool readable(const Step& step, size_t element) const {
    const Location& src = step.leg->src;
    const auto at = static_cast<size_t>(src.index);
    if (step.leg->transfer_class == TransferClass::kDerived)
      return came_before(masters_.at(plan_.tensor(tensor_).derived_from), at, element, time_of(step));
    if (step.leg->hop > 0)
      return src.kind == Location::Kind::kDevice && came_before(written_, at, element, time_of(step));
    switch (src.kind) {
      case Location::Kind::kDevice: return held_[at][element];
      case Location::Kind::kHostMemory: return memory_[at][element];
      case Location::Kind::kStorage: return input_.residency.storage;
    }
    return false;
  }

  static bool came_before(const Written& written, size_t device, size_t element, Time time) {
    return written.marks[device][element] && written.times[device][element] < time;
  }

  // From here on nothing reads it there.
  void free_elements(const Step& step) {
    const auto device = static_cast<size_t>(step.freed.value);
    for (const size_t element : elements_of(box_of(step), shape_)) {
      const auto wrong = [&](std::string_view why) {
        problems_.add(
            fmt::format("{}: element {}: {}", facts_.name_of_free(step.instance, tensor_, step.freed), element, why));
      };
      if (!held_[device][element]) return wrong("the device does not hold it, or not any more");
      if (kept_[device][element]) return wrong("the device keeps it");
      held_[device][element] = false;
    }
    const int64_t bytes = static_cast<int64_t>(elements_of(box_of(step), shape_).size()) * facts_.old_bytes(tensor_);
    ledgers_[device].frees(plan_.instances()[step.instance].round, bytes);
  }

  void wrong_element(size_t element, const std::string& why) {
    problems_.add(fmt::format("tensor \"{}\" element {}: {}", plan_.tensor(tensor_).name, element, why));
  }

  // Missing is exactly what is needed and nowhere to be read; of a derived tensor less, where its master makes it.
  void check_missing() {
    const bool derived = plan_.tensor(tensor_).derived_from.valid();
    Marks anywhere = input_.residency.storage ? Marks(missing_.size(), true) : none();
    for (const Marks& marks : held_) unite(anywhere, marks);
    for (const Marks& marks : memory_) unite(anywhere, marks);
    Marks needed = none();
    for (const Marks& marks : needed_) unite(needed, marks);
    for (size_t element = 0; element < missing_.size(); ++element) {
      const bool nowhere = needed[element] && !anywhere[element];
      if (missing_[element] ? !nowhere : nowhere && !derived)
        wrong_element(element, "wrongly named, or not named, as missing");
    }
  }

  // Every needed element is written or missing; under a memory cap nothing of the old epoch is left but what is kept.
  void check_result() {
    for (size_t device = 0; device < needed_.size(); ++device) {
      for (size_t element = 0; element < missing_.size(); ++element) {
        if (needed_[device][element] && !missing_[element] && !written_.marks[device][element])
          wrong_element(element, fmt::format("not present on g{}", device));
        if (plan_.memory_cap() >= 0 && held_[device][element] && !kept_[device][element])
          wrong_element(element, fmt::format("never given back by g{}", device));
      }
    }
    const auto master = masters_.find(tensor_);
    if (master != masters_.end()) master->second = std::move(written_);
  }

  const Plan& plan_;
  const InterpreterInput& input_;
  Problems problems_;
  const internal::PlanFacts facts_;
  std::vector<internal::MemoryLedger> ledgers_;  // by device
  std::vector<int64_t> before_, after_;          // bytes by device
  std::map<TensorId, Written> masters_;          // of tensors that others are derived from
  TensorId tensor_;
  tensor::Shape shape_;
  std::vector<Marks> held_, needed_, kept_;  // by device; held_ of what is not given back
  Written written_;
  std::vector<Marks> memory_;  // by host: what its memory may be read for
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
