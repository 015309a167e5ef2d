#include "apps/parallelize/parallelize_output.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "nlohmann/json.hpp"
#include "ptc/base/json.h"
#include "ptc/base/table.h"
#include "ptc/base/units.h"
#include "ptc/cost/step/calibration.h"
#include "ptc/cost/step/software.h"

namespace scalai::apps {
namespace {

using nlohmann::ordered_json;
using step::Candidate;
using step::Objective;
using step::StepTime;

std::string size_text(double bytes) { return format_bytes(static_cast<int64_t>(bytes)); }
std::string percent(double share) { return fmt::format("{:.1f} %", 100 * share); }

double limit_of(const ParallelizeRequest& request) {
  const int64_t given = request.offload_bytes > 0 ? request.gpu_memory_bytes : request.space.memory_bytes;
  return static_cast<double>(given > 0 ? given : request.space.host.gpu.memory_bytes);
}

// Tokens; of convolutional models samples.
double work_of(const ParallelizeRequest& request, const step::Training& training) {
  return static_cast<double>(training.global_batch) * (request.shape.heads > 0 ? training.sequence : 1);
}

struct Part {
  const char* name;
  double seconds;
};
std::vector<Part> parts_of(const StepTime& time) {
  return {{"matrix", time.matrix_s},
          {"memory", time.memory_s},
          {"launch", time.launch_s},
          {"tp", time.tp_s},
          {"cp", time.cp_s},
          {"ep", time.ep_s},
          {"pipeline", time.pipeline_s},
          {"bubble", time.bubble_s},
          {"gradients", time.gradients_s},
          {"optimizer", time.optimizer_s}};
}

// Neighbouring stages that need the same memory, as one row: "1-14".
struct StageRun {
  std::string name;
  const step::StageMemory* memory = nullptr;
};
std::vector<StageRun> runs_of(const step::MemoryEstimate& estimate) {
  const auto alike = [](const step::StageMemory& a, const step::StageMemory& b) {
    return std::equal(
        a.terms.begin(), a.terms.end(), b.terms.begin(), b.terms.end(),
        [](const step::MemoryTerm& x, const step::MemoryTerm& y) { return x.name == y.name && x.bytes == y.bytes; });
  };
  std::vector<StageRun> runs;
  for (size_t first = 0, i = 1; i <= estimate.stages.size(); ++i) {
    if (i < estimate.stages.size() && alike(estimate.stages[first], estimate.stages[i])) continue;
    runs.push_back(
        {i - first == 1 ? fmt::format("{}", first) : fmt::format("{}-{}", first, i - 1), &estimate.stages[first]});
    first = i;
  }
  return runs;
}

step::MemoryEstimate memory_of(const ParallelizeRequest& request, const Candidate& candidate) {
  return step::memory_of({request.shape, candidate.config, candidate.training});
}

class Printer {
 public:
  Printer(const ParallelizeRequest& request, const Parallelized& found, bool explain, const Screen& screen)
      : request_(request), found_(found), screen_(screen), explain_(explain) {
    weighed_ = objective() == Objective::kCost || objective() == Objective::kEnergy;
    fewer_ = !request.space.all_gpus;
    changes_ = request.from.has_value();
  }

  std::string text() const {
    std::string all = heading() + "\n";
    all += candidates().text(screen_);
    all += "\n" + notes();
    if (explain_) all += "\n" + explanation();
    if (found_.traffic != nullptr) all += "\n" + found_.traffic->text(screen_);
    return all;
  }

  std::string csv() const {
    if (found_.traffic != nullptr) return found_.traffic->csv();
    return explain_ ? memory_table().csv() : plain_candidates().csv();
  }

  std::string json() const {
    ordered_json out = context();
    out["best"] = ordered_json::array();
    for (size_t i = 0; i < found_.result.best.size(); ++i) out["best"].push_back(candidate_json(i));
    if (explain_ && !found_.result.best.empty()) out["explain"] = explain_json();
    if (found_.traffic != nullptr) out["offload"] = found_.traffic->json();
    if (found_.result.no_fit) out["no_fit"] = no_fit_json(*found_.result.no_fit);
    return json_text(out, {.indent = 2}) + "\n";
  }

 private:
  Objective objective() const { return request_.space.objective; }
  bool tolerant() const { return request_.space.batch_tolerance > 0; }
  bool transformer() const { return request_.shape.heads > 0; }
  const char* unit() const { return transformer() ? "tokens" : "samples"; }

