#include "sim/jobs/change.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>
#include <set>

#include "ptc/base/diagnostics.h"
#include "ptc/base/status.h"

namespace scalai::jobs {
namespace {

// Seconds from a number of GPUs to another: 0 before = the job has none.
struct Step {
  const policy::Job* spec = nullptr;
  int from_gpus = 0;
  int to_gpus = 0;
  ChangeCause cause = ChangeCause::kPolicy;
};
using SecondsOf = std::function<double(const Step&)>;

// Changes that take a number of seconds known at their beginning.
class TimedChanges : public ChangeModel {
 public:
  TimedChanges(SecondsOf seconds_of, std::string description)
      : seconds_of_(std::move(seconds_of)), description_(std::move(description)) {}

  absl::StatusOr<double> begin(const Change& change) override {
    cancel(change.job, change.now_s);
    const double seconds = seconds_of_(Step{
        .spec = change.spec, .from_gpus = change.from->gpus(), .to_gpus = change.to->gpus(), .cause = change.cause});
    SCALAI_CHECK(seconds >= 0);
    ends_.emplace(change.now_s + seconds, change.job);
    end_of_[change.job] = change.now_s + seconds;
    return 0.0;
  }

  void cancel(policy::JobId job, double /*now_s*/) override {
    const auto it = end_of_.find(job);
    if (it == end_of_.end()) return;
    ends_.erase({it->second, job});
    end_of_.erase(it);
  }

  double next_end_s() const override { return ends_.empty() ? policy::kNever : ends_.begin()->first; }

  std::vector<ChangeEnd> advance(double to_s) override {
    std::vector<ChangeEnd> ended;
    while (!ends_.empty() && ends_.begin()->first <= to_s) {
      ended.push_back(ChangeEnd{.job = ends_.begin()->second, .at_s = ends_.begin()->first});
      end_of_.erase(ends_.begin()->second);
      ends_.erase(ends_.begin());
    }
    return ended;
  }

  double expected_s(const policy::Job& job, int from_gpus, int to_gpus) const override {
    const ChangeCause cause = from_gpus > 0 ? ChangeCause::kPolicy : ChangeCause::kResume;
    return seconds_of_(Step{.spec = &job, .from_gpus = from_gpus, .to_gpus = to_gpus, .cause = cause});
  }

  std::string description() const override { return description_; }

