#include "executor/transport/payload.h"

#include <cstring>
#include <utility>

#include "ptc/base/status.h"

namespace scalai::executor::transport {

Payload Payload::owned(std::string bytes) {
  const auto text = std::make_shared<const std::string>(std::move(bytes));
  return of({std::as_bytes(std::span(text->data(), text->size()))}, text);
}

Payload Payload::of(std::vector<std::span<const std::byte>> parts, std::shared_ptr<const void> owner) {
  Payload payload;
  payload.parts_ = internal::SpanList<const std::byte>(std::move(parts));
  payload.owner_ = std::move(owner);
  return payload;
}

Payload Payload::rows(std::vector<std::span<const std::byte>> parts, std::shared_ptr<const void> owner, Rows how,
                      Check check) {
  SCALAI_CHECK(how != Rows::kPacked, "packed rows are one part");
  Payload payload = of(std::move(parts), std::move(owner));
  payload.how_ = how;
  payload.check_ = std::move(check);
  return payload;
}

Payload Payload::produced(int64_t bytes, Fill fill) {
  SCALAI_CHECK(bytes >= 0 && fill != nullptr, std::to_string(bytes));
  Payload payload;
  payload.fill_ = std::move(fill);
  payload.produced_bytes_ = bytes;
  return payload;
}

std::span<const std::byte> Payload::in_place(int64_t offset, int64_t bytes) const {
  return fill_ ? std::span<const std::byte>() : parts_.in_place(offset, bytes);
}

std::vector<std::span<const std::byte>> Payload::parts_in_place(int64_t offset, int64_t bytes) const {
  std::vector<std::span<const std::byte>> parts;
  if (how_ != Rows::kInPlace) return parts;
  parts_.visit(offset, bytes, [&](int64_t, std::span<const std::byte> part) { parts.push_back(part); });
  return parts;
}

void Payload::gather(int64_t offset, std::span<std::byte> out) const {
  if (fill_) {
    fill_(offset, out);
    return;
  }
  parts_.visit(offset, static_cast<int64_t>(out.size()), [&](int64_t at, std::span<const std::byte> part) {
    std::memcpy(out.data() + at, part.data(), part.size());
  });
}

}  // namespace scalai::executor::transport
