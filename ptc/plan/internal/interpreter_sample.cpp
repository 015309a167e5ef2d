#include "ptc/plan/internal/interpreter_sample.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "ptc/base/random.h"

namespace scalai::plan::internal {
namespace {

using collection::Collection;
using tensor::Box;

class SampleInterpreter {
 public:
  SampleInterpreter(const Plan& plan, const InterpreterInput& input, const PlanFacts& facts,
                    const std::vector<DeviceId>& devices, Problems& problems)
      : plan_(plan),
        input_(input),
        facts_(facts),
        problems_(problems),
        check_(plan, facts, problems),
        old_rank_(ranks_of(input.from)),
        new_rank_(ranks_of(input.to)),
        roles_(static_cast<size_t>(input.cluster.device_count())),
        instances_(static_cast<size_t>(plan.patterns().size())) {
    for (const DeviceId lost : input.residency.lost) {
      if (lost.valid() && static_cast<size_t>(lost.value) < old_rank_.size())
        old_rank_[static_cast<size_t>(lost.value)] = -1;
    }
    for (const Missing& missing : plan.missing()) {
      missing_.resize(plan.tensors().size());
      missing_[static_cast<size_t>(missing.tensor.value)].add(missing.box);
    }
    for (BoxList& list : missing_) list.prepare();
    find_roles(devices);
    for (size_t i = 0; i < plan.instances().size(); ++i)
      instances_[static_cast<size_t>(plan.instances()[i].pattern)].push_back(static_cast<int32_t>(i));
  }

  void check(DeviceId device) {
    touches_ = touches_of(device);
    MemoryLedger ledger;
    int64_t before = 0;
    int64_t after = 0;
    one_.device = device;
    for (size_t i = 0; i < plan_.tensors().size() && !problems_.full(); ++i) {
      load(TensorId(static_cast<int64_t>(i)));
      check_.check(one_, missing_.empty() ? none_ : missing_[i]);
      check_sources();
      before += volume(one_.held) * facts_.old_bytes(one_.tensor);
      after += volume(one_.needed) * facts_.new_bytes(one_.tensor);
      note_memory(ledger);
    }
    if (!problems_.full()) facts_.check_memory(device, before, after, ledger.peak_extra(before, after));
  }

 private:
  enum class Kind : uint8_t { kArrives, kLeaves, kFreed };
  struct Role {  // of a device in a pattern
    int32_t pattern = 0;
    Kind kind = Kind::kArrives;
    const Leg* leg = nullptr;
  };
  struct Touch {  // an instance, with one of its tensors, in which a device has a role
    TensorId tensor;
    int32_t instance = 0;
    Kind kind = Kind::kArrives;
    const Leg* leg = nullptr;
  };

  std::vector<int32_t> ranks_of(const Collection& collection) const {
    std::vector<int32_t> ranks(static_cast<size_t>(input_.cluster.device_count()), -1);
    for (int rank = 0; rank < collection.ranks(); ++rank)
      ranks[static_cast<size_t>(collection.device_of_rank[static_cast<size_t>(rank)].value)] = rank;
    return ranks;
  }

  void find_roles(const std::vector<DeviceId>& devices) {
    std::vector<bool> drawn(roles_.size(), false);
    for (const DeviceId device : devices) drawn[static_cast<size_t>(device.value)] = true;
    const auto note = [&](int32_t device, const Role& role) {
      if (drawn[static_cast<size_t>(device)]) roles_[static_cast<size_t>(device)].push_back(role);
    };
    for (int32_t pattern = 0; pattern < plan_.patterns().size(); ++pattern) {
      for (const Leg& leg : plan_.patterns().legs(pattern)) {
        note(leg.dst.value, {pattern, Kind::kArrives, &leg});
        if (is_read(leg)) note(leg.src.index, {pattern, Kind::kLeaves, &leg});
      }
      for (const DeviceId device : plan_.patterns().frees(pattern))
        note(device.value, {pattern, Kind::kFreed, nullptr});
    }
  }

  std::vector<Touch> touches_of(DeviceId device) const {
    std::vector<Touch> touches;
    for (const Role& role : roles_[static_cast<size_t>(device.value)]) {
      for (const int32_t i : instances_[static_cast<size_t>(role.pattern)]) {
        for (const TensorId id : plan_.tensors_of(plan_.instances()[static_cast<size_t>(i)]))
          touches.push_back({id, i, role.kind, role.leg});
      }
    }
    std::stable_sort(touches.begin(), touches.end(), [](const Touch& a, const Touch& b) {
      return std::tie(a.tensor, a.instance) < std::tie(b.tensor, b.instance);
    });
    return touches;
  }

