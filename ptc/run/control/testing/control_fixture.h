#pragma once
// For tests of the control loop: one that is fed by hand, on the small cluster of ptc/run/scenario/testing.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ptc/base/status.h"
#include "ptc/run/control/control.h"
#include "ptc/run/policy/policy.h"
#include "ptc/run/scenario/testing/scenarios.h"

namespace scalai::control::testing {

using scenario::testing::device_ids;
using scenario::testing::job_text;
using scenario::testing::kSmallCluster;
using scenario::testing::kTinyModel;
using scenario::testing::scenario_of;

// Commands as one line each, for comparing whole answers.
inline std::string text_of(const Command& command) {
  struct Writer {
    static std::string names(const std::vector<DeviceId>& devices) {
      std::string text;
      for (const DeviceId device : devices) text += fmt::format(" g{}", device.value);
      return text;
    }
    static std::string flows(const std::vector<BulkFlow>& list) {
      std::string text;
      for (const BulkFlow& flow : list) text += fmt::format(" {}>{}:{}", flow.src.str(), flow.dst.str(), flow.bytes);
      return text;
    }
    std::string operator()(const Train& t) const {
      return fmt::format("train {} {} {}-{} {}{}", t.job, t.start_s, t.from_step, t.until_step, t.step_s,
                         names(t.devices));
    }
    std::string operator()(const Halt& h) const { return fmt::format("halt {}", h.job); }
    std::string operator()(const Read& r) const {
      return fmt::format("read {} {}-{}", r.job, r.from_step, r.until_step);
    }
    std::string operator()(const Execute& e) const {
      return fmt::format("execute {} epoch {} {} {} restore {} costs {} {} {} {} {}{}{}", e.job, e.epoch,
                         e.reconfiguration, e.plan->digest(), e.restore, e.costs.plan_s, e.costs.restart_s,
                         e.costs.allocate_bytes_per_s, e.costs.verify_bytes_per_s, e.costs.communicator_s,
                         e.costs.transfer_start_s, flows(e.stage), flows(e.load));
    }
    std::string operator()(const Abort& a) const { return fmt::format("abort {}", a.job); }
    std::string operator()(const Commit& c) const { return fmt::format("commit {} {}", c.job, c.epoch); }
    std::string operator()(const Background& b) const {
      return fmt::format("background {} {} {}{}", b.job, b.tag, b.what, flows(b.flows));
    }
    std::string operator()(const Forget& f) const { return fmt::format("forget {} {}", f.job, f.snapshot); }
    std::string operator()(const ArmTimer& t) const { return fmt::format("arm {} {}", t.timer, t.at_s); }
    std::string operator()(const Inject& i) const { return fmt::format("inject {} {}", i.what.index(), i.detect_s); }
    std::string operator()(const Stop&) const { return "stop"; }
  };
  return std::visit(Writer{}, command);
}

// The commands of one type in an answer.
template <class C>
std::vector<C> all_of(const std::vector<Command>& commands) {
  std::vector<C> found;
  for (const Command& command : commands) {
    if (const C* one = std::get_if<C>(&command)) found.push_back(*one);
  }
  return found;
}

// A control loop on a scenario of its own. Timers are numbered in the order they are armed.
class Driver {
 public:
  // `step_time` (null: the analytic model) and `policy` (null: the scenario's) outlive this.
  explicit Driver(const std::string& text, const std::string& strategy = "reshard", bool reads_samples = false,
                  const step::StepTimeModel* step_time = nullptr, policy::Policy* policy = nullptr)
      : reads_samples_(reads_samples), step_time_(step_time == nullptr ? analytic_ : *step_time) {
    absl::StatusOr<scenario::Scenario> scenario = scenario_of(kSmallCluster + text);
    SCALAI_CHECK(scenario.ok(), message_of(scenario.status()));
    scenario_ = std::make_unique<scenario::Scenario>(*std::move(scenario));
    strategy_ = scenario::find_strategy(strategy, scenario_->costs).value();
    control_ = std::make_unique<Control>(
        *scenario_, strategy_, step_time_,
        ControlOptions{.check_plans = true, .reads_samples = reads_samples, .policy = policy});
    feed(0, Started{});
  }

  const std::vector<Command>& feed(double at_s, EventBody body) {
    events_.push_back({at_s, std::move(body)});
    answer_ = control_->step(events_.back());
    for (const Command& command : answer_) log_.push_back(fmt::format("{}: {}", at_s, text_of(command)));
    return answer_;
  }
  // Failure of devices, noticed `detect_s` later.
  const std::vector<Command>& lose(double failed_at_s, const std::vector<int>& devices, double detect_s = 5) {
    return feed(failed_at_s + detect_s, DevicesLost{device_ids(devices), failed_at_s});
  }
  const std::vector<Command>& done(double at_s, double transfer_s = 1, int job = 0) {
    return feed(at_s, ExecutionDone{job, {.transfer = transfer_s}});
  }

  // Of the latest answer: the only command of this type.
  template <class C>
  C only() const {
    const std::vector<C> found = all_of<C>(answer_);
    EXPECT_EQ(found.size(), 1u) << text();
    return found.empty() ? C{} : found.front();
  }
  template <class C>
  std::vector<C> all() const {
    return all_of<C>(answer_);
  }
  template <class C>
  bool none() const {
    return all_of<C>(answer_).empty();
  }
  std::string text() const {
    std::string lines;
    for (const Command& command : answer_) lines += text_of(command) + "\n";
    return lines;
  }

  RunReport report() const { return control_->report(events_.back().at_s); }
  JobRecord job(int index = 0) const { return report().jobs[static_cast<size_t>(index)]; }
  ReconfigurationRecord reconfiguration(size_t k, int index = 0) const { return job(index).reconfigurations.at(k); }
  const scenario::Scenario& scenario() const { return *scenario_; }
  const std::vector<Event>& events() const { return events_; }
  const std::vector<std::string>& log() const { return log_; }
  Control& control() { return *control_; }

  // The same events through a control loop of its own.
  std::vector<std::string> log_again() const {
    Control fresh(*scenario_, strategy_, step_time_, {.reads_samples = reads_samples_});
    std::vector<std::string> lines;
    for (const Event& event : events_) {
      for (const Command& command : fresh.step(event))
        lines.push_back(fmt::format("{}: {}", event.at_s, text_of(command)));
    }
    return lines;
  }

 private:
  const bool reads_samples_;
  const step::AnalyticStepTime analytic_;
  const step::StepTimeModel& step_time_;
  std::unique_ptr<scenario::Scenario> scenario_;
  scenario::Strategy strategy_;
  std::unique_ptr<Control> control_;
  std::vector<Event> events_;
  std::vector<Command> answer_;
  std::vector<std::string> log_;
};

}  // namespace scalai::control::testing
