#include "executor/live/live_stats.h"

#include <fmt/format.h>

#include <map>
#include <string>

#include "executor/worker/box_stats.h"
#include "executor/worker/places.h"
#include "ptc/base/status.h"
#include "ptc/proto/control.pb.h"
#include "ptc/state/collection/collection_file.h"

namespace scalai::executor::live {
namespace {

using Boxes = std::map<tensor::Box, tensor::ElementStats>;

}  // namespace

absl::StatusOr<std::vector<store::TensorStats>> stats_of_step(const LiveStep& step,
                                                              const std::vector<size_t>& tensors) {
  const store::Checkpoint& whole = *step.checkpoint();
  SCALAI_ASSIGN_OR_RETURN(
      const collection::CollectionFile file,
      collection::parse_collection(step.state().collection(), whole.info().path, collection::FileRole::kPlanned));
  const std::vector<collection::LogicalTensor>& held = file.collection.tensors;
  std::map<std::string, Boxes> told;  // by tensor; boxes of different bounds never overlap
  for (const proto::BoxStats& one : step.state().stats()) {
    SCALAI_ASSIGN_OR_RETURN(const tensor::Box box, worker::box_of(one.box()));
    SCALAI_ASSIGN_OR_RETURN(const tensor::ElementStats stats, worker::stats_of(one));
    const int64_t id = one.box().tensor();
    if (id < 0 || id >= std::ssize(held) || stats.elements != box.volume())
      return failed(fmt::format("{}: a worker's statistics are of no box of the job", whole.info().path));
    told[held[static_cast<size_t>(id)].name].try_emplace(box, stats);
  }
  std::vector<store::TensorStats> all;
  for (const size_t tensor : tensors) {
    const store::LogicalState& state = whole.tensors()[tensor];
    store::TensorStats& sum = all.emplace_back(store::TensorStats{.tensor = tensor, .elements = {}, .change = {}});
    const int64_t elements = tensor::Box::whole(state.shape).volume();
    for (const auto& [box, stats] : told[state.name])
      if (sum.elements.elements <= elements) sum.elements.add(stats);
    if (sum.elements.elements != elements)
      return absl::UnavailableError(
          fmt::format("{}: tensor \"{}\": workers looked at {} of {} elements; was a host lost?", whole.info().path,
                      state.name, sum.elements.elements, elements));
  }
  return all;
}

}  // namespace scalai::executor::live
