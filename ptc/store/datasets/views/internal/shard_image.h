#pragma once
// The file with the samples of a shard: .bin, .tfrecord or .tar. Gathered from the data files on each read. Keeps what
// it is made of. Immutable; safe from several threads.

#include <memory>
#include <string>

#include "ptc/base/byte_source.h"
#include "ptc/store/datasets/data_files.h"
#include "ptc/store/datasets/samples.h"
#include "ptc/store/datasets/views/shard_tables.h"

namespace scalai::datasets::internal {

struct ShardParts {
  std::string name;
  std::shared_ptr<const Samples> samples;
  std::shared_ptr<const DataFiles> files;
  ShardTablePtr table;
};

// `zeros` bytes of zero follow the samples.
ByteSourcePtr make_shard_image(ShardParts parts, int64_t zeros);

}  // namespace scalai::datasets::internal
