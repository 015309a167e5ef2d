#include "ptc/cost/step/internal/search_space.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numeric>
#include <tuple>

#include "ptc/base/status.h"
#include "ptc/cost/step/devices.h"
#include "ptc/cost/step/kernels.h"

namespace scalai::step {
namespace internal {
namespace {

using collection::ParallelConfig;

bool heads_divide(const ModelShape& model, int tp) {
  if (model.kv_heads < 1) return false;
  const bool kv = tp <= model.kv_heads ? model.kv_heads % tp == 0 : tp % model.kv_heads == 0;
  return model.heads % tp == 0 && kv;
}

bool takes_tp(const ModelShape& model, int tp) {
  if (model.heads == 0) return tp == 1;
  return heads_divide(model, tp) && (model.experts > 0 || model.ffn % tp == 0);
}

std::vector<int> divisors(int number) {
  std::vector<int> found;
  for (int i = 1; i <= number; ++i) {
    if (number % i == 0) found.push_back(i);
  }
  return found;
}

std::vector<int> up_to(int last) {
  std::vector<int> list(static_cast<size_t>(last));
  std::iota(list.begin(), list.end(), 1);
  return list;
}

template <class T>
std::vector<T> sorted(std::vector<T> list) {
  std::sort(list.begin(), list.end());
  list.erase(std::unique(list.begin(), list.end()), list.end());
  return list;
}

// The values of each axis that a pin or the model leaves, whatever the others are.
struct Axes {
  std::vector<int> tp, pp, dp, cp, ep, etp, zero, micro_batch;
  std::vector<Recompute> recompute;

  Axes(const ModelShape& model, const SearchSpace& space) {
    const Pins& pins = space.pins;
    const auto take = [](const std::optional<int>& pin, std::vector<int> otherwise) {
      return pin ? std::vector<int>{*pin} : std::move(otherwise);
    };
    const bool transformer = model.heads > 0;
    std::vector<int> in_host, sequences = {1};
    for (int i = 1; i <= space.host.gpus; ++i) {
      if (takes_tp(model, i)) in_host.push_back(i);
    }
    for (int i = 2; transformer && i <= std::min(space.gpus, space.base.sequence / 2); ++i) {
      if (space.base.sequence % (2 * i) == 0) sequences.push_back(i);
    }
    tp = take(pins.tp, in_host);
    pp = take(pins.pp, up_to(transformer ? model.layers : 1));
    cp = take(pins.cp, sequences);
    const bool must_divide = space.base.whole_batches && space.batch_tolerance == 0;
    dp = take(pins.dp, must_divide                ? divisors(space.base.global_batch)
                       : space.base.whole_batches ? up_to(space.gpus)  // the batch may grow
                                                  : up_to(std::min(space.base.global_batch, space.gpus)));
    ep = take(pins.ep, model.experts > 0 ? divisors(model.experts) : std::vector<int>{1});
    etp = take(pins.etp, {1});
    zero = take(pins.zero, sorted(space.zero_stages));
    micro_batch = take(pins.micro_batch, sorted(space.micro_batches));
    recompute = pins.recompute ? std::vector<Recompute>{*pins.recompute} : sorted(space.recomputes);
    // Flash attention keeps nothing that selective recomputation could leave out.
    const bool same = space.base.flash_attention && recompute.front() == Recompute::kNone;
    if (same) std::erase(recompute, Recompute::kSelective);
    if (!transformer) recompute = {Recompute::kNone};
  }
};

// Loops over the axes, the point filled in from the outside in.
class Enumeration {
 public:
  Enumeration(const ModelShape& model, const SearchSpace& space, const std::function<void(const Point&)>& visit)
      : model_(model), space_(space), axes_(model, space), visit_(visit) {}

  void run() {
    for (const int tp : axes_.tp) {
      for (const int cp : axes_.cp) {
        if (space_.base.sequence_parallel && space_.base.sequence / cp % tp != 0) continue;
        for (const int pp : axes_.pp) {
          if (int64_t{tp} * cp * pp > space_.gpus) break;
          point_ = {.tp = tp, .pp = pp, .cp = cp};
          over_dp();
        }
      }
    }
  }

