#include "ptc/store/views/internal/opened.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "ptc/base/file.h"
#include "ptc/base/round_up.h"
#include "ptc/base/status.h"
#include "ptc/base/url.h"
#include "ptc/base/utf8.h"
#include "ptc/state/collection/megatron.h"
#include "ptc/store/naming/arrange.h"
#include "ptc/store/safetensors/files.h"
#include "ptc/store/safetensors/job_checkpoint.h"
#include "ptc/store/safetensors/safetensors.h"
#include "ptc/store/torch/dcp.h"
#include "ptc/store/torch/torch_file.h"
#include "ptc/store/views/internal/arranged_manifest.h"
#include "ptc/store/views/internal/converted.h"
#include "ptc/store/views/internal/dcp_folder.h"
#include "ptc/store/views/internal/known_model.h"
#include "ptc/store/views/internal/left_out.h"
#include "ptc/store/views/internal/megatron_common.h"
#include "ptc/store/views/internal/opened_arranged.h"
#include "ptc/store/views/internal/opened_files.h"
#include "ptc/store/views/internal/opened_folder.h"
#include "ptc/store/views/internal/rank_optimizers.h"
#include "ptc/store/views/internal/sharded_folder.h"
#include "ptc/store/views/internal/torch_ranks.h"
#include "ptc/store/views/internal/view_layout.h"

