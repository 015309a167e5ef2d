#include "apps/parallelize/parallelize_request.h"
#include "ptc/cluster/catalogue.h"
#include "ptc/cost/step/software.h"
#include "ptc/store/naming/family.h"

namespace scalai::apps {
namespace {

template <size_t N>
std::vector<std::string> choices(const std::array<std::string_view, N>& names) {
  return {names.begin(), names.end()};
}

std::vector<OptionSpec> what_trains() {
  return {
      suggesting(text_option("model", "NAME|FILE", "Catalogue model, or the path of a config.json."),
                 store::model_names()),
      count_option("global-batch", "N", "Samples a step."),
      count_option("sequence", "TOKENS", "Tokens a sample (the model's longest if not given)."),
      choice_option("precision", "P", "Training precision.", step::precision_names(), "bf16"),
      suggesting(text_option("software", "NAME",
                             "The program that trains, as in megatron-core-0.16 or torchtitan: kernels, overlap and "
                             "number formats of its recipes where the options below do not say them (what users of "
                             "such GPUs run today if not given)."),
                 step::software_names()),
      choice_option("gradients", "P",
                    "Number format of gradients (that of --software, or of the precision, if not given).",
                    step::gradient_names(), ""),
      choice_option("optimizer", "O", "Optimizer whose state is kept.", model::optimizer_names(), "adam"),
      choice_option("schedule", "S",
                    "Pipeline schedule; 1f1b is interleaved where vpp is larger than 1. zb: zero bubble, with the "
                    "activations of 1f1b or twice as many.",
                    {"1f1b", "gpipe", "2bw", "zb-1p", "zb-2p", "dualpipe"}, "1f1b"),
      choice_option("overlap", "O", "What tensor-parallel collectives run beside (that of --software if not given).",
                    choices(step::kOverlapNames), ""),
      choice_option("dp-overlap", "O",
                    "What of data parallelism runs beside the work: sums of gradients, or all, gathered parameters "
                    "included (that of --software if not given). Megatron-LM hides nothing unless asked.",
                    choices(step::kDataOverlapNames), ""),
      count_option("bucket", "N",
                   "Parameters of a bucket of gradients (max(40 million, 1 million a rank of dp) if not given)."),
      choice_option("kernels", "K",
                    "Kernels of a layer: PyTorch's own steps, fused ones, or fused ones with NVIDIA's libraries of "
                    "autumn 2024 and later; early: fused, with flash attention of the first generation (that of "
                    "--software if not given).",
                    choices(step::kKernelNames), ""),
      choice_option("dispatch", "D",
                    "How tokens get to their experts: a copy for each expert (NCCL), or once to each host and GPU "
                    "(DeepEP, HybridEP); that of --software if not given.",
                    choices(step::kDispatchNames), ""),
      flag_option("expert-overlap", "Tokens go to their experts and back beside the work of another micro-batch."),
      text_option("imbalance", "TIMES",
                  "Tokens of the rank of experts that has the most, over the mean (1 if not given, as benchmarks force "
                  "it)."),
      count_option("mtp", "N", "Further tokens that are predicted, each by a layer and the head (DeepSeek-V3: 1)."),
      text_option("lora", "RANK",
                  "Adapters of this rank are trained alone, beside all matrices but those of experts; 16,qkv: beside "
                  "queries, keys and values alone."),
      choice_option("loss", "L",
                    "Kernels of the loss: one for each operation, compiled ones, or one each way that keeps 16 bits "
                    "(that of --software if not given).",
                    choices(step::kLossNames), ""),
      flag_option("grouped-experts",
                  "Products of all experts of a GPU are one kernel (PyTorch's grouped_mm), not one each."),
      flag_option("cuda-graphs", "Whole steps are CUDA graphs: the host launches nothing kernel by kernel."),
      flag_option("no-flash-attention", "Attention keeps its scores."),
      flag_option("no-sequence-parallel", "Tensor parallelism leaves norms and residuals whole."),
      flag_option("partial-batches", "dp need not divide the global batch; the last micro-batches are short."),
      text_option("batch-tolerance", "SHARE",
                  "The global batch may change by less than this share of it, as in 0.02, so that dp and micro-batch "
                  "divide it.")};
}

std::vector<OptionSpec> on_what() {
  return {
      count_option(
          "gpus", "N",
          "GPUs that there are, of fewer the fastest (if not given, the ranks of --layout, or all of --cluster)."),
      suggesting(text_option("gpu", "KIND", "Their kind, in hosts with one network card a GPU or as known."),
                 cluster::gpu_kind_names()),
      suggesting(text_option("host", "KIND", "Or the kind of their hosts, or a cloud instance."),
                 cluster::host_kind_names()),
      text_option("cluster", "FILE", "Or a cluster file; GPUs and hosts may differ."),
      count_option("gpus-per-host", "N", "GPUs of each host (as the kind has, 8 if that is not known)."),
      count_option("nics", "N", "Network cards of each host."),
      text_option("nic", "RATE", "Bandwidth of each card and direction, as in 400Gbps."),
      bytes_option("memory", "SIZE", "Memory of a GPU that may be used (96 % of it if not given, with --layout all)."),
      text_option("devices", "DEVICES",
                  "Devices that may be used (if not given: those of --from that live, then further ones).")};
}

std::vector<OptionSpec> where_from() {
  return {
      text_option("from", "LAYOUT", "Configuration the job is in, as in tp8,pp4,dp2."),
      text_option("from-devices", "DEVICES", "Its devices in rank order (from 0 if not given)."),
      text_option("fail", "DEVICES", "Devices of --from that are lost with what they hold."),
      flag_option("storage", "What nobody holds is read from a checkpoint; steps since then are not counted."),
      text_option("storage-read", "RATE",
                  "What the storage of --storage delivers to all readers together, as in 10GB/s (that of --cluster if "
                  "not given).")};
}

std::vector<OptionSpec> what_is_searched() {
  return {
      choice_option("objective", "O",
                    "What is best: the shortest step, the least money or energy a sample, or most samples within "
                    "--horizon, the change from --from included.",
                    {"throughput", "cost", "energy", "pay-off"}, "throughput"),
      seconds_option("horizon", "TIME",
                     "How long a configuration is thought to last, for --objective=pay-off (1h if not given)."),
      flag_option("any-gpus", "Fewer GPUs than there are may be best; where kinds differ, the fastest ones are taken."),
      text_option("pin", "LAYOUT", "Axes that keep the size given here, as in tp8,cp1; the others are searched."),
      text_option("layout", "LAYOUT", "Price this configuration alone."),
      answered_by(
          "scalai-bounds",
          bytes_option(
              "offload", "SIZE",
              "State and activations that stay on a GPU; the rest of --layout lies in the host's memory. Prints the "
              "host traffic of a step: the least of any order, and the schedule's.")),
      list_option("micro-batches", "N,…", "Samples a micro-batch that are tried (1,2,4,8,16 if not given)."),
      list_option("recompute", "R,…",
                  "Recomputation that is tried (none, selective and full if not given). Further: full-first-N and "
                  "full-every-N, whole layers of each chunk; op, every other product and what is cheap; modules joined "
                  "by \"+\", of core_attn, layernorm, moe_act, mlp, moe."),
      list_option("zero", "N,…",
                  "ZeRO stages that are tried, 0 to 3 (1, or that of --software, and that of --from, if not given)."),
      choice_option("planner", "P", "Whose equations choose: ours, or those of PipeDream-2BW.",
                    {"scalai", "pipedream-2bw"}, "scalai")};
}

std::vector<OptionSpec> how_it_is_printed() {
  return {count_option("top", "N", "Configurations that are printed.", "10"),
          formerly(
              flag_option("breakdown",
                          "Also the best one's memory, term by term and stage by stage, and what its step is made of."),
              {"explain"}),
          format_option()};
}

}  // namespace

std::vector<OptionSpec> parallelize_options() {
  return joined({what_trains(), on_what(), where_from(), what_is_searched(), how_it_is_printed()});
}

}  // namespace scalai::apps
