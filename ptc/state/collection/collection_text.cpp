#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>

#include "ptc/proto/collection.pb.h"
#include "ptc/state/collection/collection_file.h"
#include "ptc/state/collection/id_list.h"
#include "ptc/state/collection/internal/collection_parts.h"

namespace scalai::collection {
namespace internal {
namespace {

// Names are fit to print, so only these two need a backslash.
std::string in_quotes(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    result += c;
  }
  return result + "\"";
}

std::string mesh_name(int mesh) { return fmt::format("m{}", mesh); }

std::string text_of(const Mesh& mesh, int index) {
  std::string axes;
  for (const MeshAxis& axis : mesh.axes())
    axes += fmt::format(" axes {{ name: {} size: {} }}", in_quotes(axis.name), axis.size);
  return fmt::format("meshes {{ name: \"{}\"{} }}\n", mesh_name(index), axes);
}

std::string text_of(const tensor::Layout& layout) {
  std::string text;
  for (const tensor::Cut& cut : layout.cuts) text += fmt::format(" cuts {{ {} }}", cut_text(cut));
  return text;
}

// Layouts by what they say, with the name each gets.
using LayoutNames = std::map<std::string, std::string>;

std::string text_of(const LogicalTensor& tensor, const LayoutNames& layouts) {
  std::string text = fmt::format("tensors {{ name: {} dtype: \"{}\"", in_quotes(tensor.name), name_of(tensor.dtype));
  if (tensor.shape.rank() > 0) text += fmt::format(" shape: {}", tensor.shape.str());
  if (tensor.kind != model::StateKind::kParam) {
    // The schema lists the kinds in StateKind's order.
    text += " kind: " + proto::TensorDescription::Kind_Name(
                            static_cast<proto::TensorDescription::Kind>(static_cast<int>(tensor.kind)));
  }
  text += fmt::format(" mesh: \"{}\"", mesh_name(tensor.mesh));
  if (!tensor.layout.cuts.empty()) text += fmt::format(" layout: \"{}\"", layouts.at(text_of(tensor.layout)));
  for (const Pin& pin : tensor.pins)
    text += fmt::format(" pins {{ axis: {} at: [{}] }}", in_quotes(pin.axis), fmt::join(pin.coordinates, ", "));
  return text + " }\n";
}

template <class Ids>
std::string text_of_ids(const Ids& ids) {
  std::vector<int> values;
  for (const auto id : ids) values.push_back(id.value);
  return id_list_of(values);
}

std::string text_of(const Residency& residency, const Collection& collection) {
  std::string text;
  if (!residency.lost.empty()) text += fmt::format("  lost: \"{}\"\n", text_of_ids(residency.lost));
  for (const ExtraHolder& extra : residency.extra) {
    const std::string& name = collection.tensors[static_cast<size_t>(extra.tensor.value)].name;
    text += fmt::format("  copies {{ tensor: {} box: \"{}\" host: {} }}\n", in_quotes(name), extra.box.str(),
                        extra.host.value);
  }
  if (residency.storage) text += "  storage: true\n";
  return text.empty() ? "" : fmt::format("residency {{\n{}}}\n", text);
}

}  // namespace

std::string cut_text(const tensor::Cut& cut) {
  std::string text = fmt::format("axis: {} ", in_quotes(cut.axis));
  text += cut.dim == tensor::Cut::kFlat ? "flat: true" : fmt::format("dim: {}", cut.dim);
  // The schema lists the rules in SplitRule's order.
  const auto rule = static_cast<proto::CutDescription::Rule>(static_cast<int>(cut.rule));
  if (rule != proto::CutDescription::EVEN) text += " rule: " + proto::CutDescription::Rule_Name(rule);
  switch (cut.rule) {
    case tensor::SplitRule::kPadded: return text + fmt::format(" multiple: {}", cut.multiple);
    case tensor::SplitRule::kExplicit: return text + fmt::format(" bounds: [{}]", fmt::join(cut.bounds, ", "));
    case tensor::SplitRule::kGrouped: return text + fmt::format(" groups: {}", cut.groups);
    case tensor::SplitRule::kBucket: return text + fmt::format(" start: {} bucket: {}", cut.start, cut.bucket);
    case tensor::SplitRule::kEven:
    case tensor::SplitRule::kBalanced:
    case tensor::SplitRule::kCeil: break;
  }
  return text;
}

}  // namespace internal

std::string collection_text(const Collection& collection, const Residency& residency) {
  std::string text = "schema_version: 1\n";
  if (!collection.name.empty()) text += fmt::format("name: {}\n", internal::in_quotes(collection.name));
  if (collection.epoch != 0) text += fmt::format("epoch: {}\n", collection.epoch);
  for (size_t i = 0; i < collection.meshes.size(); ++i)
    text += internal::text_of(collection.meshes[i], static_cast<int>(i));
  text += fmt::format("devices: \"{}\"\n", internal::text_of_ids(collection.device_of_rank));
  internal::LayoutNames layouts;
  for (const LogicalTensor& tensor : collection.tensors) {
    if (tensor.layout.cuts.empty()) continue;
    const std::string cuts = internal::text_of(tensor.layout);
    const auto [entry, fresh] = layouts.emplace(cuts, fmt::format("l{}", layouts.size()));
    if (fresh) text += fmt::format("layouts {{ name: \"{}\"{} }}\n", entry->second, cuts);
  }
  for (const LogicalTensor& tensor : collection.tensors) text += internal::text_of(tensor, layouts);
  return text + internal::text_of(residency, collection);
}

}  // namespace scalai::collection
