#include "ptc/store/datasets/views/internal/shard_image.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "ptc/base/status.h"
#include "ptc/store/datasets/views/internal/gather.h"

namespace scalai::datasets::internal {
namespace {

class ShardImage final : public ByteSource {
 public:
  ShardImage(ShardParts parts, int64_t zeros)
      : parts_(std::move(parts)), data_bytes_(parts_.table->begin_of(parts_.table->count())), zeros_(zeros) {}

  const std::string& name() const override { return parts_.name; }
  int64_t size() const override { return data_bytes_ + zeros_; }
  absl::Status read(int64_t offset, std::span<std::byte> dst) const override;

 private:
  absl::Status read_samples(int64_t offset, std::span<std::byte> dst) const;
  absl::Status add_sample(int64_t sample, int64_t skip, int64_t bytes, std::vector<Extent>& extents,
                          Gather& gather) const;
  absl::Status with_place(const absl::Status& status, int64_t first, int64_t last) const;

  ShardParts parts_;
  int64_t data_bytes_;
  int64_t zeros_;
};

absl::Status ShardImage::with_place(const absl::Status& status, int64_t first, int64_t last) const {
  const Samples& samples = *parts_.samples;
  const std::string place = samples.name(first) + (first == last ? "" : " to " + samples.name(last));
  return {status.code(), fmt::format("{}: {}: {}", parts_.name, place, message_of(status))};
}

// Bytes [skip, skip + bytes) of a sample. `extents` is only room that is used again.
absl::Status ShardImage::add_sample(int64_t sample, int64_t skip, int64_t bytes, std::vector<Extent>& extents,
                                    Gather& gather) const {
  extents.clear();
  const absl::Status found = parts_.samples->extents(sample, extents);
  if (!found.ok()) return with_place(found, sample, sample);
  for (const Extent& extent : extents) {
    const int64_t lo = std::min(skip, extent.bytes);
    const int64_t take = std::min(bytes, extent.bytes - lo);
    const absl::Status added = gather.add({extent.file, extent.offset + lo, take}, sample);
    if (!added.ok()) return with_place(added, gather.first_sample(), gather.last_sample());
    skip -= lo;
    bytes -= take;
  }
  if (bytes > 0) return with_place(invalid("the index was changed while in use"), sample, sample);
  return absl::OkStatus();
}

absl::Status ShardImage::read_samples(int64_t offset, std::span<std::byte> dst) const {
  const ShardTable& table = *parts_.table;
  const int64_t end = offset + static_cast<int64_t>(dst.size());
  Gather gather(*parts_.files, dst);
  std::vector<Extent> extents;
  for (int64_t i = table.at_byte(offset); offset < end; ++i) {
    const int64_t begin = table.begin_of(i);
    const int64_t bytes = std::min(end, table.begin_of(i + 1)) - offset;
    SCALAI_RETURN_IF_ERROR(add_sample(table.samples[static_cast<size_t>(i)], offset - begin, bytes, extents, gather));
    offset += bytes;
  }
  const absl::Status read = gather.finish();
  return read.ok() ? read : with_place(read, gather.first_sample(), gather.last_sample());
}

absl::Status ShardImage::read(int64_t offset, std::span<std::byte> dst) const {
  const int64_t bytes = static_cast<int64_t>(dst.size());
  SCALAI_CHECK(offset >= 0 && offset <= size() && bytes <= size() - offset, parts_.name);
  const int64_t of_samples = std::clamp<int64_t>(data_bytes_ - offset, 0, bytes);
  if (of_samples > 0) SCALAI_RETURN_IF_ERROR(read_samples(offset, dst.first(static_cast<size_t>(of_samples))));
  const std::span<std::byte> rest = dst.subspan(static_cast<size_t>(of_samples));
  std::fill(rest.begin(), rest.end(), std::byte{0});
  return absl::OkStatus();
}

}  // namespace

ByteSourcePtr make_shard_image(ShardParts parts, int64_t zeros) {
  return std::make_shared<ShardImage>(std::move(parts), zeros);
}

}  // namespace scalai::datasets::internal
