#include "labs/near/stages.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#include "labs/near/internal/write.h"
#include "ptc/base/file.h"
#include "ptc/base/file_descriptor.h"
#include "ptc/base/guarded_group.h"
#include "ptc/base/process.h"
#include "ptc/base/status.h"

namespace scalai::near {
namespace {

constexpr size_t kBuffer = size_t{256} << 10;
constexpr size_t kMostErrors = size_t{64} << 10;  // of standard error that goes to the caller
constexpr int kBeat_ms = 1000;

struct Pipe {
  FileDescriptor read, write;
};

absl::StatusOr<Pipe> make_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return failed(fmt::format("cannot make a pipe: {}", std::strerror(errno)));
  (void)::fcntl(ends[1], F_SETPIPE_SZ, static_cast<int>(kBuffer));  // else the usual size, which is right, too
  return Pipe{FileDescriptor(ends[0]), FileDescriptor(ends[1])};
}

ssize_t read_once(int fd, std::span<char> buffer) {
  ssize_t n = -1;
  do {
    n = ::read(fd, buffer.data(), buffer.size());
  } while (n < 0 && errno == EINTR);
  return n;
}

absl::Status feed_range(const std::string& folder, const Range& range,
                        const std::function<bool(std::string_view)>& take) {
  const std::string path = folder + "/" + range.file;
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat facts {};
  if (file.get() < 0 || ::fstat(file.get(), &facts) != 0)
    return missing(fmt::format("{}: {}", path, std::strerror(errno)));
  int64_t at = range.begin, end = range.end;
  if (range.records) {
    SCALAI_ASSIGN_OR_RETURN(at, record_at(file.get(), at, facts.st_size));
    SCALAI_ASSIGN_OR_RETURN(end, record_at(file.get(), end, facts.st_size));
  }
  std::vector<char> buffer(kBuffer);
  while (at < end) {
    const auto wanted = static_cast<size_t>(std::min<int64_t>(end - at, std::ssize(buffer)));
    const ssize_t n = ::pread(file.get(), buffer.data(), wanted, at);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return failed(fmt::format("{}: cannot read: {}", path, std::strerror(errno)));
    if (n == 0) return failed(fmt::format("{}: has become shorter", path));
    if (!take({buffer.data(), static_cast<size_t>(n)})) return absl::OkStatus();
    at += n;
  }
  // As files of /proc, which say that they are empty.
  if (char more = 0; at >= facts.st_size && ::pread(file.get(), &more, 1, facts.st_size) > 0)
    return failed(fmt::format("{}: has more than the {} B that it says", path, facts.st_size));
  return absl::OkStatus();
}

// What a stage's standard input was like.
struct Seen {
  bool nul = false, whole = true;
  void look(std::string_view bytes) {
    nul = nul || std::memchr(bytes.data(), '\0', bytes.size()) != nullptr;
    whole = bytes.empty() ? whole : bytes.back() == '\n';
  }
};

class Part {
 public:
  Part(const PartWork& work, const StageWatch& watch) : work_(work), watch_(watch), seen_(work.stages.size()) {}

  PartEnd run() {
    if (work_.stages.empty()) {
      feed([&](std::string_view bytes) { return put_out(bytes); });
      return std::move(end_);
    }
    const absl::Status begun = begin();
    if (!begun.ok()) end_.problem = message_of(begun);
    if (begun.ok()) drain();
    if (!end_.problem.empty()) group_.kill();
    out_ = {};
    errors_ = {};
    for (std::thread& pump : pumps_) pump.join();
    reap();
    if (!fed_.ok() && end_.problem.empty()) end_.problem = message_of(fed_);
    return std::move(end_);
  }

 private:
  void feed(const std::function<bool(std::string_view)>& take) {
    for (const Range& range : work_.ranges) {
      fed_ = feed_range(work_.folder, range, take);
      if (!fed_.ok()) break;
    }
    if (work_.stages.empty() && !fed_.ok()) end_.problem = message_of(fed_);
  }

  absl::Status begin() {
    SCALAI_ASSIGN_OR_RETURN(out_, make_pipe());
    SCALAI_ASSIGN_OR_RETURN(errors_, make_pipe());
    SCALAI_ASSIGN_OR_RETURN(group_, GuardedGroup::start());
    FileDescriptor before;  // output of the stage before
    for (size_t i = 0; i < work_.stages.size(); ++i) {
      const bool last = i + 1 == work_.stages.size(), fed = i > 0 || !work_.ranges.empty();
      Pipe in, next;
      if (fed) {
        SCALAI_ASSIGN_OR_RETURN(in, make_pipe());
      }
      if (!last) {
        SCALAI_ASSIGN_OR_RETURN(next, make_pipe());
      }
      SCALAI_RETURN_IF_ERROR(
          start(i, fed ? in.read.get() : SpawnOptions::kNull, last ? out_.write.get() : next.write.get()));
      if (fed) start_pump(i, std::move(before), std::move(in.write));
      before = std::move(next.read);
    }
    out_.write = {};
    errors_.write = {};
    return absl::OkStatus();
  }

