#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <utility>

#include "apps/common/output.h"
#include "apps/parallelize/host_traffic.h"
#include "apps/parallelize/parallelize_change.h"
#include "apps/parallelize/parallelize_output.h"
#include "apps/parallelize/parallelize_request.h"
#include "apps/parallelize/two_bw_output.h"
#include "ptc/base/progress.h"
#include "ptc/base/status.h"
#include "ptc/base/units.h"

namespace scalai::apps {
namespace {

using collection::ParallelConfig;

// A step of the old configuration as it is, with the micro-batch and recomputation that suit it best.
void price_staying(const ParallelizeRequest& request, Parallelized& found) {
  const OldState& old = *request.from;
  if (!old.can_stay) {
    int left = 0;
    for (const DeviceId device : old.devices)
      left += static_cast<int>(std::count(request.devices.begin(), request.devices.end(), device));
    found.no_stay = fmt::format("it cannot stay, {} of its {} GPUs are left", left, old.devices.size());
    return;
  }
  step::SearchSpace space = request.space;
  space.pins = step::pins_of(old.config);
  space.gpus = old.config.world();
  space.all_gpus = true;
  space.headroom = 0;  // it runs
  space.keep = 1;
  space.objective = step::Objective::kThroughput;
  space.change = nullptr;
  space.explain_idle = false;
  space.hardware = [&](const ParallelConfig& config) { return hardware_on(request, config, old.devices); };
  const auto stay = step::search(request.shape, space);
  if (!stay.ok()) {
    found.no_stay = fmt::format("it cannot stay: {}", message_of(stay.status()));
  } else if (stay->best.empty()) {
    found.no_stay = fmt::format("it cannot stay, it needs {} of memory",
                                format_bytes(static_cast<int64_t>(stay->no_fit->nearest.memory_bytes)));
  } else {
    found.stay_step_s = step::even_step_s(space, stay->best.front());
  }
}

// A plan for 16,384 GPUs takes some ten seconds: the best few have one.
int64_t most_plans(const ParallelizeRequest& request) {
  constexpr int64_t kMostPlannedRanks = 65'536;
  return std::max<int64_t>(1, kMostPlannedRanks / std::max(1, request.space.gpus));
}

// Plans how the job gets to each candidate; micro-batch and recomputation move nothing.
class Changes {
 public:
  explicit Changes(const ChangePlanner& planner) : planner_(planner) {}

  const absl::StatusOr<step::Change>& to(const ParallelConfig& config) {
    // How many will be asked for is not known before: the bar never quite gets there.
    return to(config, 1 - 1 / (1 + static_cast<double>(made_.size()) / 3));
  }
  const absl::StatusOr<step::Change>& to(const ParallelConfig& config, double progress) {
    const std::string name = canonical(config);
    const auto known = made_.find(name);
    if (known != made_.end()) return known->second;
    progress_.update(progress, name);
    return made_.emplace(name, planner_.to(config)).first->second;
  }
  bool knows(const ParallelConfig& config) const { return made_.count(canonical(config)) > 0; }
  int64_t planned() const { return std::ssize(made_); }

  // Of those that were planned and are possible; absent = none is.
  std::optional<std::pair<double, std::string>> shortest() const {
    std::optional<std::pair<double, std::string>> found;
    for (const auto& [name, change] : made_) {
      if (change.ok() && (!found || change->reconfiguration_s < found->first))
        found = {change->reconfiguration_s, name};
    }
    return found;
  }

