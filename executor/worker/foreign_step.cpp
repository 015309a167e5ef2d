#include "executor/worker/foreign_step.h"

#include <fmt/format.h>

#include <algorithm>

#include "executor/state/copy.h"
#include "ptc/base/status.h"
#include "ptc/proto/control.pb.h"

namespace scalai::executor::worker {

using tensor::Box;

absl::StatusOr<ForeignStep> ForeignStep::make(const proto::Foreign& message,
                                              const std::vector<plan::TensorInfo>& planned) {
  const size_t tensors = planned.size();
  ForeignStep step;
  step.hosts_ = message.hosts();
  SCALAI_ASSIGN_OR_RETURN(const state::StateVersion version, state::StateVersion::from_wire(message.version()));
  step.key_ = {message.job(), version};
  if (static_cast<size_t>(message.tensors_size()) != tensors)
    return invalid(fmt::format("a step with numbers of {} tensors for a plan of {}", message.tensors_size(), tensors));
  for (const int32_t number : message.tensors()) step.numbers_.emplace_back(number);
  step.has_changes_ = message.has_changes();
  for (const proto::TensorBox& one : message.changes()) {
    SCALAI_ASSIGN_OR_RETURN(const Box box, box_of(one));
    if (one.tensor() < 0 || static_cast<size_t>(one.tensor()) >= tensors)
      return invalid(fmt::format("a change of tensor {} in a plan of {}", one.tensor(), tensors));
    std::vector<Box>& of_tensor = step.changes_[TensorId(one.tensor())];
    if (!of_tensor.empty() && of_tensor.front().rank != box.rank)
      return invalid(fmt::format("changes of tensor {} with {} and {} dimensions", one.tensor(), of_tensor.front().rank,
                                 box.rank));
    of_tensor.push_back(box);
  }
  for (const plan::TensorInfo& one : planned) step.dtypes_.push_back(one.from_dtype);
  SCALAI_ASSIGN_OR_RETURN(step.tensors_, ForeignTensors::make(message, planned));
  return step;
}

absl::Status ForeignStep::read(Places& places, const Location& device, TensorId tensor, const Box& box,
                               const state::Target& dst, Taken& taken) const {
  const TensorId there = numbers_[static_cast<size_t>(tensor.value)];
  if (!tensors_.is_made(tensor)) {
    const tensor::DType travels = dtypes_[static_cast<size_t>(tensor.value)];
    SCALAI_RETURN_IF_ERROR(read_there(places, device, there, box, dst));
    taken[device] += std::min(state::packed_bytes(box, travels), state::packed_bytes(box, dst.dtype));
    return absl::OkStatus();
  }
  return tensors_.read(places.backend(), device, tensor, box, dst,
                       [&](const Location& holder, const Box& part, const state::Target& into) {
                         SCALAI_RETURN_IF_ERROR(read_there(places, holder, there, part, into));
                         taken[holder] += state::packed_bytes(part, into.dtype);
                         return absl::OkStatus();
                       });
}

absl::Status ForeignStep::read_there(Places& places, const Location& device, TensorId there, const Box& box,
                                     const state::Target& dst) const {
  const HostId host = places.host_of(device);
  {
    const std::lock_guard lock(silent_->mutex);
    if (const auto found = silent_->hosts.find(host); found != silent_->hosts.end()) return found->second;
  }
  absl::Status done = places.read(device, key_, there, box, dst);
  if (!done.ok() && !absl::IsDeadlineExceeded(done))
    done = places.read(Location::host_memory(host), key_, there, box, dst);
  if (absl::IsDeadlineExceeded(done)) {
    const std::lock_guard lock(silent_->mutex);
    silent_->hosts.emplace(host, done);
  }
  return done;
}

std::optional<std::vector<Box>> ForeignStep::changes(TensorId tensor, const Box& box) const {
  if (!has_changes_) return std::nullopt;
  std::vector<Box> parts;
  const auto found = changes_.find(tensor);
  if (found == changes_.end()) return parts;
  if (found->second.front().rank != box.rank) return std::nullopt;
  for (const Box& change : found->second) {
    if (const std::optional<Box> part = tensor::intersect(change, box)) parts.push_back(*part);
  }
  return parts;
}

}  // namespace scalai::executor::worker
