#pragma once
// What the builders of the four formats share: the request, the data files and the header that grows.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ptc/base/byte_source.h"
#include "ptc/store/datasets/build.h"
#include "ptc/store/datasets/internal/index_format.h"
#include "ptc/store/datasets/internal/index_writer.h"
#include "ptc/store/datasets/internal/scanner.h"

namespace scalai::datasets {

class Building {
 public:
  explicit Building(const BuildRequest& request) : request_(request) { header.format = request.format; }

  IndexHeader header;
  BuildSummary summary;

  const BuildRequest& request() const { return request_; }
  size_t files() const { return paths_.size(); }
  const std::string& path(size_t file) const { return paths_[file]; }
  int64_t begin_of(size_t file) const { return begins_[file]; }  // in all data files one after the other

  // Opens each data file once: sizes, times, edges, and where they lie as seen from the index.
  absl::Status describe(std::vector<std::string> paths);
  // Opens data file `file` again; InvalidArgument: it was changed meanwhile.
  absl::StatusOr<ByteSourcePtr> open(size_t file) const;
  // After it was read: it still is the one described.
  absl::Status check_unchanged(size_t file) const;
  // `position` of data file `file` was reached.
  void progress(size_t file, int64_t position) const;

 private:
  const BuildRequest& request_;
  std::vector<std::string> paths_;
  std::vector<int64_t> begins_;
  int64_t total_ = 0;
};

// NAME.bin, NAME.idx or NAME → NAME.
std::string megatron_stem(const std::string& file);
// The counts and the dtype of all .idx files, into the header.
absl::Status read_megatron_counts(Building& building);

// Fill the columns; for formats whose documents are not known before, also their number in the header.
absl::Status index_megatron(Building& building, IndexWriter& writer);
absl::Status index_tfrecord(Building& building, IndexWriter& writer);
absl::Status index_tar(Building& building, IndexWriter& writer);

}  // namespace scalai::datasets
