#include "labs/near/commands/near_run.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <thread>
#include <vector>

#include "ptc/base/file.h"
#include "ptc/base/process.h"
#include "ptc/base/status.h"

namespace scalai::apps {
namespace {

namespace fs = std::filesystem;

constexpr double kMount_s = 90;  // the job's first step takes its time

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (auto entry = fs::directory_iterator(folder, error); !error && entry != fs::directory_iterator();
       entry.increment(error))
    names.push_back(entry->path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

absl::StatusOr<std::unique_ptr<RunSource>> RunSource::open(const std::string& run, const near::RunView& view,
                                                           const std::string& scratch) {
  const std::string& job = view.job;
  SCALAI_ASSIGN_OR_RETURN(const std::string program, find_program("scalai-fs"));
  std::unique_ptr<RunSource> source(new RunSource(scratch + "/run"));
  const std::string &mount = source->mount_, log = scratch + "/mount.log";
  SCALAI_RETURN_IF_ERROR(make_folders(mount));
  // The mount goes with us, also if we are killed.
  std::array<int, 2> life{};
  if (::pipe2(life.data(), O_CLOEXEC) != 0) return failed(fmt::format("cannot make a pipe: {}", std::strerror(errno)));
  const FileDescriptor theirs(life[0]);
  source->life_ = FileDescriptor(life[1]);
  std::vector<std::string> words = {program, "mount", mount, "--run=" + run, "--until-input-ends"};
  if (view.step != 0) words.push_back(fmt::format("--kept-step={}", view.step));
  // In this process's group: Ctrl-C ends it, too.
  SCALAI_ASSIGN_OR_RETURN(source->server_, spawn({.program = program,
                                                  .words = words,
                                                  .ends = {theirs.get(), SpawnOptions::kNull, SpawnOptions::kNull},
                                                  .log_file = log}));
  SCALAI_RETURN_IF_ERROR(source->wait_until_mounted(run, log));
  const std::vector<std::string> jobs = names_in(mount + "/jobs");
  const bool known = job.empty() ? jobs.size() == 1 : std::find(jobs.begin(), jobs.end(), job) != jobs.end();
  if (!known)
    return missing(fmt::format("{}: {}; --job names one of {}", run,
                               job.empty() ? "it has several jobs" : fmt::format("no job \"{}\"", job),
                               fmt::join(jobs, ", ")));
  const std::string of_job = mount + "/jobs/" + (job.empty() ? jobs[0] : job);
  std::error_code error;
  source->step_ = fs::read_symlink(of_job + "/step-current", error).string();
  if (error) return failed(fmt::format("{}: the job has no step to read: {}", run, error.message()));
  source->folder_ = fmt::format("{}/{}/views/{}", of_job, source->step_, view.view);
  const std::vector<std::string> files = names_in(source->folder_);
  if (files.empty())
    return missing(fmt::format("{}: no view {} of its job; logical is there for any model", run, view.view));
  source->kept_ = FileDescriptor(::open((source->folder_ + "/" + files[0]).c_str(), O_RDONLY | O_CLOEXEC));
  if (source->kept_.get() < 0) return failed(fmt::format("{}: {} cannot be kept", run, source->step_));
  return source;
}

absl::Status RunSource::wait_until_mounted(const std::string& run, const std::string& log) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(kMount_s);
  std::error_code ignored;
  while (!fs::exists(mount_ + "/jobs", ignored)) {
    int status = 0;
    if (::waitpid(server_, &status, WNOHANG) == server_) {
      server_ = -1;
      std::string said = read_file(log).value_or("");
      while (said.ends_with('\n')) said.pop_back();
      return WIFEXITED(status) && WEXITSTATUS(status) == 4 ? missing(said) : failed(said);
    }
    if (std::chrono::steady_clock::now() > until)
      return failed(run + ": cannot be mounted: nothing is there after 90 s");
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return absl::OkStatus();
}

RunSource::~RunSource() {
  kept_ = {};
  if (server_ < 0) return;
  ::kill(server_, SIGTERM);
  (void)wait_for(server_);
}

}  // namespace scalai::apps
