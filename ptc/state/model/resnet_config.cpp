#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <numeric>

#include "ptc/base/json.h"
#include "ptc/base/status.h"
#include "ptc/state/model/catalogue.h"
#include "ptc/state/model/internal/config_reader.h"
#include "ptc/state/model/internal/families.h"

namespace scalai::model {
namespace {

using nlohmann::json;

// Upper bounds, several times the largest published model.
constexpr size_t kMaxTextBytes = size_t{4} << 20;
constexpr int64_t kMaxLayers = 4096;
constexpr int64_t kMaxWidth = 65536;
constexpr int64_t kMaxClasses = int64_t{1} << 22;
constexpr size_t kMaxStages = 64;

// Image classifiers name their classes instead of counting them.
int64_t read_classes(ConfigReader& config, const json& root) {
  const auto labels = root.find("id2label");
  if (labels != root.end() && labels->is_object() && !labels->empty()) return static_cast<int64_t>(labels->size());
  return config.integer("num_labels", kMaxClasses);
}

absl::StatusOr<Model> read_resnet(ConfigReader& config, const json& root, Model model) {
  model.family = "resnet";
  const bool bottleneck = config.word("layer_type", {"bottleneck", "basic"}) == "bottleneck";
  const ResnetShape shape = {.image_channels = config.integer("num_channels", kMaxWidth),
                             .stem_width = config.integer("embedding_size", kMaxWidth),
                             .stage_width = config.integers("hidden_sizes", kMaxWidth, kMaxStages),
                             .stage_depth = config.integers("depths", kMaxLayers / int64_t{kMaxStages}, kMaxStages),
                             .bottleneck = bottleneck,
                             .downsample_first_stage = config.flag_or("downsample_in_first_stage", false),
                             .classes = read_classes(config, root)};
  for (size_t stage = 0; stage < shape.stage_width.size(); ++stage) {
    if (bottleneck && shape.stage_width[stage] % 4 != 0) {
      config.problem(fmt::format("hidden_sizes/{}", stage), "not a multiple of 4, which a bottleneck block needs");
    }
  }
  if (shape.stage_depth.size() != shape.stage_width.size()) {
    config.problem("depths", fmt::format("{} stages, but {} in /hidden_sizes", shape.stage_depth.size(),
                                         shape.stage_width.size()));
  }
  SCALAI_RETURN_IF_ERROR(config.status());
  model.layers = static_cast<int>(std::accumulate(shape.stage_depth.begin(), shape.stage_depth.end(), int64_t{0}));
  model.hidden = shape.stage_width.back();
  append_resnet_params(model, shape);
  return model;
}

}  // namespace

absl::StatusOr<Model> resnet_of_config(std::string_view json_text, std::string_view name) {
  if (json_text.size() > kMaxTextBytes) {
    return invalid(
        fmt::format("{} bytes are too many for a config.json (at most {})", json_text.size(), kMaxTextBytes));
  }
  SCALAI_ASSIGN_OR_RETURN(const json root, read_json(json_text));
  if (!root.is_object()) return invalid("a config.json is one JSON object, in braces");
  ConfigReader config(root);
  return read_resnet(config, root, {.name = std::string(name), .source = "config.json (ResNetForImageClassification)"});
}

}  // namespace scalai::model
