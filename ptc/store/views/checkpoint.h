#pragma once
// Any checkpoint on disk as whole logical tensors, independent of its files:
//
//   job       a job's checkpoint (job_checkpoint.h): manifest.json without a kind
//   arranged  a result of `scalai checkpoint reshard`: manifest.json of kind "arranged", with the place of every piece
//   hf        config.json with model.safetensors, or model.safetensors.index.json and its shards
//   ranks     rank files of another program, rank_003.safetensors: OpenOptions gives names and layout
//   plain     one safetensors file; each stored tensor is a logical one
//
//   files ─► headers ─► arrangement (pieces of logical tensors) ─► index by logical tensor ─► read(tensor, box)
//
// Opening reads headers and is strict: missing, unexpected, misshaped or overlapping tensors are refused, all problems
// at once. Trained tensors that nothing has a place for are left out only if the options name them. It reads state in
// one case only: a tensor that repeats another (the stored head of a tied model) must equal it. Reads compare
// checksums, where files have some: the first read of any part of a stored tensor reads all of it.
// Boxes in several files (norms on every tensor-parallel rank, both homes of a tied embedding) are replicas: one is
// read, verify() compares them. Owns its open files. Immutable; any thread may call, several at once.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ptc/base/byte_source.h"
#include "ptc/state/collection/collection.h"
#include "ptc/state/model/model.h"
#include "ptc/state/tensor/box.h"
#include "ptc/state/transform/transform.h"
#include "ptc/store/naming/arrangement.h"
#include "ptc/store/naming/family.h"
#include "ptc/store/safetensors/copy_block.h"
#include "ptc/store/safetensors/job_checkpoint.h"
#include "ptc/store/safetensors/manifest.h"

namespace scalai::store {

enum class CheckpointKind : uint8_t { kJob, kArranged, kHuggingFace, kRanks, kPlain };
std::string_view name_of(CheckpointKind kind);  // "job", "arranged", "hf", "ranks", "plain"; static storage

// Information that a checkpoint may lack. All may stay empty.
struct OpenOptions {
  std::string names;     // naming of the tensors: "hf", "megatron", "logical"
  std::string from;      // layout of rank files, "tp8,pp4"
  std::string config;    // path of a config.json
  std::string model;     // catalogue name, as an alternative
  std::string families;  // folder of families that add to or replace the built-in ones
  int64_t kv_heads = 0;  // heads of keys and values are replicated up to so many; 0: as they are
  // The only trained tensors that may be left out. Names or patterns (name_patterns.h) of tensors as files have them,
  // which nothing here has a place for; each must name one, unless drop_may_be_idle.
  std::vector<std::string> drop;
  bool drop_may_be_idle = false;
  // Also an optimizer's state that has no place here; where heads are replicated masters and moments, of which copies
  // are no state.
  bool drop_optimizer = false;
  std::map<model::StateKind, tensor::DType> dtypes;  // floating states of these kinds are cast
  std::vector<transform::Step> transforms;           // applied in order while state is read; after `dtypes`
  std::shared_ptr<transform::Device> device;         // computes the steps' chunks; null: the host does
  SourceOpener opener;                               // opens the files; absent: local files
  bool accept_damage = false;                        // reads do not compare checksums; verify() still does
};

// Adds what a user names: "optimizer", or names and patterns of tensors.
void add_drop(std::span<const std::string> words, OpenOptions& options);

// What Megatron-Core keeps beside tensors: arguments, learning rates, scheduler; a file of torch.save that nobody here
// looks into. Newer ones keep a list of one such dict as an object among the tensors, older ones the dict as common.pt.
struct MegatronCommon {
  std::string bytes;  // empty: none
  bool listed = false;
  const char* file_name() const { return listed ? "common_state.pt" : "common.pt"; }
};

struct CheckpointInfo {
  CheckpointKind kind = CheckpointKind::kPlain;
  std::string path;
  bool local = true;   // not on a server
  std::string naming;  // "job", "hf", "megatron", "logical"
  std::string layout;  // canonical layout name; empty: whole tensors, or a layout without a name
  std::string job;     // of a job's checkpoint, also if it was resharded
  int64_t step = -1;
  int64_t epoch = 0;
  std::string config;  // text of config.json; empty: none
  MegatronCommon common;
  bool transformer_engine = false;  // names are those of its modules
  // Prefix of Hugging Face's names ("transformer."), so that a way back gives the same names; absent: unknown.
  std::optional<std::string> hf_prefix;
  // Files of the folder without state (tokenizer.json), sorted; on a server, which lists none, those of well-known
  // names.
  std::vector<std::string> others;
  std::string transforms;               // digest of the steps, and of other states that they read; empty: none
  std::set<std::string> stale_masters;  // of parameters that steps have given other values
  std::set<std::string> dropped;        // names of tensors that were left out, for OpenOptions::drop names them
  std::vector<std::string> notes;       // what is odd and no error, for the one who reads
  std::vector<Damage> damage;           // that was accepted when the files were written
};

// The model of the state, if files or options name it.
struct KnownModel {
  model::Model model;
  std::optional<Family> family;  // absent: a catalogue model without a naming
  ModelFile file;                // set if `family` is
  bool built_in = true;          // of the family; another one is stored as family.textproto
};

struct CheckpointFile {
  std::string name;  // relative to the folder
  int64_t bytes = 0;
  int64_t tensors = 0;
  std::string checksum;  // XXH3 with 128 bits of the whole file; empty: unknown
  int64_t summed = 0;    // of the tensors: those whose bytes have a checksum, in a manifest or an archive
};

// A job's state that no file holds, as in the memories of the hosts that train it.
struct HeldState {
  std::string place;  // for messages: "out/run: job a, step 12"
  collection::Collection collection;
  std::vector<TensorId> tensors;  // that are held; none: all
  Stamp stamp;
  std::string model;  // text of model.textproto; empty: unknown
  std::string id;     // another content has another one
  // Reads bytes from `offset` on of a box that a rank is the first holder of (manifest.h), dense and row-major in the
  // tensor's dtype. Any thread, several at once. Its errors are those of reads.
  std::function<absl::Status(TensorId tensor, const tensor::Box& owned, int64_t offset, std::span<std::byte> dst)> read;
};

class Checkpoint {
 public:
  // Opens a folder or a file. NotFound: nothing readable there. InvalidArgument: no checkpoint; one that needs an
  // option (the message names it); or a damaged one, one problem a line.
  static absl::StatusOr<std::shared_ptr<const Checkpoint>> open(const std::string& path,
                                                                const OpenOptions& options = {});
  // Of the kind "job", as if its files were there; reads nothing. Errors: InvalidArgument, the model or a tensor.
  static absl::StatusOr<std::shared_ptr<const Checkpoint>> of_held(HeldState held);
  ~Checkpoint();
  Checkpoint(const Checkpoint&) = delete;
  Checkpoint& operator=(const Checkpoint&) = delete;

