// The parallelizer's choice against every configuration there is, each one's step simulated.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

#include "ptc/base/testing/share.h"
#include "ptc/cost/step/search.h"
#include "sim/simulated_step_time.h"
#include "sim/testing/iteration_fixture.h"

namespace scalai::sim {
namespace {

using step::ModelShape;
using step::Recompute;
using step::SearchSpace;
using step::Training;
using testing::cluster_of;
using testing::HostSizes;

struct Pair {
  std::string model, gpu;
  int hosts = 1;
  HostSizes host;
  int global_batch = 64, sequence = 2048;
};

constexpr HostSizes kFast = {.gpus = 8, .nics = 8, .nic_bytes_per_s = 50e9};
constexpr HostSizes kMedium = {.gpus = 8, .nics = 4, .nic_bytes_per_s = 25e9};
constexpr HostSizes kSlow = {.gpus = 4, .nics = 1, .nic_bytes_per_s = 12.5e9};

std::vector<Pair> pairs() {
  return {
      {"gpt3-xl", "v100-16g", 2, kSlow},
      {"gpt3-xl", "a100-40g", 1, kMedium},
      {"gpt3-2.7b", "v100-32g", 2, kSlow},
      {"gpt3-2.7b", "v100-16g", 4, kSlow},
      {"gpt3-2.7b", "a100-80g", 2, kMedium},
      {"gpt3-6.7b", "v100-32g", 4, kSlow},
      {"gpt3-6.7b", "a100-40g", 2, kMedium},
      {"gpt3-6.7b", "a100-80g", 4, kFast},
      {"gpt3-13b", "a100-40g", 4, kMedium},
      {"gpt3-13b", "a100-80g", 2, kSlow, 32},
      {"gpt3-13b", "h100-80g", 8, kFast, 128},
      {"llama3-8b", "h100-80g", 1, kFast, 32, 8192},
      {"llama3-8b", "a100-80g", 2, kMedium, 32, 8192},
      {"llama3-8b", "a100-40g", 4, kSlow, 32, 4096},
      {"llama3-8b", "h100-80g", 4, kMedium, 64, 4096},
      {"llama3-70b", "h100-80g", 4, kFast, 64, 4096},
      {"llama3-70b", "h100-80g", 8, kMedium, 64, 8192},
      {"llama3-70b", "h200-141g", 4, kFast, 32, 8192},
      {"mixtral-8x7b", "h100-80g", 2, kFast, 32, 4096},
      {"mixtral-8x7b", "a100-80g", 4, kMedium, 64, 4096},
      {"llama3-8b", "a6000-48g", 4, kSlow, 32, 4096},
  };
}

// Everything that divides and fits, by the same rules as the search: tensor parallelism inside a host, ZeRO-1.
class AllConfigurations {
 public:
  AllConfigurations(const ModelShape& model, const SearchSpace& space) : model_(model), space_(space) {}

  std::vector<std::pair<collection::ParallelConfig, Training>> list() {
    for (int tp = 1; tp <= space_.host.gpus; ++tp) {
      for (int pp = 1; pp <= model_.layers; ++pp) {
        for (int cp = 1; cp <= space_.gpus; ++cp) {
          if (space_.gpus % (tp * pp * cp) == 0) add_experts({.tp = tp, .pp = pp, .dp = 0, .cp = cp, .zero = 1});
        }
      }
    }
    return std::move(found_);
  }

 private:
  void add_experts(collection::ParallelConfig config) {
    config.dp = space_.gpus / (config.tp * config.pp * config.cp);
    for (config.ep = 1; config.ep <= std::max(1, model_.experts); ++config.ep) {
      for (config.vpp = 1; config.vpp * config.pp <= model_.layers; ++config.vpp) {
        if (config.vpp > 1 && (config.pp == 1 || model_.layers % (config.pp * config.vpp) != 0)) continue;
        add_trainings(config);
      }
    }
  }

