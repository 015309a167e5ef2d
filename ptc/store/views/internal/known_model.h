#pragma once
// Whose state a checkpoint holds: from model.textproto, a config.json, or a name of the catalogue.

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "ptc/store/views/checkpoint.h"

namespace scalai::store::internal {

inline constexpr const char* kFamilyFileName = "family.textproto";
inline constexpr const char* kConfigFileName = "config.json";

struct ModelHints {
  std::string model_file;   // text of model.textproto; empty: none
  std::string family_file;  // text of family.textproto; empty: none
  std::string config;       // text of config.json; empty: none
  std::string place;        // of these, for messages: the folder
};

// What the options say, else what the folder says, else nullopt. Errors of files name them.
absl::StatusOr<std::optional<KnownModel>> known_model(const OpenOptions& options, const ModelHints& hints);

}  // namespace scalai::store::internal
