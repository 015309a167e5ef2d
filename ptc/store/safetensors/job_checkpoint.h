#pragma once
// A job's checkpoint: a folder with the whole state of the job at one step.
//
//   step_00000012/
//     rank_000.safetensors     the pieces that rank 0 is the first holder of; a rank that is first of none has no file
//     rank_003.safetensors
//     collection.textproto     the tensors and their cuts (ptc/state/collection/collection_file.h)
//     model.textproto          optional: the model (family.h), and other small files
//     manifest.json            job, step, epoch, digest of the collection; of each file its size and checksum (XXH3
//                              with 128 bits), of each box in it the tensor, the box and its checksum
//
// A file holds each box as a tensor of the box's shape. Its key is the tensor's name if the rank writes one box of the
// tensor, else "NAME#0", "NAME#1", … (flat shards are several boxes; names with "#" always get a number). The file's
// metadata has the box as "box:KEY", and so has the manifest.
//
// The folder is written under a temporary name beside its own, every file and the folder are flushed to disk, then it
// is renamed: under its own name it is complete or absent. Several processes write, each the files of its ranks:
//
//   controller   Writer::begin ── temporary(), to the workers ──►                    finish(parts)
//   workers                        Writer::join ── write_rank ── part, to the controller ──►
//
// A Reader gives any box, independent of the files that hold it.

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
#include "ptc/state/collection/collection.h"
#include "ptc/state/tensor/box.h"

namespace scalai::store {

// Job and step of a checkpoint; the epoch is the collection's.
struct Stamp {
  std::string job;
  int64_t step = 0;
  friend bool operator==(const Stamp&, const Stamp&) = default;
};

struct OwnedBox;  // manifest.h

// Gives the bytes of a box, dense and row-major in the tensor's dtype, exactly as many as the box has (CHECK). They
// must stay valid until the next call. The box is one of Collection::pieces of the rank.
using Provider = std::function<absl::StatusOr<std::span<const std::byte>>(TensorId tensor, const tensor::Box& box)>;

// Writes one checkpoint. After it was made, several threads may call const methods at once. Errors: ResourceExhausted:
// the disk is full; the provider's errors; Aborted: another write failed; NotFound: a folder cannot be made.
class Writer {
 public:
  // Makes the temporary folder beside `folder`, and missing parents. Keeps a copy of `collection`; its digest goes into
  // all files. The object owns the temporary folder: its destructor removes it unless finish() succeeded.
  // InvalidArgument: the collection cannot be stored, or step or epoch is negative.
  static absl::StatusOr<Writer> begin(const std::string& folder, const collection::Collection& collection,
                                      const Stamp& stamp);
  // In any process: writes into the temporary folder of another Writer's begin() with the same arguments.
  // InvalidArgument: the folder is of another collection.
  static absl::StatusOr<Writer> join(const std::string& temporary, const collection::Collection& collection,
                                     const Stamp& stamp);
  ~Writer();
  Writer(Writer&&) noexcept;
  Writer& operator=(Writer&&) = delete;

  // The temporary folder; lives as long as the writer.
  const std::string& temporary() const;
  // True if the rank has a file; the bytes of state in it. CHECK: the rank exists.
  bool has_file(LogicalRank rank) const;
  int64_t state_bytes(LogicalRank rank) const;
  // What write_rank() asks its provider for, in this order; and the bytes of such a box.
  absl::StatusOr<std::vector<OwnedBox>> boxes_of(LogicalRank rank) const;
  int64_t box_bytes(const OwnedBox& owned) const;

  // Writes the rank's file to disk and returns its part of the manifest: one line of text, empty if the rank has no
  // file. Calls the provider once for each box, on this thread. After an error the file is removed.
  absl::StatusOr<std::string> write_rank(LogicalRank rank, const Provider& provider) const;

  // Adds a small file beside those of the ranks (model.textproto); it is on disk when this returns, and in the
  // manifest. CHECK: the writer comes from begin(). One thread only, before finish(). InvalidArgument: not a plain
  // name, a name that the format uses, or a repeated one.
  absl::Status add_file(const std::string& name, std::string_view text);

  // Completes the checkpoint from its parts: one of every rank with a file, in any order; empty parts are ignored.
  // Replaces an existing checkpoint in one step (Unimplemented: the file system cannot; remove it first).
  // InvalidArgument: a part is missing, repeated or of another checkpoint, or its file is missing. Errors before the
  // final rename leave an existing checkpoint unchanged.
  absl::Status finish(std::span<const std::string> parts);

 private:
  struct State;
  explicit Writer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// Reads one checkpoint. Any thread may call; several may call at once. Keeps the tensor files open, so read() still
// works after the checkpoint was removed.
class Reader {
 public:
  // Validates the manifest, the collection, the header and size of every file, and the boxes against the collection.
  // Does not read state. NotFound: no folder, or no checkpoint in it. InvalidArgument: a damaged one, with file and
  // tensor.
  static absl::StatusOr<Reader> open(const std::string& folder);
  ~Reader();
  Reader(Reader&&) noexcept;
  Reader& operator=(Reader&&) = delete;

  // References live as long as the reader.
  const std::string& folder() const;
  const Stamp& stamp() const;
  const collection::Collection& collection() const;
  // The tensor of this name; nullopt: none.
  std::optional<TensorId> find(const std::string& tensor) const;

  // Reads a box of a tensor into `dst`, dense and row-major. CHECK: the box lies inside the tensor, dst has exactly its
  // bytes. On its first use a stored box is read completely and its checksum compared; later a changed file is detected
  // by size and time. InvalidArgument: the file is damaged, truncated or changed. Aborted: a read failed. Errors name
  // file and tensor; the content of dst is then undefined.
  absl::Status read(TensorId tensor, const tensor::Box& box, std::span<std::byte> dst) const;

  // Reads all files and compares every checksum: of boxes, of whole files and of the small files, which must still be
  // in the folder. InvalidArgument: all damage, one a line.
  absl::Status verify() const;

 private:
  struct State;
  explicit Reader(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// "FOLDER/step_00000012", the place of a job's checkpoint of this step.
std::string step_folder(const std::string& folder, int64_t step);

struct FoundCheckpoint {
  std::string path;
  int64_t step = 0;
};
// The newest complete checkpoint among the step_NNNNNNNN in a folder: its manifest is readable and of that step, and
// all its files exist with their sizes. Others are skipped. nullopt: none, or no such folder.
std::optional<FoundCheckpoint> latest(const std::string& folder);

// Removes a checkpoint, as well as it can: it loses its name first, so that a kill leaves all of it, or what clean()
// removes.
void remove_checkpoint(const std::string& folder);

// Removes temporary folders of killed writers, and what remove_checkpoint() was not done with, beside the
// step_NNNNNNNN, and returns their paths. No process may write there at the same time. Aborted: a folder cannot be
// removed.
absl::StatusOr<std::vector<std::string>> clean(const std::string& folder);

}  // namespace scalai::store
