#include <fmt/format.h>

#include <algorithm>

#include "ptc/proto/collection.pb.h"
#include "ptc/state/collection/internal/collection_parts.h"

namespace scalai::collection::internal {
namespace {

constexpr int64_t kMaxMultiple = int64_t{1} << 31;

// A number of a rule, within what arithmetic on it can bear.
int64_t number(const std::string& path, int64_t value, int64_t lowest, int64_t highest, proto::Source& source) {
  if (source.at_least(path, value, lowest) && value > highest)
    source.error(path, fmt::format("\"{}\" must be at most {}, found {}", proto::field_of(path), highest, value));
  return value;
}

void build_axis(const proto::CutDescription& message, const std::string& path, proto::Source& source,
                tensor::Cut& cut) {
  cut.axis = message.axis();
  const std::vector<std::string> axes = tensor::axes_of(cut.axis);
  if (cut.axis.empty()) {
    source.missing(path + ".axis", "write it like axis: \"tp\"");
  } else if (std::find(axes.begin(), axes.end(), "") != axes.end()) {
    source.error(path + ".axis", "a \"+\" stands between two axes", "write it like axis: \"cp+dp\"");
  }
}

void build_rule(const proto::CutDescription& message, const std::string& path, proto::Source& source,
                tensor::Cut& cut) {
  using Cut = proto::CutDescription;
  cut.rule = static_cast<tensor::SplitRule>(static_cast<int>(message.rule()));
  if (source.broken(path + ".rule")) return;
  // Whether the field is there, or must be; elsewhere it must not.
  const auto belongs = [&](const std::string& field, Cut::Rule rule, bool needed) {
    const bool given = source.given(path + field);
    if (message.rule() == rule) return given || needed;
    if (given) {
      source.error(path + field, fmt::format("\"{}\" needs rule: {}", field.substr(1), Cut::Rule_Name(rule)));
    }
    return false;
  };
  if (belongs(".multiple", Cut::PADDED, false))
    cut.multiple = number(path + ".multiple", message.multiple(), 1, kMaxMultiple, source);
  if (belongs(".groups", Cut::GROUPED, true))
    cut.groups = number(path + ".groups", message.groups(), 1, kMaxElements, source);
  if (belongs(".start", Cut::BUCKET, false))
    cut.start = number(path + ".start", message.start(), 0, kMaxElements, source);
  if (belongs(".bucket", Cut::BUCKET, true))
    cut.bucket = number(path + ".bucket", message.bucket(), 1, kMaxElements, source);
  if (!belongs(".bounds", Cut::EXPLICIT, true)) return;
  cut.bounds.assign(message.bounds().begin(), message.bounds().end());
  if (cut.bounds.empty()) source.missing(path + ".bounds", "write it like bounds: [0, 4, 10] for two parts of 10");
}

}  // namespace

std::optional<tensor::Cut> build_cut(const proto::CutDescription& message, const std::string& path,
                                     proto::Source& source) {
  const int before = source.errors();
  tensor::Cut cut;
  build_axis(message, path, source, cut);
  if (message.flat()) {
    cut.dim = tensor::Cut::kFlat;
  } else if (!source.given(path + ".dim")) {
    source.missing(path + ".dim", "write dim: 0 for the first dimension, or flat: true for elements in order");
  } else if (source.at_least(path + ".dim", message.dim(), 0)) {
    cut.dim = message.dim();
  }
  build_rule(message, path, source, cut);
  if (source.errors() != before || source.broken(path) || source.broken_inside(path)) return std::nullopt;
  return cut;
}

void build_layouts(Context& context) {
  proto::Source& source = context.source;
  for (int i = 0; i < context.message.layouts_size(); ++i) {
    const proto::NamedLayout& message = context.message.layouts(i);
    const std::string path = fmt::format("layouts[{}]", i);
    NamedLayout layout{{}, path + ".cuts", true};
    for (int j = 0; j < message.cuts_size(); ++j) {
      const auto cut = build_cut(message.cuts(j), fmt::format("{}.cuts[{}]", path, j), source);
      if (cut) layout.layout.cuts.push_back(*cut);
      layout.good = layout.good && cut.has_value();
    }
    layout.good = layout.good && !source.broken(path) && !source.broken_inside(path);
    if (!source.is_name(path + ".name", message.name())) continue;
    const auto [first, fresh] = context.layouts.emplace(message.name(), layout);
    if (fresh) continue;
    source.error(path + ".name", fmt::format("layout \"{}\" is described twice", message.name()), "",
                 {{first->second.path, "the first is here"}});
  }
}

}  // namespace scalai::collection::internal