  // References and pointers below live as long as the checkpoint.
  const CheckpointInfo& info() const;
  const KnownModel* model() const;  // nullptr: unknown
  // Parameters in the model's order, then other state, each name once.
  const std::vector<LogicalState>& tensors() const;
  std::optional<size_t> find(const std::string& tensor) const;  // index in tensors()
  const std::vector<CheckpointFile>& files() const;
  int64_t state_bytes() const;  // of all tensors, each once
  // Digest of the names, versions (ByteSource::version) and headers of the files and of the places of all state in
  // them. Another identity means another checkpoint.
  const std::string& identity() const;
  // Digest of some bytes of every stored tensor, the same on all machines that see the files; on a server that says the
  // versions of files, of these. Training changes it. Reads.
  std::string sampled_content() const;
  int64_t memory_bytes() const;  // approximate memory of this object
  int64_t shared_bytes()
      const;  // bound of what all threads together take while they read: chunks of OpenOptions::device
  int64_t thread_bytes() const;  // bound of what a thread allocates while it reads, for OpenOptions::transforms

  // Reads a box of tensors()[tensor] into dst, dense and row-major. CHECK: the box lies inside the tensor, dst has
  // exactly its bytes. Errors are those of ByteSource::read, or InvalidArgument if the bytes do not have their
  // checksum; they name tensor and file, and the content of dst is then undefined.
  absl::Status read(size_t tensor, const tensor::Box& box, std::span<std::byte> dst) const;

  // Appends to `out` the blocks that read a piece. Offset and strides of the piece count elements of the destination,
  // which begins at byte `dst`. Together the blocks write each byte of the piece once.
  void compose(size_t tensor, const tensor::Piece& piece, int64_t dst, std::vector<CopyBlock>& out) const;
  // The files that compose() reads the box from, each with its part of the box.
  void for_each_home(size_t tensor, const tensor::Box& box,
                     const std::function<void(uint32_t file, const tensor::Box& part)>& visit) const;
  // A file of info().others. Errors of ByteSource's openers.
  absl::StatusOr<ByteSourcePtr> open_other(const std::string& name) const;
  // The source of CopyBlock::file.
  const ByteSource& source(size_t file) const;

  // Reads all files: compares checksums, if there are any, and replicas with each other. `progress` may be absent;
  // worker threads call it, one at a time. InvalidArgument: all damage with file, tensor and box, one a line.
  struct VerifyOptions {
    int threads = 1;
    bool sums = true;                       // compare with checksums
    bool replicas = true;                   // compare copies of the same state
    int part = 0, parts = 1;                // of the files and states only those of this share
    std::vector<Damage>* damage = nullptr;  // gets what has not its checksum, which is then no error; of all parts
    std::function<void(int64_t bytes_done, int64_t bytes_total)> progress;
  };
  absl::Status verify(const VerifyOptions& options) const;
  // InvalidArgument: info().damage, one a line. verify() does not tell it: the files are as they were written.
  absl::Status known_damage() const;
  bool has_replicas() const;
  // How many of the stored tensors have checksums.
  struct Sums {
    int64_t tensors = 0, summed = 0;
    bool of_manifest = true;  // those of all; else archives' CRC-32, which do not cover what is around tensors
  };
  Sums sums() const;
  // Whether a read or verify() has come upon bytes without their checksum.
  bool has_damage() const;
  bool accepts_damage() const;  // OpenOptions::accept_damage
  // Compares the small files that the manifest names with its checksums, unless damage is accepted. InvalidArgument:
  // all that differ.
  absl::Status check_texts() const;
  // Whether all that was read is of one content (ByteSource::confirm): to be asked after the last read, before what was
  // made of it gets its name. InvalidArgument: what has changed meanwhile, one a line.
  absl::Status confirm() const;
  // Whether another run can tell by versions that it reads the same.
  bool has_versions() const;

 private:
  struct State;
  explicit Checkpoint(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace scalai::store