  std::string heading() const {
    const step::SearchSpace& space = request_.space;
    const step::Training& base = space.base;
    std::string text = fmt::format("{} on {}{} {} GPUs, {} a host; batches of {}", request_.model.name,
                                   fewer_ ? "up to " : "", space.gpus, gpu_names(), space.host.gpus, base.global_batch);
    if (transformer()) text += fmt::format(" × {} tokens", base.sequence);
    return text +
           fmt::format(", {}, {}; best by {}\n", base.precision.name, name_of(base.schedule), name_of(objective())) +
           trainer();
  }

  // What trains, and where it was nobody's choice, how to choose.
  std::string trainer() const {
    if (request_.software.empty()) return "";
    if (request_.given != step::Given::kNothing) return fmt::format("trained by {}\n", request_.software);
    const std::string gpu = gpu_kinds().front();
    const bool zero3 = step::default_software(gpu).name() != request_.software;
    return fmt::format("trained by {}, the default of {}{} (--software)\n", request_.software, gpu,
                       zero3 ? " with ZeRO-3" : "");
  }

  // "a100-80g", of several kinds "a100-80g/v100-32g".
  std::string gpu_names() const { return fmt::format("{}", fmt::join(gpu_kinds(), "/")); }
  std::vector<std::string> gpu_kinds() const {
    const step::SearchSpace& space = request_.space;
    if (space.host_kinds.empty()) return {space.host.gpu.name};
    std::vector<std::string> names;
    for (const cluster::Host& host : space.host_kinds) {
      if (std::find(names.begin(), names.end(), host.gpu.name) == names.end()) names.push_back(host.gpu.name);
    }
    return names;
  }

  std::vector<std::string> headers() const {
    std::vector<std::string> headers = {"layout"};
    if (fewer_) headers.push_back("GPUs>");
    if (tolerant()) headers.push_back("batch>");
    for (const char* header : {"micro-batch>", "recompute", "step>"}) headers.push_back(header);
    headers.push_back(fmt::format("{}/s/GPU>", unit()));
    for (const char* header : {"MFU>", "memory>", "of GPU>", "bubble>"}) headers.push_back(header);
    if (weighed_) headers.push_back(objective() == Objective::kCost ? price_header() : "energy>");
    if (changes_) {
      for (const char* header : {"change>", "moves>", "pays off after>"}) headers.push_back(header);
    }
    return headers;
  }

  std::string price_header() const {
    return fmt::format("{} a million {}>", knows_price(request_.space) ? "dollars" : "GPU-hours", unit());
  }

  std::string weighed(const Candidate& candidate) const {
    const double each = candidate.score / work_of(request_, request_.space.base);
    if (objective() == Objective::kCost) return fmt::format("{:.4g}", each * 1e6);
    const char* joules = knows_power(request_.space) ? "J" : "GPU-s";
    return fmt::format("{:.4g} {} a {}", each, joules, transformer() ? "token" : "sample");
  }

  std::vector<std::string> change_cells(size_t index) const {
    const Candidate& candidate = found_.result.best[index];
    if (!candidate.change) return {found_.no_change[index].empty() ? "not planned" : "impossible", "–", "–"};
    const double seconds = candidate.change->reconfiguration_s;
    if (seconds == 0) return {"none", "–", "–"};
    std::string pays = "never";
    if (candidate.pay_off_steps) pays = fmt::format("{:.0f} steps", std::ceil(*candidate.pay_off_steps));
    if (!found_.stay_step_s) pays = "cannot stay";
    return {format_seconds(seconds), format_bytes(candidate.change->bytes_moved), pays};
  }

  Table candidates() const {
    Table table(headers());
    table.leave_out_first({"bubble", "of GPU", "recompute", "micro-batch"});
    for (size_t i = 0; i < found_.result.best.size(); ++i) {
      const Candidate& one = found_.result.best[i];
      const double step_s = one.time.step_s;
      std::vector<std::string> row = {canonical(one.config)};
      if (fewer_) row.push_back(fmt::format("{}", one.config.world()));
      if (tolerant()) row.push_back(fmt::format("{}", one.training.global_batch));
      row.push_back(fmt::format("{}", one.training.micro_batch));
      row.emplace_back(name_of(one.training.recompute));
      row.push_back(format_seconds(step_s));
      row.push_back(fmt::format("{:.0f}", rate(one)));
      row.push_back(percent(one.time.mfu));
      row.push_back(size_text(one.memory_bytes));
      row.push_back(percent(one.memory_bytes / limit_of(request_)));
      row.push_back(percent(one.time.bubble_s / step_s));
      if (weighed_) row.push_back(weighed(one));
      if (changes_) {
        for (std::string& cell : change_cells(i)) row.push_back(std::move(cell));
      }
      table.row(std::move(row));
    }
    return table;
  }

