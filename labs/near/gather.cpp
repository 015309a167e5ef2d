#include "labs/near/gather.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <filesystem>
#include <mutex>
#include <optional>
#include <set>
#include <thread>

#include "ptc/base/file.h"
#include "ptc/base/file_descriptor.h"
#include "ptc/base/parallel.h"
#include "ptc/base/status.h"

namespace scalai::near {
namespace {

namespace fs = std::filesystem;

// A file that is written from its beginning.
class Spool {
 public:
  static absl::StatusOr<Spool> create(const std::string& path) {
    FileDescriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
    if (file.get() < 0) return failed(fmt::format("{}: {}", path, std::strerror(errno)));
    return Spool(std::move(file), path);
  }
  absl::Status write(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t n = ::write(file_.get(), bytes.data(), bytes.size());
      if (n < 0 && errno == EINTR) continue;
      if (n < 0)
        return failed(fmt::format("{}: cannot write: {}; TMPDIR names another place", path_, std::strerror(errno)));
      bytes.remove_prefix(static_cast<size_t>(n));
    }
    return absl::OkStatus();
  }

 private:
  Spool(FileDescriptor file, std::string path) : file_(std::move(file)), path_(std::move(path)) {}
  FileDescriptor file_;
  std::string path_;
};

std::vector<std::string> files_of(const PlacedPart& part) {
  std::vector<std::string> files = part.files;
  for (const Range& range : part.ranges) files.push_back(range.file);
  return files;
}

// "" or why an end is no answer of another host: it might be another one here.
std::string refused(const Question& question, const PartEnd& end) {
  if (!end.problem.empty()) return end.problem;
  for (size_t i = 0; i < end.stages.size(); ++i) {
    const StageEnd& stage = end.stages[i];
    const std::string& name = question.pipeline[i].words[0];
    const std::string said = end.errors.substr(0, end.errors.find('\n'));
    if (stage.signal != 0 && stage.signal != SIGPIPE)
      return fmt::format("{} was killed by signal {} ({})", name, stage.signal, strsignal(stage.signal));
    if (stage.signal == 0 && stage.status > question.uses[i].last_good_status)
      return fmt::format("{} ended with {}{}", name, stage.status, said.empty() ? "" : ": " + said);
  }
  return "";
}

absl::StatusOr<PartWork> work_of(const Question& question, const Placement& placement, const PlacedPart& part,
                                 const Host& host) {
  PartWork work{.folder = host.folder, .stages = {}, .ranges = part.ranges, .environment = {}, .run = host.run};
  if (!host.here) work.environment = question.environment;
  for (size_t i = 0; i < placement.near; ++i) {
    const Use& use = question.uses[i];
    StageWork stage{.words = use.words_for(i == 0 ? part.files : std::vector<std::string>()), .script_text = {}};
    if (!use.script.empty()) {
      SCALAI_ASSIGN_OR_RETURN(stage.script_text, read_file(use.script));
      stage.script = use.script_at;
    }
    work.stages.push_back(std::move(stage));
  }
  return work;
}

class Gathering {
 public:
  Gathering(const Question& question, const Placement& placement)
      : question_(question),
        placement_(placement),
        queues_(question.source.hosts.size()),
        gone_(question.source.hosts.size()),
        states_(placement.parts.size()) {
    gathered_.parts.resize(placement.parts.size());
    for (size_t i = 0; i < placement.parts.size(); ++i) {
      gathered_.parts[i].path = fmt::format("{}/part-{}", question.scratch, i);
      queues_[placement.parts[i].host].push_back(i);
    }
  }

  absl::StatusOr<Gathered> run() {
    std::vector<size_t> hosts;  // of each thread
    for (size_t host = 0; host < queues_.size(); ++host) {
      // Parts of other hosts may come.
      const auto most = std::min<size_t>(static_cast<size_t>(question_.source.jobs[host]), states_.size());
      hosts.insert(hosts.end(), std::max<size_t>(most, 1), host);
    }
    SCALAI_RETURN_IF_ERROR(run_concurrently(hosts.size(), [&](size_t i) { serve(hosts[i]); }));
    SCALAI_RETURN_IF_ERROR(fatal_);
    for (const size_t part : left_over_) SCALAI_RETURN_IF_ERROR(run_here(part));
    return std::move(gathered_);
  }

