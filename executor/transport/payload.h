#pragma once
// The answer to a peer: bytes that the transport sends in chunks. It gathers a chunk just before sending it, so packing
// overlaps with the wire. A value; copies share the memory's owner.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "executor/transport/internal/span_list.h"
#include "executor/transport/rows.h"

namespace scalai::executor::transport {

class Payload {
 public:
  Payload() = default;  // no bytes

  static Payload owned(std::string bytes);
  // The parts in order. Their memory stays valid and unchanged while `owner` lives. The transport keeps `owner` until
  // the last byte is sent or the answer is abandoned (the peer died or stopped waiting).
  static Payload of(std::vector<std::span<const std::byte>> parts, std::shared_ptr<const void> owner);
  // The same of rows that may change, and that travel as `how` says (not kPacked). The transport calls `check` before
  // it reads each chunk but the first, so that memory that was given back is not touched for long, and when all bytes
  // were read; an error goes to the peer in place of the bytes that are left. `check` must not block.
  using Check = std::function<absl::Status()>;
  static Payload rows(std::vector<std::span<const std::byte>> parts, std::shared_ptr<const void> owner, Rows how,
                      Check check);
  // `fill(offset, out)` writes bytes [offset, offset + out.size()) to `out`. It is called once for every byte, in order
  // of offset, by one thread at a time other than the handler's, and must not block for long.
  using Fill = std::function<void(int64_t offset, std::span<std::byte> out)>;
  static Payload produced(int64_t bytes, Fill fill);

  int64_t bytes() const { return fill_ ? produced_bytes_ : parts_.bytes(); }
  // For transports. The bytes in place if they are contiguous, valid as long as this payload; otherwise an empty span.
  std::span<const std::byte> in_place(int64_t offset, int64_t bytes) const;
  void gather(int64_t offset, std::span<std::byte> out) const;
  // The bytes as parts, valid as in_place(); empty unless they travel without a copy (Rows::kInPlace).
  std::vector<std::span<const std::byte>> parts_in_place(int64_t offset, int64_t bytes) const;
  bool has_check() const { return check_ != nullptr; }
  absl::Status check() const { return check_ ? check_() : absl::OkStatus(); }

 private:
  internal::SpanList<const std::byte> parts_;
  std::shared_ptr<const void> owner_;
  Fill fill_;
  int64_t produced_bytes_ = 0;
  Rows how_ = Rows::kGathered;
  Check check_;
};

}  // namespace scalai::executor::transport
