// `scalai checkpoint reshard`: to a new folder, over an old one, and after a killed run.

#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <map>

#include "ptc/base/file.h"
#include "ptc/base/status.h"
#include "ptc/store/views/reshard.h"
#include "ptc/store/views/testing/test_model.h"
#include "tests/crash/subject.h"

namespace scalai::crash {
namespace {

namespace fs = std::filesystem;
using namespace store;

using Files = std::map<std::string, std::string>;

// Empty: no folder.
Files files_of(const std::string& folder) {
  Files files;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(folder, none))
    files[entry.path().filename()] = read_file(entry.path()).value_or("unreadable");
  return files;
}

class ReshardSubject : public Subject {
 public:
  explicit ReshardSubject(const SubjectOptions& options)
      : options_(options),
        replaces_(options.variant % 2 == 1),
        killed_(options.variant / 2 % 2 == 1),
        view_name_(options.variant / 4 % 2 == 0 ? "tp2-pp2" : "hf") {}
  std::string name() const override { return "reshard"; }

  absl::Status prepare() override {
    write_hugging_face(source("new"), llama_config(8, 2), {}, options_.seed);
    write_hugging_face(source("old"), llama_config(8, 2), {}, options_.seed + 1);
    for (const char* which : {"new", "old"}) {
      const std::string reference = fmt::format("{}/reference-{}", options_.folder, which);
      SCALAI_RETURN_IF_ERROR(run(which, reference, false));
      (*which == 'n' ? new_ : old_) = files_of(reference);
    }
    SCALAI_CHECK(new_.size() > 2 && new_ != old_);
    SCALAI_ASSIGN_OR_RETURN(view_, open_view("new"));
    return absl::OkStatus();
  }

  absl::Status play(const std::string& root) override {
    const std::string target = root + "/out";
    const auto part = [&](int64_t killed_at, const char* which) {
      mark("begin");
      SCALAI_RETURN_IF_ERROR(in_process([&] { return run(which, target, replaces_, killed_at); }));
      mark("end");
      return absl::OkStatus();
    };
    if (replaces_) SCALAI_RETURN_IF_ERROR(part(-1, "old"));
    if (killed_) SCALAI_RETURN_IF_ERROR(part(static_cast<int64_t>(20'000 + options_.seed % 50'000), "new"));
    return part(-1, "new");
  }

  absl::StatusOr<Found> check(const std::string& root, std::span<const std::string> marks) override {
    const std::string target = root + "/out";
    const Progress progress = progress_of(marks);
    const int64_t of_old = replaces_ ? 1 : 0;
    const int64_t all = of_old + (killed_ ? 1 : 0) + 1;
    const bool has_old = progress.ended >= of_old && replaces_;
    const Files found = files_of(target);
    // Before the old folder has come to be there, it is the new one.
    const bool first = replaces_ && !has_old;
    const Files& whole = first ? old_ : new_;
    const bool is_new = found == whole;
    if (!is_new && !(has_old ? found == old_ : found.empty()))
      return failed(
          fmt::format("{} files under the final name: neither the folder before nor the one after", found.size()));
    if (!is_new && (progress.ended == all || (first && progress.ended > 0)))
      return failed("the folder is not there any more");
    if (first) return is_new ? Found::kNew : Found::kOld;
    // The same command again ends with the folder. Without --force it may say that it is there.
    const absl::Status again = run(view_, target, replaces_);
    if (!again.ok() && !(is_new && !replaces_ && absl::IsInvalidArgument(again) &&
                         message_of(again).find("--force replaces it") != std::string::npos))
      return failed("the same command again: " + message_of(again));
    if (files_of(target) != new_) return failed("the same command again gives another folder");
    if (again.ok()) {
      for (const auto& entry : fs::directory_iterator(root)) {
        if (entry.path().filename() != "out")
          return failed(fmt::format("{} is left", entry.path().filename().string()));
      }
    }
    return is_new ? Found::kNew : Found::kOld;
  }

 private:
  std::string source(const std::string& which) const { return options_.folder + "/source-" + which; }

  absl::StatusOr<std::shared_ptr<const View>> open_view(const std::string& which) const {
    SCALAI_ASSIGN_OR_RETURN(const auto checkpoint, Checkpoint::open(source(which)));
    return View::make(checkpoint, view_name_);
  }
  absl::Status run(const std::string& which, const std::string& target, bool force, int64_t killed_at = -1) const {
    SCALAI_ASSIGN_OR_RETURN(const std::shared_ptr<const View> view, open_view(which));
    return run(view, target, force, killed_at);
  }
  static absl::Status run(const std::shared_ptr<const View>& view, const std::string& target, bool force,
                          int64_t killed_at = -1) {
    ReshardOptions options;
    options.target = target;
    options.threads = 1;
    options.sync_bytes = 30'000;
    options.force = force;
    if (killed_at >= 0) {
      options.progress = [killed_at](const ReshardProgress& progress) {
        if (progress.bytes_done >= killed_at) ::_exit(0);
      };
    }
    SCALAI_ASSIGN_OR_RETURN(ReshardPlan plan, plan_reshard(*view, options));
    plan.chunk_bytes = 10'000;
    return reshard(*view, plan, options).status();
  }

  const SubjectOptions options_;
  const bool replaces_, killed_;
  const std::string view_name_;
  std::shared_ptr<const View> view_;
  Files old_, new_;
};

}  // namespace

std::unique_ptr<Subject> reshard_subject(const SubjectOptions& options) {
  return std::make_unique<ReshardSubject>(options);
}

}  // namespace scalai::crash
