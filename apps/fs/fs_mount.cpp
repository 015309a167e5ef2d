#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/signalfd.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "apps/common/output.h"
#include "apps/fs/fs_commands.h"
#include "apps/fs/fs_request.h"
#include "ptc/base/status.h"
#include "ptc/base/units.h"
#include "vfs/control.h"
#include "vfs/log.h"
#include "vfs/server.h"

namespace scalai::apps {
namespace {

constexpr int kRanInto = 5;
constexpr double kPatience_s = 10;

absl::StatusOr<std::string> repartition(vfs::DatasetTree* datasets, const vfs::ControlRequest& request) {
  if (datasets == nullptr) return invalid("no dataset is mounted there");
  const auto dp = request.numbers.find("dp"), step = request.numbers.find("step");
  if (dp == request.numbers.end() || step == request.numbers.end() || request.numbers.size() != 2)
    return invalid("repartition needs dp=N step=S");
  SCALAI_RETURN_IF_ERROR(datasets->repartition(dp->second, step->second));
  return datasets->current();
}

// "5.50 MB of workers here, 0 B of workers elsewhere, 0 B of other readers, 0 B for other readers, 0 questions"
std::string str(const executor::live::LiveBytes& read) {
  return fmt::format(
      "{} of workers here, {} of workers elsewhere, {} of other readers, {} for other readers, {} questions",
      format_bytes(read.from_memory), format_bytes(read.from_workers), format_bytes(read.from_readers),
      format_bytes(read.to_readers), read.questions);
}

// Lines of NAME VALUE.
std::string status_text(vfs::DatasetTree* datasets, const LiveMount* live, const vfs::Statistics* statistics) {
  std::string text = fmt::format("pid {}\n", ::getpid());
  if (datasets != nullptr && !datasets->current().empty()) text += fmt::format("current {}\n", datasets->current());
  if (live != nullptr) text += fmt::format("live {}\n", str(live->read()));
  return text + fmt::format("statistics {}\n", statistics == nullptr ? "none" : statistics->str());
}

class Serving {
 public:
  Serving(FsRequest request, vfs::Log& log) : request_(std::move(request)), log_(log) {}

  absl::Status mount() {
    if (request_.live != nullptr) request_.live->log_to(log_);
    auto server = vfs::Server::mount(request_.root(), request_.server, log_,
                                     [this](const std::string& text) { return answer(text); });
    if (!server.ok()) return server.status();
    server_ = std::move(*server);
    running_ = server_.get();
    return absl::OkStatus();
  }

  // Until a signal or somebody else ends it, or the end of this input (-1: there is none); the exit code.
  int serve(int signals, int input) {
    while (true) {
      pollfd events[] = {{signals, POLLIN, 0}, {server_->ended(), POLLIN, 0}, {input, POLLIN, 0}};
      if (::poll(events, 3, -1) < 0 && errno != EINTR) break;
      if (events[1].revents != 0) break;
      if (events[2].revents != 0 && has_ended(input)) break;
      if (events[0].revents != 0 && !handle_signal(signals)) break;
    }
    const bool ended = server_->stop(kPatience_s);
    if (!ended) log_.line("a thread does not come back from its source; ended all the same");
    tell_statistics();
    if (!ended) std::_Exit(kRanInto);
    return 0;
  }

  std::string introduction() const {
    return fmt::format("{} at {}, read {} the page cache; `scalai fs unmount` or Ctrl-C ends it", request_.what(),
                       request_.server.directory, server_->reads_directly() ? "past" : "through");
  }

 private:
  absl::StatusOr<std::string> answer(const std::string& text) {
    SCALAI_ASSIGN_OR_RETURN(const vfs::ControlRequest request, vfs::parse_request(text));
    if (request.verb == "repartition") return repartition(request_.datasets.get(), request);
    const vfs::Server* server = running_;
    if (request.verb == "status" && request.numbers.empty())
      return status_text(request_.datasets.get(), request_.live.get(),
                         server == nullptr ? nullptr : &server->statistics());
    if (request.verb == "end" && request.numbers.empty()) {
      ::kill(::getpid(), SIGTERM);
      return "ending";
    }
    return invalid(fmt::format("unknown request \"{}\"; known are repartition, status and end", text));
  }

  static bool has_ended(int input) {
    char ignored = 0;
    const ssize_t got = ::read(input, &ignored, 1);
    return got == 0 || (got < 0 && errno != EINTR);
  }

  bool handle_signal(int signals) {
    signalfd_siginfo info = {};
    if (::read(signals, &info, sizeof(info)) != static_cast<ssize_t>(sizeof(info))) return true;
    if (info.ssi_signo != SIGUSR1) return false;
    tell_statistics();
    return true;
  }

  void tell_statistics() {
    log_.flush();
    log_.line(server_->statistics().str());
    if (request_.live != nullptr) log_.line(str(request_.live->read()));
  }

  FsRequest request_;
  vfs::Log& log_;
  std::unique_ptr<vfs::Server> server_;
  std::atomic<const vfs::Server*> running_ = nullptr;  // for the threads that answer
};

// Before the first thread: all of them inherit it, and the signals come by the descriptor only.
int block_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1}) sigaddset(&signals, signal);
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  return ::signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
}

