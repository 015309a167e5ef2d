#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>

#include "ptc/base/diagnostics.h"
#include "ptc/base/name_patterns.h"
#include "ptc/base/status.h"
#include "ptc/base/utf8.h"
#include "ptc/store/naming/arrange.h"
#include "ptc/store/naming/internal/found_problems.h"
#include "ptc/store/naming/internal/naming_state.h"
#include "ptc/store/naming/internal/whole_place.h"

namespace scalai::store {
namespace {

using internal::Place;
using internal::Problems;
using internal::shown;
using internal::StoredInstance;
using internal::Unexpected;
using tensor::DType;

struct Found {
  size_t file = 0;
  const FoundTensor* tensor = nullptr;
  bool used = false;
};

class Matcher {
 public:
  Matcher(const Naming::State& naming, std::span<const FoundFile> files, size_t first_file, int chunks,
          Problems& problems)
      : naming_(naming), files_(files), first_file_(first_file), chunks_(chunks), problems_(problems) {
    for (size_t i = 0; i < files.size(); ++i) {
      for (const FoundTensor& tensor : files[i].tensors) {
        const auto [first, fresh] = found_.emplace(tensor.name, Found{i, &tensor});
        if (!fresh)
          problems.add(fmt::format("\"{}\" is in {} and in {}", shown(tensor.name),
                                   shown(files[first->second.file].name), shown(files[i].name)));
      }
    }
  }

  // The tensor that is the instance; nothing when it is not there.
  struct Match {
    size_t file = 0;  // among all files
    const FoundTensor* tensor = nullptr;
    std::string prefix;
  };
  std::optional<Match> match(const StoredInstance& instance) {
    std::optional<Match> result;
    const auto look = [&](const std::string& base, const std::string& prefix) {
      const auto found = found_.find(instance.chunk + prefix + base);
      if (found == found_.end()) return;
      if (result) {
        found->second.used = true;
        problems_.add(fmt::format("{}: \"{}\" and \"{}\" are the same tensor under two names", name_of(found->second),
                                  shown(result->tensor->name), shown(found->first)));
        return;
      }
      if (found->second.used) {
        problems_.add(fmt::format("{}: \"{}\" could be two tensors", name_of(found->second), shown(found->first)));
        return;
      }
      found->second.used = true;
      result = Match{first_file_ + found->second.file, found->second.tensor, prefix};
    };
    const std::vector<std::string> bare = {""};
    for (const std::string& prefix : instance.without_prefix ? bare : naming_.prefixes) {
      look(instance.tensor.name, prefix);
      for (const std::string& also : instance.also) look(also, prefix);
    }
    return result;
  }

  // What nothing has asked for: it is known to be no trained state, or is left to the reader, or is dropped; else a
  // problem.
  void finish(FoundState& state, Unexpected& unexpected) {
    for (const FoundFile& file : files_) {
      for (const FoundTensor& tensor : file.tensors) {
        const Found& found = found_.at(tensor.name);
        if (found.used || found.tensor != &tensor) continue;
        const bool is_dropped = matches_any(tensor.name, unexpected.drop);
        if (is_like(&internal::NamingRules::optimizer, tensor.name) && !is_ignored(tensor.name)) {
          state.optimizer.push_back(fmt::format("{}: {}", file.name, tensor.name));
        } else if (is_dropped) {
          state.dropped.insert(tensor.name);
          if (past_layer(tensor.name) >= 0) state.dropped_layers_key = naming_.rules->past_layers_key;
        } else if (is_ignored(tensor.name)) {
          state.ignored.push_back(fmt::format("{}: {}", file.name, tensor.name));
        } else {
          add_unexpected(file, tensor, unexpected);
        }
      }
    }
  }

 private:
  std::string name_of(const Found& found) const { return shown(files_[found.file].name); }

  // The name with what may stand before it taken away.
  std::vector<std::string> stripped(const std::string& name) const {
    std::vector<std::string> chunks = {""};
    for (int i = 0; chunks_ > 1 && i < chunks_; ++i) chunks.push_back(naming_.rules->chunk_prefix.fill({.chunk = i}));
    std::vector<std::string> names = {name};
    for (const std::string& chunk : chunks) {
      for (const std::string& prefix : naming_.prefixes) {
        const std::string before = chunk + prefix;
        if (!before.empty() && name.starts_with(before)) names.push_back(name.substr(before.size()));
      }
    }
    return names;
  }

  bool is_like(std::vector<internal::NameTemplate> internal::NamingRules::*patterns, const std::string& name) const {
    if (naming_.rules == nullptr) return false;
    for (const std::string& each : stripped(name)) {
      internal::NameValues values;
      for (const internal::NameTemplate& pattern : naming_.rules->*patterns) {
        if (pattern.matches(each, values)) return true;
      }
    }
    return false;
  }
  bool is_ignored(const std::string& name) const { return is_like(&internal::NamingRules::ignored, name); }

