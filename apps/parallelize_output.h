#pragma once
// What `scalai parallelize` prints.

#include <optional>
#include <string>
#include <vector>

#include "apps/parallelize_request.h"

namespace scalai::apps {

struct Parallelized {
  parallel::SearchResult result;
  // With --from: what stays as it is costs a step, or why it cannot stay.
  std::optional<double> stay_step_s;
  std::string no_stay;
  std::string too_late;                // pay-off: why nothing is left, where no change fits the horizon
  std::vector<std::string> no_change;  // by candidate: why it cannot be reached; "" = it can
};

// One a line: the configurations, best first; with `explain` memory and step of the best one, term by term.
// Format "table", "json" or "csv".
std::string parallelize_text(const ParallelizeRequest& request, const Parallelized& found, const std::string& format,
                             bool explain);

// That nothing fits: what is tightest and what would help. For stderr; JSON has it as well.
std::string no_fit_text(const ParallelizeRequest& request, const parallel::NoFit& no_fit);

}  // namespace scalai::apps
