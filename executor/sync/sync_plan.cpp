#include "executor/sync/sync_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "executor/state/digest.h"
#include "executor/worker/places.h"
#include "ptc/base/status.h"
#include "ptc/plan/planner.h"
#include "ptc/proto/control.pb.h"
#include "ptc/state/collection/collection_file.h"
#include "ptc/store/views/transforms.h"

namespace scalai::executor::sync {

using tensor::Box;

namespace {

using collection::Collection;
using collection::LogicalTensor;

bool is_wanted(model::StateKind kind) { return kind == model::StateKind::kParam || kind == model::StateKind::kBuffer; }

// A whole copy of every tensor on each of so many ranks.
Collection copies(int ranks) {
  Collection to;
  to.meshes.emplace_back(std::vector<collection::MeshAxis>{{"dp", ranks}});
  return to;
}

// The layout of a model that is known; of another one only whole copies, or a collection.
absl::StatusOr<Collection> layout_of(const live::LiveStep& step, const SyncTarget& target, int ranks) {
  store::ViewSpec spec = target.layout;
  spec.naming = "logical";
  spec.optimizer = false;
  spec.extras = false;
  const bool known = step.checkpoint()->model() != nullptr;
  if (!known && spec.layout) {
    if (spec.layout->world() != spec.layout->dp)
      return invalid(fmt::format(
          "{} is of a model that is not known: only whole copies (dp{}) or a collection file can be its layout",
          step.checkpoint()->info().path, ranks));
    return copies(ranks);
  }
  SCALAI_ASSIGN_OR_RETURN(const auto view, store::View::make(step.checkpoint(), std::move(spec)));
  if (view->collection() == nullptr)
    return invalid("a layout of whole tensors says nothing of devices: dp1 is one copy");
  return *view->collection();
}

bool is_floating(tensor::DType dtype) {
  return dtype == tensor::DType::kF64 || dtype == tensor::DType::kF32 || dtype == tensor::DType::kF16 ||
         dtype == tensor::DType::kBF16;
}

// As `checkpoint reshard`: the other type comes first.
std::vector<std::string> steps_of(const SyncTarget& target) {
  std::vector<std::string> steps = target.transforms;
  if (target.dtype && !steps.empty()) steps.insert(steps.begin(), fmt::format("cast({})", name_of(*target.dtype)));
  return steps;
}

// Without the cuts of dimensions from `dim` on.
void keep_whole(int dim, LogicalTensor& tensor) {
  std::erase_if(tensor.layout.cuts,
                [&](const tensor::Cut& cut) { return cut.dim == tensor::Cut::kFlat || cut.dim >= dim; });
}

bool as_it_lies(const transform::Tensor& made) { return made.made.empty() || transform::is_only_cast(made); }

// How a result lies at the run: where its origin is, or where parts of its rows are. What travels later is in its type.
LogicalTensor there_as(const LogicalTensor& origin, const transform::Tensor& made) {
  LogicalTensor tensor = origin;
  if (made.whole_dims > 0) keep_whole(origin.shape.rank() - made.whole_dims, tensor);
  tensor.name = made.name;
  tensor.shape = made.shape;
  if (!as_it_lies(made)) tensor.dtype = made.dtype;
  return tensor;
}

// How it lies at the receivers: a new one as the tensor that it is made of.
LogicalTensor here_as(const LogicalTensor& origin, const transform::Tensor& made,
                      const std::map<std::string, LogicalTensor>& laid_out, std::optional<tensor::DType> dtype) {
  LogicalTensor tensor = origin;
  tensor.mesh = 0;
  tensor.pins.clear();
  tensor.layout = {};
  if (const auto found = laid_out.find(origin.name); found != laid_out.end()) tensor = found->second;
  if (made.dropped_dims > 0) keep_whole(made.shape.rank(), tensor);
  tensor.name = made.name;
  tensor.shape = made.shape;
  tensor.dtype = !made.made.empty() ? made.dtype : dtype && is_floating(origin.dtype) ? *dtype : origin.dtype;
  return tensor;
}

// The plan takes whoever has a part of a row for a holder of it. InvalidArgument: no living host has the rest.
absl::Status check_rows(const SyncTensors& plan, const Collection& trained, const collection::Residency& residency,
                        int64_t step) {
  for (size_t i = 0; i < plan.made.size() && !residency.lost.empty(); ++i) {
    if (plan.made[i].whole_dims == 0) continue;
    std::vector<Box> held;
    for (int rank = 0; rank < trained.ranks(); ++rank) {
      if (residency.lost.contains(trained.device_of_rank[static_cast<size_t>(rank)])) continue;
      for (const tensor::Piece& piece : trained.pieces(TensorId(plan.numbers[i]), LogicalRank(rank)).pieces)
        held.push_back(piece.box);
    }
    const std::vector<Box> missing = tensor::subtract(Box::whole(plan.origins[i].shape), held);
    if (!missing.empty())
      return invalid(
          fmt::format("step {}: no living host has {} {}", step, plan.origins[i].name, missing.front().str()));
  }
  return absl::OkStatus();
}

}  // namespace

cluster::Cluster joint_cluster(const proto::LiveState& state, const std::vector<int>& gpus_of_host) {
  cluster::Cluster cluster;
  cluster.name = "training and receivers";
  int first = 0;
  const auto add = [&](int gpus) {
    cluster.hosts.push_back({.first_device = first, .gpus = gpus});
    first += gpus;
  };
  for (const int32_t gpus : state.gpus_of_host()) add(gpus);
  for (const int gpus : gpus_of_host) add(gpus);
  return cluster;
}

absl::StatusOr<SyncPlan> plan_sync(const live::LiveStep& step, const SyncTarget& target) {
  const proto::LiveState& state = step.state();
  SCALAI_ASSIGN_OR_RETURN(
      const collection::CollectionFile file,
      collection::parse_collection(state.collection(), step.checkpoint()->info().path, collection::FileRole::kPlanned));
  const Collection& trained = file.collection;
  const int ranks = std::accumulate(target.gpus_of_host.begin(), target.gpus_of_host.end(), 0);
  SyncTensors result;
  result.steps = steps_of(target);
  SCALAI_ASSIGN_OR_RETURN(const std::vector<transform::Step> steps, transform::parse_steps(result.steps));
  SCALAI_ASSIGN_OR_RETURN(store::Transformed made, store::transformed(step.checkpoint(), steps, {}, target.folder));
  if (!steps.empty()) result.steps_digest = made.digest;
  SCALAI_ASSIGN_OR_RETURN(result.to, layout_of(step, target, ranks));
  Collection& to = result.to;
  if (!to.device_of_rank.empty() && to.ranks() != ranks)
    return invalid(fmt::format("the layout has {} ranks, the receivers have {} devices", to.ranks(), ranks));
  std::map<std::string, LogicalTensor> laid_out;
  for (LogicalTensor& tensor : std::exchange(to.tensors, {})) laid_out.emplace(tensor.name, std::move(tensor));
  result.from = trained;
  result.from.tensors.clear();
  std::map<std::string, size_t> numbers;
  for (size_t i = 0; i < trained.tensors.size(); ++i) numbers[trained.tensors[i].name] = i;
  for (transform::Tensor& tensor : made.tensors) {
    const size_t number = numbers.at(tensor.origin.empty() ? tensor.name : tensor.origin);
    const LogicalTensor& is = trained.tensors[number];
    if (!is_wanted(is.kind)) continue;
    result.numbers.push_back(static_cast<int32_t>(number));
    result.origins.push_back(is);
    result.from.tensors.push_back(there_as(is, tensor));
    to.tensors.push_back(here_as(is, tensor, laid_out, target.dtype));
    tensor.read = {};  // nobody keeps other states open
    tensor.parts.clear();
    result.made.push_back(std::move(tensor));
  }
  result.from.epoch = to.epoch = 0;
  to.name = target.layout.layout ? collection::canonical(*target.layout.layout) : "receivers";
  to.device_of_rank.resize(static_cast<size_t>(ranks));
  const int first = std::accumulate(state.gpus_of_host().begin(), state.gpus_of_host().end(), 0);
  for (int rank = 0; rank < ranks; ++rank) to.device_of_rank[static_cast<size_t>(rank)] = DeviceId(first + rank);
  SCALAI_RETURN_IF_ERROR(collection::validate(to));
  // Of hosts that were lost before nothing can be read.
  const cluster::Cluster cluster = joint_cluster(state, target.gpus_of_host);
  collection::Residency residency;
  std::set<HostId> living;
  for (const proto::Peer& peer : state.peers()) living.insert(HostId(peer.host()));
  for (const DeviceId device : trained.device_of_rank) {
    if (!living.contains(cluster.host_of(device))) residency.lost.insert(device);
  }
  SCALAI_RETURN_IF_ERROR(check_rows(result, trained, residency, state.step()));
  SCALAI_ASSIGN_OR_RETURN(plan::Plan plan, plan::make_plan({result.from, to, cluster, residency, {.name = "sync"}}));
  if (!plan.feasible())
    return invalid(fmt::format("step {}: no living host has {} {} and {} other parts", state.step(),
                               plan.tensor(plan.missing().front().tensor).name, plan.missing().front().box.str(),
                               plan.missing().size() - 1));
  return SyncPlan{std::move(result), std::move(plan)};
}

absl::StatusOr<StepDigests> digests_of(const proto::LiveState& state) {
  StepDigests digests;
  for (const proto::BoxDigests& one : state.digests()) {
    SCALAI_ASSIGN_OR_RETURN(const Box box, worker::box_of(one.box()));
    SCALAI_ASSIGN_OR_RETURN(const tensor::DType dtype, worker::dtype_of(one.box()));
    std::vector<uint64_t> values(one.digests().begin(), one.digests().end());
    if (values.size() != state::digest_chunks(box, dtype, state.digest_bytes()).size())
      return failed(fmt::format("the controller's answer has {} digests of tensor {} {}", values.size(),
                                one.box().tensor(), box.str()));
    digests[{TensorId(one.box().tensor()), box}] = std::move(values);
  }
  return digests;
}

namespace {

// Each element once: several changes are in one row.
std::vector<Box> boxes_made_of(const transform::Tensor& made, const std::vector<Box>& changed) {
  std::vector<Box> boxes;
  for (const Box& one : changed) {
    const Box box = transform::box_of_origin(made, one);
    if (!boxes.empty() && boxes.back() == box) continue;
    for (const Box& fresh : tensor::subtract(box, boxes)) boxes.push_back(fresh);
  }
  return boxes;
}

}  // namespace

absl::Status set_changes(const SyncPlan& plan, const StepDigests& before, const StepDigests& now, int64_t digest_bytes,
                         proto::Foreign& foreign) {
  if (before.empty()) return absl::OkStatus();
  foreign.set_has_changes(true);
  std::map<TensorId, std::vector<std::pair<Box, const std::vector<uint64_t>*>>> by_tensor;
  for (const auto& [key, values] : now) by_tensor[key.first].emplace_back(key.second, &values);
  for (size_t i = 0; i < plan.numbers.size(); ++i) {
    const TensorId there(plan.numbers[i]);
    const LogicalTensor& tensor = plan.origins[i];
    std::vector<Box> known, changed;
    for (const auto& [box, values] : by_tensor[there]) {
      known.push_back(box);
      const auto earlier = before.find({there, box});
      const std::vector<Box> chunks = state::digest_chunks(box, tensor.dtype, digest_bytes);
      for (size_t k = 0; k < chunks.size(); ++k) {
        const bool same =
            earlier != before.end() && earlier->second.size() == chunks.size() && earlier->second[k] == (*values)[k];
        if (same) continue;
        // Runs of chunks are one box, where they are.
        Box& last = changed.empty() ? changed.emplace_back(chunks[k]) : changed.back();
        if (last == chunks[k]) continue;
        std::vector<Box> joined = tensor::merge({last, chunks[k]});
        if (joined.size() == 1) {
          last = joined.front();
        } else {
          changed.push_back(chunks[k]);
        }
      }
    }
    const std::vector<Box> unknown = tensor::subtract(Box::whole(tensor.shape), known);
    changed.insert(changed.end(), unknown.begin(), unknown.end());
    if (plan.made[i].whole_dims > 0) changed = boxes_made_of(plan.made[i], changed);
    for (const Box& box : changed)
      worker::set_box(box, TensorId(static_cast<int64_t>(i)), tensor.dtype, *foreign.add_changes());
  }
  return absl::OkStatus();
}

}  // namespace scalai::executor::sync
