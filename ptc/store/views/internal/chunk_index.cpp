#include "ptc/store/views/internal/chunk_index.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <functional>
#include <map>
#include <numeric>
#include <set>

#include "ptc/base/status.h"
#include "ptc/store/views/internal/file_image.h"
#include "ptc/store/views/internal/optimizer_keys.h"

namespace scalai::store::internal {
namespace {

using Kind = model::StateKind;

Kind kind_of(const Checkpoint& checkpoint, const ArrangedTensor& tensor) {
  if (tensor.pieces.empty()) return Kind::kParam;  // a constant
  return checkpoint.tensors()[*checkpoint.find(tensor.pieces.front().logical)].kind;
}

// A stored name without what stands for its kind: "w.exp_avg" ─► "w".
std::string base_name(const std::string& name, Kind kind) {
  const std::string suffix = "." + std::string(model::name_of(kind));
  return kind != Kind::kParam && name.ends_with(suffix) ? name.substr(0, name.size() - suffix.size()) : name;
}

// "decoder.layers.3.mlp.experts.local_experts.1.linear_fc1.weight": the names of layers and experts taken out.
struct SplitName {
  std::string before, behind;  // "decoder.layers.", "mlp.experts.experts.linear_fc1.weight"
  int64_t layer = -1;
  int64_t expert = -1;
};

// The number at `at` with a dot behind it; moves behind both.
int64_t take_number(const std::string& name, size_t& at) {
  int64_t number = -1;
  const auto [end, error] = std::from_chars(name.data() + at, name.data() + name.size(), number);
  const auto length = static_cast<size_t>(end - name.data());
  if (error != std::errc() || length >= name.size() || name[length] != '.') return -1;
  at = length + 1;
  return number;
}

SplitName split(const std::string& name) {
  constexpr std::string_view kLayers = "decoder.layers.", kExperts = ".experts.local_experts.";
  SplitName result{.before = "", .behind = name};
  size_t at = kLayers.size();
  if (name.starts_with(kLayers)) result.layer = take_number(name, at);
  if (result.layer < 0) return result;
  result.before = kLayers;
  result.behind = name.substr(at);
  const size_t experts = result.behind.find(kExperts);
  if (experts == std::string::npos) return result;
  size_t end = experts + kExperts.size();
  result.expert = take_number(result.behind, end);
  result.behind = result.behind.substr(0, experts) + ".experts.experts." + result.behind.substr(end);
  return result;
}

// A key of Megatron-Core, and the place of a tensor along the dimensions in front of its own.
struct StackedName {
  std::string key;
  std::vector<int64_t> at, of;
};

class MegatronNames {
 public:
  MegatronNames(const std::vector<ArrangedFile>& files, const Checkpoint& checkpoint) {
    // By name without layer and expert: what it looks like, and how often.
    std::map<std::string, std::pair<const ArrangedTensor*, std::set<int64_t>>> layers;
    for (const ArrangedFile& file : files) {
      for (const ArrangedTensor& tensor : file.tensors) {
        const SplitName name = split(base_name(tensor.name, kind_of(checkpoint, tensor)));
        if (name.layer < 0) continue;
        layers_ = std::max(layers_, name.layer + 1);
        experts_ = std::max(experts_, name.expert + 1);
        auto& [first, in] = layers[split(tensor.name).behind];
        if (first == nullptr) first = &tensor;
        in.insert(name.layer);
        const bool alike = first->dtype == tensor.dtype && volume(*first) == volume(tensor);
        stacked_ = stacked_ && alike;
      }
    }
    for (const auto& [name, seen] : layers) stacked_ = stacked_ && std::ssize(seen.second) == layers_;
  }

  StackedName of(const std::string& name) const {
    const SplitName parts = split(name);
    StackedName result;
    if (parts.layer < 0) return {name, {}, {}};
    result.key = parts.before + (stacked_ ? "" : fmt::format("{}.", parts.layer)) + parts.behind;
    if (stacked_) push(result, parts.layer, layers_);
    if (parts.expert >= 0) push(result, parts.expert, experts_);
    return result;
  }

