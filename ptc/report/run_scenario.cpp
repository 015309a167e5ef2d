#include "ptc/report/run_scenario.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "ptc/base/diagnostics.h"
#include "ptc/base/statistics.h"
#include "ptc/base/status.h"
#include "ptc/cost/change/stages.h"
#include "ptc/plan/estimate.h"
#include "ptc/proto/scenario.pb.h"
#include "ptc/proto/textproto.h"
#include "ptc/report/internal/summary.h"

namespace scalai::report {

namespace {

constexpr size_t kMostBytes = size_t{1} << 28;  // a resolved scenario has the collections in it

std::string second_text(double value) { return fmt::format("{:.6g}s", value); }
std::string bytes_text(double value) { return fmt::format("{:.6g}B/s", value); }

class Measurements {
 public:
  Measurements(proto::Scenario& scenario, const PlanReader& plan_of) : scenario_(scenario), plan_of_(plan_of) {}

  absl::Status take(const JobSummary& job) {
    const auto found = std::find_if(scenario_.mutable_jobs()->begin(), scenario_.mutable_jobs()->end(),
                                    [&](const proto::Job& one) { return one.name() == job.name; });
    if (found == scenario_.mutable_jobs()->end())
      return invalid(fmt::format("the scenario has no job \"{}\"", job.name));
    for (const TrainedSummary& trained : job.trained.value_or(std::vector<TrainedSummary>())) {
      for (proto::ParallelChoice& choice : *found->mutable_configs()) {
        if (choice.layout() != trained.layout || trained.step_s <= 0) continue;
        choice.set_step_time(second_text(trained.step_s));
        values_.push_back({job.name, "step_time of " + trained.layout, choice.step_time(), trained.steps});
      }
    }
    for (const ReconfigurationSummary& change : job.reconfigurations) {
      if (change.completed) SCALAI_RETURN_IF_ERROR(take(change));
    }
    return absl::OkStatus();
  }

  // `strategy`: whose costs were measured.
  void set_costs(const std::string& strategy) {
    if (plan_s_.empty()) return;
    proto::Costs& costs = *scenario_.add_costs();  // the last one counts
    costs.set_strategy(strategy);
    const auto note = [&](const char* what, const std::vector<double>& all, auto text, auto set) {
      const std::optional<double> middle = median(all);
      if (!middle) return;
      set(text(*middle));
      values_.push_back({"", what, text(*middle), static_cast<int64_t>(all.size())});
    };
    note("plan", plan_s_, second_text, [&](const std::string& text) { costs.set_plan(text); });
    note("restart", restart_s_, second_text, [&](const std::string& text) { costs.set_restart(text); });
    note("communicator", resume_s_, second_text, [&](const std::string& text) { costs.set_communicator(text); });
    const auto compiles = [](const proto::Costs& one) { return !one.compile().empty(); };
    if (std::any_of(scenario_.costs().begin(), scenario_.costs().end(), compiles))
      costs.set_compile("0s");  // resume has it
    note("allocate_rate", allocated_, bytes_text, [&](const std::string& text) { costs.set_allocate_rate(text); });
    note("verify_rate", verified_, bytes_text, [&](const std::string& text) { costs.set_verify_rate(text); });
  }

  void add_requests(const std::vector<JobSummary>& jobs) {
    for (const JobSummary& job : jobs) {
      for (const ReconfigurationSummary& change : job.reconfigurations) {
        if (!change.completed || !change.cause.starts_with("resize")) continue;
        proto::ScenarioEvent& event = *scenario_.add_events();
        event.mutable_at_step()->set_job(job.name);
        event.mutable_at_step()->set_step(change.step);
        event.mutable_resize()->set_job(job.name);
        event.mutable_resize()->set_gpus(static_cast<int32_t>(change.to_gpus));
      }
    }
  }

  std::vector<MeasuredValue> take_values() { return std::move(values_); }

 private:
  absl::Status take(const ReconfigurationSummary& change) {
    const control::PhaseSeconds& phases = change.phases_s;
    plan_s_.push_back(phases.plan);
    restart_s_.push_back(phases.restart);
    resume_s_.push_back(phases.resume);
    if (change.plan_file.empty()) return absl::OkStatus();
    SCALAI_ASSIGN_OR_RETURN(const plan::Plan plan, plan_of_(change.plan_file));
    const auto note = [](std::vector<double>& rates, int64_t bytes, double took_s) {
      if (bytes > 0 && took_s > 0) rates.push_back(static_cast<double>(bytes) / took_s);
    };
    note(allocated_, plan::most_allocated_bytes(plan), phases.prepare);
    note(verified_, change::most_received_bytes(plan), phases.verify);
    return absl::OkStatus();
  }

  proto::Scenario& scenario_;
  const PlanReader& plan_of_;
  std::vector<double> plan_s_, restart_s_, resume_s_, allocated_, verified_;  // of all completed changes
  std::vector<MeasuredValue> values_;
};

}  // namespace

absl::StatusOr<MeasuredScenario> measured_scenario(const std::string& resolved, const std::string& summary,
                                                   const PlanReader& plan_of) {
  SCALAI_ASSIGN_OR_RETURN(const Summary run, read_summary(summary));
  proto::Scenario scenario;
  Diagnostics diagnostics("scenario.resolved.textproto", resolved);
  proto::Places places;
  proto::parse_textproto(resolved, scenario, diagnostics, places, kMostBytes);
  if (!diagnostics.empty()) return invalid(diagnostics.render());
  const bool trained = std::any_of(run.jobs.begin(), run.jobs.end(), [](const JobSummary& job) { return job.trained; });
  if (!trained) return invalid("no job of this run was really trained (scalai exec --train, scalai launch)");
  Measurements measurements(scenario, plan_of);
  for (const JobSummary& job : run.jobs) SCALAI_RETURN_IF_ERROR(measurements.take(job));
  measurements.set_costs(run.strategy);
  if (scenario.events().empty()) measurements.add_requests(run.jobs);
  scenario.set_description("step times and costs as a run of real training measured them");
  return MeasuredScenario{proto::print_textproto(scenario), measurements.take_values()};
}

}  // namespace scalai::report
