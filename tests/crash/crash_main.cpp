// crash_states: loss of power at any moment of our work on files. Records it, and opens with our readers what a crash
// may leave.

#include <fmt/format.h>
#include <unistd.h>

#include <charconv>
#include <chrono>
#include <filesystem>
#include <map>

#include "ptc/base/status.h"
#include "ptc/base/testing/share.h"
#include "tests/crash/explorer.h"

namespace scalai::crash {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kUsage =
    "usage: crash_states [--states=N] [--seed=S] [--subjects=LIST] [--resumes=K] [--share=M] [--folder=DIR] "
    "[--bin=DIR]\n"
    "Checks N crash states (100000) from seed S (1) of journal,checkpoint,reshard,run, or of the subjects in LIST. "
    "About K states of a run (0) are also resumed by scalai-exec, ten seconds each. With --share only one state in M "
    "is checked, of half of the recordings, unless SCALAI_SOAK is set. States lie in --folder (/dev/shm, else /tmp), "
    "executables in --bin (where "
    "this one is). A failing state stays, beside a description.\n"
    "Exit codes: 0 old or new in every state; 1 neither in one; 2 the command line is wrong; 5 a recording failed\n";

struct Options {
  int64_t states = 100'000;
  uint64_t seed = 1;
  std::string subjects = "journal,checkpoint,reshard,run";
  std::string folder = fs::exists("/dev/shm") ? "/dev/shm" : "/tmp";
  std::string bin = fs::read_symlink("/proc/self/exe").parent_path();
  // Of a process under the recorder.
  std::string play, root, work;
  int64_t variant = 0;
  int64_t resumes = 0;
  int64_t share = 1;
  bool all() const { return share == 1 || soaking(); }
};

struct Plan {
  std::string name;
  int share;     // of all states, in percent
  int variants;  // recordings
  std::unique_ptr<Subject> (*make)(const SubjectOptions&);
};
const std::vector<Plan>& plans() {
  static const std::vector<Plan> all = {{"journal", 40, 6, journal_subject},
                                        {"checkpoint", 25, 6, checkpoint_subject},
                                        {"reshard", 20, 8, reshard_subject},
                                        {"run", 15, 2, run_subject}};
  return all;
}

bool parse(int argc, char** argv, Options& options) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    const auto text = [&](std::string_view option, std::string& value) {
      if (!argument.starts_with(option)) return false;
      value = argument.substr(option.size());
      return true;
    };
    const auto number = [&](std::string_view option, auto& value) {
      if (!argument.starts_with(option)) return false;
      const char* last = argument.data() + argument.size();
      const auto [end, error] = std::from_chars(argument.data() + option.size(), last, value);
      return error == std::errc() && end == last;
    };
    if (!number("--states=", options.states) && !number("--seed=", options.seed) &&
        !number("--variant=", options.variant) && !number("--resumes=", options.resumes) &&
        !number("--share=", options.share) && !text("--subjects=", options.subjects) &&
        !text("--folder=", options.folder) && !text("--bin=", options.bin) && !text("--play=", options.play) &&
        !text("--root=", options.root) && !text("--work=", options.work))
      return false;
  }
  if (options.share < 1) return false;
  if (!options.all()) options.states /= options.share;
  return options.states > 0;
}

class Session {
 public:
  explicit Session(Options options)
      : options_(std::move(options)), folder_(fmt::format("{}/scalai-crash-{}", options_.folder, ::getpid())) {}

  int run() {
    int64_t percent = 0;
    for (const Plan& plan : plans()) percent += is_chosen(plan) ? plan.share : 0;
    if (percent == 0) return 2;
    fmt::print("{:<11} {:>10} {:>10} {:>8} {:>8} {:>8} {:>8} {:>7}\n", "subject", "recordings", "operations", "states",
               "checks", "old", "new", "failed");
    int code = 0;
    Tally all;
    for (const Plan& plan : plans()) {
      if (!is_chosen(plan) || code != 0) continue;
      Tally tally;
      code = explore(plan, options_.states * plan.share / percent, tally);
      print_row(plan.name, variants_of(plan), tally);
      all += tally;
    }
    print_row("all", 0, all);
    fmt::print("seed {}: {}\n{}", options_.seed, code == 0 ? "old or new in every state" : "FAILED", problem_);
    if (code == 0) fs::remove_all(folder_);
    return code;
  }