  absl::Status start(size_t i, int in, int out) {
    SpawnOptions stage{.program = work_.stages[i].words[0],
                       .words = work_.stages[i].words,
                       .ends = {in, out, errors_.write.get()},
                       .folder = work_.folder,
                       .group = SpawnOptions::Group::kGroup,
                       .joins = group_.id(),
                       .close_others = true,
                       .runs_scripts = true};
    if (const size_t script = work_.stages[i].script; script > 0) {
      stage.words[script] =
          fmt::format("{}/{}-{}", watch_.scratch, i,
                      work_.stages[i].words[script].substr(work_.stages[i].words[script].rfind('/') + 1));
      SCALAI_RETURN_IF_ERROR(write_file(stage.words[script], work_.stages[i].script_text));
    }
    const auto pid = spawn(stage);
    if (!pid.ok()) end_.errors += message_of(pid.status()) + "\n";  // as a shell: the others go on
    pids_.push_back(pid.ok() ? *pid : -1);
    not_started_.push_back(status_without_start(pid.status()));
    return absl::OkStatus();
  }

  void start_pump(size_t stage, FileDescriptor from, FileDescriptor to) {
    const auto source = std::make_shared<FileDescriptor>(std::move(from));
    const auto sink = std::make_shared<FileDescriptor>(std::move(to));
    pumps_.emplace_back([this, stage, source, sink]() mutable {
      bool taken = true;  // by the stage
      const auto pass = [&](std::string_view bytes) {
        taken = internal::write_all(sink->get(), bytes).ok();
        if (taken) seen_[stage].look(bytes);
        return taken;
      };
      if (stage == 0) {
        feed(pass);
      } else {
        std::vector<char> buffer(kBuffer);
        for (ssize_t n = 0; (n = read_once(source->get(), buffer)) > 0;)
          if (!pass({buffer.data(), static_cast<size_t>(n)})) break;
      }
      if (!taken) seen_[stage].whole = true;
      *source = {};
      *sink = {};
    });
  }

  bool put_out(std::string_view bytes) {
    end_.output_bytes += std::ssize(bytes);
    if (watch_.output(bytes)) return true;
    end_.problem = "ended by its caller";
    return false;
  }

  // Reads output and errors to their ends.
  void drain() {
    std::vector<char> buffer(kBuffer);
    std::array<pollfd, 2> ends = {pollfd{out_.read.get(), POLLIN, 0}, pollfd{errors_.read.get(), POLLIN, 0}};
    auto beaten = std::chrono::steady_clock::now();
    while (ends[0].fd >= 0 || ends[1].fd >= 0) {
      (void)::poll(ends.data(), ends.size(), kBeat_ms);
      if (const auto now = std::chrono::steady_clock::now(); now - beaten >= std::chrono::milliseconds(kBeat_ms)) {
        beaten = now;
        if (!watch_.beat()) end_.problem = "ended by its caller";
      }
      for (pollfd& end : ends) {
        if (end.fd < 0 || end.revents == 0) continue;
        const ssize_t n = read_once(end.fd, buffer);
        const std::string_view bytes(buffer.data(), static_cast<size_t>(std::max<ssize_t>(n, 0)));
        if (n <= 0) {
          end.fd = -1;
        } else if (&end == &ends[0]) {
          (void)put_out(bytes);
        } else {
          end_.errors += bytes.substr(0, kMostErrors - std::min(kMostErrors, end_.errors.size()));
        }
      }
      if (!end_.problem.empty()) return;
    }
  }

  void reap() {
    for (size_t i = 0; i < pids_.size(); ++i) {
      StageEnd stage{.status = not_started_[i], .signal = 0, .nul = seen_[i].nul, .whole = seen_[i].whole};
      int status = 0;
      pid_t found = -1;
      if (pids_[i] > 0) {
        do {
          found = ::waitpid(pids_[i], &status, 0);
        } while (found < 0 && errno == EINTR);
      }
      if (found > 0) stage.status = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
      if (found > 0 && WIFSIGNALED(status)) stage.signal = WTERMSIG(status);
      end_.stages.push_back(stage);
    }
  }

  const PartWork& work_;
  const StageWatch& watch_;
  PartEnd end_;
  Pipe out_, errors_;
  GuardedGroup group_;
  std::vector<pid_t> pids_;
  std::vector<int> not_started_;  // the status of a stage without a process
  std::vector<std::thread> pumps_;
  std::vector<Seen> seen_;  // each by the pump of its stage
  absl::Status fed_;        // by the pump of the first stage
};

}  // namespace

absl::StatusOr<int64_t> record_at(int fd, int64_t position, int64_t size) {
  if (position <= 0) return 0;
  std::vector<char> buffer(kBuffer);
  for (int64_t at = position - 1; at < size;) {
    const ssize_t n = ::pread(fd, buffer.data(), buffer.size(), at);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return failed(fmt::format("cannot read: {}", std::strerror(errno)));
    if (n == 0) break;
    const void* found = std::memchr(buffer.data(), '\n', static_cast<size_t>(n));
    if (found != nullptr) return std::min(size, at + (static_cast<const char*>(found) - buffer.data()) + 1);
    at += n;
  }
  return size;
}

int status_without_start(const absl::Status& spawned) {
  return absl::IsPermissionDenied(spawned) ? kNotExecutable : kNotStarted;
}

PartEnd run_part(const PartWork& work, const StageWatch& watch) { return Part(work, watch).run(); }

}  // namespace scalai::near
