#include "ptc/store/naming/testing/arrange.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace scalai::store {

Sizes sizes_of(const Tiny& tiny) {
  Sizes sizes{.numbers = {{"layers", tiny.layers},
                          {"hidden", tiny.hidden},
                          {"heads", tiny.heads},
                          {"kv_heads", tiny.kv_heads},
                          {"head_dim", tiny.head_dim},
                          {"ffn", tiny.ffn},
                          {"vocab", tiny.vocab},
                          {"sequence", tiny.sequence}},
              .switches = {{"tied", tiny.tied}}};
  if (tiny.family == "mixtral") {
    sizes.numbers["experts"] = tiny.experts;
    sizes.numbers["experts_per_token"] = 1;
  }
  if (tiny.family == "llama") sizes.switches["attention_bias"] = sizes.switches["mlp_bias"] = tiny.bias;
  return sizes;
}

Family family_named(const std::string& name) {
  auto family = Families::built_in().find(name);
  SCALAI_CHECK(family.ok(), message_of(family.status()));
  return *family;
}

model::Model model_of(const Tiny& tiny) {
  auto model = family_named(tiny.family).build_model(sizes_of(tiny), "tiny");
  SCALAI_CHECK(model.ok(), message_of(model.status()));
  return *model;
}

Naming naming_of(const Tiny& tiny, const std::string& naming) {
  auto result = Naming::of(family_named(tiny.family), naming, sizes_of(tiny));
  SCALAI_CHECK(result.ok(), message_of(result.status()));
  return *result;
}

std::vector<LogicalState> states_of(const model::Model& model) {
  std::vector<LogicalState> states;
  for (const model::Param& param : model.params)
    states.push_back({.name = param.name, .dtype = tensor::DType::kBF16, .shape = param.shape});
  return states;
}

collection::Collection collection_of(const Tiny& tiny, const collection::ParallelConfig& config) {
  std::vector<DeviceId> devices;
  for (int i = 0; i < config.world(); ++i) devices.emplace_back(i);
  auto collection = collection::megatron_collection(model_of(tiny), {.previous = tiny.previous}, config, devices);
  SCALAI_CHECK(collection.ok(), message_of(collection.status()));
  return *collection;
}

