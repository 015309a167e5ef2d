#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "ptc/base/status.h"
#include "ptc/proto/collection.pb.h"
#include "ptc/state/collection/internal/collection_parts.h"
#include "ptc/state/collection/internal/tensor_template.h"

namespace scalai::collection::internal {
namespace {

bool is_variable(const std::string& text) {
  const auto word = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  };
  return std::all_of(text.begin(), text.end(), word);
}

std::string slab(const LogicalTensor& tensor, int dim, int64_t lo, int64_t hi) {
  tensor::Box box = tensor::Box::whole(tensor.shape);
  box.lo[static_cast<size_t>(dim)] = lo;
  box.hi[static_cast<size_t>(dim)] = hi;
  return box.str();
}

// The part of the tensor that explicit bounds leave out or give away twice; "" when something else is wrong with them.
std::string fault_of_bounds(const LogicalTensor& tensor, const tensor::Cut& cut) {
  const auto cuts_alike = [&](const tensor::Cut& other) { return other.dim == cut.dim; };
  const auto& cuts = tensor.layout.cuts;
  if (cut.dim < 0 || cut.dim >= tensor.shape.rank() || std::count_if(cuts.begin(), cuts.end(), cuts_alike) > 1)
    return "";
  const int64_t extent = tensor.shape[cut.dim];
  const std::vector<int64_t>& bounds = cut.bounds;
  if (bounds.empty() || std::any_of(bounds.begin(), bounds.end(), [&](int64_t at) { return at < 0 || at > extent; }))
    return "";
  const auto falls = std::is_sorted_until(bounds.begin(), bounds.end());
  if (falls != bounds.end()) return fmt::format("two parts hold {}", slab(tensor, cut.dim, *falls, *std::prev(falls)));
  if (bounds.front() > 0) return fmt::format("no part holds {}", slab(tensor, cut.dim, 0, bounds.front()));
  if (bounds.back() < extent) return fmt::format("no part holds {}", slab(tensor, cut.dim, bounds.back(), extent));
  return "";
}

std::string hint_of(const LogicalTensor& tensor, const tensor::Cut& cut) {
  if (cut.rule == tensor::SplitRule::kEven) return "an even cut leaves no rest; BALANCED, CEIL and PADDED may";
  return cut.rule == tensor::SplitRule::kExplicit ? fault_of_bounds(tensor, cut) : "";
}

class TensorWriter {
 public:
  explicit TensorWriter(Context& context) : context_(context), source_(context.source) {}

  void write_all() {
    const proto::CollectionFile& file = context_.message;
    for (int i = 0; i < file.tensors_size(); ++i) write(file.tensors(i), fmt::format("tensors[{}]", i));
    for (int i = 0; i < file.repeats_size(); ++i) repeat(file.repeats(i), fmt::format("repeats[{}]", i));
    if (file.tensors_size() == 0 && file.repeats_size() == 0) source_.missing("tensors");
  }

 private:
  bool step(const std::string& path);
  void repeat(const proto::TensorRepeat& message, const std::string& path);
  bool check_repeat(const proto::TensorRepeat& message, const std::string& path);
  void write(const proto::TensorDescription& message, const std::string& path);
  void check_layout(const Template& from, const LogicalTensor& tensor, const std::string& path);
  void check_cover(const LogicalTensor& tensor, const std::string& path);
  // The first problem of this kind at the path: a repeat has the same one many times.
  bool first_time(const std::string& path) { return reported_.insert(path).second; }

