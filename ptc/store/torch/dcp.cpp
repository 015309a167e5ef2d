#include "ptc/store/torch/dcp.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <utility>

#include "ptc/base/status.h"
#include "ptc/base/utf8.h"
#include "ptc/store/safetensors/files.h"
#include "ptc/store/torch/internal/torch_values.h"
#include "ptc/store/torch/pickle.h"

namespace scalai::store {
namespace {

using internal::dtype_of;
using internal::numbers_of;
using Kind = PickleValue::Kind;

class IndexReader {
 public:
  explicit IndexReader(const PickleValue& root) : root_(root) {}

  absl::StatusOr<std::vector<DcpTensor>> read() {
    const PickleValue* const tensors = root_.attribute("state_dict_metadata");
    const PickleValue* const places = root_.attribute("storage_data");
    if (tensors == nullptr || tensors->kind != Kind::kDict || places == nullptr || places->kind != Kind::kDict)
      return invalid("no index of torch.distributed.checkpoint");
    for (const auto& [key, place] : places->pairs) add_place(*key, *place);
    for (const auto& [key, tensor] : tensors->pairs) {
      if (tensor->kind == Kind::kCall && tensor->callee->text.ends_with(".TensorStorageMetadata"))
        add_tensor(key->text, *tensor);
    }
    if (!problems_.empty()) return invalid(fmt::format("{}", fmt::join(problems_, "\n")));
    std::sort(result_.begin(), result_.end(), [](const auto& a, const auto& b) { return a.path < b.path; });
    return std::move(result_);
  }

 private:
  struct Place {
    std::string file;
    int64_t begin = 0;
    int64_t bytes = 0;
  };

  void problem(const std::string& tensor, std::string_view text) {
    if (problems_.size() < internal::kMostProblems)
      problems_.push_back(fmt::format("tensor \"{}\" {}", clipped(tensor, 160), text));
  }

  void add_place(const PickleValue& key, const PickleValue& place) {
    const PickleValue* const name = key.attribute("fqn");
    const PickleValue* const offset = key.attribute("offset");
    const PickleValue* const file = place.attribute("relative_path");
    const PickleValue* const begin = place.attribute("offset");
    const PickleValue* const bytes = place.attribute("length");
    if (name == nullptr || offset == nullptr || file == nullptr || begin == nullptr || bytes == nullptr) return;
    const auto at = numbers_of(*offset);
    if (!at) return;  // not of a tensor
    places_[{name->text, *at}] = {file->text, begin->number, bytes->number};
  }

  void add_tensor(const std::string& name, const PickleValue& value) {
    const PickleValue* const properties = value.attribute("properties");
    const PickleValue* const size = value.attribute("size");
    const PickleValue* const chunks = value.attribute("chunks");
    const PickleValue* const state = properties == nullptr ? nullptr : properties->state;
    const auto shape = size == nullptr ? std::nullopt : numbers_of(*size);
    if (state == nullptr || state->items.empty() || !shape || chunks == nullptr) return problem(name, "is damaged");
    const auto dtype = dtype_of(state->items.front()->text);
    if (!dtype)
      return problem(name, fmt::format("is of {}, which safetensors has not", clipped(state->items.front()->text, 80)));
    DcpTensor tensor{.path = path_of(name), .dtype = *dtype, .shape = *shape, .chunks = {}};
    for (const PickleValue* const chunk : chunks->items) {
      if (!add_chunk(name, *chunk, tensor)) return;
    }
    result_.push_back(std::move(tensor));
  }

