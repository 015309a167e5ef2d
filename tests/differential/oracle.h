#pragma once
// The oracle, last part: runs a plan on labels. Every element comes once, from where it is by then, at no more bytes
// than sum |needed \ held|; what does not come is named missing and is nowhere. What nobody holds is read from storage
// once and passed on, or by every device that wants it.

#include <fmt/format.h>

#include <limits>

#include "absl/container/flat_hash_set.h"
#include "tests/differential/memory_walk.h"

namespace scalai::differential {

// What is wrong with the plan; "" = nothing.
inline std::string judge(const plan::Plan& plan, const plan::PlannerInput& in) {
  using plan::Location, plan::TransferClass;
  constexpr int kNever = std::numeric_limits<int>::max();
  const auto old_size = [&](int t) { return tensor::size_of(in.from.tensors[t].dtype); };
  const auto new_size = [&](int t) { return tensor::size_of(in.to.tensors[t].dtype); };
  const auto wire = [&](int t) { return std::min(old_size(t), new_size(t)); };
  const Labels held = old_epoch(in);
  Labels came;
  for (const Label& own : labels_of(in.to)) came[own] = kNever;
  absl::flat_hash_set<std::pair<int, int>> anyone, lacking, missing, read;  // tensor, element
  const bool once = in.options.in_place && in.options.relay && in.options.sources == plan::SourceRule::kNearest;
  for (const auto& [at, time] : held) anyone.insert({at[0], at[1]});
  const auto travels = [&](const Label& at) { return anyone.contains({at[0], at[1]}) && !held.contains(at); };
  std::array<int64_t, plan::kTransferClasses> bytes{};
  int64_t to_move = 0;
  for (const plan::Operation& op : in_order(plan)) {
    const int t = op.tensor.value, time = 1 + op.round * 256 + op.hop;
    const bool derived = op.transfer_class == TransferClass::kDerived, storage = op.src == Location::storage();
    const bool kept = op.transfer_class == TransferClass::kKept;
    const std::vector<int> elements = elements_of(op.box, in.to.tensors[t].shape);
    const int64_t size = storage ? old_size(t) : op.transfer_class > TransferClass::kDerived ? wire(t) : new_size(t);
    bool right = op.bytes == std::ssize(elements) * size && op.bytes > 0 && op.round >= 0 && op.round < plan.rounds() &&
                 op.transfer_class == class_of(in, op) &&
                 (!kept || (time == 1 && in.from.tensors[t].dtype == in.to.tensors[t].dtype));
    const Labels& source = derived || op.hop > 0 ? came : held;
    for (const int e : elements) {
      const auto from = source.find(label(derived ? plan.tensors()[t].derived_from.value : t, e, op.src));
      const auto to = came.find(label(t, e, Location::device(op.dst)));
      right = right && (storage ? in.residency.storage : from != source.end() && from->second < time) &&
              to != came.end() && to->second == kNever;
      if (!right) break;
      to->second = time;
      if (derived && travels(to->first)) to_move -= wire(t);
      const bool unheld = !anyone.contains({t, e});
      if (storage && !read.insert({t, e}).second && once) return "an element is read twice";
      if (unheld && !storage && !derived) to_move += once ? wire(t) : 0;
    }
    bytes[static_cast<size_t>(op.transfer_class)] += op.bytes;
    if (!right)
      return fmt::format("round {} hop {}: {} of tensor {} {} {} -> g{}", op.round, op.hop, name_of(op.transfer_class),
                         t, op.box.str(), op.src.str(), op.dst.value);
  }
  for (const auto& [at, time] : came) {
    if (time == kNever) lacking.insert({at[0], at[1]});
    if (time != kNever && travels(at)) to_move += wire(at[0]);
  }
  for (const auto& [id, box] : plan.missing())
    for (const int e : elements_of(box, in.to.tensors[id.value].shape))
      if (!missing.insert({id.value, e}).second || anyone.contains({id.value, e})) return "wrongly missing";
  if (missing != lacking || (in.residency.storage && !missing.empty()))
    return "what never comes is not what is missing";
  const plan::ClassBytes& b = plan.bytes();
  if (bytes != std::array{b.kept, b.same_device, b.derived, b.same_host, b.cross_host, b.from_storage})
    return "the bytes by class are not those of the operations";
  if (b.same_host + b.cross_host != to_move)
    return fmt::format("{} bytes move, {} are needed and not held", b.same_host + b.cross_host, to_move);
  return memory_is_true(plan, in, held) ? "" : "what devices give back or hold is not as told";
}

}  // namespace scalai::differential
