#include "tests/chaos/run.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/mount.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <optional>
#include <thread>

#include "executor/rpc/process.h"
#include "ptc/base/file.h"
#include "ptc/base/random.h"
#include "ptc/base/status.h"
#include "tests/chaos/faults.h"
#include "tests/chaos/judge.h"
#include "tests/chaos/network.h"
#include "tests/chaos/training.h"

namespace scalai::chaos {
namespace {

namespace fs = std::filesystem;
using executor::rpc::Process;
using executor::rpc::ProcessEnd;

constexpr double kDeadline_s = 180;  // of a whole run, on a busy machine
constexpr const char* kDisk = "size=128m,nr_inodes=4096,mode=700";
constexpr int kHosts = 4;  // of the scenarios
constexpr int kLossPercent = 5;

void sleep_for(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }

class Run {
 public:
  Run(const Choice& choice, const Setting& setting, std::string folder, int number)
      : choice_(choice), setting_(setting), folder_(std::move(folder)), network_(number, kHosts) {}
  ~Run() {
    network_.stop_workers();
    for (const pid_t pid : processes()) ::kill(pid, SIGKILL);
    if (mounted_ && outcome_.wrong.empty()) ::umount2(folder_.c_str(), MNT_DETACH);
    if (!outcome_.wrong.empty()) return;
    std::error_code ignored;
    for (const char* more : {"", ".textproto", ".log", ".clock", ".csv"}) fs::remove_all(folder_ + more, ignored);
  }

  Outcome play() {
    outcome_.wrong = play_to_its_end();
    if (!outcome_.wrong.empty()) {
      const std::string log = read_file(folder_ + ".log").value_or("");
      outcome_.wrong = fmt::format("{}: {}; see {}\n{}", choice_.str(), outcome_.wrong, folder_,
                                   log.substr(log.size() > 2000 ? log.size() - 2000 : 0));
    }
    return outcome_;
  }

 private:
  std::string play_to_its_end() {
    if (std::string wrong = prepare(); !wrong.empty()) return wrong;
    auto controller = start(words());
    if (!controller.ok()) return message_of(controller.status());
    if (networked()) start_workers();
    for (int tries = 0; tries < 1000 && !choice_.early && !has_begun() && !controller->poll(); ++tries) sleep_for(0.03);
    sleep_for(choice_.delay_s);
    outcome_.over = controller->poll().has_value();
    if (choice_.doubled && !outcome_.over && has_begun()) {
      auto other = start(words());
      const auto refused = other.ok() ? other->wait(kDeadline_s) : std::nullopt;
      if (!refused) return hangs("a second controller hangs");
      if (refused->ok()) return controller->poll() ? "" : "a second controller was let in";  // the first may be over
    }
    if (!outcome_.over) do_fault(*controller);
    std::optional<ProcessEnd> end = controller->wait(kDeadline_s);
    if (!end) return hangs("the run hangs");
    const bool ended =
        choice_.fault == Fault::kController || choice_.fault == Fault::kBoth || (may_end_it() && !end->ok());
    if (ended && !outcome_.over) {
      // Before the first event there is nothing to go on with.
      if (!has_begun()) {
        outcome_.not_begun = true;
        return "";
      }
      outcome_.resumed = true;
      sleep_for(choice_.pause_s);
      auto second = resume();
      if (!second.ok()) return message_of(second.status());
      end = second->wait(kDeadline_s);
      if (!end) return hangs("the resumed run hangs");
    }
    if (!end->ok()) return "the run ended with " + end->str();
    std::string wrong = check();
    if (!wrong.empty() || !choice_.again) return wrong;
    // As if nothing had been.
    fs::remove(folder_ + ".csv");
    auto next = start(words());
    if (!next.ok()) return message_of(next.status());
    if (networked()) start_workers();
    end = next->wait(kDeadline_s);
    if (!end) return hangs("the next run in the same folder hangs");
    if (!end->ok()) return "the next run in the same folder ended with " + end->str();
    wrong = check();
    return wrong.empty() ? "" : "the next run in the same folder: " + wrong;
  }
  // Where the controller cannot write or allocate; the next one goes on.
  bool may_end_it() const {
    return choice_.fault == Fault::kFullDisk || choice_.fault == Fault::kDescriptors ||
           choice_.fault == Fault::kAddresses || choice_.fault == Fault::kMemory;
  }

