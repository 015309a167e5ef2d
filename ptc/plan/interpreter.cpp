#include "ptc/plan/interpreter.h"

#include <fmt/format.h>

#include <algorithm>
#include <compare>
#include <numeric>

#include "ptc/plan/internal/interpreter_device.h"
#include "ptc/plan/internal/interpreter_groups.h"
#include "ptc/plan/internal/interpreter_holders.h"
#include "ptc/plan/internal/interpreter_sample.h"
#include "ptc/plan/internal/plan_facts.h"

namespace scalai::plan {
namespace {

using internal::BoxList;
using internal::elements_in;
using internal::Holders;
using internal::Problems;
using tensor::Box;

void sort_unique(std::vector<Box>& boxes) {
  std::sort(boxes.begin(), boxes.end());
  boxes.erase(std::unique(boxes.begin(), boxes.end()), boxes.end());
}

class BoxInterpreter {
 public:
  BoxInterpreter(const Plan& plan, const InterpreterInput& input, const InterpreterOptions& options)
      : plan_(plan),
        input_(input),
        options_(options),
        facts_(plan, input, problems_),
        check_(plan, facts_, problems_),
        from_(input.from, input.residency.lost, input.cluster),
        to_(input.to, {}, input.cluster),
        before_(static_cast<size_t>(input.cluster.device_count()), 0),
        after_(before_) {}

  absl::Status run(InterpreterReport& report) {
    if (!problems_.none()) return problems_.status();
    instances_ = internal::instances_by_tensor(plan_);
    missing_of_ = internal::by_tensor(plan_.missing(), plan_.tensors().size());
    copies_of_ = internal::by_tensor(input_.residency.extra, plan_.tensors().size());
    for (const Instance& instance : plan_.instances()) {
      report.operations +=
          static_cast<int64_t>(plan_.tensors_of(instance).size() * plan_.patterns().legs(instance.pattern).size());
    }
    report.all = report.operations <= options_.most_operations;
    report.tensors = report.all ? check_each() : check_alike();
    if (!problems_.full()) check_memory();
    if (!report.all && !problems_.full()) {
      const std::vector<DeviceId> devices = internal::draw_devices(plan_, options_.devices, options_.seed);
      internal::check_devices(plan_, input_, facts_, devices, problems_);
      report.devices = static_cast<int64_t>(devices.size());
    }
    return problems_.status();
  }

 private:
  // What a device holds or needs of the tensor at hand, or what is done there.
  struct Event {
    enum class Kind : int32_t { kHeld, kNeeded, kArrives, kLeaves, kFreed };
    int32_t device = 0;
    Kind kind = Kind::kHeld;
    int32_t at = 0;   // a part, else an instance
    int32_t leg = 0;  // of the instance
    friend auto operator<=>(const Event&, const Event&) = default;
  };

  int64_t check_each() {
    for (size_t i = 0; i < plan_.tensors().size() && !problems_.full(); ++i) {
      load(TensorId(static_cast<int64_t>(i)));
      check_missing();
      check_tensor(TensorId(static_cast<int64_t>(i)), 1);
    }
    return static_cast<int64_t>(plan_.tensors().size());
  }

  int64_t check_alike() {
    const internal::Ways ways(plan_, instances_);
    int64_t checked = 0;
    for (const std::vector<TensorId>& group : internal::tensors_alike(plan_, input_)) {
      if (problems_.full()) break;
      load(group.front());
      check_missing();
      for (const internal::Travellers& travellers : ways.apart(group)) {
        check_tensor(travellers.first, travellers.count);
        ++checked;
      }
    }
    return checked;
  }

  // Where the tensor, and all that are alike, lies.
  void load(TensorId id) {
    tensor_ = id;
    held_ = from_.parts_of(id);
    needed_ = to_.parts_of(id);
    missing_.clear();
    copies_.clear();
    held_list_.clear();
    anywhere_.clear();
    for (const size_t i : missing_of_[static_cast<size_t>(id.value)]) missing_.add(plan_.missing()[i].box);
    for (const Holders::Part& part : held_) {
      held_list_.add(part.box);
      anywhere_.add(part.box);
    }
    for (const size_t i : copies_of_[static_cast<size_t>(id.value)]) {
      copies_.push_back(input_.residency.extra[i]);
      anywhere_.add(copies_.back().box);
    }
    for (BoxList* list : {&missing_, &held_list_, &anywhere_}) list->prepare();
  }

