#include "ptc/store/views/internal/opened_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "ptc/base/status.h"
#include "ptc/base/url.h"
#include "ptc/base/utf8.h"
#include "ptc/store/naming/arrange.h"
#include "ptc/store/safetensors/job_checkpoint.h"
#include "ptc/store/safetensors/manifest.h"
#include "ptc/store/views/internal/known_model.h"

namespace scalai::store::internal {

absl::StatusOr<ByteSourcePtr> Folder::source(const std::string& name) const {
  return sources_->open(local() ? path_of(name) : location_in(path_, name));
}

absl::StatusOr<bool> Folder::has(const std::string& name) const {
  const absl::StatusOr<ByteSourcePtr> found = source(name);
  if (found.ok() || absl::IsNotFound(found.status())) return found.ok();
  return found.status();
}

absl::StatusOr<std::optional<std::string>> Folder::text(const std::string& name, int64_t most) const {
  const absl::StatusOr<ByteSourcePtr> found = source(name);
  if (absl::IsNotFound(found.status())) {
    std::error_code error;
    const bool there = local() && std::filesystem::symlink_status(path_of(name), error).type() !=
                                      std::filesystem::file_type::not_found;
    if (there && !error) return invalid(message_of(found.status()));  // a folder, a link to nowhere
    return std::optional<std::string>();
  }
  if (!found.ok()) return found.status();
  const int64_t bytes = (*found)->size();
  if (bytes > most) return invalid(fmt::format("{}: has {} bytes, more than {}", path_of(name), bytes, most));
  if (bytes == 0) return invalid(fmt::format("{}: is empty", path_of(name)));
  SCALAI_ASSIGN_OR_RETURN(std::string text, read_all(**found));
  return std::optional<std::string>(std::move(text));
}

std::vector<std::string> Folder::names() const {
  std::vector<std::string> names;
  if (!local()) return names;
  std::error_code error;
  for (std::filesystem::directory_iterator it(path_, error), end; !error && it != end; it.increment(error)) {
    std::string name = it->path().filename().string();
    if (name.front() != '.') names.push_back(std::move(name));
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<std::string> Folder::tensor_files() const {
  std::vector<std::string> found = names();
  std::erase_if(found, [](const std::string& name) { return !name.ends_with(kTensorsExtension); });
  return found;
}

absl::StatusOr<std::vector<std::string>> Folder::others(const std::vector<std::string>& taken) const {
  std::vector<std::string> found = names();
  constexpr std::array<const char*, 14> kUsual = {"LICENSE",
                                                  "README.md",
                                                  "added_tokens.json",
                                                  "chat_template.jinja",
                                                  "merges.txt",
                                                  "generation_config.json",
                                                  "preprocessor_config.json",
                                                  "special_tokens_map.json",
                                                  "tokenizer.json",
                                                  "tokenizer.model",
                                                  "tokenizer_config.json",
                                                  "vocab.json",
                                                  "vocab.txt",
                                                  "spiece.model"};
  for (const char* const name : kUsual) {
    if (local()) break;
    SCALAI_ASSIGN_OR_RETURN(const bool there, has(name));
    if (there) found.emplace_back(name);
  }
  std::erase_if(found, [&](const std::string& name) {
    return describes_checkpoint(name) || std::find(taken.begin(), taken.end(), name) != taken.end();
  });
  return found;
}

std::string Folder::hint_of_torch() const {
  const std::vector<std::string> there = names();
  const auto found = std::find_if(there.begin(), there.end(), [](const std::string& name) {
    return name.ends_with(".bin") || name.ends_with(".pt") || name.ends_with(".pth") || name.ends_with(".distcp") ||
           name == kNewestIteration || name.starts_with("iter_") || name.starts_with("mp_rank_");
  });
  if (found == there.end()) return "";
  return fmt::format(", but torch's {}; ptc/store/tools/torch_to_safetensors.py {} DST makes what is read here",
                     clipped(*found, 80), path_);
}

bool describes_checkpoint(const std::string& name) {
  return name == kConfigFileName || name == kFamilyFileName || name == kModelFileName || name == kIndexFileName ||
         name == kManifestName || name == kCollectionName || name == kBackendName || name == kNewestIteration ||
         name.starts_with("iter_") || name == "release";
}

// Narrow, because --force also removes files of these names.
bool is_extra(const std::string& name) {
  constexpr std::array<std::string_view, 6> kBeginnings = {"tokenizer", "LICENSE",    "LICENCE",
                                                           "NOTICE",    "USE_POLICY", "chat_template"};
  constexpr std::array<std::string_view, 3> kEndings = {".json", ".jinja", ".tiktoken"};
  constexpr std::array<std::string_view, 5> kCode = {"modeling_", "configuration_", "tokenization_", "processing_",
                                                     "generation_"};
  constexpr std::array<std::string_view, 5> kNames = {"vocab.txt", "merges.txt", "README.md", "spiece.model",
                                                      "sentencepiece.bpe.model"};
  if (name.ends_with(".index.json")) return false;  // of weights in other files
  const auto begins = [&](std::string_view text) { return name.starts_with(text); };
  const auto ends = [&](std::string_view text) { return name.ends_with(text); };
  return std::any_of(kBeginnings.begin(), kBeginnings.end(), begins) ||
         std::any_of(kEndings.begin(), kEndings.end(), ends) ||
         (name.ends_with(".py") && std::any_of(kCode.begin(), kCode.end(), begins)) ||
         std::find(kNames.begin(), kNames.end(), name) != kNames.end();
}

bool goes_along(const std::string& folder, const std::string& name) {
  std::error_code error;
  const std::filesystem::path real = std::filesystem::canonical(folder + "/" + name, error);
  if (error || !is_extra(name) || !std::filesystem::is_regular_file(real, error)) return false;
  const std::filesystem::path parent = real.parent_path();
  return parent.filename() == "blobs" || parent == std::filesystem::canonical(folder, error);
}

bool is_rank_file(const std::string& name) {
  constexpr std::string_view kPrefix = "rank_";
  if (!name.starts_with(kPrefix) || !name.ends_with(kTensorsExtension)) return false;
  const std::string digits = name.substr(kPrefix.size(), name.size() - kPrefix.size() - kTensorsExtension.size());
  return !digits.empty() && digits.find_first_not_of("0123456789") == std::string::npos;
}

}  // namespace scalai::store::internal
