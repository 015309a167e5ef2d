// exec_chaos: kills or stops processes of a run of `scalai exec` at random moments, in runs of every kind; nothing may be
// lost, mixed, hang or stay.

#include <fmt/format.h>
#include <signal.h>

#include <array>
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
#include "ptc/base/json.h"
#include "ptc/base/random.h"
#include "ptc/base/status.h"

namespace scalai::chaos {
namespace {

namespace fs = std::filesystem;
using executor::Process;

constexpr std::string_view kUsage =
    "usage: exec_chaos --bin=DIR [--runs=N] [--seed=S] [--victims=K] [--within-ms=T] [--ucx=1] [--nccl=FILE]\n"
    "N runs (20) from seed S (1), with the executables in DIR; K = 1 kills workers only, 2 also controllers, 3 also "
    "both, 4 (default) also stops one for a while; each after at most T ms (3000, about as long as an undisturbed run "
    "takes). A run has a memory cap, redundant copies, a dataset, state over UCX (if that is here), and a second "
    "controller beside it, or not. With a library that stands in for NCCL state travels over that.\n";
constexpr double kDeadline_s = 120;  // of a whole run, on a busy machine

struct Totals {
  int runs = 0, resumed = 0, controllers = 0, workers = 0, both = 0, stopped = 0, not_begun = 0, over = 0;
  int ucx = 0, capped = 0, redundant = 0, reading = 0, doubled = 0;
};

enum class Victim { kWorker, kController, kBoth, kStopped };
uint64_t victims = 4;       // the first so many of these
uint64_t ucx = 0;           // 1: runs over UCX, too
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
    if (!keep_.empty()) return;
    fs::remove_all(folder_, ignored);
    fs::remove(scenario(), ignored);
  }

