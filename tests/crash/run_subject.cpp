// The folder of `scalai exec`: a whole run, in an empty folder and in that of an earlier run. What the journal says
// must be in the folder, above all the checkpoint to go back to: a loss of power takes all workers.

#include <fcntl.h>
#include <fmt/format.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "apps/common/runs/run_folder.h"
#include "executor/journal/journal.h"
#include "ptc/base/file.h"
#include "ptc/base/hash.h"
#include "ptc/base/json.h"
#include "ptc/base/process.h"
#include "ptc/base/random.h"
#include "ptc/base/status.h"
#include "ptc/run/control/event_text.h"
#include "ptc/store/safetensors/job_checkpoint.h"
#include "tests/crash/disk.h"
#include "tests/crash/explorer.h"
#include "tests/crash/subject.h"

namespace scalai::crash {
namespace {

namespace fs = std::filesystem;
using executor::journal::Journal;

constexpr int64_t kEverySteps = 50;  // of crash.textproto

// A run of the recording.
struct Recorded {
  std::string run_id, scenario, address, token, summary;
  std::vector<std::string> events;
};

// The step of the newest checkpoint that the events call done, −1: none. Of one job whose copies do not overlap.
absl::StatusOr<int64_t> checkpoint_of(const std::vector<std::string>& lines) {
  SCALAI_ASSIGN_OR_RETURN(const std::vector<control::Event> events, control::parse_event_lines(lines));
  int64_t step = -1, done = -1;
  for (const control::Event& event : events) {
    const auto* reached = std::get_if<control::StepReached>(&event.body);
    if (reached != nullptr && reached->step % kEverySteps == 0) step = reached->step;
    if (std::holds_alternative<control::BackgroundDone>(event.body)) done = step;
  }
  return done;
}

class RunSubject : public Subject {
 public:
  explicit RunSubject(const SubjectOptions& options) : options_(options), random_(options.seed) {}
  std::string name() const override { return "run"; }
  bool ignores(const std::string& path) const override { return path.find("/workers/") != std::string::npos; }

  absl::Status play(const std::string& root) override {
    for (int run = 0; run <= options_.variant % 2; ++run)
      SCALAI_RETURN_IF_ERROR(exec({SCALAI_SOURCE_DIR "/tests/crash/crash.textproto", "--scale-model=1/768",
                                   "--out=" + root + "/out", "--format=csv"}));
    return absl::OkStatus();
  }

  // Marks "events N" where so many are flushed, "begins" where a run begins to change the folder, "resumable" where its
  // address is durable, and "over" where the address goes.
  absl::StatusOr<std::vector<Operation>> annotated(std::vector<Operation> operations) override {
    std::vector<Operation> marked;
    const auto add = [&](const std::string& text) { marked.push_back({.kind = Kind::kMark, .data = text}); };
    Disk disk;
    bool named = false, going = false;
    for (Operation& operation : operations) {
      const Kind kind = operation.kind;
      const bool address_goes = kind == Kind::kUnlink && operation.path == "out/address";
      if (address_goes) {
        SCALAI_RETURN_IF_ERROR(read_last(disk.seen()));
        going = false;
        add("over");
      }
      SCALAI_RETURN_IF_ERROR(disk.apply(operation));
      if (kind == Kind::kMakeFile && operation.path.starts_with("out/run.json.")) add("begins");
      named = named || (kind == Kind::kRename && operation.other == "out/address");
      const bool resumable = named && kind == Kind::kSync && operation.path == "out";
      const bool logged = going && kind == Kind::kSync && operation.path == "out/journal.db-wal";
      marked.push_back(std::move(operation));
      if (logged) {
        SCALAI_ASSIGN_OR_RETURN(const Recorded run, read_run(disk.seen()));
        add(fmt::format("events {}", run.events.size()));
      }
      if (!resumable) continue;
      named = false;
      going = true;
      SCALAI_ASSIGN_OR_RETURN(runs_.emplace_back(), read_run(disk.seen()));
      add("resumable");
    }
    return marked;
  }

