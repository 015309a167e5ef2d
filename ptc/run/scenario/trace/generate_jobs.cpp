#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "ptc/base/status.h"
#include "ptc/run/scenario/trace/gavel_table.h"
#include "ptc/run/scenario/trace/internal/draws.h"
#include "ptc/run/scenario/trace/internal/generators.h"

namespace scalai::trace {
namespace {

constexpr int64_t kMostJobs = 10000000;

struct Share {
  int gpus;
  double share;
};

// One of them by its share of the sum.
int drawn(Random& random, const std::vector<Share>& shares) {
  double sum = 0;
  for (const Share& share : shares) sum += share.share;
  double left = random.uniform() * sum;
  for (const Share& share : shares) {
    left -= share.share;
    if (left < 0) return share.gpus;
  }
  return shares.back().gpus;
}

struct GavelFamily {
  const char* name;
  std::vector<int> batches;  // empty: the type has no batch size
  bool distributed;          // runs on more than one GPU
};

// The 26 job types of Gavel's job table.
const std::vector<GavelFamily>& gavel_families() {
  static const std::vector<GavelFamily> families{
      {"ResNet-18", {16, 32, 64, 128, 256}, true},
      {"ResNet-50", {16, 32, 64, 128}, true},
      {"Transformer", {16, 32, 64, 128, 256}, true},
      {"LM", {5, 10, 20, 40, 80}, true},
      {"Recommendation", {512, 1024, 2048, 4096, 8192}, false},
      {"CycleGAN", {}, false},
      {"A3C", {}, false},
  };
  return families;
}

struct GavelType {
  std::string name;
  int64_t batch = 0;
  bool distributed = false;
};

std::vector<GavelType> gavel_types() {
  std::vector<GavelType> types;
  for (const GavelFamily& family : gavel_families()) {
    if (family.batches.empty()) types.push_back({family.name, 0, family.distributed});
    for (const int batch : family.batches) {
      types.push_back({fmt::format("{} (batch size {})", family.name, batch), batch, family.distributed});
    }
  }
  return types;
}

class GavelJobs {
 public:
  explicit GavelJobs(Making& making) : making_(making) {
    jobs_ = making.options.count("jobs", 1, kMostJobs, making.problems);
    interval_s_ = making.options.seconds("interval", making.problems);
    multi_gpu_ = making.options.choice("multi-gpu", {"true", "false"}, making.problems) == "true";
    slo_ = making.options.choice("slo", {"true", "false"}, making.problems) == "true";
    priorities_ = making.options.choice("priorities", {"true", "false"}, making.problems) == "true";
  }

  absl::Status make() {
    if (making_.options.given("throughputs")) {
      SCALAI_ASSIGN_OR_RETURN(const GavelTable table, read_gavel_table(making_.options.text("throughputs")));
      const auto found = table.find(making_.options.text("reference"));
      if (found == table.end()) {
        return invalid(fmt::format("gavel-continuous: reference: the table has no worker type {}",
                                   in_quotes(making_.options.text("reference"))));
      }
      SCALAI_RETURN_IF_ERROR(find_candidates(&found->second));
    } else {
      making_.made.summary.notes.push_back("work is in seconds on the reference GPU: no throughputs given");
      SCALAI_RETURN_IF_ERROR(find_candidates(nullptr));
    }
    double at_s = 0;
    for (int64_t i = 0; i < jobs_; ++i) {
      policy::Job job = draw();
      job.name = fmt::format("job-{}", i);
      job.submit_s = at_s;
      if (slo_) job.deadline_s = at_s + slo_ratio() * job.duration_s;
      if (interval_s_ > 0) at_s = milliseconds(at_s + exponential(making_.random, interval_s_));
      making_.made.workload.jobs.push_back(std::move(job));
    }
    making_.made.summary.rows = jobs_;
    return absl::OkStatus();
  }

 private:
  policy::Job draw() {
    Random& random = making_.random;
    const int gpus = multi_gpu_ ? drawn(random, {{1, .70}, {2, .10}, {4, .15}, {8, .05}}) : 1;
    const bool is_long = random.uniform() >= 0.8;
    const double exponent = is_long ? 3 + random.uniform() : 1.5 + 1.5 * random.uniform();
    const double seconds = std::max(1.0, std::round(60 * std::pow(10, exponent)));
    const auto& candidates = candidates_.at(gpus);
    const auto& [type, rate] = candidates[static_cast<size_t>(random.below(static_cast<int64_t>(candidates.size())))];
    policy::Job job = duration_job("", 0, gpus, seconds);
    job.type = type.name;
    job.batch = type.batch;
    job.work = std::max(1.0, std::floor(seconds * rate));
    if (priorities_ && random.uniform() < 0.2) job.weight = 5;
    return job;
  }

