#include "ptc/state/model/catalogue.h"

#include <fmt/format.h>

#include <array>

#include "ptc/base/diagnostics.h"
#include "ptc/base/status.h"
#include "ptc/state/model/internal/families.h"

namespace scalai::model {
namespace {

constexpr int64_t kMillion = 1'000'000;
constexpr int64_t kBillion = 1'000 * kMillion;

constexpr std::string_view kGpt3Paper = "Brown et al. 2020, \"Language Models are Few-Shot Learners\", table 2.1";
constexpr std::string_view kTenplexPaper = "Wagenlaender et al. 2024, Tenplex (SOSP), released Megatron-LM settings";
constexpr std::string_view kGpt2Paper = "Radford et al. 2019, GPT-2, released checkpoints";
constexpr std::string_view kBertPaper = "Devlin et al. 2019, BERT, released uncased checkpoints";
constexpr std::string_view kLlama2Paper = "Touvron et al. 2023, Llama 2, released checkpoints";
constexpr std::string_view kLlama3Paper = "Grattafiori et al. 2024, \"The Llama 3 Herd of Models\", table 3";
constexpr std::string_view kMixtral7Paper = "Jiang et al. 2024, \"Mixtral of Experts\", table 1";
constexpr std::string_view kMixtral22Source = "Mistral AI 2024, Mixtral-8x22B-v0.1 released checkpoint";
constexpr std::string_view kResnetPaper = "He et al. 2016, \"Deep Residual Learning\", table 1; torchvision's count";

// GPT and BERT: multi-head attention, feed-forward of 4 x hidden, tied head.
struct GptRow {
  std::string_view name;
  std::string_view family;
  int layers;
  int64_t hidden;
  int heads;
  int64_t vocab;
  int64_t sequence;
  int64_t published;
  int64_t rounding;
  std::string_view source;
};

constexpr int64_t kGptVocab = 50257;
constexpr int64_t kTenth = 100 * kMillion;  // of a billion
constexpr int64_t kBertVocab = 30522;
constexpr int64_t kBertTokenTypes = 2;

constexpr std::array kGptRows = {
    // The paper's sizes are rounded, 355.9 M even to 350 M. Its XL has 24 heads of 128, which do not make up the hidden
    // size of 2048; Megatron uses 16 heads. Its 13B has a hidden size of 5140, which 40 heads of 128 do not make up
    // either; 5120 is what reproductions use.
    GptRow{"gpt3-125m", "gpt", 12, 768, 12, kGptVocab, 2048, 125 * kMillion, kMillion, kGpt3Paper},
    GptRow{"gpt3-350m", "gpt", 24, 1024, 16, kGptVocab, 2048, 350 * kMillion, 50 * kMillion, kGpt3Paper},
    GptRow{"gpt3-760m", "gpt", 24, 1536, 16, kGptVocab, 2048, 760 * kMillion, 10 * kMillion, kGpt3Paper},
    GptRow{"gpt3-xl", "gpt", 24, 2048, 16, kGptVocab, 2048, 13 * kTenth, kTenth, kGpt3Paper},
    GptRow{"gpt3-2.7b", "gpt", 32, 2560, 32, kGptVocab, 2048, 27 * kTenth, kTenth, kGpt3Paper},
    GptRow{"gpt3-6.7b", "gpt", 32, 4096, 32, kGptVocab, 2048, 67 * kTenth, kTenth, kGpt3Paper},
    GptRow{"gpt3-13b", "gpt", 40, 5120, 40, kGptVocab, 2048, 13 * kBillion, kBillion, kGpt3Paper},
    GptRow{"gpt3-175b", "gpt", 96, 12288, 96, kGptVocab, 2048, 175 * kBillion, kBillion, kGpt3Paper},
    // Tenplex calls the 1.3b also "xl"; its hidden size of 2064 is not a misprint. Its sizes are labels: 2.7b is
    // GPT-3's shape with half the positions, which makes 2.65 B just less than the label.
    GptRow{"tenplex-gpt-large", "gpt", 24, 1536, 16, kGptVocab, 1024, 0, 1, kTenplexPaper},
    GptRow{"tenplex-gpt-1.3b", "gpt", 24, 2064, 24, kGptVocab, 1024, 13 * kTenth, kTenth, kTenplexPaper},
    GptRow{"tenplex-gpt-2.7b", "gpt", 32, 2560, 32, kGptVocab, 1024, 0, 1, kTenplexPaper},
    GptRow{"tenplex-gpt-6.7b", "gpt", 32, 4096, 32, kGptVocab, 1024, 67 * kTenth, kTenth, kTenplexPaper},
    GptRow{"tenplex-bert-large", "bert", 24, 1024, 16, kBertVocab, 1024, 0, 1, kTenplexPaper},
    // The GPT-2 paper's own table counts otherwise (117 M to 1542 M); these are the checkpoints' counts.
    GptRow{"gpt2", "gpt", 12, 768, 12, kGptVocab, 1024, 124'439'808, 1, kGpt2Paper},
    GptRow{"gpt2-medium", "gpt", 24, 1024, 16, kGptVocab, 1024, 354'823'168, 1, kGpt2Paper},
    GptRow{"gpt2-large", "gpt", 36, 1280, 20, kGptVocab, 1024, 774'030'080, 1, kGpt2Paper},
    GptRow{"gpt2-xl", "gpt", 48, 1600, 25, kGptVocab, 1024, 1'557'611'200, 1, kGpt2Paper},
    // With pooler, without the head that predicts masked words.
    GptRow{"bert-base", "bert", 12, 768, 12, kBertVocab, 512, 109'482'240, 1, kBertPaper},
    GptRow{"bert-large", "bert", 24, 1024, 16, kBertVocab, 512, 335'141'888, 1, kBertPaper},
};

// Llama and Mixtral: grouped-query attention, SwiGLU, head of its own.
struct LlamaRow {
  std::string_view name;
  int layers;
  int64_t hidden;
  int heads;
  int kv_heads;
  int64_t ffn;
  int64_t vocab;
  int64_t sequence;
  int experts;
  int experts_per_token;
  int64_t published;
  std::string_view source;
};

constexpr std::array kLlamaRows = {
    LlamaRow{"llama2-7b", 32, 4096, 32, 32, 11008, 32000, 4096, 0, 0, 6'738'415'616, kLlama2Paper},
    LlamaRow{"llama2-13b", 40, 5120, 40, 40, 13824, 32000, 4096, 0, 0, 13'015'864'320, kLlama2Paper},
    LlamaRow{"llama2-70b", 80, 8192, 64, 8, 28672, 32000, 4096, 0, 0, 68'976'648'192, kLlama2Paper},
    // Pre-training length; Llama 3.1 is extended to 131,072 with the same tensors.
    LlamaRow{"llama3-8b", 32, 4096, 32, 8, 14336, 128256, 8192, 0, 0, 8'030'261'248, kLlama3Paper},
    LlamaRow{"llama3-70b", 80, 8192, 64, 8, 28672, 128256, 8192, 0, 0, 70'553'706'496, kLlama3Paper},
    LlamaRow{"llama3-405b", 126, 16384, 128, 8, 53248, 128256, 8192, 0, 0, 405'853'388'800, kLlama3Paper},
    LlamaRow{"mixtral-8x7b", 32, 4096, 32, 8, 14336, 32000, 32768, 8, 2, 46'702'792'704, kMixtral7Paper},
    // The base checkpoint: 281,241,268,224 bytes in bf16. The instruction-tuned one has a vocabulary of 32,768.
    LlamaRow{"mixtral-8x22b", 56, 6144, 48, 8, 16384, 32000, 65536, 8, 2, 140'620'634'112, kMixtral22Source},
};

constexpr std::string_view kResnet50 = "resnet-50";

Model build(const GptRow& row) {
  Model model = {.name = std::string(row.name),
                 .family = std::string(row.family),
                 .source = std::string(row.source),
                 .layers = row.layers,
                 .hidden = row.hidden,
                 .heads = row.heads,
                 .kv_heads = row.heads,
                 .ffn = 4 * row.hidden,
                 .vocab = row.vocab,
                 .sequence = row.sequence,
                 .tied = true,
                 .published_params = row.published,
                 .params_rounding = row.rounding};
  if (row.family == "bert") {
    append_bert_params(model, kBertTokenTypes);
  } else {
    append_gpt_params(model);
  }
  return model;
}

Model build(const LlamaRow& row) {
  Model model = {.name = std::string(row.name),
                 .family = row.experts > 0 ? "mixtral" : "llama",
                 .source = std::string(row.source),
                 .layers = row.layers,
                 .hidden = row.hidden,
                 .heads = row.heads,
                 .kv_heads = row.kv_heads,
                 .ffn = row.ffn,
                 .vocab = row.vocab,
                 .sequence = row.sequence,
                 .experts = row.experts,
                 .experts_per_token = row.experts_per_token,
                 .published_params = row.published};
  append_llama_params(model);
  return model;
}

Model build_resnet50() {
  Model model = {.name = std::string(kResnet50),
                 .family = "resnet",
                 .source = std::string(kResnetPaper),
                 .layers = 16,
                 .hidden = 2048,
                 .published_params = 25'557'032};
  append_resnet_params(model, {.stage_width = {256, 512, 1024, 2048}, .stage_depth = {3, 4, 6, 3}});
  return model;
}

absl::Status unknown_model(std::string_view name) {
  const std::vector<std::string> names = catalogue_names();
  const std::string near = closest(name, names);
  const std::string hint = near.empty() ? fmt::format("the catalogue has {}", fmt::join(names, ", "))
                                        : fmt::format("did you mean \"{}\"?", near);
  return invalid(fmt::format("unknown model \"{}\": {}", name, hint));
}

}  // namespace

std::vector<std::string> catalogue_names() {
  std::vector<std::string> names;
  for (const GptRow& row : kGptRows) names.emplace_back(row.name);
  for (const LlamaRow& row : kLlamaRows) names.emplace_back(row.name);
  names.emplace_back(kResnet50);
  return names;
}

absl::StatusOr<Model> find_model(std::string_view name) {
  for (const GptRow& row : kGptRows) {
    if (row.name == name) return build(row);
  }
  for (const LlamaRow& row : kLlamaRows) {
    if (row.name == name) return build(row);
  }
  if (name == kResnet50) return build_resnet50();
  return unknown_model(name);
}

}  // namespace scalai::model
