// The catalogue's entries of this folder: names, parameters, and how each policy is put together.
#include "ptc/run/policy/policies/shares/shares_policies.h"

#include <fmt/core.h>

#include <iterator>

#include "ptc/base/status.h"
#include "ptc/run/policy/policies/shares/water_filling.h"

namespace scalai::policy {

std::vector<ParameterInfo> round_parameters(bool fill) {
  std::vector<ParameterInfo> list = {
      {"round", "360s", "time", "length of a round"},
      {"reset", "1920s", "time", "shares are computed again after so long at the earliest"}};
  if (fill) {
    list.push_back(
        {"fill", "true", "flag", "a type with GPUs left takes jobs without a share of it, as Gavel's simulator"});
  }
  return list;
}

RoundOptions round_options(const Parameters& parameters, uint64_t seed, bool fill) {
  RoundOptions options;
  options.round_s = parameters.seconds("round");
  options.reset_s = parameters.seconds("reset");
  options.with_share_only = fill && !parameters.flag("fill");
  options.seed = seed;
  return options;
}

namespace {

using Speeds = RoundOptions::Speeds;

// A policy whose parameters contradict each other: says so before the run.
class Misconfigured : public Policy {
 public:
  explicit Misconfigured(absl::Status problem) : problem_(std::move(problem)) {}
  PolicyTraits traits() const override { return {}; }
  absl::Status begin(const View& /*view*/) override { return problem_; }
  absl::StatusOr<Decision> decide(const View& /*view*/, std::span<const Event> /*events*/) override { return problem_; }