 private:
  void over_dp() {
    const int group = point_.tp * point_.cp * point_.pp;
    if (space_.all_gpus) {
      point_.dp = space_.gpus / group;
      const bool there = space_.gpus % group == 0 && std::binary_search(axes_.dp.begin(), axes_.dp.end(), point_.dp);
      if (there) over_experts();
      return;
    }
    for (const int dp : axes_.dp) {
      if (int64_t{group} * dp > space_.gpus) break;
      if (group * dp < space_.least_gpus) continue;
      point_.dp = dp;
      over_experts();
    }
  }

  void over_experts() {
    for (const int etp : axes_.etp) {
      for (const int ep : axes_.ep) {
        if ((int64_t{point_.tp} * point_.cp * point_.dp) % (int64_t{ep} * etp) != 0) continue;
        point_.ep = ep;
        point_.etp = etp;
        over_chunks();
      }
    }
  }

  void over_chunks() {
    const bool interleaves = point_.pp > 1 && space_.base.schedule == Schedule::kOneFOneB;
    if (const auto pinned = space_.pins.vpp) {
      if (*pinned == 1 || interleaves) over_batches(*pinned);
      return;
    }
    over_batches(1);
    if (!interleaves) return;
    for (int vpp = 2; point_.pp * vpp <= model_.layers; ++vpp) {
      if (model_.layers % (point_.pp * vpp) == 0) over_batches(vpp);
    }
  }

  void over_batches(int vpp) {
    const int64_t chunks = int64_t{point_.pp} * vpp;
    const ParallelConfig cut{.pp = point_.pp, .vpp = vpp};
    if (chunks > std::max(1, collection::most_virtual_stages(cut, model_.layers))) return;
    if (!space_.pins.stages.empty() && std::ssize(space_.pins.stages) != chunks) return;
    point_.vpp = vpp;
    for (const int micro_batch : axes_.micro_batch) {
      point_.micro_batch = micro_batch;
      const int batch = batch_of(point_, space_);
      if (batch == 0) continue;
      const int64_t share = int64_t{point_.dp} * micro_batch;
      // With fewer, a version of the weights would still be in use when the one after next is made.
      if (space_.base.schedule == Schedule::kTwoBW && (batch + share - 1) / share < point_.pp) continue;
      for (const int zero : axes_.zero) {
        for (const Recompute recompute : axes_.recompute) {
          point_.zero = zero;
          point_.recompute = recompute;
          visit_(point_);
        }
        if (one_holder()) break;
      }
    }
  }

  // Nothing of a stage's state is held twice, or by ranks that could share it out.
  bool one_holder() const {
    const int dense = point_.cp * point_.dp;
    return dense == 1 && (model_.experts == 0 || point_.tp * dense == point_.ep * point_.etp);
  }

  const ModelShape& model_;
  const SearchSpace& space_;
  Axes axes_;
  const std::function<void(const Point&)>& visit_;
  Point point_;
};

class Problems {
 public:
  void add(const std::string& text) { text_ += (text_.empty() ? "" : "\n") + text; }
  void need(bool holds, const std::string& text) {
    if (!holds) add(text);
  }
  absl::Status status() const { return text_.empty() ? absl::OkStatus() : invalid(text_); }

