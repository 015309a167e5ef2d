#pragma once
// Arrangements by naming: how the state of a model lies in files under the names of a framework (arrangement.h), for
// writing (arrange) and for reading strictly what is there (read).
//
//   Family + "megatron" + Sizes ─► Naming ─► WHOLE  whole tensors: Hugging Face folders
//                                        └─► RANKS  what each rank of a Collection holds: rank_003.safetensors
//
// A stored tensor is [transposed] the concatenation along dim 0 of parts; a part is a logical tensor or a selection of
// its rows. In a rank's file each part is what the rank holds of it (padding included), and the stored tensor is the
// concatenation of these. Optimizer state of a parameter is stored the same way under the stored name with its suffix
// (".exp_avg"); its flat shards (ZeRO) are 1-D, parts one after the other. State outside of the family (rng.host, step,
// data.cursor) keeps its own name. Values and functions of values; safe from several threads.

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ptc/base/ids.h"
#include "ptc/checkpoint/arrangement.h"
#include "ptc/checkpoint/family.h"
#include "ptc/collection/collection.h"

namespace scalai::checkpoint {

// A naming of a family for one model's sizes; or our own names, which need no family: one stored tensor for each
// logical one, under its name, as it lies in the rank's buffer.
class Naming {
 public:
  // InvalidArgument: no such naming in the family ("logical" is always one), or sizes that build_model refuses.
  static absl::StatusOr<Naming> of(const Family& family, const std::string& naming, const Sizes& sizes);
  static Naming logical();

  const std::string& name() const;                   // "hf", "megatron", "logical"
  const std::vector<std::string>& prefixes() const;  // that names may have; the first is what is written
  struct State;
  const State& state() const { return *state_; }

 private:
  explicit Naming(std::shared_ptr<const State> state) : state_(std::move(state)) {}
  std::shared_ptr<const State> state_;
};

// ---- Writing ----

inline constexpr int64_t kShardBytes = 5'000'000'000;

struct WholeOptions {
  int64_t shard_bytes = kShardBytes;  // of tensors in one file
  std::optional<std::string> prefix;  // one of Naming::prefixes(); absent: the first
};
// Whole tensors in files: "model.safetensors", or "model-00001-of-0000N.safetensors" when they are more than
// shard_bytes. The order is that of the naming (layers in order, in each its tensors, then the experts' in order),
// files are filled in this order, and a tensor that does not fit begins the next file; one that is larger than a file
// has one to itself. Metadata is {"format": "pt"}. What is given is arranged: pass parameters only for a Hugging Face
// folder. Aliases (the head of a tied model) are not written. InvalidArgument, naming tensor and box: a state has not
// the shape of the model, a part of a stored tensor is not among the states, parts of different dtypes, two tensors of
// one name.
absl::StatusOr<std::vector<ArrangedFile>> arrange_whole(const Naming& naming, std::span<const LogicalState> states,
                                                        const WholeOptions& options = {});
// "model.safetensors.index.json" of these files, as transformers writes it; there is none for a single file.
inline constexpr std::string_view kIndexFileName = "model.safetensors.index.json";
std::string index_text(std::span<const ArrangedFile> files);

// Of 16 ranks "rank_003.safetensors"; always at least three digits.
std::string rank_file_name(LogicalRank rank);

// The files of the ranks of one collection, built one at a time: arrange() costs what one rank holds.
class RankArranger {
 public:
  // The collection is valid and outlives this. InvalidArgument: a parameter of the family is not in the collection, or
  // has another shape.
  static absl::StatusOr<RankArranger> make(const Naming& naming, const collection::Collection& collection);
  ~RankArranger();
  RankArranger(RankArranger&&) noexcept;
  RankArranger& operator=(RankArranger&&) = delete;

  // Everything that the rank holds, replicas too; a buffer without elements is left out, so the file may have no
  // tensor. The file is rank_file_name(rank) and has no metadata. Every element that the rank holds is in exactly one
  // piece (checked). Layers count from 0 in the stage: a stage's runs of consecutive layers are its virtual stages, and
  // when it has several of them the naming's chunk prefix ("model0.") is put before the names. InvalidArgument, naming
  // tensor and box: rows of a selection are cut inside a query group (tp beyond the groups under "hf"), flat shards of
  // a selection or of a transposed tensor, parts of one stored tensor that are cut differently or have different
  // dtypes.
  absl::StatusOr<ArrangedFile> arrange(LogicalRank rank) const;

 private:
  struct State;
  explicit RankArranger(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};
// The same for one rank.
absl::StatusOr<ArrangedFile> arrange_rank(const Naming& naming, const collection::Collection& collection,
                                          LogicalRank rank);

// ---- Reading ----

// What a file's header says.
struct FoundTensor {
  std::string name;
  tensor::DType dtype = tensor::DType::kF32;
  std::vector<int64_t> shape;
};
struct FoundFile {
  std::string name;
  std::vector<FoundTensor> tensors;
};

// How the files that were found hold state. Several pieces may hold the same elements of a logical tensor: replicas on
// other ranks, the second home of a tied embedding, and aliases. They are copies and should be equal.
struct FoundState {
  std::vector<LogicalState> states;  // in the order of the model or collection; dtypes are those that are stored
  std::vector<ArrangedFile> files;   // as given, each with its tensors in the order found, without the ignored ones
  // By file: names of tensors that only repeat another one (the head of a tied model that was stored all the same). What
  // they hold is read from the other; they have to be equal to it.
  std::vector<std::set<std::string>> aliases;
  std::string prefix;                // that the names have; empty when there is none or no one prefix
  std::vector<std::string> ignored;  // "FILE: NAME" of what the naming says to ignore
};

// Whole tensors, in any number of files. Errors (InvalidArgument), all problems at once, a line each (those that
// explain others first; at most 50, then how many more): missing and unexpected tensors, a name twice, wrong shapes
// with what was expected and a hint (padded vocabulary, transposed, another number of layers), a logical tensor whose
// parts have different dtypes. CHECK: the naming is of a family.
absl::StatusOr<FoundState> read_whole(const Naming& naming, std::span<const FoundFile> files);

// Which states of the collection have to be there.
enum class Expect : uint8_t {
  kAll,    // all of them, in the collection's dtypes: files that describe themselves
  kFound,  // every parameter; of optimizer state all of a kind or nothing, of state outside of the family what is
           // there: files of others, where the collection comes from a layout name. dtypes are those that are stored
};
// files[i] is what rank i has. Errors as of read_whole, besides those of RankArranger.
absl::StatusOr<FoundState> read_ranks(const Naming& naming, const collection::Collection& collection,
                                      std::span<const FoundFile> files, Expect expect);
// The collection with just these states, in their dtypes; states it does not have are left out.
collection::Collection with_states(const collection::Collection& collection, std::span<const LogicalState> states);

}  // namespace scalai::checkpoint
