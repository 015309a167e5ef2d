#include "ptc/store/views/internal/bucket_run.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>

#include "ptc/base/round_up.h"
#include "ptc/base/status.h"

namespace scalai::store::internal {
namespace {

constexpr int64_t kStartAlignment = 64;  // of a parameter, in elements

absl::StatusOr<bool> lies_at(const BucketParam& param, int64_t begin, const AreMasters& are_masters) {
  SCALAI_ASSIGN_OR_RETURN(const bool begins, are_masters(param.first, begin));
  if (!begins) return false;
  return are_masters(param.last, begin + param.elements - std::ssize(param.last.known));
}

// The stretch that begins with `first`; empty: it is not the bucket.
absl::StatusOr<std::vector<InBucket>> stretch_from(size_t first, std::span<const BucketParam> params, int64_t elements,
                                                   Joined joined, const AreMasters& are_masters) {
  std::vector<InBucket> found;
  int64_t bucket = 0, end = 0;  // where the bucket begins and the last parameter ends
  for (size_t each = 0; each < params.size(); ++each) {
    const size_t i = (first + each) % params.size();
    const int64_t aligned = bucket + round_up(end - bucket, kStartAlignment);
    bool lies = false;
    for (const int64_t begin : {aligned, end}) {
      if (begin != aligned && joined == Joined::kNo) break;
      if (params[i].elements > elements - begin) continue;
      SCALAI_ASSIGN_OR_RETURN(lies, lies_at(params[i], begin, are_masters));
      if (!lies) continue;
      if (begin != aligned) bucket = begin;  // of the next
      found.push_back({i, begin});
      end = begin + params[i].elements;
      break;
    }
    if (!lies) break;
  }
  // A bucket that ends before a parameter with one of its own ends where that would have begun.
  const bool whole = end == elements || bucket + round_up(end - bucket, kStartAlignment) == elements;
  return whole ? found : std::vector<InBucket>();
}

int64_t number_after(std::string_view name, std::string_view mark) {
  const size_t at = name.find(mark);
  int64_t number = -1;
  if (at != std::string_view::npos) std::from_chars(name.data() + at + mark.size(), name.data() + name.size(), number);
  return number;
}

template <size_t N>
int64_t place_among(std::string_view name, const std::array<std::string_view, N>& marks) {
  for (size_t i = 0; i < N; ++i) {
    if (name.find(marks[i]) != std::string_view::npos) return static_cast<int64_t>(i);
  }
  return static_cast<int64_t>(N);
}

// In the order in which the constructors of Megatron-Core's modules make them.
constexpr std::array<std::string_view, 6> kOfModel = {"embedding.word_embeddings",
                                                      "embedding.position_embeddings",
                                                      "embedding.tokentype_embeddings",
                                                      ".layers.",
                                                      "final_layernorm",
                                                      "output_layer"};
constexpr std::array<std::string_view, 17> kOfLayer = {"input_layernorm",
                                                       "self_attention.linear_proj",
                                                       "self_attention.linear_qkv",
                                                       "attention.linear_q_proj",
                                                       "attention.linear_q_down_proj",
                                                       "attention.linear_q_up_proj",
                                                       "attention.linear_kv_down",
                                                       "attention.linear_kv_up_proj",
                                                       "attention.q_layernorm",
                                                       "attention.k_layernorm",
                                                       "attention.kv_layernorm",
                                                       "pre_mlp_layernorm",
                                                       "mlp.router",
                                                       "mlp.experts",
                                                       "mlp.shared_experts",
                                                       "mlp.linear_fc1",
                                                       "mlp.linear_fc2"};
constexpr std::array<std::string_view, 3> kOfMlp = {"gate_weight", "linear_fc1", "linear_fc2"};
constexpr std::array<std::string_view, 4> kOfModule = {"layer_norm_weight", "layer_norm_bias", "weight", "bias"};

}  // namespace

absl::StatusOr<std::vector<InBucket>> find_in_bucket(std::span<const BucketParam> params, int64_t elements,
                                                     Joined joined, const AreMasters& are_masters) {
  std::vector<InBucket> found;
  for (size_t first = 0; first < params.size(); ++first) {
    SCALAI_ASSIGN_OR_RETURN(std::vector<InBucket> stretch, stretch_from(first, params, elements, joined, are_masters));
    if (stretch.empty()) continue;
    if (!found.empty()) return absl::FailedPreconditionError("several parameters have these values");
    found = std::move(stretch);
  }
  return found;
}

std::vector<int64_t> registration_order(const std::string& name, Experts experts) {
  const int64_t part = place_among(name, kOfModel);
  const std::string_view last = std::string_view(name).substr(name.rfind('.') + 1);
  std::vector<int64_t> order = {part, number_after(name, ".layers."), place_among(name, kOfLayer)};
  const int64_t expert = number_after(name, ".local_experts."), layer = place_among(name, kOfMlp);
  if (experts == Experts::kSequential || expert < 0)
    order.insert(order.end(), {expert, layer, place_among(last, kOfModule)});
  else
    order.insert(order.end(), {layer, place_among(last, kOfModule), expert});
  return order;
}

}  // namespace scalai::store::internal
