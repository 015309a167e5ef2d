#pragma once
// The columns of an index file, read where they are asked for. Rows come in blocks of 1 MiB, each with a checksum: a
// block is read whole and checked when it is first touched, and a few of the last ones are kept. Of a block that was
// checked and let go again single rows are read, as orders that are shuffled want them; whoever reads on in it gets it
// whole. Opening reads only the checksums, 16 bytes a block. Safe from several threads.

#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ptc/base/byte_source.h"
#include "ptc/store/datasets/internal/index_format.h"

namespace scalai::datasets {

class IndexColumns {
 public:
  // Of a file with this header, locations as stored. InvalidArgument: its table of checksums is damaged.
  static absl::StatusOr<std::unique_ptr<const IndexColumns>> open(ByteSourcePtr source, const IndexHeader& header);

  // Rows [first, first + rows.size()) of a column (CHECK). InvalidArgument: they are damaged, or the file was cut or
  // changed; Aborted: it cannot be read.
  absl::Status read(int column, int64_t first, std::span<int64_t> rows) const;
  // Reads and checks every block, also those that were checked before.
  absl::Status check_all() const;

 private:
  struct Column {
    int64_t begin = 0;  // in the file
    int64_t rows = 0;
    std::string sums;  // kBlockSumBytes of each block
    std::vector<char> checked;
    // Reads of single rows one after the other from the same block, that was not kept.
    int64_t missed_block = -1;
    int misses = 0;
  };
  struct Block {
    int column = 0;
    int64_t number = 0;
    std::string bytes;
  };
  using BlockPtr = std::shared_ptr<const Block>;

  explicit IndexColumns(ByteSourcePtr source) : source_(std::move(source)) {}
  // The block when it is kept; nullptr with `single`: rows may be read alone, otherwise it is to be loaded.
  BlockPtr recall(int column, int64_t number, bool& single) const;
  absl::StatusOr<BlockPtr> load(int column, int64_t number) const;
  void keep(const BlockPtr& block) const;

  ByteSourcePtr source_;
  mutable std::mutex mutex_;
  mutable std::vector<Column> columns_;  // what changes in them is under the mutex
  mutable std::list<BlockPtr> recent_;   // the last used first
};

}  // namespace scalai::datasets
