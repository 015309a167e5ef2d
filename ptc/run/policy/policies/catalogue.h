#pragma once
// The catalogue of policies by name, with their parameters: the values of `policy { name set }` in a scenario and the
// table of `scalai policies`. Any thread may call the functions; a made policy is used by one thread.

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "ptc/run/policy/policy.h"

namespace scalai::policy {

struct ParameterInfo {
  std::string name;           // "round"
  std::string default_value;  // "360s"
  // Type of its text: "time" ("360s"), "count", "flag" (true, false), "name" (free text), "fleet|fastest" (one of these
  // words), "number" (any sign). Any other unit ("GPU-hours", "share") means a number >= 0 of that unit.
  std::string unit;
  std::string help;  // one line
};

// Values of all parameters of a policy, defaults filled in. Units as in scenarios (ptc/base/units.h).
class Parameters {
 public:
  explicit Parameters(std::vector<std::pair<std::string, std::string>> values);
  // CHECK in all: the policy has the parameter, and its text is of this type (make_policy has checked it).
  double number(const std::string& name) const;
  double seconds(const std::string& name) const;
  int64_t count(const std::string& name) const;
  bool flag(const std::string& name) const;                // "true", "false"
  const std::string& text(const std::string& name) const;  // lives as long as the object

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
  std::function<std::unique_ptr<Policy>(const Parameters& parameters, uint64_t seed)> make;
};

// All policies by family, in the order of the documentation; static storage.
const std::vector<PolicyInfo>& policies();

// What to tell about a policy of labs/policies if this build leaves labs out; "" for any other name.
std::string left_out(const std::string& name);

// Makes a policy. `set` holds "name=value". InvalidArgument: an unknown policy or parameter (with the closest name), a
// policy that is left out, or a malformed value; all problems at once.
absl::StatusOr<std::unique_ptr<Policy>> make_policy(const std::string& name, std::span<const std::string> set,
                                                    uint64_t seed);

// The policies of each family.
std::vector<PolicyInfo> order_policies();    // order/
std::vector<PolicyInfo> share_policies();    // shares/: linear programs and rounds
std::vector<PolicyInfo> goodput_policies();  // goodput/: goodput and deadlines
std::vector<PolicyInfo> spot_policies();     // spot/: price and availability
// Those of labs/policies, which defines it; none in a build without labs (no_labs.cpp). The catalogue has their names
// and places.
std::vector<PolicyInfo> lab_policies();

}  // namespace scalai::policy
