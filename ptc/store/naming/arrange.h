#pragma once
// Arrangements by naming: the places of a model's state in files under the names of a framework (arrangement.h).
// arrange_* makes them for writing, read_* finds them strictly in existing files.
//
//   Family + "megatron" + Sizes ─► Naming ─► WHOLE  whole tensors: Hugging Face folders
//                                        └─► RANKS  the state of each rank of a Collection: rank_003.safetensors
//
// A stored tensor is the concatenation of parts along dim 0, possibly transposed. A part is a logical tensor or a
// selection of its rows. In a rank's file each part is the rank's share of it (padding included), and the stored tensor
// is the concatenation of these shares. Optimizer state of a parameter is stored the same way under the stored name
// with its suffix (".exp_avg"); its flat shards (ZeRO) are 1-D, parts one after the other. State outside of the family
// (rng.host, step, data.cursor) keeps its own name. Values and functions of values; any thread may call, several at
// once.

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ptc/base/ids.h"
#include "ptc/state/collection/collection.h"
#include "ptc/store/naming/arrangement.h"
#include "ptc/store/naming/family.h"

namespace scalai::store {

// A naming of a family for one model's sizes. Naming::logical() is our own naming and needs no family: each logical
// tensor is one stored tensor under its name, as it lies in the rank's buffer. Copies share their immutable data.
// Rows of a fused projection by group: so many heads of queries, one of keys and one of values, of head_dim rows each.
struct HeadRows {
  int64_t queries = 1;
  int64_t head_dim = 1;
};

class Naming {
 public:
  // InvalidArgument: the family has no such naming ("logical" always exists), or build_model refuses the sizes.
  static absl::StatusOr<Naming> of(const Family& family, const std::string& naming, const Sizes& sizes);
  static Naming logical();

  // References live as long as any copy of the naming.
  const std::string& name() const;                                        // "hf", "megatron", "logical"
  const std::vector<std::string>& prefixes() const;                       // prefixes of names; the first is written
  std::optional<HeadRows> head_rows(const std::string& parameter) const;  // nullopt: its rows are not such
  struct State;
  const State& state() const { return *state_; }

 private:
  explicit Naming(std::shared_ptr<const State> state) : state_(std::move(state)) {}
  std::shared_ptr<const State> state_;
};

// ---- Writing ----

inline constexpr int64_t kShardBytes = 5'000'000'000;

struct WholeOptions {
  int64_t shard_bytes = kShardBytes;  // maximum bytes of tensors in a file of several
  std::optional<std::string> prefix;  // one of Naming::prefixes(); absent: the first
};
// Whole tensors in files: "model.safetensors", or "model-00001-of-0000N.safetensors" above shard_bytes. The order is
// that of the naming: layers in order, in each its tensors, then the experts in order. Files are filled in this order;
// a tensor that does not fit starts the next file, and a tensor larger than shard_bytes has its own file. Metadata is
// {"format": "pt"}. All of `states` is arranged: pass only parameters for a Hugging Face folder. Aliases (the head of a
// tied model) are not written. InvalidArgument, with tensor and box: a state differs in shape from the model; a part of
// a stored tensor is not among the states; parts have different dtypes; two tensors have one name.
absl::StatusOr<std::vector<ArrangedFile>> arrange_whole(const Naming& naming, std::span<const LogicalState> states,
                                                        const WholeOptions& options = {});
// "model.safetensors.index.json" of these files, as transformers writes it. A single file needs none.
inline constexpr std::string_view kIndexFileName = "model.safetensors.index.json";
std::string index_text(std::span<const ArrangedFile> files);

// "rank_003.safetensors"; always at least three digits.
std::string rank_file_name(LogicalRank rank);

// The files of the ranks of one collection, built one at a time: arrange() costs as much as the state of one rank.
class RankArranger {
 public:
  // `collection` must be valid and outlive the arranger; `naming` is copied. InvalidArgument: a parameter of the family
  // is absent from the collection or has another shape.
  // fused: Megatron's names are those of Transformer Engine's modules, with which norms are parts of the linear layers
  // behind them (`also` of a family's file) and experts are numbered parts of one.
  static absl::StatusOr<RankArranger> make(const Naming& naming, const collection::Collection& collection,
                                           bool fused = false);
  ~RankArranger();
  RankArranger(RankArranger&&) noexcept;
  RankArranger& operator=(RankArranger&&) = delete;

