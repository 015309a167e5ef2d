#include "ptc/store/views/view.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "ptc/base/status.h"
#include "ptc/base/utf8.h"
#include "ptc/state/collection/collection_file.h"
#include "ptc/store/views/internal/known_model.h"
#include "ptc/store/views/internal/opened_folder.h"
#include "ptc/store/views/internal/torch_ranks.h"
#include "ptc/store/views/internal/view_layout.h"
#include "ptc/store/views/internal/view_state.h"

namespace scalai::store {
namespace {

using internal::FileImage;

std::string default_naming(const Checkpoint& checkpoint) {
  if (checkpoint.info().kind == CheckpointKind::kJob) return "job";
  const KnownModel* const known = checkpoint.model();
  return known != nullptr && known->family && known->family->has_naming("megatron") ? "megatron" : "logical";
}

}  // namespace

absl::StatusOr<Naming> View::State::naming() const {
  if (spec.naming == "logical") return Naming::logical();
  const KnownModel* known = checkpoint->model();
  if (known == nullptr) {
    return invalid(fmt::format("{}: names of \"{}\" need to know the model; say --model=NAME or --config=FILE",
                               checkpoint->info().path, spec.naming));
  }
  if (!known->family) {
    return invalid(
        fmt::format("{}: no family is known for models of {}, so there are no names of \"{}\"; "
                    "--families=DIR adds one, --to=logical-LAYOUT needs none",
                    checkpoint->info().path, known->model.family, spec.naming));
  }
  return Naming::of(*known->family, spec.naming, known->file.sizes);
}

std::string View::State::layout_name() const {
  return spec.layout ? collection::canonical(*spec.layout, ',', spec.etp_said) : "";
}

absl::Status View::State::lay_out_ranks() {
  if (spec.collection) {
    SCALAI_ASSIGN_OR_RETURN(collection, internal::collection_of(*checkpoint, *spec.collection));
  } else {
    SCALAI_ASSIGN_OR_RETURN(collection, internal::collection_of(*checkpoint, *spec.layout));
    if (spec.vocab_multiple > 0) internal::pad_vocabulary(*collection, spec.vocab_multiple);
  }
  if ((!spec.optimizer || !spec.masters) && spec.naming == "job")
    return invalid("a job's checkpoint has the state of its optimizer; say other names, such as --to=tp2,logical");
  std::erase_if(collection->tensors, [&](const collection::LogicalTensor& tensor) { return !has_place(tensor.kind); });
  take_states([&](const LogicalState& state) { return has_place(state.kind); });
  if (spec.form == ViewForm::kTorch) return lay_out_torch();
  if (spec.form == ViewForm::kVllm) return lay_out_vllm();
  files.push_back({kCollectionName, collection::collection_text(*collection, {})});
  if (spec.naming == "job") return lay_out_job();
  SCALAI_RETURN_IF_ERROR(arrange_ranks());
  for (int rank = 0; rank < collection->ranks(); ++rank) {
    files.push_back({rank_file_name(LogicalRank(rank)), std::nullopt, static_cast<size_t>(rank)});
  }
  return absl::OkStatus();
}

absl::Status View::State::arrange_ranks() {
  SCALAI_ASSIGN_OR_RETURN(const Naming names, naming());
  absl::StatusOr<RankArranger> made =
      RankArranger::make(names, *collection, spec.transformer_engine.value_or(checkpoint->info().transformer_engine));
  if (!made.ok()) return made.status();
  arranger.emplace(*std::move(made));
  return absl::OkStatus();
}

// What job_writer.cpp does, file by file.
absl::Status View::State::lay_out_job() {
  const std::string& text = *files.back().text;
  const absl::StatusOr<collection::CollectionFile> read =
      collection::parse_collection(text, kCollectionName, collection::FileRole::kPlanned);
  if (!read.ok()) return invalid(fmt::format("a collection that cannot be stored: {}", message_of(read.status())));
  const CheckpointInfo& info = checkpoint->info();
  const std::string job = !info.job.empty()                ? info.job
                          : checkpoint->model() != nullptr ? checkpoint->model()->model.name
                                                           : std::string();
  stamp = {.job = job.empty() ? "resharded" : job,
           .step = std::max<int64_t>(info.step, 0),
           .epoch = info.epoch,
           .collection_digest = read->digest,
           .files = {},
           .texts = {}};
  owned = owned_boxes(*collection);
  for (size_t rank = 0; rank < owned.size(); ++rank) {
    if (!owned[rank].empty()) files.push_back({rank_file_name(static_cast<int>(rank)), std::nullopt, rank});
  }
  return absl::OkStatus();
}

ArrangedFile View::State::arrange_job(size_t rank) const {
  ArrangedFile file{.name = rank_file_name(static_cast<int>(rank)),
                    .metadata = file_metadata(stamp, static_cast<int>(rank)),
                    .tensors = {}};
  for (const BoxInFile& box : boxes_in_file(*collection, owned[rank])) {
    const collection::LogicalTensor& tensor = collection->tensors[static_cast<size_t>(box.owned.tensor.value)];
    const tensor::Box& held = box.owned.box;
    file.metadata[box_metadata_key(box.key)] = held.str();
    file.tensors.push_back({.name = box.key,
                            .dtype = tensor.dtype,
                            .shape = extents_of(held),
                            .pieces = {{tensor.name, {.box = held, .offset = 0, .strides = held.shape().strides()}}}});
  }
  return file;
}

void View::State::take_along() {
  std::vector<std::string> left;
  const std::string& folder = checkpoint->info().path;
  for (const std::string& other : checkpoint->info().others) {
    if (spec.extras && spec.naming != "job" && (!checkpoint->info().local || internal::goes_along(folder, other))) {
      files.push_back({.name = other, .text = std::nullopt, .part = 0, .along = true});
    } else {
      left.push_back(other);
    }
  }
  if (left.empty()) return;
  constexpr size_t kMost = 8;
  std::string names;
  for (size_t i = 0; i < std::min(kMost, left.size()); ++i) {
    names += fmt::format("{}{}", i > 0 ? ", " : "", clipped(left[i], 80));
  }
  if (left.size() > kMost) names += fmt::format(" and {} more", left.size() - kMost);
  notes.push_back(fmt::format("left out, for they are no state: {}; copy what you need", names));
}

void View::State::describe() {
  notes.insert(notes.end(), checkpoint->info().notes.begin(), checkpoint->info().notes.end());
  take_along();
  const bool hugging_face = spec.naming == "hf" && !collection;
  const std::string& config = checkpoint->info().config;
  if (!config.empty()) files.push_back({internal::kConfigFileName, config});
  if (hugging_face && config.empty()) {
    notes.push_back(
        "config.json is left out: the source has none, and what the shapes do not show (rotary base, epsilons, tokens) "
        "is "
        "not to be guessed");
  }
  const MegatronCommon& common = checkpoint->info().common;
  if (!common.bytes.empty() && collection && spec.form == ViewForm::kSafetensors && spec.naming != "job")
    files.push_back({common.file_name(), common.bytes});
  const KnownModel* known = checkpoint->model();
  if (known == nullptr || !known->family || (hugging_face && !config.empty())) return;
  files.push_back({std::string(kModelFileName), model_file_text(known->file)});
  if (!known->built_in) files.push_back({internal::kFamilyFileName, known->family->text()});
}

absl::Status View::State::lay_out() {
  const std::string usual = default_naming(*checkpoint);
  if (spec.naming.empty()) spec.naming = usual;
  if (spec.form != ViewForm::kSafetensors) SCALAI_RETURN_IF_ERROR(check_places(*checkpoint, spec));
  if (!spec.layout && !spec.collection) {
    SCALAI_ASSIGN_OR_RETURN(const Naming names, naming());
    SCALAI_RETURN_IF_ERROR(lay_out_whole(names));
  } else {
    if (spec.form == ViewForm::kTorch) spec.layout = internal::without_copies(*spec.layout);
    if (spec.layout) {
      const bool said = spec.etp_said;
      SCALAI_RETURN_IF_ERROR(internal::take_usual_etp(checkpoint->model(), spec.naming, *spec.layout, spec.etp_said));
      if (spec.etp_said && !said && spec.form != ViewForm::kVllm) {
        notes.push_back(fmt::format("experts are cut by etp{}, which is tp, as in Megatron; etp1 leaves them whole",
                                    spec.layout->etp));
      }
    }
    SCALAI_RETURN_IF_ERROR(lay_out_ranks());
  }
  describe();
  std::sort(files.begin(), files.end(), [](const ViewFile& a, const ViewFile& b) { return a.name < b.name; });
  sizes.assign(files.size(), -1);
  images.resize(files.size());
  ViewSpec named = spec;
  if (spec.naming == usual && (spec.layout || spec.collection)) named.naming.clear();
  name = canonical(named);
  return absl::OkStatus();
}

absl::StatusOr<ArrangedFile> View::State::arrange(size_t file) const {
  SCALAI_CHECK(file < files.size() && !files[file].text && !files[file].along, name);
  const size_t part = files[file].part;
  if (!collection) return whole[part];
  if (spec.naming == "job") return arrange_job(part);
  SCALAI_ASSIGN_OR_RETURN(ArrangedFile arranged, arranger->arrange(LogicalRank(static_cast<int64_t>(part))));
  if (spec.form == ViewForm::kTorch) as_torch(files[file].name, arranged);
  if (spec.form == ViewForm::kVllm) arranged.name = files[file].name;
  return arranged;
}

View::View(std::unique_ptr<State> state) : state_(std::move(state)) {}
View::~View() = default;

absl::StatusOr<std::shared_ptr<const View>> View::make(std::shared_ptr<const Checkpoint> checkpoint, ViewSpec spec) {
  SCALAI_CHECK(!(spec.layout && spec.collection));
  SCALAI_CHECK(spec.part >= 0 && spec.part < spec.parts);
  auto state = std::make_unique<State>();
  state->checkpoint = std::move(checkpoint);
  state->spec = std::move(spec);
  SCALAI_RETURN_IF_ERROR(state->lay_out());
  for (const size_t tensor : state->tensors) {
    const std::string& name = state->checkpoint->tensors()[tensor].name;
    if (state->checkpoint->info().stale_masters.contains(name))
      return invalid(fmt::format(
          "\"{}\" stays as it was, and the parameter does not: training that goes on from it would undo the "
          "transforms\nhint: --drop=optimizer, --drop=masters, or transform it, too (tensors=*.master)",
          name));
  }
  std::shared_ptr<View> view(new View(std::move(state)));
  if (view->spec().parts > 1) SCALAI_RETURN_IF_ERROR(view->take_part());
  return std::shared_ptr<const View>(std::move(view));
}

absl::StatusOr<std::shared_ptr<const View>> View::make(std::shared_ptr<const Checkpoint> checkpoint,
                                                       std::string_view name) {
  SCALAI_ASSIGN_OR_RETURN(ViewSpec spec, parse_view_name(name));
  return make(std::move(checkpoint), std::move(spec));
}

const Checkpoint& View::checkpoint() const { return *state_->checkpoint; }
const std::shared_ptr<const Checkpoint>& View::checkpoint_ptr() const { return state_->checkpoint; }
const ViewSpec& View::spec() const { return state_->spec; }
const std::string& View::name() const { return state_->name; }
size_t View::files() const { return state_->files.size(); }
const std::string& View::file_name(size_t file) const { return state_->files[file].name; }
bool View::has_tensors(size_t file) const { return !state_->files[file].text && !state_->files[file].along; }
const std::vector<std::string>& View::notes() const { return state_->notes; }
const std::vector<size_t>& View::tensors() const { return state_->tensors; }
const collection::Collection* View::collection() const { return state_->collection ? &*state_->collection : nullptr; }
absl::StatusOr<ArrangedFile> View::arrangement(size_t file) const { return state_->arrange(file); }

std::optional<size_t> View::find(std::string_view file_name) const {
  const auto found = std::lower_bound(state_->files.begin(), state_->files.end(), file_name,
                                      [](const ViewFile& file, std::string_view name) { return file.name < name; });
  if (found == state_->files.end() || found->name != file_name) return std::nullopt;
  return static_cast<size_t>(found - state_->files.begin());
}

// The largest files first, each to the part that has the fewest bytes: the same on every machine.
absl::Status View::take_part() {
  std::vector<std::pair<int64_t, size_t>> largest;
  for (size_t file = 0; file < files(); ++file) {
    SCALAI_ASSIGN_OR_RETURN(const int64_t bytes, size(file));
    largest.emplace_back(-bytes, file);
  }
  std::sort(largest.begin(), largest.end());
  std::vector<int64_t> filled(static_cast<size_t>(spec().parts));
  std::vector<ViewFile> chosen;
  for (const auto& [bytes, file] : largest) {
    const auto part = std::min_element(filled.begin(), filled.end()) - filled.begin();
    filled[static_cast<size_t>(part)] -= bytes;
    if (part == spec().part) chosen.push_back(std::move(state_->files[file]));
  }
  std::sort(chosen.begin(), chosen.end(), [](const ViewFile& a, const ViewFile& b) { return a.name < b.name; });
  state_->files = std::move(chosen);
  state_->sizes.assign(files(), -1);
  state_->images.assign(files(), {});
  return absl::OkStatus();
}

bool View::has_folder(std::string_view folder) const {
  const auto found = std::lower_bound(state_->files.begin(), state_->files.end(), folder,
                                      [](const ViewFile& file, std::string_view name) { return file.name < name; });
  return found != state_->files.end() && found->name.starts_with(folder);
}

absl::StatusOr<int64_t> View::size(size_t file) const {
  SCALAI_CHECK(file < files());
  if (const std::optional<std::string>& text = state_->files[file].text) return static_cast<int64_t>(text->size());
  if (!has_tensors(file)) {
    SCALAI_ASSIGN_OR_RETURN(const ByteSourcePtr source, open(file));
    return source->size();
  }
  {
    const std::lock_guard lock(state_->mutex);
    if (state_->sizes[file] >= 0) return state_->sizes[file];
  }
  SCALAI_ASSIGN_OR_RETURN(const ArrangedFile arranged, state_->arrange(file));
  SCALAI_ASSIGN_OR_RETURN(const FileFrame frame, internal::frame_of(arranged));
  const std::lock_guard lock(state_->mutex);
  return state_->sizes[file] = frame.bytes;
}

absl::StatusOr<std::shared_ptr<const FileImage>> View::image(size_t file) const {
  SCALAI_CHECK(file < files() && has_tensors(file));
  {
    const std::lock_guard lock(state_->mutex);
    if (std::shared_ptr<const FileImage> open = state_->images[file].lock()) return open;
  }
  SCALAI_ASSIGN_OR_RETURN(const ArrangedFile arranged, state_->arrange(file));
  SCALAI_ASSIGN_OR_RETURN(std::shared_ptr<const FileImage> image, FileImage::make(state_->checkpoint, arranged));
  const std::lock_guard lock(state_->mutex);
  state_->sizes[file] = image->size();
  state_->images[file] = image;
  return image;
}

absl::StatusOr<ByteSourcePtr> View::open(size_t file) const {
  SCALAI_CHECK(file < files());
  const ViewFile& entry = state_->files[file];
  if (entry.text || entry.along) SCALAI_RETURN_IF_ERROR(checkpoint().check_texts());
  if (entry.text) return text_source(entry.name, *entry.text);
  if (entry.along) return checkpoint().open_other(entry.name);
  SCALAI_ASSIGN_OR_RETURN(std::shared_ptr<const FileImage> opened, image(file));
  return ByteSourcePtr(std::move(opened));
}

}  // namespace scalai::store
