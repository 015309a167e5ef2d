#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <utility>

#include "apps/commands.h"
#include "apps/common/model_options.h"
#include "apps/common/output.h"
#include "apps/plan/plan_request.h"
#include "ptc/base/file.h"
#include "ptc/base/status.h"
#include "ptc/plan/estimate.h"
#include "ptc/plan/interpreter.h"
#include "ptc/plan/placement.h"
#include "ptc/plan/plan_io.h"
#include "ptc/report/plan_output.h"
#include "ptc/run/scenario/scenario.h"
#include "ptc/store/naming/family.h"

namespace scalai::apps {
namespace {

constexpr int kDifferent = 1;
constexpr int kBug = 70;

using Names = std::vector<std::string>;

// Options of `scalai plan` that say what to plan; `show` and `diff` read plans that are made.
Names planning_options() {
  return {"model",    "from",    "to",        "from-devices", "devices",  "fail",       "gpus-per-host",
          "cluster",  "storage", "placement", "spread",       "strategy", "memory-cap", "derive-params",
          "no-relay", "check",   "out",       "precision",    "optimizer"};
}

void refuse(const Arguments& arguments, const Names& options, const std::string& action, Problems& problems) {
  for (const std::string& option : options) {
    if (arguments.has(option)) problems.malformed(fmt::format("--{} does not go with {}", option, action));
  }
}

int report_check(const absl::Status& status) {
  std::fputs(fmt::format("scalai plan: the plan is wrong, which is a bug in Scalai; please report it with the command "
                         "line:\n{}\n",
                         message_of(status))
                 .c_str(),
             stderr);
  return kBug;
}

int finish(const Arguments& arguments, const PlanRequest& request, const plan::Plan& plan, report::PlanFacts facts) {
  const report::Shown shown = {arguments.text("format"), arguments.text("tensor"), stdout_screen()};
  if (!plan.feasible()) {
    say("{}", report::infeasible_text(plan));
    if (shown.format == "json") print(report::plan_text(plan, facts, shown));
    return kInvalidExit;
  }
  if (arguments.flag("check")) {
    plan::InterpreterReport report;
    const absl::Status status =
        interpret(plan, {request.from, request.to, request.cluster, request.residency}, {}, &report);
    if (!status.ok()) return report_check(status);
    facts.check = report;
  }
  if (arguments.has("out")) {
    const absl::Status written = write_file(arguments.text("out"), serialize(plan));
    if (!written.ok()) return report_error(written);
  }
  print(report::plan_text(plan, facts, shown));
  if (shown.format == "table")
    note_terms("at least = the bytes that any plan for this placement must move; g3 = GPU 3, counted from 0",
               "--tensor=TENSOR shows where one tensor comes from; --out=FILE keeps the plan for scalai plan show");
  return 0;
}

bool derives(const plan::Plan& plan) {
  return std::any_of(plan.tensors().begin(), plan.tensors().end(),
                     [](const plan::TensorInfo& tensor) { return tensor.derived_from.valid(); });
}

// A cluster file says the rates of links, of storage only where there is one.
std::optional<double> predicted(const Arguments& arguments, const PlanRequest& request, const plan::Plan& plan) {
  const bool storage_known = plan.bytes().from_storage == 0 || request.cluster.storage_read_bytes_per_s > 0;
  if (!arguments.has("cluster") || !plan.feasible() || !storage_known) return std::nullopt;
  double seconds = estimate_seconds(plan, request.cluster);
  for (const double of_round : message_seconds(plan, plan::kMeasuredMessages)) seconds += of_round;
  return seconds;
}

// The same change without the cap: what cutting boxes is worth.
absl::StatusOr<std::optional<report::CapFacts>> cap_facts(const PlanRequest& request, const plan::Plan& plan) {
  if (plan.memory_cap() < 0 || !plan.feasible()) return std::nullopt;
  plan::PlannerOptions options = request.options;
  options.memory_cap = -1;
  SCALAI_ASSIGN_OR_RETURN(const plan::Plan whole, plan::make_plan({request.from, request.to, request.cluster,
                                                                   request.residency, std::move(options)}));
  return report::CapFacts{paging_of_whole_boxes(request.input(), plan.memory(), plan.memory_cap()), whole.bytes()};
}

int make_plan_command(const Arguments& arguments) {
  Problems problems;
  refuse(arguments, {"device"}, "making a plan; it is for `scalai plan show`", problems);
  std::optional<PlanRequest> request = read_plan_request(arguments, problems);
  if (!request) return problems.report();
  const auto begin = std::chrono::steady_clock::now();
  plan::Placement placement{.device_of_rank = request->to.device_of_rank, .spread = {}};
  if (request->placement.places())
    placement = best_placement(request->input(), request->placement, request->candidates);
  request->to.device_of_rank = std::move(placement.device_of_rank);
  const auto plan = make_plan(request->input());
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
  if (!plan.ok()) return report_error(plan.status());
  if (request->options.derive_params && !derives(*plan)) {
    problems.misfit(
        "--derive-params: no parameter has a master of its name and shape in a wider type to be cast from, as "
        "--precision=bf16 or fp16 with a model keep them");
    return problems.report();
  }
  const auto cap = cap_facts(*request, *plan);
  if (!cap.ok()) return report_error(cap.status());
  return finish(arguments, *request, *plan,
                {.model = request->model,
                 .planning_s = elapsed.count(),
                 .with_links = true,
                 .hottest_link = hottest_link(*plan, request->input()),
                 .spread_domain = arguments.text("spread"),
                 .spread = placement.spread,
                 .check = {},
                 .estimated_s = predicted(arguments, *request, *plan),
                 .cap = *cap});
}

absl::StatusOr<plan::Plan> load_plan(const std::string& path) {
  SCALAI_ASSIGN_OR_RETURN(const std::string bytes, read_file(path));
  auto plan = plan::parse_plan(bytes);
  if (!plan.ok()) return invalid(fmt::format("{}: {}", path, message_of(plan.status())));
  return plan;
}

void check_device(const plan::Plan& plan, int64_t device, Problems& problems) {
  for (const std::vector<DeviceId>* side : {&plan.src_devices(), &plan.dst_devices()}) {
    if (std::count_if(side->begin(), side->end(), [&](DeviceId one) { return one.value == device; }) > 0) return;
  }
  problems.misfit(fmt::format("--device: the plan has no device {}", device));
}

int show_plan(const Arguments& arguments) {
  Problems problems;
  refuse(arguments, planning_options(), "show", problems);
  if (arguments.has("device") && arguments.has("tensor"))
    problems.malformed("--device and --tensor exclude each other");
  const auto plan = load_plan(arguments.positional()[1]);
  problems.status("", plan.status());
  if (plan.ok() && arguments.has("device")) check_device(*plan, arguments.count("device"), problems);
  if (plan.ok() && arguments.has("tensor")) {
    Names names;
    for (const plan::TensorInfo& tensor : plan->tensors()) names.push_back(tensor.name);
    check_tensor_name(arguments.text("tensor"), names, problems);
  }
  if (!problems.empty()) return problems.report();
  const report::Shown shown = {arguments.text("format"), arguments.text("tensor"), stdout_screen()};
  print(arguments.has("device") ? report::program_text(*plan, DeviceId(arguments.count("device")), shown)
                                : report::plan_text(*plan, {}, shown));
  return 0;
}

int diff(const Arguments& arguments) {
  Problems problems;
  Names options = planning_options();
  options.insert(options.end(), {"device", "tensor"});
  refuse(arguments, options, "diff", problems);
  const auto a = load_plan(arguments.positional()[1]);
  const auto b = load_plan(arguments.positional()[2]);
  problems.status("", a.status());
  problems.status("", b.status());
  if (!problems.empty()) return problems.report();
  print(report::difference_text(*a, *b, {arguments.text("format"), "", stdout_screen()}));
  return a->digest() == b->digest() ? 0 : kDifferent;
}

int plan_main(const Arguments& arguments) {
  const Names& words = arguments.positional();
  if (words.empty()) return make_plan_command(arguments);
  if (words[0] == "show" && words.size() == 2) return show_plan(arguments);
  if (words[0] == "diff" && words.size() == 3) return diff(arguments);
  Problems problems;
  if (words[0] == "show") {
    problems.malformed("show needs one plan: scalai plan show FILE");
  } else if (words[0] == "diff") {
    problems.malformed("diff needs two plans: scalai plan diff A B");
  } else {
    problems.malformed(fmt::format("unexpected argument \"{}\"; the words are show FILE and diff A B", words[0]));
  }
  return problems.report();
}

std::vector<OptionSpec> what_to_plan() {
  return {
      suggesting(text_option("model", "NAME|FILE", "Catalogue model, or the path of a config.json."),
                 store::model_names()),
      text_option("from", "LAYOUT",
                  "Layout that the state has, as in tp8,pp4,dp2; or a collection file, FILE.textproto or .json."),
      text_option("to", "LAYOUT", "Layout that it shall get, or a collection file."),
      text_option("from-devices", "DEVICES", "Old devices in rank order (from 0 if not given)."),
      text_option("devices", "DEVICES",
                  "New devices, in rank order for --placement=identity; of more than --to needs those with state "
                  "come first (if not given: the old ones that live, then further ones)."),
      choice_option("placement", "RULE",
                    "Which of these devices takes which new rank, so that least moves: in rank order, runs of ranks to "
                    "hosts, or any rank anywhere (if not given: hosts; in rank order where a file or the strategy says "
                    "so).",
                    {"identity", "hosts", "free"}),
      choice_option(
          "spread", "DOMAIN",
          "Keep data-parallel replicas of the same state on different hosts or racks, and say what that costs.",
          {"host", "rack"}),
      text_option("fail", "DEVICES", "Old devices that are lost with what they hold."),
      count_option("gpus-per-host", "N", "GPUs of each host, 8 if neither this nor a cluster is given."),
      text_option("cluster", "FILE", "Cluster file that says which device is on which host, and how fast links are."),
      flag_option("storage", "What nobody holds is read from a checkpoint.")};
}

std::vector<OptionSpec> how_to_plan() {
  return {
      choice_option("strategy", "NAME", "Whose rules the planner follows (reshard if not given).",
                    scenario::strategy_names()),
      bytes_option("memory-cap", "SIZE",
                   "Most memory that a device needs beyond the larger of its old and its new state; the plan goes in "
                   "rounds that free what is no longer needed. Prints what any order of whole boxes would page."),
      flag_option("derive-params", "Cast parameters from their fp32 masters where that saves moving them."),
      flag_option("no-relay",
                  "Each device fetches what it lacks from devices of the old state, and nobody passes a box on."),
      flag_option("check", "Also run the interpreter, which proves the plan."),
      formerly(text_option("tensor", "TENSOR", "Show where each piece of this tensor comes from."), {"explain"}),
      text_option("out", "FILE", "File to write the plan to."),
      count_option("device", "N", "With show: the program of this device.")};
}

// Without their defaults, so that it shows whether they are given.
std::vector<OptionSpec> recipe() {
  std::vector<OptionSpec> options = recipe_options();
  for (OptionSpec& option : options) {
    option.help.pop_back();
    option.help += fmt::format(" ({} if not given).", std::exchange(option.default_value, ""));
  }
  return options;
}

std::vector<OptionSpec> plan_options() { return joined({what_to_plan(), recipe(), how_to_plan(), {format_option()}}); }

}  // namespace

Command plan_command() {
  return {{.name = "plan",
           .summary = "plan the change from one layout to another: what moves, from where, and what must",
           .usage = "scalai plan [show FILE | diff A B] [OPTION…]",
           .description =
               R"(Plans how a model's training state gets from one layout onto another, and prints the bytes that stay
and move beside the least that any plan must move. DEVICES are numbers and ranges: 0-31,40.
State that no living device holds is named, tensor by tensor; then the exit code is 3, unless
--storage offers a checkpoint. With a cluster file the time of the transfers is predicted. An option
that could change nothing is refused.

`show FILE` prints a plan that --out wrote, `show FILE --device=N` the program of one device;
`diff A B` says what two plans do differently and exits with 1 when they differ.

CSV has a line a device; with --tensor a line a piece.)",
           .options = plan_options(),
           .examples = {"scalai plan --model=llama3-70b --from=tp8,pp4,dp2 --to=tp4,pp8,dp1",
                        "scalai plan --model=gpt3-xl --from=tp2,pp2,dp2 --to=tp2,pp2 --fail=5,7 --storage",
                        "scalai plan --model=gpt3-xl --from=tp4 --to=tp2 --tensor=layers.0.attention.qkv.weight",
                        "scalai plan --model=./config.json --from=dp2 --to=dp6 --spread=host --check --out=plan.binpb",
                        "scalai plan --from=old.textproto --to=new.textproto", "scalai plan show plan.binpb --device=3",
                        "scalai plan diff a.binpb b.binpb"},
           .max_arguments = 3,
           .operands = {"show", "diff"},
           .endings = {".binpb"}},
          plan_main};
}

}  // namespace scalai::apps
