#pragma once
// Programs that train, by version: kernels, overlap, number formats and dispatch that their recipes choose where a user
// says nothing. Data: software/*.textproto, each with its sources. Values; any thread may call.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "ptc/cost/step/model_shape.h"
#include "ptc/cost/step/training.h"

namespace scalai::step {

// What a recipe sets of Training; nothing where it leaves it.
struct SoftwareSettings {
  std::optional<Kernels> kernels;
  std::optional<Overlap> overlap;
  std::optional<DataOverlap> data_overlap;
  std::optional<Framework> framework;
  std::optional<Loss> loss;
  std::optional<Dispatch> dispatch;
  std::optional<double> gradient_bytes, optimizer_bytes;  // of a parameter
  std::optional<bool> expert_overlap, cuda_graphs, grouped_experts, sequence_parallel, flash_attention;
  std::optional<int64_t> bucket;
  std::vector<int> zero;  // stages that are tried; empty: as it is
};

// A version of a program.
struct Software {
  // Settings where all that is given holds. The first case of a version has no conditions.
  struct Case {
    std::optional<bool> experts, fp8;
    std::vector<std::string> gpus;  // beginnings of GPU kinds; empty: all
    SoftwareSettings settings;
  };
  std::string program, version, title;
  std::vector<std::string> sources;
  std::vector<std::string> default_for;  // beginnings of GPU kinds; "": all that no other program names
  bool default_with_zero3 = false;
  std::vector<Case> cases;  // in their order; later ones override

  std::string name() const { return program + "-" + version; }
};

// All programs, "megatron-core", each followed by its versions, "megatron-core-0.16", the newest first.
std::vector<std::string> software_names();
// The newest version of a program, or the newest that is not after the one named: megatron-core-0.15 finds 0.13.
// InvalidArgument: unknown, with the names; or older than all.
absl::StatusOr<Software> find_software(std::string_view name);
// What a user of such GPUs runs today; of GPUs with ZeRO-3, but for TPUs, PyTorch's FSDP.
const Software& default_software(std::string_view gpu_kind, int zero = 1);

// Who runs it, which decides between cases.
struct SoftwareUse {
  std::string_view gpu_kind;
  bool experts = false;  // the model is a mixture of experts
};
// What `software` says for this use: its cases one over the other. `math` decides between cases, too.
SoftwareSettings settings_of(const Software& software, const SoftwareUse& use, Math math);
// Sets what `settings` has and leaves the rest of `training`. The precision is set before: bytes of gradients and of
// the optimizer belong to it; of parameters in 32 bits they stay.
void apply(const SoftwareSettings& settings, Training& training);

// Stands for default_software where a name is asked for.
inline constexpr std::string_view kDefaultSoftware = "default";

// What was given of the program that trains: its settings, each by itself; its name; or nothing, so that it is what
// such GPUs run today. How far a step time may be off depends on it (calibration.h).
enum class Given : uint8_t { kFlags, kSoftware, kNothing };

std::string_view name_of(Given given);  // "flags", "software", "nothing"

// The program that trains a job. A model that is no transformer has none unless it is named.
struct Trainer {
  std::string software;  // "megatron-core-0.16", or ""
  SoftwareSettings settings;
  Given given = Given::kNothing;  // kFlags is the caller's to say
};
// Applies the software `name`, or if it is empty or "default" that of such GPUs, to `training` of `model`. `zero`: the
// stage of all layouts, if they have one in common. Errors as
// find_software's, which leave `training` as it is.
absl::StatusOr<Trainer> train_with(std::string_view name, std::string_view gpu_kind, const ModelShape& model,
                                   Training& training, int zero = 1);

// For files of one's own and for tests; errors have file, line and column.
absl::StatusOr<std::vector<Software>> parse_software(const std::string& text, const std::string& file);

}  // namespace scalai::step
