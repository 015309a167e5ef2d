#pragma once
// Collection files: any collection as text, for state that no built-in model describes (ptc/proto/collection.proto;
// examples in ptc/collection/README.md). Reading reports all problems at once, each with its place.

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "ptc/collection/collection.h"

namespace scalai::collection {

struct CollectionFile {
  Collection collection;
  Residency residency;
  std::string digest;  // of what the file means: two files that say the same have the same
};

// Whose state a file speaks of: a state that is still to be made has no holders yet, so that a residency is refused.
enum class FileRole : uint8_t { kExists, kPlanned };

// Textproto, or JSON when the name ends in ".json" or the text begins with "{". Errors (InvalidArgument) are rendered
// diagnostics. Refused besides what validate() refuses: unknown names, axes that the tensor's mesh lacks, sizes that do
// not add up, names that come out twice, more than 2^17 ranks or 2^18 tensors.
absl::StatusOr<CollectionFile> parse_collection(const std::string& text, const std::string& file_name,
                                                FileRole role = FileRole::kExists);
// The same from a file of at most 64 MiB; a file that cannot be read is NotFound.
absl::StatusOr<CollectionFile> load_collection(const std::string& path, FileRole role = FileRole::kExists);

// A file that reads back equal. The collection is valid, cuts and pins name axes of their meshes, and names are fit to
// print and have no braces. Repetition is written out.
std::string collection_text(const Collection& collection, const Residency& residency);

}  // namespace scalai::collection