  absl::StatusOr<Found> check(const std::string& root, std::span<const std::string> marks) override {
    size_t begins = 0, resumable = 0, over = 0, events = 0;
    for (const std::string& text : marks) {
      begins += text == "begins" ? 1 : 0;
      resumable += text == "resumable" ? 1 : 0;
      over += text == "over" ? 1 : 0;
      if (text.starts_with("events ")) events = std::stoul(text.substr(7));
      if (text == "resumable") events = 0;
    }
    const apps::RunFolder folder(root + "/out");
    if (!folder.address().ok()) {
      if (resumable > over) return failed("the run cannot be resumed: it has no address");
      if (begins > 0 && begins == over) SCALAI_RETURN_IF_ERROR(check_report(root, runs_.at(over - 1)));
      SCALAI_RETURN_IF_ERROR(begin_anew(folder));
      return Found::kOld;
    }
    if (begins == 0) return failed("an address before the run begins");
    const bool resumes = resumable > over && events > 20 && random_.uniform() < options_.resume_share;
    if (resumes) SCALAI_RETURN_IF_ERROR(resume(root));
    // The one that is going on, or over; else the one that has just begun.
    const bool goes_on = begins == resumable;
    return check_resumable(folder, goes_on ? runs_.at(resumable - 1) : runs_.at(begins - 1),
                           resumable > 0 ? &runs_.at(resumable - 1) : nullptr, goes_on ? events : 0);
  }

 private:
  absl::Status exec(std::vector<std::string> words) const {
    words.insert(words.begin(), "scalai-exec");
    const int null = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
    SCALAI_ASSIGN_OR_RETURN(const pid_t child, spawn({.program = options_.bin + "/scalai-exec",
                                                      .words = std::move(words),
                                                      .ends = {SpawnOptions::kNull, null, null}}));
    const int code = wait_for(child);
    ::close(null);
    return code == 0 ? absl::OkStatus() : failed(fmt::format("scalai-exec: exit code {}", code));
  }

  // As a kill would leave the run.
  absl::StatusOr<Recorded> read_run(const Tree& tree) const {
    const std::string folder = options_.folder + "/seen";
    fs::remove_all(folder);
    fs::create_directories(folder);
    materialise(tree, folder);
    Recorded run;
    SCALAI_ASSIGN_OR_RETURN(run.address, read_file(folder + "/out/address"));
    SCALAI_ASSIGN_OR_RETURN(run.token, read_file(folder + "/out/token"));
    run.summary = read_file(folder + "/out/summary.json").value_or("");
    SCALAI_ASSIGN_OR_RETURN(const Journal journal, Journal::open(folder + "/out/journal.db"));
    run.run_id = journal.run().run_id;
    run.scenario = journal.run().scenario_text;
    SCALAI_ASSIGN_OR_RETURN(run.events, journal.events());
    return run;
  }
  absl::Status read_last(const Tree& tree) {
    SCALAI_CHECK(!runs_.empty());
    SCALAI_ASSIGN_OR_RETURN(runs_.back(), read_run(tree));
    return absl::OkStatus();
  }

  static absl::Status check_report(const std::string& root, const Recorded& run) {
    const std::string summary = read_file(root + "/out/summary.json").value_or("");
    return summary == run.summary && !summary.empty() ? absl::OkStatus()
                                                      : failed("the run is over, and its report is not there");
  }

  // A new run may begin here, and is resumable then.
  static absl::Status begin_anew(const apps::RunFolder& folder) {
    absl::StatusOr<executor::journal::JournalLock> lock = folder.claim();
    if (!lock.ok()) return failed("no run can begin: " + message_of(lock.status()));
    const executor::journal::RunFacts facts{"scenario", "digest", "reshard", "anew"};
    SCALAI_RETURN_IF_ERROR(folder.begin(*std::move(lock), facts, {}, std::string(32, 't'), "127.0.0.1:1").status());
    SCALAI_RETURN_IF_ERROR(folder.how().status());
    SCALAI_RETURN_IF_ERROR(folder.token().status());
    SCALAI_ASSIGN_OR_RETURN(const Journal journal, Journal::open(folder.path() + "/journal.db"));
    return journal.run() == facts ? absl::OkStatus() : failed("a new run has the facts of another");
  }

