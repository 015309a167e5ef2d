#include "ptc/run/scenario/trace/lines.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "ptc/base/status.h"

namespace scalai::trace {
namespace {

constexpr size_t kChunk = size_t{1} << 16;

// What the first bytes of a packed file look like, and what unpacks it.
const char* unpacker_of(std::string_view head) {
  if (head.substr(0, 2) == "\x1f\x8b") return "gunzip";
  if (head.substr(0, 4) == "PK\x03\x04") return "unzip";
  if (head.substr(0, 4) == "\x28\xb5\x2f\xfd") return "unzstd";
  return nullptr;
}

}  // namespace

absl::StatusOr<std::FILE*> open_trace_file(const std::string& path) {
  struct stat info {};
  if (stat(path.c_str(), &info) != 0) return missing(fmt::format("{}: {}", path, std::strerror(errno)));
  if (S_ISDIR(info.st_mode)) return missing(fmt::format("{} is a folder, not a trace file", path));
  std::FILE* file = std::fopen(path.c_str(), "rb");
  if (file == nullptr) return missing(fmt::format("{}: {}", path, std::strerror(errno)));
  if (!S_ISREG(info.st_mode)) return file;  // a pipe cannot be looked at twice
  char head[4] = {};
  const size_t got = std::fread(head, 1, sizeof head, file);
  const char* unpacker = unpacker_of(std::string_view(head, got));
  if (unpacker != nullptr) {
    std::fclose(file);
    return invalid(fmt::format("{} is a compressed file\n  hint: unpack it first ({})", path, unpacker));
  }
  std::rewind(file);
  return file;
}

absl::StatusOr<LineReader> LineReader::open(const std::string& path, BytesRead read) {
  SCALAI_ASSIGN_OR_RETURN(std::FILE * file, open_trace_file(path));
  return LineReader(path, file, std::move(read));
}

bool LineReader::fill() {
  buffer_.erase(0, at_);
  at_ = 0;
  const size_t had = buffer_.size();
  buffer_.resize(had + kChunk);
  const size_t got = std::fread(buffer_.data() + had, 1, kChunk, file_.get());
  buffer_.resize(had + got);
  if (read_) read_(static_cast<int64_t>(got));
  if (std::ferror(file_.get()) != 0) status_ = missing(fmt::format("{}: cannot be read on", path_));
  return got > 0;
}

bool LineReader::next(std::string_view& line) {
  if (!status_.ok()) return false;
  size_t searched = at_;
  size_t end = buffer_.find('\n', searched);
  while (end == std::string::npos) {
    searched = buffer_.size() - at_;  // fill() moves what is left to the front
    if (searched > kMaxLine) {
      status_ = invalid(fmt::format("{}:{}: a line of more than {} bytes\n  hint: this is no trace in text form", path_,
                                    row_ + 1, kMaxLine));
      return false;
    }
    if (!fill()) {
      if (!status_.ok() || buffer_.empty()) return false;
      end = buffer_.size();  // the last line may lack its end
      break;
    }
    end = buffer_.find('\n', searched);
  }
  line = std::string_view(buffer_).substr(at_, end - at_);
  if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
  at_ = std::min(end + 1, buffer_.size());
  ++row_;
  return true;
}

}  // namespace scalai::trace
