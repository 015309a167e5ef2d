#pragma once
// manifest.json of a job's checkpoint, and the parts that each rank's writer hands to the one that finishes.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ptc/collection/collection.h"
#include "ptc/tensor/box.h"

namespace scalai::checkpoint {

inline constexpr int kManifestVersion = 1;
inline constexpr const char* kManifestName = "manifest.json";
inline constexpr const char* kCollectionName = "collection.textproto";

// One box of one tensor in one file.
struct BoxRecord {
  std::string tensor;
  std::string key;  // the tensor's name in the file
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

struct Manifest {
  std::string job;
  int64_t step = 0;
  int64_t epoch = 0;
  std::string collection_digest;
  std::vector<FileRecord> files;  // by rank
  std::vector<TextRecord> texts;  // by name
  friend bool operator==(const Manifest&, const Manifest&) = default;
};

// A part is a manifest of one file, on one line.
std::string manifest_text(const Manifest& manifest);
std::string manifest_part(const Manifest& manifest);

// Reads both. Errors (InvalidArgument) do not name the file: another schema version (both are named), what is missing or
// of another type, checksums that are none.
absl::StatusOr<Manifest> parse_manifest(const std::string& text);

// What each rank writes: the pieces of which it is the first holder, by tensor, then box. Replicas write nothing twice.
struct OwnedBox {
  TensorId tensor;
  tensor::Box box;
};
std::vector<std::vector<OwnedBox>> owned_boxes(const collection::Collection& collection);
// Under which keys they lie in the rank's file.
struct BoxInFile {
  OwnedBox owned;
  std::string key;
};
std::vector<BoxInFile> boxes_in_file(const collection::Collection& collection, const std::vector<OwnedBox>& owned);
std::vector<int64_t> extents_of(const tensor::Box& box);
// Whether a file of that name may lie beside the ranks' files: a plain name that the format does not use itself.
bool is_text_name(const std::string& name);

// "rank_003.safetensors".
std::string rank_file_name(int rank);
// What a file says of itself, and of each box in it.
std::map<std::string, std::string> file_metadata(const Manifest& manifest, int rank);
std::string box_metadata_key(const std::string& key);

}  // namespace scalai::checkpoint