  // ---- before
  std::string prepare() {
    std::error_code error;
    fs::create_directories(folder_, error);
    if (error) return folder_ + ": " + error.message();
    if (choice_.fault == Fault::kFullDisk) {
      mounted_ = ::mount("chaos", folder_.c_str(), "tmpfs", 0, kDisk) == 0;
      if (!mounted_) return "cannot mount a file system in memory";
    }
    if (networked()) {
      if (const absl::Status made = network_.make(); !made.ok()) return message_of(made);
    }
    const int64_t none = 0;
    std::string problem =
        message_of(write_file(folder_ + ".clock", {reinterpret_cast<const char*>(&none), sizeof none}));
    return problem.empty() ? message_of(write_scenario()) : problem;
  }

  // Those of this folder, and more.
  absl::Status write_scenario() const {
    if (choice_.trains) {
      SCALAI_ASSIGN_OR_RETURN(const std::string text, read_file(setting_.training + "/training.textproto"));
      return write_file(folder_ + ".textproto", text);
    }
    const std::string here = SCALAI_SOURCE_DIR "/tests/chaos/";
    SCALAI_ASSIGN_OR_RETURN(std::string text,
                            read_file(here + (choice_.planned ? "policy.textproto" : "chaos.textproto")));
    if (choice_.program) {
      text +=
          fmt::format("policy {{ exec: \"python3 {}/scenarios/policies/shortest_first.py\" }}\n", SCALAI_SOURCE_DIR);
    } else if (choice_.planned) {
      text += "policy { name: \"afs-l\" }\n";
    }
    const std::string anchor = "  checkpoint {";
    std::string more;
    if (choice_.redundant) more += "  redundancy { copies: 1 where: OTHER_HOST every_steps: 100 }\n";
    if (choice_.reads) more += "  dataset { samples: 1000000 }\n";
    size_t at = text.find(anchor);
    SCALAI_CHECK(at != std::string::npos);
    for (; at != std::string::npos; at = text.find(anchor, at + more.size() + anchor.size())) text.insert(at, more);
    if (choice_.capped) text += "planner { memory_cap: \"200MB\" }\n";
    return write_file(folder_ + ".textproto", text);
  }

  std::vector<std::string> words() const {
    std::vector<std::string> words = {folder_ + ".textproto", "--out=" + folder_};
    if (!choice_.trains) {
      words.emplace_back("--scale-model=1/16");
    } else {
      words.insert(words.end(),
                   {"--standby", fmt::format("--train={} train --log={}.csv", training_words(setting_), folder_)});
    }
    if (choice_.way == Way::kNccl) words.insert(words.end(), {"--transport=nccl", "--nccl=" + setting_.nccl});
    if (networked())
      words.insert(words.end(),
                   {"--no-workers", "--transport=ucx", "--listen=" + network_.controller_address() + ":0"});
    if (choice_.way == Way::kUcx) words.emplace_back("--transport=ucx");
    if (choice_.tls) words.insert(words.end(), {"--certificate=" + setting_.certificate, "--key=" + setting_.key});
    if (choice_.stateful) words.push_back("--state=" + setting_.state);
    return words;
  }

  absl::StatusOr<Process> start(std::vector<std::string> arguments, const std::string& from = "/") const {
    const std::string binary = setting_.bin + "/scalai-exec";
    arguments.insert(arguments.begin(), {"env", "-C", from, binary});
    std::vector<std::pair<std::string, std::string>> environment = {{"SCALAI_CHAOS", folder_}};
    if (choice_.fault == Fault::kClock) {
      environment.emplace_back("LD_PRELOAD", setting_.clock);
      environment.emplace_back("SCALAI_CLOCK", folder_ + ".clock");
    }
    if (choice_.trains) {
      for (auto& variable : training_environment(setting_)) environment.push_back(std::move(variable));
    }
    return Process::start({.binary = "/usr/bin/env",
                           .arguments = std::move(arguments),
                           .environment = std::move(environment),
                           .log_file = folder_ + ".log"});
  }