 private:
  absl::Status problem_;
};

ParameterInfo ideal_parameter() {
  return {"ideal", "false", "flag", "shares are applied continuously, without rounds: a bound, no scheduler can"};
}

std::unique_ptr<Policy> with_or_without_rounds(const Parameters& parameters, std::unique_ptr<RoundPolicy> rounds) {
  if (parameters.flag("ideal")) return std::make_unique<IdealShares>(std::move(rounds));
  return rounds;
}

// `knows_types`: a policy blind to types cannot weigh pairs, which some types carry and others do not.
std::vector<ParameterInfo> program_parameters(bool knows_types = true) {
  std::vector<ParameterInfo> list = round_parameters();
  list.push_back(ideal_parameter());
  if (knows_types) {
    list.push_back({"packing", "false", "flag", "two jobs may share GPUs where the throughput source knows the pair"});
  }
  list.push_back({"pop", "1", "count", "POP: split the program into so many, each with its part of the GPUs"});
  list.push_back({"split", "mod", "name", "POP: jobs go to groups by number (mod) or at random (random)"});
  return list;
}

std::vector<ParameterInfo> with(std::vector<ParameterInfo> list, std::vector<ParameterInfo> more) {
  list.insert(list.end(), more.begin(), more.end());
  return list;
}

constexpr PolicyTraits kLeastService = {.preemptive = true, .heterogeneous = true};
constexpr PolicyTraits kKnownLengths = {.preemptive = true, .needs_durations = true, .heterogeneous = true};
constexpr PolicyTraits kEqualParts = {.preemptive = true, .stochastic = true, .heterogeneous = true};

PolicyTraits blind(PolicyTraits traits) {
  traits.heterogeneous = false;
  traits.stochastic = true;  // GPU types choose in a random order
  return traits;
}

absl::StatusOr<PopOptions> pop_options(const Parameters& parameters, uint64_t seed) {
  const int64_t groups = parameters.count("pop");
  const std::string& split = parameters.text("split");
  if (groups < 1 || groups > 4096) {
    return invalid(fmt::format("parameter \"pop\": {} groups; from 1 (no split) to 4096", groups));
  }
  if (split != "mod" && split != "random") {
    return invalid(fmt::format("parameter \"split\": \"{}\" is neither mod nor random", split));
  }
  return PopOptions{.groups = static_cast<int>(groups),
                    .split = split == "mod" ? PopOptions::Split::kModulo : PopOptions::Split::kRandom,
                    .seed = seed};
}

// "a=2,b=1": weights of entities.
absl::StatusOr<Hierarchy> hierarchy(const Parameters& parameters) {
  Hierarchy result;
  result.entities = parameters.flag("entities");
  const std::string& inside = parameters.text("inside");
  if (inside != "fairness" && inside != "fifo") {
    return invalid(fmt::format("parameter \"inside\": \"{}\" is neither fairness nor fifo", inside));
  }
  result.inside = inside == "fifo" ? Hierarchy::Inside::kFifo : Hierarchy::Inside::kFairness;
  const std::string& text = parameters.text("entity-weights");
  for (size_t begin = 0; text != "equal" && begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const std::string item = text.substr(begin, end - begin);
    const size_t equal = item.rfind('=');
    char* stop = nullptr;
    const double weight = equal == std::string::npos ? 0 : std::strtod(item.c_str() + equal + 1, &stop);
    if (equal == std::string::npos || *stop != '\0' || !(weight > 0) || weight > 1e12) {
      return invalid(
          fmt::format("parameter \"entity-weights\": \"{}\"; write entity=weight,entity=weight with weights "
                      "above 0, or equal",
                      item));
    }
    result.weights[item.substr(0, equal)] = weight;
    begin = end + 1;
  }
  return result;
}

// Rounds by a rule that `rule_of` makes of how the program is split.
template <class RuleOf>
std::unique_ptr<Policy> rounds_by(const Parameters& parameters, uint64_t seed, Speeds speeds, PolicyTraits traits,
                                  RuleOf rule_of) {
  RoundOptions options = round_options(parameters, seed);
  options.packing = speeds == Speeds::kTrue && parameters.flag("packing");
  options.speeds = speeds;
  options.shuffle_types = speeds != Speeds::kTrue;
  const absl::StatusOr<PopOptions> pop = pop_options(parameters, seed);
  if (!pop.ok()) return std::make_unique<Misconfigured>(pop.status());
  return with_or_without_rounds(parameters, std::make_unique<RoundPolicy>(options, rule_of(*pop), traits));
}

std::unique_ptr<Policy> program_policy(const Parameters& parameters, uint64_t seed, ShareSolver solver, Speeds speeds,
                                       PolicyTraits traits) {
  return rounds_by(parameters, seed, speeds, traits,
                   [&solver](const PopOptions& pop) { return std::make_unique<ProgramRule>(std::move(solver), pop); });
}

template <Speeds speeds>
std::unique_ptr<Policy> max_min(const Parameters& parameters, uint64_t seed) {
  constexpr bool kTrue = speeds == Speeds::kTrue;
  return program_policy(parameters, seed, max_min_shares, speeds, kTrue ? kLeastService : blind(kLeastService));
}

template <Speeds speeds>
std::unique_ptr<Policy> makespan(const Parameters& parameters, uint64_t seed) {
  constexpr bool kTrue = speeds == Speeds::kTrue;
  return program_policy(parameters, seed, makespan_shares, speeds, kTrue ? kKnownLengths : blind(kKnownLengths));
}

template <Speeds speeds>
std::unique_ptr<Policy> finish_time(const Parameters& parameters, uint64_t seed) {
  constexpr bool kTrue = speeds == Speeds::kTrue;
  return rounds_by(parameters, seed, speeds, kTrue ? kKnownLengths : blind(kKnownLengths),
                   [](const PopOptions& pop) { return std::make_unique<FinishTimeRule>(pop); });
}

template <Speeds speeds>
std::unique_ptr<Policy> water_filling(const Parameters& parameters, uint64_t seed) {
  const absl::StatusOr<Hierarchy> levels = hierarchy(parameters);
  if (!levels.ok()) return std::make_unique<Misconfigured>(levels.status());
  const Hierarchy& of = *levels;
  constexpr bool kTrue = speeds == Speeds::kTrue;
  return program_policy(
      parameters, seed, [of](const ShareProblem& problem) { return water_filling_shares(problem, of); }, speeds,
      kTrue ? kLeastService : blind(kLeastService));
}

template <Value value, bool deadlines>
std::unique_ptr<Policy> sum(const Parameters& parameters, uint64_t seed) {
  return program_policy(
      parameters, seed, [](const ShareProblem& problem) { return throughput_shares(problem, value, deadlines); },
      Speeds::kTrue, deadlines ? kKnownLengths : kLeastService);
}

template <Shares (*simple)(const ShareProblem&)>
std::unique_ptr<Policy> simple_shares(const Parameters& parameters, uint64_t seed) {
  RoundOptions options = round_options(parameters, seed);
  options.shuffle_types = true;  // as Gavel has it for names without "Perf"
  auto rule = std::make_unique<ProgramRule>(
      [](const ShareProblem& problem) -> absl::StatusOr<Shares> { return simple(problem); }, PopOptions{});
  return with_or_without_rounds(parameters, std::make_unique<RoundPolicy>(options, std::move(rule), kEqualParts));
}

PolicyInfo entry(std::string name, std::string summary, std::vector<ParameterInfo> parameters, PolicyTraits traits,
                 std::unique_ptr<Policy> (*make)(const Parameters&, uint64_t)) {
  return {.name = std::move(name),
          .family = "shares",
          .summary = std::move(summary),
          .source = "Gavel, OSDI'20",
          .parameters = std::move(parameters),
          .traits = traits,
          .make = make};
}

std::vector<PolicyInfo> fairness_entries() {
  const std::vector<ParameterInfo> levels = {
      {"entities", "false", "flag", "fairness between the jobs' entities first"},
      {"inside", "fairness", "name", "inside an entity: fairness, or fifo (its first job has all its weight)"},
      {"entity-weights", "equal", "name", "a=2,b=1; 1 for those not named"}};
  return {entry("gavel-max-min", "least attained service over GPU types: the worst normalised throughput is largest",
                program_parameters(), kLeastService, max_min<Speeds::kTrue>),
          entry("gavel-max-min-agnostic", "the same, blind to how much faster one GPU type is",
                program_parameters(false), blind(kLeastService), max_min<Speeds::kNone>),
          entry("gavel-water-filling", "max-min to the end: who can rise further does; entities as a hierarchy",
                with(program_parameters(), levels), kLeastService, water_filling<Speeds::kTrue>),
          entry("gavel-water-filling-agnostic", "the same, blind to GPU types", with(program_parameters(false), levels),
                blind(kLeastService), water_filling<Speeds::kNone>),
          entry("gavel-finish-time", "finish-time fairness: the worst slowdown against an isolated share is smallest",
                program_parameters(), kKnownLengths, finish_time<Speeds::kTrue>),
          entry("gavel-finish-time-agnostic", "the same, every type thought as fast as the fastest",
                program_parameters(false), blind(kKnownLengths), finish_time<Speeds::kFastest>)};
}

std::vector<PolicyInfo> sum_entries() {
  return {entry("gavel-makespan", "all jobs done as early as possible", program_parameters(), kKnownLengths,
                makespan<Speeds::kTrue>),
          entry("gavel-makespan-agnostic", "the same, every type thought as fast as the fastest",
                program_parameters(false), blind(kKnownLengths), makespan<Speeds::kFastest>),
          entry("gavel-throughput", "the sum of throughputs is largest", program_parameters(), kLeastService,
                sum<Value::kThroughput, false>),
          entry("gavel-cost", "the sum of throughputs per dollar is largest; needs prices", program_parameters(),
                kLeastService, sum<Value::kThroughputPerDollar, false>),
          entry("gavel-cost-slo", "the same with deadlines; where they cannot all be met, none is kept",
                program_parameters(), kKnownLengths, sum<Value::kThroughputPerDollar, true>),
          entry("gavel-isolated", "everybody has an equal part of every GPU type",
                with(round_parameters(), {ideal_parameter()}), kEqualParts, simple_shares<isolated_shares>),
          entry("gavel-proportional", "everybody has the same share of time, on types by their number",
                with(round_parameters(), {ideal_parameter()}), kEqualParts, simple_shares<proportional_shares>)};
}

}  // namespace

std::vector<PolicyInfo> share_policies() {
  std::vector<PolicyInfo> list = fairness_entries();
  std::vector<PolicyInfo> sums = sum_entries();
  std::move(sums.begin(), sums.end(), std::back_inserter(list));
  return list;
}

}  // namespace scalai::policy
