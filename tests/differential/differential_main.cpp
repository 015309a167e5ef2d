// plan_differential: random planning cases against the oracle.

#include <fmt/format.h>

#include <charconv>
#include <cstdio>
#include <optional>
#include <string_view>

#include "tests/differential/check.h"

namespace scalai::differential {
namespace {

constexpr std::string_view kUsage =
    "usage: plan_differential [--cases=N] [--seed=S]   N cases (2000) and N/10 there and back, from seed S (1)\n"
    "       plan_differential --case=SEED              one case again, as both\n";

struct Totals {
  int64_t cases = 0, round_trips = 0, drawn = 0, elements = 0, transfers = 0, refused = 0, infeasible = 0;
};

bool run_one(uint64_t seed, bool round_trip, Totals& totals) {
  const DifferentialCase drawn = round_trip ? make_round_trip(seed) : make_case(seed);
  const Outcome outcome = round_trip ? check_round_trip(drawn) : check_case(drawn);
  (round_trip ? totals.round_trips : totals.cases) += 1;
  totals.drawn += drawn.drawn;
  totals.elements += drawn.elements();
  totals.transfers += outcome.transfers;
  totals.refused += outcome.refused ? 1 : 0;
  totals.infeasible += outcome.infeasible ? 1 : 0;
  if (outcome.wrong.empty()) return true;
  fmt::print("{}\n{} FAILED: {}\nagain: plan_differential --case={}\n", drawn.str(),
             round_trip ? "there and back" : "case", outcome.wrong, seed);
  return false;
}

std::optional<uint64_t> number_after(std::string_view argument, std::string_view option) {
  if (argument.substr(0, option.size()) != option) return std::nullopt;
  argument.remove_prefix(option.size());
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(argument.data(), argument.data() + argument.size(), number);
  const bool whole = error == std::errc() && end == argument.data() + argument.size();
  return whole ? std::optional(number) : std::nullopt;
}

int run(int argc, char** argv) {
  uint64_t cases = 2000, seed = 1;
  std::optional<uint64_t> again;
  for (int i = 1; i < argc; ++i) {
    const auto count = number_after(argv[i], "--cases="), start = number_after(argv[i], "--seed=");
    const auto one = number_after(argv[i], "--case=");
    if (!count && !start && !one) {
      fmt::print(stderr, "{}", kUsage);
      return 2;
    }
    cases = count.value_or(cases);
    seed = start.value_or(seed);
    if (one) again = one;
  }
  Totals totals;
  bool good = true;
  if (again) {
    good = run_one(*again, false, totals);
    good = run_one(*again, true, totals) && good;
  }
  for (uint64_t i = 0; i < cases && !again && good; ++i) {
    const uint64_t case_seed = seed_of_case(seed, i);
    good = run_one(case_seed, false, totals);
    if (good && i % 10 == 0) good = run_one(case_seed, true, totals);
  }
  fmt::print(
      "{} cases and {} there and back (of {} drawn), {} elements, {} transfers, {} caps raised, {} infeasible; "
      "seed {}: {}\n",
      totals.cases, totals.round_trips, totals.drawn, totals.elements, totals.transfers, totals.refused,
      totals.infeasible, seed, good ? "all agree" : "FAILED");
  return good ? 0 : 1;
}

}  // namespace
}  // namespace scalai::differential

int main(int argc, char** argv) { return scalai::differential::run(argc, argv); }
