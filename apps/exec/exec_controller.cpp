#include "apps/exec/exec_controller.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <utility>

#include "apps/common/output.h"
#include "apps/exec/exec_limits.h"
#include "apps/exec/exec_mounts.h"
#include "apps/exec/exec_session.h"
#include "apps/exec/exec_steering.h"
#include "executor/controller/exec_runtime.h"
#include "executor/rpc/inline_control.h"
#include "executor/rpc/token.h"
#include "ptc/base/file.h"
#include "ptc/base/progress.h"
#include "ptc/base/say.h"
#include "ptc/base/status.h"
#include "ptc/base/units.h"
#include "ptc/run/control/event_text.h"
#include "ptc/run/control/run.h"
#include "sim/simulated_step_time.h"

namespace scalai::apps {

namespace ex = scalai::executor;

namespace {

const std::map<std::string, std::string> kNone;

ex::controller::VerifyMode verify_mode(const std::string& name) {
  if (name == "full") return ex::controller::VerifyMode::kFull;
  return name == "sample" ? ex::controller::VerifyMode::kSample : ex::controller::VerifyMode::kNone;
}

std::map<int, std::string> by_index(const scenario::Scenario& scenario,
                                    const std::map<std::string, std::string>& paths) {
  std::map<int, std::string> result;
  for (size_t i = 0; i < scenario.jobs.size(); ++i) {
    const auto found = paths.find(scenario.jobs[i].name);
    if (found != paths.end()) result[static_cast<int>(i)] = found->second;
  }
  return result;
}

std::map<int, ex::trainers::TrainerProgram> programs_of(const scenario::Scenario& scenario,
                                                        const ExecRequest& options) {
  std::map<int, ex::trainers::TrainerProgram> programs;
  if (options.plan_only) return programs;
  for (const auto& [job, command] : by_index(scenario, options.how.trainers)) {
    const std::string logs = RunFolder(options.run.out).workers() + "/" + scenario.jobs[static_cast<size_t>(job)].name;
    programs[job] = {.command = command, .folder = options.how.train_folder, .logs = logs};
  }
  return programs;
}

absl::StatusOr<control::RunReport> run_scenario(const scenario::Scenario& scenario, const scenario::Strategy& strategy,
                                                const ExecRequest& options, ex::rpc::ControllerEnd& controller,
                                                ex::controller::WorkerPool& pool, Steering& steering,
                                                ex::journal::Journal* journal) {
  FollowedMounts mounts(by_index(scenario, options.plan_only ? kNone : options.how.mounts));
  control::Recorder recorder;
  std::vector<control::Event> past, answered;
  std::unique_ptr<ex::controller::RunLog> log;
  if (journal != nullptr) {
    SCALAI_ASSIGN_OR_RETURN(const std::vector<std::string> lines, journal->events());
    SCALAI_ASSIGN_OR_RETURN(past, control::parse_event_lines(lines));
    const auto answers = std::stable_partition(past.begin(), past.end(), [](const control::Event& event) {
      return !std::holds_alternative<control::PolicyDecided>(event.body);
    });
    answered.assign(answers, past.end());
    past.erase(answers, past.end());
    log = ex::controller::log_to(*journal);
  }
  Progress progress("executing " + strategy.name);
  const auto show = [&](double at_s) {
    progress.update(scenario.until_s ? at_s / *scenario.until_s : 0, fmt::format("at {:.0f} s", at_s));
  };
  const auto pass_time = [&](double at_s) {
    steering.pass_time(at_s);
    show(at_s);
  };
  ex::controller::ExecRuntime runtime(
      scenario, controller, pool, recorder,
      {.folder = options.run.out,
       .verify = verify_mode(options.how.verify),
       .time_scale = options.how.time_scale,
       .stores = strategy.costs.stores,
       .plan_only = options.plan_only,
       .log = log.get(),
       .states = by_index(scenario, options.how.states),
       .programs = programs_of(scenario, options),
       .late_checkpoints = options.how.launched,
       .last_checkpoint = options.how.last_checkpoint,
       .standby = options.how.standby,
       .datasets = by_index(scenario, options.how.datasets),
       .on_layout = [&](int job, int dp, int64_t step) { mounts.follow(job, dp, step); },
       .on_time = pass_time,
       .on_asked = [&](int job, int gpus, bool save) { steering.ask_for(job, gpus, save); },
       .requests = &steering.requests(),
       .live = &steering.live(),
       .resume = options.resume,
       .past = std::move(past)});
  const auto watch = [&](double at_s, const control::Control& control) {
    steering.watch(at_s, control);
    show(at_s);
  };
  steering.begin(controller);
  const sim::SimulatedStepTime simulated;
  auto ran = control::run(
      scenario, strategy, runtime,
      {.check_plans = options.run.check,
       .reads_samples = !options.plan_only,
       .simulated = &simulated,
       .answered = std::move(answered),
       .record_answer = [&](const control::Event& answer) { return log ? log->event(answer) : absl::OkStatus(); },
       .watch = watch});
  steering.end();
  SCALAI_ASSIGN_OR_RETURN(control::RunReport report, std::move(ran));
  report.runtime = "exec";
  report.recorder = std::move(recorder);
  if (!options.plan_only) say("verified {} of state\n", format_bytes(runtime.bytes_verified()));
  return report;
}

absl::StatusOr<control::RunReport> plan_only(const scenario::Scenario& scenario, const scenario::Strategy& strategy,
                                             const ExecRequest& options) {
  ex::rpc::InlineControl nobody({}, 1);
  ex::controller::WorkerPool pool(scenario.cluster, nobody.controller(), {});
  Steering steering(scenario, strategy.name);
  return run_scenario(scenario, strategy, options, nobody.controller(), pool, steering, nullptr);
}

// Real time of a second of the scenario; without --time-scale a second is a second, as there is no better guess.
double clock_of(const ExecRequest& options) { return options.how.time_scale > 0 ? options.how.time_scale : 1; }

// The first one drains the run; the second one leaves at once, as a kill would. Before a new run there is nothing to
// save.
void on_signal(Steering& steering, const RunFolder& folder, const ExecRequest& options, bool resume, int times) {
  const Steering::Phase phase = steering.phase();
  if (phase == Steering::Phase::kAfter) return;  // the report is on its way
  if (phase == Steering::Phase::kDuring && times == 1) {
    say("scalai exec: every job writes a checkpoint at its next step boundary, then the run ends; once more to "
        "leave at once (then: scalai exec --resume={})\n",
        folder.path());
    return steering.stop(options.notice_s);
  }
  if (phase == Steering::Phase::kBefore && !resume) folder.end();
  std::_Exit(128 + SIGTERM);
}

absl::StatusOr<std::unique_ptr<Session>> start_session(const scenario::Scenario& scenario, const ExecRequest& options,
                                                       const RunFolder& folder, Steering& steering,
                                                       const std::string& address, const std::string& token,
                                                       const std::string& run_id, int64_t epoch) {
  const HowRun& how = options.how;
  return Session::start(
      scenario.cluster,
      {.server = {.bind_address = address,
                  .token = token,
                  .certificate_file = how.certificate_file,
                  .key_file = how.key_file,
                  .controller = {.run_id = run_id, .epoch = epoch},
                  .on_ctl = [&](const proto::CtlRequest& request) { return steering.answer(request); }},
       .log_folder = folder.workers(),
       .local = how.local_workers,
       .launcher = options.resume ? "" : how.launcher,  // its workers are there
       .token_file = folder.path() + "/token",
       .state = how.state,
       .orphan_timeout_s = how.orphan_timeout_s});
}

// Once there is state, it is worth more than an end in order: whatever goes wrong, workers keep it for the next
// controller.
absl::StatusOr<control::RunReport> run_in_session(const scenario::Scenario& scenario,
                                                  const scenario::Strategy& strategy, const ExecRequest& options,
                                                  const RunFolder& folder, Steering& steering, Session& session,
                                                  ex::journal::Journal& journal) {
  absl::Status ready = options.resume ? absl::OkStatus() : session.pool().start();
  absl::StatusOr<control::RunReport> report =
      ready.ok() ? run_scenario(scenario, strategy, options, session.controller(), session.pool(), steering, &journal)
                 : ready;
  if (ready.ok() && !report.ok()) {
    return absl::Status(report.status().code(),
                        fmt::format("{}\nworkers keep their state for {} s: mend that and go on with\n"
                                    "  scalai exec --resume={}",
                                    message_of(report.status()), options.how.orphan_timeout_s, folder.path()));
  }
  session.dismiss();
  if (!report.ok()) folder.end();  // else when the report is written
  return report;
}

absl::StatusOr<control::RunReport> execute(const scenario::Scenario& scenario, const scenario::Strategy& strategy,
                                           const ExecRequest& options) {
  if (options.plan_only) return plan_only(scenario, strategy, options);
  const RunFolder folder(options.run.out);
  SCALAI_ASSIGN_OR_RETURN(ex::journal::JournalLock lock, folder.claim());
  if (options.how.local_workers) {
    const StateOptions& state = options.how.state;
    std::vector<int> devices;
    for (const cluster::Host& host : scenario.cluster.hosts) devices.push_back(host.gpus);
    SCALAI_RETURN_IF_ERROR(check_here(state, devices));
    SCALAI_RETURN_IF_ERROR(check_limits(scenario, state.network(), state.on_gpus(), folder.path()));
  }
  SCALAI_ASSIGN_OR_RETURN(const std::string token, ex::rpc::make_token());
  SCALAI_ASSIGN_OR_RETURN(const std::string run_id, ex::rpc::make_token());  // not its folder, which has many names
  Steering steering(scenario, strategy.name, clock_of(options));
  const SignalWatch signals([&](int times) { on_signal(steering, folder, options, false, times); });
  SCALAI_ASSIGN_OR_RETURN(const std::unique_ptr<Session> session,
                          start_session(scenario, options, folder, steering, options.listen, token, run_id, 1));
  const std::string address = session->controller().address();
  SCALAI_ASSIGN_OR_RETURN(
      ex::journal::Journal journal,
      folder.begin(std::move(lock),
                   {.scenario_text = scenario::text_in_folder(scenario.resolved_text, scenario.folder, folder.path()),
                    .scenario_digest = scenario.digest,
                    .strategy = strategy.name,
                    .run_id = run_id},
                   options.how, token, address));
  if (!options.how.local_workers && options.how.launcher.empty()) {
    say("waiting for {} workers; on each host, with SCALAI_TOKEN from {}/token:\n"
        "  scalai exec worker --controller={} {}{}\n",
        scenario.cluster.hosts.size(), folder.path(), address, fmt::join(words_of(options.how.state), " "),
        options.how.certificate_file.empty() ? "" : " --ca-file=FILE");
  }
  return run_in_session(scenario, strategy, options, folder, steering, *session, journal);
}

absl::StatusOr<control::RunReport> go_on(const scenario::Scenario& scenario, const scenario::Strategy& strategy,
                                         const ExecRequest& options, ex::journal::Journal& journal) {
  const RunFolder folder(options.run.out);
  SCALAI_ASSIGN_OR_RETURN(const std::string address, folder.address());
  SCALAI_ASSIGN_OR_RETURN(const std::string token, folder.token());
  Steering steering(scenario, strategy.name, clock_of(options));
  const SignalWatch signals([&](int times) { on_signal(steering, folder, options, true, times); });
  SCALAI_ASSIGN_OR_RETURN(const std::unique_ptr<Session> session,
                          start_session(scenario, options, folder, steering, address, token, journal.run().run_id,
                                        journal.controller_epoch()));
  return run_in_session(scenario, strategy, options, folder, steering, *session, journal);
}

// The folder is that of a run that is over only when the report is in it.
int run_to_its_report(const scenario::Scenario& scenario, const std::string& strategy, const ExecRequest& options,
                      const Run& run) {
  bool over = false;
  const auto noted = [&](const scenario::Strategy& one) {
    absl::StatusOr<control::RunReport> report = run(one);
    over = report.ok() && !options.plan_only;
    return report;
  };
  const auto written = [&] {
    if (std::exchange(over, false)) RunFolder(options.run.out).end();
  };
  const int code = run_one("scalai exec", scenario, strategy, options.run, noted, written);
  if (over) {
    say("the run is over, and all of it is in its journal: mend that, and this writes the report\n"
        "  scalai exec --resume={}\n",
        options.run.out);
  }
  return code;
}

std::string absolute_option(const Arguments& arguments, const std::string& name) {
  return arguments.has(name) ? absolute_path(arguments.text(name)) : "";
}

}  // namespace

int continue_run(const std::string& folder_path, const std::string& format) {
  ExecRequest options{.resume = true};
  options.run.out = absolute_path(folder_path);
  options.run.format = format;
  const RunFolder folder(options.run.out);
  if (const absl::Status own = folder.check_private(); !own.ok()) return report_error(own);
  if (const auto address = folder.address(); !address.ok()) return report_error(address.status());
  auto how = folder.how();
  if (!how.ok()) return report_error(how.status());
  options.how = *std::move(how);
  if (options.how.synced)
    return report_error(invalid(fmt::format("{} is of scalai sync: start that again", options.run.out)));
  auto journal = ex::journal::Journal::open(options.run.out + "/journal.db");
  if (!journal.ok()) return report_error(journal.status());
  const scenario::FileReader read = [](const std::string& name) { return read_file(name); };
  auto scenario = scenario::parse_scenario(journal->run().scenario_text, options.run.out + "/journal.db", read);
  if (!scenario.ok()) return report_error(scenario.status());
  if (scenario->policy) scenario->policy->folder = options.how.policy_folder;
  return run_to_its_report(*scenario, journal->run().strategy, options,
                           [&](const scenario::Strategy& one) { return go_on(*scenario, one, options, *journal); });
}

std::vector<OptionSpec> controller_option_specs() {
  return {
      choice_option("verify", "MODE", "What is compared with what it should be after each reconfiguration.",
                    {"full", "sample", "none"}, "full"),
      list_option("state", "[JOB=]PATH",
                  "Real state of a job: a safetensors file, a folder of them, or a checkpoint (a job's, one of "
                  "`scalai checkpoint reshard`, a Hugging Face folder); tensors by name, the rest is generated."),
      flag_option("standby",
                  "Keep a process of the training program ready on every device of the cluster, so that a job that "
                  "grows need not wait for its imports."),
      flag_option("no-last-checkpoint",
                  "With real training: write no checkpoint of a job's last step when the run ends."),
      seconds_option("orphan-timeout", "TIME", "How long workers started here keep their state without a controller.",
                     "60s"),
      seconds_option("notice", "TIME",
                     "All is over so long after SIGTERM: a step that would end too late for the last checkpoint is "
                     "given up."),
      flag_option("no-workers", "Start no workers; wait until they join."),
      text_option("launcher", "COMMAND",
                  "Start the workers by this command, one on each host: \"srun --ntasks-per-node=1\". It gets the "
                  "worker's command line behind it; --out must be a folder that all hosts see."),
      text_option("listen", "HOST:PORT",
                  "Where workers reach the controller; port 0 is any free one. Default: 127.0.0.1:0, with "
                  "--launcher 0.0.0.0:0."),
      text_option("certificate", "FILE", "The controller's certificate (PEM), for TLS; workers get it with --ca-file."),
      text_option("key", "FILE", "The certificate's private key (PEM).")};
}

absl::StatusOr<ExecRequest> read_request(const Arguments& arguments, RunOptions run) {
  SCALAI_ASSIGN_OR_RETURN(const StateOptions state, read_state_options(arguments));
  const std::string launcher = arguments.text("launcher");
  ExecRequest request{.run = std::move(run),
                      .how = {.local_workers = !arguments.flag("no-workers") && launcher.empty(),
                              .launcher = launcher,
                              .state = state,
                              .verify = arguments.text("verify"),
                              .orphan_timeout_s = arguments.seconds("orphan-timeout"),
                              .certificate_file = absolute_option(arguments, "certificate"),
                              .key_file = absolute_option(arguments, "key"),
                              .train_folder = absolute_path("."),
                              .standby = arguments.flag("standby"),
                              .last_checkpoint = !arguments.flag("no-last-checkpoint")},
                      .listen = arguments.text("listen")};
  if (arguments.has("notice")) request.notice_s = arguments.seconds("notice");
  if (request.listen.empty()) request.listen = launcher.empty() ? "127.0.0.1:0" : "0.0.0.0:0";
  if (request.run.out.empty()) return invalid("--out=DIR is needed: checkpoints and worker logs go there");
  request.run.out = absolute_path(request.run.out);
  if (request.how.certificate_file.empty() != request.how.key_file.empty())
    return invalid("--certificate and --key go together");
  if (arguments.flag("no-workers") && !launcher.empty())
    return invalid("--no-workers and --launcher exclude each other");
  return request;
}

int begin_run(const scenario::Scenario& scenario, const std::string& strategy, const ExecRequest& request) {
  std::error_code ignored;
  const bool was_there = std::filesystem::exists(request.run.out, ignored);
  const absl::Status own = request.plan_only ? absl::OkStatus() : RunFolder(request.run.out).make();
  const absl::Status prepared = own.ok() ? prepare_folder(request.run.out) : own;
  if (!prepared.ok()) return report_error(prepared);
  const int code = run_to_its_report(scenario, strategy, request,
                                     [&](const scenario::Strategy& one) { return execute(scenario, one, request); });
  if (code != 0) RunFolder(request.run.out).leave_nothing(was_there);
  return code;
}

}  // namespace scalai::apps
