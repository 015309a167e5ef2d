#include "executor/state/peer_segment.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <new>
#include <string>
#include <thread>
#include <utility>

#include "executor/state/huge_pages.h"
#include "executor/state/internal/fence.h"
#include "executor/state/internal/segment_header.h"
#include "executor/state/segment.h"
#include "ptc/base/status.h"

namespace scalai::executor::state {
namespace {
using internal::SegmentHeader;

constexpr uint64_t kMaxDirectory = uint64_t{1} << 32;
// An owner writes it in microseconds, but may have to wait for a core in the middle.
constexpr std::chrono::seconds kPatience{5};
constexpr std::chrono::microseconds kPause{100};

std::string where(const SegmentAddress& address) { return fmt::format("/proc/{}/fd/{}", address.pid, address.fd); }

absl::Status gone(const SegmentAddress& address) {
  return absl::UnavailableError(fmt::format("process {}, whose state was to be read, is gone", address.pid));
}

absl::Status open_error(const SegmentAddress& address) {
  const int error = errno;
  const std::string what = fmt::format("cannot open {}: {}", where(address), std::strerror(error));
  switch (error) {
    case EACCES:
    case EPERM:
      return absl::PermissionDeniedError(what +
                                         "; the workers of one machine must run as the same user, and a program with "
                                         "set-user-id or file capabilities cannot share its state");
    case EMFILE:
    case ENFILE: return absl::ResourceExhaustedError(what + "; raise the limit of open files (ulimit -n)");
    case ENOMEM: return absl::ResourceExhaustedError(what + "; raise the limit of address space (ulimit -v)");
    default:
      return absl::NotFoundError(what +
                                 "; is /proc mounted, and do both workers see the same processes (one PID namespace)?");
  }
}

// Whether the process still runs after `patience_ms`, or has ended by then.
bool runs(int pidfd, int patience_ms = 0) {
  pollfd entry{pidfd, POLLIN, 0};
  int ready = ::poll(&entry, 1, patience_ms);
  while (ready < 0 && errno == EINTR) ready = ::poll(&entry, 1, patience_ms);
  return ready == 0;
}

// A process that ends closes its files first, and only then can others see that it has ended.
constexpr int kEndingMs = 2000;
}  // namespace

struct PeerSegment::Mapping {
  SegmentAddress address;
  int pidfd = -1;
  int fd = -1;
  void* base = nullptr;
  size_t bytes = 0;

  Mapping() = default;
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping() {
    if (base != nullptr) ::munmap(base, bytes);
    if (fd >= 0) ::close(fd);
    if (pidfd >= 0) ::close(pidfd);
  }
  const SegmentHeader& header() const { return *std::launder(static_cast<const SegmentHeader*>(base)); }

  absl::Status open_files() {
    pidfd = static_cast<int>(::syscall(SYS_pidfd_open, address.pid, 0));
    if (pidfd < 0 && errno == ESRCH) return gone(address);
    if (pidfd < 0 && errno == EINVAL) return invalid(fmt::format("{} is not a process id", address.pid));
    if (pidfd < 0) {
      return absl::UnavailableError(
          fmt::format("pidfd_open({}): {}; Linux 5.3 or later is needed", address.pid, std::strerror(errno)));
    }
    // A dead owner waits for its parent without any files: not a fault of the descriptor.
    fd = ::open(where(address).c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd >= 0) return {};
    const int error = errno;
    if (!runs(pidfd, error == ENOENT ? kEndingMs : 0)) return gone(address);
    errno = error;
    return open_error(address);
  }

  absl::Status map() {
    struct stat info {};
    const int seals = ::fcntl(fd, F_GET_SEALS);
    if (::fstat(fd, &info) != 0 || seals < 0 || (seals & F_SEAL_SHRINK) == 0 ||
        info.st_size < static_cast<off_t>(sizeof(SegmentHeader))) {
      return invalid(fmt::format("{} is not a state segment", where(address)));
    }
    bytes = static_cast<size_t>(info.st_size);
    const int64_t huge = huge_page_support().page_bytes;
    void* mapped = map_shared(fd, bytes, PROT_READ, huge > 0 ? huge : Segment::page_bytes());
    if (mapped == MAP_FAILED) return open_error(address);
    base = mapped;
    return {};
  }

