// step_parts of step_time.h: from one layer's work to that of every stage and chunk.
#include <algorithm>

#include "ptc/base/status.h"
#include "ptc/cost/step/collectives.h"
#include "ptc/cost/step/layer_work.h"
#include "ptc/cost/step/memory.h"
#include "ptc/cost/step/step_time.h"

namespace scalai::step {
namespace {

// Convolutions are bound by memory more than by products: of the rate of large products, ResNet-50 reaches 0.3
// (NVIDIA DeepLearningExamples, V100 and A100).
constexpr double kConvolution = 0.3;

// Work beside a collective over the network is slowed down by so much of its time: it has few kernels on the GPU.
constexpr double kBesideCost = 0.05;

// ZeRO-3 that gathers what it needs when it needs it, tensor by tensor and with nothing to hide it: of what rings over
// all hosts reach otherwise. Fitted to PTD-P's Table 2, ZeRO-3 with 174.6 billion parameters on 768 A100.
constexpr double kOnDemandShare = 0.34;

// Elements on one rank, by the group their gradients are summed over.
struct Held {
  double dense = 0, expert = 0;
};
Held operator*(double n, Held a) { return {n * a.dense, n * a.expert}; }

class Parts {
 public:
  Parts(const Workload& workload, const Hardware& hardware)
      : workload_(workload), hardware_(hardware), links_(links_of(hardware)), on_demand_(links_) {
    on_demand_.network_efficiency *= kOnDemandShare;
    on_demand_.simple_only = true;
  }

  StepParts all() const {
    const collection::ParallelConfig& config = workload_.config;
    StepParts parts;
    parts.micro_batches = workload_.training.micro_batches(config.dp);
    parts.stages.resize(static_cast<size_t>(config.pp));
    const std::vector<int> layers = layers_per_stage(workload_);
    Layers layer;
    for (int s = 0; s < config.pp; ++s) {
      if (s == 0 || hardware_.stages.size() > 1) layer = layers_of(hardware_.stage(s));
      StageWork& work = parts.stages[static_cast<size_t>(s)];
      work = as_before(s, layers) ? parts.stages[static_cast<size_t>(s - 1)] : stage(s, layers, layer);
      if (hardware_.hops.size() > 1) work.send = boundary(s);
    }
    const double hidden = hidden_share();
    if (overlapping()) parts.gradients_hidden = hidden;
    if (prefetching()) parts.parameters_hidden = hidden;
    parts.sends_hidden = config.vpp > 1 && workload_.training.overlap == Overlap::kAll;
    parts.sends_block = config.pp > 1 && exchanging();
    return parts;
  }

 private:
  // Most stages are as the one before.
  bool as_before(int s, const std::vector<int>& layers) const {
    const int pp = workload_.config.pp;
    if (s < 2 || s == pp - 1 || hardware_.stages.size() > 1) return false;
    for (int c = 0; c < workload_.config.vpp; ++c) {
      const auto at = static_cast<size_t>(c * pp + s);
      if (layers[at] != layers[at - 1]) return false;
    }
    return true;
  }

  bool convolutional() const { return workload_.model.heads == 0; }
  int zero() const { return workload_.config.zero; }

  // Where some layers are computed again as a whole: such a layer, and one of the others.
  struct Layers {
    LayerWork again, kept;
  };
  Layers layers_of(const StageGpu& gpu) const {
    const Training& training = workload_.training;
    Layers layers{.again = one_layer(workload_, gpu), .kept = {}};
    if (training.recompute.kind != Recompute::Kind::kLayers || training.recompute == Recompute::kFull) return layers;
    Training keeps = training;
    keeps.recompute = Recompute::kNone;
    layers.kept = one_layer({workload_.model, workload_.config, keeps}, gpu);
    return layers;
  }
  // Of those of a chunk.
  LayerWork chunk_of(const Layers& layers, int count) const {
    const Recompute& recompute = workload_.training.recompute;
    const int again = recompute.kind == Recompute::Kind::kLayers ? recompute.whole_layers(count) : count;
    const int kept = count - again;
    if (kept == 0) return {times(layers.again.forward, count), times(layers.again.backward, count)};
    return {together(times(layers.again.forward, again), times(layers.kept.forward, kept)),
            together(times(layers.again.backward, again), times(layers.kept.backward, kept))};
  }

