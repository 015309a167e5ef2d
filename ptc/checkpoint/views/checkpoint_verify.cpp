#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <mutex>

#include "ptc/base/file.h"
#include "ptc/base/parallel.h"
#include "ptc/base/status.h"
#include "ptc/base/utf8.h"
#include "ptc/checkpoint/safetensors/checksum.h"
#include "ptc/checkpoint/views/checkpoint.h"
#include "ptc/checkpoint/views/internal/checkpoint_state.h"
#include "ptc/tensor/box_chunks.h"

namespace scalai::checkpoint {
namespace {

using internal::OpenedFile;
using internal::OpenedTensor;
using internal::ProblemList;
using internal::Replica;
using internal::SourcePiece;

constexpr int64_t kChunkBytes = int64_t{1} << 20;
constexpr const char* kDamaged = "the bytes do not have the checksum of the manifest: the file is damaged";

struct Findings {
  std::mutex mutex;
  std::vector<std::pair<size_t, absl::Status>> problems;  // with the number of the work that found it
  std::atomic<int64_t> done = 0;
  int64_t total = 0;
  std::function<void(int64_t, int64_t)> progress;

  void add(size_t work, absl::Status problem) {
    const std::lock_guard lock(mutex);
    problems.emplace_back(work, std::move(problem));
  }
  // In the order of the work.
  absl::Status status() {
    std::stable_sort(problems.begin(), problems.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    ProblemList list;
    for (const auto& [work, problem] : problems) list.add(problem);
    return list.status();
  }
  void advance(int64_t bytes) {
    done += bytes;
    if (!progress) return;
    const std::lock_guard lock(mutex);
    progress(done, total);
  }
};

absl::Status sum_range(const OpenedFile& file, int64_t begin, int64_t end, Checksum& whole, Checksum* part,
                       std::vector<std::byte>& buffer, Findings& findings) {
  for (int64_t at = begin; at < end; at += kChunkBytes) {
    const std::span<std::byte> chunk(buffer.data(), static_cast<size_t>(std::min(kChunkBytes, end - at)));
    SCALAI_RETURN_IF_ERROR(file.source->read(at, chunk));
    whole.add(chunk);
    if (part != nullptr) part->add(chunk);
    findings.advance(static_cast<int64_t>(chunk.size()));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::byte>> bytes_of_box(const ByteSource& source, const OpenedTensor& stored,
                                                    const SourcePiece& piece, const tensor::Box& box) {
  const int64_t size = tensor::size_of(stored.dtype);
  std::vector<std::byte> bytes(static_cast<size_t>(box.volume() * size));
  const tensor::Piece dense{.box = box, .offset = 0, .strides = box.shape().strides()};
  SCALAI_RETURN_IF_ERROR(
      Gatherer().copy(block_of(0, {piece.piece, stored.offset}, {dense, 0}, box, size), source, 0, bytes));
  return bytes;
}

}  // namespace

namespace internal {

// The boxes that one stored tensor holds; looked for only when it is damaged.
std::string boxes_of(const std::vector<PieceIndex>& index, const std::vector<LogicalState>& states, uint32_t file,
                     uint32_t tensor) {
  constexpr int kMost = 3;
  std::string text;
  int more = 0;
  const auto add = [&](const SourcePiece& piece, const std::string& name) {
    if (piece.file != file || piece.tensor != tensor) return;
    if (++more <= kMost) text += fmt::format("{}\"{}\" box {}", text.empty() ? "" : ", ", name, piece.piece.box.str());
  };
  for (size_t i = 0; i < index.size(); ++i) {
    for (const SourcePiece& piece : index[i].pieces()) add(piece, clipped(states[i].name, 120));
    for (const Replica& replica : index[i].replicas()) add(replica.copy, clipped(states[i].name, 120));
  }
  return more > kMost ? fmt::format("{} and {} more", text, more - kMost) : text;
}

class Verifier {
 public:
  Verifier(const Opened& opened, const std::vector<PieceIndex>& index, Findings& findings)
      : opened_(opened), index_(index), findings_(findings) {}

  void file(size_t f) const {
    const OpenedFile& file = opened_.files[f];
    std::vector<std::byte> buffer(static_cast<size_t>(kChunkBytes));
    Checksum whole;
    absl::Status status = absl::OkStatus();
    bool damaged = false;
    int64_t at = 0;
    for (size_t t = 0; t < file.tensors.size() && status.ok(); ++t) {
      const OpenedTensor& stored = file.tensors[t];
      Checksum sum;
      const int64_t end = stored.offset + stored.elements * tensor::size_of(stored.dtype);
      status = sum_range(file, at, stored.offset, whole, nullptr, buffer, findings_);
      if (status.ok()) status = sum_range(file, stored.offset, end, whole, &sum, buffer, findings_);
      at = std::max(at, end);
      if (!status.ok() || stored.checksum.empty() || sum.hex() == stored.checksum) continue;
      damaged = true;
      findings_.add(
          f, invalid(fmt::format("{}: tensor \"{}\" ({}): {}", file.source->name(), clipped(stored.name, 120),
                                 boxes_of(index_, opened_.states, static_cast<uint32_t>(f), static_cast<uint32_t>(t)),
                                 kDamaged)));
    }
    if (status.ok()) status = sum_range(file, at, file.source->size(), whole, nullptr, buffer, findings_);
    if (!status.ok()) {
      findings_.add(f, status);
    } else if (!damaged && !file.checksum.empty() && whole.hex() != file.checksum) {
      findings_.add(f, invalid(fmt::format("{}: {}", file.source->name(), kDamaged)));
    }
  }

  // Every replica of one tensor against what is read of it; or only those that aliases are.
  void replicas(size_t tensor, bool aliases_only = false) const {
    const PieceIndex& index = index_[tensor];
    for (const Replica& replica : index.replicas()) {
      if (aliases_only && !replica.copy.alias) continue;
      const SourcePiece& first = index.pieces()[replica.of];
      const int64_t most = std::max<int64_t>(1, kChunkBytes / tensor::size_of(opened_.states[tensor].dtype));
      const absl::Status status = tensor::for_each_chunk(
          first.piece.box, most, [&](const tensor::Box& box) { return compare(tensor, first, replica.copy, box); });
      if (!status.ok()) findings_.add(opened_.files.size() + tensor, status);
    }
  }

  void text(const TextRecord& record) const {
    const std::string path = opened_.info.path + "/" + record.name;
    const absl::StatusOr<std::string> bytes = text_of(path);
    if (!bytes.ok()) return findings_.add(0, bytes.status());
    if (Checksum().add(bytes_of(*bytes)).hex() != record.checksum)
      findings_.add(0, invalid(fmt::format("{}: {}", path, kDamaged)));
  }

 private:
  absl::StatusOr<std::string> text_of(const std::string& path) const {
    if (!opened_.opener) return read_file(path);
    SCALAI_ASSIGN_OR_RETURN(const ByteSourcePtr source, opened_.opener(path));
    return read_all(*source);
  }
  const OpenedTensor& stored(const SourcePiece& piece) const { return opened_.files[piece.file].tensors[piece.tensor]; }

  absl::Status compare(size_t tensor, const SourcePiece& a, const SourcePiece& b, const tensor::Box& box) const {
    const ByteSource& source_a = *opened_.files[a.file].source;
    const ByteSource& source_b = *opened_.files[b.file].source;
    SCALAI_ASSIGN_OR_RETURN(const std::vector<std::byte> bytes_a, bytes_of_box(source_a, stored(a), a, box));
    SCALAI_ASSIGN_OR_RETURN(const std::vector<std::byte> bytes_b, bytes_of_box(source_b, stored(b), b, box));
    findings_.advance(static_cast<int64_t>(bytes_a.size()));
    if (bytes_a == bytes_b) return absl::OkStatus();
    return invalid(
        fmt::format("{}: tensor \"{}\" (\"{}\" box {}): is not what {} has as \"{}\"; copies of the same state "
                    "have to be equal",
                    source_b.name(), clipped(stored(b).name, 120), clipped(opened_.states[tensor].name, 120), box.str(),
                    source_a.name(), clipped(stored(a).name, 120)));
  }

  const Opened& opened_;
  const std::vector<PieceIndex>& index_;
  Findings& findings_;
};

}  // namespace internal

absl::Status Checkpoint::State::check_aliases() const {
  Findings findings;
  const internal::Verifier verifier(opened, index, findings);
  for (size_t i = 0; i < index.size(); ++i) verifier.replicas(i, /*aliases_only=*/true);
  return findings.status();
}

int64_t Checkpoint::State::bytes_to_verify(const VerifyOptions& options) const {
  const auto is_here = [&](size_t i) {
    return i % static_cast<size_t>(options.parts) == static_cast<size_t>(options.part);
  };
  int64_t bytes = 0;
  for (size_t i = 0; options.sums && i < files.size(); ++i) bytes += is_here(i) ? files[i].bytes : 0;
  for (size_t i = 0; options.replicas && i < index.size(); ++i) {
    if (!is_here(i)) continue;
    for (const Replica& replica : index[i].replicas())
      bytes += replica.copy.piece.box.volume() * tensor::size_of(opened.states[i].dtype);
  }
  return bytes;
}

// What lies on disk: the state that steps begin with, and those that they read.
absl::Status Checkpoint::State::verify_sources(const VerifyOptions& options) const {
  std::vector<const Checkpoint*> sources = {base.get()};
  for (const auto& other : others) sources.push_back(other.get());
  int64_t done = 0, total = 0;
  for (const Checkpoint* const source : sources) total += source->state_->bytes_to_verify(options);
  ProblemList problems;
  for (const Checkpoint* const source : sources) {
    VerifyOptions one = options;
    if (options.progress) one.progress = [&](int64_t of_this, int64_t) { options.progress(done + of_this, total); };
    if (const absl::Status status = source->verify(one); !status.ok()) problems.add(status);
    done += source->state_->bytes_to_verify(options);
  }
  return problems.status();
}

absl::Status Checkpoint::verify(const VerifyOptions& options) const {
  if (state_->base) return state_->verify_sources(options);
  const internal::Opened& opened = state_->opened;
  Findings findings;
  findings.progress = options.progress;
  findings.total = state_->bytes_to_verify(options);
  const size_t files = options.sums ? state_->files.size() : 0;
  const size_t states = options.replicas ? state_->index.size() : 0;
  const auto is_here = [&](size_t i) {
    return i % static_cast<size_t>(options.parts) == static_cast<size_t>(options.part);
  };
  const internal::Verifier verifier(opened, state_->index, findings);
  if (options.sums) {
    for (const TextRecord& text : opened.texts) verifier.text(text);
  }
  parallel_for(options.threads, files + states, [&](size_t work) {
    // Files and states are shared each for themselves: other parts may sum no files.
    const bool is_file = work < files;
    const size_t i = is_file ? work : work - files;
    if (is_here(i)) is_file ? verifier.file(i) : verifier.replicas(i);
  });
  return findings.status();
}

bool Checkpoint::has_replicas() const {
  if (state_->base) {
    return state_->base->has_replicas() || std::any_of(state_->others.begin(), state_->others.end(),
                                                       [](const auto& other) { return other->has_replicas(); });
  }
  return std::any_of(state_->index.begin(), state_->index.end(),
                     [](const internal::PieceIndex& index) { return !index.replicas().empty(); });
}

}  // namespace scalai::checkpoint
