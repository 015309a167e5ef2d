#include "sim/jobs/planned/job_model.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>

#include "ptc/base/diagnostics.h"
#include "ptc/base/status.h"
#include "ptc/store/naming/family.h"

namespace scalai::jobs {
namespace {

constexpr double kTokensAStep = 1 << 20;
constexpr int kSamplesAStep = 1024;
constexpr int64_t kMostSamples = 1 << 24;  // as in scenarios

tensor::DType param_type(const std::string& precision) {
  if (precision == "fp32") return tensor::DType::kF32;
  const bool half = precision == "fp16" || precision == "zero-fp16";
  return half ? tensor::DType::kF16 : tensor::DType::kBF16;
}

class JobModelBuilder {
 public:
  explicit JobModelBuilder(const JobModelSpec& spec) : spec_(spec) {}

  absl::StatusOr<JobModel> build() {
    take(store::find_model(spec_.model), job_.model);
    build_numbers();
    build_batch();
    build_schedule();
    if (!problems_.empty()) return invalid(fmt::format("{}", fmt::join(problems_, "\n")));
    job_.name = job_.model.name;
    job_.shape = step::shape_of(job_.model);
    return std::move(job_);
  }

 private:
  template <class Value>
  void take(absl::StatusOr<Value> found, Value& value) {
    if (found.ok()) {
      value = *std::move(found);
    } else {
      problems_.push_back(message_of(found.status()));
    }
  }

  void build_numbers() {
    take(model::find_optimizer(spec_.optimizer.empty() ? "adam" : spec_.optimizer), job_.recipe.optimizer);
    const std::string precision = spec_.precision.empty() ? "bf16" : spec_.precision;
    take(step::find_precision(precision, job_.recipe.optimizer), job_.training.precision);
    job_.recipe.param = param_type(precision);
  }

  void build_batch() {
    const auto longest = static_cast<int>(job_.model.sequence);
    job_.training.sequence = spec_.sequence > 0 ? spec_.sequence : longest;
    if (spec_.sequence > longest && !job_.model.name.empty()) {
      problems_.push_back(
          fmt::format("a sequence of {} is longer than {} takes ({})", spec_.sequence, job_.model.name, longest));
    }
    const int64_t batch =
        spec_.global_batch > 0 ? spec_.global_batch : default_batch(job_.model, job_.training.sequence);
    if (batch > kMostSamples)
      problems_.push_back(fmt::format("a step takes at most {} samples, not {}", kMostSamples, batch));
    job_.training.global_batch = static_cast<int>(std::min(batch, kMostSamples));
    job_.training.whole_batches = spec_.whole_batches;
  }

  void build_schedule() {
    if (!spec_.pins.empty()) take(step::parse_pins(spec_.pins), job_.pins);
    if (!spec_.schedule.empty()) take(step::find_schedule(spec_.schedule), job_.training.schedule);
    if (!spec_.recompute.empty()) {
      take(step::find_recompute(spec_.recompute), job_.training.recompute);
      job_.pins.recompute = job_.training.recompute;
    }
    if (spec_.micro_batch > 0) job_.pins.micro_batch = spec_.micro_batch;
    job_.recipe.previous = job_.training.schedule == step::Schedule::kTwoBW;
  }

  const JobModelSpec& spec_;
  JobModel job_;
  std::vector<std::string> problems_;
};

// What a job of this type and batch trains.
JobModelSpec spec_of(const std::string& type, int64_t batch, const JobModelSpec& common,
                     const std::map<std::string, JobModelSpec>& by_type) {
  const auto named = by_type.find(type);
  JobModelSpec spec = named == by_type.end() ? common : named->second;
  if (spec.model.empty()) spec.model = type;
  if (batch > 0) spec.global_batch = batch;
  return spec;
}

}  // namespace

int64_t default_batch(const model::Model& model, int sequence) {
  if (model.heads == 0 || sequence < 1) return kSamplesAStep;
  const double samples = kTokensAStep / sequence;
  return samples <= 1 ? 1 : int64_t{1} << std::lround(std::log2(samples));
}

absl::StatusOr<JobModel> job_model(const JobModelSpec& spec) { return JobModelBuilder(spec).build(); }

std::string describe(const JobModel& model) {
  const step::Training& training = model.training;
  const std::string micro = model.pins.micro_batch ? fmt::format("{}", *model.pins.micro_batch) : "chosen";
  const std::string recompute = model.pins.recompute ? step::name_of(*model.pins.recompute) : "chosen";
  return fmt::format("{}: batch {}{}, sequence {}, {}, {}, {}, zero {}, micro-batch {}, recompute {}", model.name,
                     training.global_batch, training.whole_batches ? "" : " in uneven parts", training.sequence,
                     training.precision.name, model::name_of(model.recipe.optimizer), step::name_of(training.schedule),
                     model.pins.zero.value_or(1), micro, recompute);
}

absl::StatusOr<JobModels> JobModels::of(const policy::Workload& workload, const JobModelSpec& common,
                                        const std::map<std::string, JobModelSpec>& by_type) {
  JobModels models;
  std::map<std::pair<std::string, int64_t>, bool> tried;
  std::vector<std::string> problems;
  for (const policy::Job& job : workload.jobs) {
    if (!tried.emplace(std::pair(job.type, job.batch), true).second) continue;
    absl::StatusOr<JobModel> model = job_model(spec_of(job.type, job.batch, common, by_type));
    if (model.ok()) {
      models.add(job.type, job.batch, *std::move(model));
    } else {
      problems.push_back(fmt::format("jobs of type \"{}\": {}", job.type, message_of(model.status())));
    }
  }
  if (!problems.empty()) return invalid(fmt::format("{}", fmt::join(problems, "\n")));
  return models;
}

void JobModels::add(const std::string& type, int64_t batch, JobModel model) {
  models_.insert_or_assign(std::pair(type, batch), std::move(model));
}

bool JobModels::knows(const policy::Job& job) const { return models_.count({job.type, job.batch}) != 0; }

const JobModel& JobModels::model_of(const policy::Job& job) const {
  const auto found = models_.find({job.type, job.batch});
  SCALAI_CHECK(found != models_.end(), fmt::format("no model of type \"{}\", batch {}", job.type, job.batch));
  return found->second;
}

std::string JobModels::description() const {
  std::string text;
  for (const auto& [key, model] : models_) text += describe(model) + "\n";
  return text;
}

}  // namespace scalai::jobs
