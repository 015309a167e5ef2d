#include "ptc/store/views/internal/numbered_states.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include "ptc/base/status.h"
#include "ptc/base/utf8.h"
#include "ptc/state/tensor/convert.h"
#include "ptc/store/views/internal/bucket_run.h"
#include "ptc/store/views/internal/optimizer_keys.h"

namespace scalai::store::internal {
namespace {

using model::StateKind;

// Of a state: the optimizer and the number of its parameter; of masters also the group.
struct Numbered {
  StateKind kind = StateKind::kMaster;
  int optimizer = 0, group = 0, number = 0;
};

bool take(std::string_view& text, std::string_view what) {
  if (!text.starts_with(what)) return false;
  text.remove_prefix(what.size());
  return true;
}

bool take(std::string_view& text, int& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || number < 0) return false;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return true;
}

std::optional<Numbered> numbered(std::string_view name) {
  Numbered found;
  if (!take(name, "optimizer.")) return std::nullopt;
  if (take(name, found.optimizer) && !take(name, ".")) return std::nullopt;
  if (take(name, "fp32_from_fp16_params.")) {
    const bool whole = take(name, found.group) && take(name, ".") && take(name, found.number) && name.empty();
    return whole ? std::optional(found) : std::nullopt;
  }
  if (!take(name, "optimizer.state.") || !take(name, found.number)) return std::nullopt;
  const std::optional<StateKind> kind = take(name, ".") ? kind_of_key(name) : std::nullopt;
  found.kind = kind.value_or(found.kind);
  return kind ? std::optional(found) : std::nullopt;
}

// The first and last elements, cast.
absl::StatusOr<std::string> ends_of(const OpenedFile& file, const OpenedTensor& tensor, tensor::DType as) {
  constexpr int64_t kMost = 32;
  const int64_t count = std::min(tensor.elements, kMost), size = tensor::size_of(tensor.dtype);
  std::string ends;
  for (const int64_t begin : {int64_t{0}, tensor.elements - count}) {
    std::vector<std::byte> stored(static_cast<size_t>(count * size));
    SCALAI_RETURN_IF_ERROR(file.source->read(tensor.offset + begin * size, stored));
    std::vector<std::byte> cast(static_cast<size_t>(count * tensor::size_of(as)));
    tensor::convert(tensor.dtype, as, count, stored.data(), cast.data());
    ends.append(reinterpret_cast<const char*>(cast.data()), cast.size());
  }
  return ends;
}

// One file's states, each with the parameter of the same file that it is of; both are indices among its tensors.
struct Assigned {
  StateKind kind = StateKind::kMaster;
  size_t state = 0, param = 0;
};

// The number of the virtual stage that a stored name begins with, "model1.…"; 0: it has none.
int chunk_of_name(std::string_view name) {
  int chunk = 0;
  return take(name, "model") && take(name, chunk) ? chunk : 0;
}

// Puts parameters into the order in which Megatron's modules have them. Their order in the file says nothing: older
// torch sorted storages by name, 0, 1, 10, 2. False: it is not known.
bool sort_by_registration(const OpenedFile& file, std::vector<size_t>& params) {
  const auto less = [&](Experts experts) {
    return [&file, experts](size_t a, size_t b) {
      const std::string &first = file.tensors[a].name, &second = file.tensors[b].name;
      return std::pair(chunk_of_name(first), registration_order(first, experts)) <
             std::pair(chunk_of_name(second), registration_order(second, experts));
    };
  };
  std::sort(params.begin(), params.end(), less(Experts::kSequential));
  for (size_t i = 1; i < params.size(); ++i) {
    for (const Experts experts : {Experts::kSequential, Experts::kGrouped}) {
      if (!less(experts)(params[i - 1], params[i])) return false;
    }
  }
  return true;
}

// What looks alike: parameters, and the masters that round to them, by their place in (optimizer, group, number).
struct Alike {
  std::vector<size_t> params;
  std::map<std::tuple<int, int, int>, size_t> masters;
};

class FileStates {
 public:
  FileStates(const OpenedFile& file, const std::set<std::string>& trained) : file_(file) {
    for (size_t i = 0; i < file.tensors.size(); ++i) {
      const OpenedTensor& tensor = file.tensors[i];
      const auto found = tensor.pieces.empty() ? numbered(tensor.name) : std::nullopt;
      if (found) states_.emplace_back(i, *found);
      if (!tensor.pieces.empty() && !tensor.alias && trained.count(tensor.pieces.front().logical) != 0)
        params_.push_back(i);
    }
  }

  bool empty() const { return states_.empty(); }