  LayerWork one_layer(const Workload& workload, const StageGpu& gpu) const {
    if (convolutional()) {
      const double flops = workload_.model.flops_per_sample * workload_.training.micro_batch / workload_.model.layers;
      const double rate = rates_of(gpu, workload_.training.precision.math).product_flops * kConvolution;
      LayerWork work;
      work.forward.matrix_s = flops / 3 / rate;
      work.backward.matrix_s = flops * 2 / 3 / rate;
      return work;
    }
    LayerWork work = layer_work(workload, hardware_, gpu);
    add_synchronisation(layer_elements(), tensors(), work);
    // What is computed again is gathered again, unless prefetched for both.
    if (zero() >= 3 && !overlapping() && workload.training.recompute.kind == Recompute::Kind::kLayers) {
      work.backward.dp = together(work.backward.dp, work.forward.dp);
    }
    return work;
  }

  // What one micro-batch gathers and scatters of these elements, in so many tensors, beside this work.
  void add_synchronisation(const Held& held, double tensors, LayerWork& work) const {
    const Precision& p = workload_.training.precision;
    const double parts = zero() >= 3 && !overlapping() ? tensors : 1;  // on demand one by one
    const Communication gather =
        zero() >= 3 ? over_groups(Collective::kAllGather, held, p.param_bytes, parts) : Communication{};
    const Communication scatter =
        per_micro_batch() ? over_groups(Collective::kReduceScatter, held, p.gradient_bytes, parts) : Communication{};
    // What is not asked for ahead is waited for.
    const double forward_s = prefetching() ? work.forward.compute_s() : 0;
    const double backward_s = overlapping() ? work.backward.compute_s() : 0;
    work.forward.dp = beside(gather, forward_s);
    work.backward.dp =
        prefetching() ? beside(together(gather, scatter), backward_s) : together(gather, beside(scatter, backward_s));
  }

  // Gradients that have no place of their own are scattered after each micro-batch.
  bool per_micro_batch() const { return shards_gradients(workload_.config); }
  bool overlapping() const { return workload_.training.data_overlap != DataOverlap::kNone; }
  bool prefetching() const { return workload_.training.data_overlap == DataOverlap::kAll; }

  // Of sums and gathers that go bucket by bucket beside the work. The last bucket of gradients is complete when there
  // is no work left, and the first bucket of parameters is waited for.
  double hidden_share() const {
    const Held first = stage_elements(0, workload_.model.layers / workload_.config.pp);
    const double bucket = workload_.training.bucket_parameters(hardware_.dp.ranks);
    const double alone = std::min(1.0, bucket / (first.dense + first.expert));
    return (1 - kBesideCost) * (1 - alone);
  }

  Communication beside(const Communication& whole, double work_s) const {
    return whole.seconds > 0 ? exposed(whole, work_s) : whole;
  }

  Held layer_elements() const {
    const ModelShape& m = workload_.model;
    const collection::ParallelConfig& config = workload_.config;
    const double local = m.experts > 0 ? static_cast<double>(m.experts) / config.ep : 0;
    return {static_cast<double>(m.layer_cut_params) / config.tp + static_cast<double>(m.layer_replicated_params),
            local * static_cast<double>(m.layer_expert_params) / config.etp};
  }
  double word_embedding() const { return static_cast<double>(workload_.model.embedding_params) / workload_.config.tp; }
  Held stage_elements(int s, int layers) const {
    const ModelShape& m = workload_.model;
    Held held = layers * layer_elements();
    if (s == 0) held.dense += word_embedding() + static_cast<double>(m.first_params);
    if (s == workload_.config.pp - 1) {
      held.dense += static_cast<double>(m.last_params) + static_cast<double>(m.head_params) / workload_.config.tp;
      if (m.tied && s > 0) held.dense += word_embedding();
    }
    return held;
  }

  // Of a layer: matrices, norms, biases.
  double tensors() const {
    const ModelShape& m = workload_.model;
    return (m.gated ? 5 : 4) + (m.biases ? 4 + 4 : 2);
  }

  // One collective over each group for each of n parts.
  Communication over_groups(Collective kind, const Held& held, double bytes, double n = 1) const {
    const Links& links = zero() >= 3 && !overlapping() ? on_demand_ : links_;
    return times(together(collective(links, kind, hardware_.dp, held.dense * bytes / n),
                          collective(links, kind, hardware_.edp, held.expert * bytes / n)),
                 n);
  }