  // The layer, behind the model's last, that the name is of; -1: it is of none.
  int past_layer(const std::string& name) const {
    if (naming_.rules == nullptr || naming_.rules->past_layers.text().empty()) return -1;
    for (const std::string& each : stripped(name)) {
      internal::NameValues values;
      if (naming_.rules->past_layers.matches(each, values) && values.layer >= naming_.values.layers)
        return values.layer;
    }
    return -1;
  }

  void add_unexpected(const FoundFile& file, const FoundTensor& tensor, Unexpected& unexpected) {
    const int past = past_layer(tensor.name);
    const std::string number = fmt::format(".{}.", past);
    const size_t at = past < 0 ? std::string::npos : tensor.name.find(number);
    unexpected.patterns.insert(at == std::string::npos ? tensor.name : tensor.name.substr(0, at + number.size()) + "*");
    ++unexpected.count;
    if (past < 0) unexpected.most_layers = std::max(unexpected.most_layers, layer_of(tensor.name) + 1);
    problems_.add(fmt::format(
        "{}: \"{}\" [{}] is not expected{}", shown(file.name), shown(tensor.name), fmt::join(tensor.shape, ", "),
        past < 0 ? ""
                 : fmt::format(": the model has {} layers, and this is of one behind them", naming_.values.layers)));
  }

  // The layer that a stored tensor of this name would be of, also beyond those of the model; -1: none.
  int layer_of(const std::string& name) const {
    if (naming_.rules == nullptr) return -1;
    for (const std::string& each : stripped(name)) {
      for (const internal::StoredRule& rule : naming_.rules->stored) {
        internal::NameValues values;
        if (rule.name.matches(each, values) && values.layer >= 0) return values.layer;
      }
    }
    return -1;
  }

