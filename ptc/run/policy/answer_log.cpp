#include "ptc/run/policy/answer_log.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

#include "ptc/base/destination.h"
#include "ptc/base/hash.h"
#include "ptc/base/status.h"

namespace scalai::policy {
namespace {

constexpr std::string_view kMark = "scalai-snapshot 1 ";
constexpr int64_t kDigest = 32, kFrame = 4 + kDigest + 4;  // bytes besides the answer
constexpr int64_t kMostAnswer = int64_t{1} << 30;
constexpr double kSyncEvery_s = 1;

double steady_s() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

std::string bytes_of(uint32_t value) {
  std::string bytes;
  for (int k = 0; k < 4; ++k) bytes += static_cast<char>(value >> (8 * k) & 0xff);
  return bytes;
}

uint32_t value_of(std::string_view bytes) {
  uint32_t value = 0;
  for (size_t k = 0; k < 4; ++k) value |= uint32_t{static_cast<uint8_t>(bytes[k])} << (8 * k);
  return value;
}

// Fewer bytes where the file ends before.
std::string read_at(int fd, int64_t at, int64_t bytes) {
  std::string text(static_cast<size_t>(bytes), '\0');
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t got = ::pread(fd, text.data() + done, text.size() - done, at + static_cast<int64_t>(done));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    done += static_cast<size_t>(got);
  }
  text.resize(done);
  return text;
}

// Digest, answer and CRC of the record at `at`; shorter where the file ends before, empty where its length is none.
std::string record_at(int fd, int64_t at) {
  const std::string length = read_at(fd, at, 4);
  struct stat entry {};
  if (length.size() < 4 || value_of(length) > kMostAnswer || ::fstat(fd, &entry) != 0) return "";
  const int64_t left = std::max<int64_t>(0, entry.st_size - at - 4);  // no memory for what is only announced
  return read_at(fd, at + 4, std::min(left, kFrame - 4 + int64_t{value_of(length)}));
}

bool whole(std::string_view record) {
  const auto body = static_cast<int64_t>(record.size()) - 4;
  return body >= kDigest &&
         crc32_of(record.substr(0, static_cast<size_t>(body))) == value_of(record.substr(static_cast<size_t>(body)));
}

}  // namespace

AnswerLog::AnswerLog(std::string path, FileDescriptor file)
    : path_(std::move(path)), file_(std::move(file)), synced_s_(steady_s()) {}

absl::Status AnswerLog::lock() const {
  if (::flock(file_.get(), LOCK_EX | LOCK_NB) == 0) return absl::OkStatus();
  return absl::FailedPreconditionError(fmt::format("{}: another run is writing this snapshot", path_));
}

absl::Status AnswerLog::damaged(int64_t at) const {
  return invalid(
      fmt::format("{}: the snapshot is damaged at byte {}\n  hint: run again from the start, with "
                  "--snapshot=FILE",
                  path_, at));
}

absl::StatusOr<std::unique_ptr<AnswerLog>> AnswerLog::create(const std::string& path, const std::string& about) {
  SCALAI_CHECK(about.find('\n') == std::string::npos);
  SCALAI_ASSIGN_OR_RETURN(const Destination place, destination_of(path));
  constexpr int kFlags = O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC;
  FileDescriptor file(::openat(place.folder.get(), place.name.c_str(), kFlags, 0644));
  if (file.get() < 0 && errno == EEXIST) {
    return invalid(
        fmt::format("{}: it is there already\n  hint: --resume={} goes on with it, if it is a snapshot", path, path));
  }
  if (file.get() < 0) return missing(fmt::format("{}: cannot write: {}", path, std::strerror(errno)));
  std::unique_ptr<AnswerLog> log(new AnswerLog(path, std::move(file)));
  SCALAI_RETURN_IF_ERROR(log->lock());
  const std::string head = fmt::format("{}{}\n", kMark, about);
  SCALAI_RETURN_IF_ERROR(log->write(head));
  log->next_ = log->end_ = static_cast<int64_t>(head.size());
  return log;
}

