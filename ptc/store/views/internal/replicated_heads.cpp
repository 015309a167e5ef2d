#include "ptc/store/views/internal/replicated_heads.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <unordered_map>

#include "ptc/base/json.h"
#include "ptc/base/status.h"
#include "ptc/base/utf8.h"
#include "ptc/store/naming/arrange.h"

namespace scalai::store::internal {
namespace {

constexpr const char* kSize = "kv_heads";  // in families

// Rows by group: its queries, its key, its value; each of head_dim rows.
struct Heads {
  int64_t groups = 1, queries = 1, head_dim = 1;
  int64_t copies = 1;  // of each group

  int64_t rows() const { return groups * copies * (queries / copies + 2) * head_dim; }
  // Where the head at row `first` is among the replicated ones.
  std::vector<int64_t> places(int64_t first) const {
    const int64_t in_group = queries + 2, head = first / head_dim;
    const int64_t group = head / in_group, at = head % in_group;
    const int64_t few = queries / copies, step = (few + 2) * head_dim;
    const int64_t begin = group * copies * step;
    if (at < queries) return {begin + at / few * step + at % few * head_dim};
    std::vector<int64_t> all;
    for (int64_t copy = 0; copy < copies; ++copy) all.push_back(begin + copy * step + (few + at - queries) * head_dim);
    return all;
  }
};

// The pieces of one: the first copy of each head, and the others by copy.
void split_piece(const Heads& heads, const PlacedPiece& placed, std::vector<PlacedPiece>& first,
                 std::vector<std::vector<PlacedPiece>>& others) {
  const tensor::Box& box = placed.piece.box;
  for (int64_t row = box.lo[0]; row < box.hi[0];) {
    const int64_t head = row / heads.head_dim * heads.head_dim;
    const int64_t end = std::min(box.hi[0], head + heads.head_dim);
    const std::vector<int64_t> places = heads.places(head);
    for (size_t copy = 0; copy < places.size(); ++copy) {
      PlacedPiece part = placed;
      part.piece.box.lo[0] = places[copy] + row - head;
      part.piece.box.hi[0] = places[copy] + end - head;
      part.piece.offset += (row - box.lo[0]) * placed.piece.strides[0];
      (copy == 0 ? first : others[copy - 1]).push_back(std::move(part));
    }
    row = end;
  }
}

absl::Status edit_config(int64_t kv_heads, std::string& config) {
  constexpr const char* kKey = "num_key_value_heads";
  if (config.empty()) return absl::OkStatus();
  SCALAI_ASSIGN_OR_RETURN(nlohmann::json document, read_json(config));
  if (!document.contains(kKey))
    return invalid(fmt::format("--kv=replicate: config.json has no {}, which would have to say {}", kKey, kv_heads));
  document[kKey] = kv_heads;
  config = json_text(document, {.indent = 2}) + "\n";
  return absl::OkStatus();
}

bool is_optimizer(const LogicalState& state) {
  using Kind = model::StateKind;
  return state.kind == Kind::kMaster || state.kind == Kind::kPrevious || state.kind == Kind::kExpAvg ||
         state.kind == Kind::kExpAvgSq || state.kind == Kind::kMomentum;
}

void drop_states(Opened& opened) {
  std::set<std::string> dropped;
  for (const LogicalState& state : opened.states) {
    if (is_optimizer(state)) dropped.insert(state.name);
  }
  if (dropped.empty()) return;
  std::erase_if(opened.states, is_optimizer);
  for (OpenedFile& file : opened.files) {
    for (OpenedTensor& tensor : file.tensors)
      std::erase_if(tensor.pieces, [&](const PlacedPiece& piece) { return dropped.count(piece.logical) != 0; });
  }
  opened.info.notes.push_back(fmt::format("left out: {} tensors of the optimizer", dropped.size()));
}

// States that are cut by heads otherwise than as rows of one tensor, such as a norm over all keys.
absl::Status check_shapes(const Opened& opened, const model::Model& model) {
  std::unordered_map<std::string_view, const tensor::Shape*> shapes;
  for (const LogicalState& state : opened.states) shapes.emplace(state.name, &state.shape);
  for (const model::Param& param : model.params) {
    const auto shape = shapes.find(param.name);
    if (shape == shapes.end() || *shape->second == param.shape) continue;
    return invalid(
        fmt::format("--kv=replicate: \"{}\" is of all heads of keys and values together, and cannot be "
                    "replicated by head; leave the option out",
                    clipped(param.name, 120)));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status replicate_heads(int64_t kv_heads, bool drop_optimizer, Opened& opened) {
  if (!opened.model || !opened.model->family) return invalid("--kv=replicate: the model's family has to be known");
  Sizes sizes = opened.model->file.sizes;
  const auto size = sizes.numbers.find(kSize);
  if (size == sizes.numbers.end() || size->second >= kv_heads) return absl::OkStatus();
  if (drop_optimizer) drop_states(opened);
  SCALAI_ASSIGN_OR_RETURN(const Naming naming, Naming::of(*opened.model->family, "hf", sizes));
  const int64_t groups = size->second;
  if (kv_heads % groups != 0)
    return invalid(
        fmt::format("--kv=replicate: tp{} is not a multiple of the {} heads of keys and values", kv_heads, groups));
  std::map<std::string, Heads> changed;
  for (LogicalState& state : opened.states) {
    const std::optional<HeadRows> rows = naming.head_rows(state.name);
    if (!rows) continue;
    const Heads heads{groups, rows->queries, rows->head_dim, kv_heads / groups};
    if (heads.queries % heads.copies != 0)
      return invalid(
          fmt::format("--kv=replicate: tp{} does not divide the {} heads", kv_heads, groups * heads.queries));
    changed[state.name] = heads;
    std::vector<int64_t> shape = {heads.rows()};
    for (int dim = 1; dim < state.shape.rank(); ++dim) shape.push_back(state.shape[dim]);
    state.shape = tensor::Shape(std::span(shape));
  }
  const auto other = std::find_if(opened.states.begin(), opened.states.end(), is_optimizer);
  if (other != opened.states.end())
    return invalid(
        fmt::format("--kv=replicate: copies of heads have no state such as \"{}\"; --drop=optimizer leaves "
                    "it out",
                    clipped(other->name, 120)));
  std::vector<OpenedFile> copies;
  for (OpenedFile& file : opened.files) {
    for (OpenedTensor& tensor : file.tensors) {
      std::vector<PlacedPiece> first;
      std::vector<std::vector<PlacedPiece>> others(static_cast<size_t>(kv_heads / groups - 1));
      for (const PlacedPiece& placed : tensor.pieces) {
        const auto heads = changed.find(placed.logical);
        if (heads == changed.end())
          first.push_back(placed);
        else
          split_piece(heads->second, placed, first, others);
      }
      tensor.pieces = std::move(first);
      // In files of their own, for a stored tensor has each of its elements once.
      for (std::vector<PlacedPiece>& pieces : others) {
        if (pieces.empty()) continue;
        OpenedTensor copy = tensor;
        copy.pieces = std::move(pieces);
        copies.push_back(
            {.name = file.name, .source = file.source, .checksum = "", .tensors = {copy}, .derived = true});
      }
    }
  }
  for (OpenedFile& file : copies) opened.files.push_back(std::move(file));
  sizes.numbers[kSize] = kv_heads;
  SCALAI_ASSIGN_OR_RETURN(opened.model->model, opened.model->family->build_model(sizes, opened.model->model.name));
  SCALAI_RETURN_IF_ERROR(check_shapes(opened, opened.model->model));
  opened.model->file.sizes = sizes;
  opened.info.notes.push_back(
      fmt::format("each of {} heads of keys and values is there {} times", groups, kv_heads / groups));
  return edit_config(kv_heads, opened.info.config);
}

}  // namespace scalai::store::internal
