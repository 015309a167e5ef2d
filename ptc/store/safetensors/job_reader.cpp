#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <set>
#include <unordered_map>
#include <utility>

#include "ptc/base/file.h"
#include "ptc/base/status.h"
#include "ptc/base/utf8.h"
#include "ptc/state/collection/collection_file.h"
#include "ptc/store/safetensors/checksum.h"
#include "ptc/store/safetensors/files.h"
#include "ptc/store/safetensors/internal/gather.h"
#include "ptc/store/safetensors/job_checkpoint.h"
#include "ptc/store/safetensors/manifest.h"
#include "ptc/store/safetensors/safetensors.h"

namespace scalai::store {
namespace {

constexpr int64_t kChunkBytes = int64_t{1} << 20;

struct StoredBox {
  size_t file = 0;
  StoredTensor stored;
  tensor::Box box;
  std::string checksum;
  size_t number = 0;  // among all boxes of the checkpoint
};

struct OpenFile {
  SafetensorsFile file;
  FileRecord record;
};

std::string place(const OpenFile& open, const BoxRecord& box) {
  return fmt::format("{}: tensor \"{}\" box {}", open.file.path(), clipped(box.tensor, 120), box.box.str());
}

absl::Status checksum_differs(const std::string& where) {
  return invalid(fmt::format("{}: the bytes do not have the checksum of the manifest: the file is damaged", where));
}

absl::StatusOr<std::string> sum_of(const SafetensorsFile& file, const StoredTensor& stored, Checksum* also) {
  Checksum sum;
  std::vector<std::byte> chunk;
  for (int64_t at = 0; at < stored.bytes; at += kChunkBytes) {
    chunk.resize(static_cast<size_t>(std::min(kChunkBytes, stored.bytes - at)));
    SCALAI_RETURN_IF_ERROR(file.read(stored, at, chunk));
    sum.add(chunk);
    if (also != nullptr) also->add(chunk);
  }
  return sum.hex();
}

// The file's own account of itself against the manifest's.
absl::Status check_file(const OpenFile& open, const Manifest& manifest) {
  const SafetensorsHeader& header = open.file.header();
  const std::string& path = open.file.path();
  if (header.file_bytes != open.record.bytes) {
    return invalid(fmt::format("{}: has {} bytes, its manifest says {}", path, header.file_bytes, open.record.bytes));
  }
  for (const auto& entry : file_metadata(manifest, open.record.rank)) {
    const auto found = header.metadata.find(entry.first);
    if (found == header.metadata.end() || found->second != entry.second) {
      return invalid(fmt::format("{}: \"{}\" is not \"{}\" as in the manifest", path, entry.first, entry.second));
    }
  }
  if (header.tensors.size() != open.record.boxes.size()) {
    return invalid(fmt::format("{}: has {} tensors, its manifest names {}", path, header.tensors.size(),
                               open.record.boxes.size()));
  }
  return absl::OkStatus();
}

absl::Status check_box(const OpenFile& open, const BoxRecord& box, const collection::LogicalTensor& tensor) {
  const StoredTensor* stored = open.file.find(box.key);
  if (stored == nullptr)
    return invalid(fmt::format("{}: is not in the file as \"{}\"", place(open, box), clipped(box.key, 120)));
  const auto& metadata = open.file.header().metadata;
  const auto named = metadata.find(box_metadata_key(box.key));
  bool same = stored->dtype == tensor.dtype && static_cast<int>(stored->shape.size()) == box.box.rank &&
              named != metadata.end() && named->second == box.box.str();
  for (int dim = 0; same && dim < box.box.rank; ++dim) {
    same = stored->shape[static_cast<size_t>(dim)] == box.box.extent(dim);
  }
  return same ? absl::OkStatus()
              : invalid(fmt::format("{}: dtype or shape in the file is another one", place(open, box)));
}

}  // namespace

struct Reader::State {
  std::string folder;
  Stamp stamp;
  collection::Collection collection;
  Manifest manifest;
  std::vector<OpenFile> files;
  std::vector<std::vector<StoredBox>> boxes;  // by tensor
  std::unordered_map<std::string, TensorId> tensor_of_name;
  std::vector<std::atomic<bool>> checked;  // by StoredBox::number