 private:
  const ChangePlanner& planner_;
  Progress progress_{"planning changes"};
  std::map<std::string, absl::StatusOr<step::Change>> made_;
};

void price_changes(const ParallelizeRequest& request, Changes& changes, Parallelized& found) {
  const int64_t most = most_plans(request);
  for (step::Candidate& candidate : found.result.best) {
    if (changes.planned() >= most && !changes.knows(candidate.config)) {
      found.no_change.emplace_back();
      ++found.not_planned;
      continue;
    }
    const double done = static_cast<double>(found.no_change.size()) / static_cast<double>(found.result.best.size());
    const absl::StatusOr<step::Change>& change = changes.to(candidate.config, done);
    found.no_change.push_back(change.ok() ? "" : message_of(change.status()));
    if (!change.ok()) continue;
    candidate.change = *change;
    if (found.stay_step_s)
      candidate.pay_off_steps = step::pay_off_steps(*found.stay_step_s, step::even_step_s(request.space, candidate),
                                                    change->reconfiguration_s);
  }
}

// Pay-off: a change that takes longer than the horizon leads to no step within it.
void drop_too_late(const ParallelizeRequest& request, const Changes& changes, Parallelized& found) {
  std::vector<step::Candidate>& best = found.result.best;
  const bool some = !best.empty();
  std::erase_if(best, [](const step::Candidate& one) { return !std::isfinite(one.score); });
  if (!some || !best.empty()) return;
  const auto shortest = changes.shortest();
  SCALAI_CHECK(shortest.has_value(), "candidates without changes");
  found.too_late = fmt::format("no change fits the horizon of {}: the shortest, from {} to {}, takes {}",
                               format_seconds(request.space.horizon_s), canonical(request.from->config),
                               shortest->second, format_seconds(shortest->first));
}

absl::StatusOr<Parallelized> find_best(ParallelizeRequest& request) {
  Parallelized found;
  if (!request.uniform) {
    request.space.hardware = [&](const ParallelConfig& config) {
      return hardware_on(request, config, devices_of(request, config));
    };
  }
  if (!request.from) {
    SCALAI_ASSIGN_OR_RETURN(found.result, step::search(request.shape, request.space));
    return found;
  }
  price_staying(request, found);
  SCALAI_ASSIGN_OR_RETURN(const ChangePlanner planner, ChangePlanner::create(request));
  Changes changes(planner);
  request.space.stay_step_s = found.stay_step_s;
  // By pay-off each result needs its plan.
  if (request.space.objective == step::Objective::kPayOff)
    request.space.keep = static_cast<int>(std::min<int64_t>(request.space.keep, most_plans(request)));
  request.space.change = [&](const step::Candidate& candidate) {
    const absl::StatusOr<step::Change>& change = changes.to(candidate.config);
    return change.ok() ? std::optional<step::Change>(*change) : std::nullopt;
  };
  SCALAI_ASSIGN_OR_RETURN(found.result, step::search(request.shape, request.space));
  drop_too_late(request, changes, found);
  price_changes(request, changes, found);
  return found;
}

absl::StatusOr<Parallelized> find(ParallelizeRequest& request) {
  Progress progress("pricing");
  request.space.progress = [&](int64_t looked_at, int64_t points) {
    progress.update(static_cast<double>(looked_at) / static_cast<double>(points), fmt::format("{} points", points));
  };
  absl::StatusOr<Parallelized> found = find_best(request);
  request.space.progress = nullptr;
  return found;
}

// Host traffic of the best one, which is that of --layout.
absl::Status find_traffic(FindHostTraffic find, const ParallelizeRequest& request, Parallelized& found) {
  if (request.offload_bytes == 0 || found.result.best.empty()) return absl::OkStatus();
  const step::Candidate& best = found.result.best.front();
  SCALAI_ASSIGN_OR_RETURN(found.traffic, find({request.shape, best.config, best.training}, request.offload_bytes));
  return absl::OkStatus();
}

int report_unreachable(const ParallelizeRequest& request) {
  const auto planner = ChangePlanner::create(request);
  if (!planner.ok()) return report_error(planner.status());
  std::fputs(
      fmt::format("scalai parallelize: error: no configuration can be reached from {} without the lost devices\n",
                  canonical(request.from->config))
          .c_str(),
      stderr);
  return kInvalidExit;
}

int parallelize(const Arguments& arguments, FindHostTraffic find_host_traffic) {
  Problems problems("parallelize");
  const bool pipedream = arguments.text("planner") == "pipedream-2bw";
  for (const char* option : {"from", "pin", "layout", "breakdown", "zero", "recompute", "cluster", "offload"}) {
    if (pipedream && arguments.has(option))
      problems.malformed(
          fmt::format("--{} does not go with --planner=pipedream-2bw, whose equations do without", option));
  }
  std::optional<ParallelizeRequest> request = read_parallelize_request(arguments, problems);
  if (!request) return problems.report();
  const std::string format = arguments.text("format");
  if (pipedream) return two_bw(*request, format);
  absl::StatusOr<Parallelized> found = find(*request);
  if (found.ok()) {
    const absl::Status traffic = find_traffic(find_host_traffic, *request, *found);
    if (!traffic.ok()) problems.misfit("--offload: " + message_of(traffic));
    if (!traffic.ok()) return problems.report();
  }
  if (!found.ok()) {
    problems.status("", found.status());
    return problems.report();
  }
  const bool explain = arguments.flag("breakdown");
  if (!found->result.best.empty()) {
    print(parallelize_text(*request, *found, format, explain, stdout_screen()));
    if (format == "table")
      note_terms(
          "of GPU = share of its memory; bubble = share of the step in which pipeline stages wait",
          "--breakdown shows memory and step of the best one; scalai plan --from=… --to=LAYOUT shows the way to it");
    return 0;
  }
  if (!found->too_late.empty()) {
    std::fputs(fmt::format("scalai parallelize: error: {}; {}\n", found->too_late,
                           found->no_stay.empty() ? "staying as it is was not among what is searched" : found->no_stay)
                   .c_str(),
               stderr);
    return kInvalidExit;
  }
  if (!found->result.no_fit) return report_unreachable(*request);
  say("{}", no_fit_text(*request, *found->result.no_fit));
  if (format == "json") print(parallelize_text(*request, *found, format, explain));
  return kInvalidExit;
}

}  // namespace

Command parallelize_command(FindHostTraffic find) {
  return {
      {.name = "parallelize",
       .summary = "choose tp, pp, dp, cp, ep, … for a model on so many GPUs, and say how long a step takes",
       .usage = "scalai parallelize --model=NAME --gpus=N --gpu=KIND --global-batch=N [OPTION…]",
       .description =
           R"(Prices every way to share out a model's training over the GPUs, and prints the best ones that fit their
memory: time of a step, tokens a second and GPU, MFU, memory, bubble. With --from also how long it takes to
get there from where the job is (the exact plan, as `scalai plan` makes it), and after how many steps that
has paid off against staying.

--pin keeps axes as they are, --layout prices one configuration. Unless pinned, tensor parallelism stays in
a host, optimizer state is shared out (ZeRO stage 1, and that of --from), and micro-batch and recomputation
are searched. When nothing fits, the nearest configuration, its largest term and what would help are named;
then the exit code is 3.

--objective=cost and energy may leave GPUs idle, as --any-gpus does; hosts with the fastest GPUs are taken
first. --planner=pipedream-2bw takes the cost
and memory equations of that system's planner (width and depth alone) instead of ours. CSV has a line a
configuration, with --breakdown a line a term of the best one's memory, with --offload a line a stage.

--offload=SIZE is the state and activations of --layout that stay on each GPU; the rest lies in its host's memory.
It prints what any order of a step must move between both, and what the schedule moves.)",
       .options = parallelize_options(),
       .examples =
           {("scalai parallelize --model=llama3-70b --gpus=64 --gpu=h100-80g --gpus-per-host=8 "
             "--global-batch=1024 --sequence=8192"),
            ("scalai parallelize --model=llama3-70b --gpus=56 --gpu=h100-80g --global-batch=1024 "
             "--from=tp8,pp4,dp2 --fail=8-15 --objective=pay-off --horizon=6h"),
            "scalai parallelize --model=llama3-8b --cluster=cluster.textproto --global-batch=256 --pin=tp4",
            ("scalai parallelize --model=gpt3-175b --host=dgx-h100 --layout=tp8,pp8,dp2,zero1 --global-batch=512 "
             "--breakdown"),
            ("scalai parallelize --model=llama3-8b --gpu=h100-80g --layout=tp1 --global-batch=8 --micro-batches=1 "
             "--recompute=full --offload=40GiB"),
            ("scalai parallelize --model=./config.json --gpus=64 --gpu=v100-16g --global-batch=512 "
             "--planner=pipedream-2bw")}},
      [find](const Arguments& arguments) { return parallelize(arguments, find); }};
}

}  // namespace scalai::apps