 private:
  static int64_t volume(const ArrangedTensor& tensor) {
    return std::accumulate(tensor.shape.begin(), tensor.shape.end(), int64_t{1}, std::multiplies<>());
  }
  static void push(StackedName& name, int64_t at, int64_t of) {
    name.at.push_back(at);
    name.of.push_back(of);
  }

  int64_t layers_ = 0, experts_ = 0;
  bool stacked_ = true;  // all layers have the same tensors
};

// The names under which Megatron-Core's optimizers ask for a parameter's state: the distributed one and the others.
std::vector<std::string> optimizer_prefixes(Kind kind) {
  if (kind == Kind::kMaster) return {"optimizer.state.param.", "optimizer.state.fp32_param."};
  const std::string_view key = optimizer_key(kind);
  return {key.empty() ? "" : fmt::format("optimizer.state.{}.", key)};
}

class IndexBuilder {
 public:
  IndexBuilder(const Checkpoint& checkpoint, std::string folder)
      : checkpoint_(checkpoint), folder_(std::move(folder)) {}

  void add_file(const ArrangedFile& file, const MegatronNames* megatron) {
    const ChunkFrame frame = chunk_frame_of(file);
    file_ = file.name.substr(folder_.size());
    for (size_t i = 0; i < file.tensors.size(); ++i) {
      if (megatron != nullptr)
        add_megatron(file.tensors[i], frame.places[i], *megatron);
      else
        add_torch(file.tensors[i], frame.places[i]);
    }
    if (frame.step) {
      for (const std::string& name : steps_)
        add({"optim", "state", name, "step"}, tensor::DType::kF32, {}, {}, {}, *frame.step);
    }
    for (const std::string& name : extra_states_) objects_.push_back({name, file_, 0, 0});
    if (frame.none) {
      for (DcpObject& object : objects_) object = {object.name, file_, frame.none->begin, frame.none->bytes};
    }
    extra_states_.clear();
  }

  std::string text(const std::vector<DcpObject>& others) const {
    std::vector<DcpTensor> tensors;
    for (const auto& [key, tensor] : tensors_) tensors.push_back(tensor);
    std::vector<DcpObject> objects = objects_;
    objects.insert(objects.end(), others.begin(), others.end());
    return dcp_index_text(tensors, objects);
  }

 private:
  void add(const std::vector<std::string>& path, tensor::DType dtype, const std::vector<int64_t>& shape,
           std::vector<int64_t> offsets, std::vector<int64_t> sizes, const ChunkFrame::Place& place) {
    DcpTensor& tensor = tensors_[fmt::format("{}", fmt::join(path, "."))];
    if (tensor.path.empty()) tensor = {.path = path, .dtype = dtype, .shape = shape, .chunks = {}};
    tensor.chunks.push_back({.offsets = std::move(offsets),
                             .sizes = std::move(sizes),
                             .file = file_,
                             .begin = place.begin,
                             .bytes = place.bytes});
  }

  void add_torch(const ArrangedTensor& tensor, const ChunkFrame::Place& place) {
    const Kind kind = kind_of(checkpoint_, tensor);
    const std::string name = base_name(tensor.name, kind);
    const std::string_view key = optimizer_key(kind);
    std::vector<std::string> path = {"model", name};
    if (!key.empty()) path = {"optim", "state", name, std::string(key)};
    if (!key.empty()) steps_.insert(name);
    add(path, tensor.dtype, tensor.shape, std::vector<int64_t>(tensor.shape.size(), 0), tensor.shape, place);
  }

