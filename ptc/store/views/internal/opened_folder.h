#pragma once
// One folder of a checkpoint, wherever it is: its small texts, and the names in it.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ptc/base/byte_source.h"
#include "ptc/store/views/checkpoint.h"
#include "ptc/store/views/internal/sources.h"

namespace scalai::store::internal {

inline constexpr const char* kWholeName = "model.safetensors";
inline constexpr std::string_view kTensorsExtension = ".safetensors";
inline constexpr const char* kNewestIteration = "latest_checkpointed_iteration.txt";  // Megatron's
inline constexpr const char* kBackendName = "metadata.json";                          // Megatron-Core's

// Most bytes of a text: what people write, and what lists every tensor of a large checkpoint.
inline constexpr int64_t kMostConfigBytes = int64_t{4} << 20;
inline constexpr int64_t kMostManifestBytes = int64_t{1} << 31;

class Folder {
 public:
  // sources: of all files of the checkpoint; nullptr: those of this folder.
  Folder(std::string path, const OpenOptions& options, std::shared_ptr<Sources> sources = nullptr)
      : path_(std::move(path)),
        options_(options),
        sources_(sources ? std::move(sources) : std::make_shared<Sources>(options.opener)) {}
  // Another folder of the same checkpoint.
  Folder(std::string path, const Folder& other) : Folder(std::move(path), other.options_, other.sources_) {}

  const std::string& path() const { return path_; }
  const OpenOptions& options() const { return options_; }
  bool local() const { return !options_.opener; }
  std::string path_of(const std::string& name) const { return path_ + "/" + name; }

  absl::StatusOr<ByteSourcePtr> source(const std::string& name) const;
  // Whether there is a file of the name; what else keeps it from being read is an error.
  absl::StatusOr<bool> has(const std::string& name) const;
  // nullopt when there is nothing of the name. What is there and is no file, cannot be read, is empty or larger than
  // `most` is an error: taken for absent, it would change what the folder is.
  absl::StatusOr<std::optional<std::string>> text(const std::string& name, int64_t most) const;

  // Of a local folder, sorted; nothing when it is remote. Names that begin with a dot are left out.
  std::vector<std::string> tensor_files() const;  // "*.safetensors"
  // Neither in `taken` nor what describes a checkpoint. On a server: of the names that models usually have.
  // Errors of a server but that there is no such file.
  absl::StatusOr<std::vector<std::string>> others(const std::vector<std::string>& taken) const;
  // For the end of a sentence: what torch wrote there and how to read it; empty where there is nothing of torch.
  std::string hint_of_torch() const;

 private:
  std::vector<std::string> names() const;
  std::string path_;
  const OpenOptions& options_;
  std::shared_ptr<Sources> sources_;
};

bool is_rank_file(const std::string& name);  // "rank_003.safetensors"

// config.json, manifest.json, folders of iterations, …
bool describes_checkpoint(const std::string& name);
// Whether a name is that of a file which belongs to a model beside its state: tokenizer, generation settings, chat
// template, code of the model, licence; not weights in other formats.
bool is_extra(const std::string& name);
// Whether such a file goes along when the model is written anew. A link does if it leads to a file of the folder or, as
// in a cache of downloads, to one in a folder "blobs": whoever made the folder may not choose what else is read.
bool goes_along(const std::string& folder, const std::string& name);

}  // namespace scalai::store::internal
