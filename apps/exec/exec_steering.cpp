#include "apps/exec/exec_steering.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <csignal>
#include <nlohmann/json.hpp>
#include <utility>

#include "ptc/base/json.h"
#include "ptc/base/say.h"
#include "ptc/base/status.h"
#include "ptc/proto/control.pb.h"
#include "ptc/report/report.h"

namespace scalai::apps {

namespace ex = scalai::executor;

void Steering::begin(ex::rpc::ControllerEnd& controller) {
  const std::lock_guard lock(mutex_);
  controller_ = &controller;
  phase_ = Phase::kDuring;
}

void Steering::end() {
  live_.end();
  const std::lock_guard lock(mutex_);
  controller_ = nullptr;
  phase_ = Phase::kAfter;
}

Steering::Phase Steering::phase() const {
  const std::lock_guard lock(mutex_);
  return phase_;
}

void Steering::watch(double at_s, const control::Control& control) {
  std::vector<control::JobStatus> jobs = control.status(at_s);
  for (const control::JobStatus& job : jobs) {
    if (!job.notice) continue;
    const control::NoticeRecord& notice = *job.notice;
    std::string key = fmt::format("{} {} {}", notice.deadline_s, notice.answer, fmt::join(notice.lost, " "));
    if (key != told_[job.name]) say("scalai exec: {}\n", report::notice_text(job.name, notice));
    told_[job.name] = std::move(key);
  }
  const std::lock_guard lock(mutex_);
  at_s_ = at_s;
  jobs_ = std::move(jobs);
  losses_ = control.losses();
  control_ = &control;
}

void Steering::pass_time(double at_s) {
  if (control_ != nullptr) watch(at_s, *control_);
}

void Steering::ask(control::EventBody request) {
  requests_.add(std::move(request));
  wake("a request");
}

void Steering::wake(const char* why) {
  const std::lock_guard lock(mutex_);
  if (controller_ != nullptr) controller_->notify(why);
}

absl::StatusOr<std::string> Steering::answer(const proto::CtlRequest& request) {
  if (phase() != Phase::kDuring) return absl::UnavailableError("the run has not begun, or is over");
  switch (request.what_case()) {
    case proto::CtlRequest::kStatus: return status();
    case proto::CtlRequest::kResize: {
      const int32_t gpus = request.resize().gpus();
      SCALAI_ASSIGN_OR_RETURN(const int job, job_of(request.resize().job()));
      SCALAI_ASSIGN_OR_RETURN(control::EventBody event, resize(job, gpus));
      ask(std::move(event));
      return told_of_resize(job, gpus);
    }
    case proto::CtlRequest::kDrain: {
      const int32_t host = request.drain().host();
      SCALAI_ASSIGN_OR_RETURN(control::EventBody event, drain(host, request.drain().notice_s()));
      ask(std::move(event));
      if (host >= 0) return fmt::format("jobs leave host {} at their next step boundaries", host);
      return "every job writes a checkpoint at its next step boundary, then the run ends";
    }
    case proto::CtlRequest::kSave: {
      SCALAI_ASSIGN_OR_RETURN(const int job, job_of(request.save().job()));
      ask(control::UserSave{job});
      return "a checkpoint at the next step boundary";
    }
    case proto::CtlRequest::kLive: {
      SCALAI_ASSIGN_OR_RETURN(const int job, job_of(request.live().job()));
      return live_.answer(job, request.live(), [this] { wake("a reader"); });
    }
    case proto::CtlRequest::WHAT_NOT_SET: break;
  }
  return invalid("a request that this controller does not know");
}

void Steering::ask_for(int job, int gpus, bool save) {
  if (save) ask(control::UserSave{job});
  if (gpus <= 0) return;
  absl::StatusOr<control::EventBody> event = resize(job, gpus);
  if (event.ok()) return ask(*std::move(event));
  say("scalai exec: warning: the training program asks for {} GPUs: {}\n", gpus, message_of(event.status()));
}

std::string Steering::status() const {
  const std::lock_guard lock(mutex_);
  nlohmann::json jobs = nlohmann::json::array();
  for (const control::JobStatus& job : jobs_) {
    jobs.push_back({{"name", job.name},
                    {"state", job.state},
                    {"step", job.step},
                    {"layout", job.layout},
                    {"gpus", job.gpus},
                    {"reconfigurations", job.reconfigurations}});
  }
  nlohmann::json losses = nlohmann::json::array();
  for (const control::LossRecord& loss : losses_)
    losses.push_back(
        {{"at_s", loss.noticed_s}, {"devices", control::device_list(loss.devices)}, {"cause", loss.cause}});
  return json_text(
      nlohmann::json{
          {"scenario", scenario_.name}, {"strategy", strategy_}, {"at_s", at_s_}, {"jobs", jobs}, {"losses", losses}},
      {.indent = 2});
}

absl::StatusOr<int> Steering::job_of(const std::string& name) const {
  const std::vector<scenario::JobSpec>& jobs = scenario_.jobs;
  const auto named =
      std::find_if(jobs.begin(), jobs.end(), [&](const scenario::JobSpec& job) { return job.name == name; });
  if (name.empty() && jobs.size() > 1) return invalid(fmt::format("which of the {} jobs?", jobs.size()));
  if (!name.empty() && named == jobs.end()) return invalid(fmt::format("there is no job \"{}\"", name));
  return name.empty() ? 0 : static_cast<int>(named - jobs.begin());
}

absl::StatusOr<control::EventBody> Steering::resize(int index, int gpus) const {
  const scenario::JobSpec& job = scenario_.jobs.at(static_cast<size_t>(index));
  if (job.choose && gpus < 1)
    return invalid(fmt::format("job {} needs at least one GPU, not {}: use 1 to {}", job.name, gpus,
                               scenario_.cluster.device_count()));
  std::string sizes;
  bool fits = job.choose.has_value() && gpus > 0;               // what is best on so many is found when it is asked for
  for (const scenario::ParallelChoice& choice : job.configs) {  // with `parallel: choose`, what it began with
    sizes += fmt::format("{}{}", sizes.empty() ? "" : ", ", choice.config.world());
    fits = fits || choice.config.world() <= gpus;
  }
  if (!fits)
    return invalid(fmt::format("job {} has no configuration for {} GPUs: it has for {}", job.name, gpus, sizes));
  if (gpus > scenario_.cluster.device_count())
    return invalid(fmt::format("the cluster has {} GPUs", scenario_.cluster.device_count()));
  return control::UserResize{.job = index, .gpus = gpus};
}

std::string Steering::told_of_resize(int index, int gpus) const {
  const scenario::JobSpec& job = scenario_.jobs.at(static_cast<size_t>(index));
  const auto exact = [&](const scenario::ParallelChoice& choice) { return choice.config.world() == gpus; };
  if (job.choose || std::any_of(job.configs.begin(), job.configs.end(), exact))
    return fmt::format("resize to {} GPUs at the next step boundary", gpus);
  std::string sizes;
  for (const scenario::ParallelChoice& choice : job.configs)
    sizes += fmt::format("{}{}", sizes.empty() ? "" : ", ", choice.config.world());
  const std::lock_guard lock(mutex_);
  const size_t k = static_cast<size_t>(index);
  return fmt::format(
      "job {} has no configuration for just {} GPUs (it has for {}): at the next step boundary it gets one that fits, "
      "if "
      "that is another than what it has ({} GPUs)",
      job.name, gpus, sizes, k < jobs_.size() ? jobs_[k].gpus : 0);
}

absl::StatusOr<control::EventBody> Steering::drain(int32_t host, double seconds) const {
  const auto notice_s = seconds > 0 ? std::optional(seconds / clock_s_) : std::nullopt;
  if (host < 0) return control::UserStop{.notice_s = notice_s};
  const auto hosts = static_cast<int32_t>(scenario_.cluster.hosts.size());
  if (host >= hosts) return invalid(fmt::format("there is no host {}: the cluster has {}", host, hosts));
  return control::UserDrain{.devices = scenario_.cluster.devices_of(HostId(host)), .notice_s = notice_s};
}

SignalWatch::SignalWatch(std::function<void(int)> came) {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  struct sigaction hangup {};
  ::sigaction(SIGHUP, nullptr, &hangup);
  if (hangup.sa_handler != SIG_IGN) sigaddset(&signals, SIGHUP);  // else nohup
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  thread_ = std::thread([this, signals, came = std::move(came)] {
    const timespec moment{.tv_sec = 0, .tv_nsec = 200'000'000};
    for (int times = 0; !over_;) {
      if (sigtimedwait(&signals, nullptr, &moment) > 0) came(++times);
    }
  });
}

SignalWatch::~SignalWatch() {
  over_ = true;
  thread_.join();
}

}  // namespace scalai::apps