  // The tensor has its dimensions in front already (as_chunks).
  void add_megatron(const ArrangedTensor& tensor, const ChunkFrame::Place& place, const MegatronNames& megatron) {
    const Kind kind = kind_of(checkpoint_, tensor);
    std::vector<std::string> names = {base_name(tensor.name, kind)};
    const bool expert = split(names.front()).expert >= 0;
    for (const std::string& also : tensor.also) {
      if (!expert) names.push_back(base_name(also, kind));
    }
    for (const std::string& name : names) {
      const StackedName stacked = megatron.of(name);
      std::vector<int64_t> shape = tensor.shape, offsets(tensor.shape.size(), 0);
      std::copy(stacked.of.begin(), stacked.of.end(), shape.begin());
      std::copy(stacked.at.begin(), stacked.at.end(), offsets.begin());
      for (const std::string& prefix : optimizer_prefixes(kind))
        add({prefix + stacked.key}, tensor.dtype, shape, offsets, tensor.shape, place);
    }
    if (kind == Kind::kParam) add_extra_state(names.front(), megatron);
  }

  // What modules keep beside their tensors, which Megatron-Core asks for, too: nothing, here.
  void add_extra_state(const std::string& name, const MegatronNames& megatron) {
    constexpr std::string_view kWeight = ".weight";
    if (!name.ends_with(kWeight)) return;
    const std::string module = name.substr(0, name.size() - kWeight.size());
    const std::string_view last = std::string_view(module).substr(module.rfind('.') + 1);
    if (!last.starts_with("linear_") && !last.ends_with("layernorm")) return;
    add_object(megatron.of(module + "._extra_state"));
    constexpr std::string_view kOut = "self_attention.linear_proj";
    if (module.ends_with(kOut))
      add_object(
          megatron.of(module.substr(0, module.size() - kOut.size()) + "self_attention.core_attention._extra_state"));
  }

  void add_object(const StackedName& name) {
    extra_states_.push_back(
        name.at.empty() ? name.key + "/shard_0_1"
                        : fmt::format("{}/shard_{}_{}", name.key, fmt::join(name.at, "."), fmt::join(name.of, ".")));
  }

  const Checkpoint& checkpoint_;
  const std::string folder_;
  std::string file_;
  std::map<std::string, DcpTensor> tensors_;  // by key
  std::set<std::string> steps_;               // parameters with moments
  std::vector<std::string> extra_states_;
  std::vector<DcpObject> objects_;
};

}  // namespace

void as_chunks(std::vector<ArrangedFile>& files, const Checkpoint& checkpoint, ChunkKeys keys,
               const std::string& folder) {
  const MegatronNames megatron(files, checkpoint);
  for (size_t i = 0; i < files.size(); ++i) {
    ArrangedFile& file = files[i];
    file.name = fmt::format("{}__{}_0.distcp", folder, i);
    file.form = FileForm::kChunks;
    file.metadata.clear();
    if (keys == ChunkKeys::kTorch) continue;
    for (ArrangedTensor& tensor : file.tensors) {
      const StackedName name = megatron.of(base_name(tensor.name, kind_of(checkpoint, tensor)));
      tensor.shape.insert(tensor.shape.begin(), name.at.size(), 1);
    }
  }
  // Last, where what all parameters have in common is known.
  if (keys == ChunkKeys::kMegatron) files.back().metadata[kNoneKey] = "";
  const int64_t step = checkpoint.info().step;
  if (keys == ChunkKeys::kTorch && step >= 0) files.back().metadata[kStepKey] = fmt::format("{}", step);
}

std::string chunk_index(const std::vector<ArrangedFile>& files, const Checkpoint& checkpoint, ChunkKeys keys,
                        const std::string& folder, const std::vector<DcpObject>& objects) {
  const MegatronNames megatron(files, checkpoint);
  IndexBuilder builder(checkpoint, folder);
  for (const ArrangedFile& file : files) builder.add_file(file, keys == ChunkKeys::kMegatron ? &megatron : nullptr);
  return builder.text(objects);
}

}  // namespace scalai::store::internal
