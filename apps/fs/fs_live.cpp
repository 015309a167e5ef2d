#include "apps/fs/fs_live.h"

#include "ptc/base/status.h"

#ifdef SCALAI_WITH_EXECUTOR
#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>
#include <vector>

#include "apps/common/runs/reader_transport.h"
#include "apps/common/runs/run_folder.h"
#include "executor/live/live_run.h"
#include "ptc/base/backoff.h"
#include "ptc/base/json.h"
#include "ptc/proto/control.pb.h"
#include "vfs/live_tree.h"
#endif

namespace scalai::apps {

#ifndef SCALAI_WITH_EXECUTOR

absl::StatusOr<std::unique_ptr<LiveMount>> LiveMount::open(const std::string&, const LiveShown&) {
  return missing("running jobs need the executor, without which this program was built");
}

#else

namespace {

namespace ex = scalai::executor;

constexpr double kBegin_s = 60;  // a run that has just begun knows its jobs by then

absl::StatusOr<std::vector<std::string>> jobs_now(const ex::rpc::CtlTarget& target) try {
  proto::CtlRequest request;
  request.mutable_status();
  SCALAI_ASSIGN_OR_RETURN(const std::string text, ex::rpc::ask_controller(target, request));
  SCALAI_ASSIGN_OR_RETURN(const nlohmann::json status, read_json(text));
  std::vector<std::string> names;
  for (const nlohmann::json& job : status.at("jobs")) names.push_back(job.at("name").get<std::string>());
  return names;
} catch (const nlohmann::json::exception& error) {  // a controller of another release
  return failed(fmt::format("the controller's answer is no status: {}", error.what()));
}

absl::StatusOr<std::vector<std::string>> jobs_of(const ex::rpc::CtlTarget& target) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(kBegin_s);
  for (Backoff backoff(0.1, 2, static_cast<uint64_t>(::getpid()));;) {
    absl::StatusOr<std::vector<std::string>> jobs = jobs_now(target);
    const bool begins = absl::IsUnavailable(jobs.status()) || (jobs.ok() && jobs->empty());
    if (!begins || std::chrono::steady_clock::now() > until) return jobs;
    std::this_thread::sleep_for(std::chrono::duration<double>(backoff.next_s()));
  }
}

class RunMount final : public LiveMount {
 public:
  RunMount(RunFolder folder, std::unique_ptr<ex::transport::PeerTransport> transport, ex::live::LiveOptions options,
           const std::vector<std::string>& jobs, vfs::LiveTimes times)
      : folder_(std::move(folder)), transport_(std::move(transport)), run_([&] {
          options.transport = transport_.get();
          return options;
        }()) {
    std::vector<std::pair<std::string, vfs::NewestStep>> shown;
    for (const std::string& job : jobs) shown.emplace_back(job, [this, job] { return newest(job); });
    tree_ = std::make_unique<vfs::LiveTree>(std::move(shown), times, [this](const std::string& line) {
      if (vfs::Log* const log = log_) log->line(line, vfs::LogRate::kLimited);
    });
  }
  ~RunMount() override { tree_.reset(); }
  std::shared_ptr<vfs::Directory> directory() const override { return tree_->directory(); }
  void log_to(vfs::Log& log) override { log_ = &log; }
  ex::live::LiveBytes read() const override { return run_.bytes(); }

 private:
  absl::StatusOr<vfs::ShownStep> newest(const std::string& job) {
    SCALAI_RETURN_IF_ERROR(folder_.address().status());  // sooner than nobody answers there
    SCALAI_ASSIGN_OR_RETURN(std::shared_ptr<const ex::live::LiveStep> step, run_.newest(job));
    return vfs::ShownStep{.checkpoint = step->checkpoint(), .kept = step, .id = step.get()};
  }

  const RunFolder folder_;
  const std::unique_ptr<ex::transport::PeerTransport> transport_;
  ex::live::LiveRun run_;
  std::atomic<vfs::Log*> log_ = nullptr;
  std::unique_ptr<vfs::LiveTree> tree_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<LiveMount>> LiveMount::open(const std::string& run, const LiveShown& shown) {
  const RunFolder folder(run);
  SCALAI_ASSIGN_OR_RETURN(const ex::rpc::CtlTarget target, folder.target());
  SCALAI_ASSIGN_OR_RETURN(const HowRun how, folder.how());
  SCALAI_ASSIGN_OR_RETURN(const std::vector<std::string> jobs, jobs_of(target));
  const auto served = std::make_shared<ex::live::ServedBlocks>();
  SCALAI_ASSIGN_OR_RETURN(
      std::unique_ptr<ex::transport::PeerTransport> transport,
      reader_transport(how, target, [served](std::string_view request) { return served->answer(request); }));
  ex::live::LiveOptions options{.target = target,
                                .place = folder.path(),
                                .optimizer = shown.optimizer,
                                .fleeting = shown.fleeting,
                                .version = shown.version,
                                .kept_bytes = shown.kept_bytes,
                                .served = served};
  return std::unique_ptr<LiveMount>(
      std::make_unique<RunMount>(folder, std::move(transport), std::move(options), jobs,
                                 vfs::LiveTimes{.idle_s = shown.keep_s, .fresh_s = shown.refresh_s}));
}

#endif

}  // namespace scalai::apps
