#pragma once
// A view: one layout of a checkpoint as virtual files; nothing is written. `scalai fs` shows them, `scalai checkpoint
// reshard` writes the same bytes. Only manifest.json, with the checksums of written files, is in no view.
//
//   Checkpoint + ViewSpec ─► names of files (at once)
//                        └─► header, size and blocks of one file (on demand) ─► ByteSource
//
// Shares ownership of the checkpoint. Any thread may call; several may call at once.

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "ptc/base/byte_source.h"
#include "ptc/state/collection/collection.h"
#include "ptc/state/collection/layout_name.h"
#include "ptc/store/views/checkpoint.h"

namespace scalai::store {

// Specification of a view. Its name, also the value of --to of `scalai checkpoint reshard`:
//
//     view   := whole | layout | naming SEP layout | layout SEP naming       SEP is "," or "-", as in the layout
//     whole  := "hf" | "logical" | "dcp" | "torch_dist"
//     naming := "hf" | "megatron" | "logical" | "job" | "torch" | "vllm"
//     layout := as in ptc/state/collection/layout_name.h, e.g. tp2,pp1 or tp4-pp2-zero1
//
// Under Megatron's names an etp that the layout does not say is tp, as Megatron's own.
// Whole tensors are in files of at most shard_bytes: of Hugging Face, under the names that they have here ("logical",
// of any model, known or not), of torch.distributed.checkpoint (under the names of
// Hugging Face), or of Megatron-Core. With a layout there is one file for each rank: under the names of Megatron, of
// Hugging Face, or our own ("logical"), as a job's checkpoint for the executor ("job"), or Megatron-LM's own ("torch",
// a model_optim_rng.pt for each of tp, pp and ep), or vLLM's sharded state ("vllm", parameters only).
enum class ViewForm : uint8_t { kSafetensors, kTorch, kTorchDist, kDcp, kVllm };

struct ViewSpec {
  // Empty: the checkpoint's default: "job" for a job's checkpoint, else "megatron" if its family has these names,
  // else "logical".
  std::string naming;
  ViewForm form = ViewForm::kSafetensors;
  std::optional<collection::ParallelConfig> layout;  // absent: whole tensors, or the layout of `collection`
  bool etp_said = true;                              // by the name of the layout
  bool extras = true;     // tokenizer, licence, …: what the source has beside state goes along
  bool optimizer = true;  // false: masters, moments and previous versions are left out; not of a job's checkpoint
  bool masters = true;    // false: masters and previous versions are
  // Megatron's names as Transformer Engine's modules have them, in files of ranks; absent: as in the source.
  std::optional<bool> transformer_engine;
  int part = 0, parts = 1;     // of the files only a share, equal by bytes: those of part 0 ≤ part < parts
  int64_t vocab_multiple = 0;  // of the rows of a rank's vocabulary, in layouts; 0: 128, as Megatron's
  std::optional<collection::Collection> collection;  // any layout, from a collection file
  int64_t shard_bytes = 5'000'000'000;               // whole tensors: maximum bytes of tensors in a file of several
};
// InvalidArgument: the problem and its place in the text.
absl::StatusOr<ViewSpec> parse_view_name(std::string_view text);
// The one canonical name of equal specifications, fit for a folder: "hf", "tp4-pp2", "logical-tp4-pp2".
std::string canonical(const ViewSpec& spec);

// InvalidArgument: files of this form have no place for states of an optimizer that the checkpoint has and `spec` does
// not leave out (masters, moments, previous versions). A view looks itself, but for "hf", which leaves them out with a
// note.
absl::Status check_places(const Checkpoint& checkpoint, const ViewSpec& spec);

namespace internal {
class FileImage;
}

// Checksums of a written file.
struct FileSums {
  std::string file;                            // XXH3 with 128 bits of the whole file
  std::map<std::string, std::string> tensors;  // by name in the file
};

class View {
 public:
  // InvalidArgument: the checkpoint cannot be laid out this way, with tensor and box; or the name is invalid.
  static absl::StatusOr<std::shared_ptr<const View>> make(std::shared_ptr<const Checkpoint> checkpoint, ViewSpec spec);
  static absl::StatusOr<std::shared_ptr<const View>> make(std::shared_ptr<const Checkpoint> checkpoint,
                                                          std::string_view name);
  ~View();
  View(const View&) = delete;
  View& operator=(const View&) = delete;

  // References and pointers below live as long as the view.
  const Checkpoint& checkpoint() const;
  const std::shared_ptr<const Checkpoint>& checkpoint_ptr() const;
  const ViewSpec& spec() const;     // the naming is never empty
  const std::string& name() const;  // canonical, without the naming if it is the checkpoint's default

  // The files, sorted by name, which may have folders in front: files of tensors, the small files that describe them
  // (config.json, model.safetensors.index.json, collection.textproto, model.textproto, family.textproto), and what goes
  // along. Fast for any number of ranks. CHECK below: file < files().
  size_t files() const;
  const std::string& file_name(size_t file) const;
  std::optional<size_t> find(std::string_view file_name) const;
  bool has_folder(std::string_view folder) const;  // whether names begin with it: "release/"
  bool has_tensors(size_t file) const;

  // Size and content of a file. The first call for a file computes its header and pieces: some milliseconds for a rank
  // of thousands of tensors; size() keeps only the number. Sources may outlive the view. InvalidArgument: as in make(),
  // for problems of one file. Read errors name the file of the view, the tensor, and the underlying file.
  absl::StatusOr<int64_t> size(size_t file) const;
  absl::StatusOr<ByteSourcePtr> open(size_t file) const;

  // For writers of the view: the content of a file of tensors and the origin of each byte.
  absl::StatusOr<std::shared_ptr<const internal::FileImage>> image(size_t file) const;
  absl::StatusOr<ArrangedFile> arrangement(size_t file) const;
  // The text of manifest.json for written files: a checksum for each file, and for each tensor of a file of tensors.
  // damage: of the source, that was accepted; what was known of it before is added where the view has such state.
  absl::StatusOr<std::string> manifest(const std::vector<FileSums>& files, std::vector<Damage> damage = {}) const;

  // Content that the view omits or lacks, a sentence each ("hf" holds parameters only).
  const std::vector<std::string>& notes() const;
  // The states in the view's files: indices in checkpoint().tensors().
  const std::vector<size_t>& tensors() const;
  // The layout as a collection; nullptr: whole tensors.
  const collection::Collection* collection() const;

 private:
  struct State;
  explicit View(std::unique_ptr<State> state);
  absl::Status take_part();
  std::vector<Damage> damage_here(std::vector<Damage> damage) const;
  std::unique_ptr<State> state_;
};

}  // namespace scalai::store
