#include "sim/jobs/planned/model_throughput.h"

#include <fmt/format.h>

namespace scalai::jobs {
namespace {

class ModelThroughput final : public policy::Throughput {
 public:
  explicit ModelThroughput(const Configurations& configurations) : configurations_(configurations) {}

  policy::Rate rate(const policy::Job& job, policy::GpuType type, int gpus, double /*work_done*/) const override {
    return rate_of(configurations_.best(job, type, gpus));
  }
  policy::Rate placed_rate(const policy::Job& job, const policy::Placement& placement,
                           double /*work_done*/) const override {
    return rate_of(configurations_.best(job, placement));
  }
  std::string description() const override {
    return fmt::format(
        "{}, one iteration a step, on as many of the GPUs as is best\n{}",
        configurations_.simulates() ? "simulated iterations of the parallelizer's choice" : "the parallelizer's model",
        configurations_.models().description());
  }

 private:
  static policy::Rate rate_of(const Configuration* configuration) {
    return {.per_s = configuration == nullptr ? 0 : 1 / configuration->step_s};
  }

  const Configurations& configurations_;
};

}  // namespace

std::unique_ptr<policy::Throughput> make_model_throughput(const Configurations& configurations) {
  return std::make_unique<ModelThroughput>(configurations);
}

}  // namespace scalai::jobs
