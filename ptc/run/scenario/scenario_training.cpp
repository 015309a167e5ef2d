#include "ptc/run/scenario/internal/scenario_training.h"

#include <fmt/format.h>

#include <map>

#include "ptc/base/status.h"
#include "ptc/cost/step/software.h"
#include "ptc/proto/scenario.pb.h"
#include "ptc/run/scenario/scenario_parts.h"
#include "ptc/state/collection/layout_name.h"

namespace scalai::scenario::internal {
namespace {

const std::map<std::string, tensor::DType> kPrecisions = {{"fp16", tensor::DType::kF16},
                                                          {"bf16", tensor::DType::kBF16},
                                                          {"fp32", tensor::DType::kF32},
                                                          {"fp8", tensor::DType::kBF16},
                                                          {"nvfp4", tensor::DType::kBF16}};
std::map<std::string, model::Optimizer> optimizers() {
  std::map<std::string, model::Optimizer> known;
  for (const std::string& name : model::optimizer_names()) known.emplace(name, model::find_optimizer(name).value());
  return known;
}
// The values of an enumeration by name; `names` is in their order.
template <class Enum, size_t N>
std::map<std::string, Enum> by_name(const std::array<std::string_view, N>& names) {
  std::map<std::string, Enum> known;
  for (size_t i = 0; i < N; ++i) known.emplace(names[i], static_cast<Enum>(i));
  return known;
}

const auto kSchedules = by_name<step::Schedule>(step::kScheduleNames);
const auto kOverlaps = by_name<step::Overlap>(step::kOverlapNames);
const auto kDataOverlaps = by_name<step::DataOverlap>(step::kDataOverlapNames);
const auto kKernels = by_name<step::Kernels>(step::kKernelNames);
const auto kFrameworks = by_name<step::Framework>(step::kFrameworkNames);
const auto kDispatches = by_name<step::Dispatch>(step::kDispatchNames);
const auto kLosses = by_name<step::Loss>(step::kLossNames);
const std::map<std::string, double> kGradients(step::kGradientBytes.begin(), step::kGradientBytes.end());
const std::map<std::string, step::Objective> kObjectives = {{"throughput", step::Objective::kThroughput},
                                                            {"cost", step::Objective::kCost},
                                                            {"energy", step::Objective::kEnergy},
                                                            {"pay-off", step::Objective::kPayOff}};

// Of a step: more would overflow counts of micro-batches, and nobody trains so.
constexpr int kMostSamples = 1 << 24;

class TrainingBuilder {
 public:
  TrainingBuilder(const proto::Job& message, std::string path, Source& source)
      : message_(message), path_(std::move(path)), source_(source) {}

  void build(bool model_known, const std::string& gpu, JobSpec& job);
  std::optional<ChoosePolicy> build_choose();

 private:
  std::string at(const std::string& field) const { return path_ + "." + field; }
  bool chooses() const { return message_.parallel() == proto::Job::choose; }
  // Leaves `chosen` as it is when the field is absent or unknown.
  template <class Value>
  void choose(const std::string& field, const std::string& name, const std::map<std::string, Value>& known,
              Value& chosen);
  void build_batch(bool model_known, JobSpec& job);
  void build_recompute(step::Training& training);
  int least_zero() const;
  void build_software(const std::string& gpu, JobSpec& job);
  void build_pins(ChoosePolicy& policy);
  void build_micro_batches(ChoosePolicy& policy);
  void build_batch_tolerance(ChoosePolicy& policy);