 private:
  SecondsOf seconds_of_;
  std::string description_;
  std::set<std::pair<double, policy::JobId>> ends_;
  std::map<policy::JobId, double> end_of_;
};

// What a published system charges; docs/scenarios.md has the table with sources. `start` = also for the first GPUs.
struct Preset {
  const char* name;
  const char* summary;
  bool start;
  double (*seconds)(const Step& step, int fleet_gpus);
};

// Lower case, without "-", "_", "." and what follows a blank: traces spell models differently ("GPT-3-2_7b",
// "gpt3-2.7b").
std::string model_key(const std::string& type) {
  std::string key;
  for (const char c : type.substr(0, type.find(' '))) {
    if (c != '-' && c != '_' && c != '.') key += static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  }
  return key;
}

struct ModelSeconds {
  const char* key;
  double seconds;
};

template <size_t N>
double by_model(const std::array<ModelSeconds, N>& table, const Step& step, double otherwise) {
  const std::string key = model_key(step.spec->type);
  for (const ModelSeconds& row : table) {
    if (key == row.key) return row.seconds;
  }
  return otherwise;
}

double none(const Step&, int) { return 0; }
double pollux(const Step&, int) { return 30; }

double sia(const Step& step, int) {
  constexpr std::array<ModelSeconds, 5> kTable = {
      {{"bert", 120}, {"cifar10", 30}, {"deepspeech2", 25}, {"imagenet", 250}, {"yolov3", 80}}};
  return by_model(kTable, step, 30);
}

double elasticflow(const Step& step, int fleet_gpus) {
  const bool large = fleet_gpus >= 256;
  const double restart = step.cause == ChangeCause::kStart ? 0 : large ? 27 : 20;
  return (large ? 7 : 2) + 2 * (std::log2(step.to_gpus) + 1) + restart;
}

// Models the three evaluations do not have are charged as the largest they have.
double oobleck(const Step& step, int) {
  constexpr std::array<ModelSeconds, 6> kTable = {
      {{"bertlarge", 2}, {"gpt2ours", 2}, {"gpt2", 2}, {"gpt3medium", 3}, {"gpt327b", 6}, {"gpt367b", 10}}};
  return by_model(kTable, step, 10);
}

double bamboo(const Step& step, int) {
  constexpr std::array<ModelSeconds, 6> kTable = {
      {{"bertlarge", 76}, {"gpt2ours", 80}, {"gpt2", 80}, {"gpt3medium", 100}, {"gpt327b", 230}, {"gpt367b", 450}}};
  return by_model(kTable, step, 450);
}

double varuna(const Step& step, int) {
  constexpr std::array<ModelSeconds, 6> kTable = {
      {{"bertlarge", 76}, {"gpt2ours", 83}, {"gpt2", 83}, {"gpt3medium", 78.7}, {"gpt327b", 515}, {"gpt367b", 701}}};
  return by_model(kTable, step, 701);
}

// Measured with so many nodes of one GPU, after growth and after a loss; linear between, the last row beyond. Plus the
// rendezvous.
double parcae(const Step& step, int) {
  struct Row {
    double nodes, grow_s, shrink_s;
  };
  constexpr std::array<Row, 9> kTable = {{{1, 28.76, 54.28},
                                          {2, 33.587, 56.199},
                                          {4, 36.189, 60.734},
                                          {8, 40.882, 69.429},
                                          {12, 39.02, 75.658},
                                          {16, 42.892, 81.714},
                                          {20, 36.749, 83.816},
                                          {24, 37.849, 92.427},
                                          {32, 37.588, 95.427}}};
  constexpr double kRendezvous = 6.6;
  const bool shrink = step.to_gpus < step.from_gpus;
  const auto seconds = [shrink](const Row& row) { return shrink ? row.shrink_s : row.grow_s; };
  size_t k = 1;
  while (k + 1 < kTable.size() && kTable[k].nodes < step.to_gpus) ++k;
  const Row &low = kTable[k - 1], &high = kTable[k];
  const double share = std::clamp((step.to_gpus - low.nodes) / (high.nodes - low.nodes), 0.0, 1.0);
  return kRendezvous + seconds(low) + share * (seconds(high) - seconds(low));
}

constexpr std::array<Preset, 11> kPresets = {{
    {"none", "0 s", false, none},
    {"gavel-sim", "0 s (Gavel's simulator: only round boundaries cost)", false, none},
    {"pollux", "30 s for any change of GPUs (Pollux, OSDI'21, its simulator)", true, pollux},
    {"sia", "25 to 250 s by application (Sia, SOSP'23, its simulator)", true, sia},
    {"elasticflow", "2 or 7 s + 2 (log2 g + 1) s, + 20 or 27 s for restarts (ElasticFlow, ASPLOS'23, its scheduler)",
     true, elasticflow},
    {"tiresias", "0 s", false, none},
    {"afs", "0 s", false, none},
    {"oobleck", "2 to 10 s by model (Oobleck, SOSP'23, its simulator)", false, oobleck},
    {"bamboo", "76 to 450 s by model (Oobleck's simulator of Bamboo)", false, bamboo},
    {"varuna", "76 to 701 s by model (Oobleck's simulator of Varuna)", false, varuna},
    {"parcae", "rendezvous + measured restart by nodes (Parcae, NSDI'24)", false, parcae},
}};

}  // namespace

std::unique_ptr<ChangeModel> make_constant_changes(const ConstantCost& cost) {
  SCALAI_CHECK(cost.change_s >= 0 && cost.start_s >= 0);
  return std::make_unique<TimedChanges>(
      [cost](const Step& step) { return step.cause == ChangeCause::kStart ? cost.start_s : cost.change_s; },
      fmt::format("{} s a change, {} s at the start", cost.change_s, cost.start_s));
}

std::vector<std::string> change_preset_names() {
  std::vector<std::string> names;
  for (const Preset& preset : kPresets) names.emplace_back(preset.name);
  return names;
}

absl::StatusOr<std::unique_ptr<ChangeModel>> make_preset_changes(const std::string& name, const policy::Fleet& fleet) {
  const int gpus = fleet.gpus();
  for (const Preset& preset : kPresets) {
    if (name != preset.name) continue;
    const auto seconds = preset.seconds;
    const bool start = preset.start;
    return std::make_unique<TimedChanges>(
        [seconds, start, gpus](const Step& step) {
          return step.cause == ChangeCause::kStart && !start ? 0 : seconds(step, gpus);
        },
        fmt::format("preset {}: {}", name, preset.summary));
  }
  const std::vector<std::string> names = change_preset_names();
  const std::string near = closest(name, names);
  return invalid(fmt::format("there are no restart costs \"{}\"{}", name,
                             near.empty() ? fmt::format("; there are {}", fmt::join(names, ", "))
                                          : fmt::format("; did you mean \"{}\"?", near)));
}

}  // namespace scalai::jobs