  absl::StatusOr<Process> resume() const {
    const fs::path path(folder_);
    if (choice_.elsewhere) return start({fmt::format("--resume=./{}/", path.filename().string())}, path.parent_path());
    return start({"--resume=/." + folder_ + "/"});
  }

  bool networked() const { return choice_.way == Way::kNetwork; }
  void start_workers() {
    std::string address;
    for (int tries = 0; tries < 300 && address.empty(); ++tries) {
      sleep_for(0.1);
      address = read_file(folder_ + "/address").value_or("");
    }
    network_.start_workers(setting_.bin + "/scalai-exec", address, folder_ + "/token",
                           {{"SCALAI_CHAOS", folder_}, {"UCX_NET_DEVICES", "eth0"}, {"UCX_TLS", "tcp,self"}},
                           folder_ + ".log");
  }

  bool has_begun() const {
    std::error_code error;  // the write-ahead log has the events
    return fs::file_size(folder_ + "/journal.db-wal", error) > 40'000 && !error;
  }

  // ---- the fault
  std::vector<pid_t> processes(Whose whose = Whose::kAll) const { return processes_of(folder_, whose); }
  pid_t victim_of(const std::vector<pid_t>& pids) const {
    return pids[static_cast<size_t>(choice_.victim % pids.size())];
  }
  pid_t worker_or(pid_t controller) const {
    std::vector<pid_t> pids = processes(Whose::kWorkers);
    pids.push_back(controller);
    return victim_of(pids);
  }

  void do_fault(Process& controller) {
    const double pause_s = choice_.pause_s;
    switch (choice_.fault) {
      case Fault::kWorker:
      case Fault::kBoth:
        if (const std::vector<pid_t> pids = processes(Whose::kWorkersAndTrainers); !pids.empty())
          ::kill(victim_of(pids), SIGKILL);
        if (choice_.fault == Fault::kBoth) (void)controller.kill();
        return;
      case Fault::kController: (void)controller.kill(); return;
      case Fault::kStop:
      case Fault::kLongStop: return stop(worker_or(controller.pid()), pause_s);
      case Fault::kSlow: return slow_down(worker_or(controller.pid()), pause_s);
      case Fault::kInterrupts: return interrupt(processes(), pause_s);
      case Fault::kFullDisk: return fill_disk(folder_, choice_.victim % 2 == 0, pause_s);
      case Fault::kDescriptors: return limit_descriptors(worker_or(controller.pid()), choice_.victim % 4, pause_s);
      case Fault::kAddresses: return limit_addresses(worker_or(controller.pid()), choice_.victim % (16 << 20), pause_s);
      case Fault::kMemory: return limit_memory(worker_or(controller.pid()), fs::path(folder_).filename(), pause_s);
      case Fault::kClock:
        jump(choice_.jump_s);
        sleep_for(pause_s);
        return jump(choice_.jump_s / 2);
      case Fault::kStrangers: return visit_ports(folder_, choice_.victim, pause_s);
      case Fault::kReaders: return kill_readers();
      case Fault::kCut:
      case Fault::kPart:
        (void)(choice_.fault == Fault::kCut ? network_.cut(static_cast<int>(choice_.victim % kHosts))
                                            : network_.part());
        sleep_for(pause_s);
        (void)network_.heal();
        return;
      case Fault::kLoss: (void)network_.lose(kLossPercent); return;
    }
  }

