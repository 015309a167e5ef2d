// exec_chaos: runs of `scalai exec` of every kind, each with a fault at a random moment; nothing may be lost, mixed,
// hang or stay.

#include <fmt/format.h>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <map>
#include <mutex>
#include <string_view>

#include "executor/rpc/process.h"
#include "ptc/base/file.h"
#include "ptc/base/parallel.h"
#include "ptc/base/random.h"
#include "ptc/base/status.h"
#include "ptc/base/table.h"
#include "ptc/store/safetensors/job_checkpoint.h"
#include "tests/chaos/choice.h"
#include "tests/chaos/faults.h"
#include "tests/chaos/network.h"
#include "tests/chaos/run.h"
#include "tests/chaos/training.h"

namespace scalai::chaos {
namespace {

namespace fs = std::filesystem;
using executor::rpc::Process;

constexpr std::string_view kUsage =
    "usage: exec_chaos --bin=DIR [--runs=N] [--seed=S] [--only=I] [--jobs=K] [--within-ms=T] [--ucx=0|1] "
    "[--nccl=FILE] [--clock=FILE] [--python=FILE] [--fault=NAME] [--csv=FILE]\n"
    "N runs (20) from seed S (1), K (2) at a time, with the executables in DIR; --only=I repeats run I of a seed. A "
    "fault comes at most T ms (3000, about as long as an undisturbed run takes) after the start. State travels through "
    "shared memory, over UCX, and over the library that stands in for NCCL; --clock is the library that moves the "
    "date, --python an interpreter with PyTorch (those of the build; empty: no such runs). A full disk and networks "
    "need root, networks also ip and nft, TLS "
    "openssl; a line says which kinds of runs there are not. --fault: only that, named as in the table. --csv: the "
    "table, and the seed.\n"
    "Exit codes: 0 nothing lost, mixed, hung or left; 1 something was; 2 the command line is wrong; 5 no start\n";
constexpr int kMostFailures = 5;  // their folders stay

struct Options {
  std::string bin, nccl = SCALAI_CHAOS_NCCL, clock = SCALAI_CHAOS_CLOCK, python = SCALAI_CHAOS_PYTHON, csv, fault;
  uint64_t runs = 20, seed = 1, jobs = 2, within_ms = 3000, ucx = SCALAI_CHAOS_UCX, only = UINT64_MAX;
};

bool parse(int argc, char** argv, Options& options) {
  const std::map<std::string_view, std::string*> texts = {{"--bin", &options.bin},     {"--nccl", &options.nccl},
                                                          {"--clock", &options.clock}, {"--python", &options.python},
                                                          {"--csv", &options.csv},     {"--fault", &options.fault}};
  const std::map<std::string_view, uint64_t*> numbers = {{"--runs", &options.runs},           {"--seed", &options.seed},
                                                         {"--only", &options.only},           {"--jobs", &options.jobs},
                                                         {"--within-ms", &options.within_ms}, {"--ucx", &options.ucx}};
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    const size_t equals = std::min(argument.find('='), argument.size());
    const std::string_view name = argument.substr(0, equals),
                           value = argument.substr(std::min(equals + 1, argument.size()));
    if (const auto text = texts.find(name); text != texts.end()) {
      *text->second = value;
    } else if (const auto number = numbers.find(name); number != numbers.end()) {
      const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), *number->second);
      if (error != std::errc() || end != value.data() + value.size()) return false;
    } else {
      return false;
    }
  }
  return !options.bin.empty() && options.within_ms > 0 && options.jobs > 0;
}

bool succeeds(const std::string& binary, std::vector<std::string> arguments, const std::string& log) {
  auto process =
      Process::start({.binary = binary, .arguments = std::move(arguments), .environment = {}, .log_file = log});
  const auto end = process.ok() ? process->wait(120) : std::nullopt;
  return end && end->ok();
}

