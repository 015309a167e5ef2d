#pragma once
// Collection files: a collection and its residency as text, for state that no built-in model describes. Format:
// ptc/proto/collection.proto; examples: docs/collection-files.md. Reading reports all problems at once, each with its
// place. Any thread may call.

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "ptc/state/collection/collection.h"

namespace scalai::collection {

struct CollectionFile {
  Collection collection;
  Residency residency;
  std::string digest;  // of the meaning: files with equal content have equal digests
};

// kExists: the state exists, and the file may have a residency. kPlanned: the state has no holders yet, and a residency
// is refused.
enum class FileRole : uint8_t { kExists, kPlanned };

// Parses textproto, or JSON if the name ends in ".json" or the text begins with "{". InvalidArgument: the message is
// the rendered diagnostics. Besides the errors of validate() it refuses unknown names, axes that the tensor's mesh
// lacks, sizes that do not add up, names that appear twice, more than 2^17 ranks and more than 2^18 tensors.
absl::StatusOr<CollectionFile> parse_collection(const std::string& text, const std::string& file_name,
                                                FileRole role = FileRole::kExists);
// The same from a file. NotFound: the file cannot be read, or is larger than 64 MiB.
absl::StatusOr<CollectionFile> load_collection(const std::string& path, FileRole role = FileRole::kExists);

// Text of a file that parses back to an equal collection and residency. Needs a valid collection, cuts and pins on axes
// of their meshes, and printable names without braces. Tensors are listed one by one, without `repeat`.
std::string collection_text(const Collection& collection, const Residency& residency);

}  // namespace scalai::collection