void leave_terminal(const vfs::Log& log) {
  const int nothing = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  ::dup2(nothing, 0);
  ::dup2(nothing, 1);
  ::dup2(log.descriptor() == 2 ? nothing : log.descriptor(), 2);
  ::close(nothing);
}

absl::StatusOr<vfs::Log> log_of(const Arguments& arguments) {
  if (arguments.has("log")) return vfs::Log::to_file(arguments.text("log"));
  return vfs::Log();
}

// `ready`: a pipe to the process in the foreground, which waits for a byte; -1: we are that.
int run_server(const Arguments& arguments, int ready) {
  const int signals = block_signals();
  FsRefusal refusal;
  std::optional<FsRequest> request = read_fs_request(arguments, refusal);
  auto log = log_of(arguments);
  if (!log.ok()) return report_error(log.status());
  if (!request) {
    say("{}", refusal.text);
    if (refusal.code == 2) std::fputs("Try 'scalai fs mount --help'.\n", stderr);
    return refusal.code;
  }
  Serving serving(std::move(*request), *log);
  if (const absl::Status mounted = serving.mount(); !mounted.ok()) return report_error(mounted);
  log->line(serving.introduction());
  if (ready >= 0) {
    leave_terminal(*log);
    const char yes = 'y';
    if (::write(ready, &yes, 1) != 1) log->line("the command that started this server is gone; it goes on");
    ::close(ready);
  }
  return serving.serve(signals, arguments.flag("until-input-ends") ? STDIN_FILENO : -1);
}

// Asked from here: the server must not wait for itself.
int check_mount(const std::string& path) {
  struct statvfs facts = {};
  if (::statvfs(path.c_str(), &facts) == 0) return 0;
  return report_error(failed(fmt::format("{}: was mounted and does not answer: {}", path, std::strerror(errno))));
}

int wait_for_background(const std::string& path, pid_t child, int ready) {
  char byte = 0;
  ssize_t got = 0;
  while ((got = ::read(ready, &byte, 1)) < 0 && errno == EINTR) continue;
  ::close(ready);
  if (got == 1) return check_mount(path);
  int status = 0;  // it ended, and has said why
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  if (WIFEXITED(status) && WEXITSTATUS(status) != 0) return WEXITSTATUS(status);
  std::fputs("scalai fs: error: the server ended before the mount answered\n", stderr);
  return kRanInto;
}

// The fork comes before any thread and any library that would not survive it.
int run_in_background(const Arguments& arguments) {
  int ends[2] = {-1, -1};
  if (::pipe2(ends, O_CLOEXEC) != 0) return report_error(failed(fmt::format("pipe: {}", std::strerror(errno))));
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child < 0) return report_error(failed(fmt::format("fork: {}", std::strerror(errno))));
  if (child > 0) {
    ::close(ends[1]);
    return wait_for_background(arguments.positional()[0], child, ends[0]);
  }
  ::close(ends[0]);
  ::setsid();
  const int code = run_server(arguments, ends[1]);
  std::fflush(nullptr);
  std::_Exit(code);
}

int mount_main(const Arguments& arguments) {
  if (arguments.flag("daemonize") && arguments.flag("until-input-ends"))
    return usage_error("fs mount", "--until-input-ends needs standard input, which --daemonize closes");
  return arguments.flag("daemonize") ? run_in_background(arguments) : run_server(arguments, -1);
}

}  // namespace

Command fs_mount_command() {
  return {
      {.name = "mount",
       .summary = "show a checkpoint in any layout, datasets by rank, and running jobs, as files",
       .usage = "scalai fs mount DIR [--checkpoint=SRC] [--dataset=INDEX,…] [--run=DIR] [OPTION…]",
       .description =
           R"(Mounts a read-only file system at DIR, an empty folder, and serves it until SIGINT, SIGTERM or
`scalai fs unmount DIR`. SIGUSR1 prints what was read so far.

  views/tp4-pp2/rank_003.safetensors      the checkpoint in any layout that is asked for by name,
  views/hf/model.safetensors              byte for byte what `scalai checkpoint reshard` writes; nothing is copied
  dataset/dp4/step-1200/rank_02/          what that rank reads from that step to the end of its pass
  dataset/current                         a link that follows the job: `scalai fs repartition` sets it
  jobs/NAME/step-current                  a link to the job's last step, as it is when the link is followed
  jobs/NAME/step-00000120/views/hf/…      that step in any layout, out of the memories of the job's workers

A step of a running job stays as it was, and its workers keep a copy of it, while a file of it is open
and for --keep after its last use, unless a newer one needs the room; later reads are ESTALE. Reading several files of one step, follow the
link once: cd $(realpath step-current).

A source that was changed or cut since it was opened is an I/O error, never other bytes; the log says
which tensor or sample, and which file. With a relative --log the file lies where the command is run.)",
       .options = fs_mount_options(),
       .examples = {"scalai fs mount /mnt/ckpt --checkpoint=llama-70b-hf", "scalai fs mount /mnt/live --run=out/train",
                    "scalai fs mount /mnt/ckpt --checkpoint=step_00012000 --daemonize --log=fs.log",
                    "scalai fs mount /mnt/data --dataset=pile.index --sequence=4096 --global-batch=512 --dp=4"},
       .min_arguments = 1,
       .max_arguments = 1,
       .endings = {"/"}},
      mount_main};
}

}  // namespace scalai::apps
