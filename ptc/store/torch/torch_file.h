#pragma once
// Files of torch.save, read without torch and without running anything of theirs: the pickle says which tensors there
// are (pickle.h), the zip archive where their bytes lie (zip.h). So a tensor of such a file is a stretch of bytes in
// it, as in a safetensors file. Values; any thread may call.
//
//   model_optim_rng.pt ─► zip entries ─► data.pkl ─► tensors: name, dtype, shape, offset
//
// Read: dense tensors and parameters in dicts and lists, under their keys joined by dots
// ("model.decoder.final_norm.weight"), contiguous, little-endian. Other objects are left out.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ptc/base/byte_source.h"
#include "ptc/store/safetensors/safetensors.h"

namespace scalai::store {

// A storage with a checksum: bytes [offset, offset + bytes) have this CRC-32, as Checksum gives it.
struct SummedStorage {
  int64_t offset = 0;
  int64_t bytes = 0;
  std::string checksum;
};

struct TorchFile {
  std::vector<StoredTensor> tensors;  // by offset; tensors that share a storage have the same
  std::vector<SummedStorage> sums;  // of storages that tensors lie in, by offset; those without a checksum are left out
  int64_t iteration = -1;           // "iteration" of the outermost dict, as Megatron writes it; -1: none
};

// Whether a file of this name may be one: "pytorch_model.bin", "model_optim_rng.pt", "x.pth".
bool has_torch_ending(std::string_view name);

// Compares the checksum of the pickle. Errors name the source. InvalidArgument: not a zip archive (torch before 1.6);
// damaged; tensors that are not dense, not contiguous, of a dtype that safetensors has not, or beyond their storage:
// all of them, a line each.
absl::StatusOr<TorchFile> read_torch_file(const ByteSource& source);

// Compares the checksums of all entries of a small file that goes along unread; of what is no archive, none. Errors as
// above.
absl::Status check_torch_file(const ByteSource& source);

}  // namespace scalai::store
