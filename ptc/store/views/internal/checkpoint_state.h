#pragma once
// What a Checkpoint consists of, for its .cpp files.

#include <functional>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include "ptc/store/views/checkpoint.h"
#include "ptc/store/views/internal/opened.h"
#include "ptc/store/views/internal/piece_index.h"

namespace scalai::store {

struct Checkpoint::State {
  internal::Opened opened;
  std::vector<internal::PieceIndex> index;  // by tensor
  std::vector<CheckpointFile> files;
  std::unordered_map<std::string, size_t> tensor_of_name;
  std::string identity;
  int64_t state_bytes = 0;
  int64_t memory_bytes = 0;
  int64_t thread_bytes = 0;
  int64_t shared_bytes = 0;
  std::shared_ptr<const Checkpoint> base;  // as it lies, where states are transformed: its files are verified
  std::vector<std::shared_ptr<const Checkpoint>> others;  // that the transforms read: verified, too

  mutable std::mutex texts_mutex;
  mutable std::optional<absl::Status> texts;  // of check_texts(); absent: not known yet

  absl::Status transform(const OpenOptions& options);
  absl::Status build();
  // Tensors that only repeat others are equal to them: one of the two is read, and nobody would see the other. Reads
  // them.
  absl::Status check_aliases() const;
  std::vector<const Checkpoint*> sources() const;  // base and others
  int64_t bytes_to_verify(const VerifyOptions& options) const;
  absl::Status verify_sources(const VerifyOptions& options) const;
  const internal::OpenedTensor& stored(const internal::SourcePiece& piece) const {
    return opened.files[piece.file].tensors[piece.tensor];
  }
  std::string place(const internal::SourcePiece& piece) const;  // "DIR/rank_000.safetensors: tensor "x""
  ~State();
  // The states that a file's range is read for; and `tensor "key" ("state" box …)` of its first tensor.
  std::vector<std::string> states_in(size_t file, const internal::SummedRange& range) const;
  std::string describe(size_t file, const internal::SummedRange& range) const;
  std::function<Damage(size_t file, const internal::SummedRange& range)> damage_of() const;
  std::string location_of(const std::string& name) const;  // of a file of the folder

 private:
  void index_file(size_t file, internal::ProblemList& problems);
  std::string problem_of(const PlacedPiece& placed, const internal::OpenedTensor& stored) const;
  absl::Status identify();
};

}  // namespace scalai::store
