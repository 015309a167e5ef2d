#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <utility>

#include "ptc/base/file.h"
#include "ptc/base/hash.h"
#include "ptc/base/status.h"
#include "ptc/base/utf8.h"
#include "ptc/state/collection/collection_file.h"
#include "ptc/store/safetensors/checksum.h"
#include "ptc/store/safetensors/files.h"
#include "ptc/store/safetensors/job_checkpoint.h"
#include "ptc/store/safetensors/manifest.h"
#include "ptc/store/safetensors/safetensors.h"

namespace scalai::store {
namespace {

// Small enough that the bytes are still in the cache when they are written after they were summed.
constexpr size_t kChecksumChunkBytes = size_t{1} << 18;

absl::Status append_summed(OutputFile& file, std::span<const std::byte> bytes, Checksum& of_box, Checksum& of_file) {
  while (!bytes.empty()) {
    const std::span<const std::byte> chunk = bytes.first(std::min(kChecksumChunkBytes, bytes.size()));
    of_box.add(chunk);
    of_file.add(chunk);
    SCALAI_RETURN_IF_ERROR(file.append(chunk));
    bytes = bytes.subspan(chunk.size());
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> make_temporary(const std::string& folder) {
  for (int i = 0;; ++i) {
    std::string path = fmt::format("{}.partial.{}.{}", folder, ::getpid(), i);
    if (::mkdir(path.c_str(), 0777) == 0) return path;
    if (errno == EEXIST) continue;
    const std::string message = fmt::format("{}: cannot create folder: {}", path, std::strerror(errno));
    return errno == ENOSPC || errno == EDQUOT ? absl::ResourceExhaustedError(message) : missing(message);
  }
}

}  // namespace

struct Writer::State {
  std::string folder;  // empty for one that joined
  std::string temporary;
  bool owns_temporary = false;
  collection::Collection collection;
  std::string collection_text;
  Manifest manifest;  // without files
  std::vector<std::vector<OwnedBox>> owned;

  ~State() {
    if (owns_temporary) remove_folder(temporary);
  }
  const collection::LogicalTensor& tensor(TensorId id) const {
    return collection.tensors[static_cast<size_t>(id.value)];
  }
  const std::vector<OwnedBox>& owned_by(LogicalRank rank) const {
    SCALAI_CHECK(rank.value >= 0 && rank.value < collection.ranks());
    return owned[static_cast<size_t>(rank.value)];
  }
  absl::Status describe(const collection::Collection& of, const Stamp& stamp);
  absl::StatusOr<EncodedHeader> encode(const std::vector<BoxInFile>& boxes, int rank) const;
  int64_t box_bytes(const OwnedBox& one) const { return one.box.volume() * tensor::size_of(tensor(one.tensor).dtype); }
  absl::StatusOr<Manifest> join_parts(std::span<const std::string> parts) const;
};

absl::Status Writer::State::describe(const collection::Collection& of, const Stamp& stamp) {
  collection = of;
  collection_text = collection::collection_text(of, {});
  manifest = {stamp.job, stamp.step, of.epoch, digest_of(collection_text), {}};
  if (stamp.step < 0 || of.epoch < 0) return invalid("step and epoch of a checkpoint are not negative");
  owned = owned_boxes(collection);
  return absl::OkStatus();
}

absl::StatusOr<EncodedHeader> Writer::State::encode(const std::vector<BoxInFile>& boxes, int rank) const {
  std::vector<TensorSpec> specs;
  std::map<std::string, std::string> metadata = file_metadata(manifest, rank);
  for (const BoxInFile& box : boxes) {
    specs.push_back({box.key, tensor(box.owned.tensor).dtype, extents_of(box.owned.box)});
    metadata[box_metadata_key(box.key)] = box.owned.box.str();
  }
  return encode_safetensors_header(std::move(specs), std::move(metadata));
}

Writer::Writer(std::unique_ptr<State> state) : state_(std::move(state)) {}
Writer::~Writer() = default;
Writer::Writer(Writer&&) noexcept = default;

absl::StatusOr<Writer> Writer::begin(const std::string& folder, const collection::Collection& collection,
                                     const Stamp& stamp) {
  auto state = std::make_unique<State>();
  SCALAI_RETURN_IF_ERROR(state->describe(collection, stamp));
  // A reader will understand it, and compute the same digest. Who joins has the same text.
  const absl::StatusOr<collection::CollectionFile> read =
      collection::parse_collection(state->collection_text, kCollectionName, collection::FileRole::kPlanned);
  if (!read.ok()) return invalid(fmt::format("a collection that cannot be stored: {}", message_of(read.status())));
  if (read->digest != state->manifest.collection_digest)
    return invalid("a collection that cannot be stored: its text reads back as another one");
  state->folder = without_trailing_slash(folder);
  SCALAI_RETURN_IF_ERROR(make_synced_folders(parent_of(state->folder)));
  SCALAI_ASSIGN_OR_RETURN(state->temporary, make_temporary(state->folder));
  state->owns_temporary = true;
  SCALAI_RETURN_IF_ERROR(write_synced(state->temporary + "/" + kCollectionName, state->collection_text));
  return Writer(std::move(state));
}

absl::StatusOr<Writer> Writer::join(const std::string& temporary, const collection::Collection& collection,
                                    const Stamp& stamp) {
  auto state = std::make_unique<State>();
  SCALAI_RETURN_IF_ERROR(state->describe(collection, stamp));
  state->temporary = without_trailing_slash(temporary);
  const std::string path = state->temporary + "/" + kCollectionName;
  SCALAI_ASSIGN_OR_RETURN(const std::string text, read_file(path));
  if (text != state->collection_text) return invalid(fmt::format("{}: is of another collection", path));
  return Writer(std::move(state));
}

const std::string& Writer::temporary() const { return state_->temporary; }

bool Writer::has_file(LogicalRank rank) const { return !state_->owned_by(rank).empty(); }

int64_t Writer::state_bytes(LogicalRank rank) const {
  int64_t bytes = 0;
  for (const OwnedBox& owned : state_->owned_by(rank)) bytes += state_->box_bytes(owned);
  return bytes;
}

int64_t Writer::box_bytes(const OwnedBox& owned) const { return state_->box_bytes(owned); }

absl::StatusOr<std::vector<OwnedBox>> Writer::boxes_of(LogicalRank rank) const {
  const std::vector<BoxInFile> boxes = boxes_in_file(state_->collection, state_->owned_by(rank));
  SCALAI_ASSIGN_OR_RETURN(const EncodedHeader encoded, state_->encode(boxes, rank.value));
  std::map<std::string, OwnedBox> by_key;
  for (const BoxInFile& box : boxes) by_key.emplace(box.key, box.owned);
  std::vector<OwnedBox> in_order;
  for (const StoredTensor& stored : encoded.header.tensors) in_order.push_back(by_key.at(stored.name));
  return in_order;
}

absl::StatusOr<std::string> Writer::write_rank(LogicalRank rank, const Provider& provider) const {
  if (!has_file(rank)) return std::string();
  const std::vector<BoxInFile> boxes = boxes_in_file(state_->collection, state_->owned_by(rank));
  SCALAI_ASSIGN_OR_RETURN(const EncodedHeader encoded, state_->encode(boxes, rank.value));
  std::map<std::string, const BoxInFile*> by_key;
  for (const BoxInFile& box : boxes) by_key[box.key] = &box;

  FileRecord record{rank_file_name(rank.value), rank.value, encoded.header.file_bytes, "", {}};
  SCALAI_ASSIGN_OR_RETURN(OutputFile file, OutputFile::create(state_->temporary + "/" + record.name, record.bytes));
  Checksum of_file;
  of_file.add(bytes_of(encoded.bytes));
  SCALAI_RETURN_IF_ERROR(file.append(bytes_of(encoded.bytes)));
  for (const StoredTensor& stored : encoded.header.tensors) {
    const OwnedBox& owned = by_key.at(stored.name)->owned;
    SCALAI_ASSIGN_OR_RETURN(const std::span<const std::byte> bytes, provider(owned.tensor, owned.box));
    SCALAI_CHECK(static_cast<int64_t>(bytes.size()) == stored.bytes, stored.name);
    Checksum of_box;
    SCALAI_RETURN_IF_ERROR(append_summed(file, bytes, of_box, of_file));
    record.boxes.push_back({state_->tensor(owned.tensor).name, stored.name, owned.box, of_box.hex()});
  }
  SCALAI_RETURN_IF_ERROR(file.finish());
  record.checksum = of_file.hex();
  Manifest part = state_->manifest;
  part.files.push_back(std::move(record));
  return manifest_part(part);
}

absl::StatusOr<Manifest> Writer::State::join_parts(std::span<const std::string> parts) const {
  std::map<int, FileRecord> by_rank;
  for (const std::string& text : parts) {
    if (text.empty()) continue;
    absl::StatusOr<Manifest> part = parse_manifest(text);
    if (!part.ok() || part->files.size() != 1) return invalid(fmt::format("{}: a part is not readable", folder));
    FileRecord file = std::move(part->files.front());
    part->files.clear();
    part->texts = manifest.texts;  // only who began the checkpoint knows of them
    if (*part != manifest) {
      return invalid(fmt::format("{}: the part of rank {} is of job \"{}\", step {}, epoch {}, not of this checkpoint",
                                 folder, file.rank, part->job, part->step, part->epoch));
    }
    const int rank = file.rank;
    if (rank >= collection.ranks() || owned_by(LogicalRank(rank)).empty() || by_rank.count(rank) != 0) {
      return invalid(fmt::format("{}: a part of rank {} too many", folder, rank));
    }
    by_rank.emplace(rank, std::move(file));
  }
  Manifest whole = manifest;
  for (int rank = 0; rank < collection.ranks(); ++rank) {
    if (owned_by(LogicalRank(rank)).empty()) continue;
    if (by_rank.count(rank) == 0) return invalid(fmt::format("{}: the part of rank {} is missing", folder, rank));
    FileRecord& file = by_rank.at(rank);
    struct stat info {};
    if (::stat(fmt::format("{}/{}", temporary, file.name).c_str(), &info) != 0 || info.st_size != file.bytes) {
      return invalid(fmt::format("{}/{}: not there with its {} bytes", temporary, file.name, file.bytes));
    }
    whole.files.push_back(std::move(file));
  }
  return whole;
}

absl::Status Writer::add_file(const std::string& name, std::string_view text) {
  SCALAI_CHECK(state_->owns_temporary, "only what begin() made");
  std::vector<TextRecord>& texts = state_->manifest.texts;
  const auto same = [&](const TextRecord& record) { return record.name == name; };
  if (!is_text_name(name) || std::any_of(texts.begin(), texts.end(), same)) {
    return invalid(fmt::format("\"{}\" cannot be the name of a file in a checkpoint", clipped(name, 120)));
  }
  SCALAI_RETURN_IF_ERROR(write_synced(state_->temporary + "/" + name, text));
  texts.push_back({name, static_cast<int64_t>(text.size()), Checksum().add(bytes_of(text)).hex()});
  std::sort(texts.begin(), texts.end(), [](const TextRecord& x, const TextRecord& y) { return x.name < y.name; });
  return absl::OkStatus();
}

absl::Status Writer::finish(std::span<const std::string> parts) {
  SCALAI_CHECK(state_->owns_temporary, "only what begin() made, once");
  SCALAI_ASSIGN_OR_RETURN(const Manifest manifest, state_->join_parts(parts));
  SCALAI_RETURN_IF_ERROR(write_synced(state_->temporary + "/" + kManifestName, manifest_text(manifest)));
  SCALAI_RETURN_IF_ERROR(sync_folder(state_->temporary));
  state_->owns_temporary = false;
  struct stat written {
  }, named{};
  const bool known = ::stat(state_->temporary.c_str(), &written) == 0;
  const absl::Status published = publish_folder(state_->temporary, state_->folder);
  // After a failed flush both folders stay: a power cut may still give the name to either. begin() clears up later.
  const bool renamed = known && ::stat(state_->folder.c_str(), &named) == 0 && named.st_ino == written.st_ino;
  state_->owns_temporary = !published.ok() && !renamed;
  return published;
}

}  // namespace scalai::store