  void check_missing() {
    const auto wrong = [&](const Box& box, std::string_view why) {
      problems_.add(fmt::format("tensor {}: {}", facts_.name_of_box(tensor_, box), why));
    };
    std::vector<Box> needed;
    for (const Holders::Part& part : needed_) needed.push_back(part.box);
    sort_unique(needed);
    BoxList needed_list;
    for (const Box& box : needed) needed_list.add(box);
    needed_list.prepare();
    for (const Box& box : missing_.boxes()) {
      if (input_.residency.storage) wrong(box, "named as missing, but storage has it");
      if (anywhere_.uncovered(box) != elements_in(box)) wrong(box, "named as missing, but a survivor holds a part");
      if (needed_list.uncovered(box) != 0) wrong(box, "named as missing, but nobody needs it");
    }
    if (const auto twice = missing_.clash()) wrong(missing_.boxes()[twice->second], "named as missing twice");
    // What nobody holds of a derived tensor may still be cast from its master.
    if (input_.residency.storage || plan_.tensor(tensor_).derived_from.valid()) return;
    for (const Box& box : needed) {
      if (anywhere_.uncovered(box) != missing_.covered(box))
        wrong(box, "what no survivor holds of it is not what is named as missing");
    }
  }

  // One tensor like the one loaded, on all devices; it stands for `count` tensors.
  void check_tensor(TensorId id, int64_t count) {
    tensor_ = id;
    load_events(count);
    load_master();
    for (size_t begin = 0, end = 0; begin < events_.size() && !problems_.full(); begin = end) {
      while (end < events_.size() && events_[end].device == events_[begin].device) ++end;
      load_device({events_.data() + begin, end - begin});
      check_.check(one_, missing_);
    }
  }

  void load_events(int64_t count) {
    events_.clear();
    const auto add_parts = [&](const std::vector<Holders::Part>& parts, Holders& holders, Event::Kind kind,
                               int64_t element_bytes, std::vector<int64_t>& memory) {
      for (size_t i = 0; i < parts.size(); ++i) {
        for (const DeviceId device : holders.group(parts[i].group).devices) {
          events_.push_back({device.value, kind, static_cast<int32_t>(i), 0});
          memory[static_cast<size_t>(device.value)] += elements_in(parts[i].box) * element_bytes * count;
        }
      }
    };
    add_parts(held_, from_, Event::Kind::kHeld, facts_.old_bytes(tensor_), before_);
    add_parts(needed_, to_, Event::Kind::kNeeded, facts_.new_bytes(tensor_), after_);
    for (const int32_t i : instances_[static_cast<size_t>(tensor_.value)]) {
      const int32_t pattern = plan_.instances()[static_cast<size_t>(i)].pattern;
      int32_t number = 0;
      for (const Leg& leg : plan_.patterns().legs(pattern)) {
        events_.push_back({leg.dst.value, Event::Kind::kArrives, i, number});
        if (internal::is_read(leg)) events_.push_back({leg.src.index, Event::Kind::kLeaves, i, number});
        if (leg.src.kind != Location::Kind::kDevice) check_store(i, leg);
        ++number;
      }
      for (const DeviceId device : plan_.patterns().frees(pattern))
        events_.push_back({device.value, Event::Kind::kFreed, i, 0});
    }
    std::sort(events_.begin(), events_.end());
  }

  // A source in host memory or storage.
  void check_store(int32_t instance, const Leg& leg) {
    const Box& box = plan_.instances()[static_cast<size_t>(instance)].box;
    const bool holds =
        leg.src.kind == Location::Kind::kStorage ? input_.residency.storage : in_memory(HostId(leg.src.index), box);
    if (holds) return;
    problems_.add(fmt::format("{}: the source does not hold it in the old epoch",
                              facts_.name_of_leg(static_cast<size_t>(instance), tensor_, leg)));
  }

  bool in_memory(HostId host, const Box& box) const {
    std::vector<Box> there;
    held_list_.overlaps(box, [&](size_t i, const Box& common) {
      if (internal::staged_in(plan_, from_.group(held_[i].group).hosts, host)) there.push_back(common);
    });
    for (const collection::ExtraHolder& copy : copies_) {
      const auto common = copy.host == host ? internal::common_part(copy.box, box) : std::nullopt;
      if (common) there.push_back(*common);
    }
    return internal::uncovered(box, there) == 0;
  }

  // What arrives of the master of the tensor at hand, if anything is derived from it.
  void load_master() {
    master_events_.clear();
    const bool derives = std::any_of(events_.begin(), events_.end(), [&](const Event& event) {
      return event.kind == Event::Kind::kArrives && use_of(event).leg->transfer_class == TransferClass::kDerived;
    });
    if (!derives) return;
    const TensorId master = plan_.tensor(tensor_).derived_from;
    for (const int32_t i : instances_[static_cast<size_t>(master.value)]) {
      int32_t number = 0;
      for (const Leg& leg : plan_.patterns().legs(plan_.instances()[static_cast<size_t>(i)].pattern))
        master_events_.push_back({leg.dst.value, Event::Kind::kArrives, i, number++});
    }
    std::sort(master_events_.begin(), master_events_.end());
  }