namespace {

int64_t volume(const std::vector<int64_t>& shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

// Row r of a tensor of one or two dimensions.
std::vector<int64_t> row_of(const Dense& dense, int64_t r) {
  const int64_t size = dense.shape.size() == 2 ? dense.shape[1] : 1;
  return {dense.values.begin() + r * size, dense.values.begin() + (r + 1) * size};
}

void append_row(Dense& to, const std::vector<int64_t>& row) {
  to.values.insert(to.values.end(), row.begin(), row.end());
  ++to.shape[0];
}

Dense empty_like(const Dense& dense) {
  Dense result{.shape = dense.shape, .values = {}};
  result.shape[0] = 0;
  return result;
}

// Rows [begin, end); beyond the tensor they are zeros.
Dense rows(const Dense& dense, int64_t begin, int64_t end) {
  Dense result = empty_like(dense);
  for (int64_t r = begin; r < end; ++r)
    append_row(result, r < dense.shape[0] ? row_of(dense, r) : std::vector<int64_t>(row_of(dense, 0).size()));
  return result;
}

Dense columns(const Dense& dense, int64_t begin, int64_t end) {
  Dense result{.shape = {0, end - begin}, .values = {}};
  for (int64_t r = 0; r < dense.shape[0]; ++r) {
    const std::vector<int64_t> row = row_of(dense, r);
    append_row(result, {row.begin() + begin, row.begin() + end});
  }
  return result;
}

Dense joined(const std::vector<Dense>& parts) {
  Dense result = empty_like(parts.front());
  for (const Dense& part : parts) {
    for (int64_t r = 0; r < part.shape[0]; ++r) append_row(result, row_of(part, r));
  }
  return result;
}

Dense transposed(const Dense& dense) {
  Dense result{.shape = {dense.shape[1], dense.shape[0]}, .values = {}};
  for (int64_t c = 0; c < dense.shape[1]; ++c) {
    for (int64_t r = 0; r < dense.shape[0]; ++r) result.values.push_back(row_of(dense, r)[static_cast<size_t>(c)]);
  }
  return result;
}

// Head h of the queries, keys (kind 1) or values (kind 2) in a fused tensor.
Dense heads_of(const Tiny& tiny, const Dense& fused, int kind) {
  Dense result = empty_like(fused);
  for (int head = 0; head < (kind == 0 ? tiny.heads : tiny.kv_heads); ++head) {
    const int group = kind == 0 ? head / tiny.queries() : head;
    const int inside = kind == 0 ? head % tiny.queries() : tiny.queries() + kind - 1;
    for (int64_t r = 0; r < tiny.head_dim; ++r)
      append_row(result, row_of(fused, (int64_t{group} * (tiny.queries() + 2) + inside) * tiny.head_dim + r));
  }
  return result;
}

Bundle numbered(const std::vector<std::pair<std::string, tensor::Shape>>& tensors) {
  Bundle wholes;
  int64_t base = 0;
  for (const auto& [name, shape] : tensors) {
    base += 1'000'000'000;
    Dense dense;
    for (int dim = 0; dim < shape.rank(); ++dim) dense.shape.push_back(shape[dim]);
    for (int64_t i = 0; i < shape.elements(); ++i) dense.values.push_back(base + i);
    wholes[name] = std::move(dense);
  }
  return wholes;
}

}  // namespace

Bundle wholes_of(const std::vector<LogicalState>& states) {
  std::vector<std::pair<std::string, tensor::Shape>> tensors;
  for (const LogicalState& state : states) tensors.emplace_back(state.name, state.shape);
  return numbered(tensors);
}

Bundle wholes_of(const collection::Collection& collection) {
  std::vector<std::pair<std::string, tensor::Shape>> tensors;
  for (const collection::LogicalTensor& tensor : collection.tensors) tensors.emplace_back(tensor.name, tensor.shape);
  return numbered(tensors);
}

Bundle filled(const std::vector<ArrangedTensor>& tensors, const Bundle& wholes) {
  Bundle result;
  for (const ArrangedTensor& tensor : tensors) {
    Dense dense{.shape = tensor.shape, .values = std::vector<int64_t>(static_cast<size_t>(volume(tensor.shape)))};
    for (const auto& [logical, piece] : tensor.pieces) {
      const Dense& whole = wholes.at(logical);
      const tensor::Box& box = piece.box;
      for (int64_t i = 0; i < box.volume(); ++i) {
        int64_t from = 0;
        int64_t to = piece.offset;
        int64_t rest = i;
        int64_t stride = 1;
        for (int dim = box.rank - 1; dim >= 0; --dim) {
          const int64_t at = rest % box.extent(dim);
          rest /= box.extent(dim);
          from += (box.lo[static_cast<size_t>(dim)] + at) * stride;
          stride *= whole.shape[static_cast<size_t>(dim)];
          to += at * piece.strides[static_cast<size_t>(dim)];
        }
        if (to < 0 || to >= static_cast<int64_t>(dense.values.size())) {
          ADD_FAILURE() << tensor.name << ": " << logical << box.str() << " lies outside";
          return {};
        }
        EXPECT_EQ(dense.values[static_cast<size_t>(to)], 0) << tensor.name << ": overlap at " << to;
        dense.values[static_cast<size_t>(to)] = whole.values[static_cast<size_t>(from)];
      }
    }
    EXPECT_TRUE(result.emplace(tensor.name, std::move(dense)).second) << tensor.name << " is there twice";
  }
  return result;
}

namespace {

void add_gpt(const Tiny& tiny, const Bundle& wholes, Bundle& files) {
  files["transformer.wte.weight"] = wholes.at("embedding.word.weight");
  files["transformer.wpe.weight"] = wholes.at("embedding.position.weight");
  for (int layer = 0; layer < tiny.layers; ++layer) {
    const std::string h = fmt::format("transformer.h.{}.", layer);
    const auto of = [&](const char* name) { return wholes.at(fmt::format("layers.{}.{}", layer, name)); };
    for (const char* end : {"weight", "bias"}) {
      const bool weight = end[0] == 'w';
      const auto linear = [&](const std::string& name, const Dense& dense) {
        files[h + name + end] = weight ? transposed(dense) : dense;
      };
      const Dense fused = of(weight ? "attention.qkv.weight" : "attention.qkv.bias");
      linear("attn.c_attn.", joined({heads_of(tiny, fused, 0), heads_of(tiny, fused, 1), heads_of(tiny, fused, 2)}));
      linear("attn.c_proj.", of(weight ? "attention.dense.weight" : "attention.dense.bias"));
      linear("mlp.c_fc.", of(weight ? "mlp.up.weight" : "mlp.up.bias"));
      linear("mlp.c_proj.", of(weight ? "mlp.down.weight" : "mlp.down.bias"));
      files[h + "ln_1." + end] = of(weight ? "attention_norm.weight" : "attention_norm.bias");
      files[h + "ln_2." + end] = of(weight ? "mlp_norm.weight" : "mlp_norm.bias");
    }
  }
  files["transformer.ln_f.weight"] = wholes.at("final_norm.weight");
  files["transformer.ln_f.bias"] = wholes.at("final_norm.bias");
  if (!tiny.tied) files["lm_head.weight"] = wholes.at("head.weight");
}

void add_llama_layer(const Tiny& tiny, const Bundle& wholes, int layer, Bundle& files) {
  const std::string to = fmt::format("model.layers.{}.", layer);
  const auto of = [&](const std::string& name) { return wholes.at(fmt::format("layers.{}.{}", layer, name)); };
  files[to + "input_layernorm.weight"] = of("attention_norm.weight");
  files[to + "post_attention_layernorm.weight"] = of("mlp_norm.weight");
  for (const std::string end : {"weight", "bias"}) {
    if (end == "bias" && !tiny.bias) continue;
    files[to + "self_attn.q_proj." + end] = heads_of(tiny, of("attention.qkv." + end), 0);
    files[to + "self_attn.k_proj." + end] = heads_of(tiny, of("attention.qkv." + end), 1);
    files[to + "self_attn.v_proj." + end] = heads_of(tiny, of("attention.qkv." + end), 2);
    files[to + "self_attn.o_proj." + end] = of("attention.dense." + end);
    for (const std::string name : {"gate", "up", "down"}) {
      if (tiny.experts == 0) files[to + "mlp." + name + "_proj." + end] = of("mlp." + name + "." + end);
    }
  }
  if (tiny.experts > 0) files[to + "block_sparse_moe.gate.weight"] = of("router.weight");
  for (int expert = 0; expert < tiny.experts; ++expert) {
    const std::string w = fmt::format("{}block_sparse_moe.experts.{}.w", to, expert);
    files[w + "1.weight"] = of(fmt::format("experts.{}.gate.weight", expert));
    files[w + "2.weight"] = of(fmt::format("experts.{}.down.weight", expert));
    files[w + "3.weight"] = of(fmt::format("experts.{}.up.weight", expert));
  }
}

}  // namespace

Bundle expected_hugging_face(const Tiny& tiny, const Bundle& wholes) {
  Bundle files;
  if (tiny.gpt()) {
    add_gpt(tiny, wholes, files);
    return files;
  }
  files["model.embed_tokens.weight"] = wholes.at("embedding.word.weight");
  for (int layer = 0; layer < tiny.layers; ++layer) add_llama_layer(tiny, wholes, layer, files);
  files["model.norm.weight"] = wholes.at("final_norm.weight");
  if (!tiny.tied) files["lm_head.weight"] = wholes.at("head.weight");
  return files;
}

namespace {

// Where a rank is, in Megatron's order: tp fastest, then cp, dp, pp; experts over etp, ep, edp of the stage.
struct Where {
  int tp, dp, pp, etp, ep;
  Where(const collection::ParallelConfig& config, int rank) {
    const int stage_ranks = config.tp * config.cp * config.dp;
    pp = rank / stage_ranks;
    tp = rank % config.tp;
    dp = rank / (config.tp * config.cp) % config.dp;
    etp = rank % stage_ranks % config.etp;
    ep = rank % stage_ranks / config.etp % config.ep;
  }
};

// One stage alone has no virtual ones.
int chunks_of(const collection::ParallelConfig& config) { return config.pp > 1 ? config.vpp : 1; }

// Layers of (virtual) stages, the first ones longer; chunk v is on stage v mod pp.
std::vector<std::vector<int>> chunks_on(const Tiny& tiny, const collection::ParallelConfig& config, int stage) {
  const int count = config.pp * chunks_of(config);
  std::vector<std::vector<int>> chunks;
  int next = 0;
  for (int chunk = 0; chunk < count; ++chunk) {
    std::vector<int> layers;
    for (int i = 0; i < tiny.layers / count + (chunk < tiny.layers % count ? 1 : 0); ++i) layers.push_back(next++);
    if (chunk % config.pp == stage) chunks.push_back(layers);
  }
  return chunks;
}

enum class Slice { kAll, kRows, kColumns, kVocabulary };

Dense slice_of(const Dense& dense, Slice slice, int parts, int index) {
  if (slice == Slice::kRows) {
    const int64_t size = dense.shape[0] / parts;
    return rows(dense, index * size, (index + 1) * size);
  }
  if (slice == Slice::kColumns) {
    const int64_t size = dense.shape[1] / parts;
    return columns(dense, index * size, (index + 1) * size);
  }
  if (slice == Slice::kVocabulary) {
    const int64_t unit = 128 * parts;
    const int64_t size = (dense.shape[0] + unit - 1) / unit * unit / parts;
    return rows(dense, index * size, (index + 1) * size);
  }
  return dense;
}

// The elements that are not padding, one after the other, and of these the rank's balanced share.
Dense share_of(const Dense& dense, int parts, int index) {
  std::vector<int64_t> flat;
  std::copy_if(dense.values.begin(), dense.values.end(), std::back_inserter(flat), [](int64_t v) { return v != 0; });
  const auto count = static_cast<int64_t>(flat.size());
  const int64_t begin = count / parts * index + std::min<int64_t>(index, count % parts);
  const int64_t size = count / parts + (index < count % parts ? 1 : 0);
  return {.shape = {size}, .values = {flat.begin() + begin, flat.begin() + begin + size}};
}

class MegatronRank {
 public:
  MegatronRank(const Tiny& tiny, const Bundle& wholes, const collection::ParallelConfig& config, int rank)
      : tiny_(tiny), wholes_(wholes), config_(config), at_(config, rank) {}

