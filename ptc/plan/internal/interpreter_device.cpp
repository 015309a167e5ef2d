#include "ptc/plan/internal/interpreter_device.h"

#include <fmt/format.h>

namespace scalai::plan::internal {

using tensor::Box;

void DeviceCase::clear() {
  held.clear();
  needed.clear();
  arrivals.clear();
  reads.clear();
  frees.clear();
  master_arrivals.clear();
}

bool is_read(const Leg& leg) {
  return leg.src.kind == Location::Kind::kDevice && leg.transfer_class != TransferClass::kKept &&
         leg.transfer_class != TransferClass::kDerived;
}

void DeviceCheck::check(const DeviceCase& one, const BoxList& missing) {
  case_ = &one;
  arrived_.clear();
  kept_.clear();
  freed_.clear();
  for (const Use& use : one.arrivals) {
    arrived_.add(box_of(use.instance));
    if (use.leg->transfer_class == TransferClass::kKept) kept_.add(box_of(use.instance));
  }
  for (const int32_t instance : one.frees) freed_.add(box_of(instance));
  arrived_.prepare();
  kept_.prepare();
  freed_.prepare();
  check_arrivals(missing);
  check_derived();
  check_reads();
  check_frees();
}

bool DeviceCheck::before(const Use& a, const Use& b) const {
  return std::pair(round_of(a.instance), a.leg->hop) < std::pair(round_of(b.instance), b.leg->hop);
}

void DeviceCheck::wrong(const Use& use, std::string_view why) const {
  const auto instance = static_cast<size_t>(use.instance);
  problems_.add(fmt::format("{}: {}", facts_.name_of_leg(instance, case_->tensor, *use.leg), why));
}

void DeviceCheck::check_arrivals(const BoxList& missing) {
  for (const Use& use : case_->arrivals) {
    const Box& box = box_of(use.instance);
    if (case_->needed.covered(box) != elements_in(box)) wrong(use, "the new collection does not place it there");
    const bool same = case_->needed.has(box) && case_->held.has(box);
    if (use.leg->transfer_class == TransferClass::kKept && !same)
      wrong(use, "kept, but not the same box before and after");
  }
  if (const auto twice = arrived_.clash()) {
    problems_.add(fmt::format("tensor {} and {} are both written on g{}",
                              facts_.name_of_box(case_->tensor, arrived_.boxes()[twice->first]),
                              arrived_.boxes()[twice->second].str(), case_->device.value));
  }
  check_complete(missing);
}

// What arrives lies inside the needed boxes, so that counting proves it as soon as nothing is written twice.
void DeviceCheck::check_complete(const BoxList& missing) {
  for (const Box& box : case_->needed.boxes()) {
    if (arrived_.covered(box) + missing.covered(box) == elements_in(box)) continue;
    problems_.add(
        fmt::format("tensor {} is not complete on g{}", facts_.name_of_box(case_->tensor, box), case_->device.value));
  }
}

void DeviceCheck::check_derived() {
  master_.clear();
  for (const Use& use : case_->master_arrivals) master_.add(box_of(use.instance));
  master_.prepare();
  for (const Use& use : case_->arrivals) {
    if (use.leg->transfer_class == TransferClass::kDerived && !came_before(use, master_, case_->master_arrivals))
      wrong(use, "the device does not have its master by then");
  }
}

void DeviceCheck::check_reads() {
  for (const Use& use : case_->reads) {
    const Box& box = box_of(use.instance);
    if (use.leg->hop > 0) {
      if (!came_before(use, arrived_, case_->arrivals)) wrong(use, "the source has not received it on an earlier hop");
      continue;
    }
    if (case_->held.covered(box) != elements_in(box)) wrong(use, "the source does not hold it in the old epoch");
    bool gone = false;
    freed_.overlaps(box,
                    [&](size_t i, const Box&) { gone = gone || round_of(case_->frees[i]) < round_of(use.instance); });
    if (gone) wrong(use, "the source has given it back in an earlier round");
  }
}

// Whether legs of an earlier (round, hop) have brought the whole box.
bool DeviceCheck::came_before(const Use& use, const BoxList& arrived, const std::vector<Use>& arrivals) const {
  const Box& box = box_of(use.instance);
  int64_t elements = 0;
  arrived.overlaps(box, [&](size_t i, const Box& common) {
    if (before(arrivals[i], use)) elements += elements_in(common);
  });
  return elements == elements_in(box);
}

void DeviceCheck::check_frees() {
  const auto wrong_free = [&](int32_t instance, std::string_view why) {
    const auto at = static_cast<size_t>(instance);
    problems_.add(fmt::format("{}: {}", facts_.name_of_free(at, case_->tensor, case_->device), why));
  };
  for (const int32_t instance : case_->frees) {
    const Box& box = box_of(instance);
    if (case_->held.covered(box) != elements_in(box)) wrong_free(instance, "the device does not hold it");
    if (kept_.covered(box) != 0) wrong_free(instance, "the device keeps it");
  }
  if (const auto twice = freed_.clash()) wrong_free(case_->frees[twice->second], "a part of it is freed twice");
  if (plan_.memory_cap() < 0) return;
  for (const Box& box : case_->held.boxes()) {
    if (kept_.covered(box) + freed_.covered(box) == elements_in(box)) continue;
    problems_.add(fmt::format("tensor {} is neither kept nor given back by g{}", facts_.name_of_box(case_->tensor, box),
                              case_->device.value));
  }
}

}  // namespace scalai::plan::internal
