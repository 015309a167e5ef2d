#pragma once
// The bytes of a sample, gathered from the data files. Safe from several threads.

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ptc/base/byte_source.h"
#include "ptc/data/data_files.h"
#include "ptc/data/samples.h"

namespace scalai::data {

class Reader {
 public:
  struct Options {
    bool check_crc = false;  // hold TFRecord's two checksums against the bytes of each record that is read
  };
  Reader(std::shared_ptr<const Samples> samples, SourceOpener opener, Options options);
  Reader(std::shared_ptr<const Samples> samples, SourceOpener opener)
      : Reader(std::move(samples), std::move(opener), Options{}) {}

  const Samples& samples() const { return *samples_; }
  const DataFiles& files() const { return files_; }
  // Sample i in [0, count()) (CHECK) as it lies in the files: a TFRecord with its framing, tar members with their
  // headers. Errors name file and sample. NotFound: a data file cannot be opened; InvalidArgument: it was cut or
  // changed, a checksum does not fit, or the index is damaged; Aborted: the read failed.
  absl::StatusOr<std::string> read(int64_t i) const;

 private:
  std::shared_ptr<const Samples> samples_;
  DataFiles files_;
  Options options_;
};

// The data inside a TFRecord with its framing (12 bytes before, 4 after), which has at least 16 bytes (CHECK).
std::string_view payload_of_record(std::string_view record);

}  // namespace scalai::data
