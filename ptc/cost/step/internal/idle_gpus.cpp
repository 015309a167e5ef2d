#include "ptc/cost/step/internal/idle_gpus.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdlib>

#include "ptc/cost/step/internal/search_space.h"

namespace scalai::step::internal {
namespace {

// Of a step: a smaller gain by another batch is not worth a remark.
constexpr double kNotedGain = 0.1;

// A larger configuration that is better, but for the batch; "" = none.
std::string with_another_batch(const ModelShape& model, const SearchSpace& space, int used) {
  if (!space.base.whole_batches || space.batch_tolerance >= kTriedTolerance) return "";
  if (space.objective != Objective::kThroughput && space.objective != Objective::kPayOff) return "";
  SearchSpace looser = space;
  looser.batch_tolerance = kTriedTolerance;
  looser.least_gpus = used + 1;
  looser.objective = Objective::kThroughput;
  looser.explain_idle = false;
  looser.progress = nullptr;
  looser.keep = 1;
  const absl::StatusOr<SearchResult> found = search(model, looser);
  if (!found.ok() || found->best.empty()) return "";
  const Candidate& larger = found->best.front();
  const int batch = larger.training.global_batch, wanted = space.base.global_batch;
  if (larger.config.world() <= used || batch == wanted) return "";
  return fmt::format(
      "; {} on {} GPUs would be faster, but dp {} · micro-batch {} does not divide the batch of {} (with "
      "batch_tolerance {:g}: {} would)",
      canonical(larger.config), larger.config.world(), larger.config.dp, larger.training.micro_batch, wanted,
      tolerance_for(batch, wanted), batch);
}

// All GPUs have to be used, and a layout that does not divide the batch would be much faster; "" = none.
std::string with_a_faster_batch(const ModelShape& model, const SearchSpace& space, const Candidate& best) {
  if (!space.base.whole_batches || space.batch_tolerance >= kTriedTolerance || !space.all_gpus) return "";
  if (space.objective != Objective::kThroughput) return "";
  SearchSpace looser = space;
  looser.batch_tolerance = kTriedTolerance;
  looser.explain_idle = false;
  looser.progress = nullptr;
  looser.keep = 1;
  const int wanted = space.base.global_batch;
  bool others = false;
  for_each_point(model, looser, [&](const Point& point) { others = others || batch_of(point, looser) != wanted; });
  if (!others) return "";
  const absl::StatusOr<SearchResult> found = search(model, looser);
  if (!found.ok() || found->best.empty()) return "";
  const Candidate& faster = found->best.front();
  const int batch = faster.training.global_batch;
  const double step_s = even_step_s(looser, faster), best_s = even_step_s(space, best);
  if (batch == wanted || step_s > (1 - kNotedGain) * best_s) return "";
  return fmt::format(
      "{} would take {:.0f} % less time for as many samples, but dp {} · micro-batch {} does not divide the batch of "
      "{} "
      "(with batch_tolerance {:g}: {} would)",
      canonical(faster.config), 100 * (1 - step_s / best_s), faster.config.dp, faster.training.micro_batch, wanted,
      tolerance_for(batch, wanted), batch);
}

}  // namespace

std::string why_idle(const ModelShape& model, const SearchSpace& space, const Candidate& best) {
  const int used = best.config.world();
  if (used >= space.gpus) return with_a_faster_batch(model, space, best);
  bool larger = false;
  SearchSpace above = space;
  above.least_gpus = used + 1;
  for_each_point(model, above, [&](const Point&) { larger = true; });
  const std::string others =
      used + 1 < space.gpus ? fmt::format("of {} to {}", used + 1, space.gpus) : fmt::format("of {}", space.gpus);
  const std::string reason = larger ? fmt::format("layouts {} are {}, or do not fit", others, worse_by(space.objective))
                                    : fmt::format("no valid layout {}", others);
  return fmt::format("{} of {} GPUs: {}{}", used, space.gpus, reason, with_another_batch(model, space, used));
}

}  // namespace scalai::step::internal
