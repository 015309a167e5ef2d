// Spot policies and the recovery design reshard on random small cases, against small/market_players.h. Seeds 1, 2, …: a
// case each.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "labs/validation/policies/internal/sets.h"
#include "labs/validation/policies/small/market_players.h"
#include "ptc/base/random.h"
#include "ptc/base/status.h"
#include "ptc/run/scenario/trace/tables.h"
#include "sim/jobs/recovery/recovery.h"

namespace scalai::policy::validation {
namespace {

constexpr char kMarketSet[] = "small-markets";
constexpr int kMarketCases = 1000;
constexpr double kEqual_s = 0.01;  // decisions are within a millisecond of the moment they are due

FleetEvent host_event(double at_s, FleetEvent::Kind kind, int64_t host) {
  FleetEvent event;
  event.at_s = at_s;
  event.kind = kind;
  event.hosts = {HostId(host)};
  return event;
}

// Spot at 1 dollar a second and GPU, on demand at 3; the work is half of the time to the deadline, so that the even
// pace is met at whole seconds.
absl::StatusOr<Tally> spot(const std::string& policy, small::SpotRule rule) {
  Tally tally;
  for (int seed = 1; seed <= kMarketCases; ++seed) {
    Random random(static_cast<uint64_t>(seed));
    small::SpotCase one;
    one.work_s = static_cast<int>(random.between(20, 300));
    one.deadline_s = 2 * one.work_s;
    one.change_s = static_cast<int>(random.below(3) * random.below(6));
    Availability availability;
    availability.up = {1, 1};
    for (int at = static_cast<int>(random.below(60)); at < one.deadline_s;
         at += static_cast<int>(random.between(1, 80))) {
      const int to = at + static_cast<int>(random.between(1, 80));
      one.gone.emplace_back(at, to);
      if (at == 0) availability.up[0] = 0;
      if (at > 0) availability.events.push_back(host_event(at, FleetEvent::Kind::kTaken, 0));
      availability.events.push_back(host_event(to, FleetEvent::Kind::kUp, 0));
      at = to;
    }
    Job job;
    job.name = "job";
    job.work = job.duration_s = one.work_s;
    job.deadline_s = one.deadline_s;
    const Workload workload{.name = "one", .jobs = {job}};
    Fleet fleet = fleet_of({{"spot", 1}, {"demand", 1}}, 1);
    fleet.types[0].price_per_gpu_hour = 3600;
    fleet.types[1].price_per_gpu_hour = 3 * 3600;
    const std::unique_ptr<Throughput> throughput = duration_throughput(trace::Beyond::kRefuse);
    PolicyRun run{.policy = policy, .set = {}, .workload = &workload, .fleet = &fleet, .throughput = throughput.get()};
    run.availability = &availability;
    run.change_s = one.change_s;
    SCALAI_ASSIGN_OR_RETURN(const Outcome outcome, run_policy(run));
    const small::SpotStay stay = small::play_spot(rule, one);
    tally.add(stay.end_s, outcome.jobs[0].finish_s, kEqual_s);
    tally.add(stay.spot_s + 3 * stay.demand_s, outcome.jobs[0].cost, 10 * kEqual_s);
  }
  return tally;
}

absl::StatusOr<Tally> chaser() {
  Tally tally;
  for (int seed = 1; seed <= kMarketCases; ++seed) {
    Random random(static_cast<uint64_t>(seed));
    small::ChaserCase one;
    std::vector<std::pair<std::string, int>> types;
    RatesByJob::Rates rates(1);
    for (int64_t k = random.between(2, 4); k > 0; --k) {
      one.per_s.push_back(0.5 + random.uniform() * 2);
      one.price.push_back(0.5 + random.uniform() * 3);
      types.emplace_back(fmt::format("place-{}", types.size()), 1);
      rates[0].push_back({one.per_s.back()});
    }
    one.work = (10 + random.uniform() * 90) * 3600;
    one.change_s = random.below(2) == 0 ? 0 : random.uniform() * 1800;
    const double state_gb = std::floor(random.uniform() * 30);
    one.move_usd = state_gb * 0.1;
    one.stay_s = 3600 * static_cast<double>(random.between(2, 30));
    one.moves_per_day = static_cast<double>(random.between(1, 4));
    Availability availability;
    for (double at_s = 0; at_s < 300 * 3600;) {
      at_s += random.uniform() * 10 * 3600;
      const auto type = static_cast<int>(random.below(static_cast<int64_t>(types.size())));
      one.changes.push_back({.at_s = at_s, .type = type, .price = 0.5 + random.uniform() * 3});
      FleetEvent event;
      event.at_s = at_s;
      event.kind = FleetEvent::Kind::kPrice;
      event.type = GpuType(type);
      event.price = one.changes.back().price;
      availability.events.push_back(event);
    }
    Job job;
    job.name = "job";
    job.work = one.work;
    const Workload workload{.name = "one", .jobs = {job}};
    Fleet fleet = fleet_of(types, 1);
    for (size_t k = 0; k < types.size(); ++k) fleet.types[k].price_per_gpu_hour = one.price[k];
    const RatesByJob throughput(std::move(rates));
    PolicyRun run{.policy = "price-chaser",
                  .set = {fmt::format("state-gb={}", state_gb), "egress=0.1", fmt::format("stay={}s", one.stay_s),
                          fmt::format("moves-per-day={}", one.moves_per_day)},
                  .workload = &workload,
                  .fleet = &fleet,
                  .throughput = &throughput};
    run.availability = &availability;
    run.change_s = one.change_s;
    SCALAI_ASSIGN_OR_RETURN(const Outcome outcome, run_policy(run));
    const small::ChaserStay stay = small::play_chaser(one);
    tally.add(stay.end_s, outcome.jobs[0].finish_s, kEqual_s);
    tally.add(stay.usd, outcome.jobs[0].cost, 1e-6 * stay.usd);
    tally.add(stay.moves, outcome.jobs[0].restarts, 0);
  }
  return tally;
}

// Hosts that come, go with and without notice, and come back.
Availability comes_and_goes(Random& random, int64_t hosts, small::HostsCase& one) {
  std::vector<FleetEvent> events;
  Availability availability;
  for (int64_t h = 0; h < hosts; ++h) {
    small::HostsCase::Host& host = one.hosts.emplace_back();
    availability.up.push_back(0);
    for (int64_t at = random.below(2) * random.below(200); at < one.until_s; at += random.between(1, 200)) {
      const int64_t to = at + random.between(30, 500), notice = random.below(2) * random.between(1, 29);
      host.up.emplace_back(at, to);
      host.notice_s.push_back(static_cast<int>(notice));
      if (at == 0) availability.up.back() = 1;
      if (at > 0) events.push_back(host_event(static_cast<double>(at), FleetEvent::Kind::kUp, h));
      if (notice > 0) {
        events.push_back(host_event(static_cast<double>(to - notice), FleetEvent::Kind::kNotice, h));
        events.back().until_s = static_cast<double>(to);
      }
      events.push_back(
          host_event(static_cast<double>(to), notice > 0 ? FleetEvent::Kind::kTaken : FleetEvent::Kind::kFailed, h));
      at = to;
    }
  }
  std::stable_sort(events.begin(), events.end(),
                   [](const FleetEvent& a, const FleetEvent& b) { return a.at_s < b.at_s; });
  availability.events = std::move(events);
  return availability;
}

jobs::RecoverySetup setup_of(jobs::RecoveryDesign design, const small::HostsCase& one,
                             const Availability& availability) {
  jobs::RecoverySetup setup;
  setup.design = design;
  setup.availability = &availability;
  setup.hosts = static_cast<int>(one.hosts.size());
  setup.until_s = one.until_s;
  setup.samples_per_step = one.step;
  setup.on_notice = on_notice_of(design);
  setup.costs.detect_s = one.detect_s;
  setup.checkpoints.every_s = one.checkpoint_s;
  setup.join_horizon_s = 1e9;
  return setup;
}

// A sample a second and host.
absl::StatusOr<Tally> on_hosts(jobs::RecoveryDesign design) {
  Tally tally;
  for (int seed = 1; seed <= kMarketCases; ++seed) {
    Random random(static_cast<uint64_t>(seed));
    small::HostsCase one{.hosts = {},
                         .detect_s = static_cast<int>(random.below(8)),
                         .change_s = static_cast<int>(random.below(20)),
                         .until_s = 1000,
                         .step = static_cast<int>(random.between(1, 40)),
                         .heeds_notice = jobs::on_notice_of(design) != jobs::OnNotice::kWait};
    if (design == jobs::RecoveryDesign::kCheckpointRestart)
      one.checkpoint_s = static_cast<int>(random.between(10, 100));
    const int64_t hosts = random.between(1, 4);
    const Availability availability = comes_and_goes(random, hosts, one);
    jobs::RecoverySetup setup = setup_of(design, one, availability);
    setup.samples_per_s = [](int count) { return static_cast<double>(count); };
    setup.costs.change_s = [&one](const jobs::HostChange&) { return static_cast<double>(one.change_s); };
    SCALAI_ASSIGN_OR_RETURN(const RecoveryResult result, simulate_recovery(setup));
    tally.add(small::play_hosts(one), result.samples, 1e-6);
  }
  return tally;
}

// A sample a second and host in whole pipelines. Changes take no whole seconds, so that no step ends as a host comes or
// goes; each change multiplies a rounding by `slow`, which is near 1 therefore.
absl::StatusOr<Tally> on_pairs() {
  Tally tally;
  for (int seed = 1; seed <= kMarketCases; ++seed) {
    Random random(static_cast<uint64_t>(seed));
    small::PairsCase one{.row = {.hosts = {},
                                 .detect_s = static_cast<int>(random.below(8)),
                                 .until_s = 1000,
                                 .step = static_cast<int>(random.between(1, 400)),
                                 .checkpoint_s = static_cast<int>(random.between(10, 100))},
                         .stages = static_cast<int>(random.between(1, 5)),
                         .change_s = random.uniform() * 20,
                         .fatal_s = random.uniform() * 40,
                         .slow = 1 + random.uniform() / 4};
    const int64_t hosts = random.between(1, random.below(2) == 0 ? 8 : 80);
    const Availability availability = comes_and_goes(random, hosts, one.row);
    jobs::RecoverySetup setup = setup_of(jobs::RecoveryDesign::kRedundancy, one.row, availability);
    setup.stages = one.stages;
    setup.fallback_slowdown = one.slow;
    setup.samples_per_s = [&one](int count) { return static_cast<double>(count - count % one.stages); };
    setup.costs.change_s = [&one](const jobs::HostChange&) { return one.change_s; };
    setup.costs.fatal_s = one.fatal_s;
    SCALAI_ASSIGN_OR_RETURN(const RecoveryResult result, simulate_recovery(setup));
    tally.add(small::play_pairs(one), result.samples, 1e-6);
  }
  return tally;
}

}  // namespace

Rows small_markets(const std::string& /*data*/) {
  using small::SpotRule;
  std::vector<ReferenceRow> rows;
  for (const auto& [policy, rule] :
       {std::pair("on-demand-only", SpotRule::kOnDemandOnly), std::pair("spot-only", SpotRule::kSpotOnly),
        std::pair("greedy-spot", SpotRule::kGreedy), std::pair("uniform-progress", SpotRule::kUniform)}) {
    SCALAI_ASSIGN_OR_RETURN(const Tally tally, spot(policy, rule));
    tally.rows(kMarketSet, policy, fmt::format("end and cost in {} cases", kMarketCases), "s, $", 1e-4, rows);
  }
  SCALAI_ASSIGN_OR_RETURN(const Tally moves, chaser());
  moves.rows(kMarketSet, "price-chaser", fmt::format("end, cost and moves in {} cases", kMarketCases), "s, $", 1e-6,
             rows);
  for (const auto& [name, design] : {std::pair("checkpoint-restart", jobs::RecoveryDesign::kCheckpointRestart),
                                     std::pair("templates", jobs::RecoveryDesign::kTemplates),
                                     std::pair("reshard", jobs::RecoveryDesign::kReshard)}) {
    SCALAI_ASSIGN_OR_RETURN(const Tally hosts, on_hosts(design));
    hosts.rows(kMarketSet, name, fmt::format("samples kept in {} cases", kMarketCases), "samples", 1e-9, rows);
  }
  SCALAI_ASSIGN_OR_RETURN(const Tally pairs, on_pairs());
  pairs.rows(kMarketSet, "redundancy", fmt::format("samples kept in {} cases", kMarketCases), "samples", 1e-9, rows);
  return rows;
}

}  // namespace scalai::policy::validation
