// exec_chaos: kills processes of a run of `scalai exec` at random moments; nothing may be lost, mixed, hang or stay.

#include <fmt/format.h>
#include <signal.h>

#include <charconv>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <string_view>
#include <thread>

#include <nlohmann/json.hpp>

#include "executor/rpc/process.h"
#include "ptc/base/file.h"
#include "ptc/base/random.h"
#include "ptc/base/status.h"

namespace scalai::chaos {
namespace {

namespace fs = std::filesystem;
using executor::Process;

constexpr std::string_view kUsage =
    "usage: exec_chaos --bin=DIR [--runs=N] [--seed=S] [--victims=K] [--within-ms=T] [--nccl=FILE]\n"
    "N runs (20) from seed S (1), with the executables in DIR; K = 1 kills workers only, 2 also controllers, 3 "
    "(default) "
    "also both; each after at most T ms (3000, about as long as an undisturbed run takes). With a library that stands "
    "in "
    "for NCCL state travels over that.\n";
constexpr double kDeadline_s = 120;  // of a whole run, on a busy machine

struct Totals {
  int runs = 0, resumed = 0, controllers = 0, workers = 0, both = 0, not_begun = 0, over = 0;
};

enum class Victim { kWorker, kController, kBoth };
uint64_t victims = 3;       // the first so many of these
uint64_t within_ms = 3000;  // of the start: the kill
std::string nccl;           // library to give to the runs; empty: state is shared

// Processes of the run: their command line names the controller's address.
std::vector<pid_t> workers_of(const std::string& address) {
  std::vector<pid_t> pids;
  if (address.empty()) return pids;  // the run is over; every worker of the machine would match
  for (const auto& entry : fs::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    pid_t pid = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), pid);
    if (error != std::errc() || end != name.data() + name.size()) continue;
    const std::string words = read_file(entry.path() / "cmdline").value_or("");
    if (words.find("--controller=" + address) != std::string::npos) pids.push_back(pid);
  }
  return pids;
}

class Run {
 public:
  Run(std::string bin, uint64_t seed)
      : bin_(std::move(bin)),
        random_(seed),
        folder_(fs::temp_directory_path() / fmt::format("scalai-chaos-{}-{}", ::getpid(), seed)) {}
  ~Run() {
    for (const pid_t pid : workers_of(address_)) ::kill(pid, SIGKILL);
    std::error_code ignored;
    if (keep_.empty()) fs::remove_all(folder_, ignored);
  }

  // What went wrong; "" = nothing.
  std::string play(Totals& totals) {
    fs::create_directories(folder_);
    std::vector<std::string> words = {SCALAI_SOURCE_DIR "/tests/chaos/chaos.textproto", "--scale-model=1/16",
                                      "--out=" + folder_.string()};
    if (!nccl.empty()) words.insert(words.end(), {"--transport=nccl", "--nccl=" + nccl});
    auto controller = start(words);
    if (!controller.ok()) return fail(message_of(controller.status()));
    const auto victim = static_cast<Victim>(random_.below(static_cast<int64_t>(victims)));
    const double delay_s = 0.001 * static_cast<double>(random_.below(static_cast<int64_t>(within_ms)));
    what_ = fmt::format("{} after {:.3f} s",
                        victim == Victim::kWorker       ? "a worker"
                        : victim == Victim::kController ? "the controller"
                                                        : "both",
                        delay_s);
    std::this_thread::sleep_for(std::chrono::duration<double>(delay_s));
    address_ = read_file((folder_ / "address").string()).value_or("");
    const bool over = controller->poll().has_value();
    totals.over += over ? 1 : 0;
    if (victim != Victim::kController) kill_a_worker();
    if (victim != Victim::kWorker) (void)controller->kill();
    ++(victim == Victim::kWorker ? totals.workers : victim == Victim::kController ? totals.controllers : totals.both);
    std::optional<executor::ProcessEnd> end = controller->wait(kDeadline_s);
    if (!end) return fail("the run hangs");
    if (victim != Victim::kWorker && !over) {
      // Before the first event there is nothing to go on with.
      if (address_.empty() || !has_begun()) {
        ++totals.not_begun;
        return "";
      }
      ++totals.resumed;
      std::this_thread::sleep_for(std::chrono::duration<double>(0.001 * static_cast<double>(random_.below(500))));
      auto second = start({"--resume=" + folder_.string()});
      if (!second.ok()) return fail(message_of(second.status()));
      end = second->wait(kDeadline_s);
      if (!end) return fail("the resumed run hangs");
    }
    if (!end->ok()) return fail("the run ended with " + end->str());
    return check();
  }

