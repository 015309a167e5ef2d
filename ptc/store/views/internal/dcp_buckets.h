#pragma once
// State of Megatron-Core's distributed optimizer as it lies in memory ("dp_reshardable", the default of Megatron-LM):
// flat buckets of one layout of tp, pp and ep, whose index says which rank's they are and nothing of the parameters in
// them.
//
//   optimizer.distributed.dp_group_idx_3.gbuf_idx_0.dtype_(torch.bfloat16, torch.float32).bucket_idx_0.exp_avg
//   [elements]
//
// The layout follows from the index, the parameters from their values (bucket_run.h).

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "ptc/store/naming/arrange.h"
#include "ptc/store/torch/dcp.h"
#include "ptc/store/views/internal/bucket_run.h"
#include "ptc/store/views/internal/opened.h"
#include "ptc/store/views/internal/opened_folder.h"

namespace scalai::store::internal {

// One of the flat tensors.
struct BucketTensor {
  int chain = -1;      // of several optimizers, dense layers before experts; -1: there is one
  int group = 0;       // rank among those of tp and pp, tp first; of experts' among those of etp, ep and pp
  std::string bucket;  // its name among those of the group
  std::string key;     // "param", "exp_avg"
  DcpTensor tensor;
};

// Takes them out of the tensors of an index.
std::vector<BucketTensor> take_buckets(std::vector<DcpTensor>& tensors);

// What the index says of the model's tensors, as Megatron-Core has it: chunks of tp, and of etp.
struct BucketLayout {
  int64_t tp = 1, etp = 1;      // at least 1
  int64_t vocabulary_rows = 0;  // padded
};
BucketLayout bucket_layout(const std::vector<DcpTensor>& tensors);

// Masters and moments in the buckets, for the parameters of `opened`, which are whole. FailedPrecondition: they cannot
// be told to which parameter they belong, with the reason; `opened` has no state more. Other errors are those of files.
absl::Status open_buckets(const Folder& folder, const Naming& naming, const std::vector<BucketTensor>& buckets,
                          const BucketLayout& layout, Joined joined, Opened& opened);

}  // namespace scalai::store::internal
