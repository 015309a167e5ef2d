#include "ptc/store/views/internal/reshard_journal.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#include "ptc/base/json.h"
#include "ptc/base/status.h"

namespace scalai::store::internal {
namespace {

using nlohmann::json;

constexpr int kVersion = 1;
constexpr int kMostAttempts = 100;
constexpr int64_t kMostBytes = int64_t{1} << 30;
constexpr std::string_view kHeadStart = "{\"job\":\"";

absl::Status io_error(const std::string& path, const char* what) {
  const std::string message = fmt::format("{}: {}: {}", path, what, std::strerror(errno));
  return errno == ENOSPC || errno == EDQUOT ? absl::ResourceExhaustedError(message) : failed(message);
}

json text_or_null(const json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? *found : json();
}

std::optional<int64_t> count_or_none(const json& object, const char* name) {
  const auto found = object.find(name);
  if (found == object.end() || !found->is_number_unsigned()) return std::nullopt;
  return static_cast<int64_t>(found->get<uint64_t>() & 0x7fffffffffffffff);
}

// A process that is done unlinks the file while it has the lock: who gets the lock then has it on a file without a
// name, and looks again for the one that has the name now.
absl::StatusOr<FileDescriptor> open_locked(const std::string& path) {
  for (int attempt = 0; attempt < kMostAttempts; ++attempt) {
    FileDescriptor fd(::open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0644));
    if (fd.get() < 0) {
      if (errno == ENOSPC || errno == EDQUOT) return io_error(path, "cannot create");
      if (errno == ELOOP) return invalid(fmt::format("{}: is a symbolic link, and no journal", path));
      return missing(fmt::format("{}: cannot create: {}", path, std::strerror(errno)));
    }
    if (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
      return failed(fmt::format("{}: another process is writing this target", path));
    }
    struct stat locked {};
    struct stat named {};
    if (::fstat(fd.get(), &locked) != 0) return io_error(path, "cannot read");
    if (!S_ISREG(locked.st_mode)) return invalid(fmt::format("{}: is there and is no journal; move it away", path));
    if (::lstat(path.c_str(), &named) == 0 && named.st_dev == locked.st_dev && named.st_ino == locked.st_ino) return fd;
  }
  return failed(fmt::format("{}: other processes are writing this target", path));
}

absl::StatusOr<std::string> text_of(int fd, const std::string& path) {
  struct stat status {};
  if (::fstat(fd, &status) != 0) return io_error(path, "cannot read");
  if (status.st_size > kMostBytes) {
    return invalid(fmt::format("{}: has {} bytes, and is no journal; move it away", path, status.st_size));
  }
  std::string text(static_cast<size_t>(status.st_size), '\0');
  for (size_t at = 0; at < text.size();) {
    const ssize_t n = ::pread(fd, text.data() + at, text.size() - at, static_cast<off_t>(at));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return io_error(path, "cannot read");
    if (n == 0) text.resize(at);
    at += static_cast<size_t>(n);
  }
  return text;
}

// A first line that was not written to its end. A loss of power may leave a file's size without its data: zeros.
bool may_be_cut_head(const std::string& text) {
  const std::string written = text.substr(0, text.find('\0'));
  return text.size() < 128 && text.find_first_not_of('\0', written.size()) == std::string::npos &&
         (written.starts_with(kHeadStart) || kHeadStart.starts_with(written));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Journal>> Journal::open(const std::string& path, const std::string& job, bool restart) {
  SCALAI_ASSIGN_OR_RETURN(FileDescriptor fd, open_locked(path));
  SCALAI_ASSIGN_OR_RETURN(const std::string text, text_of(fd.get(), path));
  std::unique_ptr<Journal> journal(
      new Journal(path, std::move(fd), json_text(json({{"schema_version", kVersion}, {"job", job}}))));
  SCALAI_RETURN_IF_ERROR(journal->read(text, job, restart));
  return journal;
}

absl::Status Journal::read(const std::string& text, const std::string& job, bool restart) {
  const size_t first_end = text.find('\n');
  if (first_end == std::string::npos) {
    if (may_be_cut_head(text)) return absl::OkStatus();
    return invalid(fmt::format("{}: is there and is no journal; move it away", path_));
  }
  const json head = read_json(text.substr(0, first_end)).value_or(nullptr);
  const std::optional<int64_t> version =
      head.is_object() ? count_or_none(head, "schema_version") : std::optional<int64_t>();
  if (!version || !text_or_null(head, "job").is_string()) {
    return invalid(fmt::format("{}: is there and is no journal; move it away", path_));
  }
  was_there_ = true;
  if (restart) return absl::OkStatus();
  if (version != kVersion || text_or_null(head, "job") != json(job)) {
    return invalid(
        fmt::format("{}: an earlier run was cut short with another source, target or version; give the same "
                    "again to go on with it, or --restart to begin anew",
                    path_));
  }
  size_t at = first_end + 1;
  for (size_t end = text.find('\n', at); end != std::string::npos; end = text.find('\n', at)) {
    if (!take(text.substr(at, end - at))) break;
    at = end + 1;
  }
  if (::ftruncate(fd_.get(), static_cast<off_t>(at)) != 0) return io_error(path_, "cannot shorten");
  has_head_ = true;
  return absl::OkStatus();
}

absl::Status Journal::begin() {
  const std::lock_guard lock(mutex_);
  if (has_head_) return absl::OkStatus();
  if (::ftruncate(fd_.get(), 0) != 0) return io_error(path_, "cannot empty");
  SCALAI_RETURN_IF_ERROR(write(head_));
  has_head_ = true;
  return sync_folder(parent_of(path_));
}

// False: not a line of ours.
bool Journal::take(const std::string& line) {
  const json value = read_json(line).value_or(nullptr);
  if (!value.is_object()) return false;
  if (value.contains("publish") && value["publish"] == json(false)) {
    publishing_.reset();
    return true;
  }
  const json checksum = text_or_null(value, "xxh3_128");
  if (!checksum.is_string()) return false;
  if (value.contains("publish")) {
    publishing_ = checksum.get<std::string>();
    return true;
  }
  const std::optional<int64_t> file = count_or_none(value, "file");
  if (!file) return false;
  const auto index = static_cast<size_t>(*file);
  const auto tensors = value.find("tensors");
  if (tensors == value.end()) {
    const std::optional<int64_t> bytes = count_or_none(value, "bytes");
    if (bytes) begun_[index] = {*bytes, checksum.get<std::string>()};
    return bytes.has_value();
  }
  if (!tensors->is_object()) return false;
  FileSums sums{checksum.get<std::string>(), {}};
  for (const auto& [name, sum] : tensors->items()) {
    if (!sum.is_string()) return false;
    sums.tensors[name] = sum.get<std::string>();
  }
  done_[index] = std::move(sums);
  return true;
}

absl::Status Journal::append(const std::string& line) {
  SCALAI_RETURN_IF_ERROR(begin());
  const std::lock_guard lock(mutex_);
  return write(line);
}

absl::Status Journal::write(const std::string& line) {
  const std::string text = line + "\n";
  for (size_t at = 0; at < text.size();) {
    const ssize_t n = ::write(fd_.get(), text.data() + at, text.size() - at);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return io_error(path_, "cannot write");
    at += static_cast<size_t>(n);
  }
  return ::fdatasync(fd_.get()) == 0 ? absl::OkStatus() : io_error(path_, "cannot flush");
}

absl::Status Journal::sync_point(size_t file, const SyncPoint& point) {
  return append(json_text(json({{"file", file}, {"bytes", point.bytes}, {"xxh3_128", point.checksum}})));
}

absl::Status Journal::file_done(size_t file, const FileSums& sums) {
  json line = {{"file", file}, {"xxh3_128", sums.file}, {"tensors", json::object()}};
  for (const auto& [name, sum] : sums.tensors) line["tensors"][name] = sum;
  return append(json_text(line));
}

absl::Status Journal::publish(const std::string& manifest_checksum) {
  return append(json_text(json({{"publish", true}, {"xxh3_128", manifest_checksum}})));
}

absl::Status Journal::withdraw() {
  publishing_.reset();
  return append(json_text(json({{"publish", false}})));
}

absl::Status Journal::forget() {
  done_.clear();
  begun_.clear();
  publishing_.reset();
  {
    const std::lock_guard lock(mutex_);
    has_head_ = false;
  }
  return begin();
}

absl::Status Journal::remove() {
  // First DST.partial is gone for good: without a journal nobody would know whose it is.
  SCALAI_RETURN_IF_ERROR(sync_folder(parent_of(path_)));
  if (::unlink(path_.c_str()) != 0 && errno != ENOENT) return io_error(path_, "cannot remove");
  return sync_folder(parent_of(path_));
}

}  // namespace scalai::store::internal
