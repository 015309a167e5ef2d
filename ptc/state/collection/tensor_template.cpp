#include "ptc/state/collection/internal/tensor_template.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "ptc/proto/collection.pb.h"

namespace scalai::collection::internal {
namespace {

std::vector<std::string> axis_names(const Mesh& mesh) {
  std::vector<std::string> names;
  for (const MeshAxis& axis : mesh.axes()) names.push_back(axis.name);
  return names;
}

class TemplateBuilder {
 public:
  TemplateBuilder(Context& context, const proto::TensorDescription& message, const std::string& path,
                  const Frames& frames)
      : context_(context), source_(context.source), message_(message), path_(path), frames_(frames) {}

  std::optional<Template> build();

 private:
  void build_name();
  void build_type();
  void build_shape();
  void build_mesh();
  void build_layout();
  void build_own_cuts();
  void build_pins();
  void build_pin(const proto::PinDescription& pin, const std::string& path);
  void build_spread(const Frame& frame);
  bool known_axes(const std::string& path, const std::string& axes);
  bool pinned_before(const std::string& path, const std::string& axes);
  void check_buffer();

  Context& context_;
  proto::Source& source_;
  const proto::TensorDescription& message_;
  const std::string& path_;
  const Frames& frames_;
  Template result_;
  const Mesh* mesh_ = nullptr;  // null = its problem is reported
  bool good_ = true;            // false = a problem that was reported elsewhere
  std::set<std::string> pinned_;
};

// Variables of the repeats around, each in braces.
void TemplateBuilder::build_name() {
  const std::string path = path_ + ".name";
  const std::string& name = message_.name();
  if (!source_.is_name(path, name)) return;
  result_.tensor.name = name;
  std::vector<std::string> known;
  for (const Frame& frame : frames_) known.push_back(frame.repeat->variable());
  std::set<std::string> used;
  for (size_t at = name.find_first_of("{}"); at != std::string::npos; at = name.find_first_of("{}", at + 1)) {
    const size_t end = name.find('}', at);
    if (name[at] == '}' || end == std::string::npos)
      return source_.error(path, "braces hold the variable of a repeat", "write it like \"layers.{layer}.weight\"");
    const std::string variable = name.substr(at + 1, end - at - 1);
    if (std::find(known.begin(), known.end(), variable) == known.end())
      return source_.error_unknown(path, "variable", variable, known);
    used.insert(variable);
    at = end;
  }
  for (const Frame& frame : frames_) {
    const std::string& variable = frame.repeat->variable();
    if (frame.repeat->count() == 1 || used.count(variable) != 0) continue;
    source_.error(path, fmt::format("all {} repetitions are named \"{}\"", frame.repeat->count(), name),
                  fmt::format("names are global: put {{{}}} into it", variable),
                  {{frame.path + ".variable", "the repeat is here"}});
  }
}

void TemplateBuilder::build_type() {
  result_.tensor.kind = static_cast<model::StateKind>(static_cast<int>(message_.kind()));
  const std::string path = path_ + ".dtype";
  if (message_.dtype().empty()) return source_.missing(path, "write it like dtype: \"BF16\"");
  const auto dtype = tensor::parse_dtype(message_.dtype());
  if (!dtype.ok()) return source_.error_unknown(path, "dtype", message_.dtype(), tensor::dtype_names());
  result_.tensor.dtype = *dtype;
}

void TemplateBuilder::build_shape() {
  const std::string path = path_ + ".shape";
  if (message_.shape_size() > tensor::kMaxRank) {
    return source_.error(
        path, fmt::format("the shape has {} dimensions, at most {} are read", message_.shape_size(), tensor::kMaxRank));
  }
  int64_t elements = 1;
  for (int i = 0; i < message_.shape_size(); ++i) {
    const int64_t extent = message_.shape(i);
    const std::string at = fmt::format("{}[{}]", path, i);
    if (!source_.at_least(at, extent, 0)) return;
    if (extent > 0 && elements > kMaxElements / extent)
      return source_.error(path, fmt::format("the tensor has more than {} elements", kMaxElements));
    elements *= std::max<int64_t>(extent, 1);
  }
  const std::span<const int64_t> extents(message_.shape().data(), static_cast<size_t>(message_.shape_size()));
  result_.tensor.shape = tensor::Shape(extents);
}

void TemplateBuilder::build_mesh() {
  const std::string path = path_ + ".mesh";
  const auto& meshes = context_.message.meshes();
  if (!source_.given(path)) {
    if (meshes.size() > 1) return source_.missing(path, "the file has several meshes: name one");
    good_ = good_ && !context_.meshes.empty();
    if (!context_.meshes.empty()) mesh_ = &context_.collection.meshes.front();
    return;
  }
  const auto found = context_.meshes.find(message_.mesh());
  if (found != context_.meshes.end()) {
    result_.tensor.mesh = found->second;
    mesh_ = &context_.collection.meshes[static_cast<size_t>(found->second)];
    return;
  }
  good_ = false;
  std::vector<std::string> names;
  for (const proto::MeshDescription& mesh : meshes) names.push_back(mesh.name());
  if (std::find(names.begin(), names.end(), message_.mesh()) == names.end())
    source_.error_unknown(path, "mesh", message_.mesh(), names);
}

// Whether the mesh has all of them; each that it lacks is reported.
bool TemplateBuilder::known_axes(const std::string& path, const std::string& axes) {
  if (mesh_ == nullptr) return false;
  const std::vector<std::string> known = axis_names(*mesh_);
  bool all = true;
  for (const std::string& axis : tensor::axes_of(axes)) {
    if (std::find(known.begin(), known.end(), axis) != known.end()) continue;
    source_.error_unknown(path, "axis", axis, known);
    all = false;
  }
  return all;
}

void TemplateBuilder::build_own_cuts() {
  result_.cuts_path = path_ + ".cuts";
  for (int i = 0; i < message_.cuts_size(); ++i) {
    const std::string path = fmt::format("{}[{}]", result_.cuts_path, i);
    const std::optional<tensor::Cut> cut = build_cut(message_.cuts(i), path, source_);
    good_ = good_ && cut.has_value();
    if (!cut) continue;
    good_ = good_ & known_axes(path + ".axis", cut->axis);
    result_.tensor.layout.cuts.push_back(*cut);
  }
}

void TemplateBuilder::build_layout() {
  const std::string path = path_ + ".layout";
  result_.named = source_.given(path);
  if (!result_.named) return build_own_cuts();
  if (message_.cuts_size() > 0) {
    source_.error(path, "\"layout\" and \"cuts\" exclude each other", "",
                  {{path_ + ".cuts", "the tensor has cuts of its own"}});
  }
  const auto found = context_.layouts.find(message_.layout());
  if (found == context_.layouts.end()) {
    std::vector<std::string> names;
    for (const auto& [name, layout] : context_.layouts) names.push_back(name);
    return source_.error_unknown(path, "layout", message_.layout(), names);
  }
  result_.cuts_path = found->second.path;
  result_.tensor.layout = found->second.layout;
  good_ = good_ && found->second.good;
  for (const tensor::Cut& cut : result_.tensor.layout.cuts) good_ = good_ & known_axes(path, cut.axis);
}

// Whether an axis has a pin already; reports it.
bool TemplateBuilder::pinned_before(const std::string& path, const std::string& axes) {
  for (const std::string& axis : tensor::axes_of(axes)) {
    if (pinned_.insert(axis).second) continue;
    source_.error(path, fmt::format("axis \"{}\" is pinned twice", axis), "",
                  {{path_, fmt::format("by tensor \"{}\"", message_.name())}});
    return true;
  }
  return false;
}

void TemplateBuilder::build_pin(const proto::PinDescription& pin, const std::string& path) {
  if (pin.axis().empty()) return source_.missing(path + ".axis", "write it like pins { axis: \"pp\" at: 0 }");
  if (!known_axes(path + ".axis", pin.axis()) || pinned_before(path + ".axis", pin.axis())) return;
  if (pin.at_size() == 0) return source_.missing(path + ".at", "a tensor that lives nowhere is left out");
  const int size = mesh_->axis_size(pin.axis());
  std::set<int> coordinates;
  for (int i = 0; i < pin.at_size(); ++i) {
    const std::string at = fmt::format("{}.at[{}]", path, i);
    if (pin.at(i) < 0 || pin.at(i) >= size) {
      source_.error(at, fmt::format("axis {} has the coordinates 0 to {}, found {}", pin.axis(), size - 1, pin.at(i)));
    } else if (!coordinates.insert(pin.at(i)).second) {
      source_.error(at, fmt::format("coordinate {} is given twice", pin.at(i)));
    }
  }
  result_.tensor.pins.push_back({pin.axis(), std::vector<int>(coordinates.begin(), coordinates.end())});
}

void TemplateBuilder::build_pins() {
  for (int i = 0; i < message_.pins_size(); ++i) build_pin(message_.pins(i), fmt::format("{}.pins[{}]", path_, i));
}

// The length of each run of a spread; empty when there is a problem.
std::vector<int> runs_of(const Frame& frame, int64_t axis_size, proto::Source& source) {
  const proto::Spread& spread = frame.repeat->spread();
  const std::string path = frame.path + ".spread";
  const int count = frame.repeat->count();
  if (!source.given(path + ".counts")) {
    const int64_t turns = source.given(path + ".turns") ? spread.turns() : 1;
    if (!source.at_least(path + ".turns", turns, 1)) return {};
    // Runs without any repetition need no entry.
    const int64_t runs = axis_size * turns;
    std::vector<int> balanced(static_cast<size_t>(std::min<int64_t>(runs, count)), static_cast<int>(count / runs));
    for (int64_t i = 0; i < count % runs; ++i) ++balanced[static_cast<size_t>(i)];
    return balanced;
  }
  if (source.given(path + ".turns"))
    source.error(path + ".turns", "\"counts\" says how many turns there are", "leave \"turns\" out");
  int64_t sum = 0;
  for (int i = 0; i < spread.counts_size(); ++i) {
    if (!source.at_least(fmt::format("{}.counts[{}]", path, i), spread.counts(i), 0)) return {};
    sum += spread.counts(i);
  }
  if (spread.counts_size() % axis_size != 0) {
    source.error(path + ".counts", fmt::format("{} runs do not go around axis {} of size {}", spread.counts_size(),
                                               spread.axis(), axis_size));
  } else if (sum != count) {
    source.error(path + ".counts", fmt::format("the counts sum to {}, the repeat counts to {}", sum, count), "",
                 {{frame.path + ".count", "here"}});
  } else {
    return {spread.counts().begin(), spread.counts().end()};
  }
  return {};
}

void TemplateBuilder::build_spread(const Frame& frame) {
  std::vector<int>& coordinates = result_.spread.emplace_back();
  const std::string path = frame.path + ".spread";
  if (!source_.given(path)) return;
  const std::string& axis = frame.repeat->spread().axis();
  if (axis.empty()) return source_.missing(path + ".axis", "write it like spread { axis: \"pp\" }");
  if (!known_axes(path + ".axis", axis) || pinned_before(path + ".axis", axis)) return;
  const int size = mesh_->axis_size(axis);
  const std::vector<int> runs = runs_of(frame, size, source_);
  for (size_t run = 0; run < runs.size(); ++run)
    coordinates.insert(coordinates.end(), static_cast<size_t>(runs[run]), static_cast<int>(run) % size);
  good_ = good_ && !coordinates.empty();
}

// A padded block is at most one multiple longer than its part.
void TemplateBuilder::check_buffer() {
  const LogicalTensor& tensor = result_.tensor;
  double elements = 1;
  for (int dim = 0; dim < tensor.shape.rank(); ++dim) {
    auto extent = static_cast<double>(tensor.shape[dim]);
    for (const tensor::Cut& cut : tensor.layout.cuts) {
      if (cut.dim == dim && cut.rule == tensor::SplitRule::kPadded) extent += static_cast<double>(cut.multiple);
    }
    elements *= std::max(extent, 1.0);
  }
  if (elements > static_cast<double>(kMaxElements))
    source_.error(path_, fmt::format("with its padding a part has more than {} elements", kMaxElements));
}

std::optional<Template> TemplateBuilder::build() {
  const int before = source_.errors();
  build_name();
  build_type();
  build_shape();
  build_mesh();
  build_layout();
  build_pins();
  for (const Frame& frame : frames_) build_spread(frame);
  check_buffer();
  if (!good_ || source_.errors() != before || source_.broken(path_) || source_.broken_inside(path_)) return {};
  return std::move(result_);
}

}  // namespace

std::optional<Template> build_template(Context& context, const proto::TensorDescription& message,
                                       const std::string& path, const Frames& frames) {
  return TemplateBuilder(context, message, path, frames).build();
}

LogicalTensor filled(const Template& from, const Frames& frames) {
  LogicalTensor tensor = from.tensor;
  for (size_t i = 0; i < frames.size(); ++i) {
    const Frame& frame = frames[i];
    const std::string variable = "{" + frame.repeat->variable() + "}";
    for (size_t at = tensor.name.find(variable); at != std::string::npos; at = tensor.name.find(variable))
      tensor.name.replace(at, variable.size(), std::to_string(frame.number));
    if (from.spread[i].empty()) continue;
    tensor.pins.push_back({frame.repeat->spread().axis(), {from.spread[i][static_cast<size_t>(frame.number)]}});
  }
  return tensor;
}

bool share_an_axis(const std::string& a, const std::string& b) {
  const std::vector<std::string> others = tensor::axes_of(b);
  const std::vector<std::string> axes = tensor::axes_of(a);
  return std::any_of(axes.begin(), axes.end(), [&](const std::string& axis) {
    return std::find(others.begin(), others.end(), axis) != others.end();
  });
}

}  // namespace scalai::collection::internal
