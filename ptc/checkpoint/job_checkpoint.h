#pragma once
// A job's checkpoint: a folder that holds the whole state of the job at one step.
//
//   step_00000012/
//     rank_000.safetensors     what rank 0 is the first holder of; a rank that is first of nothing has no file
//     rank_003.safetensors
//     collection.textproto     which tensors there are and how they are cut (ptc/collection/collection_file.h)
//     model.textproto          perhaps: which model's state it is (family.h), and other small files
//     manifest.json            job, step, epoch, digest of the collection; of each file its size and checksum (XXH3 with
//                              128 bits), of each box in it the tensor, the box and its checksum
//
// A file holds each box as a tensor of the box's shape, under the tensor's name when the rank writes one box of it, else
// (flat shards are several boxes; names with "#" always) under "NAME#0", "NAME#1", …. Which box it is stands in the
// file's metadata as "box:KEY", and in the manifest.
//
// The folder is written under a temporary name beside its own, every file and the folder flushed to disk, then renamed:
// under its own name it is whole or not there. Several processes write, each the files of its ranks:
//
//   controller   Writer::begin ── temporary(), to the workers ──►                    finish(parts)
//   workers                        Writer::join ── write_rank ── part, to the controller ──►
//
// A Reader gives any box, whichever files hold it.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ptc/collection/collection.h"
#include "ptc/tensor/box.h"

namespace scalai::checkpoint {

// What the checkpoint is of; the epoch is the collection's.
struct Stamp {
  std::string job;
  int64_t step = 0;
  friend bool operator==(const Stamp&, const Stamp&) = default;
};

// The bytes of a box, dense and row-major in the tensor's dtype, as many as the box has (CHECK). They stay valid until
// the next call. The box is one that Collection::pieces gives the rank.
using Provider = std::function<absl::StatusOr<std::span<const std::byte>>(TensorId tensor, const tensor::Box& box)>;

// Writes one checkpoint. Safe from several threads after it was made. Errors: ResourceExhausted: the disk is full; what
// the provider said; Aborted: another write failed; NotFound: a folder cannot be made.
class Writer {
 public:
  // Makes the temporary folder beside `folder` (its parents too). The collection is valid; its digest goes into all that
  // is written. An object from begin() owns the temporary folder: until finish() succeeds it removes it when it goes.
  static absl::StatusOr<Writer> begin(const std::string& folder, const collection::Collection& collection,
                                      const Stamp& stamp);
  // In any process: writes into the temporary folder of another Writer's begin() with the same arguments.
  static absl::StatusOr<Writer> join(const std::string& temporary, const collection::Collection& collection,
                                     const Stamp& stamp);
  ~Writer();
  Writer(Writer&&) noexcept;
  Writer& operator=(Writer&&) = delete;

  const std::string& temporary() const;
  // Whether the rank has a file, and the bytes of state in it.
  bool has_file(LogicalRank rank) const;
  int64_t state_bytes(LogicalRank rank) const;

  // Writes the rank's file, on disk when this returns, and gives its part of the manifest: one line of text, empty when
  // the rank has no file. Asks the provider once for each box. On an error the file is removed.
  absl::StatusOr<std::string> write_rank(LogicalRank rank, const Provider& provider) const;

  // Puts a small file beside those of the ranks (model.textproto); on disk when this returns, and named in the manifest.
  // Only on what begin() made (CHECK), from one thread, before finish(). InvalidArgument: not a plain name, one that the
  // format uses, or there already.
  absl::Status add_file(const std::string& name, std::string_view text);

  // Makes the checkpoint of these parts, one of every rank that has a file, in any order; empty ones count for nothing.
  // Replaces a checkpoint that is already there at one stroke (Unimplemented: the file system cannot; remove it first).
  // InvalidArgument: a part is missing, there twice or not of this checkpoint, or its file is not there. On an error
  // what was there before is untouched.
  absl::Status finish(std::span<const std::string> parts);

 private:
  struct State;
  explicit Writer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// Reads one checkpoint. Safe from several threads. Keeps the files open, so a checkpoint that is removed meanwhile can
// still be read.
class Reader {
 public:
  // Validates the manifest, the collection, every file's header and size, and that the boxes are those of the collection.
  // Does not read state. NotFound: no folder, or no checkpoint in it; InvalidArgument: a damaged one, by file and tensor.
  static absl::StatusOr<Reader> open(const std::string& folder);
  ~Reader();
  Reader(Reader&&) noexcept;
  Reader& operator=(Reader&&) = delete;

  const std::string& folder() const;
  const Stamp& stamp() const;
  const collection::Collection& collection() const;
  // The tensor of that name.
  std::optional<TensorId> find(const std::string& tensor) const;

  // Any box inside the tensor (CHECK) into `dst`, dense and row-major, of exactly its size (CHECK). The first time that
  // a stored box is touched all of it is read and its checksum compared; afterwards a changed file is noticed by its
  // size and time. InvalidArgument: the file is damaged, cut short or changed; Aborted: a read failed. Both name file
  // and tensor and leave nothing usable in dst.
  absl::Status read(TensorId tensor, const tensor::Box& box, std::span<std::byte> dst) const;

  // Reads everything and compares every checksum, of boxes, of whole files and of the small ones beside them. InvalidArgument: all damage found, a line
  // each.
  absl::Status verify() const;

 private:
  struct State;
  explicit Reader(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// FOLDER/step_00000012: where the checkpoints of one job lie.
std::string step_folder(const std::string& folder, int64_t step);

struct FoundCheckpoint {
  std::string path;
  int64_t step = 0;
};
// The newest complete checkpoint among the step_NNNNNNNN in a folder: its manifest is readable and of that step, and its
// files are there with their sizes. Others are passed over. None, also when there is no such folder: nullopt.
std::optional<FoundCheckpoint> latest(const std::string& folder);

// Removes temporary folders that killed writers left beside the step_NNNNNNNN, and gives their paths. Nobody may be
// writing there.
absl::StatusOr<std::vector<std::string>> clean(const std::string& folder);

}  // namespace scalai::checkpoint
