#include "ptc/state/collection/megatron.h"

#include <fmt/format.h>

#include <map>
#include <numeric>

#include "ptc/base/status.h"
#include "ptc/state/collection/distributed_optimizer.h"

namespace scalai::collection {
namespace {

constexpr int kDenseMesh = 0;
constexpr int kExpertMesh = 1;
constexpr int64_t kVocabMultiple = 128;  // Megatron's make-vocab-size-divisible-by

std::vector<Mesh> meshes_of(const ParallelConfig& config) { return {dense_mesh(config), expert_mesh(config)}; }

// Model chunk (virtual stage) of every layer; chunk v lies on stage v mod pp.
std::vector<int> chunk_of_layers(const ParallelConfig& config, int layers) {
  const std::vector<int> counts = layers_per_stage(config, layers);
  std::vector<int> chunks;
  for (size_t v = 0; v < counts.size(); ++v)
    chunks.insert(chunks.end(), static_cast<size_t>(counts[v]), static_cast<int>(v));
  return chunks;
}

std::vector<int> homes_of(const model::Param& param, const std::vector<int>& chunk_of_layer, int pp) {
  if (param.layer == model::Param::kFirst) return {0};
  if (param.layer == model::Param::kLast) return {pp - 1};
  if (param.layer == model::Param::kBothEnds) return pp == 1 ? std::vector<int>{0} : std::vector<int>{0, pp - 1};
  return {chunk_of_layer[static_cast<size_t>(param.layer)] % pp};
}

tensor::Layout tp_layout(const model::Param& param) {
  const std::string axis = param.expert >= 0 ? "etp" : "tp";
  switch (param.rule) {
    case model::TpRule::kColumn: return {{{.axis = axis, .dim = 0}}};
    case model::TpRule::kRow: return {{{.axis = axis, .dim = 1}}};
    case model::TpRule::kVocab:
      return {{{.axis = axis, .dim = 0, .rule = tensor::SplitRule::kPadded, .multiple = kVocabMultiple}}};
    case model::TpRule::kReplicated: break;
  }
  return {};
}

bool sharded_by_zero(model::StateKind kind, int zero) {
  switch (kind) {
    case model::StateKind::kMaster:
    case model::StateKind::kExpAvg:
    case model::StateKind::kExpAvgSq:
    case model::StateKind::kMomentum: return zero >= 1;
    case model::StateKind::kParam:
    case model::StateKind::kPrevious: return zero >= 3;
    default: return false;
  }
}

int expert_rank(const model::Model& model, const ParallelConfig& config, const model::Param& param) {
  return param.expert / (model.experts / config.ep);
}

// Elements of a parameter on one tensor-parallel rank, padding included: the same on each.
int64_t local_elements(const model::Param& param, const ParallelConfig& config) {
  const tensor::AxisPosition first{.size = param.expert >= 0 ? config.etp : config.tp, .coordinate = 0};
  return tensor::pieces_of(tp_layout(param), param.shape, [&](const std::string&) { return first; }).elements;
}

// By parameter, the cut of its optimizer state over the ranks that share its buffer's buckets.
std::vector<tensor::Cut> bucket_cuts(const model::Model& model, const ParallelConfig& config,
                                     const std::vector<int>& chunk_of_layer, const BucketOptions& options) {
  using model::Param;
  std::map<std::pair<int, int>, std::vector<size_t>> buffers;  // by chunk and expert rank (-1 = dense)
  for (size_t i = 0; i < model.params.size(); ++i) {
    const Param& param = model.params[i];
    if (param.buffer) continue;
    const int chunk = param.layer >= 0              ? chunk_of_layer[static_cast<size_t>(param.layer)]
                      : param.layer == Param::kLast ? config.pp * config.vpp - 1
                                                    : 0;
    buffers[{chunk, param.expert >= 0 ? expert_rank(model, config, param) : -1}].push_back(i);
  }
  std::vector<tensor::Cut> cuts(model.params.size());
  for (const auto& [key, indices] : buffers) {
    const bool dense = key.second < 0;
    std::vector<BufferParam> params;
    for (const size_t i : indices) {
      // On two stages it has to be cut alike, so it shares a bucket with nobody.
      const bool two_homes = model.params[i].layer == Param::kBothEnds && config.pp > 1;
      params.push_back({local_elements(model.params[i], config), two_homes});
    }
    const std::vector<BucketPlace> places = place_in_buckets(params, zero_shards(config, !dense), options);
    for (size_t i = 0; i < indices.size(); ++i) cuts[indices[i]] = bucket_cut(zero_axes(config, !dense), places[i]);
  }
  return cuts;
}

void place_parameter(const model::Model& model, const ParallelConfig& config, const std::vector<int>& chunks,
                     const model::Param& param, LogicalTensor& tensor) {
  tensor.layout = tp_layout(param);
  tensor.pins = {{"pp", homes_of(param, chunks, config.pp)}};
  if (param.expert >= 0) {
    tensor.mesh = kExpertMesh;
    tensor.pins.push_back({"ep", {expert_rank(model, config, param)}});
  }
}

tensor::Cut zero_cut(const model::Param& param, const ParallelConfig& config) {
  return {
      .axis = zero_axes(config, param.expert >= 0), .dim = tensor::Cut::kFlat, .rule = tensor::SplitRule::kBalanced};
}

// The first parameter that tensor parallelism does not cut evenly, such as fused QKV rows inside a group.
std::string uneven_cut(const model::Model& model, const ParallelConfig& config) {
  for (const model::Param& param : model.params) {
    const int parts = param.expert >= 0 ? config.etp : config.tp;
    const auto problem = tensor::find_problem(tp_layout(param), param.shape, [&](const std::string&) { return parts; });
    if (problem) {
      return fmt::format("{}{} does not divide {} {} of {}: {}", param.expert >= 0 ? "etp" : "tp", parts, param.name,
                         param.shape.str(), model.name, problem->message);
    }
  }
  return "";
}

}  // namespace

int zero_shards(const ParallelConfig& config, bool expert) { return expert ? config.edp() : config.cp * config.dp; }

std::string zero_axes(const ParallelConfig& config, bool expert) {
  if (expert) return "edp";
  return config.cp > 1 ? "cp+dp" : "dp";
}

Mesh dense_mesh(const ParallelConfig& config) {
  const auto size_of = [&](const std::string& axis) {
    return axis == "tp" ? config.tp : axis == "cp" ? config.cp : axis == "dp" ? config.dp : config.pp;
  };
  std::vector<MeshAxis> axes;
  for (const std::string& axis : config.order) axes.push_back({axis, size_of(axis)});
  return Mesh(axes);
}

Mesh expert_mesh(const ParallelConfig& config) {
  std::vector<MeshAxis> axes = {{"etp", config.etp}, {"ep", config.ep}, {"edp", config.edp()}};
  axes.insert(config.order.front() == "pp" ? axes.begin() : axes.end(), {"pp", config.pp});
  return Mesh(axes);
}

absl::Status check_fit(const model::Model& model, const ParallelConfig& config) {
  std::string problems;
  const auto problem = [&](const std::string& text) { problems += (problems.empty() ? "" : "\n") + text; };
  const auto divides = [&](int parts, std::string_view axis, int64_t extent, std::string_view what) {
    if (extent % parts != 0)
      problem(fmt::format("{}{} does not divide the {} {} of {}", axis, parts, extent, what, model.name));
  };
  if (model.heads > 0) {
    divides(config.tp, "tp", model.heads, "attention heads");
    if (model.kv_heads < 1) {
      problem(fmt::format("{} has {} attention heads and no key-value heads", model.name, model.heads));
    } else if (config.tp <= model.kv_heads) {
      divides(config.tp, "tp", model.kv_heads, "key-value heads");
    } else if (config.tp % model.kv_heads != 0) {
      problem(
          fmt::format("tp{} is not a multiple of the {} key-value heads of {}", config.tp, model.kv_heads, model.name));
    }
    if (model.experts == 0) divides(config.tp, "tp", model.ffn, "feed-forward columns");
  }
  const int virtual_stages = config.pp * config.vpp;
  if (virtual_stages > most_virtual_stages(config, model.layers)) {
    problem(
        fmt::format("{} pipeline stages are more than the {} layers of {}", virtual_stages, model.layers, model.name));
  }
  const int sum = std::accumulate(config.stages.begin(), config.stages.end(), 0);
  if (!config.stages.empty() && sum != model.layers) {
    problem(fmt::format("stages sum to {} layers, {} has {}", sum, model.name, model.layers));
  }
  if (model.experts == 0 && config.ep > 1)
    problem(fmt::format("ep{} needs experts, {} has none", config.ep, model.name));
  if (model.experts > 0) {
    divides(config.ep, "ep", model.experts, "experts");
    divides(config.etp, "etp", model.ffn, "feed-forward columns");
    if (config.order.front() != "pp" && config.order.back() != "pp") {
      problem("a model with experts needs pp first or last in order=, so that a stage's ranks form an expert mesh");
    }
  }
  if (problems.empty()) problems = uneven_cut(model, config);
  return problems.empty() ? absl::OkStatus() : invalid(problems);
}

absl::StatusOr<Collection> megatron_collection(const model::Model& model, const model::Recipe& recipe,
                                               const ParallelConfig& config, std::vector<DeviceId> devices,
                                               const MegatronOptions& options) {
  SCALAI_RETURN_IF_ERROR(check_fit(model, config));
  if (static_cast<int>(devices.size()) != config.world()) {
    return invalid(fmt::format("{} needs {} devices, {} are given", canonical(config), config.world(), devices.size()));
  }
  if (options.distributed_optimizer_buckets && config.zero == 3)
    return invalid("the distributed optimizer's buckets go with zero1 and zero2, not with zero3");
  const std::vector<int> chunks = chunk_of_layers(config, model.layers);
  std::vector<tensor::Cut> buckets;  // empty = shares by tensor
  if (options.distributed_optimizer_buckets)
    buckets = bucket_cuts(model, config, chunks, {options.pad_to_64k, options.bucket_elements});
  Collection collection{.name = canonical(config), .meshes = meshes_of(config), .device_of_rank = std::move(devices)};
  for (const model::StateTensor& state : model::state_tensors(model, recipe)) {
    LogicalTensor tensor{
        .name = state.name, .dtype = state.dtype, .shape = state.shape, .kind = state.kind, .mesh = kDenseMesh};
    if (state.param < 0) {
      tensor.pins = {{"pp", {0}}, {"tp", {0}}, {"cp", {0}}};
    } else {
      const auto index = static_cast<size_t>(state.param);
      place_parameter(model, config, chunks, model.params[index], tensor);
      if (sharded_by_zero(tensor.kind, config.zero))
        tensor.layout.cuts.push_back(buckets.empty() ? zero_cut(model.params[index], config) : buckets[index]);
    }
    collection.tensors.push_back(std::move(tensor));
  }
  return collection;
}

}  // namespace scalai::collection
