#pragma once
// A view: one layout of a checkpoint as files, without writing any. `scalai fs` shows them, `scalai reshard` writes them,
// byte for byte the same; only manifest.json, which holds checksums of what was written, is in no view.
//
//   Checkpoint + ViewSpec ─► names of files (at once)
//                        └─► header, size and blocks of one file (when asked for) ─► ByteSource
//
// Safe from several threads.

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ptc/base/byte_source.h"
#include "ptc/checkpoint/checkpoint.h"
#include "ptc/collection/collection.h"
#include "ptc/collection/layout_name.h"

namespace scalai::checkpoint {

// What a view shows. Its name, which is also what --to of `scalai reshard` takes:
//
//     view   := "hf" | layout | naming SEP layout | layout SEP naming       SEP is "," or "-", as in the layout
//     naming := "hf" | "megatron" | "logical" | "job"
//     layout := as in ptc/collection/layout_name.h, e.g. tp2,pp1 or tp4-pp2-zero1
//
// Alone, "hf" is whole tensors in files of at most shard_bytes. With a layout there is one file a rank: under Megatron's
// names, Hugging Face's, our own ("logical"), or as a job's checkpoint that the executor opens ("job").
struct ViewSpec {
  std::string
      naming;  // empty: of the checkpoint: "job" for a job's, else "megatron" if its family is known, else "logical"
  std::optional<collection::ParallelConfig> layout;  // absent: whole tensors, or as `collection` says
  std::optional<collection::Collection> collection;  // any layout, as a collection file gives it
  int64_t shard_bytes = 5'000'000'000;               // whole tensors: most bytes of tensors in a file of several
};
// InvalidArgument: what is wrong, and where.
absl::StatusOr<ViewSpec> parse_view_name(std::string_view text);
// One name for all ways to write it, fit for a folder: "hf", "tp4-pp2", "logical-tp4-pp2".
std::string canonical(const ViewSpec& spec);

namespace internal {
class FileImage;
}

// Checksums of a file that was written.
struct FileSums {
  std::string file;                            // XXH3 with 128 bits of all of it
  std::map<std::string, std::string> tensors;  // by name in the file
};

class View {
 public:
  // InvalidArgument: the checkpoint cannot be laid out so, with tensor and box; the name is none.
  static absl::StatusOr<std::shared_ptr<const View>> make(std::shared_ptr<const Checkpoint> checkpoint, ViewSpec spec);
  static absl::StatusOr<std::shared_ptr<const View>> make(std::shared_ptr<const Checkpoint> checkpoint,
                                                          std::string_view name);
  ~View();
  View(const View&) = delete;
  View& operator=(const View&) = delete;

  const Checkpoint& checkpoint() const;
  const ViewSpec& spec() const;     // with the naming filled in
  const std::string& name() const;  // canonical, without the naming where it is the checkpoint's default

  // The files, sorted by name: safetensors files and the small ones that describe them (config.json,
  // model.safetensors.index.json, collection.textproto, model.textproto, family.textproto). Fast for any number of ranks.
  size_t files() const;
  const std::string& file_name(size_t file) const;
  std::optional<size_t> find(std::string_view file_name) const;
  bool is_safetensors(size_t file) const;

  // Size, and the file to read from. The first call for a file works out its header and pieces: some milliseconds for a
  // rank of thousands of tensors; size() keeps only the number. Sources stay valid on their own. InvalidArgument: as
  // make(), for what shows only there. Read errors name the file of the view, the tensor, and the file underneath.
  absl::StatusOr<int64_t> size(size_t file) const;
  absl::StatusOr<ByteSourcePtr> open(size_t file) const;

  // For those who write the view. What a safetensors file holds, and where each of its bytes comes from.
  absl::StatusOr<std::shared_ptr<const internal::FileImage>> image(size_t file) const;
  absl::StatusOr<ArrangedFile> arrangement(size_t file) const;
  // The text of manifest.json for what was written: a checksum for each file, and for each tensor of a safetensors file.
  absl::StatusOr<std::string> manifest(const std::vector<FileSums>& files) const;

  // What the view leaves out or lacks, a sentence each ("hf" holds parameters only).
  const std::vector<std::string>& notes() const;
  // The states that the view has files for: indices in checkpoint().tensors().
  const std::vector<size_t>& tensors() const;
  // The layout as a collection; nullptr: whole tensors.
  const collection::Collection* collection() const;

 private:
  struct State;
  explicit View(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace scalai::checkpoint