 private:
  std::string text_;
};

void check_sizes(const SearchSpace& space, Problems& problems) {
  const Training& base = space.base;
  problems.need(space.gpus >= 1, "there is nothing to choose on 0 GPUs");
  problems.need(space.host.gpus >= 1, "a host has at least one GPU");
  problems.need(base.global_batch >= 1, "the global batch is 0 samples");
  problems.need(base.sequence >= 1, "the sequence has 0 tokens");
  problems.need(space.keep >= 1, "at least one configuration is kept");
  problems.need(space.batch_tolerance >= 0 && space.batch_tolerance < 1,
                fmt::format("a batch may change by a share of it from 0 to below 1, not {:g}", space.batch_tolerance));
  problems.need(space.batch_tolerance == 0 || base.whole_batches,
                "a tolerance of the batch is of no use where nothing needs to divide it");
  problems.need(space.objective != Objective::kPayOff || space.horizon_s > 0, "the horizon is 0 seconds");
  problems.need(!space.micro_batches.empty() && !space.recomputes.empty() && !space.zero_stages.empty(),
                "micro-batches, recomputations and ZeRO stages have each at least one to try");
  for (const int micro_batch : space.micro_batches)
    problems.need(micro_batch >= 1, fmt::format("a micro-batch has at least one sample, not {}", micro_batch));
  for (const int zero : space.zero_stages)
    problems.need(zero >= 0 && zero <= 3, fmt::format("ZeRO has the stages 0 to 3, not {}", zero));
}

void check_pinned_sizes(const Pins& pins, Problems& problems) {
  const std::pair<const char*, std::optional<int>> axes[] = {
      {"tp", pins.tp}, {"pp", pins.pp},   {"dp", pins.dp},   {"cp", pins.cp},
      {"ep", pins.ep}, {"etp", pins.etp}, {"vpp", pins.vpp}, {"a micro-batch", pins.micro_batch}};
  for (const auto& [axis, size] : axes)
    problems.need(size.value_or(1) >= 1, fmt::format("{} is at least 1, not {}", axis, size.value_or(1)));
  const bool stages = std::all_of(pins.stages.begin(), pins.stages.end(), [](int layers) { return layers >= 1; });
  problems.need(stages, "each pipeline stage needs a layer");
}

// Convolutions keep what they need for the way back.
void check_recompute(const ModelShape& model, const SearchSpace& space, Problems& problems) {
  if (model.heads > 0) return;
  const bool none = space.pins.recompute
                        ? *space.pins.recompute == Recompute::kNone
                        : std::count(space.recomputes.begin(), space.recomputes.end(), Recompute::kNone) > 0;
  problems.need(none, fmt::format("recomputation is not modelled for {}: it is none", model.name));
}

// Learned positions end somewhere.
void check_positions(const ModelShape& model, const Training& base, Problems& problems) {
  if (!model.positions || model.sequence <= 0) return;
  problems.need(base.sequence <= model.sequence,
                fmt::format("a sequence of {} tokens is longer than the {} positions of {}", base.sequence,
                            model.sequence, model.name));
}

void check_model_pins(const ModelShape& model, const Pins& pins, Problems& problems) {
  if (model.heads == 0) {
    bool one = pins.stages.empty();
    for (const auto& axis : {pins.tp, pins.pp, pins.cp, pins.vpp, pins.ep, pins.etp})
      one = one && axis.value_or(1) == 1;
    problems.need(one, fmt::format("{} has data parallelism alone: tp, pp, cp and vpp are 1", model.name));
    return;
  }
  if (pins.tp) {
    problems.need(heads_divide(model, *pins.tp), fmt::format("tp{} does not divide the {} attention and {} key-value "
                                                             "heads of {}",
                                                             *pins.tp, model.heads, model.kv_heads, model.name));
    problems.need(
        model.experts > 0 || model.ffn % *pins.tp == 0,
        fmt::format("tp{} does not divide the {} feed-forward columns of {}", *pins.tp, model.ffn, model.name));
  }
  const int chunks = pins.pp.value_or(1) * pins.vpp.value_or(1);
  const ParallelConfig cut{.pp = pins.pp.value_or(1), .vpp = pins.vpp.value_or(1)};
  problems.need(chunks <= collection::most_virtual_stages(cut, model.layers),
                fmt::format("{} pipeline stages are more than the {} layers of {}", chunks, model.layers, model.name));
  const int sum = std::accumulate(pins.stages.begin(), pins.stages.end(), 0);
  problems.need(pins.stages.empty() || sum == model.layers,
                fmt::format("stages sum to {} layers, {} has {}", sum, model.name, model.layers));
  if (model.experts == 0) {
    problems.need(pins.ep.value_or(1) == 1 && pins.etp.value_or(1) == 1,
                  fmt::format("ep{} needs experts, {} has none", pins.ep.value_or(1), model.name));
    return;
  }
  problems.need(model.experts % pins.ep.value_or(1) == 0, fmt::format("ep{} does not divide the {} experts of {}",
                                                                      pins.ep.value_or(1), model.experts, model.name));
  problems.need(model.ffn % pins.etp.value_or(1) == 0, fmt::format("etp{} does not divide the {} feed-forward columns "
                                                                   "of {}",
                                                                   pins.etp.value_or(1), model.ffn, model.name));
  problems.need(pins.order.empty() || pins.order.front() == "pp" || pins.order.back() == "pp",
                "a model with experts needs pp first or last in order=");
}

void check_other_pins(const SearchSpace& space, Problems& problems) {
  const Pins& pins = space.pins;
  const Training& base = space.base;
  const int cp = pins.cp.value_or(1);
  problems.need(
      cp == 1 || base.sequence % (2 * cp) == 0,
      fmt::format("cp{} does not cut a sequence of {} tokens into {} parts alike", cp, base.sequence, 2 * cp));
  problems.need(!base.sequence_parallel || base.sequence / cp % pins.tp.value_or(1) == 0,
                fmt::format("sequence parallelism needs tp{} to divide the {} tokens that cp{} leaves a rank",
                            pins.tp.value_or(1), base.sequence / cp, cp));
  const Point pinned{.dp = pins.dp.value_or(1), .micro_batch = pins.micro_batch.value_or(1)};
  problems.need(batch_of(pinned, space) > 0,
                fmt::format("a global batch of {} is no multiple of dp · micro-batch = {}{}", base.global_batch,
                            int64_t{pinned.dp} * pinned.micro_batch,
                            space.batch_tolerance > 0 ? ", nor is one within the tolerance" : ""));
  problems.need(pins.zero.value_or(0) <= 3, "ZeRO has the stages 0 to 3");
  problems.need(pins.vpp.value_or(1) == 1 || pins.pp.value_or(2) > 1, "vpp needs a pipeline: pp is 1");
  problems.need(pins.vpp.value_or(1) == 1 || base.schedule == Schedule::kOneFOneB,
                fmt::format("vpp interleaves 1f1b, not {}", name_of(base.schedule)));
  const int64_t world = int64_t{pins.tp.value_or(1)} * pins.pp.value_or(1) * cp * pins.dp.value_or(1);
  if (world > space.gpus) {
    problems.add(fmt::format("the pinned axes need {} GPUs, there are {}", world, space.gpus));
  } else {
    problems.need(!space.all_gpus || space.gpus % world == 0,
                  fmt::format("the pinned axes take {} GPUs at a time, which does not divide {}", world, space.gpus));
  }
}

}  // namespace

bool goes_first(const Point& a, const Point& b) {
  const auto key = [](const Point& p) {
    return std::make_tuple(p.gpus(), p.tp, p.pp, p.cp, p.ep, p.etp, p.vpp, p.zero, -p.micro_batch, p.recompute);
  };
  return key(a) < key(b);
}

void for_each_point(const ModelShape& model, const SearchSpace& space, const std::function<void(const Point&)>& visit) {
  Enumeration(model, space, visit).run();
}

ParallelConfig config_of(const Point& point, const SearchSpace& space) {
  ParallelConfig config{.tp = point.tp,
                        .pp = point.pp,
                        .dp = point.dp,
                        .cp = point.cp,
                        .ep = point.ep,
                        .etp = point.etp,
                        .vpp = point.vpp,
                        .zero = point.zero,
                        .stages = space.pins.stages};
  if (!space.pins.order.empty()) config.order = space.pins.order;
  return config;
}

Training training_of(const Point& point, const SearchSpace& space) {
  Training training = space.base;
  training.global_batch = batch_of(point, space);
  training.micro_batch = point.micro_batch;
  training.recompute = point.recompute;
  return training;
}

int batch_of(const Point& point, const SearchSpace& space) {
  const int64_t wanted = space.base.global_batch, share = int64_t{point.dp} * point.micro_batch;
  if (!space.base.whole_batches) return share <= wanted ? static_cast<int>(wanted) : 0;
  const int64_t unit = share * (point.vpp > 1 ? point.pp : 1);
  const int64_t below = wanted / unit * unit, above = below + unit;
  if (below == wanted) return static_cast<int>(wanted);
  const int64_t batch = below > 0 && wanted - below <= above - wanted ? below : above;
  const auto change = static_cast<double>(std::abs(batch - wanted));
  return change < space.batch_tolerance * static_cast<double>(wanted) ? static_cast<int>(batch) : 0;
}

int64_t memory_limit(const SearchSpace& space) {
  const int64_t whole = space.memory_bytes > 0 ? space.memory_bytes : space.host.gpu.memory_bytes;
  return static_cast<int64_t>(static_cast<double>(whole) * (1 - space.headroom));
}

double tolerance_for(int batch, int wanted) {
  const double change = std::abs(batch - wanted) / static_cast<double>(wanted);
  return (std::floor(change * 1000) + 1) / 1000;
}

namespace {

// "a batch of 1020 does (batch_tolerance 0.004)": the nearest that a layout of these GPUs divides; "" = none is near.
std::string tolerant_batch(const ModelShape& model, const SearchSpace& space) {
  SearchSpace looser = space;
  looser.batch_tolerance = kTriedTolerance;
  const int wanted = space.base.global_batch;
  int nearest = 0;
  for_each_point(model, looser, [&](const Point& point) {
    const int batch = batch_of(point, looser);
    if (nearest == 0 || std::abs(batch - wanted) < std::abs(nearest - wanted)) nearest = batch;
  });
  if (nearest == 0) return "";
  return fmt::format("a batch of {} does (batch_tolerance {:g})", nearest, tolerance_for(nearest, wanted));
}

}  // namespace

std::string why_empty(const ModelShape& model, const SearchSpace& space) {
  SearchSpace looser = space;
  const auto any = [&] {
    bool found = false;
    for_each_point(model, looser, [&](const Point&) { found = true; });
    return found;
  };
  const std::string start = fmt::format("no configuration of {} on {} GPUs divides the global batch of {} samples",
                                        model.name, space.gpus, space.base.global_batch);
  looser.micro_batches = divisors(space.base.global_batch);
  looser.pins.micro_batch.reset();
  if (any()) return fmt::format("{}; smaller micro-batches than {} do", start, fmt::join(space.micro_batches, ", "));
  looser = space;
  const std::string tolerant = space.base.whole_batches ? tolerant_batch(model, space) : "";
  looser.all_gpus = false;
  if (any()) return fmt::format("{}; fewer GPUs do{}{}", start, tolerant.empty() ? "" : ", and ", tolerant);
  if (!tolerant.empty()) return fmt::format("{}; {}", start, tolerant);
  looser.pins = {};
  return any() ? fmt::format("{} with these pins; others do", start) : start;
}

Bound::Bound(const ModelShape& model, const SearchSpace& space) : space_(space) {
  const double tokens = static_cast<double>(space.base.global_batch) * space.base.sequence;
  const Math math = space.base.precision.math;
  const auto rate_of = [&](const cluster::GpuKind& gpu) {
    return matrix_rate(gpu, math) > 0 ? rates_of({.gpu = gpu}, math, space.base.kernels).product_flops : 0;
  };
  double rate = rate_of(space.host.gpu);
  for (const cluster::Host& host : space.host_kinds) rate = std::max(rate, rate_of(host.gpu));
  if (model.heads == 0 || rate <= 0) return;  // 0 bounds anything
  const auto hidden = static_cast<double>(model.hidden);
  const double attention =
      static_cast<double>(model.attention_in_params + model.attention_whole_params + model.attention_out_params);
  const double state_space = hidden * static_cast<double>(model.state_space.columns() + model.state_space.inner);
  const auto mlp = [&](int64_t width) { return hidden * static_cast<double>(width) * (model.gated ? 3 : 2); };
  const Blocks& blocks = model.blocks;
  const double layer = blocks.attention * attention + blocks.state_space * state_space +
                       blocks.dense * mlp(model.dense_ffn) + blocks.sparse * mlp(model.ffn) * model.experts_per_token;
  // Two operations a weight and token, three times: forward, and back to inputs and, where it is trained, to weights.
  const int passes = space.base.lora > 0 ? 2 : 3;
  layers_s_ = 2 * passes * tokens * model.layers * layer / rate;
  head_s_ = 6 * tokens * hidden * static_cast<double>(model.vocab) / rate;
}

Bound::Least Bound::of(const Point& point) const {
  // Of all these GPUs the slowest one counts, whatever hardware they are.
  const double speed = slowest_share(point.gpus()) * point.gpus();
  const double layers_s = layers_s_ * (point.recompute == Recompute::kFull ? 4.0 / 3 : 1) / speed;
  const int64_t share = int64_t{point.dp} * point.micro_batch;
  const auto micro_batches = static_cast<double>((batch_of(point, space_) + share - 1) / share);
  const bool flushes = space_.base.schedule == Schedule::kOneFOneB || space_.base.schedule == Schedule::kGPipe;
  return {.work_s = layers_s + head_s_ / speed,
          .wait_s = flushes ? layers_s * (point.pp - 1) / (micro_batches * point.vpp) : 0};
}

}  // namespace internal

absl::Status check_space(const ModelShape& model, const SearchSpace& space) {
  internal::Problems problems;
  internal::check_sizes(space, problems);
  internal::check_pinned_sizes(space.pins, problems);
  SCALAI_RETURN_IF_ERROR(problems.status());
  internal::check_positions(model, space.base, problems);
  internal::check_recompute(model, space, problems);
  internal::check_model_pins(model, space.pins, problems);
  internal::check_other_pins(space, problems);
  return problems.status();
}

}  // namespace scalai::step
