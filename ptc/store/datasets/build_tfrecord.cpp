// TFRecord: u64 length, u32 masked CRC-32C of these 8 bytes, the data, u32 masked CRC-32C of the data; nothing else.

#include <fmt/format.h>

#include <algorithm>

#include "ptc/base/status.h"
#include "ptc/store/datasets/crc32c.h"
#include "ptc/store/datasets/internal/builders.h"
#include "ptc/store/datasets/internal/little_endian.h"

namespace scalai::datasets {
namespace {

// One record from where the scanner stands; an error without its place.
absl::Status pass_record(Scanner& scanner) {
  if (scanner.remaining() < kTfRecordHead + kTfRecordTail) {
    return invalid(fmt::format("{} bytes are left, too few for a record: the file was cut", scanner.remaining()));
  }
  SCALAI_ASSIGN_OR_RETURN(const auto head, scanner.take(kTfRecordHead));
  const auto length = number_in<uint64_t>(head);
  if (number_in<uint32_t>(head, 8) != masked(crc32c(head.first(8)))) {
    const bool gzip = head[0] == std::byte{0x1f} && head[1] == std::byte{0x8b};
    return invalid(gzip ? "the checksum of its length does not fit: this looks compressed (gzip); uncompress it"
                        : "the checksum of its length does not fit: damaged, or no TFRecord file");
  }
  if (length > static_cast<uint64_t>(scanner.remaining() - kTfRecordTail)) {
    return invalid(fmt::format("its data have {} bytes, and {} are left: the file was cut", length,
                               std::max<int64_t>(0, scanner.remaining() - kTfRecordTail)));
  }
  uint32_t crc = 0;
  for (auto left = static_cast<int64_t>(length); left > 0;) {
    SCALAI_ASSIGN_OR_RETURN(const auto bytes, scanner.take(std::min(left, scanner.most())));
    crc = crc32c(bytes, crc);
    left -= static_cast<int64_t>(bytes.size());
  }
  SCALAI_ASSIGN_OR_RETURN(const auto tail, scanner.take(kTfRecordTail));
  return number_in<uint32_t>(tail) == masked(crc) ? absl::OkStatus()
                                                  : invalid("the checksum of its data does not fit: damaged");
}

}  // namespace

absl::Status index_tfrecord(Building& building, IndexWriter& writer) {
  for (size_t i = 0; i < building.files(); ++i) {
    SCALAI_ASSIGN_OR_RETURN(ByteSourcePtr source, building.open(i));
    Scanner scanner(std::move(source));
    scanner.watch([&](int64_t position) { building.progress(i, position); });
    for (int64_t record = 0; scanner.remaining() > 0; ++record) {
      const int64_t at = scanner.position();
      SCALAI_RETURN_IF_ERROR(writer.add(0, building.begin_of(i) + at));
      if (const absl::Status status = pass_record(scanner); !status.ok()) {
        return absl::Status(status.code(), fmt::format("{}: record {} at byte {}: {}", building.path(i), record, at,
                                                       message_of(status)));
      }
      ++building.header.documents;
    }
  }
  return writer.add(0, building.header.data_bytes());
}

}  // namespace scalai::datasets
