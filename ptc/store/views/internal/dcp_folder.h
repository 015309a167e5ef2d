#pragma once
// A folder of torch.distributed.checkpoint: its tensors whole, for a naming, and their chunks in the files.

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ptc/store/naming/arrange.h"
#include "ptc/store/torch/dcp.h"
#include "ptc/store/views/internal/opened.h"
#include "ptc/store/views/internal/opened_folder.h"

namespace scalai::store::internal {

// The state under the names of the naming, in whatever chunks. `opened` has the model, and gets files, states and
// notes. Of several dicts ("model", "optim") the one counts whose keys the naming knows, and of several models the
// outermost one "model"; under Megatron's names layers and experts
// may be stacked, and the vocabulary padded. InvalidArgument: all problems.
absl::Status open_dcp(const Folder& folder, const std::string& index, const Naming& naming, Opened& opened);
// The same of tensors that are known.
absl::Status open_chunked(const Folder& folder, const std::vector<DcpTensor>& tensors, const Naming& naming,
                          Opened& opened);

}  // namespace scalai::store::internal