  double rate(const Candidate& one) const {
    return work_of(request_, one.training) / one.time.step_s / one.config.world();
  }

  // Numbers without units, for programs.
  Table plain_candidates() const {
    Table table({"layout", "gpus", "micro_batch", "recompute", "step_s", fmt::format("{}_per_s_per_gpu", unit()), "mfu",
                 "hfu", "memory_bytes", "bubble", "score", "reconfiguration_s", "bytes_moved", "pay_off_steps",
                 "global_batch"});
    for (const Candidate& one : found_.result.best) {
      table.row({canonical(one.config), fmt::format("{}", one.config.world()),
                 fmt::format("{}", one.training.micro_batch), name_of(one.training.recompute),
                 shortest(one.time.step_s), shortest(rate(one)), shortest(one.time.mfu), shortest(one.time.hfu),
                 shortest(one.memory_bytes), shortest(one.time.bubble_s / one.time.step_s), shortest(one.score),
                 one.change ? shortest(one.change->reconfiguration_s) : "",
                 one.change ? fmt::format("{}", one.change->bytes_moved) : "",
                 one.pay_off_steps ? shortest(*one.pay_off_steps) : "", fmt::format("{}", one.training.global_batch)});
    }
    return table;
  }

  // Of every kind of GPU that is there.
  std::string accuracy() const {
    std::string text;
    for (const std::string& gpu : gpu_kinds()) {
      const std::string said = text_of(accuracy_of(gpu), gpu);
      if (text.find(said) == std::string::npos) text += said + "\n";
    }
    return text;
  }
  step::StepAccuracy accuracy_of(const std::string& name) const {
    const step::SearchSpace& space = request_.space;
    cluster::GpuKind gpu = space.host.gpu;
    for (const cluster::Host& one : space.host_kinds)
      if (one.gpu.name == name && gpu.name != name) gpu = one.gpu;
    return step::step_accuracy(gpu, space.base.precision.math, request_.shape.experts > 0, request_.given);
  }

  std::string notes() const {
    const step::SearchResult& result = found_.result;
    std::string text =
        fmt::format("{} configurations divide: {} priced, {} do not fit the memory, {} cannot be better\n",
                    result.points, result.priced, result.too_large, result.bounded_away);
    if (!result.idle.empty()) text += result.idle + "\n";
    if (tolerant()) {
      text += fmt::format(
          "batches may change by less than {:g} % of {}; scores are for {} samples (--batch-tolerance)\n",
          100 * request_.space.batch_tolerance, request_.space.base.global_batch, request_.space.base.global_batch);
    }
    if (changes_) text += fmt::format("from {}: {}\n", canonical(request_.from->config), stay_text());
    if (found_.not_planned > 0)
      text += fmt::format("{} changes were not planned: plans for so many GPUs take long; --layout=… plans one\n",
                          found_.not_planned);
    for (size_t i = 0; i < found_.no_change.size(); ++i) {
      if (found_.no_change[i].empty()) continue;
      text += fmt::format("{} cannot be reached: {}\n", canonical(result.best[i].config), found_.no_change[i]);
    }
    if (!request_.network_of.empty()) {
      const cluster::Host& host = request_.space.host;
      text += fmt::format("network: {} × {} a host, as {} (--nic, --nics)\n", host.nics,
                          format_bandwidth(host.nic_bytes_per_s), request_.network_of);
    }
    if (request_.segment > 0) {
      text += fmt::format("NVLink domains: {} GPUs of each, so that groups end where domains do (--gpus-per-host)\n",
                          request_.segment);
    }
    const step::Training& base = request_.space.base;
    text += fmt::format("data parallelism: {} beside the work (--dp-overlap); kernels: {} (--kernels)\n",
                        base.data_overlap == step::DataOverlap::kNone  ? "nothing"
                        : base.data_overlap == step::DataOverlap::kAll ? "gradients and parameters"
                                                                       : "gradients",
                        name_of(base.kernels));
    if (request_.space.headroom > 0)
      text += fmt::format("{:g} % of a GPU's memory stay free; --memory=SIZE says how much may be used\n",
                          100 * request_.space.headroom);
    if (!result.best.empty() && result.best.front().memory_bytes > limit_of(request_) && request_.offload_bytes == 0)
      text += fmt::format("by this estimate it is over the GPU's {}; estimates are {:g} % off on average\n",
                          size_text(limit_of(request_)), 100 * step::kMemoryError);
    text +=
        "MFU counts model FLOPs: nothing recomputed, the causal mask not halved, over the GPUs' peak in the precision "
        "of the products\n";
    if (transformer()) text += accuracy();
    return text;
  }

