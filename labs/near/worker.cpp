#include "labs/near/worker.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <clocale>
#include <condition_variable>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <set>
#include <thread>

#include "labs/near/stages.h"
#include "ptc/base/file.h"
#include "ptc/base/file_descriptor.h"
#include "ptc/base/parallel.h"
#include "ptc/base/status.h"

namespace scalai::near {
namespace {

namespace fs = std::filesystem;

constexpr int kDeepest = 64;      // folders within each other
constexpr size_t kListed = 1000;  // files in a message
constexpr size_t kOutput = size_t{1} << 20;

ListedFile facts_of(const std::string& name, const std::string& path, int64_t bytes) {
  if (bytes == 0) return {.name = name};
  constexpr std::array<char, 3> kByteOrderMark = {'\xef', '\xbb', '\xbf'};
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::array<char, 3> first{};
  char last = 0;
  return {
      .name = name,
      .bytes = bytes,
      .ends_whole = ::pread(file.get(), &last, 1, bytes - 1) == 1 && last == '\n',
      .has_mark = ::pread(file.get(), first.data(), first.size(), 0) == std::ssize(first) && first == kByteOrderMark};
}

// As those of /proc, which say no size: they cannot be cut, so they are not offered.
bool has_more_than(const std::string& path, int64_t bytes) {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  char more = 0;
  return file.get() >= 0 && ::pread(file.get(), &more, 1, bytes) == 1;
}

class Lister {
 public:
  explicit Lister(std::string folder) : folder_(std::move(folder)) {}

  Listed list() {
    struct stat facts {};
    if (::stat(folder_.c_str(), &facts) == 0) within_.emplace_back(facts.st_dev, facts.st_ino);
    walk("", 0);
    if (!listed_.problem.empty()) listed_.files.clear();
    std::sort(listed_.files.begin(), listed_.files.end(),
              [](const ListedFile& a, const ListedFile& b) { return a.name < b.name; });
    return std::move(listed_);
  }

 private:
  void walk(const std::string& below, int depth) {
    const std::string path = below.empty() ? folder_ : folder_ + "/" + below;
    std::error_code error;
    if (depth > kDeepest) error = std::make_error_code(std::errc::too_many_symbolic_link_levels);
    for (auto entry = error ? fs::directory_iterator() : fs::directory_iterator(path, error);
         !error && entry != fs::directory_iterator() && listed_.files.size() <= kMostFiles; entry.increment(error)) {
      const std::string name = entry->path().filename().string();
      if (name.starts_with(".")) continue;
      const std::string relative = below.empty() ? name : below + "/" + name;
      struct stat facts {};
      if (::stat(entry->path().c_str(), &facts) != 0) continue;  // a link that leads nowhere
      if (S_ISDIR(facts.st_mode)) enter(relative, depth, {facts.st_dev, facts.st_ino});
      if (S_ISREG(facts.st_mode) && (facts.st_size > 0 || !has_more_than(entry->path().string(), 0)))
        listed_.files.push_back(facts_of(relative, entry->path().string(), facts.st_size));
    }
    if (listed_.files.size() > kMostFiles)
      listed_.problem = fmt::format("{}: more than {} files; name a folder below it", folder_, kMostFiles);
    // A folder below that may not be read is left out, as by patterns of sh.
    const bool closed = error == std::errc::permission_denied && !below.empty();
    if (error && !closed && listed_.problem.empty()) listed_.problem = fmt::format("{}: {}", path, error.message());
  }

  // But not by a link that leads back.
  void enter(const std::string& folder, int depth, std::pair<dev_t, ino_t> which) {
    if (std::find(within_.begin(), within_.end(), which) != within_.end()) return;
    within_.push_back(which);
    walk(folder, depth + 1);
    within_.pop_back();
  }

