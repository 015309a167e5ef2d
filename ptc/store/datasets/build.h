#pragma once
// Builds the index of a dataset in one pass; memory does not grow with the data. All data files are read and checked
// (of Megatron the .idx instead of the .bin, of a tar the headers). The first problem is an error with file and place.
// The index is written under a temporary name beside `out`, flushed to disk and renamed before build_index returns. One
// call uses one thread; calls for different `out` may run at the same time.
//
//   kMegatron   each file is NAME.bin, NAME.idx or NAME. Version 1 of the .idx; its sequences must lie one after the
//               other and fill the .bin; all files have one dtype. The multimodal extension is refused.
//   kTfRecord   uncompressed; all checksums are compared.
//   kTar        uncompressed ustar with pax or GNU long names. A sample is all members with the same key, the path up
//               to the first dot of its last component. Members of a sample must be neighbours, and a key must occur
//               once in all files (a view may put any two samples side by side). Directories and members without a dot
//               belong to no sample, must not lie between members of one, and are counted in `left_out`. Links, devices
//               and sparse files are refused. During the build a temporary file of 16 bytes a sample lies beside `out`.
//   kFixed      record_bytes for each record; the size of a file must be a multiple.

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "ptc/base/byte_source.h"
#include "ptc/store/datasets/index.h"

namespace scalai::datasets {

struct BuildRequest {
  Format format = Format::kMegatron;
  std::vector<std::string> files;  // numbered in this order; each once
  std::string out;
  int64_t record_bytes = 0;                // kFixed: > 0
  SourceOpener opener = open_file_source;  // opens the files
  // Called during the build on the calling thread, if set: the finished fraction of the bytes, and the current file.
  // `detail` is valid during the call only.
  std::function<void(double fraction, std::string_view detail)> progress = {};
};

struct BuildSummary {
  std::string digest;
  int64_t documents = 0;
  int64_t bytes = 0;  // of the data files
  int64_t index_bytes = 0;
  int64_t tokens = 0;    // Megatron
  int64_t left_out = 0;  // tar members outside all samples
};

// NotFound: a file cannot be opened, or the index cannot be created. InvalidArgument: the request or a data file is
// wrong. ResourceExhausted: the disk is full. Aborted: a read or write failed. After an error `out` is as before.
// CHECK: an opener.
absl::StatusOr<BuildSummary> build_index(const BuildRequest& request);

}  // namespace scalai::datasets