  void add_trainings(const collection::ParallelConfig& config) {
    for (const int micro_batch : space_.micro_batches) {
      for (const Recompute recompute : space_.recomputes) {
        Training training = space_.base;
        training.micro_batch = micro_batch;
        training.recompute = recompute;
        const step::Workload workload{model_, config, training};
        if (!step::check_workload(workload).ok()) continue;
        if (step::memory_bytes(workload) > static_cast<double>(space_.host.gpu.memory_bytes)) continue;
        found_.emplace_back(config, training);
      }
    }
  }

  const ModelShape& model_;
  const SearchSpace& space_;
  std::vector<std::pair<collection::ParallelConfig, Training>> found_;
};

double simulated_s(const ModelShape& model, const collection::ParallelConfig& config, const Training& training,
                   const change::Platform& platform, const cluster::Cluster& cluster) {
  const std::vector<DeviceId> devices = testing::devices_from(0, config.world());
  const step::StepParts parts =
      step::step_parts({model, config, training}, step::hardware_of(cluster, config, devices));
  const IterationJob job{.config = config, .schedule = training.schedule, .devices = devices, .parts = {&parts, 1}};
  return simulate_iterations(platform, {}, {&job, 1}).step_s.front();
}

// No step is shorter than any stage's work.
double least_s(const ModelShape& model, const collection::ParallelConfig& config, const Training& training,
               const SearchSpace& space) {
  const step::StepParts parts = step::step_parts({model, config, training}, step::uniform_hardware(space.host, config));
  double longest = 0;
  for (const step::StageWork& stage : parts.stages) {
    double seconds = 0;
    for (const auto& chunk : stage.forward) seconds += chunk.compute_s();
    for (const auto& chunk : stage.backward) seconds += chunk.compute_s();
    longest = std::max(longest, parts.micro_batches * seconds + stage.optimizer_s);
  }
  return longest;
}

TEST(SearchAgainstSimulation, TheChoiceIsWithinFivePercentOfTheBest) {
  ASSERT_GE(pairs().size(), 20u);
  size_t index = 0;
  for (const Pair& pair : pairs()) {
    if (!in_share(index++, 3)) continue;
    const cluster::Cluster cluster = cluster_of(pair.gpu, pair.hosts, pair.host);
    const change::Platform platform(cluster);
    const ModelShape model = step::shape_of(model::find_model(pair.model).value());
    SearchSpace space{.gpus = cluster.device_count(), .host = cluster.hosts.front()};
    space.base = {.global_batch = pair.global_batch, .sequence = pair.sequence};
    SCOPED_TRACE(fmt::format("{} on {} {}, batch {} of {} tokens", pair.model, space.gpus, pair.gpu, pair.global_batch,
                             pair.sequence));
    const absl::StatusOr<step::SearchResult> result = step::search(model, space);
    ASSERT_TRUE(result.ok()) << message_of(result.status());
    ASSERT_FALSE(result->best.empty());
    const step::Candidate& choice = result->best.front();
    const double chosen_s = simulated_s(model, choice.config, choice.training, platform, cluster);
    double best_s = chosen_s;
    std::string best = "the choice";
    bool listed = false;
    int simulated = 0;
    const auto all = AllConfigurations(model, space).list();
    for (const auto& [config, training] : all) {
      listed = listed || (config == choice.config && training.micro_batch == choice.training.micro_batch);
      if (least_s(model, config, training, space) >= best_s) continue;
      ++simulated;
      const double step_s = simulated_s(model, config, training, platform, cluster);
      if (step_s >= best_s) continue;
      best_s = step_s;
      best = fmt::format("{} micro-batch {} recompute {}", canonical(config), training.micro_batch,
                         name_of(training.recompute));
    }
    EXPECT_TRUE(listed) << canonical(choice.config);
    EXPECT_LE(chosen_s, 1.05 * best_s) << canonical(choice.config) << " micro-batch " << choice.training.micro_batch
                                       << " takes " << chosen_s << " s, " << best << " " << best_s << " s";
    fmt::print(stderr, "{:<12} {:>3} {:<10} {:>5} fit, {:>4} simulated; {} {:.4f} s, best {} {:.4f} s: {:+.2f} %\n",
               pair.model, space.gpus, pair.gpu, all.size(), simulated, canonical(choice.config), chosen_s, best,
               best_s, 100 * (chosen_s / best_s - 1));
  }
}

}  // namespace
}  // namespace scalai::sim
