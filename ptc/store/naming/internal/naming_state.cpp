#include "ptc/store/naming/internal/naming_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "ptc/base/status.h"

namespace scalai::store::internal {
namespace {

int64_t volume_of(const std::vector<int64_t>& shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

// The suffixes of a place's states, the parameters' own ("") first.
std::vector<std::string> suffixes_of(const Naming::State& naming, const Place& place) {
  std::vector<std::string> suffixes;
  for (const std::string& name : place.order) {
    const StateName split = split_name(name, place.held.at(name).kind);
    if (naming.params.count(split.param) == 0) continue;
    if (std::find(suffixes.begin(), suffixes.end(), split.suffix) == suffixes.end()) suffixes.push_back(split.suffix);
  }
  std::stable_sort(suffixes.begin(), suffixes.end(),
                   [](const auto& a, const auto& b) { return a.empty() && !b.empty(); });
  return suffixes;
}

class InstanceBuilder {
 public:
  InstanceBuilder(const Naming::State& naming, const Place& place, bool with_aliases)
      : naming_(naming), place_(place), with_aliases_(with_aliases) {
    for (const PlacedLayer& layer : place.layers) layers_[layer.layer] = &layer;
  }

  absl::StatusOr<std::vector<StoredInstance>> build() {
    if (naming_.rules != nullptr) {
      for (const std::string& suffix : suffixes_of(naming_, place_)) SCALAI_RETURN_IF_ERROR(add_family(suffix));
    }
    for (const std::string& name : place_.order) SCALAI_RETURN_IF_ERROR(add_outside(name));
    SCALAI_RETURN_IF_ERROR(check_cover());
    return std::move(result_);
  }

 private:
  absl::Status add_family(const std::string& suffix) {
    std::vector<int> layers;
    for (const PlacedLayer& layer : place_.layers) layers.push_back(layer.layer);
    absl::Status status;
    visit_rules<StoredRule>(
        naming_.rules->stored, layers, [&](int layer) { return layers_.at(layer)->experts; },
        [&](const StoredRule& rule, int layer, int expert) {
          if (status.ok()) status = add_rule(rule, suffix, layer, expert);
        });
    return status;
  }

  NameValues values_of(int layer, int expert) const {
    NameValues values{.layer = layer, .expert = expert};
    if (layer < 0) return values;
    const PlacedLayer& placed = *layers_.at(layer);
    values.stage_layer = placed.stage_layer;
    if (expert >= 0) {
      const auto& experts = placed.experts;
      values.local_expert = static_cast<int>(std::find(experts.begin(), experts.end(), expert) - experts.begin());
    }
    return values;
  }

  int chunk_of(const StoredRule& rule, int layer) const {
    if (layer >= 0) return layers_.at(layer)->chunk;
    const auto described = naming_.described.find(rule.parts.front().tensor.text());
    const bool last = rule.stage == StageRule::kSecondHome ||
                      (described != naming_.described.end() && described->second->home == model::Param::kLast);
    return last ? place_.chunks - 1 : 0;
  }

  // Whether the rule's stage is this one for a tensor that is held here.
  static bool on_stage(const StoredRule& rule, const HeldTensor& held) {
    return rule.stage == StageRule::kWhereHeld || held.second_home == (rule.stage == StageRule::kSecondHome);
  }

  // What the place holds of the rule's parts, and the name of one that is not there.
  struct HeldParts {
    std::vector<LocalPart> parts;
    std::string absent;
  };
  HeldParts held_parts(const StoredRule& rule, const std::string& suffix, const NameValues& values) const {
    HeldParts result;
    for (const PartRule& part : rule.parts) {
      const std::string name = part.tensor.fill(values) + suffix;
      const auto held = place_.held.find(name);
      if (held == place_.held.end() || !on_stage(rule, held->second)) {
        result.absent = name;
        continue;
      }
      result.parts.push_back(held->second.part);
      result.parts.back().rows = part.rows;
      result.parts.back().rotary = part.rotary;
      const auto groups = naming_.groups.find(part.tensor.text());
      if (groups != naming_.groups.end()) result.parts.back().groups = groups->second;
    }
    return result;
  }

  // One tensor of the rule; without pieces where the place has none of its parts.
  absl::StatusOr<ArrangedTensor> join(const StoredRule& rule, const std::string& suffix, const NameValues& values) {
    const HeldParts held = held_parts(rule, suffix, values);
    const std::string stored = rule.name.fill(values) + suffix;
    if (held.parts.empty()) return ArrangedTensor{.name = stored, .shape = {}, .pieces = {}};
    if (!held.absent.empty())
      return invalid(fmt::format("\"{}\" needs tensor \"{}\", which is not there, beside tensor \"{}\"", stored,
                                 held.absent, held.parts.front().name));
    for (const LocalPart& part : held.parts) {
      if (!rule.alias && !rule.instead) claimed_.emplace(part.name, 0);
    }
    return join_parts(stored, held.parts, rule.transposed);
  }

  // The layer's experts here, one after the other.
  absl::StatusOr<ArrangedTensor> stack(const StoredRule& rule, const std::string& suffix, int layer) {
    ArrangedTensor all;
    for (const int expert : layers_.at(layer)->experts) {
      const HeldParts held = held_parts(rule, suffix, values_of(layer, expert));
      if (held.parts.empty()) continue;
      SCALAI_ASSIGN_OR_RETURN(ArrangedTensor one, join(rule, suffix, values_of(layer, expert)));
      if (held.parts.front().flat)
        return invalid(fmt::format("\"{}\" cannot stack flat shards of experts (use zero0)", one.name));
      const int64_t before = all.shape.empty() ? 0 : all.shape.front();
      if (before == 0) {
        all = {.name = one.name, .dtype = one.dtype, .shape = one.shape, .pieces = {}};
        all.shape.insert(all.shape.begin(), 0);
      }
      if (one.dtype != all.dtype ||
          !std::equal(one.shape.begin(), one.shape.end(), all.shape.begin() + 1, all.shape.end()))
        return invalid(fmt::format("\"{}\" cannot hold experts that differ in shape or dtype", one.name));
      for (PlacedPiece& piece : one.pieces) {
        piece.piece.offset += before * volume_of(one.shape);
        all.pieces.push_back(std::move(piece));
      }
      ++all.shape.front();
    }
    return all;
  }

  absl::Status add_rule(const StoredRule& rule, const std::string& suffix, int layer, int expert) {
    if (!holds(rule.when, naming_.values.flags(layer))) return absl::OkStatus();
    if ((rule.alias || rule.instead) && !with_aliases_) return absl::OkStatus();
    const NameValues values = values_of(layer, expert);
    if (rule.constant) return add_constant(rule, suffix, values);
    StoredInstance instance{.group = suffix,
                            .alias = rule.alias,
                            .instead = rule.instead,
                            .without_prefix = rule.without_prefix,
                            .layer = layer};
    for (const PartRule& part : rule.parts) {
      const auto described = naming_.described.find(part.tensor.text());
      instance.vocabulary |= described != naming_.described.end() && described->second->rule == model::TpRule::kVocab;
    }
    if (rule.stacked) {
      SCALAI_ASSIGN_OR_RETURN(instance.tensor, stack(rule, suffix, layer));
    } else {
      SCALAI_ASSIGN_OR_RETURN(instance.tensor, join(rule, suffix, values));
    }
    if (instance.tensor.shape.empty() && instance.tensor.pieces.empty()) return absl::OkStatus();
    if (place_.chunks > 1) instance.chunk = naming_.rules->chunk_prefix.fill({.chunk = chunk_of(rule, layer)});
    for (const NameTemplate& also : rule.also) instance.also.push_back(also.fill(values) + suffix);
    add(std::move(instance));
    return absl::OkStatus();
  }

  // Where it is read it is nothing that one looks for: naming files ignore its name.
  absl::Status add_constant(const StoredRule& rule, const std::string& suffix, const NameValues& values) {
    if (with_aliases_ || !suffix.empty() || held_parts(rule, suffix, values).parts.empty()) return absl::OkStatus();
    StoredInstance instance{.group = suffix};
    const float value = *rule.constant;
    instance.tensor = {.name = rule.name.fill(values),
                       .dtype = tensor::DType::kF32,
                       .shape = {},
                       .pieces = {},
                       .constant = std::string(reinterpret_cast<const char*>(&value), sizeof(value))};
    result_.push_back(std::move(instance));
    return absl::OkStatus();
  }

  absl::Status add_outside(const std::string& name) {
    if (claimed_.count(name) != 0) return absl::OkStatus();
    const HeldTensor& held = place_.held.at(name);
    using Kind = model::StateKind;
    const bool of_job = held.kind == Kind::kRng || held.kind == Kind::kScalar || held.kind == Kind::kBuffer;
    if (naming_.rules != nullptr && (!of_job || naming_.params.count(name) != 0))
      return invalid(fmt::format("tensor \"{}\": naming \"{}\" of family \"{}\" has no place for it here", name,
                                 naming_.name, naming_.family->name()));
    StoredInstance instance{.group = name, .without_prefix = true};
    if (!of_job || (naming_.rules == nullptr && held.kind == Kind::kBuffer))
      instance.group =
          held.kind == Kind::kParam || held.kind == Kind::kBuffer ? "" : "." + std::string(model::name_of(held.kind));
    SCALAI_ASSIGN_OR_RETURN(instance.tensor, join_parts(name, std::span(&held.part, 1), false));
    claimed_.emplace(name, 0);
    add(std::move(instance));
    return absl::OkStatus();
  }

  void add(StoredInstance instance) {
    if (volume_of(instance.tensor.shape) == 0) return;
    if (!instance.alias && !instance.instead) {
      for (const PlacedPiece& piece : instance.tensor.pieces) claimed_[piece.logical] += piece.piece.box.volume();
    }
    result_.push_back(std::move(instance));
  }

  // The rules name every element once (checked when the family was read), so that counting is enough, and only a
  // mistake here can make it fail.
  absl::Status check_cover() const {
    for (const auto& [name, held] : place_.held) {
      int64_t elements = 0;
      for (const tensor::Piece& piece : held.part.pieces) elements += piece.box.volume();
      const auto claimed = claimed_.find(name);
      const int64_t stored = claimed == claimed_.end() ? 0 : claimed->second;
      if (stored == elements) continue;
      return invalid(fmt::format("tensor \"{}\" box {}: {} of {} elements have a place in naming \"{}\"", name,
                                 held.part.pieces.empty() ? "[]" : held.part.pieces.front().box.str(), stored, elements,
                                 naming_.name));
    }
    return absl::OkStatus();
  }

  const Naming::State& naming_;
  const Place& place_;
  const bool with_aliases_;
  std::map<int, const PlacedLayer*> layers_;
  std::map<std::string, int64_t> claimed_;  // elements that have a place, by state
  std::vector<StoredInstance> result_;
};

}  // namespace

StateName split_name(const std::string& name, model::StateKind kind) {
  using Kind = model::StateKind;
  if (kind != Kind::kMaster && kind != Kind::kExpAvg && kind != Kind::kExpAvgSq && kind != Kind::kMomentum &&
      kind != Kind::kPrevious) {
    return {name, ""};
  }
  const std::string suffix = "." + std::string(model::name_of(kind));
  if (!name.ends_with(suffix)) return {name, ""};
  return {name.substr(0, name.size() - suffix.size()), suffix};
}

absl::StatusOr<std::vector<StoredInstance>> stored_instances(const Naming::State& naming, const Place& place,
                                                             bool with_aliases) {
  return InstanceBuilder(naming, place, with_aliases).build();
}

absl::StatusOr<RankPlaces> RankPlaces::make(const Naming::State& naming, const collection::Collection& collection) {
  RankPlaces places(naming, collection);
  std::vector<bool> found(naming.model.params.size());
  for (const collection::LogicalTensor& tensor : collection.tensors) {
    const StateName split = split_name(tensor.name, tensor.kind);
    const auto param = naming.params.find(split.param);
    places.param_of_tensor_.push_back(param == naming.params.end() ? -1 : static_cast<int>(param->second));
    if (param == naming.params.end()) continue;
    const tensor::Shape& shape = naming.model.params[param->second].shape;
    if (tensor.shape != shape)
      return invalid(fmt::format("tensor \"{}\" is {}, in family \"{}\" with these sizes {}", tensor.name,
                                 tensor.shape.str(), naming.family->name(), shape.str()));
    if (split.suffix.empty()) found[param->second] = true;
  }
  const auto first = std::find(found.begin(), found.end(), false);
  if (first != found.end())
    return invalid(fmt::format("tensor \"{}\" of family \"{}\" is not in collection \"{}\"",
                               naming.model.params[static_cast<size_t>(first - found.begin())].name,
                               naming.family->name(), collection.name));
  return places;
}

// Runs of consecutive layers are the stage's chunks. Without a prefix for chunks names count on through the stage.
void RankPlaces::place_layers(Place& place, const std::map<int, std::vector<int>>& experts) const {
  const bool chunks = naming_->rules != nullptr && !naming_->rules->chunk_prefix.text().empty();
  for (const auto& [layer, ids] : experts) {
    PlacedLayer next{.layer = layer, .experts = ids};
    if (!place.layers.empty()) {
      const PlacedLayer& before = place.layers.back();
      const bool new_chunk = chunks && layer != before.layer + 1;
      next.chunk = before.chunk + (new_chunk ? 1 : 0);
      next.stage_layer = new_chunk ? 0 : before.stage_layer + 1;
    }
    place.layers.push_back(std::move(next));
  }
  if (!place.layers.empty()) place.chunks = place.layers.back().chunk + 1;
}

Place RankPlaces::place(LogicalRank rank) const {
  Place place;
  std::map<int, std::vector<int>> experts;  // by layer
  for (size_t i = 0; i < collection_->tensors.size(); ++i) {
    const collection::LogicalTensor& tensor = collection_->tensors[i];
    if (!collection_->holds(tensor, rank)) continue;
    const collection::Mesh& mesh = collection_->meshes[static_cast<size_t>(tensor.mesh)];
    std::vector<tensor::AxisPosition> positions;
    const tensor::AxisLookup lookup = mesh.lookup(rank);
    for (const tensor::Cut& cut : tensor.layout.cuts) positions.push_back(lookup(cut.axis));
    HeldTensor held{
        .part = local_part({tensor.name, tensor.dtype, tensor.shape, tensor.kind}, tensor.layout, positions),
        .kind = tensor.kind};
    for (const collection::Pin& pin : tensor.pins) {
      if (pin.axis == "pp") held.second_home = mesh.coordinate(rank, "pp") != pin.coordinates.front();
    }
    if (param_of_tensor_[i] >= 0) {
      const model::Param& param = naming_->model.params[static_cast<size_t>(param_of_tensor_[i])];
      if (param.layer >= 0) {
        std::vector<int>& ids = experts[param.layer];
        if (param.expert >= 0 && std::find(ids.begin(), ids.end(), param.expert) == ids.end())
          ids.push_back(param.expert);
      }
    }
    place.order.push_back(tensor.name);
    place.held.emplace(tensor.name, std::move(held));
  }
  for (auto& [layer, ids] : experts) std::sort(ids.begin(), ids.end());
  place_layers(place, experts);
  return place;
}

}  // namespace scalai::store::internal
