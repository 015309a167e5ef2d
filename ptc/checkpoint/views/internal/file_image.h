#pragma once
// A safetensors file that is put together while it is read: header bytes, then for each tensor the blocks that its bytes
// come from, zeros where there are none. Safe from several threads; keeps the checkpoint.

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ptc/base/byte_source.h"
#include "ptc/checkpoint/naming/arrangement.h"
#include "ptc/checkpoint/safetensors/copy_block.h"
#include "ptc/checkpoint/safetensors/safetensors.h"
#include "ptc/checkpoint/views/checkpoint.h"

namespace scalai::checkpoint::internal {

// The header of such a file. InvalidArgument: names or sizes that the format does not take.
absl::StatusOr<EncodedHeader> header_of(const ArrangedFile& file);

class FileImage final : public ByteSource {
 public:
  // InvalidArgument: a piece is of a tensor that the checkpoint does not have, or of another dtype.
  static absl::StatusOr<std::shared_ptr<const FileImage>> make(std::shared_ptr<const Checkpoint> checkpoint,
                                                               const ArrangedFile& file);

  const std::string& name() const override { return name_; }
  int64_t size() const override { return header_.header.file_bytes; }
  absl::Status read(int64_t offset, std::span<std::byte> dst) const override;

  struct Tensor {
    StoredTensor stored;            // offset and bytes in this file
    bool padded = false;            // has bytes in no block: zeros
    std::vector<CopyBlock> blocks;  // dst counts from the file's first byte; by dst
    std::vector<int64_t> end;       // of all blocks up to each: rising, so that it can be searched
  };
  const std::vector<Tensor>& tensors() const { return tensors_; }  // by offset
  const SafetensorsHeader& header() const { return header_.header; }
  int64_t memory_bytes() const;

 private:
  FileImage(std::shared_ptr<const Checkpoint> checkpoint, std::string name, EncodedHeader header)
      : checkpoint_(std::move(checkpoint)), name_(std::move(name)), header_(std::move(header)) {}
  absl::Status read_tensor(const Tensor& tensor, int64_t begin, std::span<std::byte> dst, Gatherer& gatherer) const;
  absl::Status compose(const ArrangedFile& file);

  std::shared_ptr<const Checkpoint> checkpoint_;
  std::string name_;
  EncodedHeader header_;
  std::vector<Tensor> tensors_;
};

}  // namespace scalai::checkpoint::internal
