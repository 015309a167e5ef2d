#include "apps/parallelize/parallelize_software.h"

#include <fmt/format.h>

#include "ptc/base/status.h"
#include "ptc/cost/step/software.h"

namespace scalai::apps {
namespace {

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
  const auto trainer = step::train_with(arguments.text("software"), gpu, request.shape, training);
  problems.status("--software: ", trainer.status());
  if (trainer.ok()) {
    request.software = trainer->software;
    request.given = decides(arguments, request.shape) ? step::Given::kFlags : trainer->given;
    const std::vector<int>& zero = trainer->settings.zero;
    if (!arguments.has("zero") && !zero.empty()) request.space.zero_stages.front() = zero.front();
  }
  read_flags(arguments, problems, training);
}

}  // namespace scalai::apps