namespace scalai::store::internal {
namespace {

constexpr const char* kTorchWholeName = "pytorch_model.bin";
constexpr const char* kTorchIndexName = "pytorch_model.bin.index.json";

// --- job -------------------------------------------------------------------------------------------------------------

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
  opened.damage = manifest.damage;
  for (const collection::LogicalTensor& tensor : reader.collection().tensors) {
    opened.states.push_back({tensor.name, tensor.dtype, tensor.shape, tensor.kind});
  }
  for (const FileRecord& record : manifest.files) {
    SCALAI_ASSIGN_OR_RETURN(OpenedFile file, open_tensors(folder, record.name, nullptr));
    std::map<std::string, const BoxRecord*> by_key;
    for (const BoxRecord& box : record.boxes) by_key[box.key] = &box;
    for (OpenedTensor& tensor : file.tensors) {
      const auto found = by_key.find(tensor.name);
      if (found == by_key.end()) {
        return invalid(
            fmt::format("{}: tensor \"{}\" is not in the manifest", file.source->name(), clipped(tensor.name, 120)));
      }
      const BoxRecord& box = *found->second;
      file.sums.push_back({tensor.offset, tensor.bytes(), box.checksum});
      tensor.pieces = {{box.tensor, {.box = box.box, .offset = 0, .strides = box.box.shape().strides()}}};
    }
    file.checksum = record.checksum;
    opened.files.push_back(std::move(file));
  }
  SCALAI_RETURN_IF_ERROR(take_model(folder, opened));
  return opened;
}

// --- files of others -------------------------------------------------------------------------------------------------

// Every tensor is in the file that the index says, and no other.
absl::Status check_index(const std::string& path, const WeightMap& weight_map, const std::vector<FoundFile>& found) {
  std::map<std::string, std::string> expected(weight_map.begin(), weight_map.end());
  ProblemList problems;
  for (const FoundFile& file : found) {
    for (const FoundTensor& tensor : file.tensors) {
      const auto entry = expected.find(tensor.name);
      if (entry == expected.end() || entry->second != file.name) {
        problems.add(fmt::format("{}: tensor \"{}\" is in {}, which the index does not say", path,
                                 clipped(tensor.name, 120), clipped(file.name, 120)));
      }
      if (entry != expected.end() && entry->second == file.name) expected.erase(entry);
    }
  }
  for (const auto& [tensor, file] : expected) {
    problems.add(fmt::format("{}: tensor \"{}\" is not in {}", path, clipped(tensor, 120), clipped(file, 120)));
  }
  return problems.status();
}

// A note only: no reader needs the number, and not all writers count alike.
void compare_total(const std::string& path, double total, Opened& opened) {
  int64_t bytes = 0;
  for (const OpenedFile& file : opened.files) {
    for (const OpenedTensor& tensor : file.tensors) bytes += tensor.elements * tensor::size_of(tensor.dtype);
  }
  if (total == static_cast<double>(bytes)) return;
  opened.info.notes.push_back(fmt::format("{}: total_size says {:.0f} bytes, the tensors have {}", path, total, bytes));
}

// index_name: of the file whose text `index` is.
absl::StatusOr<Opened> open_hugging_face(const Folder& folder, const std::optional<std::string>& index,
                                         const std::string& single,
                                         const std::string& index_name = std::string(kIndexFileName)) {
  Opened opened;
  opened.info.kind = CheckpointKind::kHuggingFace;
  opened.info.naming = "hf";
  WeightIndex weights;
  std::vector<std::string> names = {single};
  const std::string index_path = folder.path_of(index_name);
  if (index) {
    auto parsed = parse_weight_index(*index);
    if (!parsed.ok()) return error_at(index_path, parsed.status());
    weights = *std::move(parsed);
    std::set<std::string> files;
    for (const auto& entry : weights.file_by_tensor) files.insert(entry.second);
    names = std::vector<std::string>(files.begin(), files.end());
    const std::vector<std::string> there = folder.tensor_files();
    if (files.count(single) == 0 && std::find(there.begin(), there.end(), single) != there.end()) {
      return invalid(
          fmt::format("{}: there are both {} and {}, which does not name it; which of them is the checkpoint?",
                      folder.path(), single, index_name));
    }
  }
  SCALAI_RETURN_IF_ERROR(take_model(folder, opened));
  absl::StatusOr<BlockScales> scales = BlockScales::of_config(opened.info.config);
  if (!scales.ok()) return error_at(folder.path(), scales.status());
  SCALAI_ASSIGN_OR_RETURN(const Naming naming, naming_of(folder, opened, "hf"));
  std::vector<FoundFile> found;
  SCALAI_RETURN_IF_ERROR(open_all(folder, names, weights.file_by_tensor, opened, found));
  opened.accepts_damage = folder.options().accept_damage;
  compare_sums(opened);  // before factors of blocks are read
  if (index) SCALAI_RETURN_IF_ERROR(check_index(index_path, weights.file_by_tensor, found));
  if (weights.total_size) compare_total(index_path, *weights.total_size, opened);
  const auto& dtypes = folder.options().dtypes;
  const auto params = dtypes.find(model::StateKind::kParam);
  SCALAI_RETURN_IF_ERROR(scales->take(params == dtypes.end() ? tensor::DType::kBF16 : params->second, opened, found));
  absl::StatusOr<FoundState> state = read_whole(naming, found, WholeStates::kParams, folder.options().drop);
  if (!state.ok()) return error_at(folder.path(), state.status());
  opened.info.hf_prefix = state->prefix;
  SCALAI_RETURN_IF_ERROR(leave_out(folder.options(), folder.path(), left_out_of(*state), opened));
  take_pieces(*std::move(state), opened);
  scales->apply(opened);
  return opened;
}

// Files of the ranks in the order of `names`, cut as the layout `from` says. left: gets what is not taken, if it is not
// nullptr.
absl::StatusOr<Opened> open_cut(const Folder& folder, const std::vector<std::string>& names, const std::string& from,
                                LeftOut* left = nullptr) {
  const OpenOptions& options = folder.options();
  absl::StatusOr<collection::ParallelConfig> config = collection::parse_layout(from);
  if (!config.ok()) return error_at("--from", config.status());
  Opened opened;
  opened.info.kind = CheckpointKind::kRanks;
  opened.info.naming = options.names.empty() ? "megatron" : options.names;
  SCALAI_RETURN_IF_ERROR(take_model(folder, opened));
  if (!opened.model) {
    return invalid(fmt::format("{}: which model is it? Say --config=FILE or --model=NAME", folder.path()));
  }
  bool etp_said = collection::parse_layout_fields(from)->named.count("etp") != 0;
  const absl::Status etp = take_usual_etp(&*opened.model, opened.info.naming, *config, etp_said);
  if (!etp.ok()) return error_at("--from", etp);
  opened.info.layout = collection::canonical(*config, ',', etp_said);
  SCALAI_ASSIGN_OR_RETURN(const Naming naming, naming_of(folder, opened, opened.info.naming));
  if (static_cast<int>(names.size()) != config->world()) {
    return invalid(fmt::format("{}: {} rank files, but {} has {} ranks", folder.path(), names.size(),
                               opened.info.layout, config->world()));
  }
  std::vector<DeviceId> devices;
  for (int rank = 0; rank < config->world(); ++rank) devices.emplace_back(rank);
  auto collection = collection::megatron_collection(opened.model->model, {}, *config, std::move(devices));
  if (!collection.ok()) return error_at("--from", collection.status());
  std::vector<FoundFile> found;
  SCALAI_RETURN_IF_ERROR(open_all(folder, names, {}, opened, found));
  const int64_t rows = vocabulary_rows(found), words = opened.model->model.vocab;
  if (rows > 0 && rows * config->tp >= words) pad_vocabulary(*collection, rows);
  constexpr int64_t kUsual = 128;  // times tp: Megatron's, unless it is told otherwise
  if (rows > 0 && rows * config->tp > round_up(words, kUsual * config->tp))
    opened.info.notes.push_back(note_of_padding(rows * config->tp, words));
  absl::StatusOr<FoundState> state = read_ranks(naming, *collection, found, Expect::kFound, options.drop);
  if (!state.ok()) {
    const std::string hint =
        etp_said ? fmt::format("\nhint: read as {}; if experts are cut otherwise, say another etp", opened.info.layout)
                 : "";
    return invalid(fmt::format("{}: {}{}", folder.path(), message_of(state.status()), hint));
  }
  LeftOut not_taken = left_out_of(*state);
  take_pieces(*std::move(state), opened);
  if (left != nullptr) {
    *left = std::move(not_taken);
  } else {
    SCALAI_RETURN_IF_ERROR(leave_out(options, folder.path(), std::move(not_taken), opened));
  }
  return opened;
}

absl::StatusOr<Opened> open_ranks(const Folder& folder, const std::vector<std::string>& names) {
  const std::string& from = folder.options().from;
  if (from.empty()) {
    return invalid(fmt::format("{}: {} rank files that do not say how they are cut; say --from=LAYOUT, such as tp8,pp4",
                               folder.path(), names.size()));
  }
  for (size_t rank = 0; rank < names.size(); ++rank) {
    if (names[rank] == rank_file_name(LogicalRank(static_cast<int32_t>(rank)))) continue;
    return invalid(fmt::format("{}: the file of rank {} is missing", folder.path(), rank));
  }
  return open_cut(folder, names, from);
}

// Megatron's own files hold what its names are for, and the rest of the job: generators, arguments.
absl::StatusOr<Opened> open_torch_ranks(const Folder& folder, const TorchRanks& ranks) {
  const std::string& from = folder.options().from;
  LeftOut left;
  SCALAI_ASSIGN_OR_RETURN(Opened opened, open_cut(folder, ranks.files, from.empty() ? ranks.layout : from, &left));
  opened.info.step = ranks.iteration;
  ProblemList others;
  for (const OpenedFile& file : opened.files) {
    if (file.iteration != ranks.iteration)
      others.add(fmt::format("{}: is of iteration {}, {} of {}", file.source->name(), file.iteration,
                             opened.files.front().name, ranks.iteration));
  }
  SCALAI_RETURN_IF_ERROR(others.status());
  SCALAI_ASSIGN_OR_RETURN(const Naming naming, naming_of(folder, opened, opened.info.naming));
  SCALAI_RETURN_IF_ERROR(open_rank_optimizers(folder, ranks, naming, std::move(left), opened));
  return opened;
}

// A folder of torch.distributed.checkpoint; Megatron-Core's has a metadata.json that says so.
// place: the folder itself, or that of an iteration in it.
absl::StatusOr<Opened> open_distributed(const Folder& folder, const Folder& place, const std::string& index) {
  constexpr int64_t kMostBytes = int64_t{1} << 20;
  SCALAI_ASSIGN_OR_RETURN(const std::optional<std::string> core, place.text(kBackendName, kMostBytes));
  const bool megatron = core && core->find("sharded_backend") != std::string::npos;
  Opened opened;
  opened.info.kind = megatron ? CheckpointKind::kRanks : CheckpointKind::kHuggingFace;
  opened.info.naming = megatron ? "megatron" : "hf";
  SCALAI_RETURN_IF_ERROR(take_model(folder, opened));
  SCALAI_ASSIGN_OR_RETURN(const Naming naming, naming_of(folder, opened, opened.info.naming));
  SCALAI_RETURN_IF_ERROR(open_dcp(place, index, naming, opened));
  if (!megatron) return opened;
  opened.info.step = iteration_of(place.path());
  SCALAI_RETURN_IF_ERROR(take_common(place, index, opened.info.common));
  SCALAI_RETURN_IF_ERROR(take_optimizers(place, index, opened.info));
  return opened;
}

absl::StatusOr<Opened> open_sharded(const Folder& folder, const std::vector<DcpTensor>& tensors) {
  Opened opened;
  opened.info.kind = CheckpointKind::kHuggingFace;
  opened.info.naming = "hf";
  SCALAI_RETURN_IF_ERROR(take_model(folder, opened));
  SCALAI_ASSIGN_OR_RETURN(const Naming naming, naming_of(folder, opened, "hf"));
  SCALAI_RETURN_IF_ERROR(open_chunked(folder, tensors, naming, opened));
  return opened;
}

absl::StatusOr<Opened> open_plain(const Folder& folder, const std::vector<std::string>& names) {
  Opened opened;
  opened.info.kind = CheckpointKind::kPlain;
  opened.info.naming = "logical";
  SCALAI_RETURN_IF_ERROR(take_model(folder, opened));
  std::vector<FoundFile> found;
  SCALAI_RETURN_IF_ERROR(open_all(folder, names, {}, opened, found));
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
  if (opened.states.empty() && names.size() == 1 && has_torch_ending(names.front()))
    return invalid(fmt::format("{}: has no tensor in dicts and lists; of a module save its state_dict()",
                               folder.path_of(names.front())));
  SCALAI_RETURN_IF_ERROR(problems.status());
  return opened;
}

// --- which of them ---------------------------------------------------------------------------------------------------

absl::Status check_told(const Folder& folder) {
  const OpenOptions& options = folder.options();
  if (options.from.empty() && options.names.empty()) return absl::OkStatus();
  return invalid(
      fmt::format("{}: its manifest.json says how it is laid out; --from and --names do not apply", folder.path()));
}

// Others, too, have files of this name. A damaged one of ours is not told from these.
bool is_ours(const std::string& manifest) {
  const absl::StatusOr<std::string> kind = manifest_kind(manifest);
  return kind.ok() && (*kind == kArrangedKind || (kind->empty() && parse_manifest(manifest).ok()));
}

absl::StatusOr<Opened> open_manifest(const Folder& folder, const std::string& manifest) {
  SCALAI_RETURN_IF_ERROR(check_told(folder));
  const absl::StatusOr<std::string> kind = manifest_kind(manifest);
  const absl::Status problem = !kind.ok()      ? kind.status()
                               : kind->empty() ? parse_manifest(manifest).status()
                                               : absl::OkStatus();
  if (!problem.ok()) {
    return invalid(fmt::format("{}: {} (if it is not of this checkpoint, --names=hf leaves it aside)",
                               folder.path_of(kManifestName), message_of(problem)));
  }
  if (kind->empty()) return open_job(folder, manifest);
  if (*kind == kArrangedKind) return open_arranged(folder, manifest);
  return invalid(fmt::format("{}: a checkpoint of kind \"{}\", which this program does not know",
                             folder.path_of(kManifestName), clipped(*kind, 40)));
}

std::vector<std::string> rank_files(const std::string& from) {
  const absl::StatusOr<collection::ParallelConfig> config = collection::parse_layout(from);
  std::vector<std::string> names;
  for (int rank = 0; config.ok() && rank < config->world(); ++rank) names.push_back(rank_file_name(LogicalRank(rank)));
  return names;
}

absl::StatusOr<Opened> open_folder(const Folder& folder) {
  const std::string& names = folder.options().names;
  SCALAI_ASSIGN_OR_RETURN(const std::optional<std::string> manifest, folder.text(kManifestName, kMostManifestBytes));
  if (manifest && (names != "hf" || is_ours(*manifest))) return open_manifest(folder, *manifest);
  // A server does not list its files, so --from says how many there are.
  const std::vector<std::string> files =
      folder.local() || folder.options().from.empty() ? folder.tensor_files() : rank_files(folder.options().from);
  const bool ranks = !files.empty() && std::all_of(files.begin(), files.end(), is_rank_file);
  if (ranks) {
    std::vector<std::string> sorted = files;
    std::sort(sorted.begin(), sorted.end(), [](const std::string& a, const std::string& b) {
      return a.size() != b.size() ? a.size() < b.size() : a < b;
    });
    return open_ranks(folder, sorted);
  }
  if (names == "logical") return open_plain(folder, files);
  if (names.empty() || names == "megatron") {
    SCALAI_ASSIGN_OR_RETURN(const std::optional<TorchRanks> torch, torch_ranks(folder));
    if (torch) return open_torch_ranks(folder, *torch);
  }
  if (!folder.options().from.empty() || (!names.empty() && names != "hf")) {
    return invalid(
        fmt::format("{}: --from and --names={} are for rank_000.safetensors, …, and none is there; of a model "
                    "in one file give the file itself",
                    folder.path(), names.empty() ? "WHOSE" : names));
  }
  SCALAI_ASSIGN_OR_RETURN(const std::optional<std::string> index,
                          folder.text(std::string(kIndexFileName), kMostManifestBytes));
  SCALAI_ASSIGN_OR_RETURN(const bool single, folder.has(kWholeName));
  if (index || single) return open_hugging_face(folder, index, kWholeName);
  if (!files.empty()) {
    SCALAI_ASSIGN_OR_RETURN(const auto sharded, sharded_tensors(folder, files));
    if (sharded) return open_sharded(folder, *sharded);
  }
  SCALAI_ASSIGN_OR_RETURN(const std::string newest, newest_iteration(folder));
  const Folder place(newest.empty() ? folder.path() : without_trailing_slash(folder.path_of(newest)), folder);
  SCALAI_ASSIGN_OR_RETURN(const std::optional<std::string> dcp, place.text(kDcpIndexName, kMostManifestBytes));
  if (dcp) return open_distributed(folder, place, *dcp);
  SCALAI_ASSIGN_OR_RETURN(const std::optional<std::string> torch_index,
                          folder.text(kTorchIndexName, kMostManifestBytes));
  SCALAI_ASSIGN_OR_RETURN(const bool torch_single, folder.has(kTorchWholeName));
  if (torch_index || torch_single) return open_hugging_face(folder, torch_index, kTorchWholeName, kTorchIndexName);
  std::string hint = folder.hint_of_torch();
  if (!folder.local()) hint = fmt::format(" ({})", message_of(folder.source(kWholeName).status()));
  return missing(fmt::format("{}: no checkpoint: neither manifest.json, {}, {} nor rank_000.safetensors is there{}",
                             folder.path(), kWholeName, kIndexFileName, hint));
}

// What the folder has beside the checkpoint. What its own manifest names counts whatever a server's files are usually
// called.
absl::Status take_others(const Folder& folder, Opened& opened) {
  std::vector<std::string> taken, named;
  const auto take = [&](const std::string& name) { taken.push_back(name.substr(0, name.find('/'))); };
  for (const OpenedFile& file : opened.files) take(file.name);
  for (const TextRecord& text : opened.texts) {
    const bool extra = is_extra(text.name) && !describes_checkpoint(text.name);
    extra ? named.push_back(text.name) : take(text.name);
  }
  SCALAI_ASSIGN_OR_RETURN(opened.info.others, folder.others(taken));
  std::vector<std::string>& others = opened.info.others;
  for (const std::string& name : named) {
    if (std::find(others.begin(), others.end(), name) != others.end()) continue;
    SCALAI_ASSIGN_OR_RETURN(const bool there, folder.has(name));
    if (there) {
      others.push_back(name);
    } else {
      opened.info.notes.push_back(fmt::format("{}: {} names it, and it is not there", name, kManifestName));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Opened> open_file(const Folder& folder, const std::string& name) {
  const OpenOptions& options = folder.options();
  if (options.names == "megatron" || !options.from.empty()) {
    return open_cut(folder, {name}, options.from.empty() ? "tp1" : options.from);
  }
  return options.names == "hf" ? open_hugging_face(folder, std::nullopt, name) : open_plain(folder, {name});
}

}  // namespace

void compare_sums(Opened& opened) {
  for (OpenedFile& file : opened.files) {
    std::vector<SummedRange> sums = std::exchange(file.sums, {});
    if (sums.empty()) continue;
    std::sort(sums.begin(), sums.end(), [](const auto& a, const auto& b) { return a.offset < b.offset; });
    std::vector<SummedRange> ranges;
    size_t tensor = 0;
    for (SummedRange& sum : sums) {
      // Chunks of one stack name its storage each; others that overlap are of a file that nobody wrote so.
      const int64_t end = ranges.empty() ? 0 : ranges.back().offset + ranges.back().bytes;
      if (sum.bytes == 0 || sum.offset < end) continue;
      while (tensor + 1 < file.tensors.size() && file.tensors[tensor].offset < sum.offset) ++tensor;
      sum.tensor = static_cast<uint32_t>(tensor);
      ranges.push_back(std::move(sum));
    }
    file.checked = std::make_shared<CheckedSource>(file.source, std::move(ranges));
    if (!opened.accepts_damage) file.source = file.checked;
  }
}

absl::StatusOr<Opened> open_any(const std::string& path, const OpenOptions& options) {
  const std::string clean = without_trailing_slash(path);
  std::error_code error;  // a path that is too long, or a circle of links, is no folder either
  const bool is_folder = options.opener || std::filesystem::is_directory(clean, error);
  const bool is_file =
      (clean.ends_with(kTensorsExtension) || has_torch_ending(clean)) && (options.opener || !is_folder);
  absl::StatusOr<Opened> opened = absl::InternalError("");
  const auto sources = std::make_shared<Sources>(options.opener);
  if (is_file) {
    const size_t slash = clean.rfind('/');
    const Folder folder(slash == std::string::npos ? "." : clean.substr(0, slash), options, sources);
    std::string name = slash == std::string::npos ? clean : clean.substr(slash + 1);
    if (is_http(clean)) name = percent_decoded(name);
    opened = open_file(folder, name);
  } else {
    if (!is_folder) return missing(fmt::format("{}: no such folder", clean));
    const Folder folder(clean, options, sources);
    opened = open_folder(folder);
    if (opened.ok() && opened->info.kind != CheckpointKind::kJob) SCALAI_RETURN_IF_ERROR(take_others(folder, *opened));
  }
  if (!opened.ok()) return opened;
  opened->info.path = clean;
  opened->info.local = !options.opener;
  opened->sources = sources;
  opened->accepts_damage = options.accept_damage;
  opened->info.transformer_engine = has_fused_names(*opened);
  SCALAI_RETURN_IF_ERROR(check_drop(options, *opened));
  compare_sums(*opened);
  return opened;
}

}  // namespace scalai::store::internal
