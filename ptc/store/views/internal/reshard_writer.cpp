#include "ptc/store/views/internal/reshard_writer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <new>

#include "ptc/base/parallel.h"
#include "ptc/base/status.h"
#include "ptc/store/safetensors/checksum.h"
#include "ptc/store/safetensors/files.h"
#include "ptc/store/views/internal/file_image.h"

namespace scalai::store::internal {
namespace {

absl::Status write_error(const std::string& path, const char* what) {
  const std::string message = fmt::format("{}: {}: {}", path, what, std::strerror(errno));
  return errno == ENOSPC || errno == EDQUOT || errno == EFBIG ? absl::ResourceExhaustedError(message) : failed(message);
}

absl::Status write_at(int fd, const std::string& path, int64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::pwrite(fd, bytes.data(), std::min(bytes.size(), kMostWritten), offset);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return write_error(path, "cannot write");
    bytes = bytes.subspan(static_cast<size_t>(n));
    offset += n;
  }
  return absl::OkStatus();
}

// The checksums of a file and of its tensors, of bytes that come in order.
class Summer {
 public:
  explicit Summer(std::shared_ptr<const FileImage> image) : image_(std::move(image)), tensor_(new Checksum) {
    pass_empty();
  }
  void add(std::span<const std::byte> bytes) {
    whole_.add(bytes);
    while (!bytes.empty() && image_) {
      const auto& tensors = image_->tensors();
      const int64_t begin = next_ < tensors.size() ? tensors[next_].stored.offset : image_->size();
      if (at_ < begin) {  // around them
        const auto length = std::min(static_cast<size_t>(begin - at_), bytes.size());
        at_ += static_cast<int64_t>(length);
        bytes = bytes.subspan(length);
        pass_empty();
        continue;
      }
      const StoredTensor& stored = tensors[next_].stored;
      const auto length = std::min(static_cast<size_t>(stored.offset + stored.bytes - at_), bytes.size());
      tensor_->add(bytes.first(length));
      at_ += static_cast<int64_t>(length);
      bytes = bytes.subspan(length);
      if (at_ == stored.offset + stored.bytes) end_tensor();
    }
  }
  std::string hex() const { return whole_.hex(); }
  FileSums sums() && { return {whole_.hex(), std::move(tensors_)}; }

 private:
  void end_tensor() {
    tensors_[image_->tensors()[next_++].stored.name] = tensor_->hex();
    tensor_ = std::make_unique<Checksum>();
    pass_empty();
  }
  // Tensors without bytes end where they begin.
  void pass_empty() {
    if (!image_) return;
    const auto& tensors = image_->tensors();
    while (next_ < tensors.size() && tensors[next_].stored.bytes == 0 && tensors[next_].stored.offset <= at_) {
      tensors_[tensors[next_++].stored.name] = Checksum().hex();
    }
  }

  std::shared_ptr<const FileImage> image_;  // nullptr: not a safetensors file
  Checksum whole_;
  std::unique_ptr<Checksum> tensor_;
  std::map<std::string, std::string> tensors_;
  size_t next_ = 0;
  int64_t at_ = 0;
};

}  // namespace

struct ReshardWriter::Target {
  Target(size_t index, std::string path_of, ByteSourcePtr bytes, std::shared_ptr<const FileImage> image)
      : file(index), path(std::move(path_of)), source(std::move(bytes)), summer(std::move(image)) {}
  size_t file;
  std::string path;
  ByteSourcePtr source;
  FileDescriptor fd;
  int64_t next = 0;  // first byte that no thread has taken yet

  std::mutex mutex;  // for what follows
  std::condition_variable summed_more;
  int64_t summed = 0;  // all before is written and summed
  int64_t synced = 0;
  Summer summer;  // of the thread whose chunk begins at `summed`
};

ReshardWriter::ReshardWriter(const View& view, const ReshardPlan& plan, const ReshardOptions& options,
                             std::string folder, Journal& journal)
    : view_(view),
      plan_(plan),
      options_(options),
      folder_(std::move(folder)),
      journal_(journal),
      sums_(view.files()),
      kept_(view.files()) {}
ReshardWriter::~ReshardWriter() = default;

void ReshardWriter::fail(const absl::Status& status) {
  const std::lock_guard lock(mutex_);
  if (first_error_.ok()) first_error_ = status;
  stop_ = true;
}

void ReshardWriter::advance(int64_t bytes, bool now) {
  if (now) written_ += bytes;
  const std::lock_guard lock(mutex_);
  done_ += bytes;
  if (options_.progress) options_.progress({"writing", done_, plan_.bytes_total, written_});
}

