#pragma once
// The remaining samples of one data-parallel rank in a pass, as files of the dataset's format: its samples from a step
// to the end of that step's pass, in the order of the pass, in shards of 8,192. Nothing is stored; a read assembles the
// bytes from the data files. Shares ownership of samples, data files and tables. Immutable; any thread may call,
// several at once.
//
//   Megatron   shard_00000.bin, shard_00000.idx (version 1). A document keeps its sequences; a window is a document of
//              one sequence of N + 1 tokens.
//   TFRecord   shard_00000.tfrecord: the records with their framing, byte for byte
//   tar        shard_00000.tar: the members with their headers, byte for byte, then two zero blocks (without the
//              padding to 10,240 bytes, which no reader needs)
//   fixed      shard_00000.bin: the records
//
// Making a view and its names is O(1) for any number of samples. Sizes of files are closed forms if all samples have
// one size. Otherwise the first query of a shard looks up its 8,192 samples, and ShardTables keeps the result. A rank
// without remaining samples has no files.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "ptc/base/byte_source.h"
#include "ptc/store/datasets/data_files.h"
#include "ptc/store/datasets/order.h"
#include "ptc/store/datasets/samples.h"
#include "ptc/store/datasets/share.h"
#include "ptc/store/datasets/state.h"
#include "ptc/store/datasets/views/shard_tables.h"

namespace scalai::datasets {

inline constexpr int64_t kShardSamples = 8192;

class RankView {
 public:
  struct Request {
    std::shared_ptr<const Samples> samples;
    std::shared_ptr<const DataFiles> files;  // of the same Index object (CHECK); shared by all views of a dataset
    State state;                             // before the first step of the view: Steps::at()
    DpRank who;
    std::shared_ptr<ShardTables> tables;  // shared by all views; null: the view makes its own
  };
  // InvalidArgument: the state is invalid or belongs to another index, number of samples or sequence, or the rank does
  // not exist. CHECK: samples and files are not null.
  static absl::StatusOr<std::shared_ptr<const RankView>> make(Request request);

  // "dp4/step-1200/rank_02", for messages; folder_of() gives its last part. References live as long as the view.
  const std::string& name() const { return name_; }
  static std::string folder_of(int rank);
  const Samples& samples() const { return *samples_; }
  const RankShare& share() const { return share_; }
  int64_t sample_at(int64_t k) const { return order_.at(share_.pass(), share_.position(k)); }  // the rank's k-th

  int64_t shards() const;
  int64_t files() const;                                          // in all shards; Megatron has two a shard
  std::string file_name(int64_t file) const;                      // CHECK here and below: file in [0, files())
  std::optional<int64_t> find(std::string_view file_name) const;  // the inverse of file_name; nullopt: no such file
  // Size of a file. InvalidArgument: the index is damaged. Aborted: it cannot be read.
  absl::StatusOr<int64_t> file_bytes(int64_t file) const;
  // Opens a file. The source does not need the view any more and keeps the shard's table (200 KB). Its errors name
  // view, sample and data file: NotFound, InvalidArgument (truncated or changed file, damaged index) and Aborted as in
  // DataFiles.
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

}  // namespace scalai::datasets