  // Of the job's weights or of its state, one after the other: each is killed at some moment, whole or in part.
  void kill_readers() const {
    Random random(choice_.victim);
    const bool mounts = random.below(2) == 0;
    const std::string mark = folder_ + ".readers", at = folder_ + ".mount";
    std::error_code ignored;
    fs::create_directory(at, ignored);
    const std::string job = choice_.planned ? "long" : choice_.trains ? "gpt" : "job";
    const std::vector<std::string> words =
        mounts ? std::vector<std::string>{"scalai-fs", "mount", at, "--run=" + folder_, "--refresh=0s"}
               : std::vector<std::string>{"scalai-exec", "sync",         folder_,     "--out=" + folder_ + ".sync",
                                          "--to=tp2",    "--job=" + job, "--every=1", "--orphan-timeout=1s"};
    const auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(choice_.pause_s);
    while (std::chrono::steady_clock::now() < until) {
      auto reader = Process::start({.binary = setting_.bin + "/" + words[0],
                                    .arguments = words,
                                    .environment = {{"SCALAI_CHAOS", mark}},
                                    .log_file = folder_ + ".log"});
      if (!reader.ok()) return;
      auto copier =
          Process::start({.binary = "/bin/sh",
                          .arguments = {"sh", "-c", mounts ? "sleep 0.2; cp -r \"$0\" \"$1\"; rm -r \"$1\"" : ":",
                                        at + "/jobs", at + ".copy"},
                          .environment = {{"SCALAI_CHAOS", mark}},
                          .log_file = ""});
      sleep_for(0.001 * static_cast<double>(random.below(1500)));
      const std::vector<pid_t> pids = processes_of(mark, Whose::kAll);
      if (!pids.empty()) ::kill(pids[static_cast<size_t>(random.below(std::ssize(pids)))], SIGKILL);
      sleep_for(0.001 * static_cast<double>(random.below(500)));
      for (const pid_t pid : processes_of(mark, Whose::kAll)) ::kill(pid, SIGKILL);
      (void)reader->wait(kDeadline_s);
      if (copier.ok()) (void)copier->wait(kDeadline_s);
      if (mounts) ::umount2(at.c_str(), MNT_DETACH);
    }
    for (const char* more : {".sync", ".mount", ".mount.copy"}) fs::remove_all(folder_ + more, ignored);
  }

  void jump(int64_t seconds) const {
    const int64_t offset_ns = seconds * 1'000'000'000;
    const int fd = ::open((folder_ + ".clock").c_str(), O_WRONLY | O_CLOEXEC);
    (void)!::pwrite(fd, &offset_ns, sizeof offset_ns, 0);
    ::close(fd);
  }

  // ---- afterwards
  std::string check() {
    auto replay = Process::start({.binary = setting_.bin + "/scalai",
                                  .arguments = {"scalai", "replay", folder_},
                                  .environment = {},
                                  .log_file = folder_ + ".log"});
    const auto end = replay.ok() ? replay->wait(kDeadline_s) : std::nullopt;
    if (!end || !end->ok()) return "the plans do not follow from the events";
    network_.stop_workers();
    for (int tries = 0; tries < 100 && !processes().empty(); ++tries) sleep_for(0.1);
    outcome_.left_over = !processes().empty();
    if (outcome_.left_over) return "left behind: " + list_of(processes());
    std::string wrong = judge(folder_, choice_.stateful ? setting_.state : "", !choice_.trains);
    outcome_.left_over = wrong.starts_with("left behind");
    if (wrong.empty() && choice_.trains) wrong = judge_losses(setting_.training + "/static.csv", folder_ + ".csv");
    return wrong;
  }

  static std::string list_of(const std::vector<pid_t>& pids) {
    std::string text;
    for (const pid_t pid : pids) {
      std::string command = read_file(fmt::format("/proc/{}/cmdline", pid)).value_or("");
      std::ranges::replace(command, '\0', ' ');
      text += fmt::format("\n  process {}: {}", pid, command);
    }
    return text;
  }

  std::string hangs(std::string what) {
    outcome_.hangs = true;
    return what;
  }

  const Choice& choice_;
  const Setting& setting_;
  const std::string folder_;
  Network network_;
  bool mounted_ = false;
  Outcome outcome_;
};

}  // namespace

Outcome play(const Choice& choice, const Setting& setting, const std::string& folder, int number) {
  return Run(choice, setting, folder, number).play();
}

}  // namespace scalai::chaos
