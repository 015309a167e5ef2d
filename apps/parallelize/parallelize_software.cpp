#include "apps/parallelize/parallelize_software.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "ptc/base/status.h"
#include "ptc/cost/step/software.h"

namespace scalai::apps {
namespace {

// "16", or "16,qkv".
void read_lora(std::string_view text, Problems& problems, step::Training& training) {
  training.lora_qkv = text.ends_with(",qkv");
  if (training.lora_qkv) text.remove_suffix(4);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), training.lora);
  if (error != std::errc{} || end != text.data() + text.size() || training.lora < 1 || training.lora > 4096)
    problems.malformed("--lora is a rank from 1 to 4096, as in 16 or 16,qkv");
}

// What is trained beside the model as it is, and how even.
void read_extras(const Arguments& arguments, Problems& problems, step::Training& training) {
  const auto take = [&](const char* option, int64_t most, int& value) {
    if (!arguments.has(option)) return;
    const int64_t given = arguments.count(option);
    if (given < 1 || given > most) problems.malformed(fmt::format("--{} is a number from 1 to {}", option, most));
    value = static_cast<int>(std::clamp<int64_t>(given, 1, most));
  };
  take("mtp", 8, training.mtp);
  if (arguments.has("lora")) read_lora(arguments.text("lora"), problems, training);
  if (training.lora > 0 && arguments.has("from"))
    problems.malformed("--lora and --from exclude each other: collections have no adapters");
  if (!arguments.has("imbalance")) return;
  const std::string text = arguments.text("imbalance");
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), training.imbalance);
  const bool whole = error == std::errc{} && end == text.data() + text.size();
  if (!whole || !(training.imbalance >= 1 && training.imbalance <= 64))
    problems.malformed("--imbalance is a number from 1 to 64, as in 1.3");
}

void read_flags(const Arguments& arguments, Problems& problems, step::Training& training) {
  const auto take = [&](const char* option, auto find, auto& value) {
    if (arguments.has(option)) value = find(arguments.text(option)).value();
  };
  take("overlap", step::find_overlap, training.overlap);
  take("dp-overlap", step::find_data_overlap, training.data_overlap);
  take("kernels", step::find_kernels, training.kernels);
  take("dispatch", step::find_dispatch, training.dispatch);
  take("loss", step::find_loss, training.loss);
  take("gradients", step::find_gradient_bytes, training.precision.gradient_bytes);
  if (arguments.has("bucket")) {
    training.bucket = arguments.count("bucket");
    constexpr int64_t kMost = int64_t{1} << 30;
    if (training.bucket < 1 || training.bucket > kMost)
      problems.malformed(fmt::format("--bucket is a number from 1 to {}", kMost));
  }
  read_extras(arguments, problems, training);
  training.expert_overlap |= arguments.flag("expert-overlap");
  training.cuda_graphs |= arguments.flag("cuda-graphs");
  training.grouped_experts |= arguments.flag("grouped-experts");
  training.flash_attention &= !arguments.flag("no-flash-attention");
  training.sequence_parallel &= !arguments.flag("no-sequence-parallel");
}

// Whether options say all that decides a step, so that the program that trains adds nothing.
bool decides(const Arguments& arguments, const step::ModelShape& model) {
  const auto given = [&](const char* option) { return arguments.has(option); };
  return given("kernels") && given("overlap") && given("dp-overlap") && given("gradients") && given("loss") &&
         (model.experts == 0 || given("dispatch"));
}

}  // namespace

void read_software(const Arguments& arguments, Problems& problems, ParallelizeRequest& request) {
  step::Training& training = request.space.base;
  const bool uniform = request.uniform || request.cluster.hosts.empty();
  const std::string gpu = uniform ? request.space.host.gpu.name : request.cluster.hosts.front().gpu.name;
  std::vector<int>& tried = request.space.zero_stages;  // none where what was given is wrong
  const int zero = request.space.pins.zero.value_or(tried.empty() ? 1 : tried.front());
  const auto trainer = step::train_with(arguments.text("software"), gpu, request.shape, training, zero);
  problems.status("--software: ", trainer.status());
  if (trainer.ok()) {
    request.software = trainer->software;
    request.given = decides(arguments, request.shape) ? step::Given::kFlags : trainer->given;
    const std::vector<int>& stages = trainer->settings.zero;
    if (!arguments.has("zero") && !stages.empty()) tried.front() = stages.front();
  }
  read_flags(arguments, problems, training);
}

}  // namespace scalai::apps
