#pragma once
// manifest.json of a job's checkpoint, and its parts, which the writer of each rank hands to the process that calls
// Writer::finish. Values and pure functions; any thread may call them.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ptc/state/collection/collection.h"
#include "ptc/state/tensor/box.h"

namespace scalai::store {

inline constexpr int kManifestVersion = 1;
inline constexpr const char* kManifestName = "manifest.json";
inline constexpr const char* kCollectionName = "collection.textproto";

// One box of one tensor in one file.
struct BoxRecord {
  std::string tensor;
  std::string key;  // name of the stored tensor in the file
  tensor::Box box;
  std::string checksum;
  friend bool operator==(const BoxRecord&, const BoxRecord&) = default;
};

struct FileRecord {
  std::string name;
  int rank = 0;
  int64_t bytes = 0;
  std::string checksum;          // of the whole file
  std::vector<BoxRecord> boxes;  // in the file's order
  friend bool operator==(const FileRecord&, const FileRecord&) = default;
};

// A small file that goes with the checkpoint, such as model.textproto.
struct TextRecord {
  std::string name;
  int64_t bytes = 0;
  std::string checksum;
  friend bool operator==(const TextRecord&, const TextRecord&) = default;
};

// State that was copied from a damaged file, as its owner wanted.
struct Damage {
  std::string what;                 // file, tensor and box of the source, and what is wrong
  std::vector<std::string> states;  // that were read from there; none: nobody knows
  friend bool operator==(const Damage&, const Damage&) = default;
};

struct Manifest {
  std::string job;
  int64_t step = 0;
  int64_t epoch = 0;
  std::string collection_digest;
  std::vector<FileRecord> files;  // by rank
  std::vector<TextRecord> texts;  // by name
  std::vector<Damage> damage = {};
  friend bool operator==(const Manifest&, const Manifest&) = default;
};

// The text of manifest.json, and of a part: a manifest of one file on one line.
std::string manifest_text(const Manifest& manifest);
std::string manifest_part(const Manifest& manifest);

// Parses both. Errors (InvalidArgument) do not name the file: another schema version (the message has both), fields
// that are missing or of another type, malformed checksums.
absl::StatusOr<Manifest> parse_manifest(const std::string& text);

// A line of the list "damage" of manifest.json.
std::string damage_line(const Damage& damage);

// The boxes that each rank writes: the pieces of which it is the first holder, by tensor, then box. Replicas are
// written once.
struct OwnedBox {
  TensorId tensor;
  tensor::Box box;
  friend bool operator==(const OwnedBox&, const OwnedBox&) = default;
};
std::vector<std::vector<OwnedBox>> owned_boxes(const collection::Collection& collection);
// Keys of these boxes in the rank's file.
struct BoxInFile {
  OwnedBox owned;
  std::string key;
};
std::vector<BoxInFile> boxes_in_file(const collection::Collection& collection, const std::vector<OwnedBox>& owned);
std::vector<int64_t> extents_of(const tensor::Box& box);
// True if a small file may have this name: a plain name that the format does not use itself.
bool is_text_name(const std::string& name);

// "rank_003.safetensors".
std::string rank_file_name(int rank);
// Metadata of a rank's file, and the metadata key of a box in it.
std::map<std::string, std::string> file_metadata(const Manifest& manifest, int rank);
std::string box_metadata_key(const std::string& key);

}  // namespace scalai::store
