#pragma once
// A file with checksums of some of its ranges: no byte of a range is given before all of it had its checksum.
//
//   read ─► ranges that it touches ─► those seen first: read as a whole, summed, compared ─► the bytes
//
// Each range is compared once. Afterwards the file's version tells that it is still the same (ByteSource::read). A read
// of all of a range sums the bytes that it gives. Any thread may call; threads that need one new range wait for the
// first of them.

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "ptc/base/byte_source.h"

namespace scalai::store::internal {

struct SummedRange {
  int64_t offset = 0;
  int64_t bytes = 0;
  std::string checksum;  // Checksum::hex()
  uint32_t tensor = 0;   // the first of the file's tensors that lies in it
};

// "the bytes do not have the checksum of the manifest: the file is damaged"; of a CRC-32: of the archive.
std::string damage_text(const std::string& checksum);

class CheckedSource final : public ByteSource {
 public:
  static constexpr int64_t kBufferBytes = int64_t{1} << 20;  // of a thread that compares

  // CHECK: the ranges lie in the source, by offset, and do not overlap.
  CheckedSource(ByteSourcePtr stored, std::vector<SummedRange> ranges);

  const std::string& name() const override { return stored_->name(); }
  int64_t size() const override { return stored_->size(); }
  std::string version() const override { return stored_->version(); }
  absl::Status confirm() const override { return stored_->confirm(); }
  // InvalidArgument, too: a range does not have its checksum.
  absl::Status read(int64_t offset, std::span<std::byte> dst) const override;

  const ByteSource& stored() const { return *stored_; }  // without comparison
  const std::vector<SummedRange>& ranges() const { return ranges_; }
  // Somebody else has summed a range.
  void settle(size_t range, bool is_right) const;
  bool has_damage() const;  // that is known by now

  // Names a range in messages, for as long as `owner` does not forget; the first owner counts.
  using Describe = std::function<std::string(const SummedRange& range)>;
  void describe_with(const void* owner, Describe describe) const;
  void forget(const void* owner) const;

 private:
  enum class Found : uint8_t { kNew, kInWork, kRight, kWrong };
  absl::Status compare(size_t range) const;
  absl::StatusOr<bool> sum(const SummedRange& range) const;
  absl::Status damaged(size_t range) const;

  const ByteSourcePtr stored_;
  const std::vector<SummedRange> ranges_;
  mutable std::mutex mutex_;  // for what follows
  mutable std::condition_variable settled_;
  mutable std::vector<Found> found_;  // by range
  mutable const void* owner_ = nullptr;
  mutable Describe describe_;
};

}  // namespace scalai::store::internal
