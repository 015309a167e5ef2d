#include "ptc/checkpoint/internal/opened.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "ptc/base/status.h"
#include "ptc/base/utf8.h"
#include "ptc/checkpoint/arrange.h"
#include "ptc/checkpoint/internal/arranged_manifest.h"
#include "ptc/checkpoint/internal/files.h"
#include "ptc/checkpoint/internal/known_model.h"
#include "ptc/checkpoint/job_checkpoint.h"
#include "ptc/checkpoint/safetensors.h"
#include "ptc/collection/megatron.h"

namespace scalai::checkpoint::internal {
namespace {

constexpr const char* kWholeName = "model.safetensors";
constexpr std::string_view kExtension = ".safetensors";
constexpr size_t kMostProblems = 50;

absl::Status at(const std::string& place, const absl::Status& status) {
  return absl::Status(status.code(), fmt::format("{}: {}", place, message_of(status)));
}

// One folder of a checkpoint, wherever it is.
class Folder {
 public:
  Folder(std::string path, const OpenOptions& options) : path_(std::move(path)), options_(options) {}

  const std::string& path() const { return path_; }
  const OpenOptions& options() const { return options_; }
  std::string path_of(const std::string& name) const { return path_ + "/" + name; }

  absl::StatusOr<ByteSourcePtr> source(const std::string& name) const {
    return options_.opener ? options_.opener(path_of(name)) : open_file_source(path_of(name));
  }
  // Empty when there is no such file.
  absl::StatusOr<std::string> text(const std::string& name) const {
    constexpr int64_t kMost = int64_t{1} << 31;
    const absl::StatusOr<ByteSourcePtr> found = source(name);
    if (absl::IsNotFound(found.status())) return std::string();
    if (!found.ok()) return found.status();
    if ((*found)->size() > kMost) return invalid(fmt::format("{}: has {} bytes", path_of(name), (*found)->size()));
    return read_all(**found);
  }

