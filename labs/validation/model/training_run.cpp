#include "labs/validation/model/training_run.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <limits>

#include "labs/validation/model/internal/printed.h"
#include "ptc/base/status.h"
#include "ptc/cluster/catalogue.h"
#include "ptc/cost/step/hardware.h"
#include "ptc/cost/step/memory.h"
#include "ptc/cost/step/step_time.h"
#include "ptc/store/naming/family.h"

namespace scalai::step::validation {
namespace {

constexpr int kLargestMicroBatch = 64;

template <class Value>
void take(absl::StatusOr<Value> value, const std::string& column, RowReader& row, Value& into) {
  if (value.ok()) {
    into = *std::move(value);
  } else {
    row.problem(column, message_of(value.status()));
  }
}

Training read_training(RowReader& row, TrainingRun& run) {
  Training training;
  training.global_batch = row.count("batch");
  training.sequence = row.count("sequence");
  run.search_micro_batch = row.text("micro_batch", "1") == "search";
  training.micro_batch = run.search_micro_batch ? 1 : row.count("micro_batch", 1);
  take(find_precision(row.text("precision", "bf16")), "precision", row, training.precision);
  take(find_schedule(row.text("schedule", "1f1b")), "schedule", row, training.schedule);
  take(find_recompute(row.text("recompute", "none")), "recompute", row, training.recompute);
  training.sequence_parallel = row.flag("sequence_parallel", true);
  training.flash_attention = row.flag("flash", true);
  take(find_kernels(row.text("kernels", "fused")), "kernels", row, training.kernels);
  take(find_framework(row.text("framework", "megatron")), "framework", row, training.framework);
  take(find_data_overlap(row.text("overlap", "all")), "overlap", row, training.data_overlap);
  take(find_dispatch(row.text("dispatch", "all-to-all")), "dispatch", row, training.dispatch);
  if (row.has("loss")) take(find_loss(row.text("loss", "")), "loss", row, training.loss.emplace());
  training.expert_overlap = row.flag("expert_overlap", false);
  training.cuda_graphs = row.flag("cuda_graphs", false);
  training.grouped_experts = row.flag("grouped_experts", false);
  training.imbalance = row.number("imbalance", 1);
  training.mtp = row.count("mtp", 0);
  training.lora = row.count("lora", 0);
  training.lora_qkv = row.flag("lora_qkv", false);
  training.offloaded_layers = row.count("offloaded_layers", 0);
  Recompute offloaded;
  take(find_recompute(row.text("offloaded_modules", "none")), "offloaded_modules", row, offloaded);
  training.offloaded_modules = offloaded.modules;
  training.bucket = static_cast<int64_t>(row.number("bucket", 0));
  if (row.has("gradients"))
    take(find_gradient_bytes(row.text("gradients")), "gradients", row, training.precision.gradient_bytes);
  training.precision.optimizer_bytes = row.number("optimizer_bytes", training.precision.optimizer_bytes);
  take(find_overlap(row.text("tensor_overlap", "weight-gradients")), "tensor_overlap", row, training.overlap);
  return training;
}

void read_config(RowReader& row, TrainingRun& run) {
  collection::ParallelConfig& config = run.config;
  config.tp = row.count("tp", 1);
  config.pp = row.count("pp", 1);
  config.cp = row.count("cp", 1);
  config.ep = row.count("ep", 1);
  config.etp = row.count("etp", 1);
  config.zero = row.count("zero", 0);
  run.search_vpp = row.text("vpp", "1") == "search";
  config.vpp = run.search_vpp ? 1 : row.count("vpp", 1);
  if (row.has("stages")) {  // as layouts have them
    const auto given =
        collection::parse_layout_fields(fmt::format("pp{},vpp{},stages={}", config.pp, config.vpp, row.text("stages")));
    if (given.ok())
      config.stages = given->config.stages;
    else
      row.problem("stages", "layers of each virtual stage, as in 8:8:5");
  }
  const int gpus = row.count("gpus");
  const int one_replica = config.tp * config.pp * config.cp;
  if (one_replica > 0 && gpus > 0 && gpus % one_replica == 0) {
    config.dp = gpus / one_replica;
  } else if (row.ok()) {
    row.problem("gpus", fmt::format("{} GPUs are no multiple of tp·pp·cp = {}", gpus, one_replica));
  }
}

std::vector<int> micro_batches_of(const TrainingRun& run) {
  if (!run.search_micro_batch) return {run.training.micro_batch};
  std::vector<int> sizes;
  for (int size = 1; size <= kLargestMicroBatch; size *= 2) {
    if (run.training.global_batch % (run.config.dp * size) == 0) sizes.push_back(size);
  }
  return sizes;
}

// Chunks of equal size, as Megatron asks for.
std::vector<int> interleavings_of(const TrainingRun& run) {
  if (!run.search_vpp) return {run.config.vpp};
  std::vector<int> sizes = {1};
  for (int vpp = 2; run.config.pp > 1 && vpp * run.config.pp <= run.model.layers; ++vpp) {
    if (run.model.layers % (vpp * run.config.pp) == 0) sizes.push_back(vpp);
  }
  return sizes;
}

Hardware hardware_of_run(const TrainingRun& run) {
  Hardware hardware = uniform_hardware(run.host, run.config);
  hardware.ring_bytes_per_s = run.ring_bytes_per_s / run.host.gpus;
  return hardware;
}

void add_note(std::string& notes, const std::string& note) { notes += (notes.empty() ? "" : ", ") + note; }

constexpr double kUnlimited = std::numeric_limits<double>::infinity();

// The fastest of the searched sizes and of `recomputes` that needs at most `most_bytes` a GPU.
PricedRun fastest(const TrainingRun& run, const std::vector<Recompute>& recomputes, double most_bytes) {
  PricedRun best{.run = run};
  std::string refusal;
  for (const int micro_batch : micro_batches_of(run)) {
    for (const int vpp : interleavings_of(run)) {
      for (const Recompute& recompute : recomputes) {
        TrainingRun candidate = run;
        candidate.training.micro_batch = micro_batch;
        candidate.training.recompute = recompute;
        candidate.config.vpp = vpp;
        if (const absl::Status status = check_workload(candidate.workload()); !status.ok()) {
          if (refusal.empty()) refusal = message_of(status);
          continue;
        }
        const double bytes = memory_bytes(candidate.workload());
        if (bytes > most_bytes) {
          refusal = fmt::format("needs {:.0f} GiB of memory a GPU", bytes / kGiB);
          continue;
        }
        const double step_s = step_time(candidate.workload(), hardware_of_run(candidate)).step_s;
        if (best.step_s == 0 || step_s < best.step_s) best = {.run = candidate, .step_s = step_s};
      }
    }
  }
  if (best.step_s == 0) best.problem = refusal.empty() ? "no micro-batch divides the batch" : refusal;
  return best;
}

}  // namespace

std::vector<std::string> run_columns() {
  return {"label",
          "model",
          "gpu",
          "memory_gib",
          "gpus_per_host",
          "nics",
          "nic_gbps",
          "ring_gbps",
          "gpus",
          "tp",
          "pp",
          "cp",
          "ep",
          "etp",
          "vpp",
          "stages",
          "zero",
          "batch",
          "sequence",
          "micro_batch",
          "precision",
          "schedule",
          "recompute",
          "sequence_parallel",
          "flash",
          "kernels",
          "framework",
          "dispatch",
          "loss",
          "expert_overlap",
          "cuda_graphs",
          "grouped_experts",
          "imbalance",
          "mtp",
          "lora",
          "lora_qkv",
          "offloaded_layers",
          "offloaded_modules",
          "overlap",
          "bucket",
          "gradients",
          "optimizer_bytes",
          "tensor_overlap",
          "tokens",
          "peak_tflops",
          "software",
          "note"};
}

cluster::Host read_host(RowReader& row) {
  cluster::Host host;
  const std::string gpu = row.text("gpu");
  if (const cluster::GpuKind* kind = cluster::find_gpu_kind(gpu)) {
    host.gpu = *kind;
  } else if (!gpu.empty()) {
    row.problem("gpu", fmt::format("unknown GPU kind \"{}\"", gpu),
                fmt::format("known: {}", fmt::join(cluster::gpu_kind_names(), ", ")));
  }
  host.gpus = row.count("gpus_per_host", 8);
  if (row.has("memory_gib")) host.gpu.memory_bytes = static_cast<int64_t>(row.number("memory_gib") * kGiB);
  host.nics = row.count("nics", host.gpus);
  host.nic_bytes_per_s = row.number("nic_gbps") * 1e9 / 8;
  host.gpu_link_bytes_per_s = host.gpu.link_bytes_per_s;
  host.pcie_bytes_per_s = host.gpu.pcie_bytes_per_s;
  if (row.ok() && host.gpus == 0) row.problem("gpus_per_host", "must be at least 1");
  if (row.ok() && host.nics == 0) row.problem("nics", "must be at least 1");
  return host;
}

TrainingRun read_run(RowReader& row, const Models& models) {
  TrainingRun run;
  const std::string model = row.text("model");
  if (const auto found = models.find(model); found != models.end()) {
    run.model = found->second;
  } else if (const auto known = store::find_model(model); known.ok()) {
    run.model = shape_of(*known);
  } else if (!model.empty()) {
    std::vector<std::string> names = store::model_names();
    for (const auto& [name, shape] : models) names.push_back(name);
    const std::string near = closest(model, names);
    row.problem("model", fmt::format("unknown model \"{}\"", model),
                near.empty() ? "tables of kind \"models\" name them" : fmt::format("did you mean \"{}\"?", near));
  }
  run.host = read_host(row);
  read_config(row, run);
  run.training = read_training(row, run);
  if (run.model.positions && run.training.sequence > run.model.sequence) {  // a model is published with several lengths
    run.model.sequence = run.training.sequence;
    run.model.first_params = run.model.sequence * run.model.hidden;
  }
  run.ring_bytes_per_s = row.number("ring_gbps", 0) * 1e9 / 8;
  run.tokens = row.number("tokens", 0);
  run.peak_flops = row.number("peak_tflops", 0) * 1e12;
  run.software = row.text("software", "");
  if (!run.software.empty()) {
    if (const auto found = find_software(run.software); !found.ok())
      row.problem("software", message_of(found.status()));
  }
  return run;
}

PricedRun price(const TrainingRun& run) {
  const bool searched = run.search_micro_batch || run.search_vpp;
  PricedRun best =
      fastest(run, {run.training.recompute}, searched ? static_cast<double>(run.host.gpu.memory_bytes) : kUnlimited);
  if (best.step_s == 0) return best;
  if (run.search_micro_batch) add_note(best.assumed, fmt::format("b {}", best.run.training.micro_batch));
  if (run.search_vpp) add_note(best.assumed, fmt::format("vpp {}", best.run.config.vpp));
  const double bytes = memory_bytes(best.run.workload()), there = static_cast<double>(run.host.gpu.memory_bytes);
  if (bytes > there)
    add_note(best.assumed, fmt::format("our memory: {:.0f} of {:.0f} GiB", bytes / kGiB, there / kGiB));
  return best;
}

PricedRun price_by_preset(const TrainingRun& run, const Software& software) {
  TrainingRun plain = run;
  plain.training = {.global_batch = run.training.global_batch,
                    .micro_batch = run.training.micro_batch,
                    .sequence = run.training.sequence,
                    .precision = find_precision(run.training.precision.name).value(),
                    .schedule = run.training.schedule,
                    .mtp = run.training.mtp,
                    .lora = run.training.lora,
                    .lora_qkv = run.training.lora_qkv};
  const SoftwareUse use = {.gpu_kind = run.host.gpu.name, .experts = run.model.experts > 0};
  apply(settings_of(software, use, plain.training.precision.math), plain.training);
  return fastest(plain, {Recompute::kNone, Recompute::kSelective, Recompute::kFull},
                 static_cast<double>(run.host.gpu.memory_bytes) * (1 + kMemoryError));
}

}  // namespace scalai::step::validation
