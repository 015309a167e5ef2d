#include "ptc/store/naming/arrange.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "ptc/base/diagnostics.h"
#include "ptc/base/json.h"
#include "ptc/base/status.h"
#include "ptc/base/utf8.h"
#include "ptc/store/naming/internal/naming_state.h"
#include "ptc/store/naming/internal/whole_place.h"

namespace scalai::store {

using internal::StoredInstance;

absl::StatusOr<Naming> Naming::of(const Family& family, const std::string& naming, const Sizes& sizes) {
  if (naming == "logical") return logical();
  auto state = std::make_shared<State>();
  state->name = naming;
  state->family = family;
  for (const internal::NamingRules& rules : family.rules().namings) {
    if (rules.name == naming) state->rules = &rules;
  }
  if (state->rules == nullptr) {
    std::vector<std::string> known = family.namings();
    known.emplace_back("logical");
    const std::string near = closest(naming, known);
    return invalid(fmt::format(
        "family \"{}\" has no naming \"{}\" ({})", family.name(), naming,
        near.empty() ? fmt::format("it has {}", fmt::join(known, ", ")) : fmt::format("did you mean \"{}\"?", near)));
  }
  state->prefixes = state->rules->prefixes;
  SCALAI_ASSIGN_OR_RETURN(state->values, internal::values_of(family.rules(), sizes));
  SCALAI_ASSIGN_OR_RETURN(state->model, family.build_model(sizes, ""));
  for (size_t i = 0; i < state->model.params.size(); ++i) state->params[state->model.params[i].name] = i;
  for (const internal::LogicalRule& rule : family.rules().logical) {
    if (!is_used(rule, state->values)) continue;
    state->described[rule.name.text()] = &rule;
    if (!rule.query_groups) continue;
    internal::QueryGroups& groups = state->groups[rule.name.text()];
    SCALAI_ASSIGN_OR_RETURN(groups.queries, rule.query_groups->queries.evaluate(state->values.numbers));
    SCALAI_ASSIGN_OR_RETURN(groups.head_dim, rule.query_groups->head_dim.evaluate(state->values.numbers));
  }
  return Naming(std::move(state));
}

Naming Naming::logical() {
  auto state = std::make_shared<State>();
  state->name = "logical";
  state->prefixes = {""};
  return Naming(std::move(state));
}

const std::string& Naming::name() const { return state_->name; }
const std::vector<std::string>& Naming::prefixes() const { return state_->prefixes; }

std::optional<HeadRows> Naming::head_rows(const std::string& parameter) const {
  // "layers.3.attention.qkv.weight" as the family describes it.
  constexpr std::string_view kLayers = "layers.";
  const size_t end = parameter.find('.', kLayers.size());
  const bool of_layer = parameter.starts_with(kLayers) && end != std::string::npos;
  const std::string described = of_layer ? std::string(kLayers) + "{layer}" + parameter.substr(end) : parameter;
  const auto found = state_->groups.find(described);
  if (found == state_->groups.end()) return std::nullopt;
  return HeadRows{found->second.queries, found->second.head_dim};
}

namespace internal {

absl::StatusOr<Place> whole_place(const Naming::State& naming, std::span<const LogicalState> states) {
  Place place;
  std::vector<int> experts(static_cast<size_t>(naming.values.experts));
  std::iota(experts.begin(), experts.end(), 0);
  for (int layer = 0; layer < naming.values.layers; ++layer)
    place.layers.push_back({.layer = layer, .stage_layer = layer, .experts = experts});
  for (const LogicalState& state : states) {
    const StateName split = split_name(state.name, state.kind);
    const auto param = naming.params.find(split.param);
    if (param != naming.params.end() && naming.model.params[param->second].shape != state.shape)
      return invalid(fmt::format("tensor \"{}\" is {}, in family \"{}\" with these sizes {}", clipped(state.name, 120),
                                 state.shape.str(), naming.family->name(),
                                 naming.model.params[param->second].shape.str()));
    if (!place.held.emplace(state.name, HeldTensor{.part = whole_part(state), .kind = state.kind}).second)
      return invalid(fmt::format("tensor \"{}\" is given twice", clipped(state.name, 120)));
    place.order.push_back(state.name);
  }
  return place;
}

}  // namespace internal

namespace {

int64_t bytes_of(const ArrangedTensor& tensor) {
  return std::accumulate(tensor.shape.begin(), tensor.shape.end(), tensor::size_of(tensor.dtype), std::multiplies<>());
}

absl::Status check_names(const std::vector<ArrangedTensor>& tensors) {
  std::set<std::string> names;
  for (const ArrangedTensor& tensor : tensors) {
    if (!names.insert(tensor.name).second)
      return invalid(fmt::format("two tensors are named \"{}\"", clipped(tensor.name, 120)));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> chosen_prefix(const Naming& naming, const WholeOptions& options) {
  const std::vector<std::string>& known = naming.prefixes();
  if (!options.prefix) return known.front();
  if (std::find(known.begin(), known.end(), *options.prefix) != known.end()) return *options.prefix;
  return invalid(fmt::format("naming \"{}\" has no prefix \"{}\"", naming.name(), clipped(*options.prefix, 120)));
}

}  // namespace

absl::StatusOr<std::vector<ArrangedFile>> arrange_whole(const Naming& naming, std::span<const LogicalState> states,
                                                        const WholeOptions& options) {
  SCALAI_CHECK(options.shard_bytes > 0);
  SCALAI_ASSIGN_OR_RETURN(const std::string prefix, chosen_prefix(naming, options));
  SCALAI_ASSIGN_OR_RETURN(const internal::Place place, internal::whole_place(naming.state(), states));
  SCALAI_ASSIGN_OR_RETURN(std::vector<StoredInstance> stored,
                          internal::stored_instances(naming.state(), place, /*with_aliases=*/false));
  std::vector<ArrangedFile> files(1);
  std::vector<ArrangedTensor> all;
  for (StoredInstance& instance : stored) {
    if (!instance.without_prefix) instance.tensor.name = prefix + instance.tensor.name;
    for (const std::string& also : instance.also) instance.tensor.also.push_back(prefix + also);
    all.push_back(std::move(instance.tensor));
  }
  SCALAI_RETURN_IF_ERROR(check_names(all));
  int64_t filled = 0;
  for (ArrangedTensor& tensor : all) {
    const int64_t bytes = bytes_of(tensor);
    if (!files.back().tensors.empty() && bytes > options.shard_bytes - filled) {
      files.emplace_back();
      filled = 0;
    }
    // A tensor that is larger than a file fills it.
    filled += std::min(bytes, options.shard_bytes - filled);
    files.back().tensors.push_back(std::move(tensor));
  }
  for (size_t i = 0; i < files.size(); ++i) {
    files[i].name =
        files.size() == 1 ? "model.safetensors" : fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, files.size());
    files[i].metadata = {{"format", "pt"}};
  }
  return files;
}

std::string index_text(std::span<const ArrangedFile> files) {
  int64_t total = 0;
  nlohmann::json names = nlohmann::json::object();  // sorted by name, as transformers has it
  for (const ArrangedFile& file : files) {
    for (const ArrangedTensor& tensor : file.tensors) {
      total += bytes_of(tensor);
      names[tensor.name] = file.name;
    }
  }
  nlohmann::json index = {{"metadata", {{"total_size", total}}}, {"weight_map", std::move(names)}};
  return json_text(index, {.indent = 2, .ascii = true}) + "\n";
}

std::string rank_file_name(LogicalRank rank) { return fmt::format("rank_{:03}.safetensors", rank.value); }

namespace {

// A norm is part of a linear layer where that layer is; in a layer of experts it stands alone.
void take_fused_names(std::vector<StoredInstance>& stored) {
  std::set<std::pair<std::string, std::string>> names;
  for (const StoredInstance& instance : stored) names.emplace(instance.chunk, instance.tensor.name);
  for (StoredInstance& instance : stored) {
    if (instance.also.empty()) continue;
    const std::string& fused = instance.also.front();
    const size_t norm = fused.find(".layer_norm_");
    const std::string layer = fused.substr(0, norm) + ".weight" + instance.group;
    if (norm == std::string::npos || names.count({instance.chunk, layer}) != 0) instance.tensor.name = fused;
  }
}

}  // namespace

struct RankArranger::State {
  Naming naming;  // keeps what the places point to
  internal::RankPlaces places;
  bool fused = false;
};

RankArranger::RankArranger(std::unique_ptr<State> state) : state_(std::move(state)) {}
RankArranger::~RankArranger() = default;
RankArranger::RankArranger(RankArranger&&) noexcept = default;

absl::StatusOr<RankArranger> RankArranger::make(const Naming& naming, const collection::Collection& collection,
                                                bool fused) {
  SCALAI_ASSIGN_OR_RETURN(internal::RankPlaces places, internal::RankPlaces::make(naming.state(), collection));
  return RankArranger(std::make_unique<State>(State{naming, std::move(places), fused}));
}

absl::StatusOr<ArrangedFile> RankArranger::arrange(LogicalRank rank) const {
  const Naming::State& naming = state_->naming.state();
  SCALAI_ASSIGN_OR_RETURN(std::vector<StoredInstance> stored,
                          internal::stored_instances(naming, state_->places.place(rank), /*with_aliases=*/false));
  if (state_->fused) take_fused_names(stored);
  ArrangedFile file{.name = rank_file_name(rank), .metadata = {}, .tensors = {}};
  for (StoredInstance& instance : stored) {
    const std::string prefix = instance.without_prefix ? "" : naming.prefixes.front();
    instance.tensor.name = instance.chunk + prefix + instance.tensor.name;
    file.tensors.push_back(std::move(instance.tensor));
  }
  SCALAI_RETURN_IF_ERROR(check_names(file.tensors));
  return file;
}

}  // namespace scalai::store