  absl::Status read_manifest();
  absl::Status read_collection();
  absl::Status open_files();
  absl::Status index_boxes();
  absl::Status read_box(const StoredBox& stored, const tensor::Box& wanted, const tensor::Box& common,
                        std::span<std::byte> dst);
  void verify_file(const OpenFile& open, std::vector<std::string>& problems) const;
};

absl::Status Reader::State::read_manifest() {
  const std::string path = folder + "/" + kManifestName;
  SCALAI_ASSIGN_OR_RETURN(const std::string text, read_file(path));
  absl::StatusOr<Manifest> parsed = parse_manifest(text);
  if (!parsed.ok()) return invalid(fmt::format("{}: {}", path, message_of(parsed.status())));
  manifest = *std::move(parsed);
  stamp = {manifest.job, manifest.step};
  return absl::OkStatus();
}

absl::Status Reader::State::read_collection() {
  const std::string path = folder + "/" + kCollectionName;
  SCALAI_ASSIGN_OR_RETURN(const std::string text, read_file(path));
  SCALAI_ASSIGN_OR_RETURN(collection::CollectionFile file,
                          collection::parse_collection(text, path, collection::FileRole::kPlanned));
  if (file.digest != manifest.collection_digest || file.collection.epoch != manifest.epoch) {
    return invalid(fmt::format("{}: digest {} and epoch {} are not those of the manifest ({} and {})", path,
                               file.digest, file.collection.epoch, manifest.collection_digest, manifest.epoch));
  }
  collection = std::move(file.collection);
  for (size_t i = 0; i < collection.tensors.size(); ++i) {
    tensor_of_name[collection.tensors[i].name] = TensorId(static_cast<int64_t>(i));
  }
  return absl::OkStatus();
}

absl::Status Reader::State::open_files() {
  for (const FileRecord& record : manifest.files) {
    SCALAI_ASSIGN_OR_RETURN(SafetensorsFile file, SafetensorsFile::open(folder + "/" + record.name));
    files.push_back({std::move(file), record});
    SCALAI_RETURN_IF_ERROR(check_file(files.back(), manifest));
  }
  return absl::OkStatus();
}

// Every box of the collection is in one file, and nothing else is.
absl::Status Reader::State::index_boxes() {
  std::vector<std::set<tensor::Box>> expected(collection.tensors.size());
  for (const std::vector<OwnedBox>& rank : owned_boxes(collection)) {
    for (const OwnedBox& owned : rank) expected[static_cast<size_t>(owned.tensor.value)].insert(owned.box);
  }
  boxes.resize(collection.tensors.size());
  size_t number = 0;
  for (size_t f = 0; f < files.size(); ++f) {
    std::set<std::string_view> keys;
    for (const BoxRecord& box : files[f].record.boxes) {
      const auto found = tensor_of_name.find(box.tensor);
      const auto id = found == tensor_of_name.end() ? 0 : static_cast<size_t>(found->second.value);
      if (found == tensor_of_name.end() || expected[id].erase(box.box) == 0) {
        return invalid(fmt::format("{}: the collection has no such box, or it is there twice", place(files[f], box)));
      }
      SCALAI_RETURN_IF_ERROR(check_box(files[f], box, collection.tensors[id]));
      if (!keys.insert(box.key).second) {  // one stored tensor for two boxes, which it fits both
        return invalid(fmt::format("{}: the manifest has \"{}\" twice", place(files[f], box), clipped(box.key, 120)));
      }
      boxes[id].push_back({f, *files[f].file.find(box.key), box.box, box.checksum, number++});
    }
  }
  for (size_t id = 0; id < expected.size(); ++id) {
    if (expected[id].empty()) continue;
    return invalid(fmt::format("{}: tensor \"{}\" box {}: is in no file", folder, collection.tensors[id].name,
                               expected[id].begin()->str()));
  }
  checked = std::vector<std::atomic<bool>>(number);
  return absl::OkStatus();
}

absl::Status Reader::State::read_box(const StoredBox& stored, const tensor::Box& wanted, const tensor::Box& common,
                                     std::span<std::byte> dst) {
  const SafetensorsFile& file = files[stored.file].file;
  std::atomic<bool>& is_checked = checked[stored.number];
  const auto differs = [&] {
    return checksum_differs(fmt::format("{}: tensor \"{}\" box {}", file.path(), stored.stored.name, stored.box.str()));
  };
  if (is_checked) return read_common(file, stored.stored, stored.box, wanted, common, dst);

  // All of it, and it lies in dst as it lies in the file: one pass does both.
  if (common == stored.box && runs_of(stored.box, wanted, common).count == 1) {
    const auto at = static_cast<size_t>(first_run_of(stored.box, wanted, common).dst * size_of(stored.stored.dtype));
    const std::span<std::byte> to = dst.subspan(at, static_cast<size_t>(stored.stored.bytes));
    SCALAI_RETURN_IF_ERROR(file.read(stored.stored, 0, to));
    if (Checksum().add(to).hex() != stored.checksum) return differs();
    is_checked = true;
    return absl::OkStatus();
  }
  SCALAI_ASSIGN_OR_RETURN(const std::string sum, sum_of(file, stored.stored, nullptr));
  if (sum != stored.checksum) return differs();
  is_checked = true;
  return read_common(file, stored.stored, stored.box, wanted, common, dst);
}

void Reader::State::verify_file(const OpenFile& open, std::vector<std::string>& problems) const {
  std::unordered_map<std::string, const BoxRecord*> by_key;
  for (const BoxRecord& box : open.record.boxes) by_key[box.key] = &box;
  Checksum whole;
  const absl::StatusOr<std::string> header = open.file.raw_header();
  if (!header.ok()) {
    problems.push_back(message_of(header.status()));
    return;
  }
  whole.add(bytes_of(*header));
  const size_t before = problems.size();
  for (const StoredTensor& stored : open.file.header().tensors) {  // without holes, so this is the whole file
    const BoxRecord& box = *by_key.at(stored.name);
    const absl::StatusOr<std::string> sum = sum_of(open.file, stored, &whole);
    if (!sum.ok()) {
      problems.push_back(message_of(sum.status()));
      return;  // the rest of a file that was cut or cannot be read would say the same
    }
    if (*sum != box.checksum) problems.push_back(message_of(checksum_differs(place(open, box))));
  }
  if (problems.size() == before && whole.hex() != open.record.checksum) {
    problems.push_back(message_of(checksum_differs(open.file.path())));
  }
}

Reader::Reader(std::unique_ptr<State> state) : state_(std::move(state)) {}
Reader::~Reader() = default;
Reader::Reader(Reader&&) noexcept = default;

absl::StatusOr<Reader> Reader::open(const std::string& folder) {
  auto state = std::make_unique<State>();
  state->folder = without_trailing_slash(folder);
  SCALAI_RETURN_IF_ERROR(state->read_manifest());
  SCALAI_RETURN_IF_ERROR(state->read_collection());
  SCALAI_RETURN_IF_ERROR(state->open_files());
  SCALAI_RETURN_IF_ERROR(state->index_boxes());
  return Reader(std::move(state));
}

const std::string& Reader::folder() const { return state_->folder; }
const Stamp& Reader::stamp() const { return state_->stamp; }
const collection::Collection& Reader::collection() const { return state_->collection; }

std::optional<TensorId> Reader::find(const std::string& tensor) const {
  const auto found = state_->tensor_of_name.find(tensor);
  return found == state_->tensor_of_name.end() ? std::nullopt : std::optional(found->second);
}

absl::Status Reader::read(TensorId id, const tensor::Box& box, std::span<std::byte> dst) const {
  SCALAI_CHECK(id.value >= 0 && static_cast<size_t>(id.value) < state_->boxes.size());
  const collection::LogicalTensor& tensor = state_->collection.tensors[static_cast<size_t>(id.value)];
  SCALAI_CHECK(box.rank == tensor.shape.rank() && tensor::Box::whole(tensor.shape).contains(box), tensor.name);
  SCALAI_CHECK(static_cast<int64_t>(dst.size()) == box.volume() * tensor::size_of(tensor.dtype), tensor.name);
  if (box.empty()) return absl::OkStatus();
  for (const StoredBox& stored : state_->boxes[static_cast<size_t>(id.value)]) {
    const std::optional<tensor::Box> common = intersect(stored.box, box);
    if (common) SCALAI_RETURN_IF_ERROR(state_->read_box(stored, box, *common, dst));
  }
  return absl::OkStatus();
}

absl::Status Reader::verify() const {
  std::vector<std::string> problems;
  for (const OpenFile& open : state_->files) state_->verify_file(open, problems);
  for (const TextRecord& text : state_->manifest.texts) {
    const std::string path = state_->folder + "/" + text.name;
    const absl::StatusOr<std::string> bytes = read_file(path);
    if (!bytes.ok()) {
      problems.push_back(message_of(bytes.status()));
    } else if (Checksum().add(bytes_of(*bytes)).hex() != text.checksum) {
      problems.push_back(message_of(checksum_differs(path)));
    }
  }
  return problems.empty() ? absl::OkStatus() : invalid(fmt::format("{}", fmt::join(problems, "\n")));
}

}  // namespace scalai::store