  std::string stay_text() const {
    if (!found_.stay_step_s) return found_.no_stay;
    return fmt::format("{} a step while it stays", format_seconds(*found_.stay_step_s));
  }

  // --- explain -------------------------------------------------------------------------------------------------------

  Table memory_table() const {
    Table table({"stage", "term", "bytes>", "size>", "how~"});
    table.leave_out_first({"bytes"});
    if (found_.result.best.empty()) return table;
    const step::MemoryEstimate estimate = memory_of(request_, found_.result.best.front());
    for (const StageRun& run : runs_of(estimate)) {
      for (const step::MemoryTerm& term : run.memory->terms)
        table.row({run.name, term.name, fmt::format("{:.0f}", term.bytes), size_text(term.bytes), term.formula});
      table.row({run.name, "sum", fmt::format("{:.0f}", run.memory->bytes()), size_text(run.memory->bytes()), ""});
      table.rule();
    }
    table.row({"", "margin", fmt::format("{:.0f}", estimate.margin_bytes), size_text(estimate.margin_bytes),
               estimate.margin_formula});
    table.row({"", "worst stage and margin", fmt::format("{:.0f}", estimate.bytes()), size_text(estimate.bytes()), ""});
    return table;
  }

  std::string explanation() const {
    if (found_.result.best.empty()) return "";
    const Candidate& best = found_.result.best.front();
    Table step({"part of the step", "time>", "share>"});
    for (const Part& part : parts_of(best.time)) {
      if (part.seconds != 0)
        step.row({part.name, format_seconds(part.seconds), percent(part.seconds / best.time.step_s)});
    }
    step.rule();
    step.row({"step", format_seconds(best.time.step_s), percent(1)});
    return fmt::format("{}: memory of a GPU\n{}\n{}\nmodel {:.4g} FLOPs a step, computed {:.4g}: MFU {}, HFU {}\n",
                       canonical(best.config), memory_table().text(screen_), step.text(screen_), best.time.model_flops,
                       best.time.hardware_flops, percent(best.time.mfu), percent(best.time.hfu));
  }

  ordered_json explain_json() const {
    const Candidate& best = found_.result.best.front();
    const step::MemoryEstimate estimate = memory_of(request_, best);
    ordered_json stages = ordered_json::array();
    for (const step::StageMemory& stage : estimate.stages) {
      ordered_json terms = ordered_json::array();
      for (const step::MemoryTerm& term : stage.terms)
        terms.push_back({{"name", term.name}, {"bytes", term.bytes}, {"how", term.formula}});
      stages.push_back({{"stage", stage.stage}, {"bytes", stage.bytes()}, {"terms", terms}});
    }
    return {{"layout", canonical(best.config)},
            {"memory_bytes", estimate.bytes()},
            {"margin_bytes", estimate.margin_bytes},
            {"stages", stages}};
  }

  // --- JSON ----------------------------------------------------------------------------------------------------------

  ordered_json context() const {
    const step::SearchSpace& space = request_.space;
    const step::SearchResult& result = found_.result;
    ordered_json out = {{"model", request_.model.name},
                        {"gpus", space.gpus},
                        {"gpu", gpu_names()},
                        {"gpus_per_host", space.host.gpus},
                        {"gpu_memory_bytes", limit_of(request_)},
                        {"headroom", std::max(0.0, space.headroom)},
                        {"dp_overlap", std::string(name_of(space.base.data_overlap))},
                        {"kernels", std::string(name_of(space.base.kernels))},
                        {"gradient_bytes", space.base.precision.gradient_bytes},
                        {"global_batch", space.base.global_batch},
                        {"batch_tolerance", space.batch_tolerance},
                        {"sequence", space.base.sequence},
                        {"precision", space.base.precision.name},
                        {"schedule", std::string(name_of(space.base.schedule))},
                        {"objective", std::string(name_of(objective()))},
                        {"search",
                         {{"points", result.points},
                          {"priced", result.priced},
                          {"too_large", result.too_large},
                          {"bounded_away", result.bounded_away},
                          {"unreachable", result.unreachable}}}};
    if (!request_.software.empty()) out["software"] = request_.software;
    if (!result.idle.empty()) out["idle"] = result.idle;
    if (request_.segment > 0) out["gpus_of_domain"] = request_.segment;
    if (found_.not_planned > 0) out["changes_not_planned"] = found_.not_planned;
    if (!request_.network_of.empty())
      out["network"] = {
          {"as", request_.network_of}, {"nics", space.host.nics}, {"nic_bytes_per_s", space.host.nic_bytes_per_s}};
    if (transformer()) {
      out["step_accuracy"] = ordered_json::array();
      for (const std::string& gpu : gpu_kinds()) {
        const step::StepAccuracy known = accuracy_of(gpu);
        out["step_accuracy"].push_back({{"gpu", gpu},
                                        {"calibrated", known.calibrated},
                                        {"published", known.group},
                                        {"given", name_of(known.given)},
                                        {"rows", known.rows},
                                        {"low", known.low},
                                        {"high", known.high}});
      }
    }
    if (!changes_) return out;
    out["from"] = {{"layout", canonical(request_.from->config)}, {"can_stay", found_.stay_step_s.has_value()}};
    if (found_.stay_step_s) out["from"]["step_s"] = *found_.stay_step_s;
    if (!found_.no_stay.empty()) out["from"]["why_not"] = found_.no_stay;
    return out;
  }

