#include "ptc/store/datasets/reader.h"

#include <fmt/format.h>

#include <vector>

#include "ptc/base/status.h"
#include "ptc/store/datasets/crc32c.h"
#include "ptc/store/datasets/internal/little_endian.h"

namespace scalai::datasets {
namespace {

constexpr auto kHead = static_cast<size_t>(kTfRecordHead), kTail = static_cast<size_t>(kTfRecordTail);

std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

uint32_t masked_crc(std::string_view bytes) { return masked(crc32c(bytes_of(bytes))); }

absl::Status check_record(std::string_view record) {
  if (record.size() < kHead + kTail || number_in<uint64_t>(bytes_of(record), 0) != record.size() - kHead - kTail) {
    return invalid("its length is not the one indexed");
  }
  if (number_in<uint32_t>(bytes_of(record), 8) != masked_crc(record.substr(0, 8))) {
    return invalid("the checksum of its length does not fit");
  }
  if (number_in<uint32_t>(bytes_of(record), record.size() - kTail) != masked_crc(payload_of_record(record))) {
    return invalid("the checksum of its data does not fit");
  }
  return absl::OkStatus();
}

}  // namespace

Reader::Reader(std::shared_ptr<const Samples> samples, SourceOpener opener, Options options)
    : samples_(std::move(samples)),
      files_(std::shared_ptr<const Index>(samples_, &samples_->index()), std::move(opener)),
      options_(options) {}

absl::StatusOr<std::string> Reader::read(int64_t i) const {
  std::vector<Extent> extents;
  SCALAI_RETURN_IF_ERROR(samples_->extents(i, extents));
  size_t size = 0;
  for (const Extent& extent : extents) size += static_cast<size_t>(extent.bytes);
  std::string bytes(size, '\0');
  std::span<std::byte> rest = std::as_writable_bytes(std::span(bytes));
  for (const Extent& extent : extents) {
    const auto here = static_cast<size_t>(extent.bytes);
    if (const absl::Status status = files_.read(extent, rest.first(here)); !status.ok()) {
      return absl::Status(status.code(), fmt::format("{} ({})", message_of(status), samples_->name(i)));
    }
    rest = rest.subspan(here);
  }
  if (!options_.check_crc || samples_->index().format() != Format::kTfRecord) return bytes;
  if (const absl::Status status = check_record(bytes); !status.ok()) {
    const std::string& file = samples_->index().files()[static_cast<size_t>(extents.front().file)].location;
    return invalid(fmt::format("{}: record at byte {} ({}): {}", shown_location(file), extents.front().offset,
                               samples_->name(i), message_of(status)));
  }
  return bytes;
}

std::string_view payload_of_record(std::string_view record) {
  SCALAI_CHECK(record.size() >= kHead + kTail);
  return record.substr(kHead, record.size() - kHead - kTail);
}

}  // namespace scalai::datasets