  const proto::Job& message_;
  const std::string path_;
  Source& source_;
};

template <class Value>
void TrainingBuilder::choose(const std::string& field, const std::string& name,
                             const std::map<std::string, Value>& known, Value& chosen) {
  if (!source_.given(at(field))) return;
  if (const auto found = known.find(name); found != known.end()) {
    chosen = found->second;
    return;
  }
  std::vector<std::string> names;
  for (const auto& entry : known) names.push_back(entry.first);
  source_.error_unknown(at(field), field_of(field), name, names);
}

void TrainingBuilder::build_batch(bool model_known, JobSpec& job) {
  step::Training& training = job.training;
  bool batch_ok = source_.at_least(at("global_batch"), message_.global_batch(), 1);
  if (batch_ok && message_.global_batch() > kMostSamples) {
    batch_ok = false;
    source_.error(at("global_batch"),
                  fmt::format("a step takes at most {} samples, not {}", kMostSamples, message_.global_batch()));
  }
  training.global_batch = batch_ok ? message_.global_batch() : 0;  // 0 divides by everything: no second complaint
  // A dataset's batches go by the rule of ptc/store/datasets/share.h, whatever dp is.
  training.whole_batches = !source_.given(at("dataset"));
  const int micro_batch = source_.given(at("micro_batch")) ? message_.micro_batch() : 1;
  if (source_.at_least(at("micro_batch"), micro_batch, 1)) training.micro_batch = micro_batch;
  training.sequence = static_cast<int>(job.model.sequence);
  if (!source_.given(at("sequence")) || !source_.at_least(at("sequence"), message_.sequence(), 1)) return;
  training.sequence = message_.sequence();
  if (model_known && training.sequence > job.model.sequence) {
    source_.error(at("sequence"), fmt::format("a sequence of {} is longer than {} takes ({})", training.sequence,
                                              job.model.name, job.model.sequence));
  }
}

void TrainingBuilder::build_recompute(step::Training& training) {
  if (!source_.given(at("recompute"))) return;
  if (const auto found = step::find_recompute(message_.recompute()); found.ok()) {
    training.recompute = *found;
  } else {
    source_.error_unknown(at("recompute"), "recompute", message_.recompute(), step::recompute_names());
  }
}

// The least ZeRO stage of the job's layouts; 1 where none is named.
int TrainingBuilder::least_zero() const {
  int least = 3;
  const auto take = [&](const std::string& layout) {
    const auto fields = collection::parse_layout_fields(layout);
    least = std::min(least, fields.ok() && fields->named.contains("zero") ? fields->config.zero : 1);
  };
  for (const proto::ParallelChoice& config : message_.configs()) take(config.layout());
  if (message_.configs_size() == 0) take(message_.search().pins());
  return least;
}

// What its recipes say; fields of the file come after.
void TrainingBuilder::build_software(const std::string& gpu, JobSpec& job) {
  const auto trainer = step::train_with(message_.software(), gpu, job.shape, job.training, least_zero());
  if (!trainer.ok()) return source_.error(at("software"), message_of(trainer.status()));
  job.software = trainer->software;
  const bool decided = !source_.given(at("software")) && !message_.kernels().empty() && !message_.overlap().empty() &&
                       !message_.dp_overlap().empty() && !message_.gradients().empty() && !message_.loss().empty() &&
                       (job.shape.experts == 0 || !message_.dispatch().empty());
  job.given = decided ? step::Given::kFlags : trainer->given;
}

void TrainingBuilder::build(bool model_known, const std::string& gpu, JobSpec& job) {
  choose("precision", message_.precision(), kPrecisions, job.recipe.param);
  choose("optimizer", message_.optimizer(), optimizers(), job.recipe.optimizer);
  build_batch(model_known, job);
  step::Training& training = job.training;
  const bool named = kPrecisions.count(message_.precision()) != 0;
  training.precision = step::find_precision(named ? message_.precision() : "fp16", job.recipe.optimizer).value();
  build_software(gpu, job);
  choose("schedule", message_.schedule(), kSchedules, training.schedule);
  build_recompute(training);
  choose("gradients", message_.gradients(), kGradients, training.precision.gradient_bytes);
  choose("overlap", message_.overlap(), kOverlaps, training.overlap);
  choose("dp_overlap", message_.dp_overlap(), kDataOverlaps, training.data_overlap);
  choose("kernels", message_.kernels(), kKernels, training.kernels);
  choose("framework", message_.framework(), kFrameworks, training.framework);
  choose("dispatch", message_.dispatch(), kDispatches, training.dispatch);
  if (!message_.loss().empty()) choose("loss", message_.loss(), kLosses, training.loss.emplace());
  if (message_.has_expert_overlap()) training.expert_overlap = message_.expert_overlap();
  if (message_.has_cuda_graphs()) training.cuda_graphs = message_.cuda_graphs();
  if (message_.has_grouped_experts()) training.grouped_experts = message_.grouped_experts();
  if (source_.given(at("bucket")) && source_.at_least(at("bucket"), message_.bucket(), 1))
    training.bucket = message_.bucket();
  const auto from_to = [&](const char* field, double value, double least, double most) {
    if (value >= least && value <= most) return;
    source_.error(at(field), fmt::format("\"{}\" must be from {} to {}, found {}", field, least, most, value));
  };
  if (source_.given(at("imbalance"))) from_to("imbalance", training.imbalance = message_.imbalance(), 1, 64);
  if (source_.given(at("mtp"))) from_to("mtp", training.mtp = message_.mtp(), 0, 8);
  if (message_.has_sequence_parallel()) training.sequence_parallel = message_.sequence_parallel();
  if (message_.has_flash_attention()) training.flash_attention = message_.flash_attention();
  // Its second version of the weights is state that moves.
  job.recipe.previous = training.schedule == step::Schedule::kTwoBW;
}

void TrainingBuilder::build_pins(ChoosePolicy& policy) {
  const std::string path = at("search.pins");
  if (source_.given(path)) {
    const std::string& text = message_.search().pins();
    collection::LayoutProblem problem;
    if (!collection::parse_layout_fields(text, &problem).ok()) {
      source_.error_inside(path, text, problem.position, problem.length, "pins: " + problem.message, problem.hint);
    } else if (absl::StatusOr<step::Pins> pins = step::parse_pins(text); pins.ok()) {
      policy.pins = *std::move(pins);
      policy.pins_text = text;
    } else {
      source_.error(path, "pins: " + message_of(pins.status()));
    }
  }
  if (source_.given(at("micro_batch"))) policy.pins.micro_batch = message_.micro_batch();
  if (const auto given = step::find_recompute(message_.recompute()); given.ok()) policy.pins.recompute = *given;
}

void TrainingBuilder::build_micro_batches(ChoosePolicy& policy) {
  const std::string path = at("search.micro_batches");
  if (message_.search().micro_batches_size() == 0) return;
  if (source_.given(at("micro_batch"))) {
    source_.error(path, "\"micro_batch\" and \"search.micro_batches\" exclude each other", "",
                  {{at("micro_batch"), "the micro-batch is given here"}});
    return;
  }
  policy.micro_batches.clear();
  for (int i = 0; i < message_.search().micro_batches_size(); ++i) {
    const int samples = message_.search().micro_batches(i);
    if (source_.at_least(fmt::format("{}[{}]", path, i), samples, 1)) policy.micro_batches.push_back(samples);
  }
}

void TrainingBuilder::build_batch_tolerance(ChoosePolicy& policy) {
  const std::string path = at("search.batch_tolerance");
  if (!source_.given(path)) return;
  const double share = message_.search().batch_tolerance();
  if (!(share >= 0 && share < 1)) {
    return source_.error(path, fmt::format("a batch may change by a share of it from 0 to below 1, not {}", share),
                         "0.02 lets it change by less than 2 %");
  }
  if (share > 0 && source_.given(at("dataset"))) {
    return source_.error(path, "a job with a dataset has no \"batch_tolerance\"",
                         "a dataset gives batches of global_batch samples whatever dp is: leave it out",
                         {{at("dataset"), "the dataset is here"}});
  }
  policy.batch_tolerance = share;
}

std::optional<ChoosePolicy> TrainingBuilder::build_choose() {
  if (!chooses()) {
    if (source_.given(at("search"))) {
      source_.error(at("search"), "\"search\" needs parallel: choose",
                    "with listed configs there is nothing to look for: add parallel: choose, or leave it out");
    }
    return std::nullopt;
  }
  const int before = source_.errors();
  ChoosePolicy policy;
  if (message_.configs_size() > 0) {
    source_.error(at("configs"), "\"configs\" and parallel: choose exclude each other",
                  "leave the configs out; search { pins: \"tp8\" } keeps an axis as it is",
                  {{at("parallel"), "configurations are computed here"}});
  }
  choose("search.objective", message_.search().objective(), kObjectives, policy.objective);
  build_pins(policy);
  build_micro_batches(policy);
  build_batch_tolerance(policy);
  if (source_.given(at("search.horizon"))) {
    policy.horizon_s = source_.seconds(at("search.horizon"), message_.search().horizon()).value_or(1);
    if (policy.horizon_s <= 0) source_.error(at("search.horizon"), "a horizon is longer than 0");
    if (policy.objective != step::Objective::kPayOff && source_.errors() == before) {
      source_.error(at("search.horizon"), "\"horizon\" is of objective: \"pay-off\" only");
    }
  }
  return source_.errors() == before ? std::optional(policy) : std::nullopt;
}

template <class Value>
std::string name_in(const std::map<std::string, Value>& known, Value value) {
  for (const auto& [name, one] : known) {
    if (one == value) return name;
  }
  return "";
}

}  // namespace

void build_training(const proto::Job& message, const std::string& path, bool model_known, const std::string& gpu,
                    JobSpec& job, Source& source) {
  TrainingBuilder(message, path, source).build(model_known, gpu, job);
}

std::optional<ChoosePolicy> build_choose(const proto::Job& message, const std::string& path, Source& source) {
  return TrainingBuilder(message, path, source).build_choose();
}

void write_training(const JobSpec& job, const proto::Job& given, proto::Job& out) {
  const step::Training& training = job.training;
  out.set_precision(given.precision().empty() ? "fp16" : given.precision());
  out.set_optimizer(given.optimizer().empty() ? "adam" : given.optimizer());
  out.set_global_batch(training.global_batch);
  out.set_sequence(training.sequence);
  out.set_schedule(name_in(kSchedules, training.schedule));
  // What was guessed stays a guess when the file is read again, with the settings of today.
  const bool known = !job.software.empty();
  if (known && job.given == step::Given::kNothing) out.set_software(std::string(step::kDefaultSoftware));
  if (known && job.given == step::Given::kSoftware) out.set_software(job.software);
  const bool halves = training.precision.gradient_bytes == 2;
  if (known) out.set_gradients(!halves ? "fp32" : training.precision.math == step::Math::kF16 ? "fp16" : "bf16");
  out.set_overlap(name_in(kOverlaps, training.overlap));
  out.set_dp_overlap(name_in(kDataOverlaps, training.data_overlap));
  out.set_kernels(name_in(kKernels, training.kernels));
  if (known || !given.framework().empty()) out.set_framework(name_in(kFrameworks, training.framework));
  if (known || !given.dispatch().empty()) out.set_dispatch(name_in(kDispatches, training.dispatch));
  if (training.loss) out.set_loss(name_in(kLosses, *training.loss));
  if (known || training.expert_overlap) out.set_expert_overlap(training.expert_overlap);
  if (known || training.cuda_graphs) out.set_cuda_graphs(training.cuda_graphs);
  if (known || training.grouped_experts) out.set_grouped_experts(training.grouped_experts);
  if (training.imbalance != 1) out.set_imbalance(training.imbalance);
  if (training.mtp > 0) out.set_mtp(training.mtp);
  if (training.bucket > 0) out.set_bucket(training.bucket);
  out.set_sequence_parallel(training.sequence_parallel);
  out.set_flash_attention(training.flash_attention);
  // What is chosen stays open.
  if (!job.choose || job.choose->pins.micro_batch) out.set_micro_batch(training.micro_batch);
  if (!job.choose || job.choose->pins.recompute) out.set_recompute(name_of(training.recompute));
  if (!job.choose) return;
  out.set_parallel(proto::Job::choose);
  proto::Search& search = *out.mutable_search();
  search.set_objective(name_in(kObjectives, job.choose->objective));
  search.set_pins(job.choose->pins_text);
  if (job.choose->objective == step::Objective::kPayOff) search.set_horizon(seconds_text(job.choose->horizon_s));
  if (job.choose->batch_tolerance > 0) search.set_batch_tolerance(job.choose->batch_tolerance);
  if (job.choose->pins.micro_batch) return;
  for (const int samples : job.choose->micro_batches) search.add_micro_batches(samples);
}

}  // namespace scalai::scenario::internal
