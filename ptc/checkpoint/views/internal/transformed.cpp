#include "ptc/checkpoint/views/internal/transformed.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <unordered_map>

#include "ptc/base/file.h"
#include "ptc/base/hash.h"
#include "ptc/base/json.h"
#include "ptc/base/status.h"
#include "ptc/base/units.h"
#include "ptc/checkpoint/naming/arrange.h"
#include "ptc/checkpoint/views/internal/converted.h"
#include "ptc/tensor/convert.h"
#include "ptc/transform/transform.h"

namespace scalai::checkpoint::internal {
namespace {

using transform::Other;
using transform::Tensor;

// Tensors one after the other, each dense and row-major, made while they are read.
class TransformedSource final : public ByteSource {
 public:
  TransformedSource(std::string name, std::string version) : name_(std::move(name)), version_(std::move(version)) {}

  int64_t add(Tensor tensor) {
    const int64_t begin = bytes_;
    bytes_ += tensor.shape.elements() * tensor::size_of(tensor.dtype);
    tensors_.push_back({begin, std::move(tensor)});
    return begin;
  }

  const std::string& name() const override { return name_; }
  int64_t size() const override { return bytes_; }
  std::string version() const override { return version_; }
  absl::Status read(int64_t offset, std::span<std::byte> dst) const override {
    SCALAI_CHECK(offset >= 0 && std::ssize(dst) <= bytes_ - offset, name_);
    auto at = std::upper_bound(tensors_.begin(), tensors_.end(), offset,
                               [](int64_t place, const Placed& one) { return place < one.begin; });
    for (--at; !dst.empty(); ++at) {
      const Tensor& tensor = at->tensor;
      const int64_t begin = offset - at->begin, size = tensor.shape.elements() * tensor::size_of(tensor.dtype);
      const auto count = static_cast<size_t>(std::min(std::ssize(dst), size - begin));
      const absl::Status status = read_tensor(tensor, begin, dst.first(count));
      if (!status.ok()) return absl::Status(status.code(), fmt::format("{}: {}", name_, message_of(status)));
      offset += static_cast<int64_t>(count);
      dst = dst.subspan(count);
    }
    return absl::OkStatus();
  }

 private:
  struct Placed {
    int64_t begin = 0;
    Tensor tensor;
  };

  // Bytes from `begin` of the tensor, which may be in the middle of elements.
  static absl::Status read_tensor(const Tensor& tensor, int64_t begin, std::span<std::byte> dst) {
    const int64_t size = tensor::size_of(tensor.dtype), skip = begin % size;
    if (dst.empty()) return absl::OkStatus();
    if (skip != 0 || std::ssize(dst) % size != 0) {
      // The first or the last element in part, the others as they are.
      const int64_t few = std::min<int64_t>(skip != 0 ? size - skip : std::ssize(dst) % size, std::ssize(dst));
      const bool first = skip != 0;
      const int64_t at = first ? begin : begin + std::ssize(dst) - few;
      std::vector<std::byte> element(static_cast<size_t>(size));
      SCALAI_RETURN_IF_ERROR(read_elements(tensor, at / size, element));
      std::memcpy(first ? dst.data() : dst.data() + dst.size() - few, element.data() + at % size,
                  static_cast<size_t>(few));
      const auto rest = dst.size() - static_cast<size_t>(few);
      return first ? read_tensor(tensor, begin + few, dst.last(rest)) : read_tensor(tensor, begin, dst.first(rest));
    }
    return read_elements(tensor, begin / size, dst);
  }
  static absl::Status read_elements(const Tensor& tensor, int64_t first, std::span<std::byte> dst) {
    const int64_t size = tensor::size_of(tensor.dtype);
    for (const tensor::Box& box :
         tensor::decompose_flat(tensor::Box::whole(tensor.shape), first, first + std::ssize(dst) / size)) {
      const auto bytes = static_cast<size_t>(box.volume() * size);
      SCALAI_RETURN_IF_ERROR(tensor.read(box, dst.first(bytes)));
      dst = dst.subspan(bytes);
    }
    return absl::OkStatus();
  }

