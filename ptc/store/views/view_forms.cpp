// Whole tensors, and the folders of torch, Megatron and vLLM.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "ptc/base/json.h"
#include "ptc/base/round_up.h"
#include "ptc/base/status.h"
#include "ptc/base/utf8.h"
#include "ptc/store/torch/dcp.h"
#include "ptc/store/views/internal/chunk_index.h"
#include "ptc/store/views/internal/megatron_common.h"
#include "ptc/store/views/internal/torch_ranks.h"
#include "ptc/store/views/internal/view_layout.h"
#include "ptc/store/views/internal/view_state.h"

namespace scalai::store {
namespace {

using Kind = model::StateKind;

bool is_moment(Kind kind) { return kind == Kind::kExpAvg || kind == Kind::kExpAvgSq || kind == Kind::kMomentum; }
bool is_master(Kind kind) { return kind == Kind::kMaster || kind == Kind::kPrevious; }
bool is_optimizer(Kind kind) { return is_moment(kind) || is_master(kind); }

bool is_whole(const ViewSpec& spec) { return !spec.layout && !spec.collection; }

// Whether files of the form can have such a state.
bool can_hold(const ViewSpec& spec, Kind kind) {
  const bool hugging_face = spec.form == ViewForm::kSafetensors && is_whole(spec);
  if (spec.form == ViewForm::kSafetensors && !hugging_face) return true;
  if (kind == Kind::kParam || kind == Kind::kBuffer) return true;
  if (hugging_face || spec.form == ViewForm::kTorch || spec.form == ViewForm::kVllm) return false;
  return is_moment(kind) || (kind == Kind::kMaster && spec.form == ViewForm::kTorchDist);
}

bool is_left_out(const ViewSpec& spec, Kind kind) {
  return (!spec.optimizer && is_optimizer(kind)) || (!spec.masters && is_master(kind));
}

const char* files_of(ViewForm form) {
  switch (form) {
    case ViewForm::kSafetensors: return "files of Hugging Face hold parameters only";
    case ViewForm::kTorch:
      return "Megatron-LM keeps the state of its optimizer there by number, which is not written here";
    case ViewForm::kTorchDist: return "Megatron-Core's folders hold one version of each parameter";
    case ViewForm::kVllm: return "vLLM loads parameters only";
    case ViewForm::kDcp: return "torch's optimizers keep no masters";
  }
  return "";
}

// Classes of vLLM 0.33 that have the names which families call "vllm".
absl::Status check_class_of_vllm(const CheckpointInfo& info) {
  static const std::set<std::string> kClasses = {"LlamaForCausalLM",   "MistralForCausalLM",  "Qwen2ForCausalLM",
                                                 "Qwen3ForCausalLM",   "GemmaForCausalLM",    "Gemma2ForCausalLM",
                                                 "Gemma3ForCausalLM",  "GraniteForCausalLM",  "Phi3ForCausalLM",
                                                 "MixtralForCausalLM", "Qwen2MoeForCausalLM", "Qwen3MoeForCausalLM"};
  if (info.config.empty())
    return invalid(fmt::format("{}: has no config.json, which vLLM needs; --config=FILE", info.path));
  SCALAI_ASSIGN_OR_RETURN(const nlohmann::json config, read_json(info.config));
  const auto found = config.find("architectures");
  const bool named = found != config.end() && found->is_array() && !found->empty() && found->front().is_string();
  const std::string name = named ? found->front().get<std::string>() : std::string();
  if (kClasses.count(name) != 0) return absl::OkStatus();
  return invalid(fmt::format("vLLM's names of \"{}\" are not known here, only of {}", clipped(name, 120),
                             fmt::join(kClasses, ", ")));
}

}  // namespace

absl::Status check_places(const Checkpoint& checkpoint, const ViewSpec& spec) {
  size_t count = 0;
  std::string first;
  bool moments = false;
  for (const LogicalState& state : checkpoint.tensors()) {
    if (!is_optimizer(state.kind) || can_hold(spec, state.kind) || is_left_out(spec, state.kind)) continue;
    if (count++ == 0) first = state.name;
    moments = moments || is_moment(state.kind);
  }
  if (count == 0) return absl::OkStatus();
  return invalid(fmt::format(
      "--to={}: {}, and {} has {} tensors of an optimizer, such as \"{}\"; --drop={} leaves them out", canonical(spec),
      files_of(spec.form), checkpoint.info().path, count, clipped(first, 120), moments ? "optimizer" : "masters"));
}

bool View::State::has_place(Kind kind) const { return can_hold(spec, kind) && !is_left_out(spec, kind); }

void View::State::take_states(const std::function<bool(const LogicalState&)>& chosen) {
  size_t optimizer = 0, others = 0;
  for (size_t i = 0; i < checkpoint->tensors().size(); ++i) {
    const LogicalState& state = checkpoint->tensors()[i];
    if (chosen(state))
      tensors.push_back(i);
    else
      ++(is_optimizer(state.kind) ? optimizer : others);
  }
  if (optimizer > 0) notes.push_back(fmt::format("left out: {} tensors of the optimizer", optimizer));
  if (others > 0)
    notes.push_back(
        fmt::format("left out: {} tensors of the job (counters, generators); {}", others, files_of(spec.form)));
}

absl::Status View::State::lay_out_whole(const Naming& naming) {
  std::set<std::string_view> buffers;  // of the model; nobody knows those of our own names' models
  for (size_t i = 0; spec.naming != "logical" && i < checkpoint->model()->model.params.size(); ++i) {
    const model::Param& param = checkpoint->model()->model.params[i];
    if (param.buffer) buffers.insert(param.name);
  }
  take_states([&](const LogicalState& state) {
    return has_place(state.kind) &&
           (spec.naming == "logical" || state.kind != Kind::kBuffer || buffers.count(state.name) != 0);
  });
  std::vector<LogicalState> states;
  for (const size_t tensor : tensors) states.push_back(checkpoint->tensors()[tensor]);
  WholeOptions options;
  options.shard_bytes = spec.shard_bytes;
  const std::optional<std::string>& prefix = checkpoint->info().hf_prefix;
  const std::vector<std::string>& known = naming.prefixes();
  if (spec.naming == "hf" && prefix && std::find(known.begin(), known.end(), *prefix) != known.end())
    options.prefix = *prefix;
  absl::StatusOr<std::vector<ArrangedFile>> arranged = arrange_whole(naming, states, options);
  if (!arranged.ok()) return arranged.status();
  whole = *std::move(arranged);
  if (spec.form != ViewForm::kSafetensors) {
    lay_out_chunks();
  } else if (whole.size() > 1) {
    files.push_back({std::string(kIndexFileName), index_text(whole)});
  }
  for (size_t i = 0; i < whole.size(); ++i) files.push_back({whole[i].name, std::nullopt, i});
  return absl::OkStatus();
}

void View::State::lay_out_chunks() {
  using internal::ChunkKeys;
  const int64_t step = checkpoint->info().step;
  if (spec.form == ViewForm::kDcp) {
    internal::as_chunks(whole, *checkpoint, ChunkKeys::kTorch, "");
    files.push_back({kDcpIndexName, internal::chunk_index(whole, *checkpoint, ChunkKeys::kTorch, "")});
    if (step < 0 && tensors.size() > checkpoint->model()->model.params.size())
      notes.emplace_back("the optimizer's \"step\" is left out: the source does not say which it is");
    return;
  }
  const std::string folder = internal::iteration_folder(step);
  internal::as_chunks(whole, *checkpoint, ChunkKeys::kMegatron, folder);
  MegatronCommon common = checkpoint->info().common;
  if (common.bytes.empty()) common.bytes = megatron_frame({}, std::max<int64_t>(step, 0))->texts.front().bytes;
  std::vector<DcpObject> objects;
  if (common.listed) objects.push_back({internal::kCommonObject, common.file_name(), 0, std::ssize(common.bytes)});
  files.push_back(
      {folder + kDcpIndexName, internal::chunk_index(whole, *checkpoint, ChunkKeys::kMegatron, folder, objects)});
  files.push_back({folder + common.file_name(), common.bytes});
  files.push_back({folder + internal::kBackendName,
                   R"({"sharded_backend": "torch_dist", "sharded_backend_version": 1, )"
                   R"("common_backend": "torch", "common_backend_version": 1})"
                   "\n"});
  files.push_back({internal::kNewestIteration, internal::newest_text(step)});
}

absl::Status View::State::lay_out_torch() {
  if (!spec.layout) return invalid("files of Megatron-LM need a layout, such as --to=tp2,pp2,torch");
  if (checkpoint->model()->model.experts > 0 && spec.layout->etp != spec.layout->tp)
    return invalid(
        fmt::format("files of Megatron-LM are named after tp, pp and ep, so etp is tp; not etp{}", spec.layout->etp));
  SCALAI_RETURN_IF_ERROR(arrange_ranks());
  const std::string folder = internal::iteration_folder(checkpoint->info().step);
  for (int rank = 0; rank < collection->ranks(); ++rank)
    files.push_back({folder + internal::torch_rank_file(*spec.layout, rank), std::nullopt, static_cast<size_t>(rank)});
  files.push_back({internal::kNewestIteration, internal::newest_text(checkpoint->info().step)});
  return absl::OkStatus();
}

// One file for each rank of an engine.
absl::Status View::State::lay_out_vllm() {
  constexpr int64_t kVocabulary = 64;  // vLLM pads the vocabulary to a multiple of this, and cuts it then
  if (!spec.layout) return invalid("files of vLLM need a layout, such as --to=tp4,vllm");
  const collection::ParallelConfig& layout = *spec.layout;
  const model::Model& model = checkpoint->model()->model;
  if (layout != collection::ParallelConfig{.tp = layout.tp, .etp = layout.etp} ||
      (model.experts > 0 && layout.etp != layout.tp))
    return invalid(fmt::format("vLLM's sharded state is written for tp alone, such as tp{}; not for {}", layout.tp,
                               layout_name()));
  SCALAI_RETURN_IF_ERROR(check_class_of_vllm(checkpoint->info()));
  const int64_t rows = round_up(model.vocab, kVocabulary);
  if (rows % layout.tp != 0)
    return invalid(fmt::format("vLLM does not cut a vocabulary of {} rows by tp{}", rows, layout.tp));
  internal::pad_vocabulary(*collection, rows / layout.tp);
  SCALAI_RETURN_IF_ERROR(arrange_ranks());
  for (int rank = 0; rank < collection->ranks(); ++rank)
    files.push_back({fmt::format("model-rank-{}-part-0.safetensors", rank), std::nullopt, static_cast<size_t>(rank)});
  return absl::OkStatus();
}

// A rank's file in a dict "model", or one for each of its virtual stages ("model0"), whose names have it already.
void View::State::as_torch(const std::string& path, ArrangedFile& file) const {
  file.name = path;
  file.form = FileForm::kTorch;
  file.metadata = {{internal::kIterationKey, fmt::format("{}", std::max<int64_t>(checkpoint->info().step, 0))}};
  for (ArrangedTensor& tensor : file.tensors) {
    if (!internal::is_of_chunk(tensor.name)) tensor.name = "model." + tensor.name;
  }
}

}  // namespace scalai::store
