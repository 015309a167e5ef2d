#include "apps/common/model_options.h"
#include "apps/parallelize/parallelize_request.h"

namespace scalai::apps {
namespace {

std::vector<OptionSpec> what_trains() {
  return {{.name = "model", .value_name = "NAME", .help = "Catalogue model, or the path of a config.json."},
          {.name = "global-batch", .type = ValueType::kCount, .value_name = "N", .help = "Samples a step."},
          {.name = "sequence",
           .type = ValueType::kCount,
           .value_name = "TOKENS",
           .help = "Tokens a sample (the model's longest if not given)."},
          {.name = "precision",
           .type = ValueType::kChoice,
           .value_name = "P",
           .help = "Training precision.",
           .default_value = "bf16",
           .choices = parallel::precision_names()},
          {.name = "optimizer",
           .type = ValueType::kChoice,
           .value_name = "O",
           .help = "Optimizer whose state is kept.",
           .default_value = "adam",
           .choices = {"adam", "sgd"}},
          {.name = "schedule",
           .type = ValueType::kChoice,
           .value_name = "S",
           .help = "Pipeline schedule; 1f1b is interleaved where vpp is larger than 1.",
           .default_value = "1f1b",
           .choices = {"1f1b", "gpipe", "2bw"}},
          {.name = "overlap",
           .type = ValueType::kChoice,
           .value_name = "O",
           .help = "What tensor-parallel collectives run beside.",
           .default_value = "weight-gradients",
           .choices = {"none", "weight-gradients", "all"}},
          {.name = "no-flash-attention", .type = ValueType::kFlag, .help = "Attention keeps its scores."},
          {.name = "no-sequence-parallel",
           .type = ValueType::kFlag,
           .help = "Tensor parallelism leaves norms and residuals whole."},
          {.name = "partial-batches",
           .type = ValueType::kFlag,
           .help = "dp need not divide the global batch; the last micro-batches are short."}};
}

std::vector<OptionSpec> on_what() {
  return {
      {.name = "gpus",
       .type = ValueType::kCount,
       .value_name = "N",
       .help = "GPUs that there are, of fewer the fastest (if not given, the ranks of --layout, or all of --cluster)."},
      {.name = "gpu", .value_name = "KIND", .help = "Their kind, in hosts with one network card a GPU or as known."},
      {.name = "host", .value_name = "KIND", .help = "Or the kind of their hosts, or a cloud instance."},
      {.name = "cluster", .value_name = "FILE", .help = "Or a cluster file; GPUs and hosts may differ."},
      {.name = "gpus-per-host",
       .type = ValueType::kCount,
       .value_name = "N",
       .help = "GPUs of each host (as the kind has, 8 if that is not known)."},
      {.name = "nics", .type = ValueType::kCount, .value_name = "N", .help = "Network cards of each host."},
      {.name = "nic", .value_name = "RATE", .help = "Bandwidth of each card and direction, as in 400Gbps."},
      {.name = "memory",
       .type = ValueType::kBytes,
       .value_name = "SIZE",
       .help = "Memory of a GPU that may be used (all of it if not given)."},
      {.name = "devices",
       .value_name = "DEVICES",
       .help = "Devices that may be used (if not given: those of --from that live, then further ones)."}};
}

std::vector<OptionSpec> where_from() {
  return {{.name = "from", .value_name = "LAYOUT", .help = "Configuration the job is in, as in tp8,pp4,dp2."},
          {.name = "from-devices", .value_name = "DEVICES", .help = "Its devices in rank order (from 0 if not given)."},
          {.name = "fail", .value_name = "DEVICES", .help = "Devices of --from that are lost with what they hold."}};
}

std::vector<OptionSpec> what_is_searched() {
  return {{.name = "objective",
           .type = ValueType::kChoice,
           .value_name = "O",
           .help = "What is best: the shortest step, the least money or energy a sample, or most samples within "
                   "--horizon, the change from --from included.",
           .default_value = "throughput",
           .choices = {"throughput", "cost", "energy", "pay-off"}},
          {.name = "horizon",
           .type = ValueType::kSeconds,
           .value_name = "TIME",
           .help = "How long a configuration is thought to last, for --objective=pay-off (1h if not given)."},
          {.name = "any-gpus",
           .type = ValueType::kFlag,
           .help = "Fewer GPUs than there are may be best; where kinds differ, the fastest ones are taken."},
          {.name = "pin",
           .value_name = "LAYOUT",
           .help = "Axes that keep the size given here, as in tp8,cp1; the others are searched."},
          {.name = "layout", .value_name = "LAYOUT", .help = "Price this configuration alone."},
          {.name = "micro-batches",
           .type = ValueType::kList,
           .value_name = "N,…",
           .help = "Samples a micro-batch that are tried (1,2,4,8,16 if not given)."},
          {.name = "recompute",
           .type = ValueType::kList,
           .value_name = "R,…",
           .help = "Recomputation that is tried (none, selective and full if not given).",
           .choices = {"none", "selective", "full"}},
          {.name = "zero",
           .type = ValueType::kList,
           .value_name = "N,…",
           .help = "ZeRO stages that are tried, 0 to 3 (1, and that of --from, if not given)."},
          {.name = "planner",
           .type = ValueType::kChoice,
           .value_name = "P",
           .help = "Whose equations choose: ours, or those of PipeDream-2BW.",
           .default_value = "scalai",
           .choices = {"scalai", "pipedream-2bw"}}};
}

}  // namespace

std::vector<OptionSpec> parallelize_options() {
  std::vector<OptionSpec> options;
  for (const auto& part : {what_trains(), on_what(), where_from(), what_is_searched()})
    options.insert(options.end(), part.begin(), part.end());
  options.push_back({.name = "top",
                     .type = ValueType::kCount,
                     .value_name = "N",
                     .help = "Configurations that are printed.",
                     .default_value = "10"});
  options.push_back(
      {.name = "explain",
       .type = ValueType::kFlag,
       .help = "Also the best one's memory, term by term and stage by stage, and what its step is made of."});
  options.push_back(format_option());
  return options;
}

}  // namespace scalai::apps