  ordered_json candidate_json(size_t index) const {
    const Candidate& one = found_.result.best[index];
    ordered_json parts;
    for (const Part& part : parts_of(one.time)) parts[fmt::format("{}_s", part.name)] = part.seconds;
    ordered_json out = {{"layout", canonical(one.config)},
                        {"gpus", one.config.world()},
                        {"global_batch", one.training.global_batch},
                        {"micro_batch", one.training.micro_batch},
                        {"micro_batches", one.training.micro_batches(one.config.dp)},
                        {"recompute", name_of(one.training.recompute)},
                        {"step_s", one.time.step_s},
                        {fmt::format("{}_per_s_per_gpu", unit()), rate(one)},
                        {"mfu", one.time.mfu},
                        {"hfu", one.time.hfu},
                        {"memory_bytes", one.memory_bytes},
                        {"bubble", one.time.bubble_s / one.time.step_s},
                        {"parts", parts},
                        {"score", one.score}};
    if (one.change) {
      out["change"] = {{"reconfiguration_s", one.change->reconfiguration_s},
                       {"bytes_moved", one.change->bytes_moved},
                       {"bytes_between_hosts", one.change->bytes_between_hosts}};
    }
    if (one.pay_off_steps) out["pay_off_steps"] = *one.pay_off_steps;
    if (index < found_.no_change.size() && !found_.no_change[index].empty())
      out["unreachable"] = found_.no_change[index];
    return out;
  }

  ordered_json no_fit_json(const step::NoFit& no_fit) const {
    const step::StageMemory& worst = no_fit.memory.worst();
    return {{"nearest", canonical(no_fit.nearest.config)},
            {"memory_bytes", no_fit.nearest.memory_bytes},
            {"stage", worst.stage},
            {"tightest_term", no_fit.tightest_term},
            {"remedies", no_fit.remedies}};
  }

  const ParallelizeRequest& request_;
  const Parallelized& found_;
  Screen screen_;
  bool explain_ = false, weighed_ = false, fewer_ = false, changes_ = false;
};

}  // namespace

std::string parallelize_text(const ParallelizeRequest& request, const Parallelized& found, const std::string& format,
                             bool explain, const Screen& screen) {
  const Printer printer(request, found, explain, screen);
  return format == "json" ? printer.json() : format == "csv" ? printer.csv() : printer.text();
}

std::string no_fit_text(const ParallelizeRequest& request, const step::NoFit& no_fit) {
  const step::StageMemory& worst = no_fit.memory.worst();
  const double term = no_fit.tightest_term == "margin" ? no_fit.memory.margin_bytes : worst.bytes(no_fit.tightest_term);
  std::string text = fmt::format(
      "scalai parallelize: error: no configuration of {} fits {}{} on {} GPUs. The nearest, {} with micro-batches of "
      "{} and recomputation {}, needs {} on stage {}, most of it {} ({})\n",
      request.model.name, size_text(limit_of(request)),
      request.space.headroom > 0 ? fmt::format(" with {:g} % free", 100 * request.space.headroom)
      : request.space.headroom < 0
          ? fmt::format(", even with {:g} % more for the mean error of estimates", -100 * request.space.headroom)
          : "",
      request.space.gpus, canonical(no_fit.nearest.config), no_fit.nearest.training.micro_batch,
      name_of(no_fit.nearest.training.recompute), size_text(no_fit.nearest.memory_bytes), worst.stage,
      no_fit.tightest_term, size_text(term));
  for (const std::string& remedy : no_fit.remedies) text += fmt::format("would fit: {}\n", remedy);
  return text;
}

}  // namespace scalai::apps
