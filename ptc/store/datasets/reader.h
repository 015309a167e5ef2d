#pragma once
// Reads the bytes of a sample from the data files. Shares ownership of the samples; owns the open data files. Any
// thread may call; several may call at once.

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "ptc/base/byte_source.h"
#include "ptc/store/datasets/data_files.h"
#include "ptc/store/datasets/samples.h"

namespace scalai::datasets {

class Reader {
 public:
  struct Options {
    bool check_crc = false;  // compare both checksums of each TFRecord that is read
  };
  Reader(std::shared_ptr<const Samples> samples, SourceOpener opener, Options options);
  Reader(std::shared_ptr<const Samples> samples, SourceOpener opener)
      : Reader(std::move(samples), std::move(opener), Options{}) {}

  // References live as long as the reader.
  const Samples& samples() const { return *samples_; }
  const DataFiles& files() const { return files_; }
  // Sample i as it lies in the files: a TFRecord with its framing, tar members with their headers. CHECK: i in
  // [0, count()). Errors name file and sample. NotFound: a data file cannot be opened. InvalidArgument: a data file was
  // truncated or changed, a checksum is wrong, or the index is damaged. Aborted: the read failed.
  absl::StatusOr<std::string> read(int64_t i) const;

 private:
  std::shared_ptr<const Samples> samples_;
  DataFiles files_;
  Options options_;
};

// The data of a TFRecord without its framing (12 bytes before, 4 after). The result is a view into `record`. CHECK: at
// least 16 bytes.
std::string_view payload_of_record(std::string_view record);

}  // namespace scalai::datasets