  const std::string name_, version_;
  std::vector<Placed> tensors_;
  int64_t bytes_ = 0;
};

std::vector<Tensor> tensors_of(const std::shared_ptr<const Checkpoint>& checkpoint) {
  std::vector<Tensor> tensors;
  for (size_t i = 0; i < checkpoint->tensors().size(); ++i) {
    const LogicalState& state = checkpoint->tensors()[i];
    tensors.push_back({.name = state.name,
                       .dtype = state.dtype,
                       .shape = state.shape,
                       .usual = state.kind == model::StateKind::kParam,
                       .read = [checkpoint, i](const tensor::Box& box, std::span<std::byte> dst) {
                         return checkpoint->read(i, box, dst);
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
  explicit Others(const OpenOptions& options) : options_(options) {}

  absl::StatusOr<Other> open(const std::string& path) {
    constexpr const char* kAdapter = "adapter_model.safetensors";
    const bool adapter = std::filesystem::is_regular_file(path + "/" + kAdapter);
    OpenOptions options = options_;
    options.transforms.clear();
    options.opener = {};
    if (adapter) options = {.names = "logical"};
    absl::StatusOr<std::shared_ptr<const Checkpoint>> opened =
        Checkpoint::open(adapter ? path + "/" + kAdapter : path, options);
    SCALAI_RETURN_IF_ERROR(opened.status());
    bytes_ += (*opened)->memory_bytes();
    said_.add((*opened)->sampled_content());
    Other other{.tensors = tensors_of(*opened), .alpha = {}, .identity = (*opened)->identity()};
    const std::string config = path + "/adapter_config.json";
    if (!std::filesystem::exists(config)) return other;
    SCALAI_ASSIGN_OR_RETURN(const std::string text, read_file(config));
    if (const absl::Status status = read_adapter_config(text, other); !status.ok()) return error_at(config, status);
    said_.add(text);
    return other;
  }
  int64_t bytes() const { return bytes_; }
  // Of all that was opened, the same on all machines.
  std::string digest() const { return said_.hex(); }

 private:
  const OpenOptions& options_;
  int64_t bytes_ = 0;
  Hasher said_;
};

std::string digest_of(const std::vector<transform::Step>& steps, const Others& others) {
  Hasher hasher;
  for (const transform::Step& step : steps) {
    hasher.add(step.text);
    if (const auto* function = std::get_if<transform::Function>(&step.what)) hasher.add(function->name);
    for (const std::string& name : step.tensors) hasher.add(name);
  }
  return hasher.add(others.digest()).hex();
}

// Parameters that got other values, by more than a cast, while their masters stay.
std::set<std::string> stale(const std::vector<transform::Step>& steps, const std::vector<Tensor>& tensors) {
  std::set<std::string> made, found;
  if (std::all_of(steps.begin(), steps.end(), [](const auto& step) { return step.text.find("cast(") < 1; })) return {};
  for (const Tensor& tensor : tensors)
    if (!tensor.made.empty()) made.insert(tensor.name);
  for (const Tensor& tensor : tensors) {
    const size_t dot = tensor.name.rfind(".master");
    if (tensor.made.empty() && dot != std::string::npos && made.contains(tensor.name.substr(0, dot)))
      found.insert(tensor.name);
  }
  return found;
}

// Takes the pieces of states that changed out of the files they lie in.
void take_out(const std::set<std::string>& changed, Opened& opened) {
  for (OpenedFile& file : opened.files) {
    for (OpenedTensor& tensor : file.tensors)
      std::erase_if(tensor.pieces, [&](const PlacedPiece& piece) { return changed.contains(piece.logical); });
  }
}

void say_dtype(const std::vector<LogicalState>& before, Opened& opened) {
  std::set<tensor::DType> were, are;
  const auto floating = [](const LogicalState& state) {
    return state.kind == model::StateKind::kParam && tensor::convertible(state.dtype, tensor::DType::kF32);
  };
  for (const LogicalState& state : before)
    if (floating(state)) were.insert(state.dtype);
  for (const LogicalState& state : opened.states)
    if (floating(state)) are.insert(state.dtype);
  if (were != are && are.size() == 1) say_dtype_in_config(*are.begin(), opened.info.config);
}

}  // namespace

absl::StatusOr<TransformMemory> transform_states(std::shared_ptr<const Checkpoint> base, const OpenOptions& options,
                                                 Opened& opened) {
  std::vector<Tensor> tensors = tensors_of(base);
  const bool by_matrix = std::any_of(options.transforms.begin(), options.transforms.end(), [](const auto& step) {
    return std::holds_alternative<transform::Lora>(step.what);
  });
  if (by_matrix) SCALAI_RETURN_IF_ERROR(add_parts(*base, tensors));
  Others others(options);
  SCALAI_ASSIGN_OR_RETURN(tensors, transform::transform(options.transforms, std::move(tensors),
                                                        [&](const std::string& path) { return others.open(path); }));
  opened.info.transforms = digest_of(options.transforms, others);
  opened.info.stale_masters = stale(options.transforms, tensors);
  const std::vector<LogicalState> before = std::move(opened.states);
  opened.states.clear();
  TransformMemory memory{.bytes = base->memory_bytes() + others.bytes()};
  std::set<std::string> changed;
  Hasher version;
  version.add(base->identity());
  for (const Tensor& tensor : tensors) version.add(tensor.name).add(tensor.made);
  const auto source = std::make_shared<TransformedSource>(opened.info.path + " (transformed)", version.hex());
  OpenedFile made{.name = "transformed", .source = source, .checksum = "", .tensors = {}, .derived = true};
  model::StateKind kind = model::StateKind::kParam;  // of a new tensor: that of the one before it, which it belongs to
  for (Tensor& tensor : tensors) {
    if (const auto found = base->find(tensor.name); found) kind = base->tensors()[*found].kind;
    opened.states.push_back({tensor.name, tensor.dtype, tensor.shape, kind});
    if (tensor.made.empty()) continue;
    changed.insert(tensor.name);
    memory.thread_bytes = std::max(memory.thread_bytes, tensor.scratch_bytes);
    const tensor::Box whole = tensor::Box::whole(tensor.shape);
    OpenedTensor stored{
        .name = tensor.name, .dtype = tensor.dtype, .elements = tensor.shape.elements(), .checksum = ""};
    stored.pieces = {{tensor.name, {.box = whole, .offset = 0, .strides = tensor.shape.strides()}}};
    stored.offset = source->add(std::move(tensor));
    made.tensors.push_back(std::move(stored));
  }
  take_out(changed, opened);
  opened.info.notes.push_back(fmt::format("transformed: {}", counted(std::ssize(changed), "tensor")));
  opened.files.push_back(std::move(made));
  say_dtype(before, opened);
  return memory;
}

}  // namespace scalai::checkpoint::internal
