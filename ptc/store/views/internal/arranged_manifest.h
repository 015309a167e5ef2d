#pragma once
// manifest.json of a checkpoint of kind "arranged", as `scalai checkpoint reshard` writes it: which states there are,
// and of each file its tensors with their checksums and the pieces that they hold. It says all that is needed to read
// the files, so that neither families nor names are asked when one is opened.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ptc/store/naming/arrangement.h"
#include "ptc/store/safetensors/manifest.h"

namespace scalai::store {

inline constexpr int kArrangedVersion = 2;  // of manifest.json; version 1 is a job's checkpoint
inline constexpr const char* kArrangedKind = "arranged";

// Dtype and shape of the tensors stand in the files, but not in those of chunks.
struct ArrangedRecord {
  ArrangedFile file;             // of chunks: with dtypes, and as shapes the numbers of elements
  std::vector<int64_t> offsets;  // of chunks: where each tensor's bytes begin
  int64_t bytes = 0;
  std::string checksum;                       // of the whole file
  std::vector<std::string> tensor_checksums;  // as file.tensors
  friend bool operator==(const ArrangedRecord&, const ArrangedRecord&) = default;
};

struct ArrangedManifest {
  std::string naming;
  std::string layout;
  std::string job;
  int64_t step = -1;
  int64_t epoch = 0;
  std::optional<std::string> hf_prefix;  // CheckpointInfo
  std::string part_of;                   // digest of the whole, of which the files are a part; empty: they are all
  std::vector<LogicalState> states;
  std::vector<ArrangedRecord> files;
  std::vector<TextRecord> texts;
  std::vector<Damage> damage = {};
  friend bool operator==(const ArrangedManifest&, const ArrangedManifest&) = default;
};

std::string arranged_manifest_text(const ArrangedManifest& manifest);
// Errors (InvalidArgument) do not name the file. A piece without offset and strides is its box, dense; its tensor's
// shape and dtype are left empty. Boxes have at most kMaxRank dimensions, numbers are not negative.
absl::StatusOr<ArrangedManifest> parse_arranged_manifest(const std::string& text);

// "arranged", "" for a job's checkpoint, else what it says; InvalidArgument when the text is no JSON object.
absl::StatusOr<std::string> manifest_kind(const std::string& text);

using WeightMap = std::vector<std::pair<std::string, std::string>>;  // tensor and file, by tensor

struct WeightIndex {
  WeightMap file_by_tensor;
  std::optional<double> total_size;  // metadata.total_size: bytes, as the writer counted them; some write a fraction
};

// model.safetensors.index.json. Errors (InvalidArgument) do not name the file.
absl::StatusOr<WeightIndex> parse_weight_index(const std::string& text);

}  // namespace scalai::store
