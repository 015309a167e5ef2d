#include "ptc/store/views/internal/view_layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "ptc/base/status.h"
#include "ptc/base/utf8.h"
#include "ptc/state/collection/megatron.h"
#include "ptc/store/naming/arrange.h"
#include "ptc/store/views/internal/opened.h"

namespace scalai::store::internal {
namespace {

// `whose` names what the collection stands for.
absl::StatusOr<collection::Collection> with_states_of(const Checkpoint& checkpoint,
                                                      const collection::Collection& collection,
                                                      const std::string& whose) {
  std::map<std::string, const collection::LogicalTensor*> by_name;
  for (const collection::LogicalTensor& tensor : collection.tensors) by_name[tensor.name] = &tensor;
  ProblemList problems;
  for (const LogicalState& state : checkpoint.tensors()) {
    const auto found = by_name.find(state.name);
    if (found == by_name.end()) {
      problems.add(fmt::format("{}: \"{}\" is not in {}", checkpoint.info().path, clipped(state.name, 120), whose));
    } else if (found->second->shape != state.shape) {
      problems.add(fmt::format("{}: \"{}\" is {}, but {} in {}", checkpoint.info().path, clipped(state.name, 120),
                               state.shape.str(), found->second->shape.str(), whose));
    }
  }
  SCALAI_RETURN_IF_ERROR(problems.status());
  collection::Collection result = with_states(collection, checkpoint.tensors());
  result.epoch = checkpoint.info().epoch;
  return result;
}

}  // namespace

absl::Status take_usual_etp(const KnownModel* known, const std::string& naming, collection::ParallelConfig& config,
                            bool& etp_said) {
  const bool matters = (naming == "megatron" || (naming == "vllm" && config.ep == 1)) && known != nullptr &&
                       known->model.experts > 0 && config.tp > 1;
  if (matters && !etp_said) {
    if (config.tp * config.cp * config.dp % (config.tp * config.ep) != 0) {
      return invalid(
          fmt::format("{}: etp is tp unless it is said, as in Megatron, and etp{} x ep{} does not divide the {} ranks "
                      "of a stage; say etp1 for experts that are not cut",
                      collection::canonical(config), config.tp, config.ep, config.tp * config.cp * config.dp));
    }
    config.etp = config.tp;
  }
  etp_said = matters;
  return absl::OkStatus();
}

absl::StatusOr<collection::Collection> collection_of(const Checkpoint& checkpoint,
                                                     const collection::ParallelConfig& config) {
  const KnownModel* known = checkpoint.model();
  if (known == nullptr) {
    return invalid(
        fmt::format("{}: a layout needs to know the model; say --model=NAME or --config=FILE, or give the "
                    "target as a collection file",
                    checkpoint.info().path));
  }
  const std::vector<LogicalState>& states = checkpoint.tensors();
  const auto has = [&](model::StateKind kind) {
    return std::any_of(states.begin(), states.end(), [&](const LogicalState& state) { return state.kind == kind; });
  };
  // All state that there can be; what the checkpoint lacks is left out below.
  const model::Recipe recipe{.param = tensor::DType::kF16,
                             .master = true,
                             .optimizer = !has(model::StateKind::kMomentum)  ? model::Optimizer::kAdam
                                          : has(model::StateKind::kExpAvgSq) ? model::Optimizer::kMuon
                                                                             : model::Optimizer::kSgdMomentum,
                             .previous = has(model::StateKind::kPrevious)};
  std::vector<DeviceId> devices;
  for (int rank = 0; rank < config.world(); ++rank) devices.emplace_back(rank);
  SCALAI_ASSIGN_OR_RETURN(const collection::Collection all,
                          collection::megatron_collection(known->model, recipe, config, std::move(devices)));
  const std::string whose = known->model.name.empty() ? "the model" : known->model.name;
  return with_states_of(checkpoint, all, whose);
}

absl::StatusOr<collection::Collection> collection_of(const Checkpoint& checkpoint,
                                                     const collection::Collection& collection) {
  SCALAI_ASSIGN_OR_RETURN(collection::Collection result, with_states_of(checkpoint, collection, "the collection"));
  ProblemList problems;
  for (const collection::LogicalTensor& tensor : collection.tensors) {
    const std::optional<size_t> found = checkpoint.find(tensor.name);
    if (!found) {
      problems.add(fmt::format("{}: has no \"{}\", which the collection has", checkpoint.info().path,
                               clipped(tensor.name, 120)));
    } else if (checkpoint.tensors()[*found].dtype != tensor.dtype) {
      problems.add(fmt::format("{}: \"{}\" is {}, but {} in the collection; dtypes are not converted here",
                               checkpoint.info().path, clipped(tensor.name, 120),
                               tensor::name_of(checkpoint.tensors()[*found].dtype), tensor::name_of(tensor.dtype)));
    }
  }
  SCALAI_RETURN_IF_ERROR(problems.status());
  return result;
}

void pad_vocabulary(collection::Collection& collection, int64_t multiple) {
  for (collection::LogicalTensor& tensor : collection.tensors) {
    for (tensor::Cut& cut : tensor.layout.cuts) {
      if (cut.rule == tensor::SplitRule::kPadded) cut.multiple = multiple;
    }
  }
}

}  // namespace scalai::store::internal
