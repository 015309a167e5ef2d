#pragma once
// Policies by name, with their parameters: what a scenario's `policy { name set }` may say and `scalai policies` lists.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "ptc/sched/policy.h"

namespace scalai::sched {

struct ParameterInfo {
  std::string name;           // "round"
  std::string default_value;  // "360s"
  // How its text is read: "time" ("360s"), "count", "flag" (true, false), "name" (free text), "fleet|fastest" (one of
  // these words), "number" (any sign); any other unit is a number >= 0 of that unit: "GPU-hours", "share".
  std::string unit;
  std::string help;  // one line
};

// Values of a policy's parameters: all of them, defaults filled in. Units as in scenarios (ptc/base/units.h).
class Parameters {
 public:
  explicit Parameters(std::vector<std::pair<std::string, std::string>> values);
  // The parameter must be one of the policy's; its text was checked before (parameter_problem).
  double number(const std::string& name) const;
  double seconds(const std::string& name) const;
  int64_t count(const std::string& name) const;
  bool flag(const std::string& name) const;  // "true", "false"
  const std::string& text(const std::string& name) const;

 private:
  std::vector<std::pair<std::string, std::string>> values_;
};

struct PolicyInfo {
  std::string name;     // "srtf", "gavel-max-min"
  std::string family;   // "order", "shares", "goodput", "deadline", "spot"
  std::string summary;  // one line
  std::string source;   // "Tiresias, NSDI'19"
  std::vector<ParameterInfo> parameters;
  PolicyTraits traits;
  std::unique_ptr<Policy> (*make)(const Parameters& parameters, uint64_t seed);
};

// All of them, by family, in the order they are documented.
const std::vector<PolicyInfo>& policies();

// `set` holds "name=value". Errors: unknown policy or parameter (with the closest), a value that is none: all problems
// at once.
absl::StatusOr<std::unique_ptr<Policy>> make_policy(const std::string& name, std::span<const std::string> set,
                                                    uint64_t seed);

// What each family contributes.
std::vector<PolicyInfo> order_policies();    // order/
std::vector<PolicyInfo> share_policies();    // shares/: linear programs and rounds
std::vector<PolicyInfo> goodput_policies();  // goodput/: goodput and deadlines
std::vector<PolicyInfo> spot_policies();     // spot/: price and availability

}  // namespace scalai::sched
