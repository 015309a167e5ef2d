#include "ptc/run/scenario/internal/scenario_configs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

#include "ptc/base/status.h"
#include "ptc/base/units.h"
#include "ptc/cost/step/memory.h"
#include "ptc/proto/scenario.pb.h"
#include "ptc/run/scenario/scenario_parts.h"

namespace scalai::scenario::internal {
namespace {

using collection::ParallelConfig;
using proto::Note;
using proto::Source;

constexpr double kShortestStep_s = 1e-6;

bool is_letter(char c) { return c >= 'a' && c <= 'z'; }

// Where the field `name` starts in a layout name, from 1, and its length; the whole text when it is not written there.
std::pair<int, int> field_place(const std::string& layout, const std::string& name) {
  for (size_t at = layout.find(name); at != std::string::npos; at = layout.find(name, at + 1)) {
    const size_t after = at + name.size();
    const bool starts = at == 0 || layout[at - 1] == ',' || layout[at - 1] == '-';
    if (!starts || after >= layout.size() || is_letter(layout[after])) continue;
    const size_t digits_end = std::min(layout.find_first_of(",-", after), layout.size());
    if (digits_end > after) return {static_cast<int>(at) + 1, static_cast<int>(digits_end - at)};
  }
  return {1, static_cast<int>(layout.size())};
}

class ConfigChecker {
 public:
  ConfigChecker(const ParallelConfig& config, const std::string& layout, std::string path, std::string job_path,
                const JobSpec& job, Source& source)
      : config_(config),
        layout_(layout),
        path_(std::move(path)),
        job_path_(std::move(job_path)),
        job_(job),
        source_(source) {}

  void check() {
    check_tensor_parallel();
    check_pipeline();
    check_experts();
    check_batch();
    check_schedule();
  }

 private:
  const model::Model& model() const { return job_.model; }
  void error(const std::string& field, const std::string& message, std::string hint, Note note);
  Note model_note(const std::string& fact) const;
  bool tp_fits(int tp) const;
  void check_tensor_parallel();
  void check_pipeline();
  void check_experts();
  void check_batch();
  void check_schedule();

