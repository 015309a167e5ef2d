#include "executor/state/segment.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <optional>

#include "executor/state/available_memory.h"
#include "executor/state/internal/fence.h"
#include "executor/state/internal/segment_header.h"
#include "ptc/base/status.h"
#include "ptc/base/units.h"

namespace scalai::executor::state {
namespace {
using internal::SegmentHeader;

constexpr unsigned kNoExecSeal = 0x0008U;  // MFD_NOEXEC_SEAL of Linux 6.3, missing in older headers
// Memory is committed in steps of this size, each after a look at what the machine has left: several workers that grow
// at the same time then see each other.
constexpr int64_t kStep = int64_t{64} << 20;

absl::Status exhausted(const std::string& what) { return absl::ResourceExhaustedError(what); }

int64_t whole_pages(int64_t bytes) {
  const int64_t page = Segment::page_bytes();
  return (bytes + page - 1) / page * page;
}

absl::StatusOr<uint64_t> random_token() {
  uint64_t token = 0;
  if (::getrandom(&token, sizeof token, 0) != sizeof token) {
    return absl::UnavailableError(fmt::format("getrandom: {}", std::strerror(errno)));
  }
  return token;
}

int create_memfd(const std::string& name) {
  const unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
  const int fd = ::memfd_create(name.c_str(), flags | kNoExecSeal);
  return fd < 0 && errno == EINVAL ? ::memfd_create(name.c_str(), flags) : fd;
}

// A file beyond the limit would mean a signal, not an error.
absl::Status check_file_size_limit(int64_t capacity) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur >= static_cast<rlim_t>(capacity)) return {};
  return exhausted(fmt::format("a state segment of {} is larger than the file size limit of {}; raise it (ulimit -f)",
                               format_bytes(capacity), format_bytes(static_cast<int64_t>(limit.rlim_cur))));
}

absl::Status create_error(int64_t capacity) {
  const int error = errno;
  const std::string what =
      fmt::format("cannot create a state segment of {}: {}", format_bytes(capacity), std::strerror(error));
  if (error == ENOSYS) return absl::UnavailableError(what + "; the kernel has no memfd_create");
  if (error == EMFILE || error == ENFILE) return exhausted(what + "; raise the limit of open files (ulimit -n)");
  if (error == ENOMEM)
    return exhausted(what + "; raise the limit of address space (ulimit -v) or ask for less capacity");
  return exhausted(what);
}
}  // namespace

struct Segment::Mapping {
  int fd = -1;
  std::byte* base = nullptr;
  int64_t capacity = 0;

  Mapping() = default;
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  // Readers may have it mapped still: they find nothing any more.
  ~Mapping() {
    if (base != nullptr) {
      set_directory(0, 0, {});
      header().epoch.fetch_add(2);
      ::munmap(base, static_cast<size_t>(capacity));
    }
    if (fd >= 0) ::close(fd);
  }
  SegmentHeader& header() const { return *std::launder(reinterpret_cast<SegmentHeader*>(base)); }

  // Writes the bytes to `offset` and names them, so that readers see either the old ones or these.
  void set_directory(uint64_t offset, uint64_t bytes, std::span<const std::byte> content) const {
    SegmentHeader& words = header();
    words.sequence.fetch_add(1);
    internal::fence();
    if (!content.empty()) std::memcpy(base + offset, content.data(), content.size());
    words.directory_offset.store(offset);
    words.directory_bytes.store(bytes);
    internal::fence();
    words.sequence.fetch_add(1);
  }
};

