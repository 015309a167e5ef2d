#include "ptc/store/views/internal/opened_arranged.h"

#include <fmt/format.h>

#include <map>

#include "ptc/base/status.h"
#include "ptc/base/utf8.h"
#include "ptc/store/safetensors/manifest.h"
#include "ptc/store/views/internal/arranged_manifest.h"
#include "ptc/store/views/internal/megatron_common.h"
#include "ptc/store/views/internal/opened_files.h"

namespace scalai::store::internal {
namespace {

// A file of chunks: its manifest says where they lie.
absl::StatusOr<OpenedFile> open_chunks(const Folder& folder, const ArrangedRecord& record) {
  SCALAI_ASSIGN_OR_RETURN(ByteSourcePtr source, folder.source(record.file.name));
  OpenedFile file{
      .name = record.file.name, .source = std::move(source), .data_begin = 0, .checksum = "", .tensors = {}};
  ProblemList problems;
  int64_t end = 0;
  for (size_t i = 0; i < record.file.tensors.size(); ++i) {
    const ArrangedTensor& tensor = record.file.tensors[i];
    const int64_t offset = record.offsets[i], bytes = tensor.shape.front() * tensor::size_of(tensor.dtype);
    if (offset < end || bytes > file.source->size() - offset) {
      problems.add(fmt::format("{}: tensor \"{}\" is to be at {}, which is before the one before it or beyond the end",
                               file.source->name(), clipped(tensor.name, 120), offset));
      continue;
    }
    end = offset + bytes;
    file.tensors.push_back(
        {.name = tensor.name, .dtype = tensor.dtype, .offset = offset, .elements = tensor.shape.front(), .pieces = {}});
  }
  file.data_begin = file.tensors.empty() ? 0 : file.tensors.front().offset;
  SCALAI_RETURN_IF_ERROR(problems.status());
  return file;
}

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
    file.sums.push_back({tensor.offset, tensor.bytes(), record.tensor_checksums[found->second]});
    tensor.pieces = std::move(record.file.tensors[found->second].pieces);
    by_key.erase(found);
  }
  for (const auto& [key, index] : by_key) {
    problems.add(fmt::format("{}: tensor \"{}\" of the manifest is not there", path, clipped(key, 120)));
  }
  file.checksum = record.checksum;
}

}  // namespace

absl::StatusOr<Opened> open_arranged(const Folder& folder, const std::string& manifest_text) {
  absl::StatusOr<ArrangedManifest> manifest = parse_arranged_manifest(manifest_text);
  if (!manifest.ok()) return error_at(folder.path_of(kManifestName), manifest.status());
  if (!manifest->part_of.empty())
    return invalid(fmt::format("{}: is a part of a checkpoint; `checkpoint reshard --part` puts all of them together",
                               folder.path()));
  Opened opened;
  opened.info.kind = CheckpointKind::kArranged;
  opened.info.naming = manifest->naming;
  opened.info.layout = manifest->layout;
  opened.info.job = manifest->job;
  opened.info.step = manifest->step;
  opened.info.epoch = manifest->epoch;
  opened.info.hf_prefix = manifest->hf_prefix;
  opened.texts = std::move(manifest->texts);
  opened.damage = std::move(manifest->damage);
  opened.states = std::move(manifest->states);
  ProblemList problems;
  for (ArrangedRecord& record : manifest->files) {
    const std::string path = folder.path_of(record.file.name);
    absl::StatusOr<OpenedFile> file = record.file.form == FileForm::kChunks
                                          ? open_chunks(folder, record)
                                          : open_tensors(folder, record.file.name, nullptr);
    if (!file.ok()) {
      problems.add(file.status());
      continue;
    }
    take_record(std::move(record), *file, problems, path);
    opened.files.push_back(*std::move(file));
  }
  SCALAI_RETURN_IF_ERROR(problems.status());
  SCALAI_RETURN_IF_ERROR(take_model(folder, opened));
  SCALAI_RETURN_IF_ERROR(take_common(folder, opened.texts, opened.info.common));
  return opened;
}

}  // namespace scalai::store::internal
