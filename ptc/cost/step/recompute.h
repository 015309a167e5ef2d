#pragma once
// Activations that the backward pass computes again instead of finding them kept. A plain value; any thread.
//
//   name             computed again                                         source
//   none             nothing
//   selective        core_attn alone                                        Korthikanti et al. 2022
//   A+B…             parts of every layer that has them, by name:           Megatron-Core, --recompute-modules
//     core_attn      scores, softmax and dropout of unfused attention
//     layernorm      both norms
//     moe_act        the non-linearity of the experts
//     mlp            the dense feed-forward block behind its norm
//     moe            router, dispatch and experts behind their norm
//     mla_up_proj    queries, keys and values of latent attention
//   op               all operations but attention, every other product      torchtitan, activation_checkpoint.py
//                    and the messages of tp and experts
//   full             whole layers                                           Megatron-LM, --recompute-granularity full
//   full-first-N     whole layers, the first N of each chunk of a stage     Megatron-LM, --recompute-method block
//   full-every-N     every N-th layer of a chunk                            torchtitan, selective checkpointing of
//                    layers

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace scalai::step {

struct Recompute {
  enum class Kind : uint8_t { kNothing, kModules, kOperations, kLayers };
  enum Module : uint8_t {
    kCoreAttention = 1,
    kNorms = 2,
    kExpertActivation = 4,
    kFeedForward = 8,
    kExperts = 16,
    kLatentUp = 32
  };

  Kind kind = Kind::kNothing;
  uint8_t modules = 0;  // of kModules: bits of Module, at least one
  int first = 0;        // of kLayers: so many of each chunk, 0 = all
  int every = 1;        // of kLayers: each so-many-th layer

  static const Recompute kNone, kSelective, kFull;

  bool has(Module module) const { return (modules & module) != 0; }
  // Of a chunk's layers, those that are computed again as a whole.
  int whole_layers(int layers) const;
  // In the order of the list above; kNone < kSelective < kFull.
  friend std::strong_ordering operator<=>(const Recompute&, const Recompute&) = default;
};

inline constexpr Recompute Recompute::kNone{};
inline constexpr Recompute Recompute::kSelective{.kind = Kind::kModules, .modules = kCoreAttention};
inline constexpr Recompute Recompute::kFull{.kind = Kind::kLayers};

// The name above; modules in the order of the list.
std::string name_of(const Recompute& recompute);
// Names in any order of modules. Unknown: InvalidArgument with all names.
absl::StatusOr<Recompute> find_recompute(std::string_view name);
// For messages: "none", "selective", "core_attn" … "full-first-N".
std::vector<std::string> recompute_names();

}  // namespace scalai::step
