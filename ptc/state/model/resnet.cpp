#include <fmt/format.h>

#include "ptc/base/status.h"
#include "ptc/state/model/internal/families.h"
#include "ptc/state/model/internal/param_list.h"

namespace scalai::model {
namespace {

constexpr int64_t kBottleneckReduction = 4;

struct Conv {
  int64_t out = 0;
  int64_t in = 0;
  int64_t kernel = 1;
};

void append_conv_norm(ParamList& list, const std::string& conv_name, const std::string& norm_name, const Conv& conv) {
  list.add(conv_name + ".weight", {conv.out, conv.in, conv.kernel, conv.kernel});
  list.add_norm(norm_name, conv.out, true);
  list.add_buffer(norm_name + ".running_mean", {conv.out});
  list.add_buffer(norm_name + ".running_var", {conv.out});
  list.add_buffer(norm_name + ".num_batches_tracked", {});
}

std::vector<Conv> convs_of_block(int64_t in, int64_t out, bool bottleneck) {
  if (!bottleneck) return {{out, in, 3}, {out, out, 3}};
  const int64_t narrow = out / kBottleneckReduction;
  return {{narrow, in, 1}, {narrow, narrow, 3}, {out, narrow, 1}};
}

struct Block {
  int64_t in = 0;
  int64_t out = 0;
  bool halves_image = false;
};

void append_block(ParamList& list, const Block& block, bool bottleneck) {
  int number = 0;
  for (const Conv& conv : convs_of_block(block.in, block.out, bottleneck)) {
    ++number;
    append_conv_norm(list, fmt::format("conv{}", number), fmt::format("norm{}", number), conv);
  }
  // The identity is projected only where its shape changes.
  if (block.in != block.out || block.halves_image) {
    append_conv_norm(list, "shortcut.conv", "shortcut.norm", {block.out, block.in, 1});
  }
}

}  // namespace

void append_resnet_params(Model& model, const ResnetShape& shape) {
  SCALAI_CHECK(!shape.stage_width.empty() && shape.stage_width.size() == shape.stage_depth.size());
  ParamList stem(model, Param::kFirst);
  append_conv_norm(stem, "stem.conv", "stem.norm", {shape.stem_width, shape.image_channels, 7});
  int index = 0;
  int64_t width = shape.stem_width;
  for (size_t stage = 0; stage < shape.stage_width.size(); ++stage) {
    for (int64_t block = 0; block < shape.stage_depth[stage]; ++block) {
      const bool halves = block == 0 && (stage > 0 || shape.downsample_first_stage);
      ParamList layer(model, index++);
      append_block(layer, {.in = width, .out = shape.stage_width[stage], .halves_image = halves}, shape.bottleneck);
      width = shape.stage_width[stage];
    }
  }
  SCALAI_CHECK(index == model.layers, fmt::format("{} blocks, {} layers", index, model.layers));
  ParamList(model, Param::kLast).add_linear("fc", {.out = shape.classes, .in = width, .bias = true});
}

}  // namespace scalai::model