  absl::StatusOr<std::vector<Assigned>> assign() const {
    SCALAI_ASSIGN_OR_RETURN(const auto of_master, masters());
    std::vector<Assigned> result;
    // Numbers of moments count on where those of the group before end.
    std::map<std::pair<int, int>, size_t> param_of;  // by optimizer and number
    std::map<int, int> next;
    for (const auto& [place, assigned] : of_master) {
      const int optimizer = std::get<0>(place);
      param_of[{optimizer, next[optimizer]++}] = assigned.param;
      result.push_back(assigned);
    }
    std::map<StateKind, size_t> counts;
    for (const auto& [index, state] : states_) {
      if (state.kind == StateKind::kMaster) continue;
      const auto param = param_of.find({state.optimizer, state.number});
      if (param == param_of.end() || file_.tensors[index].elements != file_.tensors[param->second].elements)
        return absl::FailedPreconditionError(
            fmt::format("\"{}\" is of no parameter with a master", clipped(file_.tensors[index].name, 120)));
      result.push_back({state.kind, index, param->second});
      ++counts[state.kind];
    }
    for (const auto& [kind, count] : counts) {
      if (count != params_.size())
        return absl::FailedPreconditionError(
            fmt::format("{} of {} parameters have \"{}\"", count, params_.size(), model::name_of(kind)));
    }
    return result;
  }

 private:
  absl::StatusOr<std::map<std::tuple<int, int, int>, Assigned>> masters() const {
    std::map<std::tuple<tensor::DType, int64_t, std::string>, Alike> alike;
    std::set<tensor::DType> dtypes;
    for (const size_t i : params_) {
      const OpenedTensor& param = file_.tensors[i];
      SCALAI_ASSIGN_OR_RETURN(std::string ends, ends_of(file_, param, param.dtype));
      alike[{param.dtype, param.elements, std::move(ends)}].params.push_back(i);
      dtypes.insert(param.dtype);
    }
    for (const auto& [index, state] : states_) {
      if (state.kind != StateKind::kMaster) continue;
      const OpenedTensor& master = file_.tensors[index];
      Alike* found = nullptr;
      for (const tensor::DType dtype : dtypes) {
        if (!tensor::convertible(master.dtype, dtype)) continue;
        SCALAI_ASSIGN_OR_RETURN(std::string ends, ends_of(file_, master, dtype));
        const auto same = alike.find({dtype, master.elements, std::move(ends)});
        if (same != alike.end()) found = &same->second;
      }
      if (found == nullptr)
        return absl::FailedPreconditionError(
            fmt::format("\"{}\" is no master of a parameter", clipped(master.name, 120)));
      found->masters[{state.optimizer, state.group, state.number}] = index;
    }
    std::map<std::tuple<int, int, int>, Assigned> result;
    for (auto& [key, each] : alike) {
      const auto group_of = [](const auto& master) {
        return std::pair(std::get<0>(master.first), std::get<1>(master.first));
      };
      const std::string name = file_.tensors[each.params.front()].name;
      if (each.masters.size() != each.params.size())
        return absl::FailedPreconditionError(fmt::format("{} parameters are like \"{}\", and {} masters",
                                                         each.params.size(), clipped(name, 120), each.masters.size()));
      if (group_of(*each.masters.begin()) != group_of(*each.masters.rbegin()))
        return absl::FailedPreconditionError(
            fmt::format("parameters like \"{}\" are in several groups", clipped(name, 120)));
      if (!sort_by_registration(file_, each.params))
        return absl::FailedPreconditionError(
            fmt::format("parameters like \"{}\" are in no order known here", clipped(name, 120)));
      size_t next = 0;
      for (const auto& [place, index] : each.masters) result[place] = {StateKind::kMaster, index, each.params[next++]};
    }
    return result;
  }

  const OpenedFile& file_;
  std::vector<size_t> params_;
  std::vector<std::pair<size_t, Numbered>> states_;
};

}  // namespace

absl::Status open_numbered_states(Opened& opened) {
  std::set<std::string> trained;
  for (const LogicalState& state : opened.states) {
    if (state.kind == StateKind::kParam) trained.insert(state.name);
  }
  std::vector<std::vector<Assigned>> assigned(opened.files.size());
  std::map<StateKind, std::set<std::pair<size_t, tensor::DType>>> kinds;  // the files that have them
  for (size_t f = 0; f < opened.files.size(); ++f) {
    const FileStates states(opened.files[f], trained);
    if (states.empty()) continue;
    SCALAI_ASSIGN_OR_RETURN(assigned[f], states.assign());
    for (const Assigned& each : assigned[f]) kinds[each.kind].emplace(f, opened.files[f].tensors[each.state].dtype);
  }
  for (const auto& [kind, files] : kinds) {
    if (files.size() != opened.files.size())
      return absl::FailedPreconditionError(fmt::format("the ranks differ in \"{}\"", model::name_of(kind)));
  }
  for (size_t f = 0; f < opened.files.size(); ++f) {
    std::vector<OpenedTensor>& tensors = opened.files[f].tensors;
    for (const Assigned& each : assigned[f]) {
      tensors[each.state].pieces = tensors[each.param].pieces;
      for (PlacedPiece& placed : tensors[each.state].pieces)
        placed.logical += fmt::format(".{}", model::name_of(each.kind));
    }
  }
  const std::vector<LogicalState> params = opened.states;
  for (const auto& [kind, files] : kinds) {
    for (const LogicalState& param : params) {
      if (param.kind != StateKind::kParam) continue;
      opened.states.push_back(
          {fmt::format("{}.{}", param.name, model::name_of(kind)), files.begin()->second, param.shape, kind});
    }
  }
  return absl::OkStatus();
}

}  // namespace scalai::store::internal