  // All state of the rank, replicas too. Buffers without elements are left out, so the file may have no tensor. The
  // file is rank_file_name(rank) and has no metadata. Every element of the rank is in exactly one piece (checked).
  // Layers count from 0 in the stage. Each run of consecutive layers of a stage is a virtual stage; with several of
  // them the naming's chunk prefix ("model0.") precedes the names. InvalidArgument, with tensor and box: rows of a
  // selection are cut inside a query group (tp above the number of groups under "hf"); flat shards of a selection or of
  // a transposed tensor; parts of one stored tensor with different cuts or dtypes.
  absl::StatusOr<ArrangedFile> arrange(LogicalRank rank) const;

 private:
  struct State;
  explicit RankArranger(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// ---- Reading ----

// A tensor in the header of a file.
struct FoundTensor {
  std::string name;
  tensor::DType dtype = tensor::DType::kF32;
  std::vector<int64_t> shape;
};
struct FoundFile {
  std::string name;
  std::vector<FoundTensor> tensors;
};

// Places of state in existing files. Several pieces may hold the same elements of a logical tensor: replicas on other
// ranks, the second home of a tied embedding, and aliases. They are copies and should be equal.
struct FoundState {
  std::vector<LogicalState> states;  // in the order of the model or collection, with the stored dtypes
  std::vector<ArrangedFile> files;   // as given, each with its tensors in the order found, without the ignored ones
  // By file: names of tensors that repeat another one (a stored head of a tied model). Their content is read from the
  // other tensor and must equal it.
  std::vector<std::set<std::string>> aliases;
  std::string prefix;  // common prefix of the names; empty: none or several
  std::vector<std::string>
      ignored;  // "FILE: NAME" of each tensor that the naming ignores, for it is known to be no trained state
  std::vector<std::string> optimizer;  // likewise of an optimizer's state whose names do not say the parameter
  std::set<std::string> dropped;       // names that `drop` has, and nothing here a place for
  // The key of config.json that counts layers behind the model's last, if those were dropped.
  std::string dropped_layers_key;
};

// Whole tensors in any number of files. Errors (InvalidArgument) have all problems, one a line, causes first; at most
// 50, then the number of the others: missing and unexpected tensors; a repeated name; wrong shapes with the expected
// shape and a hint (padded vocabulary, transposed, another number of layers); a logical tensor with parts of different
// dtypes. CHECK: the naming is of a family.
// drop: names or patterns (name_patterns.h) of tensors that may be left out, if the naming has no place for them.
enum class WholeStates : uint8_t {
  kParams,
  // and under their names with ".master", ".exp_avg", ".exp_avg_sq", ".momentum": of each of these all or nothing
  kOptimizer,
};
absl::StatusOr<FoundState> read_whole(const Naming& naming, std::span<const FoundFile> files,
                                      WholeStates expected = WholeStates::kParams,
                                      std::span<const std::string> drop = {});

// Required states of the collection.
enum class Expect : uint8_t {
  // All states, in the collection's dtypes: for files that describe themselves.
  kAll,
  // Every parameter; of each kind of optimizer state all or nothing; other state if present. For files of other
  // programs with a collection from a layout name. The dtypes are the stored ones.
  kFound,
};
// Files of ranks; files[i] belongs to rank i. Errors: those of read_whole and of RankArranger.
absl::StatusOr<FoundState> read_ranks(const Naming& naming, const collection::Collection& collection,
                                      std::span<const FoundFile> files, Expect expect,
                                      std::span<const std::string> drop = {});
// The collection reduced to these states, in their dtypes. States that the collection lacks are ignored.
collection::Collection with_states(const collection::Collection& collection, std::span<const LogicalState> states);

}  // namespace scalai::store