 private:
  std::string path_;
  const OpenOptions& options_;
};

// A safetensors file with its tensors, none of which has pieces yet. `found` gets the same for the naming.
absl::StatusOr<OpenedFile> open_tensors(const Folder& folder, const std::string& name, FoundFile* found) {
  SCALAI_ASSIGN_OR_RETURN(ByteSourcePtr source, folder.source(name));
  SCALAI_ASSIGN_OR_RETURN(const SafetensorsHeader header, read_safetensors_header(*source));
  OpenedFile file{
      .name = name, .source = std::move(source), .data_begin = header.data_begin, .checksum = "", .tensors = {}};
  if (found != nullptr) found->name = name;
  for (const StoredTensor& stored : header.tensors) {
    file.tensors.push_back({.name = stored.name,
                            .dtype = stored.dtype,
                            .offset = stored.offset,
                            .elements = stored.bytes / tensor::size_of(stored.dtype),
                            .checksum = "",
                            .pieces = {}});
    if (found != nullptr) found->tensors.push_back({stored.name, stored.dtype, stored.shape});
  }
  return file;
}

absl::Status open_all(const Folder& folder, const std::vector<std::string>& names, Opened& opened,
                      std::vector<FoundFile>& found) {
  ProblemList problems;
  for (const std::string& name : names) {
    FoundFile in_file;
    absl::StatusOr<OpenedFile> file = open_tensors(folder, name, &in_file);
    if (!file.ok() && !absl::IsInvalidArgument(file.status())) return file.status();
    if (!file.ok()) {
      problems.add(message_of(file.status()));
      continue;
    }
    opened.files.push_back(*std::move(file));
    found.push_back(std::move(in_file));
  }
  return problems.status();
}

// Pieces of what a naming found to the tensors of the files.
void take_pieces(FoundState&& state, Opened& opened) {
  for (size_t f = 0; f < state.files.size(); ++f) {
    std::map<std::string, std::vector<PlacedPiece>*> by_name;
    for (OpenedTensor& tensor : opened.files[f].tensors) by_name[tensor.name] = &tensor.pieces;
    for (ArrangedTensor& tensor : state.files[f].tensors) *by_name.at(tensor.name) = std::move(tensor.pieces);
  }
  opened.states = std::move(state.states);
}

absl::Status take_model(const Folder& folder, Opened& opened) {
  ModelHints hints;
  hints.place = folder.path();
  SCALAI_ASSIGN_OR_RETURN(hints.model_file, folder.text(std::string(kModelFileName)));
  SCALAI_ASSIGN_OR_RETURN(hints.family_file, folder.text(kFamilyFileName));
  SCALAI_ASSIGN_OR_RETURN(hints.config, folder.text(kConfigFileName));
  SCALAI_ASSIGN_OR_RETURN(opened.model, known_model(folder.options(), hints));
  opened.info.config = std::move(hints.config);
  if (opened.info.config.empty() && !folder.options().config.empty()) {
    SCALAI_ASSIGN_OR_RETURN(const ByteSourcePtr config, open_file_source(folder.options().config));
    SCALAI_ASSIGN_OR_RETURN(opened.info.config, read_all(*config));
  }
  return absl::OkStatus();
}

// --- job --------------------------------------------------------------------------------------------------------------

absl::StatusOr<Opened> open_job(const Folder& folder, const std::string& manifest_text) {
  if (folder.options().opener) {
    return invalid(fmt::format("{}: a job's checkpoint is read from a local folder only", folder.path()));
  }
  // It compares manifest, collection and headers.
  SCALAI_ASSIGN_OR_RETURN(const Reader reader, Reader::open(folder.path()));
  SCALAI_ASSIGN_OR_RETURN(const Manifest manifest, parse_manifest(manifest_text));
  Opened opened;
  opened.info.kind = CheckpointKind::kJob;
  opened.info.naming = "job";
  opened.info.job = manifest.job;
  opened.info.step = manifest.step;
  opened.info.epoch = manifest.epoch;
  opened.texts = manifest.texts;
  for (const collection::LogicalTensor& tensor : reader.collection().tensors) {
    opened.states.push_back({tensor.name, tensor.dtype, tensor.shape, tensor.kind});
  }
  for (const FileRecord& record : manifest.files) {
    SCALAI_ASSIGN_OR_RETURN(OpenedFile file, open_tensors(folder, record.name, nullptr));
    std::map<std::string, const BoxRecord*> by_key;
    for (const BoxRecord& box : record.boxes) by_key[box.key] = &box;
    for (OpenedTensor& tensor : file.tensors) {
      const BoxRecord& box = *by_key.at(tensor.name);
      tensor.checksum = box.checksum;
      tensor.pieces = {{box.tensor, {.box = box.box, .offset = 0, .strides = box.box.shape().strides()}}};
    }
    file.checksum = record.checksum;
    opened.files.push_back(std::move(file));
  }
  SCALAI_RETURN_IF_ERROR(take_model(folder, opened));
  return opened;
}

// --- arranged ---------------------------------------------------------------------------------------------------------

void take_record(ArrangedRecord&& record, OpenedFile& file, ProblemList& problems, const std::string& path) {
  std::map<std::string, size_t> by_key;
  for (size_t i = 0; i < record.file.tensors.size(); ++i) by_key[record.file.tensors[i].name] = i;
  if (file.source->size() != record.bytes) {
    problems.add(fmt::format("{}: has {} bytes, its manifest says {}", path, file.source->size(), record.bytes));
  }
  for (OpenedTensor& tensor : file.tensors) {
    const auto found = by_key.find(tensor.name);
    if (found == by_key.end()) {
      problems.add(fmt::format("{}: tensor \"{}\" is not in the manifest", path, clipped(tensor.name, 120)));
      continue;
    }
    tensor.checksum = record.tensor_checksums[found->second];
    tensor.pieces = std::move(record.file.tensors[found->second].pieces);
    by_key.erase(found);
  }
  for (const auto& [key, index] : by_key) {
    problems.add(fmt::format("{}: tensor \"{}\" of the manifest is not there", path, clipped(key, 120)));
  }
  file.checksum = record.checksum;
}

absl::StatusOr<Opened> open_arranged(const Folder& folder, const std::string& manifest_text) {
  absl::StatusOr<ArrangedManifest> manifest = parse_arranged_manifest(manifest_text);
  if (!manifest.ok()) return at(folder.path_of(kManifestName), manifest.status());
  Opened opened;
  opened.info.kind = CheckpointKind::kArranged;
  opened.info.naming = manifest->naming;
  opened.info.layout = manifest->layout;
  opened.info.job = manifest->job;
  opened.info.step = manifest->step;
  opened.info.epoch = manifest->epoch;
  opened.info.hf_prefix = manifest->hf_prefix;
  opened.texts = std::move(manifest->texts);
  opened.states = std::move(manifest->states);
  ProblemList problems;
  for (ArrangedRecord& record : manifest->files) {
    const std::string path = folder.path_of(record.file.name);
    absl::StatusOr<OpenedFile> file = open_tensors(folder, record.file.name, nullptr);
    if (!file.ok()) {
      problems.add(message_of(file.status()));
      continue;
    }
    take_record(std::move(record), *file, problems, path);
    opened.files.push_back(*std::move(file));
  }
  SCALAI_RETURN_IF_ERROR(problems.status());
  SCALAI_RETURN_IF_ERROR(take_model(folder, opened));
  return opened;
}

// --- files of others --------------------------------------------------------------------------------------------------

// Every tensor is in the file that the index says, and no other.
absl::Status check_index(const std::string& path, const std::vector<std::pair<std::string, std::string>>& weight_map,
                         const std::vector<FoundFile>& found) {
  std::map<std::string, std::string> expected(weight_map.begin(), weight_map.end());
  ProblemList problems;
  for (const FoundFile& file : found) {
    for (const FoundTensor& tensor : file.tensors) {
      const auto entry = expected.find(tensor.name);
      if (entry == expected.end() || entry->second != file.name) {
        problems.add(fmt::format("{}: tensor \"{}\" is in {}, which the index does not say", path,
                                 clipped(tensor.name, 120), file.name));
      }
      if (entry != expected.end() && entry->second == file.name) expected.erase(entry);
    }
  }
  for (const auto& [tensor, file] : expected) {
    problems.add(fmt::format("{}: tensor \"{}\" is not in {}", path, clipped(tensor, 120), file));
  }
  return problems.status();
}

absl::StatusOr<Naming> naming_of(const Folder& folder, const Opened& opened, const std::string& name) {
  if (name == "logical") return Naming::logical();
  if (!opened.model) {
    return invalid(fmt::format("{}: which model is it? There is no config.json; say --config=FILE or --model=NAME",
                               folder.path()));
  }
  if (!opened.model->family) {
    return invalid(fmt::format("{}: no family is known for models of {}; --families=DIR adds one", folder.path(),
                               opened.model->model.family));
  }
  absl::StatusOr<Naming> naming = Naming::of(*opened.model->family, name, opened.model->file.sizes);
  return naming.ok() ? naming : at(folder.path(), naming.status());
}

absl::StatusOr<Opened> open_hugging_face(const Folder& folder, const std::string& index, const std::string& single) {
  Opened opened;
  opened.info.kind = CheckpointKind::kHuggingFace;
  opened.info.naming = "hf";
  std::vector<std::pair<std::string, std::string>> weight_map;
  std::vector<std::string> names = {single};
  const std::string index_path = folder.path_of(std::string(kIndexFileName));
  if (!index.empty()) {
    auto parsed = parse_weight_map(index);
    if (!parsed.ok()) return at(index_path, parsed.status());
    weight_map = *std::move(parsed);
    std::set<std::string> files;
    for (const auto& entry : weight_map) files.insert(entry.second);
    names = std::vector<std::string>(files.begin(), files.end());
  }
  SCALAI_RETURN_IF_ERROR(take_model(folder, opened));
  SCALAI_ASSIGN_OR_RETURN(const Naming naming, naming_of(folder, opened, "hf"));
  std::vector<FoundFile> found;
  SCALAI_RETURN_IF_ERROR(open_all(folder, names, opened, found));
  if (!index.empty()) SCALAI_RETURN_IF_ERROR(check_index(index_path, weight_map, found));
  absl::StatusOr<FoundState> state = read_whole(naming, found);
  if (!state.ok()) return at(folder.path(), state.status());
  opened.info.hf_prefix = state->prefix;
  take_pieces(*std::move(state), opened);
  return opened;
}

absl::StatusOr<Opened> open_ranks(const Folder& folder, const std::vector<std::string>& names) {
  const OpenOptions& options = folder.options();
  if (options.from.empty()) {
    return invalid(fmt::format("{}: {} rank files that do not say how they are cut; say --from=LAYOUT, such as tp8,pp4",
                               folder.path(), names.size()));
  }
  absl::StatusOr<collection::ParallelConfig> config = collection::parse_layout(options.from);
  if (!config.ok()) return at("--from", config.status());
  Opened opened;
  opened.info.kind = CheckpointKind::kRanks;
  opened.info.naming = options.names.empty() ? "megatron" : options.names;
  opened.info.layout = collection::canonical(*config);
  SCALAI_RETURN_IF_ERROR(take_model(folder, opened));
  if (!opened.model) {
    return invalid(fmt::format("{}: which model is it? Say --config=FILE or --model=NAME", folder.path()));
  }
  SCALAI_ASSIGN_OR_RETURN(const Naming naming, naming_of(folder, opened, opened.info.naming));
  if (static_cast<int>(names.size()) != config->world()) {
    return invalid(fmt::format("{}: {} rank files, but {} has {} ranks", folder.path(), names.size(),
                               opened.info.layout, config->world()));
  }
  std::vector<DeviceId> devices;
  for (int rank = 0; rank < config->world(); ++rank) {
    devices.emplace_back(rank);
    if (names[static_cast<size_t>(rank)] != rank_file_name(LogicalRank(rank))) {
      return invalid(fmt::format("{}: the file of rank {} is missing", folder.path(), rank));
    }
  }
  auto collection = collection::megatron_collection(opened.model->model, {}, *config, std::move(devices));
  if (!collection.ok()) return at("--from", collection.status());
  std::vector<FoundFile> found;
  SCALAI_RETURN_IF_ERROR(open_all(folder, names, opened, found));
  absl::StatusOr<FoundState> state = read_ranks(naming, *collection, found, Expect::kFound);
  if (!state.ok()) return at(folder.path(), state.status());
  take_pieces(*std::move(state), opened);
  return opened;
}

// Files whose tensors stand for themselves.
absl::StatusOr<Opened> open_plain(const Folder& folder, const std::vector<std::string>& names) {
  Opened opened;
  opened.info.kind = CheckpointKind::kPlain;
  opened.info.naming = "logical";
  SCALAI_RETURN_IF_ERROR(take_model(folder, opened));
  std::vector<FoundFile> found;
  SCALAI_RETURN_IF_ERROR(open_all(folder, names, opened, found));
  ProblemList problems;
  std::set<std::string> seen;
  for (size_t f = 0; f < found.size(); ++f) {
    for (size_t t = 0; t < found[f].tensors.size(); ++t) {
      const FoundTensor& tensor = found[f].tensors[t];
      const std::string place = fmt::format("{}: tensor \"{}\"", folder.path_of(names[f]), clipped(tensor.name, 120));
      if (tensor.shape.size() > tensor::kMaxRank) {
        problems.add(fmt::format("{}: has {} dimensions; at most {} are supported", place, tensor.shape.size(),
                                 tensor::kMaxRank));
        continue;
      }
      if (!seen.insert(tensor.name).second) problems.add(fmt::format("{}: is in two files", place));
      const tensor::Shape shape{std::span(tensor.shape)};
      opened.states.push_back({tensor.name, tensor.dtype, shape, model::StateKind::kParam});
      opened.files[f].tensors[t].pieces = {
          {tensor.name, {.box = tensor::Box::whole(shape), .offset = 0, .strides = shape.strides()}}};
    }
  }
  SCALAI_RETURN_IF_ERROR(problems.status());
  return opened;
}

// --- which of them ----------------------------------------------------------------------------------------------------

// Names in a local folder that end in ".safetensors", sorted.
std::vector<std::string> tensor_files_in(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (std::filesystem::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    std::string name = it->path().filename().string();
    if (name.ends_with(kExtension) && name.front() != '.') names.push_back(std::move(name));
  }
  std::sort(names.begin(), names.end());
  return names;
}

bool is_rank_file(const std::string& name) {
  constexpr std::string_view kPrefix = "rank_";
  if (!name.starts_with(kPrefix) || !name.ends_with(kExtension)) return false;
  const std::string digits = name.substr(kPrefix.size(), name.size() - kPrefix.size() - kExtension.size());
  return !digits.empty() && digits.find_first_not_of("0123456789") == std::string::npos;
}

absl::Status check_told(const Folder& folder) {
  const OpenOptions& options = folder.options();
  if (options.from.empty() && options.names.empty()) return absl::OkStatus();
  return invalid(
      fmt::format("{}: its manifest.json says how it is laid out; --from and --names do not apply", folder.path()));
}

absl::StatusOr<Opened> open_manifest(const Folder& folder, const std::string& manifest) {
  SCALAI_RETURN_IF_ERROR(check_told(folder));
  const absl::StatusOr<std::string> kind = manifest_kind(manifest);
  if (!kind.ok()) return at(folder.path_of(kManifestName), kind.status());
  if (kind->empty()) return open_job(folder, manifest);
  if (*kind == kArrangedKind) return open_arranged(folder, manifest);
  return invalid(fmt::format("{}: a checkpoint of kind \"{}\", which this program does not know",
                             folder.path_of(kManifestName), clipped(*kind, 40)));
}

absl::StatusOr<Opened> open_folder(const Folder& folder) {
  SCALAI_ASSIGN_OR_RETURN(const std::string manifest, folder.text(kManifestName));
  if (!manifest.empty()) return open_manifest(folder, manifest);
  const std::string& names = folder.options().names;
  const std::vector<std::string> files = tensor_files_in(folder.path());
  const bool ranks = !files.empty() && std::all_of(files.begin(), files.end(), is_rank_file);
  if (ranks) {
    std::vector<std::string> sorted = files;
    std::sort(sorted.begin(), sorted.end(), [](const std::string& a, const std::string& b) {
      return a.size() != b.size() ? a.size() < b.size() : a < b;
    });
    return open_ranks(folder, sorted);
  }
  if (names == "logical") return open_plain(folder, files);
  if (!names.empty() && names != "hf") {
    return invalid(fmt::format("{}: no rank files for --names={}", folder.path(), names));
  }
  SCALAI_ASSIGN_OR_RETURN(const std::string index, folder.text(std::string(kIndexFileName)));
  const bool single = std::find(files.begin(), files.end(), kWholeName) != files.end() || folder.options().opener;
  if (!index.empty() || single) return open_hugging_face(folder, index, kWholeName);
  return missing(fmt::format("{}: no checkpoint: neither manifest.json, {}, {} nor rank_000.safetensors is there",
                             folder.path(), kWholeName, kIndexFileName));
}

}  // namespace

void ProblemList::add(std::string problem) {
  if (lines_.size() == kMostProblems) {
    ++more_;
  } else {
    lines_.push_back(std::move(problem));
  }
}

absl::Status ProblemList::status() const {
  if (lines_.empty()) return absl::OkStatus();
  std::string text = fmt::format("{}", fmt::join(lines_, "\n"));
  if (more_ > 0) text += fmt::format("\n… and {} more", more_);
  return invalid(text);
}

absl::StatusOr<Opened> open_any(const std::string& path, const OpenOptions& options) {
  const std::string clean = without_trailing_slash(path);
  const bool is_file = clean.ends_with(kExtension) && (options.opener || !std::filesystem::is_directory(clean));
  absl::StatusOr<Opened> opened = absl::InternalError("");
  if (is_file) {
    const size_t slash = clean.rfind('/');
    const Folder folder(slash == std::string::npos ? "." : clean.substr(0, slash), options);
    const std::string name = slash == std::string::npos ? clean : clean.substr(slash + 1);
    opened = options.names == "hf" ? open_hugging_face(folder, "", name) : open_plain(folder, {name});
  } else {
    if (!options.opener && !std::filesystem::is_directory(clean)) {
      return missing(fmt::format("{}: no such folder", clean));
    }
    opened = open_folder(Folder(clean, options));
  }
  if (opened.ok()) opened->info.path = clean;
  return opened;
}

}  // namespace scalai::checkpoint::internal