  // The types that run on so many GPUs, with the rate run times count in.
  absl::Status find_candidates(const std::map<GavelKey, GavelRates>* rates) {
    for (const int gpus : multi_gpu_ ? std::vector<int>{1, 2, 4, 8} : std::vector<int>{1}) {
      for (const GavelType& type : gavel_types()) {
        if (gpus > 1 && !type.distributed) continue;
        double rate = 1;
        if (rates != nullptr) {
          const auto found = rates->find(GavelKey{type.name, gpus});
          rate = found == rates->end() ? 0 : found->second.alone;
        }
        if (rate > 0) candidates_[gpus].emplace_back(type, rate);
      }
      if (!candidates_[gpus].empty()) continue;
      return invalid(fmt::format("gavel-continuous: throughputs: the table has no job type of so many GPUs: {}", gpus));
    }
    return absl::OkStatus();
  }

  double slo_ratio() {
    constexpr std::array kRatios{1.2, 2.0, 10.0};
    return kRatios[static_cast<size_t>(making_.random.below(3))];
  }

  Making& making_;
  int64_t jobs_;
  double interval_s_;
  bool multi_gpu_, slo_, priorities_;
  std::map<int, std::vector<std::pair<GavelType, double>>> candidates_;
};

absl::Status make_gavel(Making& making) {
  GavelJobs jobs(making);
  if (!making.problems.empty()) return making.problems.status();
  return jobs.make();
}

// Sizes and run times as Philly's 80,390 jobs have them (shared data/philly): sizes by their shares, run times
// lognormal with their median of 1,144 s and mean of 13,136 s, at most their 53.6 days.
absl::Status make_philly(Making& making) {
  const int64_t jobs = making.options.count("jobs", 1, kMostJobs, making.problems);
  const double interval_s = making.options.seconds("interval", making.problems);
  const int64_t tenants = making.options.count("vcs", 1, 10000, making.problems);
  if (!making.problems.empty()) return making.problems.status();
  const std::vector<Share> sizes{{1, 75473}, {2, 1650}, {4, 1679}, {8, 1350}, {12, 7},
                                 {16, 199},  {24, 7},   {32, 16},  {64, 6},   {128, 3}};
  const double sigma = std::sqrt(2 * std::log(13136.0 / 1144.0));
  constexpr double kLongest = 53.6 * 86400;
  double at_s = 0;
  for (int64_t i = 0; i < jobs; ++i) {
    const double seconds = std::round(1144 * std::exp(sigma * normal(making.random)));
    policy::Job job =
        duration_job(fmt::format("job-{}", i), at_s, drawn(making.random, sizes), std::clamp(seconds, 1.0, kLongest));
    job.entity = fmt::format("vc-{}", making.random.below(tenants));
    making.made.workload.jobs.push_back(std::move(job));
    if (interval_s > 0) at_s = milliseconds(at_s + exponential(making.random, interval_s));
  }
  making.made.summary.rows = jobs;
  return absl::OkStatus();
}

}  // namespace

std::vector<Generator> job_generators() {
  return {
      {{"gavel-continuous",
        TraceContent::kJobs,
        "Poisson arrivals of Gavel's 26 job types; run times 10^1.5 to 10^4 min, GPUs 1, 2, 4 or 8",
        "Gavel, OSDI'20, section 7.3 (scheduler/utils.py of its repository)",
        {{"jobs", "500", "how many"},
         {"interval", "562.5s", "mean time between arrivals; 0 = all at once"},
         {"multi-gpu", "true", "false: every job has one GPU"},
         {"slo", "false", "true: deadlines of 1.2, 2 or 10 run times"},
         {"priorities", "false", "true: a fifth of the jobs has weight 5"},
         {"throughputs", "", "a Gavel throughput table: work in iterations at its rates"},
         {"reference", "v100", "worker type whose rate run times count in"}}},
       make_gavel},
      {{"philly-like",
        TraceContent::kJobs,
        "Poisson arrivals, 93 % one-GPU jobs, heavy-tailed run times",
        "shares of Philly's jobs (Jeon et al., ATC'19)",
        {{"jobs", "10000", "how many"},
         {"interval", "117s", "mean time between arrivals; 0 = all at once"},
         {"vcs", "15", "virtual clusters the jobs belong to"}}},
       make_philly},
  };
}

}  // namespace scalai::trace
