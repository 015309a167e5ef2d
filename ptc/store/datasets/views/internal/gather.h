#pragma once
// Fills a buffer from front to back with pieces of data files. Pieces that touch in their file become one read; so do
// windows that share a token with the one before, which are moved apart in the buffer afterwards. For one thread.

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "ptc/store/datasets/data_files.h"

namespace scalai::datasets::internal {

class Gather {
 public:
  Gather(const DataFiles& files, std::span<std::byte> dst) : files_(files), dst_(dst) {}

  // The next bytes of the buffer, which has room for them (CHECK); `sample` is told when their read fails. Reads happen
  // here or in finish(), which the buffer must be full for (CHECK). After an error the buffer is of no use.
  absl::Status add(const Extent& piece, int64_t sample);
  absl::Status finish();

  int64_t added() const { return added_; }
  // Of the read in the making, or of the one that failed.
  int64_t first_sample() const { return first_sample_; }
  int64_t last_sample() const { return last_sample_; }

 private:
  absl::Status flush();

  const DataFiles& files_;
  std::span<std::byte> dst_;
  int64_t added_ = 0;
  // The read in the making: one range of a file, and the pieces of it where they overlap.
  int64_t dst_begin_ = 0;
  Extent run_;
  std::vector<Extent> pieces_;
  int64_t first_sample_ = 0;
  int64_t last_sample_ = 0;
  // The file of the last read, which is often that of the next.
  int source_file_ = -1;
  ByteSourcePtr source_;
};

}  // namespace scalai::datasets::internal