  Bundle build() {
    const std::vector<std::vector<int>> chunks = chunks_on(tiny_, config_, at_.pp);
    if (at_.pp == 0) {
      enter(0);
      add("embedding.word_embeddings.weight", {"embedding.word.weight"}, Slice::kVocabulary);
      if (tiny_.gpt()) add("embedding.position_embeddings.weight", {"embedding.position.weight"}, Slice::kAll);
    }
    for (size_t chunk = 0; chunk < chunks.size(); ++chunk) {
      enter(static_cast<int>(chunk));
      for (size_t i = 0; i < chunks[chunk].size(); ++i) add_layer(chunks[chunk][i], static_cast<int>(i));
    }
    if (at_.pp == config_.pp - 1) {
      enter(chunks_of(config_) - 1);
      add("decoder.final_layernorm.weight", {"final_norm.weight"}, Slice::kAll);
      if (tiny_.gpt()) add("decoder.final_layernorm.bias", {"final_norm.bias"}, Slice::kAll);
      if (!tiny_.tied) add("output_layer.weight", {"head.weight"}, Slice::kVocabulary);
      if (tiny_.tied && config_.pp > 1) add("output_layer.weight", {"embedding.word.weight"}, Slice::kVocabulary);
    }
    if (at_.pp == 0 && at_.tp == 0) {
      for (const char* name : {"rng.host", "rng.device", "step", "data.cursor"}) files_[name] = wholes_.at(name);
    }
    return files_;
  }