  // Updated parameters of a stage to all: gathered where each rank has a part of the whole, broadcast by one rank after
  // the other where each has whole tensors.
  Communication parameters(const Held& held, int layers) const {
    const double bytes = workload_.training.precision.param_bytes;
    if (workload_.training.runs_in() != Framework::kInternEvo) return over_groups(Collective::kAllGather, held, bytes);
    const double owners = std::min<double>(hardware_.dp.ranks, layers * tensors() + 2);
    return times(over_groups(Collective::kBroadcast, held, bytes / owners), owners);
  }

  // Memory-bound, a kernel each: gradients' norm and scale, in 16 bits also copied and unscaled, the update of the
  // state, parameters written from their fp32 copies, gradients cleared.
  double optimizer_s(const Held& held, int layers, const StageGpu& gpu) const {
    const Precision& p = workload_.training.precision;
    const double shards = zero() >= 1 ? hardware_.dp.ranks : 1, expert_shards = zero() >= 1 ? hardware_.edp.ranks : 1;
    const double own = held.dense / shards + held.expert / expert_shards;
    const double local = per_micro_batch() ? own : held.dense + held.expert;
    const double unscaled = p.math == Math::kF16 ? p.gradient_bytes + 2 * 4 : 0;
    // FP8 copies of the matrices, one transposed, are made once a step.
    const double cast = is_narrow(p.math) ? (p.param_bytes + 2) * (held.dense + held.expert) : 0;
    const double update_s = orthogonal_s(layers * layer_elements(), gpu) / (zero() >= 1 ? hardware_.dp.ranks : 1);
    const double state = 2 * p.optimizer_bytes + p.gradient_bytes + unscaled + 3 * 4 + 4 + p.param_bytes;
    // Scaling: flattened, divided, to 32 bits and back, copied to their places.
    const double copied = workload_.training.runs_in() == Framework::kScaling ? 8 * p.gradient_bytes + 2 * 4 : 0;
    const double bytes = own * state + local * (p.gradient_bytes + copied);
    const double rate = rates_of(gpu, p.math).bytes_per_s;
    return rate > 0 ? (bytes + cast) / rate + update_s : 0;
  }

  // Muon makes each matrix's moment orthogonal: five times A = X·Xᵀ, B = A·A, X·B in 16 bits, 4·m²·n + 2·m³ operations
  // for m by n, m the smaller (Jordan et al. 2024). Whole matrices, dealt out over the ranks that share the state.
  double orthogonal_s(const Held& held, const StageGpu& gpu) const {
    const ModelShape& m = workload_.model;
    if (workload_.training.precision.optimizer != model::Optimizer::kMuon) return 0;
    const auto of_element = [](double a, double b) {
      const double small = std::min(a, b), large = std::max(a, b);
      return 5 * (4 * small + 2 * small * small / large);
    };
    const double h = static_cast<double>(m.hidden);
    const double flops = held.dense * of_element(h, m.experts > 0 ? h : static_cast<double>(m.ffn)) +
                         held.expert * of_element(h, static_cast<double>(m.ffn));
    const double rate = rates_of(gpu, Math::kBF16).product_flops;
    return rate > 0 ? flops / rate : 0;
  }

  // What a message between a stage and the next finds.
  Links links_after(int s) const {
    Links links = links_;
    links.network_bytes_per_s = hardware_.hop(s).bytes_per_s;
    return links;
  }

  Communication boundary(int s) const {
    const collection::ParallelConfig& config = workload_.config;
    if (config.pp == 1) return {};
    const Training& training = workload_.training;
    const double tokens = static_cast<double>(training.micro_batch) * training.sequence / config.cp;
    const double bytes = tokens * static_cast<double>(workload_.model.hidden) * training.precision.activation_bytes;
    if (exchanging()) return exchange(s, bytes);
    // Each rank of a tensor-parallel group sends a part (scatter/gather, Narayanan et al., SC'21, 4.1); gathered again
    // behind the boundary unless sequence parallelism wants parts anyway.
    Communication sent = message(links_after(s), hardware_.hop(s).crosses_hosts, bytes / config.tp);
    if (config.tp > 1 && !training.sequence_parallel) {
      sent = together(sent, collective(links_, Collective::kAllGather, hardware_.tp, bytes));
    }
    return sent;
  }

  bool exchanging() const {
    const Framework framework = workload_.training.runs_in();
    return framework == Framework::kDeepSpeed || framework == Framework::kScaling;
  }