// Sums what an earlier run has written and flushed; if it is no longer that, the file begins anew.
absl::Status ReshardWriter::go_on(Target& target, const SyncPoint& point) {
  if (point.bytes > target.source->size()) return absl::OkStatus();
  SCALAI_ASSIGN_OR_RETURN(const ByteSourcePtr written, open_file_source(target.path));
  if (written->size() < point.bytes) return absl::OkStatus();
  std::vector<std::byte> buffer(static_cast<size_t>(plan_.chunk_bytes));
  for (int64_t at = 0; at < point.bytes && !stop_; at += plan_.chunk_bytes) {
    const auto chunk = std::span(buffer).first(static_cast<size_t>(std::min(plan_.chunk_bytes, point.bytes - at)));
    SCALAI_RETURN_IF_ERROR(written->read(at, chunk));
    target.summer.add(chunk);
  }
  target.next = target.summed = target.synced = point.bytes;
  return absl::OkStatus();
}

// Whether a file that the journal calls done still is: sums all of it. A loss of power may have taken its entry in the
// folder, and anybody may have changed it since.
absl::StatusOr<bool> ReshardWriter::is_still_done(size_t file, const FileSums& sums) {
  std::shared_ptr<const FileImage> image;
  if (view_.has_tensors(file)) {
    SCALAI_ASSIGN_OR_RETURN(image, view_.image(file));
  }
  const absl::StatusOr<ByteSourcePtr> written = open_file_source(folder_ + "/" + view_.file_name(file));
  if (!written.ok() || (*written)->size() != plan_.files[file].bytes) return false;
  Summer summer(image);
  std::vector<std::byte> buffer(static_cast<size_t>(plan_.chunk_bytes));
  for (int64_t at = 0; at < (*written)->size() && !stop_; at += plan_.chunk_bytes) {
    const int64_t left = (*written)->size() - at;
    const auto chunk = std::span(buffer).first(static_cast<size_t>(std::min(plan_.chunk_bytes, left)));
    if (!(*written)->read(at, chunk).ok()) return false;
    summer.add(chunk);
  }
  if (summer.hex() != sums.file) return false;
  sums_[file] = std::move(summer).sums();
  return true;
}

absl::Status ReshardWriter::check_done() {
  std::vector<size_t> files;
  for (const auto& [file, sums] : journal_.done()) {
    if (file < view_.files()) files.push_back(file);
  }
  parallel_for(plan_.threads, files.size(), [&](size_t i) {
    const size_t file = files[i];
    const absl::StatusOr<bool> same = is_still_done(file, journal_.done().at(file));
    if (!same.ok()) return fail(same.status());
    kept_[file] = *same ? 1 : 0;
    if (*same) advance(plan_.files[file].bytes, false);
  });
  return first_error_;
}

absl::Status ReshardWriter::read_back() {
  parallel_for(plan_.threads, view_.files(), [&](size_t file) {
    const absl::StatusOr<bool> same = is_still_done(file, FileSums(sums_[file]));
    if (!same.ok()) return fail(same.status());
    if (!*same) fail(invalid(fmt::format("{}/{}: is not what was written", folder_, view_.file_name(file))));
  });
  return first_error_;
}

absl::StatusOr<std::shared_ptr<ReshardWriter::Target>> ReshardWriter::begin(size_t file) {
  std::shared_ptr<const FileImage> image;
  ByteSourcePtr source;
  if (view_.has_tensors(file)) {
    SCALAI_ASSIGN_OR_RETURN(image, view_.image(file));
    source = image;
  } else {
    SCALAI_ASSIGN_OR_RETURN(source, view_.open(file));
  }
  const std::string path = folder_ + "/" + view_.file_name(file);
  if (const std::string parent = parent_of(path); parent != folder_)
    SCALAI_RETURN_IF_ERROR(make_synced_folders(parent));
  const int64_t size = source->size();
  auto target = std::make_shared<Target>(file, path, source, image);
  const auto begun = journal_.begun().find(file);
  if (begun != journal_.begun().end() && ::access(path.c_str(), F_OK) == 0) {
    SCALAI_RETURN_IF_ERROR(go_on(*target, begun->second));
    if (target->next > 0 && target->summer.hex() != begun->second.checksum) {
      target = std::make_shared<Target>(file, path, source, image);
    }
  }
  target->fd = FileDescriptor(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644));
  if (target->fd.get() < 0) return write_error(path, "cannot create");
  // A full disk shows here where the file system can reserve space, else at the write that does not fit.
  if (size > 0 && ::fallocate(target->fd.get(), 0, 0, size) != 0 &&
      (errno == ENOSPC || errno == EDQUOT || errno == EFBIG)) {
    return write_error(path, "no room");
  }
  if (::ftruncate(target->fd.get(), size) != 0) return write_error(path, "cannot set the size");
  if (target->next > 0) advance(target->next, false);
  return target;
}