  absl::Status check_header() const {
    const SegmentHeader& words = header();
    if (words.magic != SegmentHeader::kMagic) {
      return invalid(fmt::format("{} is not a state segment", where(address)));
    }
    if (words.schema_version != SegmentHeader::kSchemaVersion || words.header_bytes != sizeof(SegmentHeader)) {
      return invalid(
          fmt::format("{} is a state segment of version {}, this program reads version {}; use the same "
                      "program for all workers",
                      where(address), words.schema_version, SegmentHeader::kSchemaVersion));
    }
    if (words.token != address.token || words.capacity != bytes) {
      return missing(
          fmt::format("{} is another state segment than the one asked for; its worker was replaced or "
                      "runs on another machine",
                      where(address)));
    }
    return {};
  }
};

absl::StatusOr<PeerSegment> PeerSegment::open(const SegmentAddress& address) {
  auto mapping = std::make_unique<Mapping>();
  mapping->address = address;
  SCALAI_RETURN_IF_ERROR(mapping->open_files());
  SCALAI_RETURN_IF_ERROR(mapping->map());
  SCALAI_RETURN_IF_ERROR(mapping->check_header());
  if (!runs(mapping->pidfd)) return gone(address);
  return PeerSegment(std::move(mapping));
}

PeerSegment::PeerSegment(std::unique_ptr<Mapping> mapping) : mapping_(std::move(mapping)) {}
PeerSegment::PeerSegment(PeerSegment&&) noexcept = default;
PeerSegment& PeerSegment::operator=(PeerSegment&&) noexcept = default;
PeerSegment::~PeerSegment() = default;

bool PeerSegment::alive() const { return runs(mapping_->pidfd); }
uint64_t PeerSegment::epoch() const { return mapping_->header().epoch.load(); }

bool PeerSegment::still_valid(uint64_t epoch_seen) const {
  internal::fence();
  return epoch_seen % 2 == 0 && epoch() == epoch_seen && alive();
}

absl::StatusOr<std::vector<std::byte>> PeerSegment::directory() const {
  const SegmentHeader& words = mapping_->header();
  const auto until = std::chrono::steady_clock::now() + kPatience;
  for (bool first = true; alive() && (first || std::chrono::steady_clock::now() < until); first = false) {
    if (!first) std::this_thread::sleep_for(kPause);
    const uint64_t sequence = words.sequence.load();
    if (sequence % 2 != 0) continue;
    const uint64_t offset = words.directory_offset.load();
    const uint64_t bytes = words.directory_bytes.load();
    const bool sane = bytes <= kMaxDirectory && offset <= mapping_->bytes && bytes <= mapping_->bytes - offset;
    std::vector<std::byte> copy;
    size_t done = 0;
    if (sane) {
      copy.resize(bytes);
      // Read, not loaded: loads from a directory that has just moved would commit its old pages again.
      while (done < bytes) {
        const ssize_t n = ::pread(mapping_->fd, copy.data() + done, bytes - done, static_cast<off_t>(offset + done));
        if (n <= 0) break;
        done += static_cast<size_t>(n);
      }
    }
    internal::fence();
    if (words.sequence.load() != sequence) continue;
    if (!sane || done < bytes) {
      return failed(
          fmt::format("{}: the directory ({} bytes at {}) cannot be read", where(mapping_->address), bytes, offset));
    }
    return copy;
  }
  if (!alive()) return gone(mapping_->address);
  return absl::UnavailableError(where(mapping_->address) + ": the directory did not stop changing");
}

int64_t PeerSegment::capacity() const { return static_cast<int64_t>(mapping_->bytes); }
const std::byte* PeerSegment::base() const { return static_cast<const std::byte*>(mapping_->base); }
const SegmentAddress& PeerSegment::address() const { return mapping_->address; }

}  // namespace scalai::executor::state
