#pragma once
// The index of a folder of torch.distributed.checkpoint (DCP): ".metadata", a pickle that is read as data (pickle.h). A
// tensor is in chunks, boxes of it; the bytes of each are a file of torch.save inside of one of the folder's files.
// Values; any thread may call.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "ptc/state/tensor/dtype.h"

namespace scalai::store {

inline constexpr const char* kDcpIndexName = ".metadata";

struct DcpChunk {
  std::vector<int64_t> offsets;
  std::vector<int64_t> sizes;
  std::string file;  // relative to the folder, without ".." and not absolute
  int64_t begin = 0;
  int64_t bytes = 0;
  int64_t elements = 0;  // of what is stored there
  int64_t skip = 0;      // elements of it before this chunk (without_stacks)
  bool bare = false;     // the elements themselves, as in a safetensors file, and no file of torch.save around them
};

struct DcpTensor {
  std::vector<std::string> path;  // of keys in the nested dicts that were saved: ("model", "layers.0.weight")
  tensor::DType dtype = tensor::DType::kF32;
  std::vector<int64_t> shape;
  std::vector<DcpChunk> chunks;  // as many as the index has, none of them empty
};

// In order of their names. Errors (InvalidArgument): not such a pickle; a dtype that safetensors has not, a chunk
// outside of its tensor or without a place, a file outside of the folder: all of them, a line each.
absl::StatusOr<std::vector<DcpTensor>> parse_dcp_index(std::string_view bytes);

// Megatron-Core's folders ("torch_dist") stack the layers of a model along a dimension in front, and in each layer the
// experts: "decoder.layers.mlp.experts.experts.linear_fc1.weight" is [layers, experts, rows, columns]. Here as single
// tensors, under the names that they have in a rank of all:
// "decoder.layers.3.mlp.experts.local_experts.1.linear_fc1.weight". State of the optimizer,
// "optimizer.state.exp_avg.NAME", comes under "NAME.exp_avg". Others stay as they are. What the index has under several
// names is taken once.
std::vector<DcpTensor> without_stacks(std::vector<DcpTensor> tensors);

// An object that is no tensor: a file of torch.save inside of one of the folder's files.
struct DcpObject {
  std::string name;
  std::string file;
  int64_t begin = 0;
  int64_t bytes = 0;
};

// The object of this name. Errors as of parse_dcp_index.
absl::StatusOr<std::optional<DcpObject>> find_dcp_object(std::string_view bytes, const std::string& name);

// The index of these, as torch 2.3 and newer read it. Each tensor has at least one chunk.
std::string dcp_index_text(std::span<const DcpTensor> tensors, std::span<const DcpObject> objects = {});

}  // namespace scalai::store
