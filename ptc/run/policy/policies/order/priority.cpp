#include "ptc/run/policy/policies/order/priority.h"

#include "ptc/run/policy/policies/order/by_length.h"
#include "ptc/run/policy/policies/order/ordered.h"

namespace scalai::policy::order {
namespace {

class ByWeight : public Order {
 public:
  double key(const View& view, JobId id) override { return -view.job(id).weight; }
};

constexpr PolicyTraits kTraits = {.preemptive = true, .work_conserving = true};

std::unique_ptr<Policy> make_priority(const Parameters& parameters, uint64_t) {
  OrderedOptions options{.mode = parameters.flag("preempt") ? FillMode::kPreemptive : FillMode::kBackfill};
  options.fastest = parameters.text("types") == "fastest";
  PolicyTraits traits = kTraits;
  traits.preemptive = options.mode == FillMode::kPreemptive;
  return make_ordered(std::make_unique<ByWeight>(), options, traits);
}

}  // namespace

std::vector<PolicyInfo> priority_policies() {
  const ParameterInfo preempt{.name = "preempt",
                              .default_value = "true",
                              .unit = "flag",
                              .help = "stop running jobs of less weight for a job that waits"};
  return {{.name = "priority",
           .family = "order",
           .summary = "largest weight first, then first come, first served; preemptive",
           .source = "Kubernetes, Pod Priority and Preemption",
           .parameters = {types_parameter(), preempt},
           .traits = kTraits,
           .make = make_priority}};
}

}  // namespace scalai::policy::order