 private:
  bool is_chosen(const Plan& plan) const {
    return ("," + options_.subjects + ",").find("," + plan.name + ",") != std::string::npos;
  }

  int variants_of(const Plan& plan) const { return options_.all() ? plan.variants : std::max(1, plan.variants / 2); }

  static void print_row(const std::string& name, int recordings, const Tally& tally) {
    fmt::print("{:<11} {:>10} {:>10} {:>8} {:>8} {:>8} {:>8} {:>7}\n", name,
               recordings > 0 ? std::to_string(recordings) : "", tally.operations, tally.states, tally.checks,
               tally.found_old, tally.found_new, tally.failed);
    std::fflush(stdout);
  }

  int explore(const Plan& plan, int64_t states, Tally& tally) {
    for (int variant = 0, count = variants_of(plan); variant < count; ++variant) {
      const absl::StatusOr<bool> good = explore(plan, variant, states / (count - variant), tally);
      if (!good.ok()) {
        problem_ = fmt::format("{} {}: {}\n", plan.name, variant, message_of(good.status()));
        return 5;
      }
      if (!*good) return 1;
      states = std::max<int64_t>(1, states - last_states_);
    }
    return 0;
  }

  absl::StatusOr<bool> explore(const Plan& plan, int variant, int64_t states, Tally& tally) {
    const std::string work = fmt::format("{}/{}-{}", folder_, plan.name, variant);
    fs::create_directories(work);
    const std::unique_ptr<Subject> subject = plan.make(
        {.seed = options_.seed,
         .variant = variant,
         .folder = work,
         .bin = options_.bin,
         .resume_share = static_cast<double>(options_.resumes) / static_cast<double>(variants_of(plan) * states)});
    states = std::min(states, subject->enough());
    SCALAI_RETURN_IF_ERROR(subject->prepare());
    const Recorder recorder{SCALAI_RECORDER,
                            "/proc/self/exe",
                            {"--play=" + plan.name, fmt::format("--variant={}", variant),
                             fmt::format("--seed={}", options_.seed), "--work=" + work, "--bin=" + options_.bin}};
    SCALAI_ASSIGN_OR_RETURN(const std::vector<Operation> operations, record(recorder, *subject, work + "/recorded"));
    Explorer explorer(operations, *subject, work);
    Random random(options_.seed * 1'000'003 + static_cast<uint64_t>(variant));
    bool good = true;
    // Again with other combinations, until they are enough or nothing new comes.
    for (int64_t before = -1; good && explorer.tally().states < states && explorer.tally().states > before;) {
      before = explorer.tally().states;
      SCALAI_ASSIGN_OR_RETURN(good, explorer.explore(states - before, random));
    }
    tally += explorer.tally();
    last_states_ = explorer.tally().states;
    if (!good) problem_ = explorer.failure();
    if (good) fs::remove_all(work);
    return good;
  }

  const Options options_;
  const std::string folder_;
  int64_t last_states_ = 0;
  std::string problem_;
};

int run(int argc, char** argv) {
  Options options;
  if (!parse(argc, argv, options)) {
    fmt::print(stderr, "{}", kUsage);
    return 2;
  }
  if (options.play.empty()) return Session(options).run();
  for (const Plan& plan : plans()) {
    if (plan.name != options.play) continue;
    const auto variant = static_cast<int>(options.variant);
    const absl::Status played =
        plan.make({.seed = options.seed, .variant = variant, .folder = options.work, .bin = options.bin})
            ->play(options.root);
    if (!played.ok()) fmt::print(stderr, "{}\n", message_of(played));
    return exit_code_of(played);
  }
  return 2;
}

}  // namespace
}  // namespace scalai::crash

int main(int argc, char** argv) { return scalai::crash::run(argc, argv); }