  template <class Visit>
  void for_each_touch(TensorId tensor, Visit visit) const {
    auto touch = std::lower_bound(touches_.begin(), touches_.end(), tensor,
                                  [](const Touch& one, TensorId id) { return one.tensor < id; });
    for (; touch != touches_.end() && touch->tensor == tensor; ++touch) visit(*touch);
  }

  void load(TensorId tensor) {
    one_.clear();
    one_.tensor = tensor;
    const auto device = static_cast<size_t>(one_.device.value);
    add_pieces(input_.from, old_rank_[device], one_.held);
    add_pieces(input_.to, new_rank_[device], one_.needed);
    for_each_touch(tensor, [&](const Touch& touch) {
      switch (touch.kind) {
        case Kind::kArrives: one_.arrivals.push_back({touch.instance, touch.leg}); break;
        case Kind::kLeaves: one_.reads.push_back({touch.instance, touch.leg}); break;
        case Kind::kFreed: one_.frees.push_back(touch.instance); break;
      }
    });
    for_each_touch(plan_.tensor(tensor).derived_from, [&](const Touch& touch) {
      if (touch.kind == Kind::kArrives) one_.master_arrivals.push_back({touch.instance, touch.leg});
    });
  }

  void add_pieces(const Collection& collection, int32_t rank, BoxList& boxes) const {
    if (rank >= 0) {
      for (const tensor::Piece& piece : collection.pieces(one_.tensor, LogicalRank(rank)).pieces) boxes.add(piece.box);
    }
    boxes.prepare();
  }

  void check_sources() {
    for (const Use& use : one_.arrivals) {
      const Location& src = use.leg->src;
      if (!is_read(*use.leg) || use.leg->hop > 0 || src.index == one_.device.value) continue;
      BoxList held;
      add_pieces(input_.from, old_rank_[static_cast<size_t>(src.index)], held);
      const auto instance = static_cast<size_t>(use.instance);
      const Box& box = plan_.instances()[instance].box;
      if (held.covered(box) == elements_in(box)) continue;
      problems_.add(fmt::format("{}: the source does not hold it in the old epoch",
                                facts_.name_of_leg(instance, one_.tensor, *use.leg)));
    }
  }

  void note_memory(MemoryLedger& ledger) const {
    for (const Use& use : one_.arrivals) {
      const Instance& instance = plan_.instances()[static_cast<size_t>(use.instance)];
      if (use.leg->transfer_class != TransferClass::kKept)
        ledger.brings(instance.round, elements_in(instance.box) * facts_.new_bytes(one_.tensor));
    }
    for (const int32_t i : one_.frees) {
      const Instance& instance = plan_.instances()[static_cast<size_t>(i)];
      ledger.frees(instance.round, elements_in(instance.box) * facts_.old_bytes(one_.tensor));
    }
  }

  static int64_t volume(const BoxList& list) {
    int64_t elements = 0;
    for (const Box& box : list.boxes()) elements += elements_in(box);
    return elements;
  }

  const Plan& plan_;
  const InterpreterInput& input_;
  const PlanFacts& facts_;
  Problems& problems_;
  DeviceCheck check_;
  std::vector<int32_t> old_rank_, new_rank_;     // by device; −1 = none, or lost
  std::vector<std::vector<Role>> roles_;         // by device, of those drawn
  std::vector<std::vector<int32_t>> instances_;  // by pattern
  std::vector<BoxList> missing_;                 // by tensor; empty when nothing is missing
  const BoxList none_;
  DeviceCase one_;
  std::vector<Touch> touches_;  // of the device at hand, by tensor
};

}  // namespace

std::vector<DeviceId> draw_devices(const Plan& plan, int count, uint64_t seed) {
  std::vector<DeviceId> devices;
  for (const DeviceMemory& memory : plan.memory()) devices.push_back(memory.device);
  const size_t drawn = std::min(devices.size(), static_cast<size_t>(std::max(0, count)));
  Random random(seed);
  for (size_t i = 0; i < drawn; ++i)
    std::swap(devices[i], devices[i + static_cast<size_t>(random.below(static_cast<int64_t>(devices.size() - i)))]);
  devices.resize(drawn);
  std::sort(devices.begin(), devices.end());
  return devices;
}

void check_devices(const Plan& plan, const InterpreterInput& input, const PlanFacts& facts,
                   const std::vector<DeviceId>& devices, Problems& problems) {
  SampleInterpreter interpreter(plan, input, facts, devices, problems);
  for (const DeviceId device : devices) {
    if (!problems.full()) interpreter.check(device);
  }
}

}  // namespace scalai::plan::internal