  void load_device(std::span<const Event> events) {
    one_.clear();
    one_.tensor = tensor_;
    one_.device = DeviceId(events.front().device);
    for (const Event& event : events) {
      switch (event.kind) {
        case Event::Kind::kHeld: one_.held.add(held_[static_cast<size_t>(event.at)].box); break;
        case Event::Kind::kNeeded: one_.needed.add(needed_[static_cast<size_t>(event.at)].box); break;
        case Event::Kind::kArrives: one_.arrivals.push_back(use_of(event)); break;
        case Event::Kind::kLeaves: one_.reads.push_back(use_of(event)); break;
        case Event::Kind::kFreed: one_.frees.push_back(event.at); break;
      }
    }
    one_.held.prepare();
    one_.needed.prepare();
    auto master = std::lower_bound(master_events_.begin(), master_events_.end(), Event{events.front().device});
    for (; master != master_events_.end() && master->device == events.front().device; ++master)
      one_.master_arrivals.push_back(use_of(*master));
  }

  internal::Use use_of(const Event& event) const {
    const int32_t pattern = plan_.instances()[static_cast<size_t>(event.at)].pattern;
    return {event.at, &plan_.patterns().legs(pattern)[static_cast<size_t>(event.leg)]};
  }

  // All devices side by side through the rounds: what a round brings comes before what it frees.
  void check_memory() {
    std::vector<int64_t> held = before_;
    std::vector<int64_t> most(held.size());
    for (size_t i = 0; i < held.size(); ++i) most[i] = std::max(before_[i], after_[i]);
    const std::vector<int64_t> larger = most;
    std::vector<size_t> order(plan_.instances().size());
    std::iota(order.begin(), order.end(), size_t{0});
    const auto round_of = [&](size_t i) { return plan_.instances()[i].round; };
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return round_of(a) < round_of(b); });
    for (size_t begin = 0, end = 0; begin < order.size(); begin = end) {
      while (end < order.size() && round_of(order[end]) == round_of(order[begin])) ++end;
      for (size_t i = begin; i < end; ++i) bring(plan_.instances()[order[i]], held, most);
      for (size_t i = begin; i < end; ++i) free(plan_.instances()[order[i]], held);
    }
    for (const DeviceMemory& memory : plan_.memory()) {
      const auto at = static_cast<size_t>(memory.device.value);
      facts_.check_memory(memory.device, before_[at], after_[at], most[at] - larger[at]);
    }
  }

  void bring(const Instance& instance, std::vector<int64_t>& held, std::vector<int64_t>& most) const {
    int64_t bytes = 0;
    for (const TensorId id : plan_.tensors_of(instance)) bytes += facts_.new_bytes(id) * elements_in(instance.box);
    for (const Leg& leg : plan_.patterns().legs(instance.pattern)) {
      if (leg.transfer_class == TransferClass::kKept) continue;
      const auto at = static_cast<size_t>(leg.dst.value);
      held[at] += bytes;
      most[at] = std::max(most[at], held[at]);
    }
  }

  void free(const Instance& instance, std::vector<int64_t>& held) const {
    int64_t bytes = 0;
    for (const TensorId id : plan_.tensors_of(instance)) bytes += facts_.old_bytes(id) * elements_in(instance.box);
    for (const DeviceId device : plan_.patterns().frees(instance.pattern))
      held[static_cast<size_t>(device.value)] -= bytes;
  }

  const Plan& plan_;
  const InterpreterInput& input_;
  const InterpreterOptions& options_;
  Problems problems_;
  const internal::PlanFacts facts_;
  internal::DeviceCheck check_;
  Holders from_, to_;
  std::vector<int64_t> before_, after_;                      // bytes by device
  std::vector<std::vector<int32_t>> instances_;              // by tensor
  std::vector<std::vector<size_t>> missing_of_, copies_of_;  // by tensor
  TensorId tensor_;
  std::vector<Holders::Part> held_, needed_;
  BoxList missing_, held_list_, anywhere_;  // held_list_: as held_
  std::vector<collection::ExtraHolder> copies_;
  std::vector<Event> events_, master_events_;  // sorted
  internal::DeviceCase one_;
};

}  // namespace

absl::Status interpret(const Plan& plan, const InterpreterInput& input, const InterpreterOptions& options,
                       InterpreterReport* report) {
  InterpreterReport seen;
  const absl::Status status = BoxInterpreter(plan, input, options).run(seen);
  if (report != nullptr) *report = seen;
  return status;
}

}  // namespace scalai::plan
