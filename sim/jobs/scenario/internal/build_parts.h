#pragma once
// The parts of a scenario for the engine, each checked and built by one function. They report to `source` and build
// what they can.

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "ptc/run/scenario/scenario_parts.h"
#include "sim/jobs/scenario/engine_parts.h"

namespace scalai::scenario::internal {

struct PartsContext {
  const proto::Scenario& message;
  Source& source;
  Context& common;
  Scenario& scenario;
  ManyJobs& many;
  EngineParts& parts;
};

// "name=value" texts of a `set` list, each name once. Unknown names and repeated ones are reported at their place.
class SetValues {
 public:
  // A known name that ends in "." stands for all names that begin so ("model.bert").
  SetValues(Source& source, const std::string& path, const std::vector<std::string>& set,
            const std::vector<std::string>& known);
  bool has(const std::string& name) const { return at_.count(name) != 0; }
  std::string text(const std::string& name, const std::string& otherwise = "") const;
  // The place of a value: "policy.set[2]".
  std::string path(const std::string& name) const;
  const std::map<std::string, std::pair<std::string, int>>& all() const { return at_; }

  double seconds(const std::string& name, double otherwise);
  double positive(const std::string& name, double otherwise);
  int64_t count(const std::string& name, int64_t otherwise);
  bool flag(const std::string& name, bool otherwise);

 private:
  Source& source_;
  std::string path_;
  std::map<std::string, std::pair<std::string, int>> at_;  // value, index
};

void build_throughputs(PartsContext& context);
void build_metrics(PartsContext& context);
void build_changes(PartsContext& context);
void build_recovery(PartsContext& context);

// The costs of a strategy as ptc/run/policy takes them.
jobs::ChangeStrategy change_strategy(const std::string& name, const std::vector<CostOverride>& overrides);

}  // namespace scalai::scenario::internal
