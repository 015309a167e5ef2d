#include "labs/validation/policies/validation.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "labs/validation/policies/internal/sets.h"
#include "ptc/base/status.h"
#include "ptc/run/policy/policies/catalogue.h"
#include "sim/jobs/recovery/designs.h"

namespace scalai::policy::validation {
namespace {

std::string lower(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

constexpr char kGavel[] =
    "gavel/: traces and throughputs of github.com/stanford-futuredata/gavel (c4fa4009, MIT), scheduler/; references by "
    "running its simulator";
constexpr char kPollux[] =
    "pollux/: workloads and profiles of github.com/petuum/adaptdl, branch osdi21-artifact (c793c708, Apache-2.0), "
    "simulator/; "
    "references: the authors' stored results";
constexpr char kOobleck[] =
    "oobleck/: traces and constants of github.com/SymbioticLab/Oobleck, branch sosp23-artifact (79665560, MIT), "
    "tools/simulator/; references by running its three simulators";
constexpr char kPhilly[] =
    "philly/: jobs of github.com/msr-fiddle/philly-traces (CC-BY-4.0, Microsoft) as github.com/petuum/adaptdl has "
    "them; "
    "references by an independent simulator";
constexpr char kLlama[] = "failures/: Table 5 of arXiv:2407.21783; formulas of Young (1974) and Daly (2006)";
constexpr char kBamboo[] = "bamboo/: p3-trace.csv of github.com/uclasystem/bamboo (80809293, MIT), traces/";
constexpr char kPop[] =
    "pop/ and gavel/: github.com/stanford-futuredata/POP (baa041dc, MIT), cluster_scheduling/; references: HiGHS, and "
    "the "
    "authors' logs";
constexpr char kSmall[] =
    "labs/validation/policies/small: the definitions played second by second or enumerated; no data is needed";
constexpr char kParcae[] = "parcae/: github.com/JF-D/Parcae (efedee7e, MIT), aws/traces and liveput/cost.py";

}  // namespace

std::string_view name_of(Reproduces what) {
  switch (what) {
    case Reproduces::kArithmetic: return "arithmetic";
    case Reproduces::kSimulator: return "simulator";
    case Reproduces::kCluster: break;
  }
  return "cluster";
}

double error_of(const ReferenceRow& row) {
  if (row.reference != 0) return (row.ours - row.reference) / std::abs(row.reference);
  return row.ours == 0 ? 0 : std::numeric_limits<double>::infinity();
}

bool within_tolerance(const ReferenceRow& row) { return std::abs(error_of(row)) <= row.tolerance; }

const std::vector<ReferenceSet>& reference_sets() {
  static const std::vector<ReferenceSet> sets = {
      {"G1", "Gavel's 96-job trace: least attained service, blind to GPU types and not", Reproduces::kSimulator, kGavel,
       validation::gavel_fairness},
      {"G2", "Gavel's 100-job trace: makespan of four policies", Reproduces::kSimulator, kGavel,
       validation::gavel_makespan},
      {"G4", "Pollux workload 6: Pollux, Optimus with an oracle, Tiresias", Reproduces::kSimulator, kPollux,
       validation::pollux_workload},
      {"G7", "Varuna, Bamboo and Oobleck on an EC2 spot trace, five models", Reproduces::kSimulator, kOobleck,
       validation::recovery_on_spot},
      {"G9", "the same with one loss every 10 min, 1 h, 3 h and 6 h", Reproduces::kSimulator, kOobleck,
       validation::recovery_by_rate},
      {"G11", "a virtual cluster of Philly under five order policies", Reproduces::kArithmetic, kPhilly,
       validation::philly_orders},
      {"G12", "54 days of Llama 3 405B: mean time between failures, checkpoint period, effective training time",
       Reproduces::kArithmetic, kLlama, validation::llama_failures},
      {"G16", "what Bamboo's spot trace holds", Reproduces::kArithmetic, kBamboo, validation::bamboo_trace},
      {"G18", "optima of the max-min program, whole and split by POP", Reproduces::kArithmetic, kPop,
       validation::pop_optima},
      {"Parcae", "which pipelines Parcae chose minute by minute", Reproduces::kSimulator, kParcae,
       validation::parcae_choices},
      {"small-orders", "random small cases, played from the definitions: order policies, AlloX",
       Reproduces::kArithmetic, kSmall, validation::small_orders},
      {"small-shares", "random small clusters, every corner of the allowed shares: policies by programs",
       Reproduces::kArithmetic, kSmall, validation::small_shares},
      {"small-deadlines", "random small cases, every assignment: Sia, ElasticFlow", Reproduces::kArithmetic, kSmall,
       validation::small_deadlines},
      {"small-markets", "random small cases, second by second: spot policies, price chaser, reshard",
       Reproduces::kArithmetic, kSmall, validation::small_markets}};
  return sets;
}

absl::StatusOr<std::vector<ReferenceSet>> sets_named(std::span<const std::string> names) {
  std::vector<std::string> all, unknown;
  for (const ReferenceSet& set : reference_sets()) all.push_back(set.name);
  for (const std::string& name : names) {
    const bool known =
        std::any_of(all.begin(), all.end(), [&name](const std::string& one) { return lower(one) == lower(name); });
    if (!known) unknown.push_back(name);
  }
  if (!unknown.empty()) {
    return invalid(
        fmt::format("no reference set \"{}\"; there are {}", fmt::join(unknown, "\", \""), fmt::join(all, ", ")));
  }
  std::vector<ReferenceSet> chosen;
  for (const ReferenceSet& set : reference_sets()) {
    const bool wanted = names.empty() || std::any_of(names.begin(), names.end(), [&set](const std::string& name) {
                          return lower(set.name) == lower(name);
                        });
    if (wanted) chosen.push_back(set);
  }
  return chosen;
}

std::vector<std::string> policies_without(std::span<const ReferenceRow> rows) {
  std::vector<std::string> all, without;
  for (const PolicyInfo& policy : policies()) all.push_back(policy.name);
  for (const jobs::RecoveryInfo& design : jobs::recovery_designs()) all.push_back(design.name);
  for (const std::string& name : all) {
    if (std::none_of(rows.begin(), rows.end(), [&](const ReferenceRow& row) { return row.policy == name; }))
      without.push_back(name);
  }
  return without;
}

std::string data_folder(const std::string& given) {
  if (!given.empty()) return given;
  const char* named = std::getenv("SCALAI_DATA");
  return named != nullptr ? named : "";
}

}  // namespace scalai::policy::validation