// Two rows a name: how often, and what came of it.
struct Counts {
  int runs = 0, resumed = 0, not_begun = 0, over = 0, wrong = 0, hung = 0, left_over = 0;
  void add(const Outcome& outcome) {
    ++runs;
    resumed += outcome.resumed ? 1 : 0;
    not_begun += outcome.not_begun ? 1 : 0;
    over += outcome.over ? 1 : 0;
    hung += outcome.hangs ? 1 : 0;
    left_over += outcome.left_over ? 1 : 0;
    wrong += !outcome.wrong.empty() && !outcome.hangs && !outcome.left_over ? 1 : 0;
  }
};

class Campaign {
 public:
  explicit Campaign(Options options)
      : options_(std::move(options)),
        folder_((fs::temp_directory_path() / fmt::format("scalai-chaos-{}", ::getpid())).string()) {
    for (std::string* path : {&options_.bin, &options_.nccl, &options_.clock}) {
      if (!path->empty()) *path = fs::absolute(*path);
    }
  }
  ~Campaign() {
    std::error_code ignored;
    if (failures_ == 0 && prepared_) fs::remove_all(folder_, ignored);
  }

  absl::Status prepare() {
    SCALAI_RETURN_IF_ERROR(make_folders(folder_));
    setting_ = {.bin = options_.bin,
                .nccl = options_.nccl,
                .clock = options_.clock,
                .certificate = folder_ + "/cert.pem",
                .key = folder_ + "/key.pem",
                .state = {},
                .python = options_.python,
                .training = folder_ + "/training"};
    allowed_.within_ms = options_.within_ms;
    if (options_.ucx == 1) allowed_.ways.push_back(Way::kUcx);
    if (!options_.nccl.empty()) allowed_.ways.push_back(Way::kNccl);
    const bool network = Network::enter() && options_.ucx == 1;
    for (int i = 0; i < kFaults; ++i) {
      const auto fault = static_cast<Fault>(i);
      if (!options_.fault.empty() && name_of(fault) != options_.fault) continue;
      const bool possible = fault == Fault::kFullDisk || fault == Fault::kReaders ? mounts_of_its_own()
                            : fault >= Fault::kCut                                ? network
                            : fault == Fault::kClock                              ? !options_.clock.empty()
                            : fault == Fault::kMemory                             ? can_limit_memory()
                                                                                  : true;
      if (possible) {
        allowed_.faults.push_back(fault);
      } else {
        fmt::print("not possible here: {}\n", name_of(fault));
      }
    }
    if (allowed_.faults.empty()) return invalid(fmt::format("there is no fault \"{}\" here", options_.fault));
    allowed_.tls = succeeds("/usr/bin/openssl",
                            {"openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
                             "-nodes", "-days", "30", "-subj", "/CN=chaos", "-addext", "subjectAltName=IP:127.0.0.1",
                             "-keyout", setting_.key, "-out", setting_.certificate},
                            folder_ + "/openssl.log");
    if (!allowed_.tls) fmt::print("not possible here: TLS\n");
    SCALAI_RETURN_IF_ERROR(make_state());
    prepared_ = true;
    const absl::Status training = make_training(setting_);
    allowed_.training = training.ok();
    if (!training.ok()) fmt::print("not possible here: {}\n", message_of(training));
    return absl::OkStatus();
  }

  bool play() {
    std::atomic<uint64_t> next = 0;
    const auto work = [&](size_t) {
      for (uint64_t i = next++; i < options_.runs && failures_ < kMostFailures; i = next++) {
        if (options_.only == UINT64_MAX || options_.only == i) play_one(i);
      }
    };
    const absl::Status played = run_concurrently(static_cast<size_t>(std::min(options_.jobs, options_.runs)), work);
    if (!played.ok()) fmt::print("{}\n", message_of(played));
    const std::string table = table_of();
    fmt::print("{}seed {}: {}\n", table, options_.seed, failures_ == 0 && played.ok() ? "nothing lost" : "FAILED");
    return failures_ == 0 && played.ok() && write_csv();
  }

 private:
  // Mounts of this process and its children end with them.
  static bool mounts_of_its_own() {
    return ::geteuid() == 0 && ::unshare(CLONE_NEWNS) == 0 &&
           ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0;
  }

