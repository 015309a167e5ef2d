#include "ptc/store/views/transforms.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "ptc/base/file.h"
#include "ptc/base/hash.h"
#include "ptc/base/json.h"
#include "ptc/base/status.h"
#include "ptc/store/naming/arrange.h"
#include "ptc/store/views/internal/opened.h"

namespace scalai::store {
namespace {

using transform::Other;
using transform::Tensor;

std::vector<Tensor> tensors_of(const std::shared_ptr<const Checkpoint>& checkpoint) {
  std::vector<Tensor> tensors;
  for (size_t i = 0; i < checkpoint->tensors().size(); ++i) {
    const LogicalState& state = checkpoint->tensors()[i];
    tensors.push_back(
        {.name = state.name,
         .dtype = state.dtype,
         .shape = state.shape,
         .usual = state.kind == model::StateKind::kParam,
         .read = [checkpoint, i](const tensor::Box& box, std::span<std::byte> dst, const transform::Origin& origin) {
           return origin ? origin(box, dst) : checkpoint->read(i, box, dst);
         }});
    tensors.back().scratch_bytes = Gatherer::kCoverBytes;
  }
  return tensors;
}

// The matrices of Hugging Face that parameters consist of, under each prefix that its names may have.
absl::Status add_parts(const Checkpoint& checkpoint, std::vector<Tensor>& tensors) {
  const KnownModel* const known = checkpoint.model();
  if (known == nullptr || !known->family || !known->family->has_naming("hf")) return absl::OkStatus();
  SCALAI_ASSIGN_OR_RETURN(const Naming naming, Naming::of(*known->family, "hf", known->file.sizes));
  std::vector<LogicalState> params;
  for (const LogicalState& state : checkpoint.tensors()) {
    if (state.kind == model::StateKind::kParam) params.push_back(state);
  }
  std::unordered_map<std::string_view, Tensor*> by_name;
  for (Tensor& tensor : tensors) by_name[tensor.name] = &tensor;
  for (const std::string& prefix : naming.prefixes()) {
    SCALAI_ASSIGN_OR_RETURN(
        const std::vector<ArrangedFile> files,
        arrange_whole(naming, params, {.shard_bytes = std::numeric_limits<int64_t>::max(), .prefix = prefix}));
    for (const ArrangedTensor& stored : files.front().tensors) {
      if (stored.shape.size() != 2) continue;
      for (const PlacedPiece& placed : stored.pieces)
        by_name.at(placed.logical)->parts.push_back({stored.name, stored.shape[0], stored.shape[1], placed.piece});
    }
  }
  return absl::OkStatus();
}

// What PEFT says of an adapter. InvalidArgument: what is not read here.
absl::Status read_adapter_config(const std::string& text, Other& other) {
  SCALAI_ASSIGN_OR_RETURN(const nlohmann::json document, read_json(text));
  if (!document.is_object()) return invalid("is no object");
  const auto is_set = [&](const char* key) {
    const auto found = document.find(key);
    return found != document.end() &&
           ((found->is_boolean() && found->get<bool>()) || (found->is_object() && !found->empty()));
  };
  for (const char* const key : {"fan_in_fan_out", "use_dora", "alpha_pattern"}) {
    if (is_set(key)) return invalid(fmt::format("/{}: adapters with it are not merged here", key));
  }
  const auto text_of = [&](const char* key) {
    const auto found = document.find(key);
    return found != document.end() && found->is_string() ? found->get<std::string>() : "";
  };
  // These train from other weights than the base has.
  const std::string begin = text_of("init_lora_weights"), type = text_of("peft_type");
  for (const char* const known : {"pissa", "olora", "corda", "loftq"}) {
    if (begin.starts_with(known))
      return invalid(
          fmt::format("/init_lora_weights: {}: such an adapter belongs to weights that it has changed: it is "
                      "not merged here",
                      begin));
  }
  if (!type.empty() && type != "LORA") return invalid(fmt::format("/peft_type: {} is not LORA", type));
  const auto alpha = document.find("lora_alpha");
  if (alpha != document.end() && alpha->is_number()) other.alpha = alpha->get<double>();
  other.rank_stabilised = is_set("use_rslora");
  return absl::OkStatus();
}

// Other states, kept open by what reads them.
class Others {
 public:
  // Paths that do not begin with / are in `folder`; "": where this process is.
  Others(const OpenOptions& options, std::string folder) : options_(options), folder_(std::move(folder)) {}

  absl::StatusOr<Other> open(const std::string& said) {
    const std::string path = folder_.empty() ? said : (std::filesystem::path(folder_) / said).string();
    constexpr const char* kAdapter = "adapter_model.safetensors";
    const bool adapter = std::filesystem::is_regular_file(path + "/" + kAdapter);
    OpenOptions options = options_;
    options.transforms.clear();
    options.opener = {};
    options.drop_may_be_idle = true;
    if (adapter) options = {.names = "logical"};
    absl::StatusOr<std::shared_ptr<const Checkpoint>> opened =
        Checkpoint::open(adapter ? path + "/" + kAdapter : path, options);
    SCALAI_RETURN_IF_ERROR(opened.status());
    opened_.push_back(*opened);
    said_.add((*opened)->sampled_content());
    Other other{.tensors = tensors_of(*opened), .alpha = {}, .identity = (*opened)->identity()};
    const std::string config = path + "/adapter_config.json";
    std::error_code ignored;
    if (!std::filesystem::exists(config, ignored)) return other;
    SCALAI_ASSIGN_OR_RETURN(const std::string text, read_file(config));
    if (const absl::Status status = read_adapter_config(text, other); !status.ok())
      return internal::error_at(config, status);
    said_.add(text);
    return other;
  }
  const std::vector<std::shared_ptr<const Checkpoint>>& opened() const { return opened_; }
  // Of all that was opened, the same on all machines.
  std::string digest() const { return said_.hex(); }

 private:
  const OpenOptions& options_;
  const std::string folder_;
  std::vector<std::shared_ptr<const Checkpoint>> opened_;
  Hasher said_;
};

std::string digest_of(std::span<const transform::Step> steps, const Others& others) {
  Hasher hasher;
  for (const transform::Step& step : steps) {
    hasher.add(step.text);
    if (const auto* function = std::get_if<transform::Function>(&step.what)) hasher.add(function->name);
    for (const std::string& name : step.tensors) hasher.add(name);
  }
  return hasher.add(others.digest()).hex();
}

}  // namespace

absl::StatusOr<Transformed> transformed(const std::shared_ptr<const Checkpoint>& base,
                                        std::span<const transform::Step> steps, const OpenOptions& how_others,
                                        const std::string& folder) {
  std::vector<Tensor> tensors = tensors_of(base);
  const bool by_matrix = std::any_of(
      steps.begin(), steps.end(), [](const auto& step) { return std::holds_alternative<transform::Lora>(step.what); });
  if (by_matrix) SCALAI_RETURN_IF_ERROR(add_parts(*base, tensors));
  Others others(how_others, folder);
  SCALAI_ASSIGN_OR_RETURN(tensors, transform::transform(steps, std::move(tensors),
                                                        [&](const std::string& path) { return others.open(path); }));
  return Transformed{std::move(tensors), others.opened(), digest_of(steps, others)};
}

}  // namespace scalai::store