  const Naming::State& naming_;
  std::span<const FoundFile> files_;
  size_t first_file_;
  int chunks_;
  Problems& problems_;
  std::unordered_map<std::string, Found> found_;
};

std::string text_of(const std::vector<int64_t>& shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

std::string shape_hint(const StoredInstance& instance, const std::vector<int64_t>& found) {
  const std::vector<int64_t>& expected = instance.tensor.shape;
  if (found.size() != expected.size() || expected.empty()) return "";
  if (found.size() == 2 && found[0] == expected[1] && found[1] == expected[0]) return " (it is transposed)";
  const bool rows_only = std::equal(found.begin() + 1, found.end(), expected.begin() + 1);
  if (!instance.vocabulary || !rows_only) return "";
  if (found[0] > expected[0]) return fmt::format(" (the vocabulary is padded to {} rows?)", found[0]);
  return fmt::format(" (the vocabulary has {} rows here, the sizes say {})", found[0], expected[0]);
}

// Tensors that were looked for and not found. What others in their place have is not missing.
class MissingTensors {
 public:
  struct Missing {
    std::string group;  // what has to be complete or absent: a suffix, or the name of a state of the job
    std::string text;
    std::set<std::string> parts;
  };
  void add(const StoredInstance& instance, std::string text) {
    if (instance.alias || instance.instead) return;
    missing_.push_back({instance.group, std::move(text), parts_of(instance)});
  }
  void found(const StoredInstance& instance) {
    if (instance.instead) replaced_.merge(parts_of(instance));
  }
  std::vector<Missing> take() && {
    const auto is_replaced = [&](const std::string& part) { return replaced_.count(part) != 0; };
    std::erase_if(missing_,
                  [&](const Missing& each) { return std::all_of(each.parts.begin(), each.parts.end(), is_replaced); });
    return std::move(missing_);
  }

 private:
  static std::set<std::string> parts_of(const StoredInstance& instance) {
    std::set<std::string> parts;
    for (const PlacedPiece& piece : instance.tensor.pieces) parts.insert(piece.logical);
    return parts;
  }

  std::vector<Missing> missing_;
  std::set<std::string> replaced_;
};

class StateReader {
 public:
  StateReader(const Naming::State& naming, std::span<const FoundFile> files, Problems& problems)
      : naming_(naming), problems_(problems) {
    for (const FoundFile& file : files) result_.files.push_back({.name = file.name, .metadata = {}, .tensors = {}});
    result_.aliases.resize(files.size());
  }

  // Takes over an instance as it was found. `expected`: its dtype is the one that has to be there.
  void take(const StoredInstance& instance, const Matcher::Match& match, bool expected) {
    ArrangedFile& file = result_.files[match.file];
    ArrangedTensor tensor = instance.tensor;
    const FoundTensor& found = *match.tensor;
    if (found.shape != tensor.shape)
      return problems_.add(fmt::format("{}: \"{}\" is {}, expected {}{}", shown(file.name), shown(found.name),
                                       text_of(found.shape), text_of(tensor.shape), shape_hint(instance, found.shape)));
    if (expected && found.dtype != tensor.dtype)
      return problems_.add(fmt::format("{}: \"{}\" is {}, expected {}", shown(file.name), shown(found.name),
                                       tensor::name_of(found.dtype), tensor::name_of(tensor.dtype)));
    tensor.name = found.name;
    tensor.dtype = found.dtype;
    std::set<std::string> parts;
    for (const PlacedPiece& piece : tensor.pieces) parts.insert(piece.logical);
    for (const std::string& part : parts) add_dtype(part, found, file.name);
    if (!instance.without_prefix) prefixes_.insert(match.prefix);
    if (instance.alias) result_.aliases[match.file].insert(found.name);
    file.tensors.push_back(std::move(tensor));
  }

  // States with their dtypes, in this order; those that nothing was found of are left out.
  FoundState finish(std::vector<LogicalState> states, std::span<const FoundFile> files) {
    for (LogicalState& state : states) {
      const auto found = dtypes_.find(state.name);
      if (found == dtypes_.end()) continue;
      state.dtype = found->second.dtype;
      result_.states.push_back(std::move(state));
    }
    if (prefixes_.size() == 1) result_.prefix = *prefixes_.begin();
    for (size_t i = 0; i < files.size(); ++i) sort_as_found(files[i], result_.files[i].tensors);
    return std::move(result_);
  }

  bool empty() const { return dtypes_.empty(); }
  FoundState& state() { return result_; }

 private:
  struct Seen {
    DType dtype;
    std::string where;
  };

  void add_dtype(const std::string& logical, const FoundTensor& found, const std::string& file) {
    const auto [first, fresh] =
        dtypes_.emplace(logical, Seen{found.dtype, fmt::format("{}: {}", shown(file), shown(found.name))});
    if (fresh || first->second.dtype == found.dtype) return;
    problems_.add(fmt::format("tensor \"{}\" is {} in \"{}\" and {} in \"{}: {}\"", shown(logical),
                              tensor::name_of(first->second.dtype), first->second.where, tensor::name_of(found.dtype),
                              shown(file), shown(found.name)));
  }

  static void sort_as_found(const FoundFile& file, std::vector<ArrangedTensor>& tensors) {
    std::unordered_map<std::string, size_t> position;
    for (size_t i = 0; i < file.tensors.size(); ++i) position.emplace(file.tensors[i].name, i);
    std::sort(tensors.begin(), tensors.end(),
              [&](const auto& a, const auto& b) { return position.at(a.name) < position.at(b.name); });
  }

  const Naming::State& naming_;
  Problems& problems_;
  FoundState result_;
  std::map<std::string, Seen> dtypes_;
  std::set<std::string> prefixes_;
};

// The number of layers, when some are there from the first on.
int layers_found(const std::set<int>& found_layers) { return found_layers.empty() ? 0 : *found_layers.rbegin() + 1; }

// Parameters, and with them what an optimizer keeps for each of those that are trained.
std::vector<LogicalState> whole_states(const model::Model& model, WholeStates expected) {
  using Kind = model::StateKind;
  std::vector<LogicalState> states;
  for (const model::Param& param : model.params)
    states.push_back({.name = param.name, .shape = param.shape, .kind = param.buffer ? Kind::kBuffer : Kind::kParam});
  if (expected == WholeStates::kParams) return states;
  for (const Kind kind : {Kind::kMaster, Kind::kExpAvg, Kind::kExpAvgSq, Kind::kMomentum}) {
    for (const model::Param& param : model.params) {
      if (!param.buffer)
        states.push_back(
            {.name = fmt::format("{}.{}", param.name, model::name_of(kind)), .shape = param.shape, .kind = kind});
    }
  }
  return states;
}

}  // namespace

absl::StatusOr<FoundState> read_whole(const Naming& naming, std::span<const FoundFile> files, WholeStates expected,
                                      std::span<const std::string> drop) {
  const Naming::State& state = naming.state();
  SCALAI_CHECK(state.rules != nullptr, "whole tensors under our own names say nothing of a model");
  std::vector<LogicalState> states = whole_states(state.model, expected);
  SCALAI_ASSIGN_OR_RETURN(const Place place, internal::whole_place(state, states));
  SCALAI_ASSIGN_OR_RETURN(const std::vector<StoredInstance> instances,
                          internal::stored_instances(state, place, /*with_aliases=*/true));
  Problems problems;
  Matcher matcher(state, files, 0, 1, problems);
  StateReader reader(state, files, problems);
  std::set<int> layers;
  std::set<std::string> groups;  // of which something was found
  MissingTensors missing;
  for (const StoredInstance& instance : instances) {
    const std::optional<Matcher::Match> match = matcher.match(instance);
    if (match) {
      if (instance.layer >= 0) layers.insert(instance.layer);
      groups.insert(instance.group);
      missing.found(instance);
      reader.take(instance, *match, /*expected=*/false);
    } else {
      missing.add(instance,
                  fmt::format("\"{}\" {} is missing", shown(instance.tensor.name), text_of(instance.tensor.shape)));
    }
  }
  for (const MissingTensors::Missing& each : std::move(missing).take()) {
    if (each.group.empty() || groups.count(each.group) != 0) problems.add(each.text);
  }
  if (reader.empty()) problems.headline(fmt::format("no tensor has a name of naming \"{}\"", naming.name()));
  Unexpected unexpected{.drop = drop, .most_layers = layers_found(layers)};
  matcher.finish(reader.state(), unexpected);
  if (unexpected.most_layers == state.values.layers) {
    unexpected.add_hint(problems);
  } else if (problems.count() > 0) {
    problems.hint(
        fmt::format("hint: the files have {} layers, the sizes say {}", unexpected.most_layers, state.values.layers));
  }
  SCALAI_RETURN_IF_ERROR(problems.status());
  return reader.finish(std::move(states), files);
}

namespace {

// Of a group that no file has anything of, one line says so.
void report_missing(const std::vector<MissingTensors::Missing>& missing, const std::set<std::string>& groups,
                    Expect expect, Problems& problems) {
  std::set<std::string> absent;
  for (const MissingTensors::Missing& each : missing) {
    if (groups.count(each.group) != 0) {
      problems.add(each.text);
    } else if ((expect == Expect::kAll || each.group.empty()) && absent.insert(each.group).second) {
      problems.headline(each.group.empty()            ? "no file has a parameter under the expected name"
                        : each.group.starts_with('.') ? fmt::format("no file has any \"*{}\"", each.group)
                                                      : fmt::format("no file has \"{}\"", each.group));
      problems.add(each.text);
    }
  }
}

}  // namespace

absl::StatusOr<FoundState> read_ranks(const Naming& naming, const collection::Collection& collection,
                                      std::span<const FoundFile> files, Expect expect,
                                      std::span<const std::string> drop) {
  const Naming::State& state = naming.state();
  if (static_cast<int>(files.size()) != collection.ranks())
    return invalid(
        fmt::format("{} has {} ranks, {} files are given", collection.name, collection.ranks(), files.size()));
  SCALAI_ASSIGN_OR_RETURN(const internal::RankPlaces places, internal::RankPlaces::make(state, collection));
  Problems problems;
  StateReader reader(state, files, problems);
  MissingTensors missing;
  std::set<std::string> groups;  // of which something was found
  Unexpected unexpected{.drop = drop};
  for (int rank = 0; rank < collection.ranks(); ++rank) {
    const auto file = static_cast<size_t>(rank);
    const Place place = places.place(LogicalRank(rank));
    SCALAI_ASSIGN_OR_RETURN(const std::vector<StoredInstance> instances,
                            internal::stored_instances(state, place, /*with_aliases=*/true));
    Matcher matcher(state, files.subspan(file, 1), file, place.chunks, problems);
    for (const StoredInstance& instance : instances) {
      const std::optional<Matcher::Match> match = matcher.match(instance);
      if (match) {
        groups.insert(instance.group);
        missing.found(instance);
        reader.take(instance, *match, expect == Expect::kAll);
      } else {
        missing.add(instance,
                    fmt::format("{}: \"{}\" {} is missing", shown(files[file].name),
                                shown(instance.chunk + instance.tensor.name), text_of(instance.tensor.shape)));
      }
    }
    matcher.finish(reader.state(), unexpected);
  }
  report_missing(std::move(missing).take(), groups, expect, problems);
  unexpected.add_hint(problems);
  SCALAI_RETURN_IF_ERROR(problems.status());
  std::vector<LogicalState> states;
  for (const collection::LogicalTensor& tensor : collection.tensors)
    states.push_back({tensor.name, tensor.dtype, tensor.shape, tensor.kind});
  return reader.finish(std::move(states), files);
}

collection::Collection with_states(const collection::Collection& collection, std::span<const LogicalState> states) {
  std::unordered_map<std::string, DType> dtypes;
  for (const LogicalState& state : states) dtypes.emplace(state.name, state.dtype);
  collection::Collection result = collection;
  result.tensors.clear();
  for (const collection::LogicalTensor& tensor : collection.tensors) {
    const auto found = dtypes.find(tensor.name);
    if (found == dtypes.end()) continue;
    result.tensors.push_back(tensor);
    result.tensors.back().dtype = found->second;
  }
  return result;
}

}  // namespace scalai::store