  // A checkpoint of an undisturbed run, for others to begin with.
  absl::Status make_state() {
    const std::string out = folder_ + "/state";
    if (!succeeds(
            options_.bin + "/scalai-exec",
            {"scalai-exec", SCALAI_SOURCE_DIR "/tests/chaos/chaos.textproto", "--scale-model=1/16", "--out=" + out},
            folder_ + "/state.log"))
      return missing(fmt::format("an undisturbed run failed; see {}/state.log", folder_));
    const auto found = store::latest(out + "/checkpoints/job");
    if (!found) return missing("an undisturbed run has left no checkpoint");
    setting_.state = found->path;
    allowed_.state = true;
    return absl::OkStatus();
  }

  void play_one(uint64_t i) {
    const Choice choice = choose(Random(options_.seed ^ Random(i).next()).next(), allowed_);
    const Outcome outcome =
        chaos::play(choice, setting_, fmt::format("{}/run-{}", folder_, i), static_cast<int>(i % 251));
    const std::lock_guard lock(mutex_);
    all_.add(outcome);
    faults_[static_cast<size_t>(choice.fault)].add(outcome);
    for (const std::string_view kind : choice.kinds()) kinds_[kind].add(outcome);
    if (outcome.wrong.empty()) return;
    ++failures_;
    fmt::print("run {} of seed {}: {}\n", i, options_.seed, outcome.wrong);
    std::fflush(stdout);
  }

  std::vector<std::pair<std::string, Counts>> rows() const {
    std::vector<std::pair<std::string, Counts>> rows;
    for (int i = 0; i < kFaults; ++i) {
      if (faults_.at(static_cast<size_t>(i)).runs > 0)
        rows.emplace_back(name_of(static_cast<Fault>(i)), faults_.at(static_cast<size_t>(i)));
    }
    for (const auto& [kind, counts] : kinds_) rows.emplace_back(kind, counts);
    rows.emplace_back("all", all_);
    return rows;
  }
  std::string table_of() const {
    std::string text = fmt::format("{:<22}{:>7}{:>9}{:>11}{:>7}{:>16}{:>6}{:>11}\n", "", "runs", "resumed", "not begun",
                                   "over", "lost or mixed", "hung", "left over");
    for (const auto& [name, row] : rows())
      text += fmt::format("{:<22}{:>7}{:>9}{:>11}{:>7}{:>16}{:>6}{:>11}\n", name, row.runs, row.resumed, row.not_begun,
                          row.over, row.wrong, row.hung, row.left_over);
    return text;
  }
  bool write_csv() const {
    if (options_.csv.empty()) return true;
    std::string text = "seed,row,runs,resumed,not_begun,over,lost_or_mixed,hung,left_over\n";
    for (const auto& [name, row] : rows())
      text += fmt::format("{},{},{},{},{},{},{},{},{}\n", options_.seed, name, row.runs, row.resumed, row.not_begun,
                          row.over, row.wrong, row.hung, row.left_over);
    const absl::Status written = write_file(options_.csv, text);
    if (!written.ok()) fmt::print("{}\n", message_of(written));
    return written.ok();
  }

  Options options_;
  const std::string folder_;
  Setting setting_;
  Allowed allowed_;
  std::mutex mutex_;  // guards the members below
  std::atomic<int> failures_ = 0;
  bool prepared_ = false;
  Counts all_;
  std::array<Counts, kFaults> faults_;
  std::map<std::string_view, Counts> kinds_;
};

int run(int argc, char** argv) {
  Options options;
  if (!parse(argc, argv, options)) {
    fmt::print(stderr, "{}", kUsage);
    return 2;
  }
  Campaign campaign(std::move(options));
  if (const absl::Status prepared = campaign.prepare(); !prepared.ok()) {
    fmt::print(stderr, "exec_chaos: error: {}\n", message_of(prepared));
    return 5;
  }
  return campaign.play() ? 0 : 1;
}

}  // namespace
}  // namespace scalai::chaos

int main(int argc, char** argv) { return scalai::chaos::run(argc, argv); }
