#include "ptc/store/views/internal/checked_source.h"

#include <fmt/format.h>

#include <algorithm>

#include "ptc/base/status.h"
#include "ptc/store/safetensors/checksum.h"

namespace scalai::store::internal {

std::string damage_text(const std::string& checksum) {
  return fmt::format("the bytes do not have the checksum of the {}: the file is damaged",
                     kind_of_checksum(checksum) == ChecksumKind::kCrc32 ? "archive" : "manifest");
}

CheckedSource::CheckedSource(ByteSourcePtr stored, std::vector<SummedRange> ranges)
    : stored_(std::move(stored)), ranges_(std::move(ranges)), found_(ranges_.size(), Found::kNew) {
  int64_t end = 0;
  for (const SummedRange& range : ranges_) {
    SCALAI_CHECK(range.offset >= end && range.bytes >= 0 && range.bytes <= stored_->size() - range.offset, name());
    end = range.offset + range.bytes;
  }
}

absl::Status CheckedSource::read(int64_t offset, std::span<std::byte> dst) const {
  if (dst.empty()) return stored_->read(offset, dst);
  const int64_t end = offset + std::ssize(dst);
  const auto first = static_cast<size_t>(
      std::partition_point(ranges_.begin(), ranges_.end(),
                           [&](const SummedRange& range) { return range.offset + range.bytes <= offset; }) -
      ranges_.begin());
  std::vector<size_t> covered;  // new ranges of which this read gives all bytes
  for (size_t i = first; i < ranges_.size() && ranges_[i].offset < end; ++i) {
    const bool whole = ranges_[i].offset >= offset && ranges_[i].offset + ranges_[i].bytes <= end;
    bool is_new = false;
    {
      const std::lock_guard lock(mutex_);
      if (found_[i] == Found::kRight) continue;
      is_new = found_[i] == Found::kNew;
    }
    if (whole && is_new) {
      covered.push_back(i);
    } else {
      SCALAI_RETURN_IF_ERROR(compare(i));
    }
  }
  SCALAI_RETURN_IF_ERROR(stored_->read(offset, dst));
  for (const size_t i : covered) {
    const auto bytes =
        dst.subspan(static_cast<size_t>(ranges_[i].offset - offset), static_cast<size_t>(ranges_[i].bytes));
    const bool is_right = Checksum(kind_of_checksum(ranges_[i].checksum)).add(bytes).hex() == ranges_[i].checksum;
    settle(i, is_right);
    if (!is_right) return damaged(i);
  }
  return absl::OkStatus();
}

void CheckedSource::settle(size_t range, bool is_right) const {
  {
    const std::lock_guard lock(mutex_);
    found_[range] = is_right ? Found::kRight : Found::kWrong;
  }
  settled_.notify_all();
}

bool CheckedSource::has_damage() const {
  const std::lock_guard lock(mutex_);
  return std::find(found_.begin(), found_.end(), Found::kWrong) != found_.end();
}

void CheckedSource::describe_with(const void* owner, Describe describe) const {
  const std::lock_guard lock(mutex_);
  if (owner_ != nullptr) return;
  owner_ = owner;
  describe_ = std::move(describe);
}

void CheckedSource::forget(const void* owner) const {
  const std::lock_guard lock(mutex_);
  if (owner_ != owner) return;
  owner_ = nullptr;
  describe_ = nullptr;
}

absl::Status CheckedSource::damaged(size_t range) const {
  const std::lock_guard lock(mutex_);
  const std::string what = describe_ ? describe_(ranges_[range])
                                     : fmt::format("{} bytes at {}", ranges_[range].bytes, ranges_[range].offset);
  return invalid(fmt::format("{}: {}: {}", name(), what, damage_text(ranges_[range].checksum)));
}

absl::StatusOr<bool> CheckedSource::sum(const SummedRange& range) const {
  std::vector<std::byte> buffer(static_cast<size_t>(std::min(kBufferBytes, range.bytes)));
  Checksum sum(kind_of_checksum(range.checksum));
  for (int64_t done = 0; done < range.bytes; done += kBufferBytes) {
    const auto chunk = std::span(buffer).first(static_cast<size_t>(std::min(kBufferBytes, range.bytes - done)));
    SCALAI_RETURN_IF_ERROR(stored_->read(range.offset + done, chunk));
    sum.add(chunk);
  }
  return sum.hex() == range.checksum;
}

absl::Status CheckedSource::compare(size_t range) const {
  {
    std::unique_lock lock(mutex_);
    settled_.wait(lock, [&] { return found_[range] != Found::kInWork; });
    if (found_[range] == Found::kRight) return absl::OkStatus();
    const bool is_wrong = found_[range] == Found::kWrong;
    if (!is_wrong) found_[range] = Found::kInWork;
    lock.unlock();
    if (is_wrong) return damaged(range);
  }
  const absl::StatusOr<bool> is_right = sum(ranges_[range]);
  if (is_right.ok()) {
    settle(range, *is_right);
    return *is_right ? absl::OkStatus() : damaged(range);
  }
  {  // the next one tries again
    const std::lock_guard lock(mutex_);
    found_[range] = Found::kNew;
  }
  settled_.notify_all();
  return is_right.status();
}

}  // namespace scalai::store::internal
