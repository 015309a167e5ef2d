#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <set>

#include "ptc/base/parallel.h"
#include "ptc/base/status.h"
#include "ptc/base/url.h"
#include "ptc/base/utf8.h"
#include "ptc/state/tensor/box_chunks.h"
#include "ptc/store/safetensors/checksum.h"
#include "ptc/store/views/checkpoint.h"
#include "ptc/store/views/internal/checkpoint_state.h"
#include "ptc/store/views/internal/opened_folder.h"

namespace scalai::store {
namespace {

using internal::OpenedFile;
using internal::OpenedTensor;
using internal::ProblemList;
using internal::Replica;
using internal::SourcePiece;
using internal::SummedRange;

constexpr int64_t kChunkBytes = int64_t{1} << 20;

struct Findings {
  std::mutex mutex;
  std::vector<std::pair<size_t, absl::Status>> problems;  // with the number of the work that found it
  std::vector<std::pair<size_t, Damage>> damage;          // the same
  bool accepts_damage = false;                            // it is no problem
  std::atomic<int64_t> done = 0;
  int64_t total = 0;
  std::function<void(int64_t, int64_t)> progress;

  void add(size_t work, absl::Status problem) {
    const std::lock_guard lock(mutex);
    problems.emplace_back(work, std::move(problem));
  }
  void add_damage(size_t work, Damage found) {
    if (!accepts_damage) return add(work, invalid(found.what));
    const std::lock_guard lock(mutex);
    damage.emplace_back(work, std::move(found));
  }
  // In the order of the work.
  absl::Status status() {
    const auto by_work = [](const auto& a, const auto& b) { return a.first < b.first; };
    std::stable_sort(problems.begin(), problems.end(), by_work);
    std::stable_sort(damage.begin(), damage.end(), by_work);
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

// whole, part: what sums the bytes, too; may be nullptr.
absl::Status sum_range(const OpenedFile& file, int64_t begin, int64_t end, Checksum* whole, Checksum* part,
                       std::vector<std::byte>& buffer, Findings& findings) {
  for (int64_t at = begin; at < end; at += kChunkBytes) {
    const std::span<std::byte> chunk(buffer.data(), static_cast<size_t>(std::min(kChunkBytes, end - at)));
    SCALAI_RETURN_IF_ERROR(file.stored().read(at, chunk));
    if (whole != nullptr) whole->add(chunk);
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

class Verifier {
 public:
  using DamageOf = std::function<Damage(size_t file, const SummedRange& range)>;
  Verifier(const Opened& opened, const std::vector<PieceIndex>& index, DamageOf damage_of, Findings& findings)
      : opened_(opened), index_(index), damage_of_(std::move(damage_of)), findings_(findings) {}

  void file(size_t f) const {
    static const std::vector<SummedRange> kNone;
    const OpenedFile& file = opened_.files[f];
    const std::vector<SummedRange>& ranges = file.checked ? file.checked->ranges() : kNone;
    std::vector<std::byte> buffer(static_cast<size_t>(kChunkBytes));
    Checksum of_file;
    Checksum* const whole = file.checksum.empty() ? nullptr : &of_file;
    absl::Status status = absl::OkStatus();
    bool damaged = false;
    int64_t at = 0;
    for (size_t i = 0; i < ranges.size() && status.ok(); ++i) {
      const SummedRange& range = ranges[i];
      Checksum sum(kind_of_checksum(range.checksum));
      status = sum_range(file, at, range.offset, whole, nullptr, buffer, findings_);
      at = range.offset + range.bytes;
      if (status.ok()) status = sum_range(file, range.offset, at, whole, &sum, buffer, findings_);
      if (!status.ok()) break;
      const bool is_right = sum.hex() == range.checksum;
      file.checked->settle(i, is_right);
      if (is_right) continue;
      damaged = true;
      findings_.add_damage(f, damage_of_(f, range));
    }
    if (status.ok()) status = sum_range(file, at, file.stored().size(), whole, nullptr, buffer, findings_);
    if (!status.ok()) {
      findings_.add(f, status);
    } else if (!damaged && whole != nullptr && whole->hex() != file.checksum) {
      findings_.add_damage(f, {fmt::format("{}: {}", file.source->name(), damage_text(file.checksum)), {}});
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

  // location: of the small file.
  void text(const TextRecord& record, const std::string& location) const {
    const absl::StatusOr<std::string> bytes = text_of(location);
    if (!bytes.ok()) return findings_.add(0, bytes.status());
    if (Checksum().add(bytes_of(*bytes)).hex() != record.checksum)
      findings_.add_damage(0, {fmt::format("{}: {}", location, damage_text(record.checksum)), {}});
  }

 private:
  absl::StatusOr<std::string> text_of(const std::string& location) const {
    SCALAI_ASSIGN_OR_RETURN(const ByteSourcePtr source, opened_.sources->open(location));
    return read_all(*source);
  }
  const OpenedTensor& stored(const SourcePiece& piece) const { return opened_.files[piece.file].tensors[piece.tensor]; }

  absl::Status compare(size_t tensor, const SourcePiece& a, const SourcePiece& b, const tensor::Box& box) const {
    const ByteSource& source_a = opened_.files[a.file].stored();
    const ByteSource& source_b = opened_.files[b.file].stored();
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
  const DamageOf damage_of_;
  Findings& findings_;
};

}  // namespace internal

std::vector<std::string> Checkpoint::State::states_in(size_t file, const SummedRange& range) const {
  std::set<std::string> names;
  const auto add = [&](const SourcePiece& piece, const std::string& name) {
    if (piece.file != file) return;
    const OpenedTensor& tensor = stored(piece);
    if (tensor.offset < range.offset + range.bytes && tensor.offset + tensor.bytes() > range.offset) names.insert(name);
  };
  for (size_t i = 0; i < index.size(); ++i) {
    for (const SourcePiece& piece : index[i].pieces()) add(piece, opened.states[i].name);
    for (const Replica& replica : index[i].replicas()) add(replica.copy, opened.states[i].name);
  }
  return {names.begin(), names.end()};
}

// The boxes are looked for only when a tensor is damaged.
std::string Checkpoint::State::describe(size_t file, const SummedRange& range) const {
  constexpr int kMost = 3;
  std::string boxes;
  int count = 0;
  const auto add = [&](const SourcePiece& piece, const std::string& name) {
    if (piece.file != file || piece.tensor != range.tensor) return;
    if (++count <= kMost)
      boxes += fmt::format("{}\"{}\" box {}", boxes.empty() ? "" : ", ", name, piece.piece.box.str());
  };
  for (size_t i = 0; i < index.size(); ++i) {
    for (const SourcePiece& piece : index[i].pieces()) add(piece, clipped(opened.states[i].name, 120));
    for (const Replica& replica : index[i].replicas()) add(replica.copy, clipped(opened.states[i].name, 120));
  }
  if (count > kMost) boxes += fmt::format(" and {} more", count - kMost);
  const OpenedFile& of = opened.files[file];
  return fmt::format("tensor \"{}\"{}", clipped(of.tensors[range.tensor].name, 120),
                     boxes.empty() ? "" : fmt::format(" ({})", boxes));
}

std::string Checkpoint::State::location_of(const std::string& name) const {
  return opened.info.local ? opened.info.path + "/" + name : location_in(opened.info.path, name);
}

absl::Status Checkpoint::State::check_aliases() const {
  Findings findings;
  const internal::Verifier verifier(opened, index, nullptr, findings);
  for (size_t i = 0; i < index.size(); ++i) verifier.replicas(i, /*aliases_only=*/true);
  return findings.status();
}

int64_t Checkpoint::State::bytes_to_verify(const VerifyOptions& options) const {
  const auto is_here = [&](size_t i) {
    return i % static_cast<size_t>(options.parts) == static_cast<size_t>(options.part);
  };
  const bool all_files = options.damage != nullptr;
  int64_t bytes = 0;
  for (size_t i = 0; options.sums && i < files.size(); ++i) bytes += all_files || is_here(i) ? files[i].bytes : 0;
  for (size_t i = 0; options.replicas && i < index.size(); ++i) {
    if (!is_here(i)) continue;
    for (const Replica& replica : index[i].replicas())
      bytes += replica.copy.piece.box.volume() * tensor::size_of(opened.states[i].dtype);
  }
  return bytes;
}

std::vector<const Checkpoint*> Checkpoint::State::sources() const {
  std::vector<const Checkpoint*> sources;
  if (base) sources.push_back(base.get());
  for (const auto& other : others) sources.push_back(other.get());
  return sources;
}

// What lies on disk: the state that steps begin with, and those that they read.
absl::Status Checkpoint::State::verify_sources(const VerifyOptions& options) const {
  int64_t done = 0, total = 0;
  for (const Checkpoint* const source : sources()) total += source->state_->bytes_to_verify(options);
  ProblemList problems;
  for (const Checkpoint* const source : sources()) {
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
  findings.accepts_damage = options.damage != nullptr;
  const internal::Verifier verifier(opened, state_->index, state_->damage_of(), findings);
  if (options.sums) {
    for (const TextRecord& text : opened.texts) verifier.text(text, state_->location_of(text.name));
  }
  parallel_for(options.threads, files + states, [&](size_t work) {
    // Files and states are shared each for themselves: other parts may sum no files.
    const bool is_file = work < files;
    const size_t i = is_file ? work : work - files;
    if (is_here(i) || (is_file && findings.accepts_damage)) is_file ? verifier.file(i) : verifier.replicas(i);
  });
  const absl::Status status = findings.status();
  for (auto& [work, damage] : findings.damage) options.damage->push_back(std::move(damage));
  return status;
}

std::function<Damage(size_t file, const SummedRange& range)> Checkpoint::State::damage_of() const {
  return [this](size_t file, const SummedRange& range) {
    return Damage{fmt::format("{}: {}: {}", opened.files[file].source->name(), describe(file, range),
                              internal::damage_text(range.checksum)),
                  states_in(file, range)};
  };
}

absl::Status Checkpoint::check_texts() const {
  for (const Checkpoint* const source : state_->sources()) SCALAI_RETURN_IF_ERROR(source->check_texts());
  if (state_->base || state_->opened.accepts_damage) return absl::OkStatus();
  const std::lock_guard lock(state_->texts_mutex);
  if (state_->texts) return *state_->texts;
  Findings findings;
  const internal::Verifier verifier(state_->opened, state_->index, nullptr, findings);
  for (const TextRecord& text : state_->opened.texts) {
    const std::string location = state_->location_of(text.name);
    // One that is gone has a note, if all the others can do without it.
    const bool is_needed = !internal::is_extra(text.name) || internal::describes_checkpoint(text.name);
    if (is_needed || state_->opened.sources->open(location).ok()) verifier.text(text, location);
  }
  const absl::Status status = findings.status();
  if (status.ok() || absl::IsInvalidArgument(status)) state_->texts = status;
  return status;
}

absl::Status Checkpoint::known_damage() const {
  if (info().damage.empty()) return absl::OkStatus();
  std::string text;
  for (const Damage& damage : info().damage)
    text += fmt::format("{}: was written from damaged state, which was accepted: {}\n", info().path, damage.what);
  return invalid(text + "Its own checksums are right");
}

Checkpoint::Sums Checkpoint::sums() const {
  Sums sums;
  for (const CheckpointFile& file : state_->files) {
    sums.tensors += file.tensors;
    sums.summed += file.summed;
    sums.of_manifest = sums.of_manifest && !file.checksum.empty();
  }
  return sums;
}

bool Checkpoint::accepts_damage() const { return state_->opened.accepts_damage; }

bool Checkpoint::has_damage() const {
  const auto has = [](const Checkpoint* source) { return source->has_damage(); };
  const std::vector<const Checkpoint*> sources = state_->sources();
  return std::any_of(sources.begin(), sources.end(), has) ||
         std::any_of(state_->opened.files.begin(), state_->opened.files.end(),
                     [](const OpenedFile& file) { return file.checked && file.checked->has_damage(); });
}

absl::Status Checkpoint::confirm() const {
  ProblemList problems;
  for (const Checkpoint* const source : state_->sources()) {
    if (const absl::Status status = source->confirm(); !status.ok()) problems.add(status);
  }
  if (state_->opened.sources && !state_->base) {  // of which it is that of the base
    if (const absl::Status status = state_->opened.sources->confirm(); !status.ok()) problems.add(status);
  }
  return problems.status();
}

bool Checkpoint::has_versions() const {
  const std::vector<const Checkpoint*> sources = state_->sources();
  return (state_->opened.sources == nullptr || state_->opened.sources->have_versions()) &&
         std::all_of(sources.begin(), sources.end(), [](const Checkpoint* source) { return source->has_versions(); });
}

bool Checkpoint::has_replicas() const {
  if (state_->base) {
    return state_->base->has_replicas() || std::any_of(state_->others.begin(), state_->others.end(),
                                                       [](const auto& other) { return other->has_replicas(); });
  }
  return std::any_of(state_->index.begin(), state_->index.end(),
                     [](const internal::PieceIndex& index) { return !index.replicas().empty(); });
}

}  // namespace scalai::store