  // An activation there and a gradient back, for whose time both stages do nothing else. Each has the traffic of its
  // own direction; the other one's time is latency to it.
  Communication exchange(int s, double bytes) const {
    const collection::ParallelConfig& config = workload_.config;
    const Training& training = workload_.training;
    const bool deepspeed = training.runs_in() == Framework::kDeepSpeed;
    const bool whole = !deepspeed && !training.sequence_parallel;
    Communication sent = message(links_after(s), hardware_.hop(s).crosses_hosts, whole ? bytes : bytes / config.tp);
    sent.latency_s += sent.seconds;
    sent.seconds *= 2;
    if (config.tp == 1 || !deepspeed) return sent;
    // Half of three gathers for each direction: the input, the output again, and its gradient.
    return together(sent, times(collective(links_, Collective::kAllGather, hardware_.tp, bytes), 1.5));
  }

  StageWork stage(int s, const std::vector<int>& layers, const Layers& layer) const {
    const collection::ParallelConfig& config = workload_.config;
    const StageGpu& gpu = hardware_.stage(s);
    StageWork work;
    work.forward.reserve(static_cast<size_t>(config.vpp));
    work.backward.reserve(static_cast<size_t>(config.vpp));
    int held_layers = 0;
    for (int c = 0; c < config.vpp; ++c) {
      // Further tokens are predicted behind the last layer.
      const bool last = s == config.pp - 1 && c == config.vpp - 1;
      const int count = layers[static_cast<size_t>(c * config.pp + s)] + (last ? workload_.training.mtp : 0);
      held_layers += count;
      LayerWork chunk = chunk_of(layer, count);
      work.forward.push_back(chunk.forward);
      work.backward.push_back(chunk.backward);
    }
    const Held held = stage_elements(s, held_layers);
    if (convolutional()) {
      LayerWork whole{.forward = work.forward.front(), .backward = work.backward.front()};
      add_synchronisation(held, 1, whole);
      work.forward.front() = whole.forward;
      work.backward.front() = whole.backward;
    } else {
      add_ends(s, gpu, work);
    }
    const Precision& p = workload_.training.precision;
    const Held trained = trained_share(workload_, s) * held;
    if (!per_micro_batch()) {
      const bool whole = zero() == 0 || workload_.training.sums_whole_gradients();
      work.gradients = over_groups(whole ? Collective::kAllReduce : Collective::kReduceScatter, trained,
                                   workload_.training.summed_gradient_bytes());
    }
    if (zero() == 1 || zero() == 2) work.parameters = parameters(trained, held_layers);
    if (workload_.model.tied && config.pp > 1 && (s == 0 || s == config.pp - 1)) {
      // The last stage's hop leads back to the first.
      const int back = config.pp - 1;
      const Group ends{.ranks = 2, .per_host = hardware_.hop(back).crosses_hosts ? 1 : 2};
      work.embedding = collective(links_after(back), Collective::kAllReduce, ends, word_embedding() * p.gradient_bytes);
    }
    work.optimizer_s = optimizer_s(trained, held_layers, gpu);
    work.send = boundary(s);
    return work;
  }

  // Embedding and head. What they gather and scatter for each micro-batch goes beside their own work, so that no work
  // hides both that and a layer's. A tied embedding that has both ends on its stage is gathered once for both.
  void add_ends(int s, const StageGpu& gpu, StageWork& work) const {
    const bool begins = s == 0, ends = s == workload_.config.pp - 1;
    if (!begins && !ends) return;
    LayerWork first, last;
    if (begins) first = first_work(workload_, hardware_, gpu);
    if (ends) last = times(last_work(workload_, hardware_, gpu), 1 + workload_.training.mtp);
    LayerWork both{.forward = together(first.forward, last.forward),
                   .backward = together(first.backward, last.backward)};
    const ModelShape& m = workload_.model;
    add_synchronisation(stage_elements(s, 0), begins && ends && !m.tied ? 2 : 1, both);
    // With both ends on one stage there is one chunk.
    ChunkWork& forward = begins ? work.forward.front() : work.forward.back();
    ChunkWork& backward = begins ? work.backward.front() : work.backward.back();
    forward = together(forward, both.forward);
    backward = together(backward, both.backward);
  }

  const Workload& workload_;
  const Hardware& hardware_;
  const Links links_;
  Links on_demand_;
};

}  // namespace

StepParts step_parts(const Workload& workload, const Hardware& hardware) {
  SCALAI_CHECK(!hardware.stages.empty());
  return Parts(workload, hardware).all();
}

}  // namespace scalai::step
