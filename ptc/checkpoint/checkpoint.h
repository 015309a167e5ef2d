#pragma once
// Any checkpoint on disk as whole logical tensors, whatever its files look like:
//
//   job       a job's checkpoint (job_checkpoint.h): manifest.json without a kind
//   arranged  what `scalai reshard` wrote: manifest.json of kind "arranged", which says where every piece lies
//   hf        config.json with model.safetensors, or model.safetensors.index.json and its shards
//   ranks     rank files of somebody else, rank_003.safetensors: names and layout are told (OpenOptions)
//   plain     one safetensors file; its tensors stand for themselves
//
//   files ─► headers ─► arrangement (pieces of logical tensors) ─► index by logical tensor ─► read(tensor, box)
//
// Opening reads headers and is strict: what is missing, unexpected, of another shape, or overlaps is refused, all
// problems at once. It reads state in one case only: a tensor that repeats another (the stored head of a tied model) has to
// be equal to it. Boxes that several files hold (norms on every tensor-parallel rank, both homes of a tied
// embedding) are replicas: one is read, verify() compares them. Immutable and safe from several threads; keeps its files
// open.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ptc/base/byte_source.h"
#include "ptc/checkpoint/arrangement.h"
#include "ptc/checkpoint/copy_block.h"
#include "ptc/checkpoint/family.h"
#include "ptc/model/model.h"
#include "ptc/tensor/box.h"

namespace scalai::checkpoint {

enum class CheckpointKind : uint8_t { kJob, kArranged, kHuggingFace, kRanks, kPlain };
std::string_view name_of(CheckpointKind kind);  // "job", "arranged", "hf", "ranks", "plain"

// What a checkpoint may not say of itself. All may stay empty.
struct OpenOptions {
  std::string names;     // "hf", "megatron", "logical": whose names the tensors have
  std::string from;      // layout of rank files, "tp8,pp4"
  std::string config;    // path of a config.json
  std::string model;     // catalogue name, as an alternative
  std::string families;  // folder of naming families that add to the built-in ones, or replace them
  SourceOpener opener;   // absent: local files
};

struct CheckpointInfo {
  CheckpointKind kind = CheckpointKind::kPlain;
  std::string path;
  std::string naming;  // "job", "hf", "megatron", "logical"
  std::string layout;  // canonical; empty: whole tensors, or a layout without such a name
  std::string job;     // of a job's checkpoint, and what was made of one
  int64_t step = -1;
  int64_t epoch = 0;
  std::string config;  // text of config.json; empty: none
  // What Hugging Face's names began with ("transformer."), so that going back to them gives the same; absent: unknown.
  std::optional<std::string> hf_prefix;
  // Names in a local folder that say nothing of the state and are not taken along (tokenizer.json), sorted.
  std::vector<std::string> others;
};

// The model whose state it is, where files or options say so.
struct KnownModel {
  model::Model model;
  std::optional<Family> family;  // absent: a model of the catalogue for which there is no naming
  ModelFile file;                // with a family
  bool built_in = true;          // the family; another goes along as family.textproto
};

struct CheckpointFile {
  std::string name;  // in the folder
  int64_t bytes = 0;
  int64_t tensors = 0;
  std::string checksum;  // XXH3 with 128 bits of all of it; empty: unknown
};

class Checkpoint {
 public:
  // A folder or a file. Errors: NotFound: nothing there that can be read; InvalidArgument: no checkpoint, one that needs
  // telling what it is (the message says which option), or a damaged one, a line a problem.
  static absl::StatusOr<std::shared_ptr<const Checkpoint>> open(const std::string& path,
                                                                const OpenOptions& options = {});
  ~Checkpoint();
  Checkpoint(const Checkpoint&) = delete;
  Checkpoint& operator=(const Checkpoint&) = delete;

  const CheckpointInfo& info() const;
  const KnownModel* model() const;  // nullptr: unknown
  // Parameters in the model's order, then what else there is, each name once.
  const std::vector<LogicalState>& tensors() const;
  std::optional<size_t> find(const std::string& tensor) const;  // index in tensors()
  const std::vector<CheckpointFile>& files() const;
  int64_t state_bytes() const;  // of all tensors, each once
  // Of the files' names, versions (ByteSource::version) and headers and of what lies where in them: another one is another
  // checkpoint.
  const std::string& identity() const;
  int64_t memory_bytes() const;  // about what this object takes

  // A box of tensors()[tensor] (inside it, CHECK) into dst, dense and row-major, of exactly its bytes (CHECK). Errors as
  // ByteSource::read; they name tensor and file, and leave nothing usable in dst.
  absl::Status read(size_t tensor, const tensor::Box& box, std::span<std::byte> dst) const;

  // Where the elements of a piece come from: blocks appended to `out`. The piece's offset and strides count elements of
  // the destination, which begins at byte `dst`. Together the blocks write each byte of the piece once.
  void compose(size_t tensor, const tensor::Piece& piece, int64_t dst, std::vector<CopyBlock>& out) const;
  // The file that a CopyBlock names.
  const ByteSource& source(size_t file) const;

  // Reads everything: checksums where there are any, and replicas against each other. `progress` (may be absent) hears
  // how many bytes have been read. InvalidArgument: all damage by file, tensor and box, a line each.
  struct VerifyOptions {
    int threads = 1;
    std::function<void(int64_t bytes_done, int64_t bytes_total)> progress;
  };
  absl::Status verify(const VerifyOptions& options) const;

 private:
  struct State;
  explicit Checkpoint(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace scalai::checkpoint
