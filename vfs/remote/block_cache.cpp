#include "vfs/remote/block_cache.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <thread>

#include "ptc/base/file.h"
#include "ptc/base/status.h"
#include "ptc/base/units.h"

namespace scalai::vfs {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFolder = "scalai-blocks-1";  // the number is the version of the form
constexpr uint64_t kMagic = 0x31424b4c49414353;     // "SCAILKB1", little endian
constexpr auto kLockPatience = std::chrono::seconds(2);
// Not waited for so long after a wait that was in vain: else a holder that hangs would slow down every block.
constexpr auto kLockPause = std::chrono::seconds(30);
constexpr int64_t kDirty = -1;  // in the lock file: somebody did not finish

struct BlockHeader {
  uint64_t magic = kMagic;
  int64_t bytes = 0;
  uint64_t checksum_low = 0, checksum_high = 0;
};
static_assert(sizeof(BlockHeader) == 32);
constexpr int64_t kHeaderBytes = sizeof(BlockHeader);

std::string name_of(const BlockKey& key) { return fmt::format("{}.{}", key.file, key.index); }

BlockHeader header_of(const BlockKey& key, std::span<const std::byte> bytes) {
  const std::string name = name_of(key);
  const XXH128_hash_t salt = XXH3_128bits(name.data(), name.size());
  const XXH128_hash_t sum = XXH3_128bits_withSeed(bytes.data(), bytes.size(), salt.low64);
  return {.bytes = static_cast<int64_t>(bytes.size()), .checksum_low = sum.low64, .checksum_high = sum.high64};
}

bool same(const BlockHeader& one, const BlockHeader& other) { return std::memcmp(&one, &other, sizeof(one)) == 0; }

bool write_all(int fd, const void* data, size_t bytes) {
  for (size_t done = 0; done < bytes;) {
    const ssize_t put = ::write(fd, static_cast<const char*>(data) + done, bytes - done);
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return false;
    done += static_cast<size_t>(put);
  }
  return true;
}

bool read_exactly(int fd, void* data, size_t bytes) {
  for (size_t done = 0; done < bytes;) {
    const ssize_t got = ::read(fd, static_cast<char*>(data) + done, bytes - done);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    done += static_cast<size_t>(got);
  }
  return true;
}

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

// A file of ours on disk. Files of others in the folder are neither counted nor touched.
struct Entry {
  std::string path;
  int64_t bytes = 0;
  int64_t used_ns = 0;
};

bool is_hex(const std::string& text) { return text.find_first_not_of("0123456789abcdef") == std::string::npos; }

bool is_block_name(const std::string& name) {
  const size_t dot = name.find('.');
  return dot == 32 && is_hex(name.substr(0, dot)) && name.size() > dot + 1 &&
         name.find_first_not_of("0123456789", dot + 1) == std::string::npos;
}

void add_blocks_of(const fs::path& folder, std::vector<Entry>& entries) {
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    struct stat status = {};
    if (!is_block_name(it->path().filename()) || ::stat(it->path().c_str(), &status) != 0) continue;
    entries.push_back({it->path(), status.st_size, status.st_mtim.tv_sec * 1'000'000'000 + status.st_mtim.tv_nsec});
  }
}

std::vector<Entry> blocks_in(const fs::path& folder) {
  std::vector<Entry> entries;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename();
    if (name.size() == 2 && is_hex(name)) add_blocks_of(it->path(), entries);
  }
  return entries;
}

// Temporary files are made under the lock, so whoever holds it finds only those of killed writers.
void remove_unfinished(const fs::path& folder) {
  std::error_code error;
  for (fs::directory_iterator it(folder / "new", error), end; !error && it != end; it.increment(error)) {
    ::unlink(it->path().c_str());
  }
}

}  // namespace

