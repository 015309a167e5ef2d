#pragma once
// Builds the frame of a file of zip archives, one after the other, whose entries are texts and tensors, stored as they
// are and, as torch.save does, at multiples of 64 bytes from their archive's beginning.
//
// The checksum of a tensor's entry is 0: it is not known before the bytes are read. torch does not look at it, and has
// an option not to compute it (torch.serialization.set_crc32_options(False)); unzip -t complains.

#include <string>
#include <string_view>
#include <vector>

#include "ptc/store/safetensors/file_frame.h"

namespace scalai::store::internal {

class ZipFrame {
 public:
  void add(const std::string& name, std::string_view text);
  void add(const std::string& name, const TensorSpec& tensor);
  // Ends an archive; what is added next is of another.
  void finish();

  int64_t bytes() const { return frame_.bytes; }
  FileFrame take() && { return std::move(frame_); }  // after finish()

 private:
  void write(std::string_view text);
  void begin_entry(const std::string& name, int64_t size, uint32_t crc);

  FileFrame frame_;
  int64_t begin_ = 0;  // of this archive
  std::string table_;
  uint64_t entries_ = 0;
};

}  // namespace scalai::store::internal
