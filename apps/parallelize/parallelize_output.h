#pragma once
// The output of `scalai parallelize`. Pure functions.

#include <optional>
#include <string>
#include <vector>

#include "apps/parallelize/host_traffic.h"
#include "apps/parallelize/parallelize_request.h"
#include "ptc/base/screen.h"

namespace scalai::apps {

struct Parallelized {
  step::SearchResult result;
  // With --from: the step time of the unchanged layout, or the reason why it is impossible.
  std::optional<double> stay_step_s;
  std::string no_stay;
  std::string too_late;                        // pay-off: the reason why no change fits the horizon
  std::shared_ptr<const HostTraffic> traffic;  // with --offload: of the best one
  std::vector<std::string> no_change;          // by candidate: the reason why it cannot be reached; "" = it can …
  int not_planned = 0;                         // … or was not planned: results without a change, and without a reason
};

// Configurations, best first, one per line; with `explain` also memory and step of the best one, term by term. Format
// "table", "json" or "csv".
std::string parallelize_text(const ParallelizeRequest& request, const Parallelized& found, const std::string& format,
                             bool explain, const Screen& screen = {});

// The message that no configuration fits: the tightest limit and the remedies. For stderr; JSON contains it as well.
std::string no_fit_text(const ParallelizeRequest& request, const step::NoFit& no_fit);

}  // namespace scalai::apps