// Keeps other threads and processes out. The bytes in use stand in the lock file: kDirty there while somebody changes
// them, so that the next one counts anew after a kill.
class BlockCache::Lock {
 public:
  explicit Lock(BlockCache& cache) : cache_(cache), guard_(cache.mutex_) {
    const auto now = std::chrono::steady_clock::now();
    const auto until = now < cache.no_wait_before_ ? now : now + kLockPatience;
    while (!(held_ = ::flock(cache.lock_fd_, LOCK_EX | LOCK_NB) == 0)) {
      if (errno != EWOULDBLOCK && errno != EINTR) return;
      if (std::chrono::steady_clock::now() >= until) {  // a holder that was stopped must not stop us
        if (until > now) cache.no_wait_before_ = until + kLockPause;
        return;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    cache.no_wait_before_ = {};
    if (::pread(cache.lock_fd_, &bytes_, sizeof(bytes_), 0) != sizeof(bytes_)) bytes_ = kDirty;
    write(kDirty);
  }
  ~Lock() {
    if (!held_) return;
    write(bytes_);
    ::flock(cache_.lock_fd_, LOCK_UN);
  }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

  bool held() const { return held_; }
  int64_t bytes() const { return bytes_; }
  void set_bytes(int64_t bytes) { bytes_ = bytes; }

 private:
  void write(int64_t value) const {
    if (::pwrite(cache_.lock_fd_, &value, sizeof(value), 0) != sizeof(value)) (void)::ftruncate(cache_.lock_fd_, 0);
  }

  BlockCache& cache_;
  const std::lock_guard<std::mutex> guard_;
  bool held_ = false;
  int64_t bytes_ = kDirty;
};

BlockCache::BlockCache(std::string folder, int64_t bytes_limit)
    : folder_(std::move(folder)), bytes_limit_(bytes_limit) {}

BlockCache::~BlockCache() {
  if (lock_fd_ >= 0) ::close(lock_fd_);
}

absl::StatusOr<std::unique_ptr<BlockCache>> BlockCache::open(const std::string& folder, int64_t bytes_limit,
                                                             int64_t block_bytes) {
  if (bytes_limit < block_bytes + kHeaderBytes) {
    return invalid(fmt::format("{}: a cache of {} does not hold one block of {}; give it more", folder,
                               format_bytes(bytes_limit), format_bytes(block_bytes)));
  }
  std::unique_ptr<BlockCache> cache(new BlockCache((fs::path(folder) / kFolder).string(), bytes_limit));
  SCALAI_RETURN_IF_ERROR(cache->prepare());
  return cache;
}

absl::Status BlockCache::prepare() {
  if (const absl::Status made = make_folders(folder_ + "/new"); !made.ok()) {
    return missing(fmt::format("{}: the cache cannot be made: {}", folder_, message_of(made)));
  }
  const std::string lock = folder_ + "/lock";
  lock_fd_ = ::open(lock.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (lock_fd_ < 0) return missing(fmt::format("{}: {}", lock, std::strerror(errno)));
  Lock held(*this);
  if (!held.held()) return absl::OkStatus();  // in use by others; they keep it in order
  remove_unfinished(folder_);
  held.set_bytes(evict_to(bytes_limit_));
  return absl::OkStatus();
}

std::string BlockCache::path_of(const BlockKey& key) const {
  const std::string name = name_of(key);
  const uint64_t spread = XXH3_64bits(name.data(), name.size()) & 0xff;  // blocks of one file go to all folders
  return fmt::format("{}/{:02x}/{}", folder_, spread, name);
}

std::optional<std::vector<std::byte>> BlockCache::get(const BlockKey& key, int64_t bytes) {
  const std::string path = path_of(key);
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0) return std::nullopt;
  BlockHeader header;
  std::vector<std::byte> data(static_cast<size_t>(bytes));
  struct stat status = {};
  const bool whole = ::fstat(file.get(), &status) == 0 && status.st_size == kHeaderBytes + bytes &&
                     read_exactly(file.get(), &header, sizeof(header)) &&
                     read_exactly(file.get(), data.data(), data.size());
  if (!whole || !same(header, header_of(key, data))) {
    ++counts_.damaged;
    ::unlink(path.c_str());  // the bytes in use are then counted too high, until the next eviction counts anew
    return std::nullopt;
  }
  ::futimens(file.get(), nullptr);
  ++counts_.hits;
  return data;
}

void BlockCache::put(const BlockKey& key, std::span<const std::byte> bytes) {
  const int64_t size = kHeaderBytes + static_cast<int64_t>(bytes.size());
  if (size > bytes_limit_) {
    ++counts_.not_stored;
    return;
  }
  Lock lock(*this);
  if (!lock.held()) {
    ++counts_.not_stored;
    return;
  }
  if (lock.bytes() == kDirty) remove_unfinished(folder_);
  // Room for an eighth more, so that the folder is not counted for every block.
  if (lock.bytes() == kDirty || lock.bytes() + size > bytes_limit_) {
    const int64_t room = std::max(size, bytes_limit_ / 8);
    lock.set_bytes(evict_to(lock.bytes() == kDirty ? bytes_limit_ - size : bytes_limit_ - room));
  }
  if (lock.bytes() + size > bytes_limit_ || !store(key, bytes)) {
    ++counts_.not_stored;
    return;
  }
  lock.set_bytes(lock.bytes() + size);
  ++counts_.stored;
}

bool BlockCache::store(const BlockKey& key, std::span<const std::byte> bytes) {
  const std::string path = path_of(key);
  if (::access(path.c_str(), F_OK) == 0) return false;  // another process was quicker
  const std::string unfinished = fmt::format("{}/new/{}.{}", folder_, ::getpid(), next_name_++);
  const Descriptor file(::open(unfinished.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  if (file.get() < 0) return false;
  const BlockHeader header = header_of(key, bytes);
  bool stored = write_all(file.get(), &header, sizeof(header)) && write_all(file.get(), bytes.data(), bytes.size());
  if (stored) {
    ::mkdir(path.substr(0, path.rfind('/')).c_str(), 0700);  // mostly there already
    stored = ::rename(unfinished.c_str(), path.c_str()) == 0;
  }
  if (!stored) ::unlink(unfinished.c_str());
  return stored;
}

int64_t BlockCache::evict_to(int64_t bytes) {
  std::vector<Entry> entries = blocks_in(folder_);
  int64_t used = 0;
  for (const Entry& entry : entries) used += entry.bytes;
  if (used <= bytes) return used;
  std::sort(entries.begin(), entries.end(), [](const Entry& one, const Entry& other) {
    return one.used_ns != other.used_ns ? one.used_ns < other.used_ns : one.path < other.path;
  });
  for (const Entry& entry : entries) {
    if (used <= bytes) break;
    if (::unlink(entry.path.c_str()) != 0 && errno != ENOENT) continue;
    used -= entry.bytes;
    ++counts_.evicted;
  }
  return used;
}

}  // namespace scalai::vfs
