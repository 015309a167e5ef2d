#pragma once
// Family files that are changed and stay well-formed, and all that is computed with a family's numbers: by family_fuzz
// for long, by family_files_test a little.

#include <cstdint>
#include <regex>
#include <string>
#include <vector>

#include "ptc/base/random.h"
#include "ptc/base/status.h"
#include "ptc/cost/step/model_shape.h"
#include "ptc/state/collection/layout_name.h"
#include "ptc/state/collection/megatron.h"
#include "ptc/store/naming/arrange.h"
#include "ptc/store/naming/family.h"

namespace scalai::store {

// A field of a family file is left out, or gets the value of another one, or a number at the end of a range.
inline std::string family_mutant(const std::string& text, Random& random) {
  static const std::regex kField(R"re((\w+): ("[^"\n]*"|\d+|true|false))re");
  const std::vector<std::smatch> fields(std::sregex_iterator(text.begin(), text.end(), kField), std::sregex_iterator());
  if (fields.empty()) return text;
  const auto any = [&]() -> const std::smatch& {
    return fields[static_cast<size_t>(random.below(static_cast<int64_t>(fields.size())))];
  };
  const std::vector<const char*> numbers = {"\"0\"", "\"1\"",      "\"layers - layers\"", "0",
                                            "1",     "2147483648", "1099511627776"};
  const std::smatch& at = any();
  std::string instead;
  switch (random.below(4)) {
    case 0: break;
    case 1: instead = at[1].str() + ": " + any()[2].str(); break;
    case 2: instead = any()[1].str() + ": " + at[2].str(); break;
    default:
      instead = at[1].str() + ": " + numbers[static_cast<size_t>(random.below(static_cast<int64_t>(numbers.size())))];
  }
  return std::string(text.begin(), at[0].first) + instead + std::string(at[0].second, text.end());
}

// A config.json of `sizes` small numbers for all families, one of which is another now and then.
inline std::string family_config(const std::string& architecture, Random& random) {
  std::string text = R"({"architectures": [")" + architecture + "\"]";
  for (const char* key : {"num_hidden_layers",
                          "n_layer",
                          "hidden_size",
                          "n_embd",
                          "num_attention_heads",
                          "n_head",
                          "num_key_value_heads",
                          "intermediate_size",
                          "moe_intermediate_size",
                          "ffn_dim",
                          "vocab_size",
                          "max_position_embeddings",
                          "n_positions",
                          "num_local_experts",
                          "num_experts",
                          "n_routed_experts",
                          "num_experts_per_tok",
                          "q_lora_rank",
                          "kv_lora_rank",
                          "qk_rope_head_dim",
                          "qk_nope_head_dim",
                          "v_head_dim",
                          "n_shared_experts",
                          "shared_expert_intermediate_size"}) {
    const bool other = random.below(40) == 0;
    const int64_t others[] = {0, 1, 3, int64_t{1} << 32, int64_t{1} << 40};
    text += ", \"" + std::string(key) + "\": " +
            std::to_string(other           ? others[random.below(5)]
                           : key[0] == 'h' ? 16
                                           : 4);
  }
  return text + "}";
}

// Whatever the family: refused with words, or all that follows works.
inline void use_family(const Family& family, const std::string& config) {
  constexpr size_t kMostTensors = 2000;
  const auto refused = [](const absl::Status& status) { SCALAI_CHECK(!message_of(status).empty()); };
  const absl::StatusOr<Sizes> sizes = family.sizes_of_config(config);
  if (!sizes.ok()) return refused(sizes.status());
  const absl::StatusOr<model::Model> model = family.build_model(*sizes, "fuzz");
  if (!model.ok()) return refused(model.status());
  if (model->params.size() > kMostTensors) return;
  (void)model->parameter_count();
  (void)step::shape_of(*model);
  for (const std::string& name : family.namings()) (void)Naming::of(family, name, *sizes);
  for (const char* layout : {"tp1", "tp2", "tp3", "tp8", "tp2,pp2", "tp2,dp2,ep2", "dp2,zero1", "pp4,vpp2"}) {
    const auto parsed = collection::parse_layout(layout);
    SCALAI_CHECK(parsed.ok());
    std::vector<DeviceId> devices;
    for (int rank = 0; rank < parsed->world(); ++rank) devices.emplace_back(rank);
    const auto made = collection::megatron_collection(*model, {}, *parsed, std::move(devices));
    if (!made.ok()) refused(made.status());
  }
}

}  // namespace scalai::store