absl::StatusOr<Segment> Segment::create(const SegmentOptions& options) {
  const int64_t capacity = whole_pages(std::max(options.capacity, 2 * page_bytes()));
  SCALAI_RETURN_IF_ERROR(check_file_size_limit(capacity));
  SCALAI_ASSIGN_OR_RETURN(const uint64_t token, random_token());
  const HugePageSupport support = huge_page_support();
  if (options.huge_pages == HugePages::kRequire && support.page_bytes == 0)
    return absl::UnavailableError(no_huge_pages(support));
  const bool huge = options.huge_pages != HugePages::kOff && support.page_bytes > 0;
  auto mapping = std::make_unique<Mapping>();
  mapping->fd = create_memfd("scalai-" + options.name);
  if (mapping->fd < 0 || ::ftruncate(mapping->fd, capacity) != 0) return create_error(capacity);
  // Readers may rely on the size: their loads cannot fault for it.
  if (::fcntl(mapping->fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) return create_error(capacity);
  void* base = map_shared(mapping->fd, static_cast<size_t>(capacity), PROT_READ | PROT_WRITE,
                          huge ? support.page_bytes : page_bytes());
  if (base == MAP_FAILED) return create_error(capacity);
  // Where the kernel would use them unasked, too, ranges are told apart: only whole huge pages of allocations may be
  // huge.
  const bool tells = support.page_bytes > 0 && (huge || support.unasked);
  if (tells) {
    (void)::madvise(base, static_cast<size_t>(capacity), MADV_NOHUGEPAGE);
    (void)::madvise(base, static_cast<size_t>(page_bytes()), MADV_POPULATE_WRITE);
  }
  if (::fallocate(mapping->fd, 0, 0, page_bytes()) != 0) {
    const absl::Status status = create_error(capacity);
    ::munmap(base, static_cast<size_t>(capacity));
    return status;
  }
  auto* header = new (base) SegmentHeader;
  header->capacity = static_cast<uint64_t>(capacity);
  header->token = token;
  mapping->base = static_cast<std::byte*>(base);
  mapping->capacity = capacity;
  Segment segment(std::move(mapping));
  segment.options_ = options;
  segment.huge_ = huge ? support.page_bytes : 0;
  segment.tells_ = tells;
  return segment;
}

Segment::Segment(std::unique_ptr<Mapping> mapping) : mapping_(std::move(mapping)) {
  space_.give(static_cast<uint64_t>(page_bytes()), mapping_->capacity - page_bytes());
}
Segment::Segment(Segment&&) noexcept = default;
Segment& Segment::operator=(Segment&&) noexcept = default;
Segment::~Segment() = default;

absl::StatusOr<uint64_t> Segment::take_space(int64_t bytes) {
  // From a multiple of a huge page, where there is room enough.
  const int64_t more = huge_ > 0 && bytes >= huge_ ? huge_ - page_bytes() : 0;
  if (const std::optional<uint64_t> space = more > 0 ? space_.take(bytes + more) : std::nullopt) {
    const auto grain = static_cast<uint64_t>(huge_);
    const uint64_t offset = (*space + grain - 1) / grain * grain, before = offset - *space;
    if (before > 0) space_.give(*space, static_cast<int64_t>(before));
    if (const int64_t after = more - static_cast<int64_t>(before); after > 0)
      space_.give(offset + static_cast<uint64_t>(bytes), after);
    return offset;
  }
  const std::optional<uint64_t> offset = space_.take(bytes);
  if (offset) return *offset;
  return exhausted(
      fmt::format("{} do not fit in the {} of a state segment, of which {} are used; give it more capacity",
                  format_bytes(bytes), format_bytes(mapping_->capacity), format_bytes(in_use_)));
}

absl::Status Segment::room_for(int64_t bytes) {
  unchecked_ += bytes;
  if (unchecked_ < kStep) return {};
  const int64_t available = available_memory();
  if (available - unchecked_ < options_.leave_free) {
    const int64_t wanted = std::exchange(unchecked_, kStep);
    return exhausted(
        fmt::format("{} more do not fit in this machine's memory: {} are available and {} stay free; use "
                    "fewer workers on it, a smaller model or a memory limit in the cluster file",
                    format_bytes(wanted), format_bytes(available), format_bytes(options_.leave_free)));
  }
  unchecked_ = 0;
  return {};
}

absl::Status Segment::reserve(int64_t bytes) {
  if (bytes <= options_.limit - in_use_) return {};
  return exhausted(fmt::format("{} more do not fit: {} of this place's {} are used", format_bytes(bytes),
                               format_bytes(in_use_), format_bytes(options_.limit)));
}

absl::StatusOr<uint64_t> Segment::allocate(int64_t bytes) {
  SCALAI_CHECK(bytes > 0);
  SCALAI_RETURN_IF_ERROR(reserve(bytes));
  const int64_t size = whole_pages(bytes);
  SCALAI_ASSIGN_OR_RETURN(const uint64_t offset, take_space(size));
  Allocation allocation;
  allocation.bytes = size;
  if (huge_ > 0 && size >= huge_) allocation.told = huge_range();
  const bool checks = options_.huge_pages == HugePages::kRequire && size >= huge_;
  const int64_t before = checks ? bytes_on_huge_pages() : 0;
  absl::Status status;
  for (int64_t done = 0; status.ok() && done < size; done += kStep) {
    const int64_t step = std::min(kStep, size - done);
    status = room_for(step);
    if (status.ok()) status = commit(offset + static_cast<uint64_t>(done), step, allocation.told != nullptr);
  }
  // A fault a page in the middle of a transfer would take longer than the copy. An older kernel refuses: then it does.
  if (status.ok()) (void)::madvise(mapping_->base + offset, static_cast<size_t>(size), MADV_POPULATE_WRITE);
  if (status.ok() && checks) {
    const int64_t huge = bytes_on_huge_pages() - before;
    if (huge < size / huge_ * huge_)
      status = exhausted(
          fmt::format("{} of {} are on huge pages, which are required: the machine's memory is too scattered; "
                      "--huge-pages=auto takes what there is",
                      format_bytes(huge), format_bytes(size)));
  }
  if (!status.ok()) {
    punch(offset, offset + static_cast<uint64_t>(size));
    tell(offset, size, MADV_NOHUGEPAGE);
    space_.give(offset, size);
    return status;
  }
  allocations_[offset] = std::move(allocation);
  in_use_ += size;
  peak_ = std::max(peak_, in_use_);
  return offset;
}

// By faults where the mapping tells which pages are huge: fallocate() does not ask it, but says what may not be had.
absl::Status Segment::commit(uint64_t begin, int64_t bytes, bool told) {
  if (tells_) {
    if (told) tell(begin, bytes, MADV_HUGEPAGE);
    (void)::madvise(mapping_->base + begin, static_cast<size_t>(bytes), MADV_POPULATE_WRITE);
  }
  while (::fallocate(mapping_->fd, 0, static_cast<off_t>(begin), bytes) != 0) {
    if (errno == EINTR) continue;
    return exhausted(fmt::format("cannot commit {} of memory: {}; {} of this place are used", format_bytes(bytes),
                                 std::strerror(errno), format_bytes(in_use_)));
  }
  return {};
}

// Of the whole huge pages in a range.
void Segment::tell(uint64_t begin, int64_t bytes, int advice) {
  if (huge_ == 0) return;
  const auto grain = static_cast<uint64_t>(huge_);
  const uint64_t first = (begin + grain - 1) / grain * grain,
                 last = (begin + static_cast<uint64_t>(bytes)) / grain * grain;
  if (first < last) (void)::madvise(mapping_->base + first, static_cast<size_t>(last - first), advice);
}

void Segment::punch(uint64_t begin, uint64_t end) {
  while (::fallocate(mapping_->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(begin),
                     static_cast<off_t>(end - begin)) != 0) {
    SCALAI_CHECK(errno == EINTR, fmt::format("punching a hole into a memfd: {}", std::strerror(errno)));
  }
}

void Segment::free(uint64_t offset) {
  const auto found = allocations_.find(offset);
  SCALAI_CHECK(found != allocations_.end(), fmt::format("offset {}", offset));
  const int64_t bytes = found->second.bytes;
  punch(offset, offset + static_cast<uint64_t>(bytes));
  tell(offset, bytes, MADV_NOHUGEPAGE);
  in_use_ -= bytes;
  for (const auto& [begin, end] : found->second.returned) in_use_ += static_cast<int64_t>(end - begin);
  allocations_.erase(found);
  space_.give(offset, bytes);
}

int64_t Segment::free_range(uint64_t offset, int64_t bytes) {
  SCALAI_CHECK(bytes >= 0 && offset < static_cast<uint64_t>(mapping_->capacity), fmt::format("offset {}", offset));
  auto found = allocations_.upper_bound(offset);
  SCALAI_CHECK(found != allocations_.begin(), fmt::format("offset {}", offset));
  --found;
  Allocation& allocation = found->second;
  const uint64_t end = offset + static_cast<uint64_t>(bytes);
  SCALAI_CHECK(end <= found->first + static_cast<uint64_t>(allocation.bytes), fmt::format("{} to {}", offset, end));
  const auto page = static_cast<uint64_t>(page_bytes());
  const uint64_t first = (offset + page - 1) / page * page;
  const uint64_t last = end / page * page;
  if (first >= last) return 0;
  punch(first, last);
  int64_t gained = 0;
  for (const auto& [from, to] : internal::add_range(allocation.returned, first, last)) {
    gained += static_cast<int64_t>(to - from);
  }
  in_use_ -= gained;
  return gained;
}

absl::Status Segment::publish(std::span<const std::byte> directory) {
  const auto bytes = static_cast<int64_t>(directory.size());
  const int64_t room = directory_ == 0 ? 0 : allocations_[directory_].bytes;
  if (bytes <= room) {
    mapping_->set_directory(directory_, directory.size(), directory);
    return {};
  }
  // Half as much again, so that a directory that grows does not move each time.
  SCALAI_ASSIGN_OR_RETURN(const uint64_t larger, allocate(bytes + bytes / 2));
  // Before readers have to wait for it: the kernel may look for pages for long.
  std::memcpy(mapping_->base + larger, directory.data(), directory.size());
  mapping_->set_directory(larger, directory.size(), {});
  if (directory_ != 0) free(directory_);
  directory_ = larger;
  return {};
}

void Segment::raise_epoch() {
  mapping_->header().epoch.fetch_add(2);
  internal::fence();
}

void Segment::begin_rewrite() {
  if (rewrites_++ == 0) mapping_->header().epoch.fetch_add(1);
  internal::fence();
}

void Segment::end_rewrite() {
  SCALAI_CHECK(rewrites_ > 0);
  internal::fence();
  if (--rewrites_ == 0) mapping_->header().epoch.fetch_add(1);
}

uint64_t Segment::epoch() const { return mapping_->header().epoch.load(); }

std::byte* Segment::data(uint64_t offset) const {
  SCALAI_CHECK(offset < static_cast<uint64_t>(mapping_->capacity), fmt::format("offset {}", offset));
  return mapping_->base + offset;
}

SegmentAddress Segment::address() const { return {::getpid(), mapping_->fd, mapping_->header().token}; }
int64_t Segment::bytes_in_use() const { return in_use_; }
int64_t Segment::bytes_peak() const { return peak_; }
int64_t Segment::bytes_on_huge_pages() const {
  return state::bytes_on_huge_pages(mapping_->base, static_cast<size_t>(mapping_->capacity));
}
int64_t Segment::page_bytes() { return ::sysconf(_SC_PAGESIZE); }

}  // namespace scalai::executor::state
