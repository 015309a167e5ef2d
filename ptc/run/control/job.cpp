#include "ptc/run/control/internal/job.h"

#include <algorithm>
#include <cmath>

#include "ptc/base/status.h"
#include "ptc/state/collection/rank_parts.h"

namespace scalai::control {
namespace {

// Times are sums of products of doubles: a boundary missed by this share of a step counts as reached.
constexpr double kBoundaryTolerance = 1e-9;

}  // namespace

int64_t Training::steps_done_at(double at_s) const {
  if (step_s <= 0 || at_s <= start_s) return from_step;
  const double steps = std::floor((at_s - start_s) / step_s + kBoundaryTolerance);
  return std::min(until_step, from_step + static_cast<int64_t>(std::min(steps, 9e15)));
}

int64_t Training::next_boundary_after(double at_s) const {
  if (step_s <= 0 || at_s <= start_s) return from_step;
  const double steps = std::ceil((at_s - start_s) / step_s - kBoundaryTolerance);
  return std::min(until_step, from_step + static_cast<int64_t>(std::min(steps, 9e15)));
}

std::optional<std::vector<collection::ExtraHolder>> Job::initial_copies() const {
  const auto is_initial = [](const std::optional<Holding>& copy) { return copy && copy->snapshot == kInitialState; };
  if (is_initial(copies.redundant)) {
    const auto list = list_of(copies.redundant->copies);
    return std::vector<collection::ExtraHolder>(list.begin(), list.end());
  }
  if (is_initial(copies.checkpoint) && spec->checkpoint.host_memory_copy) return std::vector<collection::ExtraHolder>();
  return std::nullopt;
}

const std::vector<DeviceId>& own_devices(const Job& job) {
  const bool homeless = job.devices.empty() && job.state.collection != nullptr;
  return homeless ? job.state.collection->device_of_rank : job.devices;
}

void account(const Job& job, int64_t steps, double at_s, TimeAccount& time) {
  if (!job.submitted || job.over()) return;
  if (job.moves()) {
    if (job.copies.last) return time.stood_for_copy(at_s);  // the run is to end: nothing but that copy is waited for
    return time.trained(job.training, steps, at_s);
  }
  return job.mode == Mode::kWaiting ? time.waited(at_s) : time.changed(at_s);
}

std::vector<BulkFlow> checkpoint_flows(const collection::Collection& collection) {
  std::vector<int64_t> bytes(static_cast<size_t>(collection.ranks()), 0);  // that a rank writes
  for (const std::vector<TensorId>& alike : collection::tensors_alike(collection)) {
    int64_t size = 0;
    for (const TensorId id : alike) size += tensor::size_of(collection.tensors[static_cast<size_t>(id.value)].dtype);
    std::set<tensor::Box> written;
    for (const collection::RankPart& part : collection::rank_parts(collection, alike.front())) {
      for (const tensor::Piece& piece : part.buffer.pieces) {
        if (written.insert(piece.box).second)
          bytes[static_cast<size_t>(part.ranks.front().value)] += piece.box.volume() * size;
      }
    }
  }
  std::map<DeviceId, int64_t> of_device;
  for (size_t rank = 0; rank < bytes.size(); ++rank) {
    if (bytes[rank] > 0) of_device[collection.device_of_rank[rank]] = bytes[rank];
  }
  std::vector<BulkFlow> flows;
  for (const auto& [device, total] : of_device)
    flows.push_back({plan::Location::device(device), plan::Location::storage(), total});
  return flows;
}

}  // namespace scalai::control
