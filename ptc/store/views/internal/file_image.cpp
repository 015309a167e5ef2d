#include "ptc/store/views/internal/file_image.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <unordered_map>

#include "ptc/base/status.h"
#include "ptc/base/utf8.h"

namespace scalai::store::internal {

namespace {

// Numbers of a file that its metadata has as text.
std::optional<int64_t> number_of(const ArrangedFile& file, const std::string& key) {
  const auto found = file.metadata.find(key);
  return found == file.metadata.end() ? std::nullopt : std::optional(std::stoll(found->second));
}

std::vector<TensorSpec> specs_of(const ArrangedFile& file) {
  std::vector<TensorSpec> specs;
  specs.reserve(file.tensors.size());
  for (const ArrangedTensor& tensor : file.tensors) specs.push_back({tensor.name, tensor.dtype, tensor.shape});
  return specs;
}

ChunkExtras extras_of(const ArrangedFile& file) {
  return {.step = number_of(file, kStepKey), .none = file.metadata.count(kNoneKey) != 0};
}

absl::StatusOr<FileFrame> make_frame(const ArrangedFile& file, std::vector<TensorSpec> specs) {
  if (file.form == FileForm::kTorch) return megatron_frame(specs, number_of(file, kIterationKey).value_or(0));
  if (file.form == FileForm::kChunks) return chunk_frame(specs, extras_of(file)).frame;
  SCALAI_ASSIGN_OR_RETURN(EncodedHeader header, encode_safetensors_header(std::move(specs), file.metadata));
  FileFrame frame;
  frame.texts.push_back({0, std::move(header.bytes)});
  frame.tensors = std::move(header.header.tensors);
  frame.bytes = header.header.file_bytes;
  return frame;
}

}  // namespace

ChunkFrame chunk_frame_of(const ArrangedFile& file) { return chunk_frame(specs_of(file), extras_of(file)); }

absl::StatusOr<FileFrame> frame_of(const ArrangedFile& file) {
  absl::StatusOr<FileFrame> frame = make_frame(file, specs_of(file));
  if (frame.ok()) return frame;
  return invalid(fmt::format("{}: {}", file.name, message_of(frame.status())));
}

absl::StatusOr<std::shared_ptr<const FileImage>> FileImage::make(std::shared_ptr<const Checkpoint> checkpoint,
                                                                 const ArrangedFile& file) {
  SCALAI_ASSIGN_OR_RETURN(FileFrame frame, frame_of(file));
  std::shared_ptr<FileImage> image(new FileImage(std::move(checkpoint), file.name));
  SCALAI_RETURN_IF_ERROR(image->compose(file, std::move(frame)));
  return std::shared_ptr<const FileImage>(std::move(image));
}

absl::Status FileImage::compose(const ArrangedFile& file, FileFrame frame) {
  bytes_ = frame.bytes;
  texts_ = std::move(frame.texts);
  std::unordered_map<std::string_view, const ArrangedTensor*> by_name;
  for (const ArrangedTensor& tensor : file.tensors) by_name[tensor.name] = &tensor;
  for (const StoredTensor& stored : frame.tensors) {
    Tensor tensor{.stored = stored, .padded = false, .blocks = {}, .end = {}};
    int64_t covered = 0;
    for (const PlacedPiece& placed : by_name.at(stored.name)->pieces) {
      const std::optional<size_t> id = checkpoint_->find(placed.logical);
      if (!id) {
        return invalid(fmt::format("{}: tensor \"{}\" needs \"{}\", which the checkpoint does not have", name_,
                                   clipped(stored.name, 120), clipped(placed.logical, 120)));
      }
      const tensor::DType dtype = checkpoint_->tensors()[*id].dtype;
      if (dtype != stored.dtype) {
        return invalid(
            fmt::format("{}: tensor \"{}\" is to be {}, but \"{}\" is {} in the checkpoint; dtypes are not "
                        "converted here",
                        name_, clipped(stored.name, 120), tensor::name_of(stored.dtype), clipped(placed.logical, 120),
                        tensor::name_of(dtype)));
      }
      covered += placed.piece.box.volume() * tensor::size_of(dtype);
      checkpoint_->compose(*id, placed.piece, stored.offset, tensor.blocks);
    }
    if (const std::string& constant = by_name.at(stored.name)->constant; !constant.empty()) {
      SCALAI_CHECK(covered == 0 && std::ssize(constant) == stored.bytes, stored.name);
      texts_.push_back({stored.offset, constant});
      covered = stored.bytes;
    }
    SCALAI_CHECK(covered <= stored.bytes, stored.name);
    tensor.padded = covered < stored.bytes;
    std::sort(tensor.blocks.begin(), tensor.blocks.end(),
              [](const CopyBlock& a, const CopyBlock& b) { return a.dst < b.dst; });
    int64_t end = 0;
    for (const CopyBlock& block : tensor.blocks) {
      SCALAI_CHECK(block.dst >= stored.offset && block.dst_end() <= stored.offset + stored.bytes, stored.name);
      end = std::max(end, block.dst_end());
      tensor.end.push_back(end);
    }
    tensors_.push_back(std::move(tensor));
  }
  std::sort(texts_.begin(), texts_.end(),
            [](const FileFrame::Text& a, const FileFrame::Text& b) { return a.offset < b.offset; });
  return absl::OkStatus();
}

int64_t FileImage::memory_bytes() const {
  int64_t bytes = 0;
  for (const FileFrame::Text& text : texts_) bytes += static_cast<int64_t>(sizeof(text) + text.bytes.size());
  for (const Tensor& tensor : tensors_) {
    bytes += static_cast<int64_t>(sizeof(Tensor) + 2 * sizeof(StoredTensor) + 3 * tensor.stored.name.size() +
                                  tensor.blocks.size() * (sizeof(CopyBlock) + sizeof(int64_t)));
  }
  return bytes;
}

// `begin` counts from the file's first byte.
absl::Status FileImage::read_tensor(const Tensor& tensor, int64_t begin, std::span<std::byte> dst,
                                    Gatherer& gatherer) const {
  if (tensor.padded) std::memset(dst.data(), 0, dst.size());
  const int64_t end = begin + static_cast<int64_t>(dst.size());
  const auto first = std::upper_bound(tensor.end.begin(), tensor.end.end(), begin) - tensor.end.begin();
  std::vector<CopyBlock> parts;
  for (auto i = static_cast<size_t>(first); i < tensor.blocks.size() && tensor.blocks[i].dst < end; ++i) {
    parts.clear();
    clip(tensor.blocks[i], begin, end, parts);
    for (const CopyBlock& part : parts) {
      const absl::Status status = gatherer.copy(part, checkpoint_->source(part.file), begin, dst);
      if (status.ok()) continue;
      return absl::Status(status.code(), fmt::format("{}: tensor \"{}\": {}", name_, clipped(tensor.stored.name, 120),
                                                     message_of(status)));
    }
  }
  return absl::OkStatus();
}

void FileImage::read_texts(int64_t begin, std::span<std::byte> dst) const {
  const int64_t end = begin + std::ssize(dst);
  auto text = std::partition_point(texts_.begin(), texts_.end(), [&](const FileFrame::Text& each) {
    return each.offset + std::ssize(each.bytes) <= begin;
  });
  for (; text != texts_.end() && text->offset < end; ++text) {
    const int64_t from = std::max(begin, text->offset), to = std::min(end, text->offset + std::ssize(text->bytes));
    std::memcpy(dst.data() + (from - begin), text->bytes.data() + (from - text->offset),
                static_cast<size_t>(to - from));
  }
}

absl::Status FileImage::read(int64_t offset, std::span<std::byte> dst) const {
  SCALAI_CHECK(offset >= 0 && static_cast<int64_t>(dst.size()) <= size() - offset, name_);
  read_texts(offset, dst);
  const int64_t end = offset + std::ssize(dst);
  auto it = std::upper_bound(tensors_.begin(), tensors_.end(), offset, [](int64_t at, const Tensor& tensor) {
    return at < tensor.stored.offset + tensor.stored.bytes;
  });
  Gatherer gatherer;
  for (; it != tensors_.end() && it->stored.offset < end; ++it) {
    const int64_t from = std::max(offset, it->stored.offset);
    const int64_t to = std::min(end, it->stored.offset + it->stored.bytes);
    if (from >= to) continue;
    const auto part = dst.subspan(static_cast<size_t>(from - offset), static_cast<size_t>(to - from));
    SCALAI_RETURN_IF_ERROR(read_tensor(*it, from, part, gatherer));
  }
  return absl::OkStatus();
}

}  // namespace scalai::store::internal
