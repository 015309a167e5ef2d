#include "ptc/store/views/checkpoint.h"

#include <fmt/format.h>

#include <algorithm>

#include "ptc/base/hash.h"
#include "ptc/base/status.h"
#include "ptc/base/utf8.h"
#include "ptc/store/views/internal/checkpoint_state.h"
#include "ptc/store/views/internal/converted.h"
#include "ptc/store/views/internal/held_state.h"
#include "ptc/store/views/internal/replicated_heads.h"
#include "ptc/store/views/internal/transformed.h"

namespace scalai::store {

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

void add_drop(std::span<const std::string> words, OpenOptions& options) {
  for (const std::string& word : words) {
    if (word == "optimizer") {
      options.drop_optimizer = true;
    } else {
      options.drop.push_back(word);
    }
  }
}

std::string Checkpoint::State::place(const SourcePiece& piece) const {
  return fmt::format("{}: tensor \"{}\"", opened.files[piece.file].source->name(), clipped(stored(piece).name, 120));
}

namespace {

// A step in one dimension goes beyond all that those with shorter steps span, so that no two elements share a place.
// The reach of each dimension lies in the stored tensor already.
bool nests(const tensor::Piece& piece) {
  std::vector<std::pair<int64_t, int64_t>> dims;  // stride and extent, of those that have a second element
  for (int d = 0; d < piece.box.rank; ++d) {
    if (piece.box.extent(d) > 1) dims.emplace_back(piece.strides[static_cast<size_t>(d)], piece.box.extent(d));
  }
  std::sort(dims.begin(), dims.end());
  int64_t span = 1;
  for (const auto& [stride, extent] : dims) {
    if (stride < span) return false;
    span += (extent - 1) * stride;
  }
  return true;
}

// Those without bytes need no checksum.
int64_t summed_tensors(const OpenedFile& file) {
  int64_t summed = 0;
  if (!file.checked) return summed;
  const auto& ranges = file.checked->ranges();
  for (const OpenedTensor& tensor : file.tensors) {
    const auto range = std::partition_point(ranges.begin(), ranges.end(), [&](const internal::SummedRange& each) {
      return each.offset + each.bytes <= tensor.offset;
    });
    const bool inside = range != ranges.end() && range->offset <= tensor.offset &&
                        tensor.offset + tensor.bytes() <= range->offset + range->bytes;
    if (inside || tensor.bytes() == 0) ++summed;
  }
  return summed;
}

constexpr int64_t kRemoteBytes = int64_t{128} << 20;  // of blocks and connections

// What an identity has of a file: also where no version is known, another header is another content.
absl::Status add_file(const OpenedFile& file, Hasher& hasher) {
  constexpr int64_t kChunkBytes = int64_t{1} << 20;
  hasher.add(file.name).add(file.source->size()).add(file.source->version()).add(file.checksum);
  std::string chunk;
  for (int64_t at = 0; at < file.data_begin; at += kChunkBytes) {
    chunk.resize(static_cast<size_t>(std::min(kChunkBytes, file.data_begin - at)));
    SCALAI_RETURN_IF_ERROR(file.source->read(at, std::as_writable_bytes(std::span(chunk))));
    hasher.add(chunk);
  }
  return absl::OkStatus();
}

}  // namespace

// Manifests are input: what they say must fit what is there. Empty: it does.
std::string Checkpoint::State::problem_of(const PlacedPiece& placed, const OpenedTensor& stored) const {
  const auto found = tensor_of_name.find(placed.logical);
  if (found == tensor_of_name.end()) return fmt::format("holds unknown state \"{}\"", clipped(placed.logical, 120));
  const LogicalState& state = opened.states[found->second];
  const tensor::Piece& piece = placed.piece;
  if (piece.box.rank != state.shape.rank() || !tensor::Box::whole(state.shape).contains(piece.box)) {
    return fmt::format("box {} is not in \"{}\" {}", piece.box.str(), clipped(state.name, 120), state.shape.str());
  }
  if (state.dtype != stored.dtype) {
    return fmt::format("has dtype {}, \"{}\" has {}", tensor::name_of(stored.dtype), clipped(state.name, 120),
                       name_of(state.dtype));
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
  if (!fits || last >= stored.elements) {
    return fmt::format("has {} elements, too few for box {} of \"{}\"", stored.elements, piece.box.str(),
                       clipped(state.name, 120));
  }
  if (nests(piece)) return "";
  return fmt::format("box {} of \"{}\": its strides put several elements in one place", piece.box.str(),
                     clipped(state.name, 120));
}

void Checkpoint::State::index_file(size_t f, ProblemList& problems) {
  OpenedFile& file = opened.files[f];
  for (size_t t = 0; t < file.tensors.size(); ++t) {
    OpenedTensor& stored = file.tensors[t];
    int64_t left = stored.elements;
    for (const PlacedPiece& placed : stored.pieces) {
      const SourcePiece piece{static_cast<uint32_t>(f), static_cast<uint32_t>(t), placed.piece, stored.alias};
      const std::string problem = problem_of(placed, stored);
      if (!problem.empty()) {
        problems.add(fmt::format("{}: {}", place(piece), problem));
        continue;
      }
      left -= placed.piece.box.volume();  // none is larger than the tensor
      if (left < 0) {
        problems.add(fmt::format("{}: has {} elements, fewer than its pieces", place(piece), stored.elements));
        break;
      }
      index[tensor_of_name.at(placed.logical)].add(piece);
      memory_bytes += static_cast<int64_t>(sizeof(SourcePiece) + sizeof(int64_t));
    }
    stored.pieces = {};  // now in the index
    memory_bytes += static_cast<int64_t>(sizeof(OpenedTensor) + stored.name.size());
  }
}

absl::Status Checkpoint::State::build() {
  ProblemList problems;
  for (size_t i = 0; i < opened.states.size(); ++i) {
    const LogicalState& state = opened.states[i];
    if (!tensor_of_name.emplace(state.name, i).second) {
      problems.add(fmt::format("{}: tensor \"{}\" appears twice", opened.info.path, clipped(state.name, 120)));
    }
    if (__builtin_add_overflow(state_bytes, state.shape.elements() * tensor::size_of(state.dtype), &state_bytes)) {
      return invalid(fmt::format("{}: holds more state than 2^63 bytes", opened.info.path));
    }
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
    if (file.derived) break;  // those are the last
    files.push_back({file.name, file.source->size(), static_cast<int64_t>(file.tensors.size()), file.checksum,
                     summed_tensors(file)});
  }
  for (const OpenedFile& file : opened.files) {
    if (file.checked) memory_bytes += std::ssize(file.checked->ranges()) * int64_t{sizeof(internal::SummedRange) + 64};
  }
  if (std::any_of(files.begin(), files.end(), [](const CheckpointFile& file) { return file.summed > 0; }))
    thread_bytes += internal::CheckedSource::kBufferBytes;
  if (opened.info.damage.empty() && !opened.damage.empty()) {
    for (const Damage& damage : opened.damage)
      opened.info.notes.push_back("has state that was copied from a damaged file: " + damage.what);
    opened.info.damage = opened.damage;
  }
  SCALAI_RETURN_IF_ERROR(problems.status());
  return identify();
}

absl::Status Checkpoint::State::transform(const OpenOptions& options) {
  auto as_it_lies = std::make_unique<State>();
  as_it_lies->opened = opened;
  SCALAI_RETURN_IF_ERROR(as_it_lies->build());
  SCALAI_RETURN_IF_ERROR(as_it_lies->check_aliases());
  base = std::shared_ptr<const Checkpoint>(new Checkpoint(std::move(as_it_lies)));
  SCALAI_ASSIGN_OR_RETURN(internal::TransformedStates taken, internal::transform_states(base, options, opened));
  memory_bytes += taken.bytes;
  thread_bytes = taken.thread_bytes;  // build() adds what comparison takes
  shared_bytes = taken.shared_bytes;
  others = std::move(taken.others);
  return absl::OkStatus();
}

absl::Status Checkpoint::State::identify() {
  Hasher hasher;
  hasher.add(name_of(opened.info.kind)).add(opened.info.naming).add(opened.info.layout).add(opened.info.config);
  for (const OpenedFile& file : opened.files) SCALAI_RETURN_IF_ERROR(add_file(file, hasher));
  for (size_t i = 0; i < opened.states.size(); ++i) {
    const LogicalState& state = opened.states[i];
    hasher.add(state.name).add(tensor::name_of(state.dtype)).add(state.shape.str());
    for (const SourcePiece& piece : index[i].pieces()) {
      hasher.add(int64_t{piece.file}).add(int64_t{piece.tensor}).add(piece.piece.box.str()).add(piece.piece.offset);
      for (const int64_t stride : piece.piece.strides) hasher.add(stride);
    }
  }
  identity = hasher.hex();
  return absl::OkStatus();
}

Checkpoint::Checkpoint(std::unique_ptr<State> state) : state_(std::move(state)) {
  for (size_t f = 0; f < state_->opened.files.size(); ++f) {
    const auto& checked = state_->opened.files[f].checked;
    if (!checked) continue;
    checked->describe_with(state_.get(), [of = state_.get(), f](const auto& range) { return of->describe(f, range); });
  }
}
Checkpoint::~Checkpoint() = default;

Checkpoint::State::~State() {
  for (const OpenedFile& file : opened.files)
    if (file.checked) file.checked->forget(this);
}

absl::StatusOr<std::shared_ptr<const Checkpoint>> Checkpoint::open(const std::string& path,
                                                                   const OpenOptions& options) {
  auto state = std::make_unique<State>();
  SCALAI_ASSIGN_OR_RETURN(state->opened, internal::open_any(path, options));
  if (options.kv_heads > 0)
    SCALAI_RETURN_IF_ERROR(internal::replicate_heads(options.kv_heads, options.drop_optimizer, state->opened));
  internal::convert_states(options.dtypes, state->opened);
  if (!options.transforms.empty()) SCALAI_RETURN_IF_ERROR(state->transform(options));
  SCALAI_RETURN_IF_ERROR(state->build());
  if (options.opener) state->memory_bytes += kRemoteBytes;
  SCALAI_RETURN_IF_ERROR(state->check_aliases());
  return std::shared_ptr<const Checkpoint>(new Checkpoint(std::move(state)));
}

absl::StatusOr<std::shared_ptr<const Checkpoint>> Checkpoint::of_held(HeldState held) {
  auto state = std::make_unique<State>();
  SCALAI_ASSIGN_OR_RETURN(state->opened, internal::open_held(std::move(held)));
  SCALAI_RETURN_IF_ERROR(state->build());
  return std::shared_ptr<const Checkpoint>(new Checkpoint(std::move(state)));
}

const CheckpointInfo& Checkpoint::info() const { return state_->opened.info; }
const KnownModel* Checkpoint::model() const { return state_->opened.model ? &*state_->opened.model : nullptr; }
const std::vector<LogicalState>& Checkpoint::tensors() const { return state_->opened.states; }
const std::vector<CheckpointFile>& Checkpoint::files() const { return state_->files; }
int64_t Checkpoint::state_bytes() const { return state_->state_bytes; }
const std::string& Checkpoint::identity() const { return state_->identity; }
std::string Checkpoint::sampled_content() const {
  constexpr int64_t kSampleBytes = 64;
  Hasher hasher;
  std::string sample;
  for (const OpenedFile& file : state_->opened.files) {
    const std::string version = file.source->version();
    if (!info().local && !version.empty()) {
      hasher.add(version);
      continue;
    }
    for (const OpenedTensor& tensor : file.tensors) {
      const int64_t bytes = tensor.elements * tensor::size_of(tensor.dtype);
      sample.resize(static_cast<size_t>(std::min(bytes, kSampleBytes)));
      const int64_t middle = tensor.offset + (bytes - std::ssize(sample)) / 2;
      // What cannot be read here is told where it is needed.
      const absl::Status read = file.stored().read(middle, std::as_writable_bytes(std::span(sample)));
      hasher.add(read.ok() ? sample : "");
    }
  }
  return hasher.hex();
}
int64_t Checkpoint::memory_bytes() const { return state_->memory_bytes; }
int64_t Checkpoint::thread_bytes() const { return state_->thread_bytes; }
int64_t Checkpoint::shared_bytes() const { return state_->shared_bytes; }
absl::StatusOr<ByteSourcePtr> Checkpoint::open_other(const std::string& name) const {
  return state_->opened.sources->open(state_->location_of(name));
}

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

void Checkpoint::for_each_home(size_t tensor, const tensor::Box& box,
                               const std::function<void(uint32_t file, const tensor::Box& part)>& visit) const {
  SCALAI_CHECK(tensor < state_->index.size());
  if (box.empty()) return;
  state_->index[tensor].find(box,
                             [&](const SourcePiece& source, const tensor::Box& common) { visit(source.file, common); });
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

}  // namespace scalai::store
