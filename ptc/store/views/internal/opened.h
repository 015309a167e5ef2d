#pragma once
// What opening a checkpoint finds, before it is indexed: one function for each kind of folder.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ptc/base/byte_source.h"
#include "ptc/store/safetensors/manifest.h"
#include "ptc/store/views/checkpoint.h"
#include "ptc/store/views/internal/checked_source.h"
#include "ptc/store/views/internal/sources.h"

namespace scalai::store::internal {

// The status with the place it is about in front: "PLACE: message".
absl::Status error_at(const std::string& place, const absl::Status& status);

struct OpenedTensor {
  std::string name;
  tensor::DType dtype = tensor::DType::kF32;
  int64_t offset = 0;  // of its first byte in the file
  int64_t elements = 0;
  bool alias = false;  // only repeats another one (FoundState::aliases)
  std::vector<PlacedPiece> pieces;

  int64_t bytes() const { return elements * tensor::size_of(dtype); }
};

struct OpenedFile {
  std::string name;
  ByteSourcePtr source;  // to read state from: `checked`, where there is one and damage is not accepted
  int64_t data_begin = 0;
  std::string checksum;                // of the whole file; empty: unknown
  std::vector<SummedRange> sums = {};  // in any order; compare_sums() takes them
  std::shared_ptr<const CheckedSource> checked = nullptr;
  std::vector<OpenedTensor> tensors;  // in the file's order; those that share a storage of torch are at one place
  int64_t iteration = -1;             // that a file of torch.save says; -1: none
  bool derived = false;               // is made of another file while it is read (converted.h)

  const ByteSource& stored() const { return checked ? checked->stored() : *source; }  // without comparison
};

struct Opened {
  CheckpointInfo info;
  std::optional<KnownModel> model;
  std::vector<LogicalState> states;
  std::vector<OpenedFile> files;
  std::vector<TextRecord> texts;
  std::vector<Damage> damage;  // that was known when the files were written
  std::shared_ptr<Sources> sources;
  bool accepts_damage = false;
};

// From here on reads of the files compare the checksums that are known. To be called again after files were added.
void compare_sums(Opened& opened);

// Finds out what `path` is and reads its headers. Errors: those of Checkpoint::open but for coverage and overlaps.
absl::StatusOr<Opened> open_any(const std::string& path, const OpenOptions& options);

// Problems, as many as one can read, a line each: InvalidArgument, or the first that is neither that nor NotFound (a
// server that fails says nothing about what it holds).
class ProblemList {
 public:
  void add(const std::string& problem) { add(absl::InvalidArgumentError(problem)); }
  void add(const absl::Status& problem);
  absl::Status status() const;

 private:
  absl::StatusCode code_ = absl::StatusCode::kInvalidArgument;
  std::vector<std::string> lines_;
  int64_t more_ = 0;
};

}  // namespace scalai::store::internal
