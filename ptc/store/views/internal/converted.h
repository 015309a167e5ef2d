#pragma once
// State in another dtype than it is stored in: a file that is made while it is read. What reads a checkpoint sees a
// stored tensor of that dtype.
//
//   OpenedFile ─► tensors with the kinds asked for ─► another OpenedFile over ConvertedSource ─► elements, cast on the
//   way

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ptc/store/naming/arrange.h"
#include "ptc/store/views/internal/opened.h"

namespace scalai::store::internal {

// Casts the floating states of these kinds (ptc/state/tensor/convert.h: rounded once to nearest even). Others stay as
// they are. A config.json that says the dtype of the parameters says the new one.
void convert_states(const std::map<model::StateKind, tensor::DType>& dtypes, Opened& opened);

// Says this dtype of the parameters in a config.json that says one.
void say_dtype_in_config(tensor::DType dtype, std::string& config);

// Weights in 8 bits with a scale for each block of rows and columns, as DeepSeek-V3 was released: "weight_scale_inv"
// beside "weight".
class BlockScales {
 public:
  // What `config` says of quantisation. InvalidArgument: a kind that is not read here (GPTQ, AWQ, …), by name.
  static absl::StatusOr<BlockScales> of_config(const std::string& config);

  // Takes the scales out of what was found, and gives their weights the dtype that they will have. InvalidArgument:
  // scales without a weight, or of another shape; weights without one.
  absl::Status take(tensor::DType dtype, const Opened& opened, std::vector<FoundFile>& found);
  // Weight · scale, in float32 and rounded once, in place of what is stored; with a note. `config` loses its
  // quantisation.
  void apply(Opened& opened) const;

 private:
  struct Scale {
    ByteSourcePtr source;
    int64_t offset = 0;
    int64_t rows = 0, columns = 0;  // of the weight
  };
  std::vector<int64_t> block_;  // rows and columns; empty: not quantised
  tensor::DType dtype_ = tensor::DType::kBF16;
  std::map<std::string, Scale> by_weight_;
};

}  // namespace scalai::store::internal
