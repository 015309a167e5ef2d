#pragma once
// The files of a folder of torch.distributed.checkpoint, and where in them a tensor's chunks lie.

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ptc/store/torch/dcp.h"
#include "ptc/store/views/internal/opened.h"
#include "ptc/store/views/internal/opened_folder.h"

namespace scalai::store::internal {

std::vector<int64_t> dense_strides(const std::vector<int64_t>& shape);  // row-major

// A stretch of another source.
class PartSource final : public ByteSource {
 public:
  PartSource(ByteSourcePtr whole, int64_t begin, int64_t bytes)
      : whole_(std::move(whole)), begin_(begin), bytes_(bytes) {}
  const std::string& name() const override { return whole_->name(); }
  int64_t size() const override { return bytes_; }
  absl::Status read(int64_t offset, std::span<std::byte> dst) const override;

 private:
  ByteSourcePtr whole_;
  int64_t begin_;
  int64_t bytes_;
};

// Opens a file when the first chunk in it is asked for. Refers to folder and opened.
class ChunkFiles {
 public:
  ChunkFiles(const Folder& folder, Opened& opened);

  // The tensor that the chunk is, under this name and without pieces, and the index of its file in opened.files.
  // InvalidArgument: it is beyond the end of its file, or another tensor than the index says.
  struct Located {
    size_t file = 0;
    OpenedTensor tensor;
  };
  absl::StatusOr<Located> locate(const DcpTensor& tensor, const DcpChunk& chunk, const std::string& name);
  // The places of tensors in their files are found: in the files' order.
  void finish();

 private:
  absl::StatusOr<size_t> file_of(const std::string& name);

  const Folder& folder_;
  Opened& opened_;
  std::map<std::string, size_t> files_;
};

// The part of a piece that lies in a box of its stored tensor, as a piece of that box alone; nullopt: none does.
// InvalidArgument: the piece's steps are not along the dimensions of the stored tensor.
absl::StatusOr<std::optional<tensor::Piece>> piece_in_chunk(const tensor::Piece& piece,
                                                            const std::vector<int64_t>& shape,
                                                            const std::vector<int64_t>& offsets,
                                                            const std::vector<int64_t>& sizes);

}  // namespace scalai::store::internal
