#include "ptc/store/views/internal/opened_files.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "ptc/base/file.h"
#include "ptc/base/status.h"
#include "ptc/base/utf8.h"
#include "ptc/store/safetensors/safetensors.h"
#include "ptc/store/torch/torch_file.h"
#include "ptc/store/views/internal/known_model.h"

namespace scalai::store::internal {
namespace {

constexpr size_t kMostProblems = 50;

// The tensors of a file of torch.save, as in a safetensors file. All in front of the first counts as its header.
absl::StatusOr<SafetensorsHeader> torch_header(const ByteSource& source, int64_t& iteration,
                                               std::vector<SummedRange>& sums) {
  SCALAI_ASSIGN_OR_RETURN(TorchFile file, read_torch_file(source));
  iteration = file.iteration;
  for (SummedStorage& sum : file.sums) sums.push_back({sum.offset, sum.bytes, std::move(sum.checksum)});
  SafetensorsHeader header{.tensors = std::move(file.tensors), .metadata = {}, .file_bytes = source.size()};
  header.data_begin = header.tensors.empty() ? source.size() : header.tensors.front().offset;
  return header;
}

// Who says that there is such a file; empty: nobody.
std::string said_by(const WeightMap& weight_map, const std::string& file) {
  const auto entry =
      std::find_if(weight_map.begin(), weight_map.end(), [&](const auto& e) { return e.second == file; });
  if (entry == weight_map.end()) return "";
  return fmt::format(", which {} says holds \"{}\"", kIndexFileName, clipped(entry->first, 120));
}

}  // namespace

absl::StatusOr<OpenedFile> open_tensors(const Folder& folder, const std::string& name, FoundFile* found) {
  SCALAI_ASSIGN_OR_RETURN(ByteSourcePtr source, folder.source(name));
  int64_t iteration = -1;
  std::vector<SummedRange> sums;
  SCALAI_ASSIGN_OR_RETURN(const SafetensorsHeader header, has_torch_ending(name)
                                                              ? torch_header(*source, iteration, sums)
                                                              : read_safetensors_header(*source));
  OpenedFile file{
      .name = name, .source = std::move(source), .data_begin = header.data_begin, .checksum = "", .tensors = {}};
  file.iteration = iteration;
  file.sums = std::move(sums);
  if (found != nullptr) found->name = name;
  for (const StoredTensor& stored : header.tensors) {
    file.tensors.push_back({.name = stored.name,
                            .dtype = stored.dtype,
                            .offset = stored.offset,
                            .elements = stored.bytes / tensor::size_of(stored.dtype),
                            .pieces = {}});
    if (found != nullptr) found->tensors.push_back({stored.name, stored.dtype, stored.shape});
  }
  return file;
}

absl::Status open_all(const Folder& folder, const std::vector<std::string>& names, const WeightMap& weight_map,
                      Opened& opened, std::vector<FoundFile>& found) {
  ProblemList problems;
  bool only_missing = true;
  for (const std::string& name : names) {
    FoundFile in_file;
    absl::StatusOr<OpenedFile> file = open_tensors(folder, name, &in_file);
    const bool is_missing = absl::IsNotFound(file.status());
    if (!file.ok() && !is_missing && !absl::IsInvalidArgument(file.status())) return file.status();
    if (!file.ok()) {
      problems.add(message_of(file.status()) + (is_missing ? said_by(weight_map, name) : ""));
      only_missing = only_missing && is_missing;
      continue;
    }
    opened.files.push_back(*std::move(file));
    found.push_back(std::move(in_file));
  }
  const absl::Status status = problems.status();
  return status.ok() || !only_missing ? status : missing(message_of(status));
}

void take_pieces(FoundState&& state, Opened& opened) {
  for (size_t f = 0; f < state.files.size(); ++f) {
    std::map<std::string, std::vector<PlacedPiece>*> by_name;
    for (OpenedTensor& tensor : opened.files[f].tensors) {
      by_name[tensor.name] = &tensor.pieces;
      tensor.alias = state.aliases[f].count(tensor.name) != 0;
    }
    for (ArrangedTensor& tensor : state.files[f].tensors) *by_name.at(tensor.name) = std::move(tensor.pieces);
  }
  opened.states = std::move(state.states);
}

int64_t vocabulary_rows(const std::vector<FoundFile>& files) {
  for (const FoundFile& file : files) {
    for (const FoundTensor& tensor : file.tensors) {
      const bool words =
          tensor.name.ends_with("embedding.word_embeddings.weight") || tensor.name.ends_with("output_layer.weight");
      if (words && !tensor.shape.empty()) return tensor.shape.front();
    }
  }
  return 0;
}

std::string note_of_padding(int64_t rows, int64_t words) {
  return fmt::format("the vocabulary has {} rows; those behind the {} words of the model are left out as padding", rows,
                     words);
}

bool has_fused_names(const Opened& opened) {
  const auto fused = [](const OpenedTensor& tensor) {
    return tensor.name.find(".layer_norm_weight") != std::string::npos ||
           tensor.name.find(".experts.linear_fc1.weight") != std::string::npos;
  };
  return opened.info.naming == "megatron" &&
         std::any_of(opened.files.begin(), opened.files.end(),
                     [&](const auto& file) { return std::any_of(file.tensors.begin(), file.tensors.end(), fused); });
}

absl::Status take_model(const Folder& folder, Opened& opened) {
  ModelHints hints;
  hints.place = folder.path();
  for (const auto& [name, text] : {std::pair(std::string(kModelFileName), &hints.model_file),
                                   std::pair(std::string(kFamilyFileName), &hints.family_file),
                                   std::pair(std::string(kConfigFileName), &hints.config)}) {
    SCALAI_ASSIGN_OR_RETURN(std::optional<std::string> found, folder.text(name, kMostConfigBytes));
    if (found) *text = *std::move(found);
  }
  SCALAI_ASSIGN_OR_RETURN(opened.model, known_model(folder.options(), hints));
  opened.info.config = std::move(hints.config);
  if (!folder.options().config.empty()) {  // as for the model, before the folder's own
    SCALAI_ASSIGN_OR_RETURN(opened.info.config, read_file(folder.options().config, kMostConfigBytes));
  }
  return absl::OkStatus();
}

absl::StatusOr<Naming> naming_of(const Folder& folder, const Opened& opened, const std::string& name) {
  if (name == "logical") return Naming::logical();
  if (!opened.model) {
    return invalid(fmt::format("{}: the model is unknown: there is no config.json; give --config=FILE or --model=NAME",
                               folder.path()));
  }
  if (!opened.model->family) {
    return invalid(fmt::format("{}: no family is known for models of {}; --families=DIR adds one", folder.path(),
                               opened.model->model.family));
  }
  absl::StatusOr<Naming> naming = Naming::of(*opened.model->family, name, opened.model->file.sizes);
  return naming.ok() ? naming : error_at(folder.path(), naming.status());
}

absl::Status error_at(const std::string& place, const absl::Status& status) {
  return absl::Status(status.code(), fmt::format("{}: {}", place, message_of(status)));
}

void ProblemList::add(const absl::Status& problem) {
  const bool is_input = absl::IsInvalidArgument(problem) || absl::IsNotFound(problem);
  if (code_ == absl::StatusCode::kInvalidArgument && !is_input) code_ = problem.code();
  if (lines_.size() == kMostProblems) {
    ++more_;
  } else {
    lines_.push_back(message_of(problem));
  }
}

absl::Status ProblemList::status() const {
  if (lines_.empty()) return absl::OkStatus();
  std::string text = fmt::format("{}", fmt::join(lines_, "\n"));
  if (more_ > 0) text += fmt::format("\n… and {} more", more_);
  return absl::Status(code_, text);
}

}  // namespace scalai::store::internal
