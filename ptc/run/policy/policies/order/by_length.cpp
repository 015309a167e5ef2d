#include "ptc/run/policy/policies/order/by_length.h"

#include "ptc/run/policy/policies/order/ordered.h"

namespace scalai::policy::order {
namespace {

class BySubmission : public Order {
 public:
  double key(const View&, JobId) override { return 0; }
};

// By the whole run time at the size asked for.
class ByDuration : public Order {
 public:
  double key(const View& view, JobId id) override {
    const Job& job = view.job(id);
    const double remaining = remaining_s(view, id);
    const double done = view.progress(id).work_done;
    return done == 0 ? remaining : remaining * job.work / (job.work - done);
  }
};

// By what is left of it, by itself or times GPUs.
class ByRemaining : public Order {
 public:
  explicit ByRemaining(bool times_gpus) : times_gpus_(times_gpus) {}
  double key(const View& view, JobId id) override {
    return remaining_s(view, id) * (times_gpus_ ? view.job(id).gpus : 1);
  }
  double fall_per_s(const Job& job) const override { return times_gpus_ ? job.gpus : 1; }

 private:
  bool times_gpus_;
};

OrderedOptions options_of(const Parameters& parameters, FillMode mode) {
  OrderedOptions options{.mode = mode};
  options.fastest = parameters.text("types") == "fastest";
  return options;
}

constexpr PolicyTraits kFifo = {.slices = true};
constexpr PolicyTraits kBackfill = {.work_conserving = true, .slices = true};
constexpr PolicyTraits kShortest = {.elastic = true, .work_conserving = true, .needs_durations = true, .slices = true};
constexpr PolicyTraits kRemaining = {
    .preemptive = true, .elastic = true, .work_conserving = true, .needs_durations = true};

std::unique_ptr<Policy> make_fifo(const Parameters& parameters, uint64_t) {
  return make_ordered(std::make_unique<BySubmission>(), options_of(parameters, FillMode::kStrict), kFifo);
}

std::unique_ptr<Policy> make_backfill(const Parameters& parameters, uint64_t) {
  OrderedOptions options = options_of(parameters, FillMode::kBackfill);
  options.pack_at = parameters.number("packing");
  PolicyTraits traits = kBackfill;
  traits.slices = options.pack_at <= 0;
  return make_ordered(std::make_unique<BySubmission>(), options, traits);
}

std::unique_ptr<Policy> make_sjf(const Parameters& parameters, uint64_t) {
  OrderedOptions options = options_of(parameters, FillMode::kBackfill);
  options.elastic = parameters.flag("elastic");
  PolicyTraits traits = kShortest;
  traits.slices = !options.elastic;
  return make_ordered(std::make_unique<ByDuration>(), options, traits);
}

template <bool kTimesGpus>
std::unique_ptr<Policy> make_remaining(const Parameters& parameters, uint64_t) {
  OrderedOptions options = options_of(parameters, FillMode::kPreemptive);
  options.elastic = parameters.flag("elastic");
  return make_ordered(std::make_unique<ByRemaining>(kTimesGpus), options, kRemaining);
}

}  // namespace

ParameterInfo types_parameter() {
  return {.name = "types",
          .default_value = "fleet",
          .unit = "fleet|fastest",
          .help = "of several GPU types with room the first in the fleet, or the one the job is fastest on"};
}

std::vector<PolicyInfo> length_policies() {
  const ParameterInfo elastic{.name = "elastic",
                              .default_value = "false",
                              .unit = "flag",
                              .help = "give max_gpus or what is left of it, not what was asked for or nothing"};
  const ParameterInfo packing{
      .name = "packing",
      .default_value = "0",
      .unit = "share",
      .help =
          "a waiting job shares a running one's GPUs if both together keep so much of their rates "
          "(Gavel: 1.5); 0 = never"};
  return {{.name = "fifo",
           .family = "order",
           .summary = "first come, first served; while the head of the line does not fit, nobody starts",
           .source = "",
           .parameters = {types_parameter()},
           .traits = kFifo,
           .make = make_fifo},
          {.name = "fifo-backfill",
           .family = "order",
           .summary = "first come, first served; any job that fits starts",
           .source = "packing: Gavel, OSDI'20",
           .parameters = {types_parameter(), packing},
           .traits = kBackfill,
           .make = make_backfill},
          {.name = "sjf",
           .family = "order",
           .summary = "shortest run time first, without preemption; what does not fit is passed over",
           .source = "elastic: AFS, NSDI'21",
           .parameters = {types_parameter(), elastic},
           .traits = kShortest,
           .make = make_sjf},
          {.name = "srtf",
           .family = "order",
           .summary = "shortest remaining time first, preemptive at arrivals and completions",
           .source = "elastic: AFS, NSDI'21",
           .parameters = {types_parameter(), elastic},
           .traits = kRemaining,
           .make = make_remaining<false>},
          {.name = "srsf",
           .family = "order",
           .summary = "smallest remaining GPU time (remaining time x GPUs) first, preemptive",
           .source = "Tiresias, NSDI'19; elastic: AFS, NSDI'21",
           .parameters = {types_parameter(), elastic},
           .traits = kRemaining,
           .make = make_remaining<true>}};
}

}  // namespace scalai::policy::order
