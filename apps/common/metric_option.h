#pragma once
// --metric=NAME=EXPR of sim and sweep: a metric of the user, as a setting of the scenario.

#include <fmt/format.h>

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ptc/base/status.h"

namespace scalai::apps {

// InvalidArgument: a name or an expression is missing; a setting without a value would leave the metric out.
inline absl::StatusOr<std::vector<std::string>> metric_settings(const std::vector<std::string>& texts) {
  std::vector<std::string> settings;
  for (const std::string& text : texts) {
    const size_t equals = text.find('=');
    if (equals == 0 || equals == std::string::npos || text.find_first_not_of(' ', equals + 1) == std::string::npos)
      return invalid(fmt::format("--metric={} defines no metric: write it like --metric=\"slow=mean(ftf > 1)\"", text));
    settings.push_back("metrics.set." + text);
  }
  return settings;
}

}  // namespace scalai::apps