absl::StatusOr<std::optional<ReshardWriter::Chunk>> ReshardWriter::next() {
  const std::lock_guard lock(next_mutex_);
  while (!current_ || current_->next == current_->source->size()) {
    if (stop_ || next_file_ == view_.files()) return std::optional<Chunk>();
    const size_t file = next_file_++;
    if (kept_[file] != 0) continue;
    SCALAI_ASSIGN_OR_RETURN(current_, begin(file));
    // Nothing is left to write: it is empty, or a run was killed right before it said that the file is done.
    if (current_->next == current_->source->size()) SCALAI_RETURN_IF_ERROR(finish_part(*current_, current_->next));
  }
  const int64_t bytes = std::min(plan_.chunk_bytes, current_->source->size() - current_->next);
  Chunk chunk{current_, current_->next, bytes};
  current_->next += bytes;
  return std::optional<Chunk>(std::move(chunk));
}

// All before `end` is written and summed, by this thread the last: says so on disk now and then, and at the end.
absl::Status ReshardWriter::finish_part(Target& target, int64_t end) {
  const bool last = end == target.source->size();
  if (!last && end - target.synced < options_.sync_bytes) return absl::OkStatus();
  const std::string checksum = target.summer.hex();
  if (::fdatasync(target.fd.get()) != 0) return write_error(target.path, "cannot flush");
  target.synced = end;
  if (!last) return journal_.sync_point(target.file, {end, checksum});
  if (::fsync(target.fd.get()) != 0) return write_error(target.path, "cannot flush");
  sums_[target.file] = std::move(target.summer).sums();
  return journal_.file_done(target.file, sums_[target.file]);
}

absl::Status ReshardWriter::copy(const Chunk& chunk, std::span<std::byte> buffer) {
  Target& target = *chunk.target;
  const std::span<std::byte> bytes = buffer.first(static_cast<size_t>(chunk.bytes));
  SCALAI_RETURN_IF_ERROR(target.source->read(chunk.offset, bytes));
  SCALAI_RETURN_IF_ERROR(write_at(target.fd.get(), target.path, chunk.offset, bytes));
  // Begins to write out, so that flushing finds little left to do.
  ::sync_file_range(target.fd.get(), chunk.offset, chunk.bytes, SYNC_FILE_RANGE_WRITE);
  {
    std::unique_lock lock(target.mutex);
    target.summed_more.wait(lock, [&] { return stop_ || target.summed == chunk.offset; });
    if (stop_) return absl::OkStatus();
  }
  const int64_t end = chunk.offset + chunk.bytes;
  target.summer.add(bytes);
  SCALAI_RETURN_IF_ERROR(finish_part(target, end));
  {
    const std::lock_guard lock(target.mutex);
    target.summed = end;
  }
  target.summed_more.notify_all();
  advance(chunk.bytes, true);
  return absl::OkStatus();
}

void ReshardWriter::work() {
  const std::unique_ptr<std::byte[]> buffer(new (std::nothrow) std::byte[static_cast<size_t>(plan_.chunk_bytes)]);
  // Others may have had more luck; run() tells when none had.
  if (!buffer) return;
  worked_ = true;
  while (!stop_) {
    absl::StatusOr<std::optional<Chunk>> chunk = next();
    if (!chunk.ok()) return fail(chunk.status());
    if (!*chunk) return;
    const absl::Status status = copy(**chunk, {buffer.get(), static_cast<size_t>(plan_.chunk_bytes)});
    if (!status.ok()) fail(status);
    if (stop_) {  // others may wait for a chunk that will not come
      const std::lock_guard lock((*chunk)->target->mutex);
      (*chunk)->target->summed_more.notify_all();
    }
  }
}

absl::Status ReshardWriter::run() {
  SCALAI_RETURN_IF_ERROR(check_done());
  std::vector<std::thread> others = start_threads(static_cast<size_t>(plan_.threads - 1), [this] { work(); });
  work();
  for (std::thread& thread : others) thread.join();
  if (!worked_) return failed(fmt::format("{}: no memory for a chunk of {} bytes", folder_, plan_.chunk_bytes));
  return first_error_;
}

}  // namespace scalai::store::internal