  const std::string folder_;
  std::vector<std::pair<dev_t, ino_t>> within_;  // folders
  Listed listed_;
};

// "" or why commands cannot run as they do at the caller.
std::string take_environment(const std::vector<Variable>& environment) {
  if (environment.empty()) return "";  // it has that of its caller
  for (const Variable& variable : environment) {
    if (variable.set) {
      ::setenv(variable.name.c_str(), variable.value.c_str(), 1);
    } else {
      ::unsetenv(variable.name.c_str());
    }
  }
  const bool known = std::setlocale(LC_ALL, "") != nullptr;  // else sort and others would take "C", and order otherwise
  std::setlocale(LC_ALL, "C");
  if (known) return "";
  const char* all = std::getenv("LC_ALL");
  const char* lang = std::getenv("LANG");
  return fmt::format("has not the locale {}; LC_ALL=C in front of the command does without",
                     all != nullptr && *all != '\0' ? all
                     : lang != nullptr              ? lang
                                                    : "of this machine");
}

std::string refused_names(const PartWork& work) {
  for (const Range& range : work.ranges) {
    const fs::path path(range.file);
    if (path.is_absolute() || std::find(path.begin(), path.end(), "..") != path.end())
      return fmt::format("{} is outside of the folder", range.file);
  }
  for (const StageWork& stage : work.stages)
    if (stage.words.empty() || stage.script >= stage.words.size()) return "a command has no words";
  return "";
}

// Whether the caller has closed its end: it says nothing while it waits for an answer.
bool is_gone(int in) {
  pollfd one{.fd = in, .events = POLLIN, .revents = 0};
  return ::poll(&one, 1, 0) > 0;
}

PartEnd work_on(const PartWork& work, int in, int out, const std::string& scratch) {
  PartEnd end;
  end.problem = refused_names(work);
  if (end.problem.empty()) end.problem = take_environment(work.environment);
  if (end.problem.empty() && scratch.empty()) end.problem = "cannot make a temporary folder";
  if (!end.problem.empty()) return end;
  // What commands leave there, sort when it is killed, goes with the folder.
  const std::string temporary = scratch + "/tmp";
  if (make_folders(temporary).ok()) ::setenv("TMPDIR", temporary.c_str(), 1);
  return run_part(work, {.output =
                             [&](std::string_view bytes) {
                               for (; !bytes.empty(); bytes.remove_prefix(std::min(bytes.size(), kOutput)))
                                 if (!send(out, Answer(Output{std::string(bytes.substr(0, kOutput))})).ok())
                                   return false;
                               return true;
                             },
                         .beat = [&] { return !is_gone(in) && send(out, Answer(Alive{})).ok(); },
                         .scratch = scratch});
}

// Says each second that this worker lives, until it goes. Nobody else sends meanwhile.
class Beating {
 public:
  explicit Beating(int out)
      : thread_([out](const std::stop_token& over) {
          std::mutex mutex;
          std::condition_variable_any never;
          std::unique_lock lock(mutex);
          while (!never.wait_for(lock, over, kBeat, [] { return false; }) && !over.stop_requested())
            if (!send(out, Answer(Alive{})).ok()) return;
        }) {}

 private:
  static constexpr std::chrono::seconds kBeat{1};
  std::jthread thread_;
};

struct OpenedRun {
  std::string run;
  RunView view;
  std::string folder;
};

absl::StatusOr<std::string> folder_of(const std::string& folder, const std::optional<RunView>& view, int out,
                                      const OpenRun& open, std::vector<OpenedRun>& opened) {
  if (!view) return folder;
  for (const OpenedRun& one : opened)
    if (one.run == folder && one.view == *view) return one.folder;
  if (!open) return missing("this worker opens no runs");
  const Beating beating(out);
  SCALAI_ASSIGN_OR_RETURN(std::string files, open(folder, *view));
  opened.push_back({folder, *view, files});
  return files;
}

Listed listed(const ListWork& list, int out, const OpenRun& open, std::vector<OpenedRun>& opened) {
  const auto folder = folder_of(list.folder, list.run, out, open, opened);
  if (!folder.ok()) return {.files = {}, .problem = message_of(folder.status())};
  const Beating beating(out);
  return list_folder(*folder);
}

// In messages of some files each.
absl::Status send_listed(int out, const Listed& listed) {
  size_t sent = 0;
  do {
    const size_t end = std::min(sent + kListed, listed.files.size());
    Listed some{.files = {}, .problem = listed.problem, .more = end < listed.files.size()};
    for (; sent < end; ++sent) some.files.push_back(listed.files[sent]);
    SCALAI_RETURN_IF_ERROR(send(out, Answer(std::move(some))));
  } while (sent < listed.files.size());
  return absl::OkStatus();
}

}  // namespace

Listed list_folder(const std::string& folder) { return Lister(folder).list(); }

void serve(int in, int out, const std::string& scratch, const OpenRun& open_run) {
  std::vector<OpenedRun> opened;
  std::signal(SIGPIPE, SIG_IGN);
  absl::Status sent = send(out, Answer(Hello{.version = kProtocol, .threads = static_cast<int>(hardware_threads())}));
  while (sent.ok()) {
    absl::StatusOr<Work> work = receive_work(in);
    if (!work.ok()) return;
    if (const auto* list = std::get_if<ListWork>(&*work)) {
      sent = send_listed(out, listed(*list, out, open_run, opened));
    } else {
      PartWork part = std::get<PartWork>(*std::move(work));
      const auto folder = folder_of(part.folder, part.run, out, open_run, opened);
      PartEnd end;
      if (folder.ok()) {
        part.folder = *folder;
        end = work_on(part, in, out, scratch);
      } else {
        end.problem = message_of(folder.status());
      }
      sent = send(out, Answer(end));
    }
  }
}

}  // namespace scalai::near