  bool add_chunk(const std::string& name, const PickleValue& value, DcpTensor& tensor) {
    const PickleValue* const offsets = value.attribute("offsets");
    const PickleValue* const sizes = value.attribute("sizes");
    const auto at = offsets == nullptr ? std::nullopt : numbers_of(*offsets);
    const auto extents = sizes == nullptr ? std::nullopt : numbers_of(*sizes);
    const size_t rank = tensor.shape.size();
    if (!at || !extents || at->size() != rank || extents->size() != rank) return problem(name, "is damaged"), false;
    bool empty = false;
    for (size_t dim = 0; dim < rank; ++dim) {
      const int64_t extent = tensor.shape[dim];
      if ((*at)[dim] < 0 || (*extents)[dim] < 0 || (*at)[dim] > extent || (*extents)[dim] > extent - (*at)[dim])
        return problem(name, fmt::format("has a chunk [{}] at [{}], which is not in [{}]", fmt::join(*extents, ", "),
                                         fmt::join(*at, ", "), fmt::join(tensor.shape, ", "))),
               false;
      empty = empty || (*extents)[dim] == 0;
    }
    if (empty) return true;
    const auto place = places_.find({name, *at});
    if (place == places_.end())
      return problem(name, fmt::format("has a chunk at [{}] without a place", fmt::join(*at, ", "))), false;
    if (!is_inside(place->second.file) || place->second.begin < 0 || place->second.bytes < 0)
      return problem(name, fmt::format("is in \"{}\", which is not in the folder", clipped(place->second.file, 80))),
             false;
    constexpr int64_t kMostElements = int64_t{1} << 56;
    int64_t elements = 1;
    for (const int64_t extent : *extents) {
      if (__builtin_mul_overflow(elements, extent, &elements) || elements > kMostElements)
        return problem(name, fmt::format("has a chunk [{}], which nothing can hold", fmt::join(*extents, ", "))), false;
    }
    tensor.chunks.push_back({*at, *extents, place->second.file, place->second.begin, place->second.bytes, elements, 0});
    return true;
  }

  // The keys that make up the name, where the index has them.
  std::vector<std::string> path_of(const std::string& name) const {
    const PickleValue* const paths = root_.attribute("planner_data");
    const PickleValue* const path = paths == nullptr ? nullptr : paths->find(name);
    if (path == nullptr || path->kind != Kind::kTuple) return {name};
    std::vector<std::string> keys;
    for (const PickleValue* const key : path->items)
      keys.push_back(key->kind == Kind::kInt ? fmt::format("{}", key->number) : key->text);
    return keys;
  }

