#include "ptc/checkpoint/internal/reshard_journal.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#include "ptc/base/file.h"
#include "ptc/base/status.h"

namespace scalai::checkpoint::internal {
namespace {

using nlohmann::json;

constexpr int kVersion = 1;

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

}  // namespace

absl::StatusOr<std::unique_ptr<Journal>> Journal::open(const std::string& path, const std::string& job, bool restart) {
  FileDescriptor fd(::open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  if (fd.get() < 0) {
    return errno == ENOSPC || errno == EDQUOT
               ? io_error(path, "cannot create")
               : missing(fmt::format("{}: cannot create: {}", path, std::strerror(errno)));
  }
  if (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    return failed(fmt::format("{}: another process is writing this target", path));
  }
  std::unique_ptr<Journal> journal(new Journal(path, std::move(fd)));
  SCALAI_ASSIGN_OR_RETURN(const std::string text, read_file(path, int64_t{1} << 32));
  const size_t first_end = text.find('\n');
  if (restart || first_end == std::string::npos) {
    SCALAI_RETURN_IF_ERROR(journal->begin(job));
    return journal;
  }
  const json head = json::parse(text.substr(0, first_end), nullptr, false);
  if (head.is_discarded() || !head.is_object() || count_or_none(head, "schema_version") != kVersion ||
      text_or_null(head, "job") != json(job)) {
    return invalid(
        fmt::format("{}: an earlier run was cut short with another source, target or version; give the same "
                    "again to go on with it, or --restart to begin anew",
                    path));
  }
  size_t at = first_end + 1;
  for (size_t end = text.find('\n', at); end != std::string::npos; end = text.find('\n', at)) {
    if (!journal->take(text.substr(at, end - at))) break;
    at = end + 1;
  }
  if (::ftruncate(journal->fd_.get(), static_cast<off_t>(at)) != 0) return io_error(path, "cannot shorten");
  return journal;
}

absl::Status Journal::begin(const std::string& job) {
  if (::ftruncate(fd_.get(), 0) != 0) return io_error(path_, "cannot empty");
  SCALAI_RETURN_IF_ERROR(append(json({{"schema_version", kVersion}, {"job", job}}).dump()));
  return sync_folder(parent_of(path_));
}

// False: not a line of ours.
bool Journal::take(const std::string& line) {
  const json value = json::parse(line, nullptr, false);
  if (value.is_discarded() || !value.is_object()) return false;
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
  const std::lock_guard lock(mutex_);
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
  return append(json({{"file", file}, {"bytes", point.bytes}, {"xxh3_128", point.checksum}}).dump());
}

absl::Status Journal::file_done(size_t file, const FileSums& sums) {
  json line = {{"file", file}, {"xxh3_128", sums.file}, {"tensors", json::object()}};
  for (const auto& [name, sum] : sums.tensors) line["tensors"][name] = sum;
  return append(line.dump(-1, ' ', false, json::error_handler_t::replace));
}

absl::Status Journal::publish(const std::string& manifest_checksum) {
  return append(json({{"publish", true}, {"xxh3_128", manifest_checksum}}).dump());
}

absl::Status Journal::remove() {
  if (::unlink(path_.c_str()) != 0 && errno != ENOENT) return io_error(path_, "cannot remove");
  return sync_folder(parent_of(path_));
}

}  // namespace scalai::checkpoint::internal