  // What `--resume` reads; `events` of them were promised.
  absl::StatusOr<Found> check_resumable(const apps::RunFolder& folder, const Recorded& run, const Recorded* earlier,
                                        size_t events) {
    SCALAI_RETURN_IF_ERROR(folder.how().status());
    SCALAI_ASSIGN_OR_RETURN(const std::string address, folder.address());
    SCALAI_ASSIGN_OR_RETURN(const std::string token, folder.token());
    SCALAI_ASSIGN_OR_RETURN(const Journal journal, Journal::open(folder.path() + "/journal.db"));
    const Recorded& is = earlier != nullptr && journal.run().run_id == earlier->run_id ? *earlier : run;
    if (journal.run().run_id != is.run_id || journal.run().scenario_text != is.scenario)
      return failed("the journal is of another run");
    if (address != is.address || token + "\n" != is.token) return failed("address or token of another run");
    SCALAI_ASSIGN_OR_RETURN(const std::vector<std::string> found, journal.events());
    if (found.size() > is.events.size() || !std::equal(found.begin(), found.end(), is.events.begin()))
      return failed("events that did not happen");
    if (found.size() < events) return failed(fmt::format("{} events; {} were flushed", found.size(), events));
    SCALAI_ASSIGN_OR_RETURN(const int64_t step, checkpoint_of(found));
    const std::string checkpoints = folder.path() + "/checkpoints/job";
    (void)store::clean(checkpoints);
    if (step >= 0) {
      SCALAI_RETURN_IF_ERROR(check_checkpoint(store::step_folder(checkpoints, step), step));
    }
    return found.size() > events ? Found::kNew : Found::kOld;
  }

  // Every byte, once for each content.
  absl::Status check_checkpoint(const std::string& path, int64_t step) {
    std::map<std::string, std::string> files;
    std::error_code none;
    for (const auto& entry : fs::directory_iterator(path, none))
      files[entry.path().filename()] = read_file(entry.path()).value_or("unreadable");
    Hasher hasher;
    for (const auto& [name, bytes] : files) hasher.add(name).add(bytes);
    if (verified_.contains({step, hasher.hex()})) return absl::OkStatus();
    SCALAI_ASSIGN_OR_RETURN(const store::Reader reader, store::Reader::open(path));
    SCALAI_RETURN_IF_ERROR(reader.verify());
    if (reader.stamp() != store::Stamp{"job", step}) return failed(path + ": of another step");
    verified_.emplace(step, hasher.hex());
    return absl::OkStatus();
  }

  // By the program, on a copy. The port is free to choose: no worker is left that knows the old one.
  absl::Status resume(const std::string& root) const {
    const std::string copy = options_.folder + "/resumed";
    fs::remove_all(copy);
    fs::copy(root, copy, fs::copy_options::recursive);
    SCALAI_RETURN_IF_ERROR(write_file(copy + "/out/address", "127.0.0.1:0"));
    SCALAI_RETURN_IF_ERROR(exec({"--resume=" + copy + "/out", "--format=csv"}));
    SCALAI_ASSIGN_OR_RETURN(const std::string text, read_file(copy + "/out/summary.json"));
    SCALAI_ASSIGN_OR_RETURN(const nlohmann::json summary, read_json(text));
    if (summary.at("jobs").at(0).at("state") == "failed") return failed("the resumed run has lost its state");
    fmt::print(stderr, "resumed: {}\n", summary.at("jobs").at(0).at("state").dump());
    return absl::OkStatus();
  }

  const SubjectOptions options_;
  Random random_;
  std::vector<Recorded> runs_;
  std::set<std::pair<int64_t, std::string>> verified_;  // steps and contents
};

}  // namespace

std::unique_ptr<Subject> run_subject(const SubjectOptions& options) { return std::make_unique<RunSubject>(options); }

}  // namespace scalai::crash