 private:
  void enter(int chunk) {
    prefix_ = chunks_of(config_) > 1 ? fmt::format("model{}.", chunk) : "";
    layer_ = -1;
  }

  void add(const std::string& stored, const std::vector<std::string>& parts, Slice slice, bool expert = false) {
    const std::string in_layer = layer_ < 0 ? "" : fmt::format("layers.{}.", layer_);
    for (const std::string suffix : {"", ".master", ".exp_avg", ".exp_avg_sq"}) {
      std::vector<Dense> slices;
      const bool flat = suffix.empty() ? config_.zero == 3 : config_.zero >= 1;
      for (const std::string& part : parts) {
        const Dense& whole = wholes_.at(in_layer + part + suffix);
        Dense local =
            expert ? slice_of(whole, slice, config_.etp, at_.etp) : slice_of(whole, slice, config_.tp, at_.tp);
        if (flat) local = expert ? share_of(local, config_.edp(), edp()) : share_of(local, config_.dp, at_.dp);
        slices.push_back(std::move(local));
      }
      Dense all = joined(slices);
      if (!all.values.empty()) files_[prefix_ + stored + suffix] = std::move(all);
    }
  }

  int edp() const { return (at_.dp * config_.tp + at_.tp) / (config_.etp * config_.ep); }  // cp is 1 here

