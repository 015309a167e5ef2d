#include "apps/parallelize/two_bw_output.h"

#include <fmt/format.h>

#include "apps/common/output.h"
#include "nlohmann/json.hpp"
#include "ptc/base/json.h"
#include "ptc/base/table.h"
#include "ptc/base/units.h"
#include "ptc/cost/step/two_bw.h"

namespace scalai::apps {
namespace {

using nlohmann::ordered_json;
using step::TwoBwPlan;

double samples_per_s(const ParallelizeRequest& request, const TwoBwPlan& plan) {
  return request.space.base.global_batch / plan.step_s;
}

std::string text_of(const ParallelizeRequest& request, const std::vector<TwoBwPlan>& plans) {
  Table table({"width>", "depth>", "micro-batch>", "recompute", "step>", "samples/s>", "memory>", "compute>",
               "messages>", "gradients>"});
  for (const TwoBwPlan& plan : plans) {
    table.row({fmt::format("{}", plan.width), fmt::format("{}", plan.depth), fmt::format("{}", plan.micro_batch),
               plan.recompute ? "full" : "none", format_seconds(plan.step_s),
               fmt::format("{:.4g}", samples_per_s(request, plan)),
               format_bytes(static_cast<int64_t>(plan.memory_bytes)), format_seconds(plan.compute_s),
               format_seconds(plan.messages_s), format_seconds(plan.gradients_s)});
  }
  return fmt::format(
      "{} on {} {} GPUs by PipeDream-2BW's equations; compute, messages and gradients are of the slowest "
      "stage, a micro-batch\n\n{}",
      request.model.name, request.space.gpus, request.space.host.gpu.name, table.text(stdout_screen()));
}

std::string csv_of(const ParallelizeRequest& request, const std::vector<TwoBwPlan>& plans) {
  Table table({"width", "depth", "micro_batch", "recompute", "step_s", "samples_per_s", "memory_bytes", "compute_s",
               "messages_s", "gradients_s"});
  for (const TwoBwPlan& plan : plans) {
    table.row({fmt::format("{}", plan.width), fmt::format("{}", plan.depth), fmt::format("{}", plan.micro_batch),
               plan.recompute ? "full" : "none", shortest(plan.step_s), shortest(samples_per_s(request, plan)),
               shortest(plan.memory_bytes), shortest(plan.compute_s), shortest(plan.messages_s),
               shortest(plan.gradients_s)});
  }
  return table.csv();
}

std::string json_of(const ParallelizeRequest& request, const std::vector<TwoBwPlan>& plans) {
  ordered_json best = ordered_json::array();
  for (const TwoBwPlan& plan : plans) {
    best.push_back({{"width", plan.width},
                    {"depth", plan.depth},
                    {"micro_batch", plan.micro_batch},
                    {"recompute", plan.recompute ? "full" : "none"},
                    {"step_s", plan.step_s},
                    {"samples_per_s", samples_per_s(request, plan)},
                    {"memory_bytes", plan.memory_bytes},
                    {"compute_s", plan.compute_s},
                    {"messages_s", plan.messages_s},
                    {"gradients_s", plan.gradients_s}});
  }
  const ordered_json out = {{"model", request.model.name},
                            {"planner", "pipedream-2bw"},
                            {"gpus", request.space.gpus},
                            {"gpu", request.space.host.gpu.name},
                            {"best", best}};
  return json_text(out, {.indent = 2}) + "\n";
}

}  // namespace

int two_bw(const ParallelizeRequest& request, const std::string& format) {
  const auto plans = step::two_bw_plans(request.shape, request.space);
  if (!plans.ok()) {
    Problems problems("parallelize");
    problems.status("", plans.status());
    return problems.report();
  }
  print(format == "json"  ? json_of(request, *plans)
        : format == "csv" ? csv_of(request, *plans)
                          : text_of(request, *plans));
  return 0;
}

}  // namespace scalai::apps
