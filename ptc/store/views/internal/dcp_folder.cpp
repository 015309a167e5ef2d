#include "ptc/store/views/internal/dcp_folder.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "ptc/base/name_patterns.h"
#include "ptc/base/status.h"
#include "ptc/base/utf8.h"
#include "ptc/store/torch/dcp.h"
#include "ptc/store/torch/torch_file.h"
#include "ptc/store/views/internal/chunk_files.h"
#include "ptc/store/views/internal/dcp_buckets.h"
#include "ptc/store/views/internal/left_out.h"
#include "ptc/store/views/internal/opened_files.h"
#include "ptc/store/views/internal/optimizer_keys.h"

namespace scalai::store::internal {
namespace {

// Tensors under the names that a naming is asked for.
using Named = std::vector<std::pair<std::string, const DcpTensor*>>;

// Those that were in one dict, by the path of that dict.
std::map<std::vector<std::string>, Named> groups_of(const std::vector<DcpTensor>& tensors) {
  std::map<std::vector<std::string>, Named> groups;
  for (const DcpTensor& tensor : tensors)
    groups[{tensor.path.begin(), tensor.path.end() - 1}].emplace_back(tensor.path.back(), &tensor);
  return groups;
}

std::string dotted(const std::vector<std::string>& path) { return fmt::format("{}", fmt::join(path, ".")); }

// ("optim", "state", "layers.0.weight", "exp_avg"), or flat ("optim", "state.layers.0.weight.exp_avg"), or deeper, as
// in torch's tutorial ("app", "optim", "state", …): what follows "state"; "" for others.
std::string below_state(const std::vector<std::string>& path) {
  constexpr std::string_view kState = "state.";
  for (size_t i = 1; i < path.size(); ++i) {
    const std::string name =
        fmt::format("{}", fmt::join(path.begin() + static_cast<std::ptrdiff_t>(i), path.end(), "."));
    if (name.starts_with(kState)) return name.substr(kState.size());
  }
  return "";
}

// Of a moment the name of its parameter with our name of the state behind it; "" for others.
std::string moment_of(const std::vector<std::string>& path) {
  const std::string name = below_state(path);
  const size_t key = name.rfind('.') + 1;
  const std::optional<model::StateKind> kind = kind_of_key(std::string_view(name).substr(key));
  return kind && key > 0 ? name.substr(0, key) + std::string(model::name_of(*kind)) : "";
}

// With the moments of its parameters, wherever they were.
Named with_moments(Named group, const Named& moments) {
  std::set<std::string> names;
  for (const auto& [name, tensor] : group) names.insert(name);
  for (const auto& [moment, tensor] : moments) {
    if (names.count(moment.substr(0, moment.rfind('.'))) != 0) group.emplace_back(moment, tensor);
  }
  return group;
}

// ("optim", "state", "layers.0.weight", "step"), or flat: Adam's count of the steps of one parameter.
bool is_step(const DcpTensor& tensor) {
  if (!tensor.shape.empty() || tensor.dtype != tensor::DType::kF32) return false;
  return tensor.chunks.size() == 1 && below_state(tensor.path).ends_with(".step");
}

// The rows of a vocabulary's tensor, or of its optimizer's state, behind its words; how many rows it had, 0 where
// nothing is left out.
int64_t leave_padding_out(int64_t words, DcpTensor& tensor) {
  const std::string& name = tensor.path.back();
  const auto is_of = [&](std::string_view weight) {
    return name.starts_with(weight) && (name.size() == weight.size() || name[weight.size()] == '.');
  };
  const bool vocabulary = is_of("embedding.word_embeddings.weight") || is_of("output_layer.weight");
  if (!vocabulary || tensor.shape.empty() || tensor.shape.front() <= words) return 0;
  return std::exchange(tensor.shape.front(), words);
}

FoundFile as_found(const Named& group) {
  FoundFile file{.name = kDcpIndexName, .tensors = {}};
  for (const auto& [name, tensor] : group) file.tensors.push_back({name, tensor->dtype, tensor->shape});
  return file;
}

// The step that all parameters are at; -1: none says it, or they differ.
absl::StatusOr<int64_t> common_step(const Folder& folder, const std::vector<DcpTensor>& tensors) {
  std::map<std::string, ByteSourcePtr> files;
  std::optional<float> common;
  for (const DcpTensor& tensor : tensors) {
    if (!is_step(tensor)) continue;
    const DcpChunk& chunk = tensor.chunks.front();
    ByteSourcePtr& source = files[chunk.file];
    if (!source) {
      SCALAI_ASSIGN_OR_RETURN(source, folder.source(chunk.file));
    }
    if (chunk.begin > source->size() - chunk.bytes) return int64_t{-1};
    const PartSource part(source, chunk.begin, chunk.bytes);
    TorchFile stored;
    if (chunk.bare) {
      stored.tensors = {{"", tensor.dtype, {}, 0, chunk.bytes}};
    } else {
      SCALAI_ASSIGN_OR_RETURN(stored, read_torch_file(part));
    }
    float step = 0;
    if (stored.tensors.size() != 1 || stored.tensors.front().bytes != sizeof(step)) return int64_t{-1};
    SCALAI_RETURN_IF_ERROR(part.read(stored.tensors.front().offset, std::as_writable_bytes(std::span(&step, 1))));
    if (step != common.value_or(step)) return int64_t{-1};
    common = step;
  }
  constexpr float kMost = 1 << 24;  // all whole numbers below are floats
  const bool whole = common && *common >= 0 && *common <= kMost && *common == std::floor(*common);
  return whole ? static_cast<int64_t>(*common) : int64_t{-1};
}

absl::Status add_chunk(const DcpTensor& tensor, const DcpChunk& chunk, const ArrangedTensor& arranged,
                       ChunkFiles& files, Opened& opened) {
  SCALAI_ASSIGN_OR_RETURN(ChunkFiles::Located found, files.locate(tensor, chunk, arranged.name));
  OpenedFile& file = opened.files[found.file];
  for (const PlacedPiece& piece : arranged.pieces) {
    const auto part = piece_in_chunk(piece.piece, tensor.shape, chunk.offsets, chunk.sizes);
    if (!part.ok())
      return error_at(fmt::format("{}: tensor \"{}\"", file.source->name(), clipped(arranged.name, 120)),
                      part.status());
    if (*part) found.tensor.pieces.push_back({piece.logical, **part});
  }
  file.tensors.push_back(std::move(found.tensor));
  return absl::OkStatus();
}

// Counters, hyperparameters and random states.
bool is_never_trained(const DcpTensor& tensor) {
  const std::string name = dotted(tensor.path);
  const bool is_whole = tensor::name_of(tensor.dtype).find('F') == std::string_view::npos;  // a number
  const bool counts = tensor.shape.empty() && (is_whole || name.ends_with("step"));
  const bool random = tensor.dtype == tensor::DType::kU8 && name.find("rng") != std::string::npos;
  return counts || random || name.find(".param_groups.") != std::string::npos;
}

// Adds the tensors that are not taken. one_step: all steps are the same, which is known.
void add_others(const std::vector<DcpTensor>& tensors, const Named& taken, bool one_step, LeftOut& left) {
  std::set<const DcpTensor*> known;
  for (const auto& [name, tensor] : taken) known.insert(tensor);
  for (const DcpTensor& tensor : tensors) {
    if ((is_step(tensor) && one_step) || known.count(&tensor) != 0) continue;
    std::vector<std::string>& names = is_never_trained(tensor) && !is_step(tensor) ? left.ignored
                                      : below_state(tensor.path).empty()           ? left.others
                                                                                   : left.optimizer;
    names.push_back(dotted(tensor.path));
  }
}

// The tensors of one dict, and what they are under the naming.
struct Chosen {
  Named tensors;
  FoundState state;
};

// Of all dicts the one that has a whole model. Of several the outermost "model", for nobody can tell an average of the
// parameters, or a critic, from the model itself.
absl::StatusOr<Chosen> choose_model(const Folder& folder, const Naming& naming, const std::vector<DcpTensor>& tensors) {
  const std::string& place = folder.path();
  Named moments;
  for (const DcpTensor& tensor : tensors) {
    std::string moment = moment_of(tensor.path);
    if (!moment.empty()) moments.emplace_back(std::move(moment), &tensor);
  }
  const std::vector<std::string> usual = {"model"};
  std::optional<Chosen> found;
  std::vector<std::string> whole;
  absl::Status problem, of_usual;  // of the largest dict that is none, and of the usual one
  size_t most = 0;
  for (const auto& [path, group] : groups_of(tensors)) {
    if (std::all_of(group.begin(), group.end(),
                    [](const auto& each) { return !moment_of(each.second->path).empty() || is_step(*each.second); }))
      continue;
    const bool is_dropped = std::all_of(group.begin(), group.end(), [&](const auto& each) {
      return matches_any(dotted(each.second->path), folder.options().drop);
    });
    if (is_dropped) continue;
    const Named all = with_moments(group, moments);
    const FoundFile file = as_found(all);
    absl::StatusOr<FoundState> read =
        read_whole(naming, std::span(&file, 1), WholeStates::kOptimizer, folder.options().drop);
    if (!read.ok()) {
      if (path == usual) of_usual = read.status();
      if (group.size() > most) problem = read.status();
      most = std::max(most, group.size());
      continue;
    }
    whole.push_back(fmt::format("\"{}\"", dotted(path)));
    if (!found || path == usual) found = Chosen{all, *std::move(read)};
    if (path == usual) return *std::move(found);
  }
  // What lacks something under the usual name is not replaced by something else.
  if (!of_usual.ok()) return error_at(place, of_usual);
  if (!found && !problem.ok()) return error_at(place, problem);
  if (whole.size() > 1)
    return invalid(
        fmt::format("{}: {} are whole models, and none is \"model\"; save one of them", place, fmt::join(whole, ", ")));
  if (!found) return invalid(fmt::format("{}: has no tensors", place));
  return *std::move(found);
}

}  // namespace

absl::Status open_dcp(const Folder& folder, const std::string& index, const Naming& naming, Opened& opened) {
  auto tensors = parse_dcp_index(index);
  if (!tensors.ok()) return error_at(folder.path_of(kDcpIndexName), tensors.status());
  std::vector<BucketTensor> buckets;
  BucketLayout layout;
  if (naming.name() == "megatron") {
    buckets = take_buckets(*tensors);
    layout = bucket_layout(*tensors);
    tensors = without_stacks(*std::move(tensors));
    const int64_t words = opened.model->model.vocab;
    int64_t rows = 0;
    for (DcpTensor& tensor : *tensors) rows = std::max(rows, leave_padding_out(words, tensor));
    if (rows > 0) opened.info.notes.push_back(note_of_padding(rows, words));
  }
  SCALAI_RETURN_IF_ERROR(open_chunked(folder, *tensors, naming, opened));
  if (buckets.empty()) return absl::OkStatus();
  const absl::Status status = open_buckets(folder, naming, buckets, layout, Joined::kNo, opened);
  if (!absl::IsFailedPrecondition(status)) return status;
  LeftOut left;
  for (const BucketTensor& bucket : buckets) left.optimizer.push_back(dotted(bucket.tensor.path));
  return leave_out(folder.options(), folder.path(), std::move(left), opened, "the distributed optimizer's state",
                   message_of(status));
}

absl::Status open_chunked(const Folder& folder, const std::vector<DcpTensor>& tensors, const Naming& naming,
                          Opened& opened) {
  absl::StatusOr<Chosen> chosen = choose_model(folder, naming, tensors);
  if (!chosen.ok()) return chosen.status();
  const Named& taken = chosen->tensors;
  FoundState& state = chosen->state;
  SCALAI_ASSIGN_OR_RETURN(opened.info.step, common_step(folder, tensors));
  LeftOut left = left_out_of(state);
  add_others(tensors, taken, opened.info.step >= 0, left);
  SCALAI_RETURN_IF_ERROR(leave_out(folder.options(), folder.path(), std::move(left), opened, "state of an optimizer",
                                   "it is of no parameter of the model, or steps differ"));
  std::map<std::string, const ArrangedTensor*> arranged;
  for (const ArrangedTensor& tensor : state.files.front().tensors) arranged[tensor.name] = &tensor;
  ChunkFiles files(folder, opened);
  ProblemList problems;
  for (const auto& [name, tensor] : taken) {
    const auto found = arranged.find(name);
    if (found == arranged.end() || state.aliases.front().count(name) != 0) continue;
    for (const DcpChunk& chunk : tensor->chunks) {
      const absl::Status added = add_chunk(*tensor, chunk, *found->second, files, opened);
      if (!added.ok() && !absl::IsInvalidArgument(added)) return added;
      if (!added.ok()) problems.add(added);
    }
  }
  files.finish();
  opened.states = std::move(state.states);
  return problems.status();
}

}  // namespace scalai::store::internal
