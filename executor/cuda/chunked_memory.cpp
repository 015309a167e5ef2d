#include "executor/cuda/chunked_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "ptc/base/round_up.h"
#include "ptc/base/status.h"
#include "ptc/base/units.h"

namespace scalai::executor::cuda {
namespace {
absl::Status exhausted(const std::string& what) { return absl::ResourceExhaustedError(what); }
}  // namespace

ChunkedMemory::ChunkedMemory(std::unique_ptr<ChunkSource> source, const state::SegmentOptions& options)
    : source_(std::move(source)), options_(options), chunk_bytes_(source_->chunk_bytes()) {
  SCALAI_CHECK(chunk_bytes_ > 0 && chunk_bytes_ % kGrain == 0, fmt::format("chunks of {} bytes", chunk_bytes_));
}

absl::StatusOr<std::unique_ptr<ChunkedMemory>> ChunkedMemory::create(std::unique_ptr<ChunkSource> source,
                                                                     const state::SegmentOptions& options) {
  std::unique_ptr<ChunkedMemory> memory(new ChunkedMemory(std::move(source), options));
  memory->capacity_ = round_up(std::max<int64_t>(options.capacity, 1), memory->chunk_bytes_);
  SCALAI_ASSIGN_OR_RETURN(memory->base_, memory->source_->reserve_addresses(memory->capacity_));
  memory->slots_.resize(static_cast<size_t>(memory->capacity_ / memory->chunk_bytes_));
  memory->space_.give(0, memory->capacity_);
  if (options.host_overflow >= memory->chunk_bytes_) SCALAI_RETURN_IF_ERROR(memory->try_host());
  return memory;
}

// A driver that refuses is known before anything depends on it.
absl::Status ChunkedMemory::try_host() {
  SCALAI_ASSIGN_OR_RETURN(const ChunkSource::Chunk chunk, source_->acquire(Where::kHost));
  const absl::Status status = source_->map(0, std::span(&chunk, 1));
  if (status.ok()) source_->unmap(0, 1);
  source_->release(chunk);
  return status;
}

ChunkedMemory::~ChunkedMemory() {
  if (base_ == nullptr) return;
  while (!allocations_.empty()) free(allocations_.begin()->first);
  kept_ = 0;
  trim_spare();
}

// Calls visit(slot, grains of [begin, end) in it).
template <class Visit>
void ChunkedMemory::for_each_slot(uint64_t begin, uint64_t end, Visit visit) const {
  const auto chunk = static_cast<uint64_t>(chunk_bytes_);
  while (begin < end) {
    const uint64_t slot = begin / chunk;
    const uint64_t stop = std::min(end, (slot + 1) * chunk);
    visit(static_cast<int64_t>(slot), static_cast<int32_t>((stop - begin) / kGrain));
    begin = stop;
  }
}

absl::Status ChunkedMemory::within_limit(int64_t bytes) const {
  if (bytes - options_.host_overflow <= options_.limit - in_use_) return {};
  const std::string overflow =
      options_.host_overflow == 0 ? "" : fmt::format(" and {} of host memory", format_bytes(options_.host_overflow));
  return exhausted(fmt::format("{} more do not fit: {} of this device's {}{} are used", format_bytes(bytes),
                               format_bytes(in_use_), format_bytes(options_.limit), overflow));
}

absl::StatusOr<int64_t> ChunkedMemory::source_room(Where where) const {
  SCALAI_ASSIGN_OR_RETURN(const int64_t free_bytes, source_->bytes_free(where));
  return std::max<int64_t>(0, free_bytes - options_.leave_free) / chunk_bytes_;
}

// Chunks of the device that may be taken when so many bytes come to those in use. While all that is in use keeps to the
// limit, chunks in which little is used do not count.
absl::StatusOr<int64_t> ChunkedMemory::device_room(int64_t bytes) const {
  SCALAI_ASSIGN_OR_RETURN(const int64_t there, source_room(Where::kDevice));
  if (bytes <= options_.limit - in_use_) return there;
  return std::min(there, std::max<int64_t>(0, options_.limit / chunk_bytes_ - acquired_[0]));
}

absl::StatusOr<int64_t> ChunkedMemory::host_room() const {
  const int64_t allowed = options_.host_overflow / chunk_bytes_ - acquired_[1];
  if (allowed <= 0) return 0;
  SCALAI_ASSIGN_OR_RETURN(const int64_t there, source_room(Where::kHost));
  return std::min(there, allowed);
}

absl::StatusOr<ChunkedMemory::Split> ChunkedMemory::split(int64_t chunks, int64_t bytes) const {
  SCALAI_ASSIGN_OR_RETURN(const int64_t device, device_room(bytes));
  if (chunks <= device) return Split{.on_device = chunks};
  SCALAI_ASSIGN_OR_RETURN(const int64_t host, host_room());
  if (chunks <= device + host) return Split{.on_device = device, .on_host = chunks - device};
  if (options_.host_overflow == 0) {
    SCALAI_ASSIGN_OR_RETURN(const int64_t free_bytes, source_->bytes_free(Where::kDevice));
    return exhausted(
        fmt::format("{} more do not fit in the memory of {}: {} are free and {} stay free; use fewer devices on it, a "
                    "smaller model or a memory limit in the cluster file",
                    format_bytes(chunks * chunk_bytes_), source_->name(), format_bytes(free_bytes),
                    format_bytes(options_.leave_free)));
  }
  return exhausted(fmt::format(
      "{} more do not fit: there is room for {} on {} and for {} in host memory, of which {} of {} for overflow are "
      "used; use fewer devices on a GPU, a smaller model or more overflow (--host-overflow)",
      format_bytes(chunks * chunk_bytes_), format_bytes(device * chunk_bytes_), source_->name(),
      format_bytes(host * chunk_bytes_), format_bytes(bytes_on_host()), format_bytes(options_.host_overflow)));
}

void ChunkedMemory::put_spare(const Held& held) {
  if (held.where == Where::kHost) {
    spare_.push_front(held);
    return;
  }
  spare_.push_back(held);
  ++spare_on_device_;
}

absl::Status ChunkedMemory::acquire_one(Where where) {
  SCALAI_ASSIGN_OR_RETURN(const ChunkSource::Chunk chunk, source_->acquire(where));
  ++acquired_[static_cast<size_t>(where)];
  put_spare({chunk, where});
  return {};
}

// Sees to it that so many are spare, when `bytes` are to come to those in use.
absl::Status ChunkedMemory::acquire_spare(int64_t chunks, int64_t bytes) {
  const int64_t missing_chunks = chunks - static_cast<int64_t>(spare_.size());
  if (missing_chunks <= 0) return {};
  SCALAI_ASSIGN_OR_RETURN(const Split from, split(missing_chunks, bytes));
  const auto lacking = [&] { return chunks - static_cast<int64_t>(spare_.size()); };
  absl::Status status;
  while (status.ok() && lacking() > from.on_host) status = acquire_one(Where::kDevice);
  // Others who use the card may have been faster.
  if (absl::IsResourceExhausted(status) && host_room().value_or(0) >= lacking()) status = absl::OkStatus();
  while (status.ok() && lacking() > 0) status = acquire_one(Where::kHost);
  if (!status.ok()) trim_spare();
  return status;
}

void ChunkedMemory::trim_spare() {
  while (!spare_.empty() && acquired_[0] + acquired_[1] > kept_) {
    const Held held = spare_.front();
    spare_.pop_front();
    spare_on_device_ -= held.where == Where::kDevice;
    --acquired_[static_cast<size_t>(held.where)];
    source_->release(held.chunk);
  }
}

absl::Status ChunkedMemory::map_slots(int64_t first, int64_t count) {
  std::vector<ChunkSource::Chunk> chunks;
  for (int64_t i = 1; i <= count; ++i) chunks.push_back(spare_[spare_.size() - static_cast<size_t>(i)].chunk);
  SCALAI_RETURN_IF_ERROR(source_->map(first, chunks));
  for (int64_t i = 0; i < count; ++i) {
    slots_[static_cast<size_t>(first + i)].held = spare_.back();
    spare_on_device_ -= spare_.back().where == Where::kDevice;
    spare_.pop_back();
  }
  return {};
}

void ChunkedMemory::unmap_slots(int64_t first, int64_t count) {
  source_->unmap(first, count);
  for (int64_t i = 0; i < count; ++i) put_spare(slots_[static_cast<size_t>(first + i)].held);
}

absl::Status ChunkedMemory::commit(uint64_t begin, uint64_t end) {
  std::vector<std::pair<int64_t, int64_t>> runs;  // of slots without a chunk: (first, count)
  int64_t empty = 0;
  for_each_slot(begin, end, [&](int64_t slot, int32_t) {
    if (slots_[static_cast<size_t>(slot)].grains > 0) return;
    const bool continues = !runs.empty() && runs.back().first + runs.back().second == slot;
    if (!continues) runs.emplace_back(slot, 0);
    ++runs.back().second;
    ++empty;
  });
  SCALAI_RETURN_IF_ERROR(acquire_spare(empty, static_cast<int64_t>(end - begin)));
  absl::Status status;
  size_t mapped = 0;
  for (const auto& [first, count] : runs) {
    status = map_slots(first, count);
    if (!status.ok()) break;
    ++mapped;
  }
  if (status.ok()) status = source_->clear(base_ + begin, static_cast<int64_t>(end - begin));
  if (!status.ok()) {
    for (size_t i = 0; i < mapped; ++i) unmap_slots(runs[i].first, runs[i].second);
    trim_spare();
    return status;
  }
  for_each_slot(begin, end, [&](int64_t slot, int32_t grains) { slots_[static_cast<size_t>(slot)].grains += grains; });
  return {};
}

void ChunkedMemory::uncommit(uint64_t begin, uint64_t end) {
  int64_t first = 0;
  int64_t count = 0;  // of neighbours whose last grain went
  for_each_slot(begin, end, [&](int64_t slot, int32_t grains) {
    int32_t& used = slots_[static_cast<size_t>(slot)].grains;
    SCALAI_CHECK(used >= grains, fmt::format("{} of {} grains", grains, used));
    used -= grains;
    if (used > 0) return;
    if (count == 0) first = slot;
    ++count;
  });
  if (count > 0) unmap_slots(first, count);
  trim_spare();
}

absl::Status ChunkedMemory::reserve(int64_t bytes) {
  SCALAI_CHECK(bytes >= 0, fmt::format("{}", bytes));
  SCALAI_RETURN_IF_ERROR(within_limit(bytes));
  // One more: what is allocated need not begin where a chunk does.
  const int64_t chunks = bytes == 0 ? 0 : round_up(bytes, chunk_bytes_) / chunk_bytes_ + 1;
  SCALAI_RETURN_IF_ERROR(acquire_spare(chunks, bytes));
  const int64_t mapped = acquired_[0] + acquired_[1] - static_cast<int64_t>(spare_.size());
  kept_ = bytes == 0 ? 0 : mapped + chunks;
  trim_spare();
  return {};
}

// Moves the first of these slots, all on the host, as many as there is room for. How many.
absl::StatusOr<size_t> ChunkedMemory::move_some(std::span<const int64_t> slots) {
  SCALAI_ASSIGN_OR_RETURN(const int64_t room, device_room(0));
  const int64_t wanted = spare_on_device_ + room;
  const auto most = static_cast<int64_t>(std::min(slots.size(), ChunkSource::kMostMoves));
  absl::Status status;
  while (status.ok() && spare_on_device_ < std::min(most, wanted)) status = acquire_one(Where::kDevice);
  if (!status.ok() && !absl::IsResourceExhausted(status)) return status;  // others who use the card may be faster
  std::vector<ChunkSource::Move> moves;
  for (size_t i = 0; i < static_cast<size_t>(std::min(most, spare_on_device_)); ++i)
    moves.push_back({.slot = slots[i], .to = spare_[spare_.size() - 1 - i].chunk});
  if (moves.empty()) return 0;
  SCALAI_RETURN_IF_ERROR(source_->move(moves));
  for (const ChunkSource::Move& move : moves) {
    Held& held = slots_[static_cast<size_t>(move.slot)].held;
    const Held before = std::exchange(held, spare_.back());
    spare_.pop_back();
    --spare_on_device_;
    put_spare(before);
  }
  return moves.size();
}

absl::Status ChunkedMemory::settle() {
  std::vector<int64_t> slots;
  if (acquired_[1] > 0) {
    for (size_t i = 0; i < slots_.size(); ++i) {
      if (slots_[i].grains > 0 && slots_[i].held.where == Where::kHost) slots.push_back(static_cast<int64_t>(i));
    }
  }
  std::span<const int64_t> left = slots;
  while (!left.empty()) {
    const absl::StatusOr<size_t> moved = move_some(left);
    trim_spare();
    SCALAI_RETURN_IF_ERROR(moved.status());
    if (*moved == 0) break;  // no room
    left = left.subspan(*moved);
  }
  return {};
}

absl::StatusOr<uint64_t> ChunkedMemory::allocate(int64_t bytes) {
  SCALAI_CHECK(bytes > 0, fmt::format("{}", bytes));
  SCALAI_RETURN_IF_ERROR(within_limit(bytes));
  const int64_t size = round_up(bytes, kGrain);
  const std::optional<uint64_t> offset = space_.take(size);
  if (!offset) {
    return exhausted(
        fmt::format("{} do not fit in the {} of addresses of {}, of which {} are used; give it more capacity",
                    format_bytes(bytes), format_bytes(capacity_), source_->name(), format_bytes(in_use_)));
  }
  if (absl::Status status = commit(*offset, *offset + static_cast<uint64_t>(size)); !status.ok()) {
    space_.give(*offset, size);
    return status;
  }
  allocations_[*offset].bytes = size;
  in_use_ += size;
  peak_ = std::max(peak_, in_use_);
  return *offset;
}

void ChunkedMemory::free(uint64_t offset) {
  const auto found = allocations_.find(offset);
  SCALAI_CHECK(found != allocations_.end(), fmt::format("offset {}", offset));
  const int64_t size = found->second.bytes;
  // Adding the whole to what is back already leaves the parts in use.
  for (const auto& [begin, end] :
       state::internal::add_range(found->second.returned, offset, offset + static_cast<uint64_t>(size))) {
    uncommit(begin, end);
    in_use_ -= static_cast<int64_t>(end - begin);
  }
  allocations_.erase(found);
  space_.give(offset, size);
}

int64_t ChunkedMemory::free_range(uint64_t offset, int64_t bytes) {
  auto found = allocations_.upper_bound(offset);
  SCALAI_CHECK(bytes >= 0 && found != allocations_.begin(), fmt::format("offset {}", offset));
  --found;
  Allocation& allocation = found->second;
  const uint64_t end = offset + static_cast<uint64_t>(bytes);
  SCALAI_CHECK(end <= found->first + static_cast<uint64_t>(allocation.bytes), fmt::format("{} to {}", offset, end));
  const uint64_t first = (offset + kGrain - 1) / kGrain * kGrain;
  const uint64_t last = end / kGrain * kGrain;
  if (first >= last) return 0;
  int64_t gained = 0;
  for (const auto& [from, to] : state::internal::add_range(allocation.returned, first, last)) {
    uncommit(from, to);
    gained += static_cast<int64_t>(to - from);
  }
  in_use_ -= gained;
  return gained;
}

std::byte* ChunkedMemory::data(uint64_t offset) const {
  SCALAI_CHECK(offset < static_cast<uint64_t>(capacity_), fmt::format("offset {}", offset));
  return base_ + offset;
}

int64_t ChunkedMemory::bytes_held() const { return (acquired_[0] + acquired_[1]) * chunk_bytes_; }

absl::StatusOr<state::SharedPart> ChunkedMemory::share(uint64_t offset) const {
  const auto slot = static_cast<size_t>(offset / static_cast<uint64_t>(chunk_bytes_));
  SCALAI_CHECK(slot < slots_.size() && slots_[slot].grains > 0, fmt::format("nothing is allocated at {}", offset));
  SCALAI_ASSIGN_OR_RETURN(FileDescriptor descriptor, source_->share(slots_[slot].held.chunk));
  return state::SharedPart{
      .offset = slot * static_cast<uint64_t>(chunk_bytes_), .bytes = chunk_bytes_, .descriptor = std::move(descriptor)};
}

}  // namespace scalai::executor::cuda
