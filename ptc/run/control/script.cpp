#include "ptc/run/control/internal/script.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <variant>

namespace scalai::control {
namespace {

std::string describe(const scenario::When& when) {
  if (const auto* at = std::get_if<scenario::AtTime>(&when)) return fmt::format("at {} s", at->at_s);
  if (const auto* at = std::get_if<scenario::AtStep>(&when)) return fmt::format("at step {}", at->step);
  const auto& during = std::get<scenario::During>(when);
  return fmt::format("during reconfiguration {} after round {}", during.reconfiguration, during.after_round);
}

}  // namespace

Script::Script(const scenario::Scenario& scenario) : scenario_(scenario), fired_(scenario.events.size(), false) {}

int64_t Script::arm(Turn& turn, double at_s, Timer timer) {
  const auto id = static_cast<int64_t>(timers_.size());
  turn.commands.push_back(ArmTimer{.timer = id, .at_s = at_s});
  timers_.push_back(timer);
  return id;
}

void Script::arm_end(Turn& turn) {
  if (scenario_.until_s) arm(turn, *scenario_.until_s, {.purpose = Timer::Purpose::kUntil});
}

void Script::arm_events(Turn& turn) {
  for (size_t i = 0; i < scenario_.events.size(); ++i) {
    if (const auto* at = std::get_if<scenario::AtTime>(&scenario_.events[i].when))
      arm(turn, at->at_s, {.purpose = Timer::Purpose::kEvent, .event = i});
  }
}

std::vector<size_t> Script::due_at_step(int job, int64_t step) const {
  std::vector<size_t> due;
  for (size_t i = 0; i < scenario_.events.size(); ++i) {
    const auto* at = std::get_if<scenario::AtStep>(&scenario_.events[i].when);
    if (at != nullptr && at->job == job && at->step <= step && !fired_[i]) due.push_back(i);
  }
  return due;
}

int64_t Script::next_step(int job, int64_t step) const {
  int64_t next = std::numeric_limits<int64_t>::max();
  for (size_t i = 0; i < scenario_.events.size(); ++i) {
    const auto* at = std::get_if<scenario::AtStep>(&scenario_.events[i].when);
    if (at != nullptr && at->job == job && !fired_[i] && at->step > step) next = std::min(next, at->step);
  }
  return next;
}

std::vector<size_t> Script::due_in_round(int job, int reconfiguration, int round) const {
  std::vector<size_t> due;
  for (size_t i = 0; i < scenario_.events.size(); ++i) {
    const auto* during = std::get_if<scenario::During>(&scenario_.events[i].when);
    if (during == nullptr || fired_[i] || during->job != job) continue;
    if (during->reconfiguration == reconfiguration && during->after_round == round) due.push_back(i);
  }
  return due;
}

double Script::delay_s(size_t event) const { return std::get<scenario::During>(scenario_.events[event].when).delay_s; }

std::vector<std::string> Script::unreached() const {
  std::vector<std::string> list;
  for (size_t i = 0; i < fired_.size(); ++i) {
    if (!fired_[i]) list.push_back(fmt::format("events[{}] ({})", i, describe(scenario_.events[i].when)));
  }
  return list;
}

}  // namespace scalai::control