  const PickleValue& root_;
  std::map<std::pair<std::string, std::vector<int64_t>>, Place> places_;
  std::vector<DcpTensor> result_;
  std::vector<std::string> problems_;
};

}  // namespace

namespace {

// Element `index` of a tensor's first dimension, under another name.
DcpTensor element_of(const DcpTensor& stack, int64_t index, const std::string& name) {
  DcpTensor tensor{
      .path = stack.path, .dtype = stack.dtype, .shape = {stack.shape.begin() + 1, stack.shape.end()}, .chunks = {}};
  tensor.path.back() = name;
  for (const DcpChunk& chunk : stack.chunks) {
    if (index < chunk.offsets.front() || index >= chunk.offsets.front() + chunk.sizes.front()) continue;
    DcpChunk part = chunk;
    part.offsets.erase(part.offsets.begin());
    part.sizes.erase(part.sizes.begin());
    const int64_t volume = std::accumulate(part.sizes.begin(), part.sizes.end(), int64_t{1}, std::multiplies<>());
    part.skip += (index - chunk.offsets.front()) * volume;
    tensor.chunks.push_back(std::move(part));
  }
  return tensor;
}

// The elements of those tensors whose names have `mark`; `name_of` puts the index into it.
template <class NameOf>
std::vector<DcpTensor> split_stacks(std::vector<DcpTensor> tensors, const NameOf& name_of) {
  constexpr int64_t kMostElements = 1 << 19;  // of all; a stack beyond them stays one
  std::vector<DcpTensor> result;
  for (DcpTensor& tensor : tensors) {
    const bool stack = !tensor.shape.empty() && tensor.shape.front() <= kMostElements - std::ssize(result) &&
                       name_of(tensor.path.back(), 0);
    for (int64_t i = 0; stack && i < tensor.shape.front(); ++i)
      result.push_back(element_of(tensor, i, *name_of(tensor.path.back(), i)));
    if (!stack) result.push_back(std::move(tensor));
  }
  return result;
}

}  // namespace

namespace {

// "optimizer.state.exp_avg.decoder.…" ─► "decoder.….exp_avg"; also where it is one of several optimizers,
// "chained_1.…", which have different parameters.
std::string with_suffix(const std::string& key) {
  constexpr std::string_view kChained = "chained_";
  const size_t number = key.find_first_not_of("0123456789", kChained.size());
  const bool chained = key.starts_with(kChained) && number != std::string::npos && key[number] == '.';
  const std::string name = chained ? key.substr(number + 1) : key;
  constexpr std::pair<std::string_view, std::string_view> kStates[] = {
      {"optimizer.state.exp_avg.", ".exp_avg"},
      {"optimizer.state.exp_avg_sq.", ".exp_avg_sq"},
      {"optimizer.state.momentum_buffer.", ".momentum"},
      {"optimizer.state.param.", ".master"},
      {"optimizer.state.fp32_param.", ".master"}};
  for (const auto& [prefix, suffix] : kStates) {
    if (name.starts_with(prefix)) return name.substr(prefix.size()) + std::string(suffix);
  }
  return key;
}

// A tensor may be in the index under several names; only the first is taken.
void leave_repeated_out(std::vector<DcpTensor>& tensors) {
  std::set<std::pair<std::string, int64_t>> first_chunks;
  std::erase_if(tensors, [&](const DcpTensor& tensor) {
    if (tensor.chunks.empty()) return false;
    const DcpChunk& chunk = tensor.chunks.front();
    return chunk.bytes > 0 && !first_chunks.emplace(chunk.file, chunk.begin).second;
  });
}

}  // namespace

std::vector<DcpTensor> without_stacks(std::vector<DcpTensor> tensors) {
  leave_repeated_out(tensors);
  for (DcpTensor& tensor : tensors) tensor.path.back() = with_suffix(tensor.path.back());
  const auto in_layer = [](const std::string& name, int64_t layer) -> std::optional<std::string> {
    constexpr std::string_view kLayers = "decoder.layers.";
    const bool counted = name.size() > kLayers.size() && '0' <= name[kLayers.size()] && name[kLayers.size()] <= '9';
    if (!name.starts_with(kLayers) || counted) return std::nullopt;
    return fmt::format("{}{}.{}", kLayers, layer, name.substr(kLayers.size()));
  };
  const auto of_expert = [](const std::string& name, int64_t expert) -> std::optional<std::string> {
    constexpr std::string_view kExperts = ".experts.experts.";
    const size_t at = name.find(kExperts);
    if (at == std::string::npos) return std::nullopt;
    return fmt::format("{}.experts.local_experts.{}.{}", name.substr(0, at), expert, name.substr(at + kExperts.size()));
  };
  return split_stacks(split_stacks(std::move(tensors), in_layer), of_expert);
}

absl::StatusOr<std::optional<DcpObject>> find_dcp_object(std::string_view bytes, const std::string& name) {
  SCALAI_ASSIGN_OR_RETURN(const Pickle pickle, Pickle::read(bytes));
  const PickleValue* const places = pickle.root().attribute("storage_data");
  if (places == nullptr || places->kind != Kind::kDict) return invalid("no index of torch.distributed.checkpoint");
  for (const auto& [key, place] : places->pairs) {
    const PickleValue* const of = key->attribute("fqn");
    const PickleValue* const file = place->attribute("relative_path");
    const PickleValue* const begin = place->attribute("offset");
    const PickleValue* const length = place->attribute("length");
    if (of == nullptr || of->text != name || file == nullptr || begin == nullptr || length == nullptr) continue;
    if (!is_inside(file->text) || begin->number < 0 || length->number < 0)
      return invalid(fmt::format("object \"{}\" is not in the folder", clipped(name, 80)));
    return DcpObject{name, file->text, begin->number, length->number};
  }
  return std::optional<DcpObject>();
}

absl::StatusOr<std::vector<DcpTensor>> parse_dcp_index(std::string_view bytes) {
  SCALAI_ASSIGN_OR_RETURN(const Pickle pickle, Pickle::read(bytes));
  return IndexReader(pickle.root()).read();
}

}  // namespace scalai::store
