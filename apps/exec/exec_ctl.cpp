#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "apps/common/output.h"
#include "apps/common/runs/run_folder.h"
#include "apps/exec/exec_commands.h"
#include "executor/rpc/ctl.h"
#include "executor/rpc/token.h"
#include "ptc/base/json.h"
#include "ptc/base/status.h"
#include "ptc/base/table.h"
#include "ptc/base/units.h"
#include "ptc/base/utf8.h"
#include "ptc/proto/control.pb.h"

namespace scalai::apps {
namespace {

namespace ex = scalai::executor;

absl::StatusOr<ex::rpc::CtlTarget> target_of(const Arguments& arguments) {
  ex::rpc::CtlTarget target{.address = arguments.text("controller")};
  if (arguments.has("run")) {
    SCALAI_ASSIGN_OR_RETURN(target, RunFolder(arguments.text("run")).target());
  } else {
    SCALAI_ASSIGN_OR_RETURN(target.token, ex::rpc::read_token(arguments.text("token-file")));
  }
  if (arguments.has("ca-file")) target.ca_file = arguments.text("ca-file");
  target.timeout_s = arguments.seconds("timeout");
  return target;
}

absl::StatusOr<std::string> status_table(const std::string& text) try {
  SCALAI_ASSIGN_OR_RETURN(const nlohmann::json json, read_json(text));
  std::string out = fmt::format("scenario {}  strategy {}  at {}\n", json.at("scenario").get<std::string>(),
                                json.at("strategy").get<std::string>(), format_seconds(json.at("at_s")));
  Table table({"job", "state", "step", "layout", "GPUs", "reconfigurations"});
  for (const nlohmann::json& job : json.at("jobs")) {
    table.row({job.at("name"), job.at("state"), std::to_string(job.at("step").get<int64_t>()), job.at("layout"),
               std::to_string(job.at("gpus").get<int>()), std::to_string(job.at("reconfigurations").get<int>())});
  }
  out += table.text(stdout_screen());
  for (const nlohmann::json& loss : json.value("losses", nlohmann::json::array())) {
    const std::string cause = loss.at("cause");
    out += printable_text(fmt::format("at {}: lost {}{}{}", format_seconds(loss.at("at_s")),
                                      loss.at("devices").get<std::string>(), cause.empty() ? "" : ": ", cause)) +
           "\n";
  }
  return out;
} catch (const nlohmann::json::exception& error) {  // a controller of another release
  return failed(fmt::format("the controller's answer is no status: {}", error.what()));
}

int ctl_command(const Arguments& arguments) {
  const std::string what = arguments.positional().front();
  proto::CtlRequest request;
  if (what == "status") {
    request.mutable_status();
  } else if (what == "resize") {
    if (!arguments.has("gpus")) return usage_error("exec ctl", "resize needs --gpus=N");
    request.mutable_resize()->set_job(arguments.text("job"));
    request.mutable_resize()->set_gpus(static_cast<int32_t>(arguments.count("gpus")));
  } else if (what == "drain") {
    request.mutable_drain()->set_host(arguments.has("host") ? static_cast<int32_t>(arguments.count("host")) : -1);
    if (arguments.has("notice")) request.mutable_drain()->set_notice_s(arguments.seconds("notice"));
  } else if (what == "save") {
    request.mutable_save()->set_job(arguments.text("job"));
  } else {
    return usage_error("exec ctl", fmt::format("\"{}\" is not status, resize, save or drain", what));
  }
  if (arguments.has("run") == arguments.has("controller"))
    return usage_error("exec ctl", "either --run=DIR or --controller=HOST:PORT is needed");
  const auto target = target_of(arguments);
  if (!target.ok()) return report_error(target.status());
  const auto answer = ex::rpc::ask_controller(*target, request);
  if (!answer.ok()) return report_error(answer.status());
  const bool table = what == "status" && arguments.text("format") == "table";
  const auto shown = table ? status_table(*answer) : answer;
  if (!shown.ok()) return report_error(shown.status());
  print("{}\n", *shown);
  return 0;
}

}  // namespace

Command exec_ctl_command() {
  return {
      {.name = "scalai-exec ctl",
       .summary = "ask or steer a run that goes on",
       .usage = "scalai exec ctl status|resize|save|drain --run=DIR",
       .description = "Talks to the controller of a run of `scalai exec`.",
       .options = {text_option("run", "DIR", "The run's --out folder."),
                   text_option("controller", "HOST:PORT", "Or where its controller listens."),
                   text_option("token-file", "FILE",
                               "File with the shared secret; without it SCALAI_TOKEN has it (not with --run)."),
                   text_option("ca-file", "FILE", "Certificates that may have signed the controller's (PEM): TLS."),
                   text_option("job", "NAME", "Which job; needed when there are several."),
                   count_option("gpus", "N", "GPUs that it gets."), count_option("host", "N", "Host to leave, from 0."),
                   seconds_option("notice", "TIME", "The host, or all of the run, is gone so long after a drain."),
                   seconds_option("timeout", "TIME", "How long to wait for the controller.", "10s"),
                   choice_option("format", "FORMAT", "How the status is printed.", {"table", "json"}, "table")},
       .examples = {"scalai exec ctl status --run=out/exec", "scalai exec ctl resize --run=out/exec --gpus=8",
                    "scalai exec ctl drain --run=out/exec --host=2 --notice=30s"},
       .min_arguments = 1,
       .max_arguments = 1,
       .verbs = {{"status", "Where the run and its jobs stand."},
                 {"resize", "A job gets another number of GPUs, at its next step boundary: --gpus=N [--job=NAME]."},
                 {"save", "A job writes a checkpoint at its next step boundary: [--job=NAME]."},
                 {"drain",
                  "With --host=N jobs leave that host, which is not used again; without, every job writes a checkpoint "
                  "at its next step boundary and the run ends with its report, as on SIGTERM. With --notice=TIME a "
                  "step that would end too late for that is given up, and what cannot be saved is named."}}},
      ctl_command};
}

}  // namespace scalai::apps
