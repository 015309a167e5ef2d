#include "ptc/cost/step/internal/no_fit.h"

#include <fmt/format.h>

#include <algorithm>

#include "ptc/base/status.h"
#include "ptc/base/units.h"
#include "ptc/cluster/catalogue.h"

namespace scalai::step::internal {
namespace {

constexpr int kMostGpus = 1 << 18;

std::string size_text(double bytes) { return format_bytes(static_cast<int64_t>(bytes)); }

// Points of a space that are all looked at; of a larger one those on most GPUs, where sharing out goes furthest.
constexpr int64_t kAllLookedAt = 50'000;

int least_gpus_looked_at(const ModelShape& model, const SearchSpace& space) {
  int64_t points = 0;
  int most = 0;
  for_each_point(model, space, [&](const Point& point) {
    ++points;
    most = std::max(most, point.gpus());
  });
  return points > kAllLookedAt ? most : 0;
}

LeastMemory least_memory(const ModelShape& model, const SearchSpace& space) {
  LeastMemory least;
  if (!check_space(model, space).ok()) return least;
  const int gpus = least_gpus_looked_at(model, space);
  for_each_point(model, space, [&](const Point& point) {
    if (point.gpus() < gpus) return;
    const collection::ParallelConfig config = config_of(point, space);
    const Training training = training_of(point, space);
    least.consider(point, memory_bytes({model, config, training}));
  });
  return least;
}

class Remedies {
 public:
  Remedies(const ModelShape& model, const SearchSpace& space) : model_(model), space_(space) {}

  std::vector<std::string> all(double least_bytes) {
    recompute(space_);
    micro_batches(space_);
    zero();
    unpin();
    if (found_.empty()) together();
    more_gpus();
    larger_gpus(least_bytes);
    return std::move(found_);
  }

 private:
  // Whether something fits a changed space, which is then said. A space that has no points fits nothing.
  bool try_out(const std::string& what, const SearchSpace& space) {
    const LeastMemory least = least_memory(model_, space);
    const auto limit = static_cast<double>(memory_limit(space));
    if (!least.point || least.bytes > limit) return false;
    found_.push_back(fmt::format("{}: {} needs {} of {}", what, canonical(config_of(*least.point, space)),
                                 size_text(least.bytes), size_text(limit)));
    return true;
  }

  static bool set_full(SearchSpace& space) {
    const auto allowed = space.pins.recompute ? std::vector<Recompute>{*space.pins.recompute} : space.recomputes;
    if (std::count(allowed.begin(), allowed.end(), Recompute::kFull) > 0) return false;
    space.pins.recompute = Recompute::kFull;
    return true;
  }
  static bool set_one_sample(SearchSpace& space) {
    const int least =
        space.pins.micro_batch.value_or(*std::min_element(space.micro_batches.begin(), space.micro_batches.end()));
    if (least == 1) return false;
    space.pins.micro_batch = 1;
    return true;
  }
  static int highest_zero(const SearchSpace& space) {
    return space.pins.zero.value_or(*std::max_element(space.zero_stages.begin(), space.zero_stages.end()));
  }

  void recompute(SearchSpace space) {
    if (set_full(space)) try_out("full recomputation", space);
  }
  void micro_batches(SearchSpace space) {
    if (set_one_sample(space)) try_out("micro-batches of 1 sample", space);
  }
  void zero() {
    for (int stage = highest_zero(space_) + 1; stage <= 3; ++stage) {
      SearchSpace space = space_;
      space.pins.zero = stage;
      if (try_out(fmt::format("ZeRO stage {}", stage), space)) return;
    }
  }
  void unpin() {
    SearchSpace space = space_;
    const Pins& p = space.pins;
    if (!p.tp && !p.pp && !p.dp && !p.cp && !p.ep && !p.etp && !p.vpp && p.stages.empty()) return;
    Pins fewer;
    fewer.zero = p.zero;
    fewer.micro_batch = p.micro_batch;
    fewer.recompute = p.recompute;
    fewer.order = p.order;
    space.pins = fewer;
    try_out("other sizes of the pinned axes", space);
  }
  void together() {
    SearchSpace space = space_;
    const bool changed = static_cast<int>(set_full(space)) + static_cast<int>(set_one_sample(space)) > 0;
    if (changed && try_out("full recomputation and micro-batches of 1 sample", space)) return;
    if (highest_zero(space) == 3) return;
    space.pins.zero = 3;
    try_out("full recomputation, micro-batches of 1 sample and ZeRO stage 3", space);
  }

  // Twice as many, all of them, until something fits.
  void more_gpus() {
    SearchSpace space = space_;
    space.all_gpus = true;
    while (space.gpus <= kMostGpus / 2) {
      space.gpus *= 2;
      if (try_out(fmt::format("{} GPUs", space.gpus), space)) return;
    }
  }

  void larger_gpus(double least_bytes) {
    const cluster::GpuKind* smallest = nullptr;
    for (const std::string& name : cluster::gpu_kind_names()) {
      const cluster::GpuKind* kind = cluster::find_gpu_kind(name);
      if (static_cast<double>(kind->memory_bytes) * (1 - space_.headroom) < least_bytes) continue;
      if (smallest == nullptr || kind->memory_bytes < smallest->memory_bytes) smallest = kind;
    }
    const std::string known =
        smallest == nullptr ? "none is known" : fmt::format("the smallest known is {}", smallest->name);
    found_.push_back(fmt::format("GPUs of {} or more ({})", size_text(least_bytes), known));
  }

  const ModelShape& model_;
  const SearchSpace& space_;
  std::vector<std::string> found_;
};

}  // namespace

void LeastMemory::consider(const Point& one, double needs) {
  const bool less = !point || needs < bytes || (needs == bytes && goes_first(one, *point));
  if (!less) return;
  point = one;
  bytes = needs;
}

NoFit explain(const ModelShape& model, const SearchSpace& space, const LeastMemory& least) {
  SCALAI_CHECK(least.point.has_value(), "a space without points has nothing that fits least badly");
  NoFit no_fit;
  no_fit.nearest.config = config_of(*least.point, space);
  no_fit.nearest.training = training_of(*least.point, space);
  no_fit.nearest.memory_bytes = least.bytes;
  no_fit.memory = memory_of({model, no_fit.nearest.config, no_fit.nearest.training});
  const std::vector<MemoryTerm>& terms = no_fit.memory.worst().terms;
  const auto largest = std::max_element(terms.begin(), terms.end(),
                                        [](const MemoryTerm& a, const MemoryTerm& b) { return a.bytes < b.bytes; });
  const bool margin = largest == terms.end() || largest->bytes < no_fit.memory.margin_bytes;
  no_fit.tightest_term = margin ? "margin" : largest->name;
  no_fit.remedies = Remedies(model, space).all(least.bytes);
  return no_fit;
}

}  // namespace scalai::step::internal