 private:
  absl::StatusOr<Process> start(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "scalai-exec");
    return Process::start({.binary = bin_ + "/scalai-exec",
                           .arguments = std::move(arguments),
                           .environment = {},
                           .log_file = (folder_ / "log").string()});
  }

  void kill_a_worker() {
    const std::vector<pid_t> pids = address_.empty() ? std::vector<pid_t>() : workers_of(address_);
    if (!pids.empty()) ::kill(pids[static_cast<size_t>(random_.below(std::ssize(pids)))], SIGKILL);
  }

  bool has_begun() const {
    std::error_code error;  // the write-ahead log has the events
    return fs::file_size(folder_ / "journal.db-wal", error) > 40'000 && !error;
  }

  std::string check() {
    const auto text = read_file((folder_ / "summary.json").string());
    if (!text.ok()) return fail(message_of(text.status()));
    const std::string state = nlohmann::json::parse(*text)["jobs"][0]["state"];
    if (state == "failed") return fail("state was lost");
    auto replay = Process::start({.binary = bin_ + "/scalai",
                                  .arguments = {"scalai", "replay", folder_.string()},
                                  .environment = {},
                                  .log_file = (folder_ / "log").string()});
    const auto end = replay.ok() ? replay->wait(kDeadline_s) : std::nullopt;
    if (!end || !end->ok()) return fail("the plans do not follow from the events");
    for (int tries = 0; tries < 100 && !workers_of(address_).empty(); ++tries)
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    if (!workers_of(address_).empty()) return fail("workers are left behind");
    return "";
  }

  std::string fail(const std::string& why) {
    keep_ = folder_;
    const std::string log = read_file((folder_ / "log").string()).value_or("");
    return fmt::format("killed {}: {}; see {}\n{}", what_, why, folder_.string(),
                       log.substr(log.size() > 2000 ? log.size() - 2000 : 0));
  }

  const std::string bin_;
  Random random_;
  const fs::path folder_;
  std::string address_, what_;
  fs::path keep_;  // not empty: something went wrong, and the folder stays
};

int run(int argc, char** argv) {
  uint64_t runs = 20, seed = 1;
  std::string bin;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    const auto number = [&](std::string_view option, uint64_t& value) {
      if (argument.substr(0, option.size()) != option) return false;
      const auto [end, error] =
          std::from_chars(argument.data() + option.size(), argument.data() + argument.size(), value);
      return error == std::errc() && end == argument.data() + argument.size();
    };
    if (argument.starts_with("--bin=")) {
      bin = argument.substr(6);
    } else if (argument.starts_with("--nccl=")) {
      nccl = argument.substr(7);
    } else if (!number("--runs=", runs) && !number("--seed=", seed) && !number("--victims=", victims) &&
               !number("--within-ms=", within_ms)) {
      fmt::print(stderr, "{}", kUsage);
      return 2;
    }
  }
  if (bin.empty() || victims < 1 || victims > 3 || within_ms == 0) {
    fmt::print(stderr, "{}", kUsage);
    return 2;
  }
  Totals totals;
  int failures = 0;
  for (uint64_t i = 0; i < runs && failures == 0; ++i) {
    const uint64_t one = Random(seed ^ Random(i).next()).next() >> 16;
    const std::string wrong = Run(bin, one).play(totals);
    ++totals.runs;
    if (wrong.empty()) continue;
    ++failures;
    fmt::print("run {} of seed {}: {}\n", i, seed, wrong);
  }
  fmt::print(
      "{} runs: killed a worker in {}, the controller in {}, both in {}; {} resumed, {} not begun, {} over before; "
      "seed {}: {}\n",
      totals.runs, totals.workers, totals.controllers, totals.both, totals.resumed, totals.not_begun, totals.over, seed,
      failures == 0 ? "nothing lost" : "FAILED");
  return failures == 0 ? 0 : 1;
}

}  // namespace
}  // namespace scalai::chaos

int main(int argc, char** argv) { return scalai::chaos::run(argc, argv); }