 private:
  struct State {
    std::set<size_t> tried;
    std::vector<std::string> reasons;
  };

  // A thread of a host.
  void serve(size_t host) {
    std::unique_ptr<Session> session;
    for (;;) {
      std::unique_lock lock(mutex_);
      changed_.wait(
          lock, [&] { return settled_ == states_.size() || !fatal_.ok() || gone_[host] || !queues_[host].empty(); });
      if (settled_ == states_.size() || !fatal_.ok() || gone_[host]) return;
      const size_t part = queues_[host].front();
      queues_[host].pop_front();
      if (session == nullptr && question_.waiting != nullptr) session = std::move(question_.waiting->at(host));
      lock.unlock();
      absl::Status status;
      if (session == nullptr) {
        auto begun = Session::start(question_.source.hosts[host], question_.launch);
        status = begun.status();
        if (begun.ok()) session = *std::move(begun);
      }
      std::string why;
      if (status.ok()) status = try_part(*session, host, part, why);
      lock.lock();
      if (!status.ok()) {
        lose(host, part, message_of(status));
      } else if (!why.empty()) {
        pass_on(part, host, fmt::format("{}: {}", question_.source.hosts[host].name, why));
      } else if (fatal_.ok()) {
        settle();
      }
      changed_.notify_all();
    }
  }

  // An error: the host is lost. `why`: the part is to run elsewhere.
  absl::Status try_part(Session& session, size_t host, size_t part, std::string& why) {
    const Host& where = question_.source.hosts[host];
    auto work = work_of(question_, placement_, placement_.parts[part], where);
    auto spool = Spool::create(gathered_.parts[part].path);
    absl::Status written = work.ok() ? spool.status() : work.status();
    int64_t moved = 0;
    absl::StatusOr<PartEnd> end = PartEnd{};
    if (written.ok()) {
      end = session.run(*work, [&](std::string_view bytes) {
        moved += where.here ? 0 : std::ssize(bytes);
        return written = spool->write(bytes);
      });
    }
    const std::lock_guard lock(mutex_);
    gathered_.moved_bytes += moved;
    if (!written.ok()) {
      fatal_ = written;
      return absl::OkStatus();
    }
    SCALAI_RETURN_IF_ERROR(end.status());
    why = where.here && end->problem.empty() ? "" : refused(question_, *end);
    gathered_.parts[part].end = *std::move(end);
    return absl::OkStatus();
  }

  // The rest is called under the lock.

  void lose(size_t host, size_t part, const std::string& why) {
    pass_on(part, host, why);
    if (gone_[host]) return;
    gone_[host] = true;
    for (const size_t other : std::exchange(queues_[host], {})) pass_on(other, host, why);
  }

  void pass_on(size_t part, size_t host, const std::string& why) {
    State& state = states_[part];
    state.tried.insert(host);
    if (state.reasons.empty() || state.reasons.back() != why) state.reasons.push_back(why);
    const std::vector<std::string> files = files_of(placement_.parts[part]);
    for (size_t other = 0; other < queues_.size(); ++other) {
      const bool has_all = std::all_of(files.begin(), files.end(),
                                       [&](const std::string& file) { return question_.source.has(other, file); });
      if (gone_[other] || state.tried.contains(other) || !has_all) continue;
      queues_[other].push_back(part);
      note(part, fmt::format("is run again on {}", question_.source.hosts[other].name));
      return;
    }
    left_over_.push_back(part);
    settle();
  }

  void note(size_t part, const std::string& what) {
    gathered_.notes.push_back(
        fmt::format("{}; part {} of {} {}", states_[part].reasons.back(), part + 1, states_.size(), what));
  }

  void settle() {
    ++settled_;
    if (question_.progress) question_.progress(settled_ - left_over_.size(), states_.size());
  }

  // No thread but this one any more.

