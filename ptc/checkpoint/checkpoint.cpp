#include "ptc/checkpoint/checkpoint.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>

#include "ptc/base/hash.h"
#include "ptc/base/status.h"
#include "ptc/base/utf8.h"
#include "ptc/checkpoint/internal/checkpoint_state.h"

namespace scalai::checkpoint {

using internal::OpenedFile;
using internal::OpenedTensor;
using internal::PieceIndex;
using internal::ProblemList;
using internal::SourcePiece;

std::string_view name_of(CheckpointKind kind) {
  switch (kind) {
    case CheckpointKind::kJob: return "job";
    case CheckpointKind::kArranged: return "arranged";
    case CheckpointKind::kHuggingFace: return "hf";
    case CheckpointKind::kRanks: return "ranks";
    case CheckpointKind::kPlain: break;
  }
  return "plain";
}

std::string Checkpoint::State::place(const SourcePiece& piece) const {
  return fmt::format("{}: tensor \"{}\"", opened.files[piece.file].source->name(), clipped(stored(piece).name, 120));
}

// Manifests are input: what they say must fit what is there. Empty: it does.
std::string Checkpoint::State::problem_of(const PlacedPiece& placed, const OpenedTensor& stored) const {
  const auto found = tensor_of_name.find(placed.logical);
  if (found == tensor_of_name.end()) return fmt::format("holds unknown state \"{}\"", clipped(placed.logical, 120));
  const LogicalState& state = opened.states[found->second];
  const tensor::Piece& piece = placed.piece;
  if (piece.box.rank != state.shape.rank() || !tensor::Box::whole(state.shape).contains(piece.box)) {
    return fmt::format("box {} is not in \"{}\" {}", piece.box.str(), state.name, state.shape.str());
  }
  if (state.dtype != stored.dtype) {
    return fmt::format("has dtype {}, \"{}\" has {}", tensor::name_of(stored.dtype), state.name, name_of(state.dtype));
  }
  if (piece.box.empty()) return "";
  int64_t last = piece.offset;
  bool fits = piece.offset >= 0;
  for (size_t d = 0; d < static_cast<size_t>(piece.box.rank); ++d) {
    int64_t reach = 0;
    fits = fits && piece.strides[d] >= 0 &&
           !__builtin_mul_overflow(piece.box.extent(static_cast<int>(d)) - 1, piece.strides[d], &reach) &&
           !__builtin_add_overflow(last, reach, &last);
  }
  if (fits && last < stored.elements) return "";
  return fmt::format("has {} elements, too few for box {} of \"{}\"", stored.elements, piece.box.str(), state.name);
}

void Checkpoint::State::index_file(size_t f, ProblemList& problems) {
  OpenedFile& file = opened.files[f];
  for (size_t t = 0; t < file.tensors.size(); ++t) {
    OpenedTensor& stored = file.tensors[t];
    for (const PlacedPiece& placed : stored.pieces) {
      const SourcePiece piece{static_cast<uint32_t>(f), static_cast<uint32_t>(t), placed.piece};
      const std::string problem = problem_of(placed, stored);
      if (!problem.empty()) {
        problems.add(fmt::format("{}: {}", place(piece), problem));
        continue;
      }
      index[tensor_of_name.at(placed.logical)].add(piece);
      memory_bytes += static_cast<int64_t>(sizeof(SourcePiece) + sizeof(int64_t));
    }
    stored.pieces = {};  // now in the index
    memory_bytes += static_cast<int64_t>(sizeof(OpenedTensor) + stored.name.size() + stored.checksum.size());
  }
}

absl::Status Checkpoint::State::build() {
  ProblemList problems;
  for (size_t i = 0; i < opened.states.size(); ++i) {
    const LogicalState& state = opened.states[i];
    if (!tensor_of_name.emplace(state.name, i).second) {
      problems.add(fmt::format("{}: tensor \"{}\" appears twice", opened.info.path, clipped(state.name, 120)));
    }
    state_bytes += state.shape.elements() * tensor::size_of(state.dtype);
    memory_bytes += static_cast<int64_t>(sizeof(LogicalState) + sizeof(PieceIndex) + 3 * state.name.size() + 64);
  }
  index.resize(opened.states.size());
  for (size_t f = 0; f < opened.files.size(); ++f) index_file(f, problems);
  SCALAI_RETURN_IF_ERROR(problems.status());  // others would only follow from these
  for (size_t i = 0; i < index.size(); ++i) {
    const LogicalState& state = opened.states[i];
    for (const PieceIndex::Problem& problem : index[i].finish(state.shape)) {
      const std::string where = problem.where ? place(*problem.where) : opened.info.path;
      problems.add(fmt::format("{}: \"{}\" {}", where, clipped(state.name, 120), problem.text));
    }
  }
  for (const OpenedFile& file : opened.files) {
    files.push_back({file.name, file.source->size(), static_cast<int64_t>(file.tensors.size()), file.checksum});
  }
  identify();
  return problems.status();
}

void Checkpoint::State::identify() {
  Hasher hasher;
  hasher.add(name_of(opened.info.kind)).add(opened.info.naming).add(opened.info.layout).add(opened.info.config);
  for (const OpenedFile& file : opened.files) {
    struct stat status {};
    const bool local = ::stat(file.source->name().c_str(), &status) == 0;
    hasher.add(file.name).add(file.source->size()).add(file.checksum);
    hasher.add(local ? int64_t{status.st_mtim.tv_sec} : 0).add(local ? int64_t{status.st_mtim.tv_nsec} : 0);
  }
  for (const LogicalState& state : opened.states) {
    hasher.add(state.name).add(tensor::name_of(state.dtype)).add(state.shape.str());
  }
  identity = hasher.hex();
}

Checkpoint::Checkpoint(std::unique_ptr<State> state) : state_(std::move(state)) {}
Checkpoint::~Checkpoint() = default;

absl::StatusOr<std::shared_ptr<const Checkpoint>> Checkpoint::open(const std::string& path,
                                                                   const OpenOptions& options) {
  auto state = std::make_unique<State>();
  SCALAI_ASSIGN_OR_RETURN(state->opened, internal::open_any(path, options));
  SCALAI_RETURN_IF_ERROR(state->build());
  return std::shared_ptr<const Checkpoint>(new Checkpoint(std::move(state)));
}

const CheckpointInfo& Checkpoint::info() const { return state_->opened.info; }
const KnownModel* Checkpoint::model() const { return state_->opened.model ? &*state_->opened.model : nullptr; }
const std::vector<LogicalState>& Checkpoint::tensors() const { return state_->opened.states; }
const std::vector<CheckpointFile>& Checkpoint::files() const { return state_->files; }
int64_t Checkpoint::state_bytes() const { return state_->state_bytes; }
const std::string& Checkpoint::identity() const { return state_->identity; }
int64_t Checkpoint::memory_bytes() const { return state_->memory_bytes; }
const ByteSource& Checkpoint::source(size_t file) const { return *state_->opened.files[file].source; }

std::optional<size_t> Checkpoint::find(const std::string& tensor) const {
  const auto found = state_->tensor_of_name.find(tensor);
  return found == state_->tensor_of_name.end() ? std::nullopt : std::optional(found->second);
}

void Checkpoint::compose(size_t tensor, const tensor::Piece& piece, int64_t dst, std::vector<CopyBlock>& out) const {
  SCALAI_CHECK(tensor < state_->index.size());
  const LogicalState& state = state_->opened.states[tensor];
  SCALAI_CHECK(piece.box.rank == state.shape.rank() && tensor::Box::whole(state.shape).contains(piece.box), state.name);
  if (piece.box.empty()) return;
  state_->index[tensor].find(piece.box, [&](const SourcePiece& source, const tensor::Box& common) {
    out.push_back(block_of(source.file, {source.piece, state_->stored(source).offset}, {piece, dst}, common,
                           tensor::size_of(state.dtype)));
  });
}

absl::Status Checkpoint::read(size_t tensor, const tensor::Box& box, std::span<std::byte> dst) const {
  SCALAI_CHECK(tensor < state_->opened.states.size());
  const LogicalState& state = state_->opened.states[tensor];
  SCALAI_CHECK(static_cast<int64_t>(dst.size()) == box.volume() * tensor::size_of(state.dtype), state.name);
  std::vector<CopyBlock> blocks;
  compose(tensor, {.box = box, .offset = 0, .strides = box.shape().strides()}, 0, blocks);
  Gatherer gatherer;
  for (const CopyBlock& block : blocks) {
    const absl::Status status = gatherer.copy(block, source(block.file), 0, dst);
    if (status.ok()) continue;
    return absl::Status(status.code(), fmt::format("tensor \"{}\" box {}: {}", clipped(state.name, 120), box.str(),
                                                   message_of(status)));
  }
  return absl::OkStatus();
}

}  // namespace scalai::checkpoint
