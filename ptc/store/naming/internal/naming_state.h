#pragma once
// A naming with the sizes filled in, and the stored tensors that it makes of what is there in one place: of whole
// tensors, or of what a rank holds. Reading and writing both come from this list.

#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "ptc/state/model/model.h"
#include "ptc/store/naming/arrange.h"
#include "ptc/store/naming/internal/family_rules.h"
#include "ptc/store/naming/internal/stored_parts.h"

namespace scalai::store {

struct Naming::State {
  std::string name;
  std::vector<std::string> prefixes;
  // What follows is only there for a naming of a family.
  std::optional<Family> family;
  const internal::NamingRules* rules = nullptr;
  internal::SizeValues values;
  model::Model model;
  std::unordered_map<std::string, size_t> params;                 // index in the model by name
  std::map<std::string, internal::QueryGroups> groups;            // by the logical tensor's name as described
  std::map<std::string, const internal::LogicalRule*> described;  // likewise
};

namespace internal {

// A state's parameter and what is appended to its name: "up.weight", ".exp_avg".
struct StateName {
  std::string param;
  std::string suffix;
};
StateName split_name(const std::string& name, model::StateKind kind);

struct HeldTensor {
  LocalPart part;
  model::StateKind kind = model::StateKind::kParam;
  bool second_home = false;
};

struct PlacedLayer {
  int layer = 0;
  int chunk = 0;
  int stage_layer = 0;       // from 0 in the chunk
  std::vector<int> experts;  // that are here, rising
};

struct Place {
  std::map<std::string, HeldTensor> held;  // by name of the state
  std::vector<std::string> order;          // of the names
  std::vector<PlacedLayer> layers;
  int chunks = 1;
};

struct StoredInstance {
  ArrangedTensor tensor;          // under the name that is written, without prefix
  std::string chunk;              // what is before the prefix
  std::string group;              // complete or absent as one: "" parameters, ".exp_avg", a name outside of the family
  std::vector<std::string> also;  // other names, with the suffix
  bool alias = false;
  bool instead = false;
  bool without_prefix = false;  // also for state outside of the family
  int layer = -1;
  bool vocabulary = false;
};

// Every stored tensor of the place that has elements, aliases and those in the place of others only when asked for.
// Checks that each held element is in exactly one piece of a tensor that is no alias.
absl::StatusOr<std::vector<StoredInstance>> stored_instances(const Naming::State& naming, const Place& place,
                                                             bool with_aliases);

class RankPlaces {
 public:
  static absl::StatusOr<RankPlaces> make(const Naming::State& naming, const collection::Collection& collection);
  Place place(LogicalRank rank) const;

 private:
  RankPlaces(const Naming::State& naming, const collection::Collection& collection)
      : naming_(&naming), collection_(&collection) {}
  void place_layers(Place& place, const std::map<int, std::vector<int>>& experts) const;

  const Naming::State* naming_;
  const collection::Collection* collection_;
  std::vector<int> param_of_tensor_;  // -1: outside of the family
};

}  // namespace internal
}  // namespace scalai::store
