#pragma once
// Statistics of parts of tensors, each of which one host has in its files: what `scalai checkpoint stats --host` asks
// of the hosts of a checkpoint whose files are spread over them. The work is a file of JSON, sent along with the
// command:
//
//   {"files": [[path, bytes], …],
//    "parts": [{"dtype": "F32", "elements": n, "blocks": [[file, src, dst, extents, src strides, dst strides], …],
//               "before_dtype": …, "before": blocks of the same elements in the other checkpoint, if any}, …]}
//
// The answer has the statistics of each part, in their order. Any thread.

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ptc/base/byte_source.h"
#include "ptc/base/command.h"
#include "ptc/state/tensor/dtype.h"
#include "ptc/state/tensor/element_stats.h"
#include "ptc/store/safetensors/copy_block.h"

namespace scalai::apps {

// Some elements of a tensor: the blocks write all of them into dense memory. Files are numbers in a list that goes
// along.
struct StatsSide {
  tensor::DType dtype = tensor::DType::kF32;
  std::vector<store::CopyBlock> blocks;
};
struct StatsPart {
  int64_t elements = 0;
  StatsSide now;
  std::optional<StatsSide> before;  // the same elements of another checkpoint
};
struct PartStats {
  tensor::ElementStats elements;
  std::optional<tensor::ElementChange> change;
};

// Errors are those of the sources.
absl::StatusOr<PartStats> stats_of_part(const StatsPart& part, const std::vector<ByteSourcePtr>& sources);

// A file on the host that looks.
struct StatsFile {
  std::string path;
  int64_t bytes = 0;
};
std::string work_text(const std::vector<StatsFile>& files, const std::vector<const StatsPart*>& parts);
// InvalidArgument: an answer of another release, or for other parts.
absl::StatusOr<std::vector<PartStats>> read_answer(const std::string& text, const std::vector<const StatsPart*>& parts);

Command stats_parts_command();  // on hosts

}  // namespace scalai::apps
