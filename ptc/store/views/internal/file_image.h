#pragma once
// A file that is put together while it is read: its frame, and for each tensor the blocks that its bytes
// come from, zeros where there are none. Safe from several threads; keeps the checkpoint.

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ptc/base/byte_source.h"
#include "ptc/store/naming/arrangement.h"
#include "ptc/store/safetensors/copy_block.h"
#include "ptc/store/safetensors/file_frame.h"
#include "ptc/store/torch/torch_frame.h"
#include "ptc/store/views/checkpoint.h"

namespace scalai::store::internal {

// Metadata of files of torch: "iteration" of kTorch and "step" of kChunks are whole numbers, "none" asks for a None.
inline constexpr const char* kIterationKey = "iteration";
inline constexpr const char* kStepKey = "step";
inline constexpr const char* kNoneKey = "none";

// Of a file of kChunks, with the places that its index needs.
ChunkFrame chunk_frame_of(const ArrangedFile& file);
// The frame of such a file. InvalidArgument: names or sizes that its form does not take.
absl::StatusOr<FileFrame> frame_of(const ArrangedFile& file);

class FileImage final : public ByteSource {
 public:
  // InvalidArgument: a piece is of a tensor that the checkpoint does not have, or of another dtype.
  static absl::StatusOr<std::shared_ptr<const FileImage>> make(std::shared_ptr<const Checkpoint> checkpoint,
                                                               const ArrangedFile& file);

  const std::string& name() const override { return name_; }
  int64_t size() const override { return bytes_; }
  absl::Status read(int64_t offset, std::span<std::byte> dst) const override;

  struct Tensor {
    StoredTensor stored;            // offset and bytes in this file
    bool padded = false;            // has bytes in no block: zeros
    std::vector<CopyBlock> blocks;  // dst counts from the file's first byte; by dst
    std::vector<int64_t> end;       // of all blocks up to each: rising, so that it can be searched
  };
  const std::vector<Tensor>& tensors() const { return tensors_; }       // by offset
  const std::vector<FileFrame::Text>& texts() const { return texts_; }  // by offset
  int64_t memory_bytes() const;

 private:
  FileImage(std::shared_ptr<const Checkpoint> checkpoint, std::string name)
      : checkpoint_(std::move(checkpoint)), name_(std::move(name)) {}
  absl::Status read_tensor(const Tensor& tensor, int64_t begin, std::span<std::byte> dst, Gatherer& gatherer) const;
  void read_texts(int64_t begin, std::span<std::byte> dst) const;
  absl::Status compose(const ArrangedFile& file, FileFrame frame);

  std::shared_ptr<const Checkpoint> checkpoint_;
  std::string name_;
  int64_t bytes_ = 0;
  std::vector<FileFrame::Text> texts_;
  std::vector<Tensor> tensors_;
};

}  // namespace scalai::store::internal