  Context& context_;
  proto::Source& source_;
  Frames frames_;
  int64_t repetitions_ = 1;  // of what stands inside the open repeats
  int64_t steps_ = 0;
  std::map<std::string, std::optional<Template>> templates_;  // by path
  std::map<std::string, bool> repeats_ok_;                    // by path
  std::map<std::string, std::string> places_;                 // of tensor names
  std::set<std::string> covered_;                             // layouts that are known to leave no gap
  std::set<std::string> reported_;
};

// Whether to go on; a few lines of a file can ask for any number of tensors.
bool TensorWriter::step(const std::string& path) {
  if (++steps_ <= kMaxTensors) return true;
  if (steps_ == kMaxTensors + 1) source_.error(path, fmt::format("the file has more than {} tensors", kMaxTensors));
  return false;
}

bool TensorWriter::check_repeat(const proto::TensorRepeat& message, const std::string& path) {
  const int before = source_.errors();
  const std::string at = path + ".variable";
  if (source_.is_name(at, message.variable()) && !is_variable(message.variable()))
    source_.error(at, "a variable is made of letters, digits and \"_\"", "write it like variable: \"layer\"");
  for (const Frame& frame : frames_) {
    if (frame.repeat->variable() == message.variable())
      source_.error(at, fmt::format("the repeat around this one counts \"{}\" too", message.variable()));
  }
  if (source_.at_least(path + ".count", message.count(), 1) && repetitions_ * message.count() > kMaxTensors)
    source_.error(path + ".count", fmt::format("the file has more than {} tensors", kMaxTensors));
  if (message.tensors_size() == 0 && message.repeats_size() == 0) source_.missing(path + ".tensors");
  return source_.errors() == before && !source_.broken(path);
}

void TensorWriter::repeat(const proto::TensorRepeat& message, const std::string& path) {
  if (!step(path)) return;
  const auto [known, fresh] = repeats_ok_.try_emplace(path, false);
  if (fresh) known->second = check_repeat(message, path);
  if (!known->second) return;
  repetitions_ *= message.count();
  for (int number = 0; number < message.count(); ++number) {
    frames_.push_back({&message, path, number});
    for (int i = 0; i < message.tensors_size(); ++i) write(message.tensors(i), fmt::format("{}.tensors[{}]", path, i));
    for (int i = 0; i < message.repeats_size(); ++i) repeat(message.repeats(i), fmt::format("{}.repeats[{}]", path, i));
    frames_.pop_back();
  }
  repetitions_ /= message.count();
}

void TensorWriter::write(const proto::TensorDescription& message, const std::string& path) {
  if (!step(path)) return;
  const auto [entry, fresh] = templates_.try_emplace(path);
  if (fresh) entry->second = build_template(context_, message, path, frames_);
  if (!entry->second) return;
  LogicalTensor tensor = filled(*entry->second, frames_);
  const auto [first, new_name] = places_.emplace(tensor.name, path);
  if (!new_name) {
    if (!first_time(path)) return;
    return source_.error(path + ".name", fmt::format("two tensors are named \"{}\"", tensor.name),
                         "names are global: number layers over the whole model, not within a stage",
                         {{first->second + ".name", "the other is here"}});
  }
  context_.collection.tensors.push_back(tensor);
  check_layout(*entry->second, tensor, path);
}

void TensorWriter::check_layout(const Template& from, const LogicalTensor& tensor, const std::string& path) {
  const Mesh& mesh = context_.collection.meshes[static_cast<size_t>(tensor.mesh)];
  const auto size_of = [&](const std::string& axis) { return mesh.axis_size(axis); };
  const auto problem = tensor::find_problem(tensor.layout, tensor.shape, size_of);
  if (!problem) return check_cover(tensor, path);
  if (!first_time(path)) return;
  const tensor::Cut& cut = tensor.layout.cuts[problem->cut];
  const std::string message =
      fmt::format("tensor \"{}\" {}: cut over {}: {}", tensor.name, tensor.shape.str(), cut.axis, problem->message);
  const std::string hint = hint_of(tensor, cut);
  const std::string cut_path = fmt::format("{}[{}]", from.cuts_path, problem->cut);
  if (from.named) return source_.error(path + ".layout", message, hint, {{cut_path, "the cut is here"}});
  source_.error(cut_path, message, hint);
}

void TensorWriter::check_cover(const LogicalTensor& tensor, const std::string& path) {
  const Mesh& mesh = context_.collection.meshes[static_cast<size_t>(tensor.mesh)];
  if (mesh.size() != context_.collection.ranks()) return;
  std::string key = fmt::format("{} {}", tensor.mesh, tensor.shape.str());
  for (const tensor::Cut& cut : tensor.layout.cuts) key += " " + cut_text(cut);
  for (const Pin& pin : tensor.pins) {
    // A pin on an axis that no cut names keeps whole replicas.
    for (const tensor::Cut& cut : tensor.layout.cuts) {
      if (share_an_axis(pin.axis, cut.axis)) key += fmt::format(" {} {}", pin.axis, fmt::join(pin.coordinates, ","));
    }
  }
  if (!covered_.insert(key).second) return;
  const TensorId id(static_cast<int64_t>(context_.collection.tensors.size()) - 1);
  const absl::Status status = validate(context_.collection, id);
  if (status.ok() || !first_time(path)) return;
  source_.error(path, message_of(status), "an axis that cuts a tensor cannot pin it");
}

}  // namespace

void build_tensors(Context& context) { TensorWriter(context).write_all(); }

}  // namespace scalai::collection::internal
