#include "ptc/state/collection/collection_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "ptc/base/file.h"
#include "ptc/base/hash.h"
#include "ptc/base/status.h"
#include "ptc/proto/collection.pb.h"
#include "ptc/state/collection/id_list.h"
#include "ptc/state/collection/internal/collection_parts.h"

namespace scalai::collection {
namespace internal {

std::optional<std::vector<int>> build_ids(const std::string& path, const std::string& text, proto::Source& source) {
  std::vector<int> ids;
  if (source.broken(path)) return std::nullopt;
  const std::optional<IdListProblem> problem = parse_id_list(text, ids);
  if (!problem) return ids;
  source.error_inside(path, text, problem->position, problem->length, problem->message, problem->hint);
  return std::nullopt;
}

namespace {

constexpr size_t kMaxFileBytes = size_t{64} << 20;

void build_head(Context& context) {
  proto::Source& source = context.source;
  const int version = context.message.schema_version();
  if (version != 0 && version != 1) {
    source.error("schema_version", fmt::format("schema version {} is not known here", version),
                 "this program reads version 1");
  }
  const bool named = source.given("name") && source.is_name("name", context.message.name());
  if (named) context.collection.name = context.message.name();
  if (source.given("epoch") && source.at_least("epoch", context.message.epoch(), 0))
    context.collection.epoch = context.message.epoch();
}

void build_devices(Context& context) {
  if (!context.source.given("devices")) return context.source.missing("devices", "write it like devices: \"0-15,24\"");
  const auto ids = build_ids("devices", context.message.devices(), context.source);
  if (!ids) return;
  for (const int id : *ids) context.collection.device_of_rank.push_back(DeviceId(id));
}

bool is_axis_name(proto::Source& source, const std::string& path, const std::string& name) {
  if (!source.is_name(path, name)) return false;
  if (name.find('+') == std::string::npos) return true;
  source.error(path, "an axis has no \"+\" in its name", "\"a+b\" in a cut means the two axes as one");
  return false;
}

// The axes of a mesh; nothing when one of them has a problem.
std::optional<std::vector<MeshAxis>> build_axes(const proto::MeshDescription& mesh, const std::string& path,
                                                proto::Source& source) {
  const int before = source.errors();
  std::vector<MeshAxis> axes;
  std::map<std::string, std::string> names;
  int64_t ranks = 1;
  for (int i = 0; i < mesh.axes_size(); ++i) {
    const std::string at = fmt::format("{}.axes[{}]", path, i);
    const proto::AxisDescription& axis = mesh.axes(i);
    const bool name_ok = is_axis_name(source, at + ".name", axis.name());
    const bool size_ok = source.at_least(at + ".size", axis.size(), 1);
    if (!name_ok || !size_ok) continue;
    const auto [first, fresh] = names.emplace(axis.name(), at + ".name");
    if (!fresh) {
      source.error(at + ".name", fmt::format("axis \"{}\" is given twice", axis.name()), "",
                   {{first->second, "the first is here"}});
    }
    ranks *= axis.size();
    if (ranks > kMaxRanks) {
      source.error(at + ".size", fmt::format("the mesh has more than {} ranks", kMaxRanks));
      break;
    }
    axes.push_back({axis.name(), axis.size()});
  }
  if (source.errors() != before || source.broken(path)) return std::nullopt;
  return axes;
}

void build_mesh(Context& context, int index) {
  proto::Source& source = context.source;
  const proto::MeshDescription& message = context.message.meshes(index);
  const std::string path = fmt::format("meshes[{}]", index);
  const bool named = context.message.meshes_size() == 1 && !source.given(path + ".name");
  const bool name_ok = named || source.is_name(path + ".name", message.name());
  const auto axes = build_axes(message, path, source);
  // A mesh with a problem keeps its index; nobody finds it by name.
  context.collection.meshes.emplace_back(axes.value_or(std::vector<MeshAxis>{}));
  if (!axes || !name_ok) return;
  if (!context.meshes.emplace(message.name(), index).second) {
    source.error(path + ".name", fmt::format("mesh \"{}\" is described twice", message.name()));
  }
  const int devices = context.collection.ranks();
  const int ranks = context.collection.meshes.back().size();
  if (devices == 0 || ranks == devices) return;
  source.error(path, fmt::format("the mesh has {} ranks, the collection {} devices", ranks, devices),
               "a mesh has as many ranks as the product of its axes", {{"devices", "the devices are listed here"}});
}

void build_meshes(Context& context) {
  if (context.message.meshes_size() == 0)
    context.source.missing("meshes", "write it like meshes { axes { name: \"tp\" size: 8 } }");
  for (int i = 0; i < context.message.meshes_size(); ++i) build_mesh(context, i);
}

std::optional<tensor::Box> build_box(const std::string& path, const std::string& text, const LogicalTensor& tensor,
                                     proto::Source& source) {
  const tensor::Box whole = tensor::Box::whole(tensor.shape);
  if (!source.given(path)) return whole;
  const std::optional<tensor::Box> box = tensor::parse_box(text);
  if (!box) {
    source.error(path, fmt::format("\"{}\" is not a box", text), fmt::format("write it like \"{}\"", whole.str()));
  } else if (box->rank != whole.rank || !whole.contains(*box)) {
    source.error(path,
                 fmt::format("box {} is not inside tensor \"{}\" {}", box->str(), tensor.name, tensor.shape.str()));
  } else {
    return box;
  }
  return std::nullopt;
}

void build_copy(Context& context, const proto::HostCopy& copy, const std::string& path) {
  proto::Source& source = context.source;
  const std::vector<LogicalTensor>& tensors = context.collection.tensors;
  const bool host_ok = !source.given(path + ".host") ? (source.missing(path + ".host"), false)
                                                     : source.at_least(path + ".host", copy.host(), 0);
  const auto named = [&](const LogicalTensor& tensor) { return tensor.name == copy.tensor(); };
  const auto found = std::find_if(tensors.begin(), tensors.end(), named);
  if (found == tensors.end()) {
    std::vector<std::string> names;
    for (const LogicalTensor& tensor : tensors) names.push_back(tensor.name);
    return source.error_unknown(path + ".tensor", "tensor", copy.tensor(), names);
  }
  const std::optional<tensor::Box> box = build_box(path + ".box", copy.box(), *found, source);
  if (!box || !host_ok) return;
  context.residency.extra.push_back({TensorId(found - tensors.begin()), *box, HostId(copy.host())});
}

void build_residency(Context& context, FileRole role) {
  if (role == FileRole::kPlanned && context.source.given("residency"))
    return context.source.error("residency", "a state that is still to be made has no residency",
                                "who holds what belongs into the file of the old state");
  const proto::ResidencyDescription& message = context.message.residency();
  context.residency.storage = message.storage();
  if (context.source.given("residency.lost")) {
    const auto lost = build_ids("residency.lost", message.lost(), context.source);
    for (const int id : lost.value_or(std::vector<int>{})) context.residency.lost.insert(DeviceId(id));
  }
  for (int i = 0; i < message.copies_size(); ++i)
    build_copy(context, message.copies(i), fmt::format("residency.copies[{}]", i));
}

}  // namespace
}  // namespace internal

absl::StatusOr<CollectionFile> parse_collection(const std::string& text, const std::string& file_name, FileRole role) {
  proto::CollectionFile message;
  proto::Source source(file_name, text);
  source.parse(text, message, internal::kMaxFileBytes);
  internal::Context context{message, source, {}, {}, {}, {}};
  if (!source.broken("")) {
    internal::build_head(context);
    internal::build_devices(context);
    internal::build_meshes(context);
    internal::build_layouts(context);
    internal::build_tensors(context);
    internal::build_residency(context, role);
  }
  if (!source.empty()) return invalid(source.render());
  SCALAI_CHECK(source.errors() == 0, "a problem was not reported");
  const std::string digest = digest_of(collection_text(context.collection, context.residency));
  return CollectionFile{std::move(context.collection), std::move(context.residency), digest};
}

absl::StatusOr<CollectionFile> load_collection(const std::string& path, FileRole role) {
  SCALAI_ASSIGN_OR_RETURN(const std::string text, read_file(path, internal::kMaxFileBytes));
  return parse_collection(text, path, role);
}

}  // namespace scalai::collection