  absl::Status run_here(size_t part) {
    const std::vector<std::string> files = files_of(placement_.parts[part]);
    Host here{.name = "here", .folder = question_.here, .here = true};
    const bool readable = std::all_of(files.begin(), files.end(), [&](const std::string& file) {
      struct stat facts {};
      return !here.folder.empty() && ::stat((here.folder + "/" + file).c_str(), &facts) == 0 &&
             facts.st_size == question_.source.find(file)->bytes;
    });
    if (!readable) {
      here.folder = question_.scratch + "/files";
      if (const absl::Status fetched = fetch(question_, files, here.folder, gathered_.moved_bytes); !fetched.ok())
        return failed(
            fmt::format("part {} of {} could not be run:\n  {}\n  {}\nhint: nothing was put out; the same command "
                        "again begins anew",
                        part + 1, states_.size(), fmt::join(states_[part].reasons, "\n  "), message_of(fetched)));
    }
    note(part, "is run here");
    SCALAI_ASSIGN_OR_RETURN(const auto session, Session::start(here, question_.launch));
    SCALAI_ASSIGN_OR_RETURN(const PartWork work, work_of(question_, placement_, placement_.parts[part], here));
    SCALAI_ASSIGN_OR_RETURN(Spool spool, Spool::create(gathered_.parts[part].path));
    SCALAI_ASSIGN_OR_RETURN(gathered_.parts[part].end,
                            session->run(work, [&](std::string_view bytes) { return spool.write(bytes); }));
    const std::string& problem = gathered_.parts[part].end.problem;
    return problem.empty() ? absl::OkStatus() : failed("here: " + problem);
  }

  const Question& question_;
  const Placement& placement_;
  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::vector<std::deque<size_t>> queues_;  // parts, by host
  std::vector<char> gone_;                  // hosts
  std::vector<State> states_;
  std::vector<size_t> left_over_;
  size_t settled_ = 0;
  absl::Status fatal_;
  Gathered gathered_;
};

// From one host; an error is that of the host unless `written` has one.
absl::Status fetch_from(Session& session, const Host& host, const std::string& file, int64_t bytes,
                        const std::string& path, absl::Status& written) {
  auto spool = Spool::create(path);
  written = spool.status();
  if (!written.ok()) return absl::OkStatus();
  SCALAI_ASSIGN_OR_RETURN(
      const PartEnd end,
      session.run({.folder = host.folder, .stages = {}, .ranges = {{file, 0, bytes, false}}, .environment = {}},
                  [&](std::string_view some) { return written = spool->write(some); }));
  return end.problem.empty() ? absl::OkStatus() : failed(fmt::format("{}: {}", host.name, end.problem));
}

}  // namespace

int status_of(const StageEnd& end) { return end.signal != 0 ? 128 + end.signal : end.status; }

absl::StatusOr<Gathered> gather(const Question& question, const Placement& placement) {
  return Gathering(question, placement).run();
}

absl::Status fetch(const Question& question, const std::vector<std::string>& files, const std::string& folder,
                   int64_t& moved_bytes) {
  std::vector<std::unique_ptr<Session>> sessions(question.source.hosts.size());
  std::vector<std::string> gone(sessions.size());
  for (const std::string& file : files) {
    const std::string path = folder + "/" + file, arriving = folder + ".arriving";
    std::error_code error;
    if (fs::exists(path, error)) continue;
    SCALAI_RETURN_IF_ERROR(make_folders(fs::path(path).parent_path().string()));
    bool there = false;
    std::vector<std::string> reasons;
    for (size_t host = 0; host < sessions.size() && !there; ++host) {
      if (!question.source.has(host, file)) continue;
      if (gone[host].empty() && sessions[host] == nullptr) {
        auto begun = Session::start(question.source.hosts[host], question.launch);
        if (begun.ok()) {
          sessions[host] = *std::move(begun);
        } else {
          gone[host] = message_of(begun.status());
        }
      }
      absl::Status written;
      if (gone[host].empty()) {
        const int64_t bytes = question.source.find(file)->bytes;
        const absl::Status fetched =
            fetch_from(*sessions[host], question.source.hosts[host], file, bytes, arriving, written);
        SCALAI_RETURN_IF_ERROR(written);
        if (absl::IsUnavailable(fetched)) gone[host] = message_of(fetched);
        there = fetched.ok();
        if (there) moved_bytes += question.source.hosts[host].here ? 0 : bytes;
        if (!there && gone[host].empty()) reasons.push_back(message_of(fetched));
      }
      if (!gone[host].empty()) reasons.push_back(gone[host]);
    }
    if (!there) return failed(fmt::format("{} could not be fetched: {}", file, fmt::join(reasons, "; ")));
    fs::rename(arriving, path, error);
    if (error) return failed(fmt::format("{}: {}", path, error.message()));
  }
  return absl::OkStatus();
}

}  // namespace scalai::near