  void add_layer(int layer, int stage_layer) {
    layer_ = layer;
    const std::string to = fmt::format("decoder.layers.{}.", stage_layer);
    for (const std::string end : {"weight", "bias"}) {
      const bool weight = end == "weight";
      if (!weight && !tiny_.gpt() && !tiny_.bias) continue;
      if (weight || tiny_.gpt()) {
        add(to + "input_layernorm." + end, {"attention_norm." + end}, Slice::kAll);
        add(to + "pre_mlp_layernorm." + end, {"mlp_norm." + end}, Slice::kAll);
      }
      const Slice row = weight ? Slice::kColumns : Slice::kAll;
      add(to + "self_attention.linear_qkv." + end, {"attention.qkv." + end}, Slice::kRows);
      add(to + "self_attention.linear_proj." + end, {"attention.dense." + end}, row);
      if (tiny_.experts > 0) continue;
      if (tiny_.gpt())
        add(to + "mlp.linear_fc1." + end, {"mlp.up." + end}, Slice::kRows);
      else
        add(to + "mlp.linear_fc1." + end, {"mlp.gate." + end, "mlp.up." + end}, Slice::kRows);
      add(to + "mlp.linear_fc2." + end, {"mlp.down." + end}, row);
    }
    if (tiny_.experts > 0) add(to + "mlp.router.weight", {"router.weight"}, Slice::kAll);
    const int local = tiny_.experts / config_.ep;
    for (int i = 0; i < local; ++i) {
      const std::string expert = fmt::format("experts.{}.", at_.ep * local + i);
      const std::string stored = fmt::format("{}mlp.experts.local_experts.{}.linear_fc", to, i);
      add(stored + "1.weight", {expert + "gate.weight", expert + "up.weight"}, Slice::kRows, true);
      add(stored + "2.weight", {expert + "down.weight"}, Slice::kColumns, true);
    }
  }

  const Tiny& tiny_;
  const Bundle& wholes_;
  const collection::ParallelConfig& config_;
  Where at_;
  std::string prefix_;
  int layer_ = -1;
  Bundle files_;
};

}  // namespace

Bundle expected_megatron(const Tiny& tiny, const Bundle& wholes, const collection::ParallelConfig& config, int rank) {
  return MegatronRank(tiny, wholes, config, rank).build();
}

// Only for llama: a rank's part of every whole tensor by its name.
Bundle expected_hugging_face_rank(const Tiny& tiny, const Bundle& wholes, const collection::ParallelConfig& config,
                                  int rank) {
  const Where at(config, rank);
  Bundle files;
  for (const auto& [name, dense] : expected_hugging_face(tiny, wholes)) {
    const bool ends = name == "model.embed_tokens.weight" || name == "lm_head.weight";
    const bool row = name.ends_with("o_proj.weight") || name.ends_with("down_proj.weight");
    const bool all = name.ends_with("norm.weight") || name.ends_with("o_proj.bias") || name.ends_with("down_proj.bias");
    const Slice slice = ends ? Slice::kVocabulary : row ? Slice::kColumns : all ? Slice::kAll : Slice::kRows;
    files[name] = slice_of(dense, slice, config.tp, at.tp);
  }
  return files;
}

void expect_equal(const Bundle& actual, const Bundle& expected) {
  for (const auto& [name, dense] : expected) {
    const auto found = actual.find(name);
    if (found == actual.end()) {
      ADD_FAILURE() << name << " is missing";
      continue;
    }
    EXPECT_EQ(found->second.shape, dense.shape) << name;
    EXPECT_TRUE(found->second.values == dense.values) << name;
  }
  for (const auto& [name, dense] : actual) EXPECT_EQ(expected.count(name), 1U) << name << " is not expected";
}

std::vector<FoundFile> found_in(const std::vector<ArrangedFile>& files) {
  std::vector<FoundFile> result;
  for (const ArrangedFile& file : files) {
    result.push_back({.name = file.name, .tensors = {}});
    for (const ArrangedTensor& tensor : file.tensors)
      result.back().tensors.push_back({tensor.name, tensor.dtype, tensor.shape});
  }
  return result;
}

}  // namespace scalai::store
