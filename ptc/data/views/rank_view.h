#pragma once
// What one data-parallel rank still has to read of a pass, as files that readers of the format open: its samples from a
// step to the end of that step's pass, in the order of the pass, in shards of 8,192. Nothing is stored; every file is put
// together from the data files while it is read.
//
//   Megatron   shard_00000.bin, shard_00000.idx (version 1). A document keeps its sequences; with windows each is a document
//              of one sequence of N + 1 tokens.
//   TFRecord   shard_00000.tfrecord: the records with their framing, byte for byte
//   tar        shard_00000.tar: the members with their headers, byte for byte, then two zero blocks (not padded to 10,240
//              bytes, which no reader needs)
//   fixed      shard_00000.bin: the records
//
// Making a view and its names is O(1) whatever the number of samples. Sizes of files are closed forms where samples are
// all alike; else the first question for a shard looks up its 8,192 samples, and ShardTables remembers that. A rank with
// nothing left to read has no file. Immutable; safe from several threads.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ptc/base/byte_source.h"
#include "ptc/data/data_files.h"
#include "ptc/data/order.h"
#include "ptc/data/samples.h"
#include "ptc/data/share.h"
#include "ptc/data/state.h"
#include "ptc/data/views/shard_tables.h"

namespace scalai::data {

inline constexpr int64_t kShardSamples = 8192;

class RankView {
 public:
  struct Request {
    std::shared_ptr<const Samples> samples;
    std::shared_ptr<const DataFiles> files;  // of the same index (CHECK); shared by all views of a dataset
    State state;                             // before the step at which the view begins: Steps::at()
    DpRank who;
    std::shared_ptr<ShardTables> tables;  // shared by all views; null: one of its own
  };
  // InvalidArgument: a state that is not valid or is of another index or sequence, or no such rank.
  static absl::StatusOr<std::shared_ptr<const RankView>> make(Request request);

  // "dp4/step-1200/rank_02", for messages; folder_of() is its last part.
  const std::string& name() const { return name_; }
  static std::string folder_of(int rank);
  const Samples& samples() const { return *samples_; }
  const RankShare& share() const { return share_; }
  int64_t sample_at(int64_t k) const { return order_.at(share_.pass(), share_.position(k)); }  // the rank's k-th

  int64_t shards() const;
  int64_t files() const;                                          // of all shards; Megatron has two a shard
  std::string file_name(int64_t file) const;                      // file in [0, files()) (CHECK), also below
  std::optional<int64_t> find(std::string_view file_name) const;  // the inverse
  // InvalidArgument: the index is damaged.
  absl::StatusOr<int64_t> file_bytes(int64_t file) const;
  // What is opened does not need the view any more; it keeps the shard's table (200 KB). Its errors name view, sample and
  // data file; NotFound, InvalidArgument (cut or changed, damaged index) and Aborted as DataFiles has them.
  absl::StatusOr<ByteSourcePtr> open(int64_t file) const;

 private:
  RankView(Request request, RankShare share);
  absl::StatusOr<ShardTablePtr> table_of(int64_t shard) const;
  absl::StatusOr<ShardTablePtr> make_table(int64_t shard) const;
  int64_t samples_in(int64_t shard) const;

  std::shared_ptr<const Samples> samples_;
  std::shared_ptr<const DataFiles> files_;
  std::shared_ptr<ShardTables> tables_;
  uint64_t id_;  // in tables_
  RankShare share_;
  Order order_;
  std::string name_;
};

}  // namespace scalai::data
