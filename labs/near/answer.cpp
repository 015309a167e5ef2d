#include "labs/near/answer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <map>
#include <optional>
#include <set>

#include "labs/near/internal/write.h"
#include "labs/near/stages.h"
#include "ptc/base/file.h"
#include "ptc/base/file_descriptor.h"
#include "ptc/base/process.h"
#include "ptc/base/say.h"
#include "ptc/base/status.h"

namespace scalai::near {
namespace {

bool is_file(const std::string& path, int64_t bytes) {
  struct stat facts {};
  return ::stat(path.c_str(), &facts) == 0 && S_ISREG(facts.st_mode) && facts.st_size == bytes;
}

// Size and time of all files of a folder, by name.
using Facts = std::map<std::string, std::pair<int64_t, int64_t>>;
Facts facts_of(const std::string& folder) {
  Facts all;
  std::error_code error;
  for (auto entry = std::filesystem::recursive_directory_iterator(folder, error);
       !error && entry != std::filesystem::recursive_directory_iterator(); entry.increment(error)) {
    struct stat facts {};
    if (::lstat(entry->path().c_str(), &facts) == 0 && !S_ISDIR(facts.st_mode))
      all[std::filesystem::relative(entry->path(), folder, error).string()] = {
          facts.st_size, facts.st_mtim.tv_sec * 1'000'000'000 + facts.st_mtim.tv_nsec};
  }
  return all;
}

// What has to change in a placement whose parts do not make a whole.
struct Less {
  size_t most_near;
  bool cuts;
};

class Answering {
 public:
  Answering(const Question& question, PlaceOptions options) : question_(question), options_(options) {}

  absl::StatusOr<Answered> run() {
    for (;;) {
      const Placement placement = place(question_.uses, question_.source, options_);
      if (placement.near == 0) return locally(question_.pipeline, {});
      std::signal(SIGPIPE, SIG_IGN);
      SCALAI_ASSIGN_OR_RETURN(const Gathered gathered, gather(question_, placement));
      answered_.moved_bytes += gathered.moved_bytes;
      answered_.notes.insert(answered_.notes.end(), gathered.notes.begin(), gathered.notes.end());
      std::optional<Less> less = not_whole(placement, gathered);
      if (!less) {
        const absl::StatusOr<bool> merged = merge(placement, gathered);
        if (!merged.ok()) return merged.status();
        if (*merged) return answered_;
        less = Less{placement.merge_stage, options_.cuts};
      }
      if (less->most_near < placement.near)
        answered_.notes.push_back(
            fmt::format("{} is not split after all", question_.pipeline[less->most_near].words[0]));
      options_.most_near = less->most_near;
      options_.cuts = less->cuts;
    }
  }

 private:
  // Runs commands here, with files of the source that they name.
  absl::StatusOr<Answered> locally(const std::vector<Command>& commands,
                                   const std::function<absl::Status(const Sink&)>& feed) {
    SCALAI_ASSIGN_OR_RETURN(const std::string folder, folder_for(commands));
    const Facts before = folder == question_.here ? Facts() : facts_of(folder);
    SCALAI_ASSIGN_OR_RETURN(answered_.status, run_commands(commands, folder, feed));
    if (folder == question_.here) return answered_;
    for (const auto& [name, facts] : facts_of(folder)) {
      const auto found = before.find(name);
      if (found == before.end() || found->second != facts)
        return failed(
            fmt::format("{} was written beside copies of the source's files, which go with this command\n"
                        "hint: write to standard output",
                        name));
    }
    return answered_;
  }

  // Whether all files of the source are on this machine, in its folder.
  bool is_whole_here() const {
    return !question_.here.empty() &&
           std::all_of(question_.source.files.begin(), question_.source.files.end(),
                       [&](const auto& file) { return is_file(question_.here + "/" + file.first, file.second.bytes); });
  }

  // As far as the words say: a copy of the files that are named would look like a folder with nothing else.
  bool reads_folder(const Command& command) const {
    static const std::set<std::string> kReaders = {"ls", "dir", "vdir", "find", "du", "tree", "tar", "zip", "rsync"};
    const auto is_folder = [&](std::string word) {
      while (word.ends_with('/')) word.pop_back();
      if (word == "." || word == "..") return command.words[0] != "jq";  // a filter
      const auto below = question_.source.files.lower_bound(word + "/");
      return !word.empty() && below != question_.source.files.end() && below->first.starts_with(word + "/");
    };
    return kReaders.contains(command.words[0]) ||
           std::any_of(command.words.begin() + 1, command.words.end(), is_folder);
  }

  // Where files that commands name can be read: the source's folder, else a copy of them.
  absl::StatusOr<std::string> folder_for(const std::vector<Command>& commands) {
    std::set<std::string> named;
    for (const Command& command : commands)
      for (const std::string& word : command.words)
        if (question_.source.find(word) != nullptr) named.insert(word);
    const bool all_here = std::all_of(named.begin(), named.end(), [&](const std::string& file) {
      return is_file(question_.here + "/" + file, question_.source.find(file)->bytes);
    });
    for (const Command& command : commands) {
      if (!reads_folder(command)) continue;
      if (is_whole_here()) return question_.here;
      return invalid(
          fmt::format("{} reads folders, and the source is not whole on this machine\n"
                      "hint: name files or a pattern",
                      command.words[0]));
    }
    if (!question_.here.empty() && all_here) return question_.here;
    const std::string folder = question_.scratch + "/files";
    SCALAI_RETURN_IF_ERROR(make_folders(folder));
    SCALAI_RETURN_IF_ERROR(fetch(question_, {named.begin(), named.end()}, folder, answered_.moved_bytes));
    return folder;
  }

  // What the parts' ends say against the split; nullopt: nothing.
  std::optional<Less> not_whole(const Placement& placement, const Gathered& gathered) const {
    if (placement.parts.size() < 2) return std::nullopt;
    for (size_t i = 0; i < placement.near; ++i) {
      const Use& use = question_.uses[i];
      for (size_t part = 0; part < gathered.parts.size(); ++part) {
        const PartEnd& end = gathered.parts[part].end;
        const bool cut = i > 0 && part + 1 < gathered.parts.size() && !end.stages[i].whole;
        const bool binary = placement.by_record(i) && use.text && (end.stages[i].nul || !end.errors.empty());
        const bool depends = placement.merge != Merge::kConcatenate || use.joins_files;
        const bool wrong =
            depends && status_of(end.stages[i]) > use.last_good_status && end.stages[i].signal != SIGPIPE;
        if (cut || binary) return i > 0 ? Less{i, options_.cuts} : Less{placement.near, false};
        if (wrong) return Less{std::min(i, placement.merge_stage), options_.cuts};
      }
    }
    return std::nullopt;
  }

  // False: the outputs are not what the merge expects.
  absl::StatusOr<bool> merge(const Placement& placement, const Gathered& gathered) {
    for (const PartOutput& part : gathered.parts) say("{}", part.end.errors);
    std::vector<std::string> paths;
    for (const PartOutput& part : gathered.parts) paths.push_back(part.path);
    std::vector<Command> rest(question_.pipeline.begin() + static_cast<ptrdiff_t>(placement.local_from),
                              question_.pipeline.end());
    std::function<absl::Status(const Sink&)> feed = [&](const Sink& sink) { return concatenate(paths, sink); };
    const Use& use = question_.uses[placement.merge_stage];
    std::string merged;  // by numbers: short, but for counts
    switch (placement.merge) {
      case Merge::kSorted: {
        Command sort{use.words_for(paths)};
        sort.words.insert(sort.words.begin() + 1, "-m");
        rest.insert(rest.begin(), std::move(sort));
        feed = [](const Sink&) { return absl::OkStatus(); };
        break;
      }
      case Merge::kSum:
      case Merge::kColumns: {
        const absl::Status added = numbers(placement, gathered, paths, merged);
        if (absl::IsFailedPrecondition(added)) return false;
        SCALAI_RETURN_IF_ERROR(added);
        feed = [&](const Sink& sink) { return sink(merged); };
        break;
      }
      case Merge::kCounted: {
        // Into a file: what is not right is found at its end.
        const std::string path = question_.scratch + "/merged";
        const FileDescriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
        if (file.get() < 0) return failed(fmt::format("{}: {}", path, std::strerror(errno)));
        const absl::Status added = add_counts(paths, placement.counts_sorted, [&](std::string_view bytes) {
          return internal::write_all(file.get(), bytes);
        });
        if (absl::IsFailedPrecondition(added)) return false;
        SCALAI_RETURN_IF_ERROR(added);
        paths = {path};
        break;
      }
      default: break;
    }
    const size_t ahead = placement.merge == Merge::kSorted ? 1 : 0;
    SCALAI_RETURN_IF_ERROR(locally(rest, feed).status());
    if (rest.size() == ahead && ahead == 0) answered_.status = status_of_parts(placement, gathered);
    return true;
  }

  absl::Status numbers(const Placement& placement, const Gathered& gathered, const std::vector<std::string>& paths,
                       std::string& merged) const {
    const int columns = question_.uses[placement.merge_stage].columns;
    const Sink sink = [&](std::string_view bytes) {
      merged += bytes;
      return absl::OkStatus();
    };
    if (placement.merge == Merge::kSum) return sum_columns(paths, columns, sink);
    std::vector<CountedFiles> counted;
    for (size_t i = 0; i < gathered.parts.size(); ++i)
      counted.push_back({gathered.parts[i].path, placement.parts[i].files.size()});
    return align_columns(counted, columns, placement.input_bytes, sink);
  }

  // Of the pipeline's last command, which ran in each part.
  int status_of_parts(const Placement& placement, const Gathered& gathered) const {
    const Use& use = question_.uses[placement.near - 1];
    int largest = 0, least = 255;
    for (const PartOutput& part : gathered.parts) {
      const int status = status_of(part.end.stages.back());
      largest = std::max(largest, status);
      least = std::min(least, status);
    }
    return use.any_zero && largest <= use.last_good_status ? least : largest;
  }

  const Question& question_;
  PlaceOptions options_;
  Answered answered_;
};

// Kept open by nobody else: children get it as a standard descriptor only.
absl::StatusOr<std::array<FileDescriptor, 2>> pipe_here() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return failed(fmt::format("cannot make a pipe: {}", std::strerror(errno)));
  return std::array<FileDescriptor, 2>{FileDescriptor(ends[0]), FileDescriptor(ends[1])};
}

}  // namespace

absl::StatusOr<int> run_commands(const std::vector<Command>& commands, const std::string& folder,
                                 const std::function<absl::Status(const Sink&)>& feed) {
  const auto to_stdout = [](std::string_view bytes) { return internal::write_all(STDOUT_FILENO, bytes); };
  if (commands.empty()) {
    SCALAI_RETURN_IF_ERROR(feed(to_stdout));
    return 0;
  }
  std::signal(SIGPIPE, SIG_DFL);  // as commands of a shell have it
  FileDescriptor before, fed;
  if (feed) {
    SCALAI_ASSIGN_OR_RETURN(auto ends, pipe_here());
    before = std::move(ends[0]);
    fed = std::move(ends[1]);
  }
  std::vector<pid_t> pids;
  StageEnd end;  // of the last one
  for (size_t i = 0; i < commands.size(); ++i) {
    std::array<FileDescriptor, 2> next;
    const bool last = i + 1 == commands.size();
    if (!last) {
      SCALAI_ASSIGN_OR_RETURN(next, pipe_here());
    }
    const int in = before.get() >= 0 ? before.get() : SpawnOptions::kInherit;
    const auto pid = spawn({.program = commands[i].words[0],
                            .words = commands[i].words,
                            .ends = {in, last ? SpawnOptions::kInherit : next[1].get(), SpawnOptions::kInherit},
                            .folder = folder,
                            .runs_scripts = true});
    if (!pid.ok()) say("{}\n", message_of(pid.status()));
    pids.push_back(pid.ok() ? *pid : -1);
    end = {.status = status_without_start(pid.status())};  // counts if it is the last one
    before = std::move(next[0]);
  }
  before = {};
  std::signal(SIGPIPE, SIG_IGN);
  absl::Status written;
  if (feed) written = feed([&](std::string_view bytes) { return internal::write_all(fed.get(), bytes); });
  fed = {};
  for (size_t i = 0; i < pids.size(); ++i) {
    int status = 0;
    while (pids[i] > 0 && ::waitpid(pids[i], &status, 0) < 0 && errno == EINTR) {
    }
    if (i + 1 < pids.size() || pids[i] < 0) continue;
    end = {.status = WIFEXITED(status) ? WEXITSTATUS(status) : 0, .signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0};
  }
  // A command that has read enough, as head does, is no error.
  if (!written.ok() && !absl::IsFailedPrecondition(written)) return written;
  return status_of(end);
}

absl::StatusOr<Answered> answer(const Question& question, const PlaceOptions& options) {
  return Answering(question, options).run();
}

}  // namespace scalai::near