  // What went wrong; "" = nothing.
  std::string play(Totals& totals) {
    fs::create_directories(folder_);
    const absl::Status written = write_scenario(totals);
    if (!written.ok()) return fail(message_of(written));
    std::vector<std::string> words = {scenario(), "--scale-model=1/16", "--out=" + folder_.string()};
    if (!nccl.empty()) {
      words.insert(words.end(), {"--transport=nccl", "--nccl=" + nccl});
    } else if (ucx == 1 && has("UCX", totals.ucx)) {
      words.emplace_back("--transport=ucx");
    }
    const bool doubled = has("a second controller", totals.doubled);
    auto controller = start(words);
    if (!controller.ok()) return fail(message_of(controller.status()));
    const auto victim = static_cast<Victim>(random_.below(static_cast<int64_t>(victims)));
    const double delay_s = 0.001 * static_cast<double>(random_.below(static_cast<int64_t>(within_ms)));
    constexpr std::array<const char*, 4> kNames = {"a worker killed", "the controller killed", "both killed",
                                                   "one stopped"};
    what_ = fmt::format("{} after {:.3f} s{}", kNames.at(static_cast<size_t>(victim)), delay_s, what_);
    std::this_thread::sleep_for(std::chrono::duration<double>(delay_s));
    address_ = read_file((folder_ / "address").string()).value_or("");
    const bool over = controller->poll().has_value();
    totals.over += over ? 1 : 0;
    if (doubled && !over && !address_.empty()) {
      auto other = start(words);
      const auto refused = other.ok() ? other->wait(kDeadline_s) : std::nullopt;
      // The first one may be over meanwhile.
      if (!refused || (refused->ok() && !controller->poll())) return fail("a second controller was let in");
      if (refused->ok()) return "";
    }
    const bool kills = victim != Victim::kStopped;
    if (!kills) stop_one(controller->pid());
    if (kills && victim != Victim::kController) kill_a_worker();
    if (kills && victim != Victim::kWorker) (void)controller->kill();
    ++*std::array{&totals.workers, &totals.controllers, &totals.both, &totals.stopped}.at(static_cast<size_t>(victim));
    std::optional<executor::ProcessEnd> end = controller->wait(kDeadline_s);
    if (!end) return fail("the run hangs");
    if (kills && victim != Victim::kWorker && !over) {
      // Before the first event there is nothing to go on with.
      if (address_.empty() || !has_begun()) {
        ++totals.not_begun;
        return "";
      }
      ++totals.resumed;
      std::this_thread::sleep_for(std::chrono::duration<double>(0.001 * static_cast<double>(random_.below(500))));
      auto second = start({"--resume=/." + folder_.string() + "/"});
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

  std::string scenario() const { return folder_.string() + ".textproto"; }

  // Every other run is of this kind.
  bool has(const char* kind, int& count) {
    if (random_.below(2) == 0) return false;
    what_ += fmt::format(", {}", kind);
    ++count;
    return true;
  }

  // That of this folder, and more.
  absl::Status write_scenario(Totals& totals) {
    SCALAI_ASSIGN_OR_RETURN(std::string text, read_file(SCALAI_SOURCE_DIR "/tests/chaos/chaos.textproto"));
    const std::string anchor = "  checkpoint {";
    SCALAI_CHECK(text.find(anchor) != std::string::npos);
    if (has("redundancy", totals.redundant))
      text.insert(text.find(anchor), "  redundancy { copies: 1 where: OTHER_HOST every_steps: 100 }\n");
    if (has("a dataset", totals.reading)) text.insert(text.find(anchor), "  dataset { samples: 1000000 }\n");
    if (has("a memory cap", totals.capped)) text += "planner { memory_cap: \"200MB\" }\n";
    return write_file(scenario(), text);
  }

  // Long enough to be given up by a peer, not by the run.
  void stop_one(pid_t controller) {
    std::vector<pid_t> pids = address_.empty() ? std::vector<pid_t>() : workers_of(address_);
    pids.push_back(controller);
    const pid_t pid = pids[static_cast<size_t>(random_.below(std::ssize(pids)))];
    if (::kill(pid, SIGSTOP) != 0) return;
    std::this_thread::sleep_for(std::chrono::duration<double>(0.001 * static_cast<double>(random_.below(4000))));
    ::kill(pid, SIGCONT);
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
    const auto summary = read_json(*text);
    if (!summary.ok()) return fail(message_of(summary.status()));
    const nlohmann::json& job = summary->at("jobs")[0];
    if (job.at("state") == "failed") return fail("state was lost");
    if (job.contains("dataset") && job.at("dataset").at("exactly_once") != true) return fail("samples were lost");
    for (const auto& entry : fs::recursive_directory_iterator(folder_ / "checkpoints")) {
      if (entry.path().filename().string().find(".partial") != std::string::npos)
        return fail("left behind: " + entry.path().string());
    }
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
    return fmt::format("{}: {}; see {}\n{}", what_, why, folder_.string(),
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
               !number("--within-ms=", within_ms) && !number("--ucx=", ucx)) {
      fmt::print(stderr, "{}", kUsage);
      return 2;
    }
  }
  if (bin.empty() || victims < 1 || victims > 4 || within_ms == 0) {
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
      "{} runs: killed a worker in {}, the controller in {}, both in {}, stopped one in {}; {} resumed, {} not begun, "
      "{} "
      "over before\nwith UCX {}, a memory cap {}, redundancy {}, a dataset {}, a second controller {}\nseed {}: {}\n",
      totals.runs, totals.workers, totals.controllers, totals.both, totals.stopped, totals.resumed, totals.not_begun,
      totals.over, totals.ucx, totals.capped, totals.redundant, totals.reading, totals.doubled, seed,
      failures == 0 ? "nothing lost" : "FAILED");
  return failures == 0 ? 0 : 1;
}

}  // namespace
}  // namespace scalai::chaos

int main(int argc, char** argv) { return scalai::chaos::run(argc, argv); }
