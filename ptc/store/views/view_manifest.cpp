#include <algorithm>
#include <set>

#include "ptc/base/hash.h"
#include "ptc/base/status.h"
#include "ptc/store/views/internal/arranged_manifest.h"
#include "ptc/store/views/internal/view_state.h"
#include "ptc/store/views/reshard.h"

namespace scalai::store {
namespace {

// By what the file holds, in the file's order: as job_writer.cpp writes it.
FileRecord job_record(const ArrangedFile& arranged, const FileFrame& frame, size_t rank, const FileSums& sums) {
  std::map<std::string, const ArrangedTensor*> by_name;
  for (const ArrangedTensor& tensor : arranged.tensors) by_name[tensor.name] = &tensor;
  FileRecord record{arranged.name, static_cast<int>(rank), frame.bytes, sums.file, {}};
  for (const StoredTensor& stored : frame.tensors) {
    const PlacedPiece& placed = by_name.at(stored.name)->pieces.front();
    record.boxes.push_back({placed.logical, stored.name, placed.piece.box, sums.tensors.at(stored.name)});
  }
  return record;
}

}  // namespace

namespace internal {

std::string digest_of_whole(const View& view) {
  Hasher hasher;
  const CheckpointInfo& info = view.checkpoint().info();
  hasher.add(view.name()).add(view.spec().naming).add(info.job).add(info.step).add(info.epoch);
  hasher.add(view.spec().shard_bytes).add(view.spec().vocab_multiple);
  hasher.add(int64_t{view.spec().transformer_engine.value_or(info.transformer_engine)});
  for (const CheckpointFile& file : view.checkpoint().files()) hasher.add(file.name).add(file.bytes).add(file.checksum);
  hasher.add(info.transforms);
  hasher.add(view.checkpoint().sampled_content()).add(info.config).add(int64_t{view.spec().extras});
  if (view.collection() != nullptr) hasher.add(collection::collection_text(*view.collection(), {}));
  const KnownModel* const model = view.checkpoint().model();
  if (model != nullptr && model->family) hasher.add(model->family->text());
  for (const size_t tensor : view.tensors()) {
    const LogicalState& state = view.checkpoint().tensors()[tensor];
    hasher.add(state.name).add(tensor::name_of(state.dtype)).add(state.shape.str());
  }
  return hasher.hex();
}

}  // namespace internal

std::vector<Damage> View::damage_here(std::vector<Damage> damage) const {
  for (const Damage& before : checkpoint().info().damage)
    if (std::find(damage.begin(), damage.end(), before) == damage.end()) damage.push_back(before);
  if (!checkpoint().info().transforms.empty()) return damage;  // steps may have taken it anywhere
  std::set<std::string> names;
  for (const size_t tensor : tensors()) names.insert(checkpoint().tensors()[tensor].name);
  std::erase_if(damage, [&](const Damage& one) {
    return !one.states.empty() &&
           std::none_of(one.states.begin(), one.states.end(), [&](const auto& state) { return names.contains(state); });
  });
  return damage;
}

absl::StatusOr<std::string> View::manifest(const std::vector<FileSums>& sums, std::vector<Damage> damage) const {
  SCALAI_CHECK(sums.size() == files());
  const bool job = state_->spec.naming == "job";
  const CheckpointInfo& info = checkpoint().info();
  Manifest of_job = state_->stamp;
  ArrangedManifest arranged{.naming = state_->spec.naming,
                            .layout = state_->layout_name(),
                            .job = info.job,
                            .step = info.step,
                            .epoch = info.epoch,
                            .hf_prefix = info.hf_prefix,
                            .part_of = state_->spec.parts > 1 ? internal::digest_of_whole(*this) : "",
                            .states = {},
                            .files = {},
                            .texts = {},
                            .damage = damage_here(std::move(damage))};
  of_job.damage = arranged.damage;
  for (const size_t tensor : tensors()) arranged.states.push_back(checkpoint().tensors()[tensor]);
  for (size_t f = 0; f < files(); ++f) {
    if (!has_tensors(f)) {
      SCALAI_ASSIGN_OR_RETURN(const int64_t bytes, size(f));
      const TextRecord text{file_name(f), bytes, sums[f].file};
      arranged.texts.push_back(text);
      // A job's checkpoint has the collection's digest instead.
      if (text.name != kCollectionName) of_job.texts.push_back(text);
      continue;
    }
    SCALAI_ASSIGN_OR_RETURN(ArrangedFile file, state_->arrange(f));
    SCALAI_ASSIGN_OR_RETURN(const FileFrame frame, internal::frame_of(file));
    if (job) {
      of_job.files.push_back(job_record(file, frame, state_->files[f].part, sums[f]));
      continue;
    }
    ArrangedRecord record{std::move(file), {}, frame.bytes, sums[f].file, {}};
    if (record.file.form == FileForm::kChunks) {  // in the order of the file's tensors
      for (const StoredTensor& stored : frame.tensors) record.offsets.push_back(stored.offset);
    }
    for (const ArrangedTensor& tensor : record.file.tensors) {
      record.tensor_checksums.push_back(sums[f].tensors.at(tensor.name));
    }
    arranged.files.push_back(std::move(record));
  }
  return job ? manifest_text(of_job) : arranged_manifest_text(arranged);
}

}  // namespace scalai::store
