#include "ptc/control/internal/job.h"

#include <algorithm>
#include <cmath>

#include "ptc/base/status.h"

namespace scalai::control {
namespace {

// Times are sums of products of doubles: a boundary missed by this share of a step counts as reached.
constexpr double kBoundaryTolerance = 1e-9;

void add_flow(std::map<std::pair<plan::Location, plan::Location>, int64_t>& flows, plan::Location src,
              plan::Location dst, int64_t bytes) {
  if (bytes > 0) flows[{src, dst}] += bytes;
}

std::vector<BulkFlow> as_list(const std::map<std::pair<plan::Location, plan::Location>, int64_t>& flows) {
  std::vector<BulkFlow> list;
  for (const auto& [ends, bytes] : flows) list.push_back({ends.first, ends.second, bytes});
  return list;
}

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
  if (is_initial(copies.redundant)) return copies.redundant->copies;
  if (is_initial(copies.checkpoint) && spec->checkpoint.host_memory_copy) return std::vector<collection::ExtraHolder>();
  return std::nullopt;
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
  std::map<std::pair<plan::Location, plan::Location>, int64_t> flows;
  for (size_t i = 0; i < collection.tensors.size(); ++i) {
    const int64_t size = tensor::size_of(collection.tensors[i].dtype);
    std::set<tensor::Box> written;
    for (int rank = 0; rank < collection.ranks(); ++rank) {
      const plan::Location device = plan::Location::device(collection.device_of_rank[static_cast<size_t>(rank)]);
      for (const tensor::Piece& piece :
           collection.pieces(TensorId(static_cast<int64_t>(i)), LogicalRank(rank)).pieces) {
        if (written.insert(piece.box).second) {
          add_flow(flows, device, plan::Location::storage(), piece.box.volume() * size);
        }
      }
    }
  }
  return as_list(flows);
}

}  // namespace scalai::control
