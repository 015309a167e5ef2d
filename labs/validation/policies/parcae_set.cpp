// Parcae: the layouts it chose minute by minute, where they are decided by what is published: throughputs and migration
// costs.
#include <fmt/format.h>

#include <memory>

#include "labs/validation/policies/internal/parcae_replay.h"
#include "labs/validation/policies/internal/sets.h"
#include "ptc/base/status.h"
#include "sim/jobs/recovery/host_tables.h"
#include "sim/jobs/recovery/parcae_costs.h"
#include "sim/jobs/recovery/proactive.h"

namespace scalai::policy::validation {
namespace {

constexpr int kMost = 32;       // instances asked for
constexpr int kLookAhead = 12;  // minutes

struct Agreement {
  int minutes = 0, fastest = 0, foresight = 0;
};

absl::StatusOr<Agreement> compare(const std::string& data, const std::string& model, const std::string& segment) {
  SCALAI_ASSIGN_OR_RETURN(const std::string path, need(data, fmt::format("parcae/replay/{}_{}.jsonl", model, segment)));
  SCALAI_ASSIGN_OR_RETURN(const std::string table, need(data, "parcae/strategy_throughput.csv"));
  SCALAI_ASSIGN_OR_RETURN(const std::vector<ParcaeMinute> minutes, read_parcae_replay(path));
  SCALAI_ASSIGN_OR_RETURN(jobs::LiveputModel liveput, jobs::parcae_costs(model));
  SCALAI_ASSIGN_OR_RETURN(liveput.samples_per_s, jobs::read_layouts(table, model));
  jobs::RecoverySetup setup;
  setup.design = jobs::RecoveryDesign::kProactive;
  setup.hosts = kMost;
  setup.look_ahead = kLookAhead;
  setup.foresight = true;
  setup.liveput = std::make_shared<const jobs::Liveput>(std::move(liveput), 60);
  std::vector<jobs::HostInterval> truth;
  for (const ParcaeMinute& minute : minutes) truth.push_back(minute.hosts);
  const std::vector<jobs::LiveputChoice> choices = plan_intervals(setup, truth);
  Agreement agreement;
  for (size_t i = 0; i < minutes.size(); ++i) {
    ++agreement.minutes;
    agreement.fastest += setup.liveput->best(minutes[i].hosts.hosts) == minutes[i].fastest;
    agreement.foresight += choices[i].layout == minutes[i].foresight;
  }
  return agreement;
}

}  // namespace

Rows parcae_choices(const std::string& data) {
  std::vector<ReferenceRow> rows;
  for (const char* model : {"bert", "resnet152", "vgg19", "gpt-1.5b"}) {
    Agreement sum;
    for (const char* segment : {"hh_55_65", "hl_15_25"}) {
      SCALAI_ASSIGN_OR_RETURN(const Agreement one, compare(data, model, segment));
      sum.minutes += one.minutes;
      sum.fastest += one.fastest;
      sum.foresight += one.foresight;
    }
    const bool gpt = std::string(model) == "gpt-1.5b";
    rows.push_back({.set = "Parcae",
                    .policy = "proactive",
                    .name = fmt::format("{}: minutes with its layout of highest throughput", model),
                    .unit = "minutes",
                    .reference = static_cast<double>(sum.minutes),
                    .ours = static_cast<double>(sum.fastest),
                    .tolerance = 0,
                    .note = ""});
    rows.push_back({.set = "Parcae",
                    .policy = "proactive",
                    .name = fmt::format("{}: minutes with its liveput layout, future known", model),
                    .unit = "minutes",
                    .reference = static_cast<double>(sum.minutes),
                    .ours = static_cast<double>(sum.foresight),
                    .tolerance = 0,
                    .note = ""});
    if (gpt) rows.back().not_reproduced = "its sampled migration costs of this model are not published with the replay";
  }
  return rows;
}

}  // namespace scalai::policy::validation
