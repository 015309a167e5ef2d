#include "executor/state/store.h"

#include <fmt/format.h>

#include <algorithm>

#include "executor/state/runs.h"
#include "ptc/base/status.h"

namespace scalai::executor::state {
namespace {
std::string str(const VersionKey& key, TensorId tensor, const Box& box) {
  return fmt::format("tensor {} box {} of {}", tensor.value, box.str(), key.str());
}

std::vector<Piece> without(std::span<const Piece> pieces, const Box& box) {
  std::vector<Piece> left;
  for (const Piece& piece : pieces) {
    for (const Box& part : tensor::subtract(piece.part, box)) {
      left.push_back(piece);
      left.back().part = part;
    }
  }
  std::sort(left.begin(), left.end(), [](const Piece& a, const Piece& b) { return a.part < b.part; });
  return left;
}

// Tensors without pieces and versions without tensors are not there at all.
void set_pieces(Directory& directory, const VersionKey& key, TensorId tensor, std::vector<Piece> pieces) {
  TensorPieces& tensors = directory.edit(key);
  if (pieces.empty()) {
    tensors.erase(tensor);
  } else {
    tensors[tensor] = std::move(pieces);
  }
  if (tensors.empty()) directory.erase(key);
}

std::span<const Piece> pieces_of(const Directory& directory, const VersionKey& key, TensorId tensor) {
  const auto version = directory.versions().find(key);
  if (version == directory.versions().end()) return {};
  const auto pieces = version->second.find(tensor);
  if (pieces == version->second.end()) return {};
  return pieces->second;
}
}  // namespace

absl::StatusOr<std::unique_ptr<Store>> Store::create(const SegmentOptions& options) {
  SCALAI_ASSIGN_OR_RETURN(Segment segment, Segment::create(options));
  return std::make_unique<Store>(std::make_unique<Segment>(std::move(segment)));
}

absl::Status Store::check_free(const VersionKey& key, TensorId tensor, const Box& box) const {
  const std::span<const Piece> pieces = pieces_of(held_, key, tensor);
  if (!pieces.empty() && pieces.front().part.rank != box.rank) {
    return invalid(fmt::format("{} has another rank than {}", str(key, tensor, box), pieces.front().part.str()));
  }
  const std::vector<Piece> common = overlapping(pieces, box);
  if (common.empty()) return {};
  return invalid(
      fmt::format("{} overlaps {}, which is held already", str(key, tensor, box), common.front().part.str()));
}

void Store::add_piece(const VersionKey& key, TensorId tensor, const Piece& piece) {
  std::vector<Piece>& pieces = held_.edit(key)[tensor];
  const auto at = std::find_if(pieces.begin(), pieces.end(), [&](const Piece& p) { return piece.part < p.part; });
  pieces.insert(at, piece);
  auto& users = buffers_.at(piece.offset).users;
  const std::pair user(key, tensor);
  if (std::find(users.begin(), users.end(), user) == users.end()) users.push_back(user);
}

absl::StatusOr<Target> Store::add(const VersionKey& key, TensorId tensor, const Box& box, DType dtype) {
  const std::lock_guard lock(mutex_);
  if (box.empty()) return invalid(str(key, tensor, box) + " is empty");
  SCALAI_RETURN_IF_ERROR(check_free(key, tensor, box));
  const int64_t bytes = box.volume() * tensor::size_of(dtype);
  SCALAI_ASSIGN_OR_RETURN(const uint64_t offset, memory_->allocate(bytes));
  buffers_[offset] = Buffer{box, dtype, {}, bytes, {}};
  live_bytes_ += bytes;
  add_piece(key, tensor, Piece{box, box, offset, dtype});
  return Target{box, dtype, memory_->data(offset)};
}

absl::Status Store::keep(const VersionKey& from, StateVersion to, TensorId tensor, const Box& box) {
  const std::lock_guard lock(mutex_);
  const VersionKey key{from.job, to};
  const std::vector<Piece> found = held_.find(from, tensor, box);
  if (box.empty() || !cover(found, box))
    return missing(str(from, tensor, box) + " is not held here, so it cannot be kept");
  SCALAI_RETURN_IF_ERROR(check_free(key, tensor, box));
  for (const Piece& piece : found) add_piece(key, tensor, piece);
  return {};
}

std::vector<Piece> Store::find(const VersionKey& key, TensorId tensor, const Box& box) const {
  const std::lock_guard lock(mutex_);
  return held_.find(key, tensor, box);
}

bool Store::holds_all(const VersionKey& key, TensorId tensor, const Box& box) const {
  return cover(find(key, tensor, box), box);
}

TensorPieces Store::pieces(const VersionKey& key) const {
  const std::lock_guard lock(mutex_);
  const auto version = held_.versions().find(key);
  return version == held_.versions().end() ? TensorPieces() : version->second;
}

std::vector<VersionKey> Store::versions() const {
  const std::lock_guard lock(mutex_);
  std::vector<VersionKey> keys;
  for (const auto& [key, tensors] : held_.versions()) keys.push_back(key);
  return keys;
}

Target Store::target(const Piece& piece) const {
  const std::lock_guard lock(mutex_);
  SCALAI_CHECK(buffers_.contains(piece.offset), piece.box.str());
  return {piece.box, piece.dtype, memory_->data(piece.offset)};
}

void Store::begin_rewrite() {
  const std::lock_guard lock(mutex_);
  memory_->begin_rewrite();
}

void Store::end_rewrite() {
  const std::lock_guard lock(mutex_);
  memory_->end_rewrite();
}

absl::Status Store::publish(const VersionKey& key) {
  const std::lock_guard lock(mutex_);
  const auto version = held_.versions().find(key);
  if (version == held_.versions().end()) return missing(fmt::format("no state of {} is held", key.str()));
  Directory next = published_;
  next.edit(key) = version->second;
  SCALAI_RETURN_IF_ERROR(memory_->publish(next.encode()));
  published_ = std::move(next);
  return {};
}

void Store::drop(const VersionKey& key) {
  const std::lock_guard lock(mutex_);
  const auto version = held_.versions().find(key);
  if (version == held_.versions().end()) return;
  if (published_.contains(key)) {
    published_.erase(key);
    const absl::Status status = memory_->publish(published_.encode());
    SCALAI_CHECK(status.ok(), "a smaller directory needs no memory: " + message_of(status));
    memory_->raise_epoch();
  }
  const TensorPieces gone = version->second;
  held_.erase(key);
  for (const auto& [tensor, pieces] : gone) forget(key, tensor, pieces);
}

absl::Status Store::give_back(const VersionKey& key, std::span<const TensorBox> boxes) {
  const std::lock_guard lock(mutex_);
  TensorPieces left;
  TensorPieces removed;
  Directory next = published_;
  for (const auto& [tensor, box] : boxes) {
    const std::span<const Piece> before = pieces_of(held_, key, tensor);
    std::vector<Piece>& now = left.try_emplace(tensor, before.begin(), before.end()).first->second;
    const std::vector<Piece> found = overlapping(now, box);
    if (!cover(found, box)) return missing(str(key, tensor, box) + " is not held here, so it cannot be given back");
    now = without(now, box);
    removed[tensor].insert(removed[tensor].end(), found.begin(), found.end());
    const std::span<const Piece> seen = pieces_of(next, key, tensor);
    if (!overlapping(seen, box).empty()) set_pieces(next, key, tensor, without(seen, box));
  }
  if (next.versions() != published_.versions()) {
    SCALAI_RETURN_IF_ERROR(memory_->publish(next.encode()));
    published_ = std::move(next);
    memory_->raise_epoch();
  }
  for (auto& [tensor, pieces] : left) set_pieces(held_, key, tensor, std::move(pieces));
  for (const auto& [tensor, pieces] : removed) forget(key, tensor, pieces);
  return {};
}

bool Store::uses(const VersionKey& key, TensorId tensor, uint64_t offset) const {
  const std::span<const Piece> pieces = pieces_of(held_, key, tensor);
  return std::any_of(pieces.begin(), pieces.end(), [&](const Piece& piece) { return piece.offset == offset; });
}

// `removed` are pieces that the version had until now.
void Store::forget(const VersionKey& key, TensorId tensor, std::span<const Piece> removed) {
  for (const Piece& piece : removed) {
    const auto found = buffers_.find(piece.offset);
    if (found == buffers_.end()) continue;  // freed with an earlier piece
    Buffer& buffer = found->second;
    if (!uses(key, tensor, piece.offset)) std::erase(buffer.users, std::pair(key, tensor));
    if (buffer.users.empty()) {
      live_bytes_ -= buffer.live_bytes;
      memory_->free(piece.offset);
      buffers_.erase(found);
      continue;
    }
    std::vector<Box> readable;
    for (const auto& [other, other_tensor] : buffer.users) {
      for (const Piece& p : pieces_of(held_, other, other_tensor)) {
        if (p.offset == piece.offset) readable.push_back(p.part);
      }
    }
    for (const Box& dead : tensor::subtract(piece.part, readable)) release(piece.offset, buffer, dead);
  }
}

// Counts dead bytes page by page; a page without live ones goes back, together with its neighbours of this box.
void Store::release(uint64_t offset, Buffer& buffer, const Box& dead) {
  const int64_t element = tensor::size_of(buffer.dtype);
  const int64_t page = memory_->grain_bytes();
  if (buffer.live_in_page.empty()) {
    buffer.live_in_page.assign(static_cast<size_t>((buffer.live_bytes + page - 1) / page), static_cast<int32_t>(page));
    if (const int64_t rest = buffer.live_bytes % page; rest > 0)
      buffer.live_in_page.back() = static_cast<int32_t>(rest);
  }
  int64_t begin = -1;  // pages [begin, end) are to go back
  int64_t end = -1;
  const auto flush = [&] {
    if (begin < end) memory_->free_range(offset + static_cast<uint64_t>(begin * page), (end - begin) * page);
  };
  const internal::Runs runs = internal::runs_of(dead, buffer.box, buffer.box);
  internal::for_each_run(runs, [&](int64_t first, int64_t) {
    const int64_t last = (first + runs.length) * element;
    for (int64_t at = first * element; at < last;) {
      const int64_t number = at / page;
      const int64_t next = std::min(last, (number + 1) * page);
      int32_t& live = buffer.live_in_page[static_cast<size_t>(number)];
      live -= static_cast<int32_t>(next - at);
      at = next;
      SCALAI_CHECK(live >= 0, dead.str());
      if (live > 0) continue;
      if (number != end) {
        flush();
        begin = number;
      }
      end = number + 1;
    }
    return true;
  });
  flush();
  buffer.live_bytes -= dead.volume() * element;
  live_bytes_ -= dead.volume() * element;
}

absl::Status Store::reserve(int64_t bytes) {
  const std::lock_guard lock(mutex_);
  return memory_->reserve(bytes);
}
absl::Status Store::settle() {
  const std::lock_guard lock(mutex_);
  return memory_->settle();
}
int64_t Store::bytes_held() const {
  const std::lock_guard lock(mutex_);
  return live_bytes_;
}
int64_t Store::bytes_in_use() const {
  const std::lock_guard lock(mutex_);
  return memory_->bytes_in_use();
}
int64_t Store::bytes_peak() const {
  const std::lock_guard lock(mutex_);
  return memory_->bytes_peak();
}
int64_t Store::bytes_on_huge_pages() const {
  const std::lock_guard lock(mutex_);
  return memory_->bytes_on_huge_pages();
}
SegmentAddress Store::address() const { return memory_->address(); }

absl::StatusOr<SharedPart> Store::share(uint64_t offset) const {
  const std::lock_guard lock(mutex_);
  return memory_->share(offset);
}
const std::byte* Store::base() const { return memory_->data(0); }

}  // namespace scalai::executor::state
