#pragma once
// Builds the index of a dataset, streaming: memory does not grow with the data. All data files are read and checked
// (Megatron's .idx rather than its .bin, the headers of a tar); the first thing that is wrong is an error that names
// the file and the place. Written to a temporary name beside `out` and renamed, on disk when this returns.
//
//   kMegatron   each file is NAME.bin, NAME.idx or NAME: version 1 of the .idx, whose sequences must lie one after the
//               other and fill the .bin, all files with one dtype. Its multimodal extension is refused.
//   kTfRecord   uncompressed; all checksums are checked.
//   kTar        uncompressed ustar with pax or GNU long names. A sample is the members that share a key, the path up to
//               the first dot of its last component. They must be neighbours and no other sample, in any of the files,
//               may have that key (a view may put any two side by side). Directories and members without a dot belong to
//               no sample, must not lie between members of one, and are counted in `left_out`; links, devices and sparse files are refused. While it is built,
//               16 bytes a sample lie beside `out`.
//   kFixed      record_bytes each; a file's size must be a multiple.

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "ptc/base/byte_source.h"
#include "ptc/data/index.h"

namespace scalai::data {

struct BuildRequest {
  Format format = Format::kMegatron;
  std::vector<std::string> files;  // in the order in which their documents are numbered; each once
  std::string out;
  int64_t record_bytes = 0;                // kFixed: > 0
  SourceOpener opener = open_file_source;  // opens the files
  // Called now and then: fraction of the bytes looked at, and what is being read.
  std::function<void(double fraction, std::string_view detail)> progress = {};
};

struct BuildSummary {
  std::string digest;
  int64_t documents = 0;
  int64_t bytes = 0;  // of the data files
  int64_t index_bytes = 0;
  int64_t tokens = 0;    // Megatron
  int64_t left_out = 0;  // tar members that belong to no sample
};

// NotFound: a file cannot be opened, or the index cannot be created; InvalidArgument: the request or a data file is
// wrong; ResourceExhausted: the disk is full. On an error nothing of the name `out` has changed.
absl::StatusOr<BuildSummary> build_index(const BuildRequest& request);

}  // namespace scalai::data