  const ParallelConfig& config_;
  const std::string& layout_;
  const std::string path_;
  const std::string job_path_;
  const JobSpec& job_;
  Source& source_;
};

void ConfigChecker::error(const std::string& field, const std::string& message, std::string hint, Note note) {
  const auto [position, length] = field_place(layout_, field);
  source_.error_inside(path_, layout_, position, length, message, std::move(hint), {std::move(note)});
}

Note ConfigChecker::model_note(const std::string& fact) const {
  const std::string field = source_.given(job_path_ + ".model") ? ".model" : ".model_config";
  return {job_path_ + field, fmt::format("{} has {}", model().name, fact)};
}

bool heads_fit(const model::Model& model, int tp) {
  if (model.heads % tp != 0 || model.kv_heads < 1) return false;
  return model.kv_heads >= tp ? model.kv_heads % tp == 0 : tp % model.kv_heads == 0;
}

bool ConfigChecker::tp_fits(int tp) const {
  if (model().heads == 0 || model().kv_heads == 0) return tp == 1;
  return heads_fit(model(), tp) && model().hidden % tp == 0 && model().ffn % tp == 0;
}

void ConfigChecker::check_tensor_parallel() {
  const int tp = config_.tp;
  if (tp_fits(tp)) return;
  std::vector<int> fitting;
  for (int candidate = 1; candidate <= std::max(model().heads, 1); ++candidate) {
    if (tp_fits(candidate)) fitting.push_back(candidate);
  }
  const std::string hint = fmt::format("tp can be {}", fmt::join(fitting, ", "));
  if (model().heads == 0) {
    error("tp", fmt::format("tp = {}: {} cannot be cut by tensor parallelism", tp, model().name), hint,
          model_note("no attention heads"));
  } else if (model().heads % tp != 0) {
    error("tp", fmt::format("tp = {} does not divide the {} attention heads", tp, model().heads), hint,
          model_note(fmt::format("{} heads", model().heads)));
  } else if (!heads_fit(model(), tp)) {
    error("tp", fmt::format("tp = {} and {} key-value heads do not divide", tp, model().kv_heads), hint,
          model_note(fmt::format("{} key-value heads", model().kv_heads)));
  } else if (model().hidden % tp != 0) {
    error("tp", fmt::format("tp = {} does not divide the hidden size {}", tp, model().hidden), hint,
          model_note(fmt::format("hidden size {}", model().hidden)));
  } else {
    error("tp", fmt::format("tp = {} does not divide the feed-forward size {}", tp, model().ffn), hint,
          model_note(fmt::format("feed-forward size {}", model().ffn)));
  }
}

void ConfigChecker::check_pipeline() {
  const int64_t stages = int64_t{config_.pp} * config_.vpp;
  const Note note = model_note(fmt::format("{} layers", model().layers));
  const int64_t sum = std::accumulate(config_.stages.begin(), config_.stages.end(), int64_t{0});
  if (stages > collection::most_virtual_stages(config_, model().layers)) {
    error("pp", fmt::format("{} pipeline stages (pp x vpp) are more than the {} layers", stages, model().layers), "",
          note);
  } else if (!config_.stages.empty() && sum != model().layers) {
    error("stages", fmt::format("the stages sum to {} layers, not {}", sum, model().layers), "", note);
  }
}

void ConfigChecker::check_experts() {
  const Note note = model_note(fmt::format("{} experts", model().experts));
  for (const auto& [field, size] : {std::pair{"ep", config_.ep}, std::pair{"etp", config_.etp}}) {
    if (size > 1 && model().experts == 0) {
      error(field, fmt::format("{} = {} needs a model with experts", field, size), "", model_note("none"));
    }
  }
  if (model().experts == 0) return;
  if (model().experts % config_.ep != 0) {
    error("ep", fmt::format("ep = {} does not divide the {} experts", config_.ep, model().experts), "", note);
  }
  if (model().ffn % config_.etp != 0) {
    error("etp", fmt::format("etp = {} does not divide the feed-forward size {}", config_.etp, model().ffn), "",
          model_note(fmt::format("feed-forward size {}", model().ffn)));
  }
}

void ConfigChecker::check_batch() {
  const int64_t share = int64_t{config_.dp} * job_.training.micro_batch;
  // A dataset's batches go by the rule of ptc/store/datasets/share.h, whatever dp is.
  if (job_.training.global_batch % share != 0 && !source_.given(job_path_ + ".dataset")) {
    error(
        "dp",
        fmt::format("a global batch of {} is no multiple of dp x micro_batch = {}", job_.training.global_batch, share),
        "", {job_path_ + ".global_batch", "the global batch is here"});
  }
  if (job_.training.sequence % config_.cp != 0) {
    error("cp", fmt::format("cp = {} does not divide the sequence of {} tokens", config_.cp, job_.training.sequence),
          "", {job_path_ + ".sequence", "the sequence length belongs to this job"});
  }
}

// PipeDream-2BW keeps whole weights of two steps on every stage and never flushes.
void ConfigChecker::check_schedule() {
  if (job_.training.schedule == step::Schedule::kOneFOneB) return;
  const std::string name(step::name_of(job_.training.schedule));
  const Note note = {job_path_ + ".schedule", "the schedule is chosen here"};
  if (config_.vpp > 1) error("vpp", fmt::format("schedule {} does not interleave: vpp must be 1", name), "", note);
  if (job_.training.schedule == step::Schedule::kDualPipe) {
    error("", "schedule dualpipe keeps two stages on each rank, which collections do not say",
          "`scalai parallelize --schedule=dualpipe` prices it", note);
  }
  if (job_.training.schedule == step::Schedule::kTwoBW && config_.zero == 3) {
    error("zero", "schedule 2bw keeps two whole versions of the weights, ZeRO-3 none", "zero can be 0, 1, 2", note);
  }
}

}  // namespace

void check_training_memory(const step::Workload& workload, int64_t memory_bytes, const std::string& path, Note note,
                           Source& source) {
  const step::MemoryEstimate needed = step::memory_of(workload);
  if (needed.bytes() <= (1 + step::kMemoryError) * static_cast<double>(memory_bytes)) return;
  const step::StageMemory& worst = needed.worst();
  const auto largest = std::max_element(worst.terms.begin(), worst.terms.end(),
                                        [](const auto& a, const auto& b) { return a.bytes < b.bytes; });
  const auto text = [](double bytes) { return format_bytes(static_cast<int64_t>(bytes)); };
  source.error(
      path,
      fmt::format("training {} takes {} on a GPU of stage {}, most of it {} ({}); the largest GPU has {}",
                  workload.model.name, text(needed.bytes()), worst.stage, largest->name, text(largest->bytes),
                  format_bytes(memory_bytes)),
      "cut it over more GPUs (tp, pp, zero), compute activations again (recompute: \"selective\" or \"full\"), "
      "or give a step_time: then only the state is counted",
      {std::move(note)});
}

std::optional<ParallelChoice> build_config(const proto::ParallelChoice& message, const std::string& path,
                                           const std::string& job_path, const JobSpec* job, Source& source) {
  const int before = source.errors();
  const std::string layout_path = path + ".layout";
  ParallelChoice choice;
  collection::LayoutProblem problem;
  const absl::StatusOr<ParallelConfig> config = collection::parse_layout(message.layout(), &problem);
  if (!source.given(layout_path)) {
    source.missing(layout_path, "write it like layout: \"tp4,pp2,dp2\"");
  } else if (!config.ok()) {
    source.error_inside(layout_path, message.layout(), problem.position, problem.length, "layout: " + problem.message,
                        problem.hint);
  } else {
    choice.config = *config;
    if (job != nullptr) ConfigChecker(choice.config, message.layout(), layout_path, job_path, *job, source).check();
  }
  if (source.given(path + ".step_time")) {
    choice.step_s = source.seconds(path + ".step_time", message.step_time()).value_or(1);
    if (choice.step_s <= 0) {
      source.error(path + ".step_time", "a step takes longer than 0");
    } else if (choice.step_s < kShortestStep_s) {
      source.error(path + ".step_time", fmt::format("a step takes at least {}", format_seconds(kShortestStep_s)));
    }
  }
  if (source.errors() != before) return std::nullopt;
  if (job == nullptr || choice.step_s > 0) return choice;
  // What only the step-time model minds.
  const absl::Status priced = step::check_workload({job->shape, choice.config, job->training});
  if (priced.ok() || job->training.global_batch == 0) return choice;
  report_lines(source, layout_path, message_of(priced),
               "no step time can be computed: give one, like step_time: \"2s\"", {});
  return std::nullopt;
}

}  // namespace scalai::scenario::internal