absl::StatusOr<std::unique_ptr<AnswerLog>> AnswerLog::resume(const std::string& path, const std::string& about) {
  FileDescriptor file(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (file.get() < 0) return missing(fmt::format("{}: cannot go on with it: {}", path, std::strerror(errno)));
  struct stat entry {};
  if (::fstat(file.get(), &entry) != 0 || !S_ISREG(entry.st_mode)) return invalid(path + ": it is no snapshot");
  std::unique_ptr<AnswerLog> log(new AnswerLog(path, std::move(file)));
  SCALAI_RETURN_IF_ERROR(log->lock());
  SCALAI_RETURN_IF_ERROR(log->check(about));
  return log;
}

absl::Status AnswerLog::check(const std::string& about) {
  const std::string head = fmt::format("{}{}\n", kMark, about);
  const std::string found = read_at(file_.get(), 0, static_cast<int64_t>(head.size()));
  if (found.substr(0, kMark.size()) != kMark)
    return invalid(fmt::format("{}: it is no snapshot of this version of Scalai", path_));
  if (found != head) {
    return invalid(
        fmt::format("{}: the snapshot is of another scenario, other settings, other traces or another version "
                    "of Scalai ({}; this is {})",
                    path_, found.substr(kMark.size(), found.find('\n') - kMark.size()), about));
  }
  struct stat entry {};
  if (::fstat(file_.get(), &entry) != 0) return failed(fmt::format("{}: {}", path_, std::strerror(errno)));
  next_ = end_ = static_cast<int64_t>(head.size());
  while (end_ < entry.st_size) {
    const std::string record = record_at(file_.get(), end_);
    const int64_t after = end_ + 4 + static_cast<int64_t>(record.size());
    if (whole(record)) {
      end_ = after;
      continue;
    }
    // The last one, which was being written, may be a part; nothing follows it.
    const std::string length = read_at(file_.get(), end_, 4);
    const bool last = length.size() < 4 ||
                      (value_of(length) <= kMostAnswer && end_ + kFrame + int64_t{value_of(length)} >= entry.st_size);
    if (!last) return damaged(end_);
    if (::ftruncate(file_.get(), end_) != 0) return failed(fmt::format("{}: {}", path_, std::strerror(errno)));
    break;
  }
  if (::lseek(file_.get(), end_, SEEK_SET) != end_) return failed(fmt::format("{}: {}", path_, std::strerror(errno)));
  return absl::OkStatus();
}

absl::StatusOr<std::string> AnswerLog::recall(const std::string& digest) {
  std::string record = record_at(file_.get(), next_);
  if (!whole(record)) return damaged(next_);  // since it was checked
  if (record.compare(0, static_cast<size_t>(kDigest), digest) != 0) {
    return absl::FailedPreconditionError(fmt::format(
        "{}: answer {} of the snapshot is to another question: the run that wrote it had another program or "
        "other inputs\n  hint: run again from the start, with --snapshot=FILE",
        path_, recalled_));
  }
  next_ += 4 + static_cast<int64_t>(record.size());
  ++recalled_;
  return record.substr(static_cast<size_t>(kDigest), record.size() - static_cast<size_t>(kDigest) - 4);
}

absl::Status AnswerLog::write(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t done = ::write(file_.get(), bytes.data(), bytes.size());
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return failed(fmt::format("{}: cannot write the snapshot: {}", path_, std::strerror(errno)));
    bytes.remove_prefix(static_cast<size_t>(done));
  }
  if (const double now_s = steady_s(); now_s - synced_s_ >= kSyncEvery_s) {
    if (::fdatasync(file_.get()) != 0)
      return failed(fmt::format("{}: cannot write the snapshot: {}", path_, std::strerror(errno)));
    synced_s_ = now_s;
  }
  return absl::OkStatus();
}

absl::Status AnswerLog::append(const std::string& digest, std::string_view answer) {
  if (static_cast<int64_t>(answer.size()) > kMostAnswer) return failed(path_ + ": an answer of more than 1 GiB");
  const std::string body = digest + std::string(answer);
  SCALAI_RETURN_IF_ERROR(write(bytes_of(static_cast<uint32_t>(answer.size())) + body + bytes_of(crc32_of(body))));
  end_ += 4 + static_cast<int64_t>(body.size()) + 4;
  next_ = end_;
  ++added_;
  return absl::OkStatus();
}

absl::StatusOr<std::string> AnswerLog::answer(std::string_view question,
                                              const std::function<absl::StatusOr<std::string>()>& compute) {
  const std::string digest = digest_of(question);
  SCALAI_CHECK(digest.size() == static_cast<size_t>(kDigest));
  if (recalls()) return recall(digest);
  SCALAI_ASSIGN_OR_RETURN(std::string found, compute());
  SCALAI_RETURN_IF_ERROR(append(digest, found));
  return found;
}

}  // namespace scalai::policy
