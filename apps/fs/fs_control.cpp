#include <fmt/format.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <sstream>

#include "apps/common/output.h"
#include "apps/fs/fs_commands.h"
#include "ptc/base/file.h"
#include "ptc/base/status.h"
#include "vfs/control.h"
#include "vfs/mounts.h"

namespace scalai::apps {
namespace {

constexpr int kPatience_ms = 10'000;

// A server that says what its process is; 0: none, or it does not answer us.
pid_t server_at(const std::string& directory) {
  const auto answer = vfs::ask(directory, "status");
  if (!answer.ok()) return 0;
  std::istringstream words(*answer);
  std::string word;
  pid_t pid = 0;
  words >> word >> pid;
  return word == "pid" ? pid : 0;
}

// The number may be one of another container, so only a process that is one of ours counts.
void wait_for_end(pid_t pid) {
  const auto name = read_file(fmt::format("/proc/{}/comm", pid));
  if (pid <= 0 || !name.ok() || *name != "scalai-fs\n") return;
  const int process = static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
  if (process < 0) return;
  pollfd ended = {process, POLLIN, 0};
  ::poll(&ended, 1, kPatience_ms);
  ::close(process);
}

absl::Status unmount(const std::string& path, bool force) {
  SCALAI_ASSIGN_OR_RETURN(const std::string directory, vfs::mount_directory(path));
  const auto mount = vfs::mount_at(directory);
  if (!mount) return missing(fmt::format("{}: nothing is mounted there", directory));
  if (!mount->ours())
    return missing(
        fmt::format("{}: the mount there has type {}; it is not a mount of scalai fs", directory, mount->type));
  if (vfs::is_dead(directory)) return vfs::clean_dead_mounts(directory).status();
  const pid_t server = server_at(directory);
  // Under open files only the server can end the mount for its readers, too.
  const bool ending = force && vfs::ask(directory, "end").ok();
  if (ending) wait_for_end(server);
  if (ending && !vfs::mount_at(directory)) return absl::OkStatus();
  const absl::Status done = vfs::unmount(directory, force);
  if (done.code() == absl::StatusCode::kFailedPrecondition)
    return absl::FailedPreconditionError(
        fmt::format("{}; --force unmounts all the same, their readers get errors", message_of(done)));
  SCALAI_RETURN_IF_ERROR(done);
  wait_for_end(server);
  return absl::OkStatus();
}

int unmount_main(const Arguments& arguments) {
  const absl::Status done = unmount(arguments.positional()[0], arguments.flag("force"));
  return done.ok() ? 0 : report_error(done);
}

int ask_main(const std::string& path, const std::string& request, const std::string& prefix) {
  const auto answer = vfs::ask(path, request);
  if (!answer.ok()) return report_error(answer.status());
  print("{}{}{}", prefix, *answer, !answer->empty() && answer->back() == '\n' ? "" : "\n");
  return 0;
}

int repartition_main(const Arguments& arguments) {
  if (!arguments.has("dp") || !arguments.has("step")) return usage_error("fs repartition", "it needs --dp and --step");
  return ask_main(arguments.positional()[0],
                  fmt::format("repartition dp={} step={}", arguments.count("dp"), arguments.count("step")),
                  "dataset/current -> ");
}

int status_main(const Arguments& arguments) { return ask_main(arguments.positional()[0], "status", ""); }

}  // namespace

Command fs_unmount_command() {
  return {{.name = "unmount",
           .summary = "unmount what `scalai fs mount` mounted, also when its server is dead",
           .usage = "scalai fs unmount DIR [--force]",
           .description = "Unmounts DIR and waits for its server to end. What a killed server left behind is removed.",
           .options = {flag_option("force", "Also while files are open there; their readers get errors.")},
           .examples = {"scalai fs unmount /mnt/ckpt"},
           .min_arguments = 1,
           .max_arguments = 1,
           .endings = {"/"}},
          unmount_main};
}

Command fs_repartition_command() {
  return {
      {.name = "repartition",
       .summary = "point dataset/current to another data-parallel degree and step",
       .usage = "scalai fs repartition DIR --dp=N --step=S",
       .description =
           "Switches dataset/current of the mount at DIR, for all its datasets at once. Whoever opens it from then on\n"
           "sees the new partition; files that are open stay what they are. Only the user who mounted may do that.",
       .options = {count_option("dp", "N", "Data-parallel degree."),
                   count_option("step", "S", "Step at whose beginning the job changes.")},
       .examples = {"scalai fs repartition /mnt/data --dp=6 --step=1234"},
       .min_arguments = 1,
       .max_arguments = 1,
       .endings = {"/"}},
      repartition_main};
}

Command fs_status_command() {
  return {{.name = "status",
           .summary = "say what the server of a mount has done so far",
           .usage = "scalai fs status DIR",
           .description = "Prints the server's process, where dataset/current points, and what was read, a line each.",
           .options = {},
           .examples = {"scalai fs status /mnt/ckpt"},
           .min_arguments = 1,
           .max_arguments = 1,
           .endings = {"/"}},
          status_main};
}

}  // namespace scalai::apps
