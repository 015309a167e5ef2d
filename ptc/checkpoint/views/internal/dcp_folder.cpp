#include "ptc/checkpoint/views/internal/dcp_folder.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <utility>

#include "ptc/base/status.h"
#include "ptc/base/utf8.h"
#include "ptc/checkpoint/torch/dcp.h"
#include "ptc/checkpoint/torch/torch_file.h"
#include "ptc/checkpoint/views/internal/opened_files.h"

namespace scalai::checkpoint::internal {
namespace {

std::vector<int64_t> dense_strides(const std::vector<int64_t>& shape) {
  std::vector<int64_t> strides(shape.size(), 1);
  for (size_t dim = shape.size(); dim-- > 1;) strides[dim - 1] = strides[dim] * shape[dim];
  return strides;
}

int64_t volume_of(const std::vector<int64_t>& shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

// A stretch of another source.
class PartSource final : public ByteSource {
 public:
  PartSource(ByteSourcePtr whole, int64_t begin, int64_t bytes)
      : whole_(std::move(whole)), begin_(begin), bytes_(bytes) {}
  const std::string& name() const override { return whole_->name(); }
  int64_t size() const override { return bytes_; }
  absl::Status read(int64_t offset, std::span<std::byte> dst) const override {
    SCALAI_CHECK(offset >= 0 && static_cast<int64_t>(dst.size()) <= bytes_ - offset, name());
    return whole_->read(begin_ + offset, dst);
  }

 private:
  ByteSourcePtr whole_;
  int64_t begin_;
  int64_t bytes_;
};

// Tensors under the names that a naming is asked for.
using Named = std::vector<std::pair<std::string, const DcpTensor*>>;

// Those that were in one dict, by the path of that dict.
std::map<std::vector<std::string>, Named> groups_of(const std::vector<DcpTensor>& tensors) {
  std::map<std::vector<std::string>, Named> groups;
  for (const DcpTensor& tensor : tensors)
    groups[{tensor.path.begin(), tensor.path.end() - 1}].emplace_back(tensor.path.back(), &tensor);
  return groups;
}

// ("optim", "state", "layers.0.weight", "exp_avg"), or flat ("optim", "state.layers.0.weight.exp_avg"): the name of the
// parameter with the moment behind it; "" for others.
std::string moment_of(const std::vector<std::string>& path) {
  constexpr std::string_view kState = "state.";
  const std::string name = fmt::format("{}", fmt::join(path.begin() + 1, path.end(), "."));
  const bool moment = name.ends_with(".exp_avg") || name.ends_with(".exp_avg_sq");
  return path.size() > 1 && moment && name.starts_with(kState) ? name.substr(kState.size()) : "";
}

// With the moments of its parameters, wherever they were.
Named with_moments(Named group, const std::vector<DcpTensor>& tensors) {
  std::set<std::string> names;
  for (const auto& [name, tensor] : group) names.insert(name);
  for (const DcpTensor& tensor : tensors) {
    const std::string moment = moment_of(tensor.path);
    if (!moment.empty() && names.count(moment.substr(0, moment.rfind('.'))) != 0) group.emplace_back(moment, &tensor);
  }
  return group;
}

// ("optim", "state", "layers.0.weight", "step"), or flat: Adam's count of the steps of one parameter.
bool is_step(const DcpTensor& tensor) {
  const std::string name = fmt::format("{}", fmt::join(tensor.path, "."));
  return tensor.shape.empty() && tensor.dtype == tensor::DType::kF32 && tensor.chunks.size() == 1 &&
         name.find("state.") != std::string::npos && name.ends_with(".step");
}

// The rows of a vocabulary's tensor behind its words; how many rows it had, 0 where nothing is left out.
int64_t leave_padding_out(int64_t words, DcpTensor& tensor) {
  const std::string& name = tensor.path.back();
  const bool vocabulary = name == "embedding.word_embeddings.weight" || name == "output_layer.weight";
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

// The files that chunks are in, opened when the first is asked for.
class ChunkFiles {
 public:
  ChunkFiles(const Folder& folder, Opened& opened) : folder_(folder), opened_(opened) {}

  absl::Status add(const DcpTensor& tensor, const DcpChunk& chunk, const ArrangedTensor& arranged) {
    SCALAI_ASSIGN_OR_RETURN(const size_t file, file_of(chunk.file));
    const ByteSourcePtr& source = opened_.files[file].source;
    const std::string place = fmt::format("{}: tensor \"{}\"", source->name(), clipped(arranged.name, 120));
    if (chunk.begin > source->size() - chunk.bytes)
      return invalid(fmt::format("{}: a chunk of {} bytes at {} is beyond the end", place, chunk.bytes, chunk.begin));
    const int64_t size = tensor::size_of(tensor.dtype);
    TorchFile stored;
    if (chunk.bare) {
      stored.tensors = {{arranged.name, tensor.dtype, chunk.sizes, 0, chunk.bytes}};
    } else {
      SCALAI_ASSIGN_OR_RETURN(stored, read_torch_file(PartSource(source, chunk.begin, chunk.bytes)));
    }
    if (stored.tensors.size() != 1 || stored.tensors.front().bytes != chunk.elements * size ||
        stored.tensors.front().dtype != tensor.dtype)
      return invalid(fmt::format("{}: its chunk at [{}] is not the tensor that the index says", place,
                                 fmt::join(chunk.offsets, ", ")));
    OpenedTensor opened{.name = arranged.name,
                        .dtype = tensor.dtype,
                        .offset = chunk.begin + stored.tensors.front().offset + chunk.skip * size,
                        .elements = volume_of(chunk.sizes),
                        .checksum = "",
                        .pieces = {}};
    for (const PlacedPiece& piece : arranged.pieces) {
      const auto part = piece_in_chunk(piece.piece, tensor.shape, chunk.offsets, chunk.sizes);
      if (!part.ok()) return error_at(place, part.status());
      if (*part) opened.pieces.push_back({piece.logical, **part});
    }
    opened_.files[file].tensors.push_back(std::move(opened));
    return absl::OkStatus();
  }

 private:
  absl::StatusOr<size_t> file_of(const std::string& name) {
    const auto [found, fresh] = files_.try_emplace(name, opened_.files.size());
    if (!fresh) return found->second;
    SCALAI_ASSIGN_OR_RETURN(ByteSourcePtr source, folder_.source(name));
    opened_.files.push_back(
        {.name = name, .source = std::move(source), .data_begin = 0, .checksum = "", .tensors = {}});
    return found->second;
  }

  const Folder& folder_;
  Opened& opened_;
  std::map<std::string, size_t> files_;
};

// The name of a tensor that is not taken.
std::string first_other(const std::vector<DcpTensor>& tensors, const Named& taken) {
  std::set<const DcpTensor*> known;
  for (const auto& [name, tensor] : taken) known.insert(tensor);
  for (const DcpTensor& tensor : tensors) {
    if (!is_step(tensor) && known.count(&tensor) == 0) return fmt::format("{}", fmt::join(tensor.path, "."));
  }
  return "";
}

}  // namespace

absl::StatusOr<std::optional<tensor::Piece>> piece_in_chunk(const tensor::Piece& piece,
                                                            const std::vector<int64_t>& shape,
                                                            const std::vector<int64_t>& offsets,
                                                            const std::vector<int64_t>& sizes) {
  const std::vector<int64_t> dense = dense_strides(shape), in_chunk = dense_strides(sizes);
  std::vector<int64_t> first(shape.size());  // where the piece begins
  for (size_t dim = 0; dim < shape.size(); ++dim)
    first[dim] = piece.offset / dense[dim] % std::max<int64_t>(shape[dim], 1);
  tensor::Piece part = piece;
  part.offset = 0;
  std::vector<bool> used(shape.size(), false);
  for (size_t dim = 0; dim < static_cast<size_t>(piece.box.rank); ++dim) {
    const int64_t extent = piece.box.extent(static_cast<int>(dim));
    if (extent == 1) continue;
    // The stored dimension that the piece goes along, `step` rows at a time.
    size_t along = 0;
    int64_t step = 0;
    for (; along < shape.size(); ++along) {
      step = piece.strides[dim] / dense[along];
      const bool divides = step > 0 && piece.strides[dim] % dense[along] == 0;
      if (!used[along] && divides && first[along] + step * (extent - 1) < shape[along]) break;
    }
    if (along == shape.size()) return invalid("its places are not along the dimensions of the stored tensor");
    used[along] = true;
    const int64_t below = std::max<int64_t>(0, offsets[along] - first[along]);
    const int64_t begin = std::min(extent, (below + step - 1) / step);
    const int64_t room = offsets[along] + sizes[along] - first[along];
    const int64_t end = std::clamp<int64_t>(room <= 0 ? 0 : (room + step - 1) / step, 0, extent);
    if (begin >= end) return std::optional<tensor::Piece>();
    part.box.lo[dim] = piece.box.lo[dim] + begin;
    part.box.hi[dim] = piece.box.lo[dim] + end;
    part.strides[dim] = step * in_chunk[along];
    part.offset += (first[along] + step * begin - offsets[along]) * in_chunk[along];
  }
  for (size_t dim = 0; dim < shape.size(); ++dim) {
    if (used[dim]) continue;
    if (first[dim] < offsets[dim] || first[dim] >= offsets[dim] + sizes[dim]) return std::optional<tensor::Piece>();
    part.offset += (first[dim] - offsets[dim]) * in_chunk[dim];
  }
  return std::optional(part);
}

absl::Status open_dcp(const Folder& folder, const std::string& index, const Naming& naming, Opened& opened) {
  auto tensors = parse_dcp_index(index);
  if (!tensors.ok()) return error_at(folder.path_of(kDcpIndexName), tensors.status());
  if (naming.name() == "megatron") {
    tensors = without_stacks(*std::move(tensors));
    const int64_t words = opened.model->model.vocab;
    int64_t rows = 0;
    for (DcpTensor& tensor : *tensors) rows = std::max(rows, leave_padding_out(words, tensor));
    if (rows > 0) opened.info.notes.push_back(note_of_padding(rows, words));
  }
  return open_chunked(folder, folder.path_of(kDcpIndexName), *tensors, naming, opened);
}

absl::Status open_chunked(const Folder& folder, const std::string& place, const std::vector<DcpTensor>& tensors,
                          const Naming& naming, Opened& opened) {
  const auto groups = groups_of(tensors);
  if (groups.empty()) return invalid(fmt::format("{}: has no tensors", place));
  absl::StatusOr<FoundState> state = absl::NotFoundError("");
  Named taken;
  size_t most = 0;
  for (const auto& [path, group] : groups) {
    const Named all = with_moments(group, tensors);
    const FoundFile file = as_found(all);
    absl::StatusOr<FoundState> read = read_whole(naming, std::span(&file, 1), WholeStates::kOptimizer);
    if (!read.ok() && group.size() <= most) continue;
    most = group.size();
    taken = all;
    state = std::move(read);
    if (state.ok()) break;
  }
  if (!state.ok()) return error_at(folder.path(), state.status());
  SCALAI_ASSIGN_OR_RETURN(opened.info.step, common_step(folder, tensors));
  const auto steps = static_cast<size_t>(std::count_if(tensors.begin(), tensors.end(), is_step));
  if (taken.size() + steps < tensors.size())
    opened.info.notes.push_back(
        fmt::format("left out: {} tensors that are neither of the model nor state of its parameters, such as \"{}\"",
                    tensors.size() - taken.size() - steps, clipped(first_other(tensors, taken), 120)));
  std::map<std::string, const ArrangedTensor*> arranged;
  for (const ArrangedTensor& tensor : state->files.front().tensors) arranged[tensor.name] = &tensor;
  ChunkFiles files(folder, opened);
  ProblemList problems;
  for (const auto& [name, tensor] : taken) {
    const auto found = arranged.find(name);
    if (found == arranged.end() || state->aliases.front().count(name) != 0) continue;
    for (const DcpChunk& chunk : tensor->chunks) {
      const absl::Status added = files.add(*tensor, chunk, *found->second);
      if (!added.ok() && !absl::IsInvalidArgument(added)) return added;
      if (!added.ok()) problems.add(message_of(added));
    }
  }
  for (OpenedFile& file : opened.files) {
    std::sort(file.tensors.begin(), file.tensors.end(),
              [](const auto& a, const auto& b) { return a.offset < b.offset; });
    file.data_begin = file.tensors.empty() ? 0 : file.tensors.front().offset;
  }
  opened.states = std::move(state->states);
  return problems.status();
}

}  // namespace scalai::checkpoint::internal
